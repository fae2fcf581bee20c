/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load generator: many logical agents in one process, each with a connection of its own to a real
 * aggregator, that dial, come back, report, arm, upload and end like the real ones. What they record is
 * a dozen fixed bytes.
 *
 *   scale_agents --target HOST:PORT --agents N [--prefix NAME] [--tls DIR] [--status-ms N] [--grants]
 *
 * Commands on stdin, a line each: "report" prints one line of JSON, "status" lets every agent send a
 * Status now and prints when that was. "fail" lets no agent have a file, "refuse" lets every agent refuse to be
 * armed, "vanish" lets each disconnect when a window begins, and stay away for some seconds; all that until "work".
 * The end of stdin ends the program, without a Disconnect.
 */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "net/http_client_pool.h"
#include "net/rpc.h"
#include "proto/control_check.h"
#include "proto/limits.h"
#include "proto/message.h"
#include "proto/tutti/v1/ingest.pb-c.h"

#define BACKOFF_FIRST_NS (200 * NS_PER_MS)
#define BACKOFF_MAX_NS	 (20 * NS_PER_S)
#define STEADY_NS	 (5 * NS_PER_S)
#define VANISH_NS	 (10 * NS_PER_S)
#define LASTS_NS	 (250 * NS_PER_MS) /* a state that ends before is not reported */
#define WELCOME_LIMIT_NS (90 * NS_PER_S)
#define KEEPALIVE_NS	 (90 * NS_PER_S)

typedef Tutti__V1__AgentMessage agent_message;
typedef Tutti__V1__AggregatorMessage aggregator_message;

/* What the agents do with a capture. */
enum mode { MODE_WORK, MODE_FAIL, MODE_REFUSE, MODE_VANISH };
static const char *const modes[] = { "work\n", "fail\n", "refuse\n", "vanish\n" };

struct options {
	const char *target, *prefix, *tls_dir;
	size_t agents;
	int64_t status_gap_ns;
	bool grants; /* the aggregator's store makes them */
};

struct fleet {
	struct options opts;
	struct loop *loop;
	struct rpc *rpc;
	struct agent *agents;
	size_t connected, dials, lost, results, releases;
	struct http_pool *http; /* to the store */
	enum mode mode;
	bool stopping;
};

struct agent {
	struct fleet *fleet;
	char host[64];
	uint64_t instance;
	struct rpc_channel *channel;
	struct rpc_call *call, *upload;
	struct loop_timer retry; /* to dial; while dialling, to give up */
	struct loop_timer status, window;
	int64_t backoff_ns, up_at_ns;
	bool up;
	char session[LIMIT_SESSION_NAME + 1]; /* of the capture under way; "" = none */
	int64_t t0_ns, t1_ns, arm_raw_ns;
	bool stored;
	bool by_credit; /* the grant that a worker uses came with the credit */
	bool is_put; /* by it */
	char *put_url, *put_headers[LIMIT_SMALL_FIELDS + 1]; /* of the grant that a worker uses */
	int put_status;
};

/* An XSpace with an empty plane, "/host:CPU", and the plane that every agent's file has: "Task Environment" with
 * the stat profile_start_time. */
static const uint8_t trace[] = { 0x0a, 0x0b, 0x12, 0x09, '/',  'h',  'o',  's',	 't',  ':',
				 'C',  'P',  'U',  0x0a, '4',  0x12, 0x10, 'T',	 'a',  's',
				 'k',  ' ',  'E',  'n',	 'v',  'i',  'r',  'o',	 'n',  'm',
				 'e',  'n',  't',  0x2a, 0x1a, 0x08, 0x01, 0x12, 0x16, 0x08,
				 0x01, 0x12, 0x12, 'p',	 'r',  'o',  'f',  'i',	 'l',  'e',
				 '_',  's',  't',  'a',	 'r',  't',  '_',  't',	 'i',  'm',
				 'e',  '2',  0x04, 0x08, 0x01, 0x18, 0x01 };

static void dial(void *arg);

/* ---- messages ---- */

static void send_message(struct rpc_call *call, const agent_message *m)
{
	uint8_t data[1024];
	size_t len = tutti__v1__agent_message__get_packed_size(m);

	if (!call || len > sizeof(data))
		return;
	tutti__v1__agent_message__pack(m, data);
	rpc_send(call, data, len);
}

static Tutti__V1__ClockModel clock_model(void)
{
	Tutti__V1__ClockModel c = TUTTI__V1__CLOCK_MODEL__INIT;

	c.calibrated = true;
	c.bound_ns = 5000;
	c.rtt_min_ns = 20000;
	c.probes = 64;
	return c;
}

static void send_hello(struct agent *a)
{
	static const char *const names[] = { "cpu", "metrics", "marks", "profiler" };
	Tutti__V1__TracerState states[ARRAY_SIZE(names)], *tracers[ARRAY_SIZE(names)];
	Tutti__V1__Hello hello = TUTTI__V1__HELLO__INIT;
	agent_message m = TUTTI__V1__AGENT_MESSAGE__INIT;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		tutti__v1__tracer_state__init(&states[i]);
		states[i].name = (char *)names[i];
		states[i].state = (char *)"ok";
		tracers[i] = &states[i];
	}
	hello.host = a->host;
	hello.version = (char *)TUTTI_VERSION;
	hello.instance = a->instance;
	hello.tracers = tracers;
	hello.n_tracers = ARRAY_SIZE(tracers);
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_HELLO;
	m.hello = &hello;
	send_message(a->call, &m);
}

static void send_status(struct agent *a)
{
	Tutti__V1__ClockModel clock = clock_model();
	Tutti__V1__Status status = TUTTI__V1__STATUS__INIT;
	agent_message m = TUTTI__V1__AGENT_MESSAGE__INIT;

	status.clock = &clock;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_STATUS;
	m.status = &status;
	send_message(a->call, &m);
}

static void send_progress(struct agent *a, const char *state, uint64_t bytes)
{
	Tutti__V1__Progress progress = TUTTI__V1__PROGRESS__INIT;
	agent_message m = TUTTI__V1__AGENT_MESSAGE__INIT;

	progress.session = a->session;
	progress.state = (char *)state;
	progress.bytes_total = bytes;
	progress.takes_grant = bytes && a->fleet->opts.grants;
	progress.crc32c = progress.takes_grant ? crc32c(0, trace, sizeof(trace)) : 0;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_PROGRESS;
	m.progress = &progress;
	send_message(a->call, &m);
}

static void send_armed(struct agent *a)
{
	Tutti__V1__Armed armed = TUTTI__V1__ARMED__INIT;
	agent_message m = TUTTI__V1__AGENT_MESSAGE__INIT;

	armed.session = a->session;
	armed.bound_ns = 5000;
	armed.lead_ns = a->t0_ns - now_real_ns();
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_ARMED;
	m.armed = &armed;
	send_message(a->call, &m);
}

static void send_result(struct agent *a, const char *reason, const char *detail)
{
	Tutti__V1__ClockModel clock = clock_model();
	Tutti__V1__HostResult result = TUTTI__V1__HOST_RESULT__INIT;
	agent_message m = TUTTI__V1__AGENT_MESSAGE__INIT;
	uint32_t sum = crc32c(0, trace, sizeof(trace));

	result.session = a->session;
	result.has_file = !*reason;
	result.reason = (char *)reason;
	result.detail = (char *)detail;
	result.bytes = sizeof(trace);
	result.put = result.has_file && a->is_put;
	result.files = &result.bytes;
	result.crc32c = &sum;
	result.n_files = result.n_crc32c = result.put;
	result.clock = &clock;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_RESULT;
	m.result = &result;
	send_message(a->call, &m);
	a->fleet->results++;
}

static void send_refused(struct agent *a)
{
	Tutti__V1__Refused refused = TUTTI__V1__REFUSED__INIT;
	agent_message m = TUTTI__V1__AGENT_MESSAGE__INIT;

	refused.session = a->session;
	refused.reason = (char *)"refused";
	refused.detail = (char *)"as told";
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_REFUSED;
	m.refused = &refused;
	send_message(a->call, &m);
}

/* ---- dialling ---- */

static int open_channel(struct agent *a, const char *lane, struct rpc_channel **out, struct err *e)
{
	const struct options *o = &a->fleet->opts;
	const char *dir = o->tls_dir;
	char *cert = dir ? xasprintf("%s/%s.crt", dir, a->host) : NULL;
	char *key = dir ? xasprintf("%s/%s.key", dir, a->host) : NULL;
	char *ca = dir ? xasprintf("%s/ca.crt", dir) : NULL;
	const struct rpc_tls tls = { cert, key, ca, NULL, NULL };
	const struct rpc_channel_opts opts = {
		.target = o->target,
		.tls = dir ? &tls : NULL,
		.lane = lane,
		.max_message_bytes = LIMIT_CONTROL_BYTES,
		.keepalive_ns = KEEPALIVE_NS,
	};
	int rc = rpc_channel_new(out, a->fleet->rpc, &opts, e);

	free(cert);
	free(key);
	free(ca);
	return rc;
}

static void forget_capture(struct agent *a)
{
	loop_timer_cancel(a->fleet->loop, &a->window);
	a->session[0] = '\0';
	a->stored = a->is_put = false;
	if (a->upload)
		rpc_cancel(a->upload);
	a->upload = NULL;
}

static void go_down(struct agent *a)
{
	struct loop *l = a->fleet->loop;

	if (a->up) {
		a->fleet->connected--;
		a->fleet->lost++;
		if (now_mono_ns() - a->up_at_ns >= STEADY_NS)
			a->backoff_ns = BACKOFF_FIRST_NS;
	}
	a->up = false;
	loop_timer_cancel(l, &a->status);
	forget_capture(a);
	loop_timer_in(l, &a->retry, random_pause_ns(a->backoff_ns), dial, a);
	a->backoff_ns = 2 * a->backoff_ns < BACKOFF_MAX_NS ? 2 * a->backoff_ns : BACKOFF_MAX_NS;
}

static void on_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct agent *a = rpc_arg(call);

	(void)st;
	a->call = NULL;
	if (!a->fleet->stopping)
		go_down(a);
}

static void on_no_welcome(void *arg)
{
	struct agent *a = arg;

	if (a->call)
		rpc_cancel(a->call);
}

static void on_status(void *arg)
{
	struct agent *a = arg;

	send_status(a);
	if (a->fleet->opts.status_gap_ns)
		loop_timer_in(a->fleet->loop, &a->status, a->fleet->opts.status_gap_ns, on_status,
			      a);
}

static void on_welcome(struct agent *a)
{
	loop_timer_cancel(a->fleet->loop, &a->retry);
	a->up = true;
	a->up_at_ns = now_mono_ns();
	a->fleet->connected++;
	on_status(a);
}

/* ---- a capture ---- */

static void send_upload(struct rpc_call *call, const Tutti__V1__UploadMessage *m);

static void run_put(void *arg)
{
	struct agent *a = arg;
	const struct http_request req = { .method = "PUT",
					  .url = a->put_url,
					  .headers = (const char *const *)a->put_headers,
					  .has_body = true,
					  .data = trace,
					  .fd = -1,
					  .len = sizeof(trace),
					  .answer_max = 1 << 16,
					  .deadline_mono_ns = INT64_MAX };
	struct buf answer = BUF_INIT;

	if (http_pool_request(a->fleet->http, &req, &a->put_status, &answer, NULL))
		a->put_status = 0;
	buf_release(&answer);
}

static void on_put(void *arg)
{
	Tutti__V1__UploadMessage m = TUTTI__V1__UPLOAD_MESSAGE__INIT;
	Tutti__V1__UploadPut put = TUTTI__V1__UPLOAD_PUT__INIT;
	struct agent *a = arg;

	for (size_t i = 0; a->put_headers[i]; i++) {
		free(a->put_headers[i]);
		a->put_headers[i] = NULL;
	}
	free(a->put_url);
	a->put_url = NULL;
	if (a->by_credit && *a->session) {
		a->is_put = a->put_status == 200;
		send_result(a, a->is_put ? "" : "upload", a->is_put ? "" : "the grant was refused");
	}
	if (a->by_credit || !a->upload)
		return;
	if (a->put_status != 200 && a->put_status != 412) {
		rpc_cancel(a->upload);
		return;
	}
	put.exists = a->put_status == 412;
	m.kind_case = TUTTI__V1__UPLOAD_MESSAGE__KIND_PUT;
	m.put = &put;
	send_upload(a->upload, &m);
}

/* Without a connection for each: a worker puts it. */
static void use_grant(struct agent *a, const Tutti__V1__Grant *grant)
{
	if (a->put_url || grant->n_headers > LIMIT_SMALL_FIELDS)
		return;
	a->put_url = xstrdup(grant->url);
	for (size_t i = 0; i < grant->n_headers; i++)
		a->put_headers[i] = xstrdup(grant->headers[i]);
	loop_work(a->fleet->loop, run_put, on_put, a);
}

static void send_chunk(struct agent *a)
{
	Tutti__V1__UploadMessage m = TUTTI__V1__UPLOAD_MESSAGE__INIT;
	Tutti__V1__UploadChunk chunk = TUTTI__V1__UPLOAD_CHUNK__INIT;

	chunk.crc32 = (uint32_t)crc32_z(0, trace, sizeof(trace));
	chunk.data = (ProtobufCBinaryData){ sizeof(trace), (uint8_t *)(uintptr_t)trace };
	m.kind_case = TUTTI__V1__UPLOAD_MESSAGE__KIND_CHUNK;
	m.chunk = &chunk;
	send_upload(a->upload, &m);
	rpc_half_close(a->upload);
}

static bool on_upload_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct agent *a = rpc_arg(call);
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);
	ProtobufCMessage *m;
	const Tutti__V1__UploadReply *reply;

	if (a->upload != call ||
	    message_unpack(&m, &tutti__v1__upload_reply__descriptor, LIMIT_GRANT_BYTES,
			   LIMIT_SMALL_FIELDS, data, len, NULL))
		return true;
	reply = (const Tutti__V1__UploadReply *)m;
	a->stored = reply->stored;
	if (reply->grant)
		use_grant(a, reply->grant);
	protobuf_c_message_free_unpacked(m, NULL);
	return true;
}

static void on_upload_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct agent *a = rpc_arg(call);

	if (a->upload != call)
		return;
	a->upload = NULL;
	if (st->code == RPC_OK && a->stored)
		send_result(a, "", "");
	else
		send_result(a, "upload", st->text);
}

static void send_upload(struct rpc_call *call, const Tutti__V1__UploadMessage *m)
{
	uint8_t data[512];

	rpc_send(call, data, tutti__v1__upload_message__pack(m, data));
}

static void on_credit(struct agent *a, const Tutti__V1__Upload *credit)
{
	static const struct rpc_events events = { .message = on_upload_message,
						  .closed = on_upload_closed };
	Tutti__V1__UploadMessage m = TUTTI__V1__UPLOAD_MESSAGE__INIT;
	Tutti__V1__UploadBegin begin = TUTTI__V1__UPLOAD_BEGIN__INIT;
	uint32_t sum = crc32c(0, trace, sizeof(trace));

	if (!*a->session || a->upload || a->put_url)
		return;
	a->by_credit = credit->grant;
	if (credit->grant) {
		use_grant(a, credit->grant);
		return;
	}
	a->upload = rpc_open(a->channel, "/tutti.v1.Ingest/Upload", INT64_MAX, &events, a);
	begin.session = a->session;
	begin.host = a->host;
	begin.instance = a->instance;
	begin.bytes = sizeof(trace);
	begin.files = &begin.bytes;
	begin.n_files = 1;
	begin.grants = a->fleet->opts.grants;
	begin.crc32c = &sum;
	begin.n_crc32c = begin.grants;
	m.kind_case = TUTTI__V1__UPLOAD_MESSAGE__KIND_BEGIN;
	m.begin = &begin;
	send_upload(a->upload, &m);
	if (!begin.grants)
		send_chunk(a);
}

static void on_window_end(void *arg)
{
	struct agent *a = arg;

	if (a->fleet->mode == MODE_FAIL) {
		send_result(a, "assemble", "as told");
		return;
	}
	send_progress(a, "uploading", sizeof(trace));
}

static void on_running(void *arg)
{
	struct agent *a = arg;

	send_progress(a, "running", 0);
	loop_timer_in(a->fleet->loop, &a->window, a->t1_ns - now_real_ns(), on_window_end, a);
}

static void on_window_begin(void *arg)
{
	struct agent *a = arg;

	if (a->fleet->mode == MODE_VANISH && a->call) {
		a->backoff_ns = VANISH_NS;
		a->up_at_ns = now_mono_ns(); /* so that the pause stays as it is */
		rpc_cancel(a->call);
		return;
	}
	if (a->t1_ns - a->t0_ns > LASTS_NS)
		loop_timer_in(a->fleet->loop, &a->window, LASTS_NS, on_running, a);
	else
		loop_timer_in(a->fleet->loop, &a->window, a->t1_ns - now_real_ns(), on_window_end,
			      a);
}

static void on_arm(struct agent *a, const Tutti__V1__Arm *arm)
{
	a->arm_raw_ns = now_raw_ns();
	forget_capture(a);
	snprintf(a->session, sizeof(a->session), "%s", arm->session);
	a->t0_ns = arm->t0_ns;
	a->t1_ns = arm->t0_ns + arm->duration_ns;
	if (a->fleet->mode == MODE_REFUSE) {
		send_refused(a);
		forget_capture(a);
		return;
	}
	send_armed(a);
	loop_timer_in(a->fleet->loop, &a->window, a->t0_ns - now_real_ns(), on_window_begin, a);
}

static void dispatch(struct agent *a, const aggregator_message *m)
{
	switch (m->kind_case) {
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_WELCOME:
		on_welcome(a);
		break;
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_ARM:
		on_arm(a, m->arm);
		break;
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_UPLOAD:
		on_credit(a, m->upload);
		break;
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_CANCEL:
		forget_capture(a);
		break;
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_RELEASE:
		a->fleet->releases++;
		forget_capture(a);
		break;
	default:
		break;
	}
}

static bool on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct agent *a = rpc_arg(call);
	aggregator_message *m = NULL;
	struct err e;
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);

	if (control_unpack_from_aggregator(&m, data, len, &e)) {
		log_error("SCALE-PEER", "host=%s reason=\"%s\"", a->host, e.msg);
		rpc_cancel(call);
		return true;
	}
	dispatch(a, m);
	tutti__v1__aggregator_message__free_unpacked(m, NULL);
	return true;
}

/* A channel of its own for each try, like the real agent. */
static void dial(void *arg)
{
	static const struct rpc_events events = { .message = on_message, .closed = on_closed };
	struct agent *a = arg;
	struct err e;

	rpc_channel_free(a->channel);
	a->channel = NULL;
	a->fleet->dials++;
	if (open_channel(a, "control", &a->channel, &e)) {
		log_error("SCALE-DIAL", "host=%s reason=\"%s\"", a->host, e.msg);
		go_down(a);
		return;
	}
	a->call = rpc_open(a->channel, "/tutti.v1.Control/Connect", INT64_MAX, &events, a);
	send_hello(a);
	loop_timer_in(a->fleet->loop, &a->retry, WELCOME_LIMIT_NS, on_no_welcome, a);
}

/* ---- commands ---- */

static void report(struct fleet *f)
{
	const char *comma = "";

	printf("{\"connected\": %zu, \"dials\": %zu, \"lost\": %zu, \"results\": %zu, "
	       "\"releases\": %zu, \"arms\": [",
	       f->connected, f->dials, f->lost, f->results, f->releases);
	for (size_t i = 0; i < f->opts.agents; i++) {
		if (!f->agents[i].arm_raw_ns)
			continue;
		printf("%s%" PRId64, comma, f->agents[i].arm_raw_ns);
		comma = ",";
		f->agents[i].arm_raw_ns = 0;
	}
	printf("]}\n");
}

static void status_now(struct fleet *f)
{
	int64_t raw_ns = now_raw_ns();

	for (size_t i = 0; i < f->opts.agents; i++)
		if (f->agents[i].up)
			send_status(&f->agents[i]);
	printf("{\"sent\": %" PRId64 "}\n", raw_ns);
}

static void on_stdin(void *arg, uint32_t events)
{
	struct fleet *f = arg;
	char line[64];
	ssize_t n = read(STDIN_FILENO, line, sizeof(line) - 1);

	(void)events;
	if (n <= 0) {
		loop_stop(f->loop);
		return;
	}
	line[n] = '\0';
	if (!strcmp(line, "report\n"))
		report(f);
	else if (!strcmp(line, "status\n"))
		status_now(f);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		if (!strcmp(line, modes[i]))
			f->mode = (enum mode)i;
	}
	fflush(stdout);
}

/* ---- life ---- */

/* Connecting by TLS costs an agent 4 ms of CPU. A host has that at once; thousands on one machine would starve each other, and
 * find their connections timed out. */
static int64_t spread_ns(const struct options *o)
{
	return (int64_t)o->agents * (o->tls_dir ? 16 * NS_PER_MS : NS_PER_MS / 4);
}

static void start_agents(struct fleet *f)
{
	int64_t over_ns = spread_ns(&f->opts);

	f->agents = xcalloc(f->opts.agents, sizeof(*f->agents));
	for (size_t i = 0; i < f->opts.agents; i++) {
		struct agent *a = &f->agents[i];

		a->fleet = f;
		snprintf(a->host, sizeof(a->host), "%s-%05zu", f->opts.prefix, i);
		random_bytes(&a->instance, sizeof(a->instance));
		a->backoff_ns = BACKOFF_FIRST_NS;
		loop_timer_in(f->loop, &a->retry, random_pause_ns(over_ns), dial, a);
	}
}

static void stop_agents(struct fleet *f)
{
	f->stopping = true;
	for (size_t i = 0; i < f->opts.agents; i++) {
		struct agent *a = &f->agents[i];

		forget_capture(a);
		rpc_channel_free(a->channel);
		a->channel = NULL;
	}
	rpc_free(f->rpc);
	for (size_t i = 0; i < f->opts.agents; i++) {
		loop_timer_cancel(f->loop, &f->agents[i].retry);
		loop_timer_cancel(f->loop, &f->agents[i].status);
	}
	free(f->agents);
}

static int run(struct fleet *f, struct err *e)
{
	struct loop_watch *watch = NULL;
	int rc = loop_new(&f->loop, 16, e);

	if (rc)
		return rc;
	rc = rpc_new(&f->rpc, f->loop, e);
	if (!rc)
		rc = loop_watch(f->loop, STDIN_FILENO, EPOLLIN, on_stdin, f, &watch, e);
	if (!rc) {
		start_agents(f);
		loop_run(f->loop);
		loop_unwatch(watch);
		stop_agents(f);
	}
	loop_free(f->loop);
	return rc;
}

static bool parse(struct options *o, int argc, char **argv)
{
	static const struct option known[] = {
		{ "target", required_argument, NULL, 't' },
		{ "agents", required_argument, NULL, 'n' },
		{ "prefix", required_argument, NULL, 'p' },
		{ "tls", required_argument, NULL, 's' },
		{ "status-ms", required_argument, NULL, 'g' },
		{ "grants", no_argument, NULL, 'u' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 't':
			o->target = optarg;
			break;
		case 'n':
			o->agents = strtoul(optarg, NULL, 10);
			break;
		case 'p':
			o->prefix = optarg;
			break;
		case 's':
			o->tls_dir = optarg;
			break;
		case 'g':
			o->status_gap_ns = strtol(optarg, NULL, 10) * NS_PER_MS;
			break;
		case 'u':
			o->grants = true;
			break;
		default:
			return false;
		}
	}
	return o->agents && o->agents <= LIMIT_HOSTS && o->target;
}

int main(int argc, char **argv)
{
	struct fleet f = { .opts = { .prefix = "s", .status_gap_ns = 0 } };
	struct rlimit files;
	struct err e;

	if (!parse(&f.opts, argc, argv)) {
		fprintf(stderr, "usage: see the head of tests/scale/agents.c\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	f.http = http_pool_new(NULL);
	log_set_level(LOG_ERROR);
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (run(&f, &e)) {
		fprintf(stderr, "scale_agents: %s\n", e.msg);
		return 1;
	}
	http_pool_free(f.http);
	return 0;
}
