/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line as a shell calls it: for each line of arguments what is asked of the aggregator, what is printed, and the exit
 * code. The aggregator is a table of answers on 127.0.0.1.
 *
 *   verbs_test PATH-OF-TUTTI
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"
#include "tests/lib/temp_dir.h"
#include "tests/unit/net/http_fixture.h"

#define S1	  "2026_11_29_01_00_00_abc123"
#define S2	  "2026_11_28_01_00_00_abc456"
#define ARGS_MOST 40
#define ANSWERS	  4

extern char **environ;

/* What a verb is to do. "'" in requests and answers is a quotation mark. */
struct row {
	const char *args; /* words, with blanks between */
	int code;
	/* "METHOD TARGET BODY", lines; NULL = none is sent */
	const char *requests;
	/* "METHOD TARGET" and what it is answered; a status other than 200 stands before the document */
	const char *answers[ANSWERS][2];
	const char *out; /* all of stdout; NULL = not looked at */
	const char *says; /* stderr has it; NULL = not looked at */
};

/* ---- documents ---- */

#define HOST_A \
	"{'host': 'host-a', 'state': 'connected', 'address': '10.0.0.1', 'seen_ns': " \
	"1790000060000000000, " \
	"'clock': {'calibrated': true, 'offset_ns': -1500000000, 'bound_ns': 12000, 'grade': " \
	"'B', 'rate_ppb': -2500, " \
	"'jitter_ns': 800, 'rtt_min_ns': 150000, 'method': 'udp-kernel', 'probes': 64, " \
	"'wall_synced': true, " \
	"'wall_error_ns': 3000000, 'steps': [{'kind': 'set', 'from_ns': 1790000000000000000, " \
	"'to_ns': 1790000000020000000, " \
	"'delta_ns': -5000000000}]}, 'steps': {'step': 41, 'period_ns': 250000000}, " \
	"'tracers': [{'name': 'cpu', 'state': 'ok', 'begin_ns': 1790000002000000000}, " \
	"{'name': 'logs', 'state': 'off', 'reason': 'no journal'}], " \
	"'jobs': [{'pid': 77, 'command': 'python train.py', 'framework': 'jax', 'address': " \
	"'127.0.0.1:9999', 'state': 'ready'}], " \
	"'more_jobs': 2, 'labels': {'role': 'worker', 'zone': 'b'}}"
#define HOST_B \
	"{'host': 'host-b', 'state': 'lost', 'address': '10.0.0.2', 'clock': {'calibrated': " \
	"false}, 'tracers': [], " \
	"'jobs': [], 'labels': {}, 'quiet_ns': 61000000000}"
#define HOSTS "{'hosts': [" HOST_A ", " HOST_B "]}"

#define MANIFEST(state, partial, failed) \
	"{'session': '" S1 "', 'state': '" state \
	"', 'run': 'nightly', 'path': '/store/x', 't0_ns': 1790000000000000000, 'duration_ns': " \
	"2000000000, 'partial': " partial ", 'failed': " failed \
	", 'at_step': {'step': 7, 'error_ns': -1200}, 'warnings': ['beware'], 'hosts': [" \
	"{'host': 'host-a', 'state': 'complete', 'events': 1234, 'bytes': 5600, " \
	"'clock_bound_ns': 12000, " \
	"'clock': {'calibrated': true}, 'files': ['a', 'a~2'], 'steps': {'first': 7, 'last': 9}, " \
	"'tracers': [" \
	"{'name': 'cpu', 'state': 'ok', 'lost': 3}, {'name': 'logs', 'state': 'degraded', " \
	"'detail': 'slow'}, " \
	"{'name': 'marks', 'state': 'ok'}]}, " \
	"{'host': 'host-b', 'state': 'failed', 'reason': 'late', 'detail': 'it came too late', " \
	"'steps': {'first': 4, 'last': 4}, 'tracers': []}, " \
	"{'host': 'host-c', 'state': 'partial', 'files': ['c'], 'steps': {'first': 1, 'last': " \
	"0}, 'tracers': []}]}"
#define PRINTED(state) \
	"session " S1 "  " state "  from 2026-09-21T14:13:20.000Z for 2.00 s\n" \
	"run     nightly\n" \
	"files   /store/x\n" \
	"step    7, 1.20 us earlier than expected\n" \
	"  host-a               complete        1234 events   5.60 kB  clock +-12.0 us  2 files  " \
	"steps 7-9\n" \
	"    tracer cpu: ok (3 records lost)\n" \
	"    tracer logs: degraded: slow\n" \
	"  host-b               failed             0 events       0 B  clock unknown  step 4  " \
	"late: it came too late\n" \
	"  host-c               partial            0 events       0 B  clock unknown\n" \
	"warning: beware\n"

#define CAPTURE "POST /api/v1/captures"
#define CAPTURE_BODY \
	"{'hosts':'all','run':'','duration_ns':2000000000,'wait_ns':600000000000,'settings':{},'" \
	"tracers':[]}"
#define BEGUN	 "{'session': '" S1 "'}"
#define EVENTS	 "GET /api/v1/captures/" S1 "/events"
#define SESSION	 "GET /api/v1/sessions/" S1
#define EVENT(s) "event: capture\ndata: {'session': '" S1 "', 'state': '" s "', 'hosts': []}\n\n"
#define FOLLOWED EVENTS " \n" SESSION " \n"
#define ONE_LINE(name) \
	"{'session': '" name \
	"', 'run': 'r', 'duration_ns': 1500000, 'hosts': 3, 'partial': 1, 'failed': 2, " \
	"'bytes': 1500000, 't0_ns': 1790000000000000000, 'pinned': "
#define A_PAGE	   "@" /* 1,000 sessions, "s0000" to "s0999", all pinned */
#define TWO_LISTED "{'sessions': [" ONE_LINE(S1) "true}, " ONE_LINE(S2) "false}]}"

static const struct row rows[] = {
	/* ---- which verb ---- */
	{ "", 2, .says = "usage: tutti COMMAND" },
	{ "--help", 0, .says = "" },
	{ "--version", 0, .says = "" },
	{ "captrue", 2, .out = "", .says = "unknown command 'captrue': did you mean 'capture'?" },
	{ "xyzzy", 2, .out = "", .says = "unknown command 'xyzzy'; see tutti --help" },
	{ "--server http://127.0.0.1:1", 2, .says = "there is no command" },
	{ "--nonsense hosts", 2, .says = "unknown flag '--nonsense' before the command" },
	{ "hosts --nonsense", 2, .says = "nonsense" },
	{ "hosts more", 2, .says = "too many arguments; see tutti hosts --help" },
	{ "show", 2, .says = "missing SESSION; see tutti show --help" },
	{ "show --json", 2, .out = "{\n  'error': 'missing SESSION; see tutti show --help'\n}\n" },
	{ "xyzzy --json", 2,
	  .out = "{\n  'error': 'unknown command 'xyzzy'; see tutti --help'\n}\n" },
	{ "capture --help", 0, .says = "" },
	/* ---- errors of the aggregator: its sentence, and the code by the status ---- */
	{ "hosts",
	  2,
	  "GET /api/v1/hosts \n",
	  { { "GET /api/v1/hosts", "400 {'error': 'that is wrong'}" } },
	  "",
	  "tutti hosts: that is wrong\n" },
	{ "hosts",
	  1,
	  "GET /api/v1/hosts \n",
	  { { "GET /api/v1/hosts", "404 {'error': 'not here'}" } },
	  "",
	  "tutti hosts: not here\n" },
	{ "hosts",
	  1,
	  "GET /api/v1/hosts \n",
	  { { "GET /api/v1/hosts", "403 {'error': 'you may not'}" } },
	  "",
	  "tutti hosts: you may not\n" },
	{ "hosts",
	  1,
	  "GET /api/v1/hosts \n",
	  { { "GET /api/v1/hosts", "500 nonsense" } },
	  "",
	  "answered 500" },
	{ "hosts",
	  1,
	  "GET /api/v1/hosts \n",
	  { { "GET /api/v1/hosts", "nonsense" } },
	  "",
	  "is this an aggregator" },
	{ "hosts --json",
	  1,
	  "GET /api/v1/hosts \n",
	  { { "GET /api/v1/hosts", "404 {'error': 'a\\u001bb'}" } },
	  "{\n  'error': 'a b'\n}\n",
	  "tutti hosts: a b\n" },
	{ "--json hosts",
	  1,
	  "GET /api/v1/hosts \n",
	  { { "GET /api/v1/hosts", "404 {'error': 'no'}" } },
	  "{\n  'error': 'no'\n}\n",
	  NULL },
	{ "hosts -o json",
	  1,
	  "GET /api/v1/hosts \n",
	  { { "GET /api/v1/hosts", "404 {'error': 'no'}" } },
	  "{\n  'error': 'no'\n}\n",
	  NULL },
	/* ---- hosts ---- */
	{ "hosts",
	  0,
	  "GET /api/v1/hosts \n",
	  { { "GET /api/v1/hosts", HOSTS } },
	  "HOST    STATE      ADDRESS   OFFSET          BOUND    STEP                TRACERS  JOBS "
	  " LABELS\n"
	  "host-a  connected  10.0.0.1  -1.500000 s     12.0 us  41 (one in 250 ms)  1 of 2   3    "
	  " role=worker,zone=b\n"
	  "host-b  lost       10.0.0.2  not calibrated  -        -                   0 of 0   0    "
	  " -\n"
	  "    last message 61.0 s ago\n",
	  "" },
	{ "hosts -o name",
	  0,
	  "GET /api/v1/hosts \n",
	  { { "GET /api/v1/hosts", HOSTS } },
	  "host-a\nhost-b\n",
	  "" },
	{ "hosts --output=wide",
	  0,
	  "GET /api/v1/hosts \nGET /api/v1/pods \n",
	  { { "GET /api/v1/hosts", "{'hosts': [" HOST_A "]}" },
	    { "GET /api/v1/pods",
	      "{'pods': [{'host': 'host-a', 'phase': 'Running', 'namespace': 'ml', 'pod': 'w-0', "
	      "'job': 'train', 'rank': '0'}, "
	      "{'host': 'host-a', 'phase': 'Pending', 'namespace': 'ml', 'pod': 'w-1'}, "
	      "{'host': '', 'phase': 'Running', 'namespace': 'ml', 'pod': 'w-2'}]}" } },
	  "HOST    STATE      ADDRESS   OFFSET       BOUND    STEP                TRACERS  JOBS  "
	  "LABELS\n"
	  "host-a  connected  10.0.0.1  -1.500000 s  12.0 us  41 (one in 250 ms)  1 of 2   3     "
	  "role=worker,zone=b\n"
	  "    tracer logs is off: no journal\n"
	  "    job 77       python train.py              jax        127.0.0.1:9999        ready\n"
	  "    and 2 more jobs\n"
	  "    pod ml/w-0, job train, rank 0\n"
	  "    rings reach back: cpu 58 s\n",
	  "" },
	{ "hosts",
	  0,
	  "GET /api/v1/hosts \n",
	  { { "GET /api/v1/hosts", "{'hosts': []}" } },
	  "",
	  "no host is connected" },
	{ "hosts -o tabel", 2, .out = "",
	  .says = "--output is 'tabel': use table, wide, name or json" },
	{ "hosts --json",
	  0,
	  "GET /api/v1/hosts \n",
	  { { "GET /api/v1/hosts", "{'hosts': []}" } },
	  "{\n  'hosts': []\n}\n",
	  "" },
	/* what a terminal would obey is not printed */
	{ "hosts -o name",
	  0,
	  "GET /api/v1/hosts \n",
	  { { "GET /api/v1/hosts", "{'hosts': [{'host': 'a\\u001b[2J'}]}" } },
	  "a [2J\n",
	  "" },
	/* ---- clock: 3 beyond the limit, or where it is not known ---- */
	{ "clock host-a",
	  0,
	  "GET /api/v1/hosts \n",
	  { { "GET /api/v1/hosts", HOSTS } },
	  "HOST    OFFSET          BOUND      GRADE  RATE        JITTER  RTT     METHOD      "
	  "PROBES\n"
	  "host-a  -1.500000000 s  +-12.0 us  B      -2.500 ppm  800 ns  150 us  udp-kernel  64\n"
	  "    set at 2026-09-21T14:13:20.000Z (within 20.0 ms): -5.00 s\n",
	  "" },
	{ "clock host-a --warn-above 12us",
	  0,
	  "GET /api/v1/hosts \n",
	  { { "GET /api/v1/hosts", HOSTS } },
	  NULL,
	  "" },
	{ "clock host-a --warn-above 11999ns",
	  3,
	  "GET /api/v1/hosts \n",
	  { { "GET /api/v1/hosts", HOSTS } },
	  NULL,
	  "warning: host-a: its clock may be wrong by 12.0 us, more than 12.0 us" },
	{ "clock host-b",
	  3,
	  "GET /api/v1/hosts \n",
	  { { "GET /api/v1/hosts", HOSTS } },
	  "HOST    OFFSET  BOUND  GRADE  RATE  JITTER  RTT  METHOD  PROBES\n"
	  "host-b  -       -      -      -     -       -    -       -\n"
	  "    not calibrated: not connected\n    no program is known to steer its wall clock\n",
	  "warning: host-b: its clock is not calibrated" },
	{ "clock", 3, "GET /api/v1/hosts \n", { { "GET /api/v1/hosts", HOSTS } }, NULL, "host-b" },
	{ "clock -o wide host-a",
	  0,
	  "GET /api/v1/hosts \n",
	  { { "GET /api/v1/hosts", HOSTS } },
	  "HOST    OFFSET          BOUND      GRADE  RATE        JITTER  RTT     METHOD      "
	  "PROBES\n"
	  "host-a  -1.500000000 s  +-12.0 us  B      -2.500 ppm  800 ns  150 us  udp-kernel  64\n"
	  "    its wall clock is steered, within 3.00 ms of UTC\n"
	  "    set at 2026-09-21T14:13:20.000Z (within 20.0 ms): -5.00 s\n",
	  "" },
	{ "clock host-c",
	  1,
	  "GET /api/v1/hosts \n",
	  { { "GET /api/v1/hosts", HOSTS } },
	  "",
	  "no host host-c" },
	/* ---- sessions ---- */
	{ "sessions",
	  0,
	  "GET /api/v1/sessions?limit=100 \n",
	  { { "GET /api/v1/sessions?limit=100", TWO_LISTED } },
	  "SESSION                     RUN  DURATION  HOSTS  PARTIAL  FAILED  BYTES    KEPT\n" S1
	  "  r    1.50 ms   3      1        2       1.50 MB  pinned\n" S2
	  "  r    1.50 ms   3      1        2       1.50 MB  -\n",
	  "" },
	{ "sessions team/a&b --limit 5 --after " S2 " -o name",
	  0,
	  "GET /api/v1/sessions?limit=5&run=team%2Fa%26b&after=" S2 " \n",
	  { { "GET /api/v1/sessions?limit=5&run=team%2Fa%26b&after=" S2, TWO_LISTED } },
	  S1 "\n" S2 "\n",
	  "" },
	{ "sessions",
	  0,
	  "GET /api/v1/sessions?limit=100 \n",
	  { { "GET /api/v1/sessions?limit=100",
	      "{'sessions': [], 'quotas': [{'max_bytes': 2000000000, 'bytes': 500000000}, "
	      "{'run': 'r', 'max_sessions': 9, 'sessions': 4, 'max_bytes': 1000, 'bytes': "
	      "10}]}" } },
	  "",
	  "no session is stored; tutti capture makes one\nquota: 500 MB of 2.00 GB\nquota of run "
	  "'r': 4 of 9 sessions, 10 B of 1.00 kB\n" },
	{ "sessions",
	  0,
	  "GET /api/v1/sessions?limit=100 \n",
	  { { "GET /api/v1/sessions?limit=100",
	      "{'sessions': [{'session': 'a', 'run': 'gr\xc3\xb6\xc3\x9f"
	      "er'}, {'session': 'b', 'run': 'smaller'}]}" } },
	  "SESSION  RUN      DURATION  HOSTS  PARTIAL  FAILED  BYTES  KEPT\n"
	  "a        gr\xc3\xb6\xc3\x9f"
	  "er   0 ns      0      0        0       0 B    -\n"
	  "b        smaller  0 ns      0      0        0       0 B    -\n",
	  "" },
	{ "sessions",
	  0,
	  "GET /api/v1/sessions?limit=100 \n",
	  { { "GET /api/v1/sessions?limit=100",
	      "{'sessions': [{'session': 'a', 'bytes': 999, 'duration_ns': 999999}, "
	      "{'session': 'b', 'bytes': 10000, 'duration_ns': 100000000}, "
	      "{'session': 'c', 'bytes': 9990000000000000, 'duration_ns': 3600000000000}]}" } },
	  "SESSION  RUN  DURATION  HOSTS  PARTIAL  FAILED  BYTES    KEPT\n"
	  "a        -    1000 us   0      0        0       999 B    -\n"
	  "b        -    100 ms    0      0        0       10.0 kB  -\n"
	  "c        -    3600 s    0      0        0       9990 TB  -\n",
	  "" },
	{ "sessions -o name",
	  0,
	  "GET /api/v1/sessions?limit=100 \n",
	  { { "GET /api/v1/sessions?limit=100",
	      "{'sessions': [], 'quotas': [{'max_bytes': 2000000000}]}" } },
	  "",
	  "no session is stored; tutti capture makes one\n" },
	{ "sessions -o name r",
	  0,
	  "GET /api/v1/sessions?limit=100&run=r \n",
	  { { "GET /api/v1/sessions?limit=100&run=r",
	      "{'sessions': [{'session': 'a'}], 'quotas': [{'max_bytes': 2000000000}]}" } },
	  "a\n",
	  "" },
	{ "sessions --limit x", 2, .out = "", .says = "limit" },
	/* ---- show ---- */
	{ "show " S1,
	  0,
	  SESSION " \n",
	  { { SESSION, MANIFEST("committed", "0", "1") } },
	  PRINTED("committed"),
	  "" },
	{ "show " S1,
	  0,
	  SESSION " \nGET /api/v1/captures/" S1 " \n",
	  { { SESSION, "404 {'error': 'no'}" },
	    { "GET /api/v1/captures/" S1, MANIFEST("running", "0", "0") } },
	  PRINTED("running"),
	  "" },
	{ "show " S1,
	  1,
	  SESSION " \nGET /api/v1/captures/" S1 " \n",
	  { { SESSION, "404 {'error': 'no'}" },
	    { "GET /api/v1/captures/" S1, "{'state': 'committed'}" } },
	  "",
	  "session " S1 " was deleted" },
	{ "show a/../b",
	  1,
	  "GET /api/v1/sessions/a%2F..%2Fb \nGET /api/v1/captures/a%2F..%2Fb \n",
	  { { NULL, NULL } },
	  "",
	  "no such thing" },
	/* ---- capture: 0 all, 3 some, 4 none ---- */
	{ "capture",
	  0,
	  CAPTURE " " CAPTURE_BODY "\n" FOLLOWED,
	  { { CAPTURE, BEGUN },
	    { EVENTS, EVENT("running") EVENT("committed") },
	    { SESSION, MANIFEST("committed", "0", "0") } },
	  PRINTED("committed"),
	  S1 ": running, 0 of 0 hosts done (0 failed), 0 B\n" },
	{ "capture",
	  3,
	  CAPTURE " " CAPTURE_BODY "\n" FOLLOWED,
	  { { CAPTURE, BEGUN },
	    { EVENTS, EVENT("committed") },
	    { SESSION, MANIFEST("committed", "0", "1") } },
	  PRINTED("committed"),
	  NULL },
	{ "capture",
	  3,
	  CAPTURE " " CAPTURE_BODY "\n" FOLLOWED,
	  { { CAPTURE, BEGUN },
	    { EVENTS, EVENT("committed") },
	    { SESSION, MANIFEST("committed", "1", "0") } },
	  PRINTED("committed"),
	  NULL },
	{ "capture",
	  4,
	  CAPTURE " " CAPTURE_BODY "\n" EVENTS " \n",
	  { { CAPTURE, BEGUN }, { EVENTS, EVENT("failed") } },
	  NULL,
	  NULL },
	{ "capture",
	  4,
	  CAPTURE " " CAPTURE_BODY "\n",
	  { { CAPTURE, "404 {'error': 'no host is connected'}" } },
	  "",
	  "tutti capture: no host is connected" },
	{ "capture --json",
	  4,
	  CAPTURE " " CAPTURE_BODY "\n",
	  { { CAPTURE, "404 {'error': 'no host'}" } },
	  "{\n  'error': 'no host'\n}\n",
	  NULL },
	{ "capture",
	  2,
	  CAPTURE " " CAPTURE_BODY "\n",
	  { { CAPTURE, "400 {'error': 'no tracer x'}" } },
	  "",
	  "tutti capture: no tracer x" },
	{ "capture",
	  0,
	  CAPTURE " " CAPTURE_BODY "\n" FOLLOWED,
	  { { CAPTURE, "{'session': '" S1 "', 'shared': true}" },
	    { EVENTS, EVENT("committed") },
	    { SESSION, MANIFEST("committed", "0", "0") } },
	  NULL,
	  S1 ": shared with an earlier request for the same capture" },
	{ "capture -d 1500ms -H host-a,role=worker --run team/x --set cpu.depth=3 --set a=b=c "
	  "--tracer cpu --tracer logs --wait 0s --grace 90s "
	  "--refine events --at-step 12 --steps 5",
	  2,
	  CAPTURE
	  " {'hosts':'host-a,role=worker','run':'team/"
	  "x','refine':'events','duration_ns':1500000000,'wait_ns':0,'grace_ns':90000000000,"
	  "'settings':{'cpu.depth':'3','a':'b=c'},'tracers':['cpu','logs'],'steps':5,'at_step':12}"
	  "\n",
	  { { CAPTURE, "400 {'error': 'no'}" } },
	  "",
	  NULL },
	{ "capture --job train --namespace ml --ranks 0-7,12 --hosts zone=b --at-step next",
	  2,
	  CAPTURE " {'hosts':'job=train,namespace=ml,rank in "
		  "(0-7,12),zone=b','run':'','duration_ns':2000000000,'wait_ns':600000000000,"
		  "'settings':{},'tracers':[],'at_step':'next'}\n",
	  { { CAPTURE, "400 {'error': 'no'}" } },
	  "",
	  NULL },
	{ "capture --ranks 0-7", 2, .out = "", .says = "--namespace and --ranks need --job" },
	{ "capture --namespace ml", 2, .out = "", .says = "--namespace and --ranks need --job" },
	{ "capture --steps -1", 2, .out = "", .says = "--steps -1: use 1 or more" },
	{ "capture --at-step -1", 2, .out = "",
	  .says = "--at-step '-1': use a step's number, or next" },
	{ "capture --at-step 5x", 2, .out = "", .says = "--at-step '5x'" },
	{ "capture --at-step 99999999999999999999", 2, .out = "",
	  .says = "--at-step '99999999999999999999'" },
	{ "capture --set depth", 2, .out = "", .says = "--set 'depth': expected KEY=VALUE" },
	{ "capture --set =3", 2, .out = "", .says = "--set '=3': expected KEY=VALUE" },
	{ "capture --duration 2", 2, .out = "", .says = "duration" },
	{ "capture --duration 2parsecs", 2, .out = "", .says = "duration" },
	{ "capture --run a\xff", 2, .out = "", .says = "--run: the value is not UTF-8 text" },
	{ "capture --help-settings",
	  0,
	  "GET /api/v1/settings \n",
	  { { "GET /api/v1/settings",
	      "{'settings': [{'name': 'cpu.depth', 'type': 'int', 'help': 'frames', 'min': 1, "
	      "'max': 64, 'default': 32, 'hosts': 1}, "
	      "{'name': 'mode', 'type': 'text', 'help': 'how', 'values': ['a', 'b'], 'default': "
	      "'a', 'hosts': 2}, "
	      "{'name': 'on', 'type': 'bool', 'help': 'whether', 'default': false}]}" } },
	  "  --set cpu.depth=int                        frames (1 to 64) [32] (on 1 host)\n"
	  "  --set mode=text                            how (a, b) [a] (on 2 hosts)\n"
	  "  --set on=bool                              whether [false]\n",
	  "" },
	/* ---- stop, cancel, retry, pin ---- */
	{ "stop " S1,
	  0,
	  "POST /api/v1/captures/" S1 "/stop \n",
	  { { "POST /api/v1/captures/" S1 "/stop", "{}" } },
	  S1 ": the window ends now, the data is kept\n",
	  "" },
	{ "stop " S1,
	  0,
	  "POST /api/v1/captures/" S1 "/stop \n",
	  { { "POST /api/v1/captures/" S1 "/stop", "{'cancelled': true}" } },
	  S1 ": cancelled before its window began, there is no data\n",
	  "" },
	{ "stop latest", 2, .out = "", .says = "'latest' is not a session; see tutti sessions" },
	{ "cancel " S1,
	  0,
	  "DELETE /api/v1/captures/" S1 " \n",
	  { { "DELETE /api/v1/captures/" S1, "{}" } },
	  S1 ": cancelled, the data is dropped\n",
	  "" },
	{ "pin " S1,
	  0,
	  "PUT /api/v1/sessions/" S1 "/pin \n",
	  { { "PUT /api/v1/sessions/" S1 "/pin", "{}" } },
	  "pinned " S1 "\n",
	  "" },
	{ "unpin " S1,
	  0,
	  "DELETE /api/v1/sessions/" S1 "/pin \n",
	  { { "DELETE /api/v1/sessions/" S1 "/pin", "{}" } },
	  "unpinned " S1 "\n",
	  "" },
	{ "retry " S1 " --grace 5s",
	  3,
	  "POST /api/v1/sessions/" S1 "/retry {'grace_ns':5000000000}\n" FOLLOWED,
	  { { "POST /api/v1/sessions/" S1 "/retry", "{}" },
	    { EVENTS, EVENT("committed") },
	    { SESSION, MANIFEST("committed", "0", "1") } },
	  NULL,
	  NULL },
	{ "retry " S1,
	  1,
	  "POST /api/v1/sessions/" S1 "/retry {}\n",
	  { { NULL, NULL } },
	  "",
	  "no such thing" },
	/* ---- delete: one, or many, never by mistake ---- */
	{ "delete " S1,
	  0,
	  "DELETE /api/v1/sessions/" S1 " \n",
	  { { "DELETE /api/v1/sessions/" S1, "{}" } },
	  "deleted " S1 "\n",
	  "" },
	{ "delete", 2, .out = "",
	  .says = "name one SESSION, or say which with --run and --older-than" },
	{ "delete " S1 " --run r", 2, .out = "", .says = "name one SESSION" },
	{ "delete " S1 " --dry-run", 2, .out = "",
	  .says = "dry-run goes with --run or --older-than" },
	{ "delete --older-than -1s", 2, .out = "", .says = "older-than" },
	{ "delete --run r --dry-run",
	  0,
	  "GET /api/v1/sessions?limit=1000&run=r \n",
	  { { "GET /api/v1/sessions?limit=1000&run=r", TWO_LISTED } },
	  "would delete " S2 "\n1 sessions, 1.50 MB\n1 pinned sessions stay\n",
	  "" },
	{ "delete --run r",
	  2,
	  "GET /api/v1/sessions?limit=1000&run=r \n",
	  { { "GET /api/v1/sessions?limit=1000&run=r", TWO_LISTED } },
	  "",
	  "this deletes 1 sessions: say --yes, or look first with --dry-run" },
	{ "delete --run r --yes",
	  0,
	  "GET /api/v1/sessions?limit=1000&run=r \nDELETE /api/v1/sessions/" S2 " \n",
	  { { "GET /api/v1/sessions?limit=1000&run=r", TWO_LISTED },
	    { "DELETE /api/v1/sessions/" S2, "{}" } },
	  "deleted " S2 "\n1 pinned sessions stay\n",
	  "" },
	{ "delete --run r --yes",
	  0,
	  "GET /api/v1/sessions?limit=1000&run=r \nDELETE /api/v1/sessions/" S2 " \n",
	  { { "GET /api/v1/sessions?limit=1000&run=r", TWO_LISTED } },
	  NULL,
	  "" }, /* another caller was faster */
	{ "delete --run r --yes",
	  1,
	  "GET /api/v1/sessions?limit=1000&run=r \nDELETE /api/v1/sessions/" S2 " \n",
	  { { "GET /api/v1/sessions?limit=1000&run=r", TWO_LISTED },
	    { "DELETE /api/v1/sessions/" S2, "403 {'error': 'you may not'}" } },
	  "",
	  "1 of 1 sessions were not deleted" },
	{ "delete --older-than 365000d --dry-run", 2, .out = "",
	  .says = "older-than" }, /* of no 64 bits of nanoseconds */
	{ "delete --older-than 30000d --dry-run",
	  0,
	  "GET /api/v1/sessions?limit=1000 \n",
	  { { "GET /api/v1/sessions?limit=1000", TWO_LISTED } },
	  "0 sessions, 0 B\n",
	  "" },
	{ "delete --older-than 1s --dry-run",
	  0,
	  "GET /api/v1/sessions?limit=1000 \n",
	  { { "GET /api/v1/sessions?limit=1000", TWO_LISTED } },
	  "would delete " S2 "\n1 sessions, 1.50 MB\n1 pinned sessions stay\n",
	  "" },
	/* a page that is full is followed by another one */
	{ "delete --run r --dry-run",
	  0,
	  "GET /api/v1/sessions?limit=1000&run=r \nGET "
	  "/api/v1/sessions?limit=1000&run=r&after=s0999 \n",
	  { { "GET /api/v1/sessions?limit=1000&run=r", A_PAGE },
	    { "GET /api/v1/sessions?limit=1000&run=r&after=s0999", TWO_LISTED } },
	  "would delete " S2 "\n1 sessions, 1.50 MB\n1001 pinned sessions stay\n",
	  "" },
	/* ---- tokens, revocations, links ---- */
	{ "token create --for 1h --host gpu-* --uses 20",
	  0,
	  "POST /api/v1/join-tokens {'life_ns':3600000000000,'host':'gpu-*','uses':20}\n",
	  { { "POST /api/v1/join-tokens",
	      "{'token': 'secret', 'until_ns': 1790000000000000000}" } },
	  "secret\n",
	  "good until 2026-09-21T14:13:20.000Z" },
	{ "token make", 2, .out = "", .says = "tutti token make: use create" },
	{ "token create --uses 1000001", 2, .out = "", .says = "uses" },
	{ "revoke host-a",
	  0,
	  "POST /api/v1/revocations {'host':'host-a'}\n",
	  { { "POST /api/v1/revocations", "{}" } },
	  "revoked host-a\n",
	  "" },
	{ "revoke host-a --lift",
	  0,
	  "POST /api/v1/revocations {'host':'host-a','lift':true}\n",
	  { { "POST /api/v1/revocations", "{}" } },
	  "host-a may join again\n",
	  "" },
	{ "revoke --epoch",
	  0,
	  "POST /api/v1/revocations {'epoch':true}\n",
	  { { "POST /api/v1/revocations", "{'epoch': 4}" } },
	  "revoked all certificates before epoch 4\n",
	  "" },
	{ "revoke", 2, .out = "", .says = "give a HOST" },
	{ "revoke host-a --epoch", 2, .out = "", .says = "give a HOST" },
	{ "revoke --epoch --lift", 2, .out = "", .says = "an epoch cannot be lifted" },
	{ "share " S1 " --for 1h",
	  0,
	  "POST /api/v1/sessions/" S1 "/links {'for_ns':3600000000000}\n",
	  { { "POST /api/v1/sessions/" S1 "/links",
	      "{'page': 'https://x/p', 'until_ns': 4000000000000000000, 'files': [{'file': 'a', "
	      "'url': 'https://s/a'}]}" } },
	  "https://x/p\na  https://s/a\n",
	  "1 links, good until 2096-10-02 07:06:40 UTC for whoever has them" },
	{ "share " S1 " --for 1h",
	  0,
	  "POST /api/v1/sessions/" S1 "/links {'for_ns':3600000000000}\n",
	  { { "POST /api/v1/sessions/" S1 "/links",
	      "{'page': 'https://x/p', 'until_ns': 1000000000, 'files': []}" } },
	  NULL,
	  "the links end before --for" },
	{ "share " S1 " --for 8d", 2, .out = "", .says = "for" },
};

/* ---- the aggregator ---- */

struct bed {
	struct fixture f;
	const struct row *row;
	struct buf requests;
	const char *program;
	char config[120];
};

static char *quoted(const char *text)
{
	char *copy = xstrdup(text);

	for (char *p = copy; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	return copy;
}

/* A_PAGE in words. */
static char *make_page(void)
{
	struct buf text = BUF_INIT;

	for (int i = 0; i < 1000; i++)
		buf_addf(&text, "%s{'session': 's%04d', 'pinned': true}",
			 i ? ", " : "{'sessions': [", i);
	buf_add_str(&text, "]}");
	return (char *)buf_detach(&text, NULL);
}

static const char *find_answer(const struct row *row, const char *what)
{
	for (int i = 0; i < ANSWERS && row->answers[i][0]; i++)
		if (!strcmp(row->answers[i][0], what))
			return row->answers[i][1];
	return "404 {'error': 'no such thing'}";
}

static void on_request(struct http_req *req, void *arg)
{
	struct bed *b = arg;
	char what[400], *answer, *page;
	const char *body, *text;
	int status = 200;
	size_t len;

	snprintf(what, sizeof(what), "%s %s", http_method(req), http_target(req));
	body = http_body(req, &len);
	buf_addf(&b->requests, "%s %.*s\n", what, (int)len, len ? body : "");
	text = find_answer(b->row, what);
	page = strcmp(text, A_PAGE) ? NULL : make_page();
	answer = quoted(page ? page : text);
	body = answer;
	if (*body >= '1' && *body <= '9') {
		status = (int)strtol(body, NULL, 10);
		body += 4;
	}
	http_answer(req, status,
		    strncmp(body, "event:", 6) ? "application/json" : "text/event-stream", body,
		    strlen(body));
	free(answer);
	free(page);
}

/* ---- the program ---- */

struct child {
	pid_t pid;
	int out, err; /* the ends that are read */
	struct buf printed[2];
};

static void take(int *fd, struct buf *to)
{
	char piece[4096];
	ssize_t n;

	while (*fd >= 0 && (n = read(*fd, piece, sizeof(piece))) != 0) {
		if (n < 0) {
			CHECK(errno == EAGAIN);
			return;
		}
		buf_add(to, piece, (size_t)n);
	}
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Whether both ends are closed: it has ended, or will at once. */
static bool has_ended(struct child *c)
{
	take(&c->out, &c->printed[0]);
	take(&c->err, &c->printed[1]);
	return c->out < 0 && c->err < 0;
}

static char **make_argv(const struct bed *b, char *words)
{
	static char *argv[ARGS_MOST], *rest;
	int n = 0;

	argv[n++] = (char *)b->program;
	for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		CHECK(n < ARGS_MOST - 1);
		argv[n++] = word;
	}
	argv[n] = NULL;
	return argv;
}

static void child_start(struct child *c, char **argv)
{
	posix_spawn_file_actions_t actions;
	int out[2], err[2];

	*c = (struct child){ .pid = -1 };
	CHECK(!pipe2(out, O_CLOEXEC) && !pipe2(err, O_CLOEXEC));
	CHECK(!posix_spawn_file_actions_init(&actions));
	CHECK(!posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0));
	CHECK(!posix_spawn_file_actions_adddup2(&actions, out[1], 1));
	CHECK(!posix_spawn_file_actions_adddup2(&actions, err[1], 2));
	CHECK(!posix_spawn(&c->pid, argv[0], &actions, NULL, argv, environ));
	posix_spawn_file_actions_destroy(&actions);
	close(out[1]);
	close(err[1]);
	c->out = out[0];
	c->err = err[0];
	CHECK(!fcntl(c->out, F_SETFL, O_NONBLOCK) && !fcntl(c->err, F_SETFL, O_NONBLOCK));
}

static int child_end(struct bed *b, struct child *c)
{
	int64_t until = now_mono_ns() + 30 * NS_PER_S;
	int status;

	while (!has_ended(c)) {
		loop_turn(b->f.loop, 1);
		if (now_mono_ns() > until) {
			kill(c->pid, SIGKILL);
			CHECK(!"in time: the end of the command");
		}
	}
	CHECK(waitpid(c->pid, &status, 0) == c->pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void fail(const struct row *row, const char *what, const char *got, const char *want)
{
	fprintf(stderr, "tutti %s\n%s is\n%s\nand should be\n%s\n", row->args, what, got, want);
	exit(1);
}

static void check_same(const struct row *row, const char *what, const char *got, const char *want)
{
	char *text = quoted(want), *same = quoted(got);

	if (strcmp(same, text))
		fail(row, what, got, want);
	free(text);
	free(same);
}

static void run_row(struct bed *b, const struct row *row)
{
	char *words = xstrdup(row->args), code[16], want[16];
	struct child c;

	b->row = row;
	buf_reset(&b->requests);
	child_start(&c, make_argv(b, words));
	snprintf(code, sizeof(code), "%d", child_end(b, &c));
	snprintf(want, sizeof(want), "%d", row->code);
	if (strcmp(code, want))
		fail(row, buf_str(&c.printed[1]), code, want);
	check_same(row, "what was asked", buf_str(&b->requests),
		   row->requests ? row->requests : "");
	if (row->out)
		check_same(row, "stdout", buf_str(&c.printed[0]), row->out);
	if (row->says &&
	    (*row->says ? !strstr(buf_str(&c.printed[1]), row->says) : c.printed[1].len != 0))
		fail(row, "stderr", buf_str(&c.printed[1]), row->says);
	buf_release(&c.printed[0]);
	buf_release(&c.printed[1]);
	free(words);
}

static void bed_start(struct bed *b, const char *program)
{
	char url[64];

	*b = (struct bed){ .program = program };
	fixture_start(&b->f, NULL, on_request, b);
	snprintf(b->config, sizeof(b->config), "%s", temp_dir());
	snprintf(url, sizeof(url), "http://127.0.0.1:%d", b->f.port);
	/* nothing of who runs the test */
	for (char **v = environ; *v;) {
		char *name = xstrndup(*v, strcspn(*v, "="));

		if (!strncmp(name, "TUTTI_", 6) || strstr(name, "_proxy") || strstr(name, "_PROXY"))
			unsetenv(name);
		else
			v++;
		free(name);
	}
	setenv("TUTTI_SERVER", url, 1);
	setenv("XDG_CONFIG_HOME", b->config, 1);
	setenv("HOME", b->config, 1);
}

int main(int argc, char **argv)
{
	struct bed b;

	CHECK(argc == 2);
	bed_start(&b, argv[1]);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		run_row(&b, &rows[i]);
	fixture_stop(&b.f);
	buf_release(&b.requests);
	return 0;
}
