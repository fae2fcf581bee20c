/* SPDX-License-Identifier: Apache-2.0 */
/* The profiler tracer against a server that misbehaves in every way we know of. */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/tracer/profiler/tracer_profiler.h"
#include "agent/tracers.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"
#include "tests/lib/fake_proc.h"
#include "tests/lib/fake_profiler.h"
#include "tests/lib/temp_dir.h"
#include "xspace/xspace.h"

#define WINDOW_NS (150 * NS_PER_MS) /* a busy machine is to ask within it */

enum { MAX_FAKES = 3 };

struct fixture {
	struct loop *loop;
	struct rpc *rpc;
	struct fake_profiler *fakes[MAX_FAKES];
	char *addresses[MAX_FAKES];
	struct profiler_conf conf;
	struct tracer *tracer;
	struct tracer_run run;
	char dir[64];
	int done;
	bool full; /* the spool */
	uint64_t taken_bytes;
};

static void run_done(struct tracer_run *run)
{
	struct fixture *f = run->done_arg;

	f->done++;
}

static bool reserve_bytes(struct tracer_run *run, uint64_t bytes)
{
	struct fixture *f = run->done_arg;

	if (!f->full)
		f->taken_bytes += bytes;
	return !f->full;
}

/* Servers of these modes, none of them configured yet. */
static void setup_servers(struct fixture *f, const enum fake_mode *modes, size_t n)
{
	struct err e;

	memset(f, 0, sizeof(*f));
	CHECK_OK(loop_new(&f->loop, 2, &e), e);
	CHECK_OK(rpc_new(&f->rpc, f->loop, &e), e);
	for (size_t i = 0; i < n; i++) {
		int port;

		CHECK_OK(fake_profiler_new(&f->fakes[i], f->loop, f->rpc, modes[i], "127.0.0.1:0",
					   &port, &e),
			 e);
		f->addresses[i] = xasprintf("127.0.0.1:%d", port);
	}
	snprintf(f->dir, sizeof(f->dir), "%s", temp_dir());
}

static int port_of(const char *address)
{
	return (int)strtol(strchr(address, ':') + 1, NULL, 10);
}

static void open_tracer(struct fixture *f, const char *proc)
{
	struct tracer_env env = {
		.conf = &f->conf, .host = "host-a", .loop = f->loop, .rpc = f->rpc
	};
	struct err e;

	CHECK_OK(tracer_profiler_open(&f->tracer, &env, proc, &e), e);
}

/* A /proc in which this process listens on the servers' ports. */
static const char *own_proc(struct fixture *f, size_t n)
{
	struct fake_socket sockets[MAX_FAKES + 1] = { 0 };
	const char *proc = fake_proc_make();

	fake_proc_add(getpid(), "test_agent", 77, FAKE_JAX_MAPS);
	for (size_t i = 0; i < n; i++) {
		char target[32];
		int inode = 201 + (int)i;

		sockets[i] = (struct fake_socket){ "0100007F", port_of(f->addresses[i]),
						   FAKE_LISTEN, inode };
		snprintf(target, sizeof(target), "socket:[%d]", inode);
		fake_proc_add_fd(getpid(), 3 + (int)i, target);
	}
	fake_proc_sockets("net/tcp", sockets);
	return proc;
}

static void setup(struct fixture *f, const enum fake_mode *modes, size_t n)
{
	setup_servers(f, modes, n);
	f->conf.profiler = (struct conf_list){ f->addresses, n };
	open_tracer(f, own_proc(f, n));
}

static void prepare(struct fixture *f, int64_t lead_ns, int64_t patience_ns)
{
	int64_t raw, real;

	now_pair_ns(&raw, &real, NULL);
	f->run = (struct tracer_run){
		.session = "2026_11_21_10_03_59_abcdef",
		.t0_raw_ns = raw + lead_ns,
		.t1_raw_ns = raw + lead_ns + WINDOW_NS,
		.t0_real_ns = real + lead_ns,
		.give_up_mono_ns = now_mono_ns() + lead_ns + WINDOW_NS + patience_ns,
		.dir = f->dir,
		.reserve_bytes = reserve_bytes,
		.done = run_done,
		.done_arg = f,
	};
}

static void arm(struct fixture *f)
{
	struct err e;

	CHECK_OK(f->tracer->ops->arm(f->tracer, &f->run, &e), e);
}

static void turn_until_done(struct fixture *f)
{
	RUN_UNTIL(f->loop, f->done);
	CHECK_EQ(f->done, 1);
	CHECK(!f->run.arg);
}

static void gather(struct fixture *f)
{
	f->tracer->ops->gather(f->tracer, &f->run);
	turn_until_done(f);
}

static int count_files(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	int n = 0;

	while ((entry = readdir(d)))
		n += entry->d_name[0] != '.';
	closedir(d);
	return n;
}

static void release_run(struct fixture *f)
{
	for (size_t i = 0; i < f->run.n_parts; i++) {
		unlink(f->run.parts[i].path);
		free(f->run.parts[i].path);
	}
	free(f->run.parts);
	CHECK_EQ(count_files(f->dir), 0); /* nothing but the parts is left behind */
}

static void teardown(struct fixture *f)
{
	f->tracer->ops->free(f->tracer);
	for (size_t i = 0; i < MAX_FAKES; i++) {
		fake_profiler_free(f->fakes[i]);
		free(f->addresses[i]);
	}
	release_run(f);
	CHECK(!rmdir(f->dir));
	rpc_free(f->rpc);
	loop_free(f->loop);
	fake_proc_remove();
}

/* One server, one window: what comes out. */
static void capture(struct fixture *f, enum fake_mode mode, int64_t patience_ns)
{
	setup(f, &mode, 1);
	prepare(f, 20 * NS_PER_MS, patience_ns);
	arm(f);
	gather(f);
}

static uint64_t count_events(const char *path, struct xs_summary *sum)
{
	struct buf bytes = BUF_INIT;
	struct xs_source source;
	FILE *file = fopen(path, "re");
	char block[4096];
	struct err e;
	size_t n;

	CHECK(file);
	while ((n = fread(block, 1, sizeof(block), file)) > 0)
		buf_add(&bytes, block, n);
	fclose(file);
	source = xs_source_memory(bytes.data, bytes.len);
	CHECK_OK(xs_summarize(&source, sum, &e), e);
	buf_release(&bytes);
	return sum->events;
}

/* ---- what goes right ---- */

static void check_window_is_covered(const struct fixture *f, const struct xs_summary *sum)
{
	CHECK_EQ(f->run.parts[0].start_real_ns, sum->profile_start_ns);
	CHECK((int64_t)sum->profile_stop_ns >= f->run.t0_real_ns + WINDOW_NS);
}

static void test_good(enum fake_mode mode)
{
	struct xs_summary sum;
	struct fixture f;

	capture(&f, mode, 20 * NS_PER_S);
	CHECK_STR(f.run.reason, "");
	CHECK_EQ(f.run.result, RUN_OK);
	CHECK_EQ(f.run.n_parts, 1);
	CHECK_EQ(f.run.parts[0].base, PART_REAL);
	CHECK_EQ(f.run.parts[0].pid, getpid());
	CHECK(!strncmp(f.run.parts[0].label, "test_agent", 10));
	CHECK(count_events(f.run.parts[0].path, &sum) > 10);
	check_window_is_covered(&f, &sum);
	teardown(&f);
}

/* However the trace comes: what it needs is known before it is written. */
static void test_room(enum fake_mode mode)
{
	struct fixture f;
	struct stat st;

	capture(&f, mode, 20 * NS_PER_S);
	CHECK(!stat(f.run.parts[0].path, &st));
	CHECK(f.taken_bytes >= (uint64_t)st.st_size);
	CHECK(f.taken_bytes < (uint64_t)st.st_size + 1000);
	teardown(&f);

	setup(&f, &mode, 1);
	f.full = true;
	prepare(&f, 20 * NS_PER_MS, 20 * NS_PER_S);
	arm(&f);
	gather(&f);
	CHECK_EQ(f.run.result, RUN_FAILED);
	CHECK_STR(f.run.reason, "disk-full");
	CHECK(strstr(f.run.detail, "--spool-limit"));
	CHECK_EQ(f.run.n_parts, 0);
	teardown(&f); /* nor did the server's file stay */
}

static void test_request(void)
{
	const Tensorflow__ProfileRequest *seen;
	struct fixture f;

	capture(&f, FAKE_GOOD, 20 * NS_PER_S);
	seen = fake_profiler_seen(f.fakes[0])->request;
	CHECK(seen->emit_xspace);
	CHECK(!strncmp(seen->repository_root, f.dir, strlen(f.dir)));
	CHECK(!strncmp(seen->session_id, "tutti_2026_11_21_10_03_59_abcdef_", 33));
	CHECK_STR(seen->host_name, "host-a");
	CHECK_EQ(seen->opts->version, 1);
	teardown(&f);
}

static void test_empty(void)
{
	struct fixture f;

	capture(&f, FAKE_EMPTY, 20 * NS_PER_S);
	CHECK_EQ(f.run.result, RUN_OK);
	CHECK_EQ(f.run.n_parts, 0);
	teardown(&f);
}

static void test_nothing_to_ask(void)
{
	struct tracer_state state;
	struct fixture f;

	setup(&f, NULL, 0);
	f.tracer->ops->state(f.tracer, &state);
	CHECK_EQ(state.health, TRACER_OFF);
	prepare(&f, 0, NS_PER_S);
	arm(&f);
	gather(&f);
	CHECK_EQ(f.run.result, RUN_OK);
	CHECK_EQ(f.run.n_parts, 0);
	CHECK_STR(f.run.reason, "");
	teardown(&f);
}

/* A capture that asks for a framework by the tracer's name, or by options of frameworks only. */
static void test_asked_for_nothing(bool named, const void *options, size_t len, const char *reason)
{
	struct fixture f;

	setup(&f, NULL, 0);
	prepare(&f, 0, NS_PER_S);
	f.run.is_named = named;
	f.run.profile_options = options;
	f.run.profile_options_len = len;
	arm(&f);
	gather(&f);
	CHECK_EQ(f.run.result, *reason ? RUN_FAILED : RUN_OK);
	CHECK_STR(f.run.reason, reason);
	CHECK(!*reason || strstr(f.run.detail, "start_server()"));
	CHECK_EQ(f.run.n_parts, 0);
	teardown(&f);
}

/* An older server writes its file seconds after its call was given up, or after the run was cancelled: it is
 * swept, folders included. */
static void test_files_of_given_up_profilers_are_swept(bool cancel)
{
	enum fake_mode mode = FAKE_OLD_DEAF;
	struct fixture f;

	setup(&f, &mode, 1);
	fake_profiler_delay(f.fakes[0], 3 * NS_PER_S);
	prepare(&f, 20 * NS_PER_MS, NS_PER_S);
	arm(&f);
	if (cancel) {
		RUN_UNTIL(f.loop, fake_profiler_seen(f.fakes[0])->profiles);
		f.tracer->ops->cancel(f.tracer, &f.run);
	} else {
		gather(&f);
		CHECK_STR(f.run.reason, "profiler-timeout");
	}
	RUN_UNTIL(f.loop, count_files(f.dir) > 0);
	RUN_UNTIL(f.loop, count_files(f.dir) == 0);
	teardown(&f);
}

/* ---- windows that end early ---- */

static void turn_until_asked(struct fixture *f)
{
	RUN_UNTIL(f->loop, fake_profiler_seen(f->fakes[0])->profiles);
	CHECK_EQ(fake_profiler_seen(f->fakes[0])->profiles, 1);
}

/* A window as long as it takes until the server was asked. */
static void capture_until_asked(struct fixture *f)
{
	prepare(f, 0, 20 * NS_PER_S);
	f->run.t1_raw_ns += 60 * NS_PER_S;
	f->run.give_up_mono_ns += 60 * NS_PER_S;
	arm(f);
	turn_until_asked(f);
	f->run.t1_raw_ns = now_raw_ns() + NS_PER_MS;
	f->tracer->ops->stop(f->tracer, &f->run);
	gather(f);
}

static void test_stop(void)
{
	enum fake_mode mode = FAKE_GOOD;
	const struct fake_seen *seen;
	struct fixture f;

	setup(&f, &mode, 1);
	capture_until_asked(&f);
	seen = fake_profiler_seen(f.fakes[0]);
	CHECK_EQ(seen->terminates, 1);
	CHECK_STR(seen->terminated, seen->request->session_id);
	CHECK_EQ(f.run.result, RUN_OK);
	CHECK_EQ(f.run.n_parts, 1);
	teardown(&f);
}

/* ---- discovered ---- */

/* The server of the fixture, as if it were of a process of its own. */
static void setup_discovered(struct fixture *f)
{
	enum fake_mode mode = FAKE_GOOD;
	struct fake_socket sockets[] = { { "00000000", 0, FAKE_LISTEN, 201 }, { 0 } };
	const char *proc = fake_proc_make();

	setup_servers(f, &mode, 1);
	sockets[0].port = port_of(f->addresses[0]);
	fake_proc_sockets("net/tcp", sockets);
	fake_proc_add(1 << 29, "python3", 77, FAKE_JAX_MAPS);
	fake_proc_add_fd(1 << 29, 3, "socket:[201]");
	f->conf.discover = true;
	open_tracer(f, proc);
}

/* Found by the look that the capture makes; forgotten by the one after the process ended. */
static void test_discovered(void)
{
	static const struct fake_socket none[] = { { 0 } };
	struct fixture f;

	setup_discovered(&f);
	capture_until_asked(&f);
	CHECK_EQ(f.run.result, RUN_OK);
	CHECK_EQ(f.run.n_parts, 1);
	CHECK_EQ(f.run.parts[0].pid, 1 << 29);
	CHECK_STR(f.run.parts[0].label, "python3 536870912");
	release_run(&f);

	fake_profiler_free(f.fakes[0]);
	f.fakes[0] = NULL;
	fake_proc_drop(1 << 29);
	fake_proc_sockets("net/tcp", none);
	run_for(f.loop, 110 * NS_PER_MS); /* else the look before counts */
	f.done = 0;
	prepare(&f, 20 * NS_PER_MS, 20 * NS_PER_S);
	arm(&f);
	gather(&f);
	CHECK_STR(f.run.detail, "");
	CHECK_EQ(f.run.result, RUN_OK);
	CHECK_EQ(f.run.n_parts, 0);
	teardown(&f);
}

/* ---- what goes wrong ---- */

struct wrong {
	enum fake_mode mode;
	const char *reason, *in_detail;
};

static void test_wrong(void)
{
	static const struct wrong wrongs[] = {
		{ FAKE_BUSY, "profiler-busy", "Another profiling session active" },
		{ FAKE_BROKEN, "profiler-failed", "the tracer fell over" },
		{ FAKE_OTHER, "profiler-old", "no such method" },
		{ FAKE_GARBAGE, "profiler-failed", "offset" },
		{ FAKE_NO_XSPACE, "profiler-failed", "not an XSpace" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrongs); i++) {
		struct fixture f;

		capture(&f, wrongs[i].mode, 20 * NS_PER_S);
		CHECK_STR(f.run.reason, wrongs[i].reason);
		CHECK_EQ(f.run.result, RUN_FAILED);
		CHECK_EQ(f.run.n_parts, 0);
		CHECK(strstr(f.run.detail, f.addresses[0]));
		CHECK(strstr(f.run.detail, wrongs[i].in_detail));
		teardown(&f);
	}
}

/* Neither a server that hangs nor a file that never comes is waited for beyond the end. */
static void test_patience(enum fake_mode mode, const char *reason)
{
	struct fixture f;

	capture(&f, mode, 300 * NS_PER_MS);
	CHECK_STR(f.run.reason, reason);
	CHECK_EQ(f.run.result, RUN_FAILED);
	teardown(&f);
}

static void test_dead_port(void)
{
	enum fake_mode mode = FAKE_GOOD;
	struct fixture f;

	setup(&f, &mode, 1);
	fake_profiler_free(f.fakes[0]); /* it had the only listener at this port */
	f.fakes[0] = NULL;
	prepare(&f, 20 * NS_PER_MS, 20 * NS_PER_S);
	arm(&f);
	gather(&f);
	CHECK_STR(f.run.reason, "profiler-unreachable");
	CHECK_EQ(f.run.result, RUN_FAILED);
	teardown(&f);
}

static void test_undated(void)
{
	struct fixture f;

	capture(&f, FAKE_UNDATED, 20 * NS_PER_S);
	CHECK_EQ(f.run.result, RUN_DEGRADED);
	CHECK_STR(f.run.reason, "profiler-old");
	CHECK_EQ(f.run.n_parts, 1);
	CHECK(f.run.parts[0].start_real_ns > f.run.t0_real_ns - NS_PER_S);
	teardown(&f);
}

/* The parts of the good ones are kept, the reason is the worst. */
static void test_several(void)
{
	static const enum fake_mode modes[] = { FAKE_BUSY, FAKE_GOOD, FAKE_BROKEN };
	struct fixture f;

	setup(&f, modes, 3);
	prepare(&f, 20 * NS_PER_MS, 20 * NS_PER_S);
	arm(&f);
	gather(&f);
	CHECK_EQ(f.run.result, RUN_DEGRADED);
	CHECK_STR(f.run.reason, "profiler-failed");
	CHECK_EQ(f.run.n_parts, 1);
	CHECK(strstr(f.run.detail, f.addresses[0]));
	CHECK(strstr(f.run.detail, f.addresses[2]));
	teardown(&f);
}

/* One of two has answered when the capture can wait no longer: its trace is not lost. */
static void test_given_up(void)
{
	static const enum fake_mode modes[] = { FAKE_GOOD, FAKE_HANGS };
	struct fixture f;

	setup(&f, modes, 2);
	prepare(&f, 20 * NS_PER_MS, 20 * NS_PER_S);
	arm(&f);
	f.tracer->ops->gather(f.tracer, &f.run);
	RUN_UNTIL(f.loop, count_files(f.dir));
	run_for(f.loop, 400 * NS_PER_MS); /* the file was begun: it is finished now */
	CHECK(!f.done);
	f.tracer->ops->give_up(f.tracer, &f.run);
	turn_until_done(&f);
	CHECK_EQ(f.run.result, RUN_DEGRADED);
	CHECK_STR(f.run.reason, "profiler-timeout");
	CHECK_EQ(f.run.n_parts, 1);
	CHECK(strstr(f.run.detail, f.addresses[1]) && !strstr(f.run.detail, f.addresses[0]));
	teardown(&f);
}

static void test_past(void)
{
	enum fake_mode mode = FAKE_GOOD;
	struct fixture f;

	setup(&f, &mode, 1);
	prepare(&f, -NS_PER_S, NS_PER_S);
	arm(&f);
	gather(&f);
	CHECK_EQ(f.run.result, RUN_OFF);
	CHECK_STR(f.run.reason, "unsupported");
	CHECK_EQ(fake_profiler_seen(f.fakes[0])->profiles, 0);
	teardown(&f);
}

/* A framework that always records gives a window that is over, makes room for a capture, and goes on. */
static void test_continuous(void)
{
	const enum fake_mode modes[] = { FAKE_GOOD, FAKE_OLD };
	const struct fake_seen *seen;
	struct xs_summary sum;
	struct fixture f;
	int64_t begun_ns;

	setup_servers(&f, modes, 2);
	f.conf.profiler = (struct conf_list){ f.addresses, 2 };
	f.conf.continuous = true;
	open_tracer(&f, own_proc(&f, 2));
	seen = fake_profiler_seen(f.fakes[0]);
	RUN_UNTIL(f.loop, seen->starts == 1);
	begun_ns = now_mono_ns();
	RUN_UNTIL(f.loop, now_mono_ns() > begun_ns + 2 * NS_PER_S);
	prepare(&f, -NS_PER_S, 10 * NS_PER_S);
	arm(&f);
	gather(&f);
	CHECK_EQ(f.run.result, RUN_OK);
	CHECK_EQ(f.run.n_parts, 1);
	CHECK(count_events(f.run.parts[0].path, &sum) > 10);
	CHECK(f.run.parts[0].start_real_ns < f.run.t0_real_ns);
	CHECK(strstr(f.run.detail, f.addresses[1]));
	CHECK(strstr(f.run.detail, "lacks continuous profiling"));
	CHECK_EQ(seen->snapshots, 1);

	release_run(&f);
	f.done = 0;
	prepare(&f, f.tracer->ops->lead_ns(f.tracer), 20 * NS_PER_S);
	arm(&f);
	gather(&f);
	CHECK_EQ(seen->stops, 1);
	CHECK_EQ(seen->profiles, 1);
	CHECK(!strstr(f.run.detail, f.addresses[0]));
	RUN_UNTIL(f.loop, seen->starts == 2);

	for (int i = 0; i < 14; i++) {
		begun_ns = now_mono_ns();
		RUN_UNTIL(f.loop, now_mono_ns() > begun_ns + 5 * NS_PER_S);
	}
	CHECK_EQ(seen->stops, 2); /* it is renewed before it gets too long */
	CHECK_EQ(seen->starts, 3);
	teardown(&f);
}

static void test_bad_addresses(void)
{
	char *bad[] = { (char *)"nonsense", (char *)"127.0.0.1:7410" };
	struct profiler_conf conf = { 0 };
	struct tracer_env env = { .conf = &conf, .listen = "127.0.0.1:7410" };
	struct tracer *t;
	struct err e;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		conf.profiler = (struct conf_list){ &bad[i], 1 };
		CHECK_EQ(tracer_profiler_ops.open(&t, &env, &e), ERR_INVALID);
		CHECK(strstr(e.msg, bad[i]));
	}
}

/* ---- ends before the end ---- */

/* Stopped before it began: nothing to ask, nothing missing. */
static void test_stop_before(void)
{
	enum fake_mode mode = FAKE_GOOD;
	struct fixture f;

	setup(&f, &mode, 1);
	prepare(&f, 60 * NS_PER_S, 20 * NS_PER_S);
	arm(&f);
	f.run.t1_raw_ns = now_raw_ns();
	f.tracer->ops->stop(f.tracer, &f.run);
	gather(&f);
	CHECK_EQ(f.run.result, RUN_OK);
	CHECK_EQ(f.run.n_parts, 0);
	CHECK_EQ(fake_profiler_seen(f.fakes[0])->profiles, 0);
	teardown(&f);
}

/* An agent that got no CPU time while the window passed has nothing, and says so. */
/* A framework that needs long to hand its trace over: waited for up to the grace, and what it costs is its own. */
static void test_slow(int64_t delay_ns, int result, const char *reason)
{
	static const enum fake_mode modes[] = { FAKE_GOOD, FAKE_GOOD };
	struct fixture f;

	setup(&f, modes, 2);
	fake_profiler_delay(f.fakes[1], delay_ns);
	prepare(&f, 20 * NS_PER_MS, 2 * NS_PER_S);
	arm(&f);
	gather(&f);
	CHECK_EQ(f.run.result, result);
	CHECK_STR(f.run.reason, reason);
	CHECK_EQ(f.run.n_parts, *reason ? 1 : 2);
	CHECK(!*reason || strstr(f.run.detail, "--grace"));
	teardown(&f);
}

/* The process ends in the window: what it recorded until then is kept, but not called complete. */
static void test_ended(enum fake_mode mode)
{
	struct fixture f;

	setup(&f, &mode, 1);
	fake_profiler_delay(f.fakes[0], -WINDOW_NS * 2 / 3);
	prepare(&f, 20 * NS_PER_MS, 20 * NS_PER_S);
	arm(&f);
	gather(&f);
	CHECK_EQ(f.run.result, mode == FAKE_EMPTY ? RUN_FAILED : RUN_DEGRADED);
	CHECK_STR(f.run.reason, "profiler-lost");
	CHECK_EQ(f.run.n_parts, mode == FAKE_EMPTY ? 0 : 1);
	teardown(&f);
}

static void test_killed(void)
{
	enum fake_mode mode = FAKE_HANGS;
	struct fixture f;

	setup(&f, &mode, 1);
	prepare(&f, 20 * NS_PER_MS, 20 * NS_PER_S);
	arm(&f);
	turn_until_asked(&f);
	fake_profiler_free(f.fakes[0]);
	f.fakes[0] = NULL;
	gather(&f);
	CHECK_EQ(f.run.result, RUN_FAILED);
	CHECK_STR(f.run.reason, "profiler-lost");
	teardown(&f);
}

static void test_asked_too_late(void)
{
	enum fake_mode mode = FAKE_GOOD;
	struct fixture f;

	setup(&f, &mode, 1);
	prepare(&f, 0, 20 * NS_PER_S);
	arm(&f);
	while (now_raw_ns() < f.run.t1_raw_ns)
		; /* the loop does not turn */
	gather(&f);
	CHECK_EQ(f.run.result, RUN_FAILED);
	CHECK_STR(f.run.reason, "window-cut");
	CHECK_EQ(fake_profiler_seen(f.fakes[0])->profiles, 0);
	teardown(&f);
}

static void test_cancel(enum fake_mode mode, bool asked)
{
	struct fixture f;

	setup(&f, &mode, 1);
	prepare(&f, 0, 20 * NS_PER_S);
	f.run.t1_raw_ns += 60 * NS_PER_S;
	arm(&f);
	if (asked)
		turn_until_asked(&f);
	f.tracer->ops->cancel(f.tracer, &f.run);
	if (asked)
		RUN_UNTIL(f.loop, fake_profiler_seen(f.fakes[0])->terminates);
	CHECK_EQ(fake_profiler_seen(f.fakes[0])->terminates, asked ? 1 : 0);
	CHECK_EQ(f.done, 0);
	teardown(&f);
}

int main(void)
{
	/* version 1, host_tracer_level 2, device_tracer_level 1; other levels; then device_type CPU */
	static const uint8_t default_options[] = { 5 << 3, 1, 2 << 3, 2, 3 << 3, 1 };
	static const uint8_t level_options[] = { 5 << 3, 1, 2 << 3, 1, 4 << 3, 1 };
	static const uint8_t device_options[] = { 5 << 3, 1, 2 << 3, 2, 3 << 3, 1, 6 << 3, 1 };

	test_good(FAKE_GOOD);
	test_good(FAKE_OLD);
	test_good(FAKE_OLD_PLUGINS);
	test_good(FAKE_HUGE);
	test_room(FAKE_GOOD);
	test_room(FAKE_OLD);
	test_room(FAKE_OLD_PLUGINS);
	test_request();
	test_empty();
	test_nothing_to_ask();
	test_asked_for_nothing(true, NULL, 0, "no-framework");
	test_asked_for_nothing(false, device_options, sizeof(device_options), "no-framework");
	test_asked_for_nothing(false, level_options, sizeof(level_options), "");
	test_asked_for_nothing(false, default_options, sizeof(default_options), "");
	test_discovered();
	test_wrong();
	test_patience(FAKE_HANGS, "profiler-timeout");
	test_files_of_given_up_profilers_are_swept(false);
	test_files_of_given_up_profilers_are_swept(true);
	test_patience(FAKE_OLD_LOST, "profiler-old");
	test_dead_port();
	test_undated();
	test_several();
	test_given_up();
	test_past();
	test_continuous();
	test_bad_addresses();
	test_stop();
	test_stop_before();
	test_slow(NS_PER_S, RUN_OK, "");
	test_slow(4 * NS_PER_S, RUN_DEGRADED, "profiler-timeout");
	test_ended(FAKE_GOOD);
	test_ended(FAKE_OLD);
	test_ended(FAKE_EMPTY);
	test_killed();
	test_asked_too_late();
	test_cancel(FAKE_GOOD, true);
	test_cancel(FAKE_HANGS, true);
	test_cancel(FAKE_GOOD, false);
	return 0;
}
