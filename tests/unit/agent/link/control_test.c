/* SPDX-License-Identifier: Apache-2.0 */
/* The control link and capture requests, against a fake aggregator on loopback. */
#include <jansson.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/capture/spool.h"
#include "agent/capture/spool_entry.h"
#include "agent/clock/clock.h"
#include "agent/link/control.h"
#include "base/conf.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/unit/agent/core_fixture.h"
#include "tests/unit/agent/link/fake_aggregator.h"
#include "xspace/xspace.h"

#define SESSION "2026_11_21_12_00_00_abc123"
#define OTHER	"2026_11_21_12_00_01_abc123"

static const struct tracer_ops *const good_fakes[] = { &fake_now_ops, &fake_later_ops, NULL };
static const struct tracer_ops *const short_fakes[] = { &fake_off_ops, &fake_now_ops,
							&fake_broken_ops, NULL };

struct rig {
	struct fixture f;
	struct fake_aggregator agg;
	struct rpc *rpc;
	struct control *control;
	char aggregator[32];
	int64_t back_within_ns;
};

static void new_control(struct rig *g)
{
	static char label[] = "pod=7";
	static char *all_labels[] = { label };
	static const struct conf_list labels = { .items = all_labels, .n = 1 };
	const struct link_env env = {
		.loop = g->f.loop,
		.rpc = g->rpc,
		.clock = g->f.clock,
		.marks = g->f.marks,
		.spool = g->f.spool,
		.captures = g->f.captures,
		.tracers = g->f.tracers,
		.host = "host-a",
		.labels = &labels,
		.profiler_address = "",
		.aggregator = g->aggregator,
		.reconnect_max_ns = 20 * NS_PER_S,
		.back_within_ns = g->back_within_ns,
	};
	struct err e;

	CHECK_OK(control_new(&g->control, &env, &e), e);
}

static void rig_up(struct rig *g, const struct tracer_ops *const *ops)
{
	struct err e;

	fixture_up(&g->f, ops, 1 << 30);
	CHECK_OK(rpc_new(&g->rpc, g->f.loop, &e), e);
	fake_aggregator_up(&g->agg, g->f.loop, g->rpc);
	snprintf(g->aggregator, sizeof(g->aggregator), "127.0.0.1:%d", g->agg.port);
	new_control(g);
}

static void rig_down(struct rig *g)
{
	control_free(g->control);
	fake_aggregator_down(&g->agg);
	captures_free(g->f.captures);
	g->f.captures = NULL;
	rpc_free(g->rpc);
	fixture_down(&g->f);
}

/* Turns the loop until the counter has reached n. */
struct goal {
	const int *counter;
	int n;
};

static bool is_reached(void *arg)
{
	const struct goal *goal = arg;

	return *goal->counter >= goal->n;
}

static void until(struct rig *g, const int *counter, int n)
{
	struct goal goal = { counter, n };

	fixture_until(&g->f, is_reached, &goal);
}

static bool is_calibrated(void *arg)
{
	const struct fake_aggregator *a = arg;

	return a->calibrated;
}

static bool is_in_spool(const struct rig *g, const char *session)
{
	char *path = xasprintf("%s/%s", g->f.spool_dir, session);
	bool found = !access(path, F_OK);

	free(path);
	return found;
}

static void test_whole_cycle(void)
{
	struct xs_summary summary;
	struct xs_source in;
	struct rig g;
	struct err e;

	rig_up(&g, good_fakes);
	fixture_until(&g.f, is_calibrated, &g.agg);
	CHECK_EQ(g.agg.hellos, 1);
	CHECK_STR(g.agg.host, "host-a");
	CHECK_STR(g.agg.label, "pod is 7");
	CHECK_STR(g.agg.tracer, "now");
	CHECK(control_is_connected(g.control));

	fake_arm(&g.agg, SESSION, 20 * NS_PER_MS, 10 * NS_PER_MS, NULL);
	until(&g, &g.agg.armed, 1);
	CHECK(g.agg.bound_ns > 0 && g.agg.lead_ns < 20 * NS_PER_MS);
	until(&g, &g.agg.progress, 1);
	CHECK_STR(g.agg.states, "uploading"); /* the states before did not last */
	CHECK_EQ(g.agg.uploads, 0); /* not before the upload credit */
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.results, 1);
	CHECK_EQ(g.agg.uploads, 1);
	CHECK_EQ(g.agg.questions, 0); /* a small file goes at once */
	CHECK(g.agg.has_file && g.agg.result_calibrated);
	CHECK_STR(g.agg.reason, "");
	CHECK_EQ(g.agg.events, 3);
	CHECK_EQ(g.agg.bytes, g.agg.file.len);
	CHECK_EQ(g.agg.n_reports, 2);
	in = xs_source_memory(g.agg.file.data, g.agg.file.len);
	CHECK_OK(xs_summarize(&in, &summary, &e), e);
	CHECK_EQ(summary.events, 3);
	/* T0 is zero in the file, whatever the agent's clock reads; the events are in the middle. */
	CHECK(llabs(summary.first_ns - 5 * NS_PER_MS) < NS_PER_MS);

	CHECK(is_in_spool(&g, SESSION));
	fake_release(&g.agg, SESSION);
	RUN_UNTIL(g.f.loop, !is_in_spool(&g, SESSION));
	CHECK_EQ(spool_available(g.f.spool), 1 << 30);
	control_free(g.control);
	g.control = NULL;
	CHECK_EQ(g.agg.disconnects, 1);
	CHECK_EQ(g.agg.lost, 0);
	rig_down(&g);
}

static void count(void *arg)
{
	++*(int *)arg;
}

/* An agent that stops ends a long window, delivers it, and leaves what has not begun to the next one. */
static void test_leave(void)
{
	struct rig g = { .back_within_ns = NS_PER_S };
	int left = 0;

	rig_up(&g, good_fakes);
	fixture_until(&g.f, is_calibrated, &g.agg);
	fake_arm(&g.agg, SESSION, 0, 600 * NS_PER_S, NULL);
	until(&g, &g.agg.progress, 1);
	fake_arm(&g.agg, "2026_11_21_12_00_00_later1", 600 * NS_PER_S, NS_PER_S, NULL);
	until(&g, &g.agg.armed, 2);
	control_leave(g.control, 60 * NS_PER_S, count, &left);
	CHECK_EQ(left, 0);
	until(&g, &g.agg.leavings, 1);
	CHECK(!is_in_spool(&g, "2026_11_21_12_00_00_later1"));
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.results, 1);
	CHECK(g.agg.has_file);
	CHECK_STR(g.agg.reason, "window-cut");
	until(&g, &left, 1);
	rig_down(&g);
}

/* Where no agent follows, a window that it will not see is refused at once, also one that was armed only then. */
static void test_leave_for_good(void)
{
	struct rig g = { 0 };
	int left = 0;

	rig_up(&g, good_fakes);
	fixture_until(&g.f, is_calibrated, &g.agg);
	fake_arm(&g.agg, SESSION, 600 * NS_PER_S, NS_PER_S, NULL);
	until(&g, &g.agg.armed, 1);
	control_leave(g.control, 60 * NS_PER_S, count, &left);
	until(&g, &g.agg.refused, 1);
	CHECK_STR(g.agg.reason, "refused");
	CHECK(strstr(g.agg.detail, "stops before the window begins"));
	CHECK(!is_in_spool(&g, SESSION));
	until(&g, &left, 1);
	fake_arm(&g.agg, OTHER, 600 * NS_PER_S, NS_PER_S, NULL);
	until(&g, &g.agg.refused, 2);
	rig_down(&g);
}

static bool is_ready(void *arg)
{
	const struct fake_aggregator *a = arg;

	return strstr(a->states, "uploading") != NULL;
}

/* With nothing to finish it is left at once; and one that cannot deliver does not wait for a credit for ever. */
static void test_leave_limits(void)
{
	struct rig g = { 0 };
	int left = 0;

	rig_up(&g, good_fakes);
	control_leave(g.control, 60 * NS_PER_S, count, &left);
	CHECK_EQ(left, 1);
	rig_down(&g);
	g = (struct rig){ 0 };
	rig_up(&g, good_fakes);
	fixture_until(&g.f, is_calibrated, &g.agg);
	fake_arm(&g.agg, SESSION, 0, 5 * NS_PER_MS, NULL);
	fixture_until(&g.f, is_ready, &g.agg);
	control_leave(g.control, 50 * NS_PER_MS, count, &left);
	until(&g, &left, 2);
	CHECK_EQ(g.agg.leavings, 0); /* no agent follows */
	control_free(g.control);
	g.control = NULL;
	CHECK(is_in_spool(&g, SESSION));
	rig_down(&g);
}

/* The upload credit may come before the file is ready. */
static void test_early_credit(void)
{
	struct rig g;

	rig_up(&g, good_fakes);
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, 5 * NS_PER_MS, 5 * NS_PER_MS, NULL);
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.results, 1);
	CHECK(g.agg.has_file);
	rig_down(&g);
}

/* That it records is told, where that takes a while. */
static void test_long_window(void)
{
	struct rig g;

	rig_up(&g, good_fakes);
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, NS_PER_S, NS_PER_S, NULL);
	until(&g, &g.agg.progress, 1);
	CHECK_STR(g.agg.states, "running");
	until(&g, &g.agg.progress, 2);
	CHECK_STR(g.agg.states, "running uploading");
	rig_down(&g);
}

/* A window that was over when it was armed is gathered at once, and its file is small: there is little to report. */
static void test_past_window(void)
{
	struct rig g;

	rig_up(&g, good_fakes);
	fixture_until(&g.f, is_calibrated, &g.agg);
	fake_arm(&g.agg, SESSION, -5 * NS_PER_MS, NS_PER_MS, NULL);
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.results, 1);
	CHECK(g.agg.has_file);
	CHECK_STR(g.agg.states, "uploading");
	rig_down(&g);
}

/* Where a tracer takes long to give what it has of such a window, that is reported. */
static void test_past_window_of_a_slow_tracer(void)
{
	static const struct tracer_ops *const slow[] = { &fake_slow_ops, NULL };
	struct rig g;

	rig_up(&g, slow);
	fixture_until(&g.f, is_calibrated, &g.agg);
	fake_arm(&g.agg, SESSION, -5 * NS_PER_MS, NS_PER_MS, NULL);
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.results, 1);
	CHECK(g.agg.has_file);
	CHECK_STR(g.agg.states, "gathering uploading");
	rig_down(&g);
}

/* A file larger than the queue goes in many chunks, with progress. */
static void test_big_file(void)
{
	static const struct tracer_ops *const big[] = { &fake_big_ops, NULL };
	struct rig g;

	rig_up(&g, big);
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, NS_PER_S, NS_PER_MS, NULL);
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.results, 1);
	CHECK(g.agg.has_file && g.agg.bytes > 9000000);
	CHECK_EQ(g.agg.bytes, g.agg.file.len);
	CHECK(g.agg.progress > 1);
	rig_down(&g);
}

/* Without answers to probes the capture goes on after a moment, by this host's own clock, and reports it. */
static void test_uncalibrated(void)
{
	struct rig g;

	rig_up(&g, good_fakes);
	g.agg.no_time = true;
	g.agg.shift_ns = now_real_ns() - now_raw_ns();
	until(&g, &g.agg.statuses, 1);
	CHECK(!g.agg.calibrated);
	fake_arm(&g.agg, SESSION, NS_PER_S, NS_PER_MS, NULL);
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.armed, 1);
	CHECK_EQ(g.agg.bound_ns, 0);
	until(&g, &g.agg.results, 1);
	CHECK(g.agg.has_file && !g.agg.result_calibrated);
	rig_down(&g);
}

/* The first tracer that is not ok gives the reason; one that is off only if it was named. */
static void test_reasons(void)
{
	struct rig g;

	rig_up(&g, short_fakes);
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, NS_PER_S, NS_PER_MS, NULL);
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.results, 1);
	CHECK(g.agg.has_file);
	CHECK_STR(g.agg.reason, "no-permission");
	CHECK_EQ(g.agg.n_reports, 3);
	fake_arm(&g.agg, OTHER, 0, NS_PER_MS, "off");
	fake_upload(&g.agg, OTHER);
	until(&g, &g.agg.results, 2);
	CHECK_STR(g.agg.reason, "unsupported");
	CHECK_EQ(g.agg.n_reports, 1);
	rig_down(&g);
}

static void test_refusals(void)
{
	struct rig g;

	rig_up(&g, good_fakes);
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, 0, NS_PER_MS, "nvml");
	until(&g, &g.agg.refused, 1);
	CHECK_STR(g.agg.reason, "refused");
	CHECK(strstr(g.agg.detail, "nvml"));
	fake_arm(&g.agg, SESSION, 0, 600 * NS_PER_S, NULL);
	until(&g, &g.agg.armed, 1);
	fake_arm(&g.agg, SESSION, NS_PER_S, NS_PER_MS, NULL);
	until(&g, &g.agg.refused, 2);
	CHECK_STR(g.agg.reason, "busy");
	fake_arm(&g.agg, OTHER, -60 * NS_PER_S, NS_PER_MS, NULL);
	until(&g, &g.agg.refused, 3);
	CHECK_STR(g.agg.reason, "late");
	rig_down(&g); /* with a capture under way */
}

static void test_stop_and_cancel(void)
{
	struct rig g;

	rig_up(&g, good_fakes);
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, 0, 600 * NS_PER_S, NULL);
	until(&g, &g.agg.progress, 1);
	fake_stop_capture(&g.agg, SESSION, fake_session_now(&g.agg));
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.results, 1);
	CHECK(g.agg.has_file);
	fake_arm(&g.agg, OTHER, 0, 600 * NS_PER_S, NULL);
	until(&g, &g.agg.armed, 2);
	fake_cancel_capture(&g.agg, OTHER);
	RUN_UNTIL(g.f.loop, !is_in_spool(&g, OTHER));
	fake_cancel_capture(&g.agg, OTHER); /* unknown by now: ignored */
	CHECK_EQ(g.agg.results, 1);
	rig_down(&g);
}

static void test_upload_refused(void)
{
	struct rig g;

	rig_up(&g, good_fakes);
	g.agg.refuse_uploads = RPC_FAILED_PRECONDITION;
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, NS_PER_S, NS_PER_MS, NULL);
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.results, 1);
	CHECK(!g.agg.has_file);
	CHECK_STR(g.agg.reason, "upload");
	CHECK(strstr(g.agg.detail, "no room"));
	/* The file stays, in case of another Upload. */
	CHECK(is_in_spool(&g, SESSION));
	g.agg.refuse_uploads = RPC_OK;
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.results, 2);
	CHECK(g.agg.has_file);
	rig_down(&g);
}

/* Bytes that arrive damaged each time are damaged on the disk: that is no reason to send them until the deadline. */
static void test_upload_damaged(void)
{
	struct rig g;

	rig_up(&g, good_fakes);
	g.agg.refuse_uploads = RPC_DATA_LOSS;
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, NS_PER_S, NS_PER_MS, NULL);
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.results, 1);
	CHECK(!g.agg.has_file);
	CHECK_STR(g.agg.reason, "upload");
	CHECK_EQ(g.agg.uploads, 3);
	rig_down(&g);
}

/* The upload survives a full disk of the aggregator and a connection that breaks in the middle. */
static void test_upload_resumes(void)
{
	static const struct tracer_ops *const big[] = { &fake_big_ops, NULL };
	struct rig g;

	rig_up(&g, big);
	g.agg.refuse_uploads = RPC_RESOURCE_EXHAUSTED;
	g.agg.cut_after = 5000000;
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, NS_PER_S, NS_PER_MS, NULL);
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.uploads, 1);
	g.agg.refuse_uploads = RPC_OK;
	until(&g, &g.agg.results, 1);
	CHECK(g.agg.has_file);
	CHECK_EQ(g.agg.uploads, 3);
	CHECK(g.agg.resumed_at >= 5000000);
	CHECK_EQ(g.agg.bytes, g.agg.file.len);
	rig_down(&g);
}

/* A small file that went at once, and did not arrive, goes again; then the aggregator is asked what it has. */
static void test_small_upload_again(void)
{
	struct rig g;

	rig_up(&g, good_fakes);
	g.agg.cut_after = 1;
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, NS_PER_S, NS_PER_MS, NULL);
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.results, 1);
	CHECK(g.agg.has_file);
	CHECK_EQ(g.agg.uploads, 2);
	CHECK_EQ(g.agg.questions, 1);
	CHECK_EQ(g.agg.bytes, g.agg.file.len);
	rig_down(&g);
}

/* An aggregator that makes grants is asked first, also for a small file. */
static void test_small_upload_for_grants(void)
{
	struct rig g;

	rig_up(&g, good_fakes);
	g.agg.makes_grants = true;
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, NS_PER_S, NS_PER_MS, NULL);
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.results, 1);
	CHECK(g.agg.has_file);
	CHECK_EQ(g.agg.questions, 1);
	rig_down(&g);
}

/* A grant that came with the credit and leads nowhere, or is none that an agent uses: then the aggregator is asked. */
static void test_grant_of_no_use(void)
{
	static const char *const urls[] = { "http://127.0.0.1:1/", "file:///etc/passwd" };

	for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
		struct rig g;

		rig_up(&g, good_fakes);
		g.agg.makes_grants = true;
		g.agg.grant_url = urls[i];
		until(&g, &g.agg.statuses, 1);
		fake_arm(&g.agg, SESSION, NS_PER_S, NS_PER_MS, NULL);
		until(&g, &g.agg.progress, 1);
		CHECK(g.agg.takes_grant && g.agg.crc32c);
		fake_upload(&g.agg, SESSION);
		until(&g, &g.agg.results, 1);
		CHECK(g.agg.has_file && !g.agg.is_put);
		CHECK_EQ(g.agg.questions, 1);
		CHECK_EQ(g.agg.bytes, g.agg.file.len);
		rig_down(&g);
	}
}

static void hang_up(struct rig *g)
{
	int hellos = g->agg.hellos;

	rpc_finish(g->agg.control, RPC_UNAVAILABLE, "gone");
	until(g, &g->agg.hellos, hellos + 1);
}

/* Capture requests survive the link, and are reported when it is back. */
static void test_link_breaks(void)
{
	struct rig g;
	int progress, results;

	rig_up(&g, good_fakes);
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, NS_PER_S, NS_PER_MS, NULL);
	until(&g, &g.agg.progress, 1);
	progress = g.agg.progress;
	hang_up(&g);
	CHECK_EQ(g.agg.n_held, 1);
	CHECK_STR(g.agg.held_session, SESSION);
	CHECK_STR(g.agg.held_state, "uploading");
	CHECK(g.agg.held_bytes && g.agg.held_instance == g.agg.instance);
	CHECK(g.agg.lease_ns > 600 * NS_PER_S);
	until(&g, &g.agg.progress, progress + 1);
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.results, 1);
	CHECK(g.agg.has_file);
	results = g.agg.results;
	hang_up(&g);
	CHECK_STR(g.agg.held_state, "stored");
	until(&g, &g.agg.results, results + 1);
	CHECK(g.agg.has_file);
	fake_release(&g.agg, SESSION);
	RUN_UNTIL(g.f.loop, !is_in_spool(&g, SESSION));
	hang_up(&g);
	CHECK_EQ(g.agg.n_held, 0);
	rig_down(&g);
}

/* Nor is it forgotten that a capture failed meanwhile. */
static void test_failure_waits_for_link(void)
{
	struct rig g;
	char *path;
	int links;

	rig_up(&g, good_fakes);
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, NS_PER_S, NS_PER_MS, "now");
	until(&g, &g.agg.armed, 1);
	path = xasprintf("%s/%s", g.f.spool_dir, SESSION);
	CHECK(!rmdir(path)); /* so there is no place for its file */
	links = g.agg.links;
	g.agg.refuse_links = RPC_UNAVAILABLE;
	rpc_finish(g.agg.control, RPC_UNAVAILABLE, "gone");
	until(&g, &g.agg.links, links + 4);
	run_for(g.f.loop, 3 * NS_PER_S);
	CHECK_EQ(g.agg.results, 0);
	g.agg.refuse_links = RPC_OK;
	until(&g, &g.agg.results, 1);
	CHECK(!g.agg.has_file && *g.agg.reason && *g.agg.detail);
	free(path);
	rig_down(&g);
}

/* Arming a session whose file is there offers the file. */
static void test_armed_again(void)
{
	struct rig g;

	rig_up(&g, good_fakes);
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, NS_PER_S, NS_PER_MS, NULL);
	until(&g, &g.agg.progress, 1);
	fake_arm(&g.agg, SESSION, NS_PER_S, NS_PER_MS, NULL);
	until(&g, &g.agg.armed, 2);
	until(&g, &g.agg.progress, 2);
	CHECK_STR(g.agg.state, "uploading");
	rig_down(&g);
}

static void wait_for_entry(struct rig *g)
{
	char *path = xasprintf("%s/%s/entry", g->f.spool_dir, SESSION);

	RUN_UNTIL(g->f.loop, !access(path, F_OK));
	free(path);
}

/* As after a kill: only the spool is left to the next agent. */
static void restart_agent(struct rig *g, bool damage)
{
	char *path = xasprintf("%s/%s/host-a.xplane.pb", g->f.spool_dir, SESSION);
	struct fixture *f = &g->f;
	struct err e;

	control_free(g->control);
	captures_free(f->captures);
	spool_free(f->spool);
	if (damage)
		CHECK(!truncate(path, 10));
	free(path);
	CHECK_OK(spool_open(&f->spool, f->spool_dir, 1 << 30, &e), e);
	fixture_new_captures(f);
	new_control(g);
}

static void test_next_agent(void)
{
	uint64_t bytes, instance, events;
	struct rig g;

	rig_up(&g, good_fakes);
	fixture_until(&g.f, is_calibrated, &g.agg);
	fake_arm(&g.agg, SESSION, NS_PER_S, NS_PER_MS, NULL);
	until(&g, &g.agg.progress, 1);
	wait_for_entry(&g);
	instance = g.agg.instance;
	restart_agent(&g, false);
	until(&g, &g.agg.hellos, 2);
	CHECK(g.agg.instance != instance);
	CHECK_EQ(g.agg.n_held, 1);
	CHECK_STR(g.agg.held_session, SESSION);
	CHECK_STR(g.agg.held_state, "uploading");
	CHECK(g.agg.held_instance == instance);
	bytes = g.agg.held_bytes;
	CHECK_EQ(spool_available(g.f.spool), (1 << 30) - bytes);
	until(&g, &g.agg.progress, 2);
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.results, 1);
	events = g.agg.events;
	CHECK(g.agg.has_file && g.agg.result_calibrated);
	CHECK_EQ(events, 3);
	CHECK_EQ(g.agg.n_reports, 2);
	CHECK_EQ(g.agg.file.len, bytes);
	fake_release(&g.agg, SESSION);
	RUN_UNTIL(g.f.loop, spool_available(g.f.spool) == 1 << 30);
	restart_agent(&g, false);
	until(&g, &g.agg.hellos, 3);
	CHECK_EQ(g.agg.n_held, 0);
	rig_down(&g);
}

/* What was announced and reported of the host's files is what came: each is whole, and an XSpace with its event. */
static void check_files(const struct fake_aggregator *a, size_t n)
{
	uint64_t at = 0;

	CHECK_EQ(a->n_announced_files, n);
	CHECK_EQ(a->n_result_files, n);
	for (size_t i = 0; i < n; i++) {
		const uint64_t bytes = a->announced_files[i];
		const uint8_t *file = a->file.data + at;
		struct xs_source in = xs_source_memory(file, bytes);
		struct xs_summary summary;
		struct err e;

		CHECK_EQ(a->result_files[i], bytes);
		CHECK(at + bytes <= a->file.len);
		CHECK_EQ(crc32c(0, file, bytes), a->result_crc32c[i]);
		CHECK_OK(xs_summarize(&in, &summary, &e), e);
		CHECK_EQ(summary.events, 1);
		at += bytes;
	}
	CHECK_EQ(at, a->file.len);
	CHECK_EQ(a->announced, at);
	CHECK_EQ(a->bytes, at);
}

/* A host with three files, the last one no less than the others; also if the next agent delivers them. */
static void test_several_files(bool restarts)
{
	static const struct tracer_ops *const many[] = { &fake_many_ops, NULL };
	struct rig g;

	rig_up(&g, many);
	control_free(g.control);
	captures_free(g.f.captures);
	g.f.file_limit_bytes = 40000;
	fixture_new_captures(&g.f);
	new_control(&g);
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, NS_PER_S, 10 * NS_PER_MS, NULL);
	until(&g, &g.agg.progress, 1);
	wait_for_entry(&g);
	if (restarts) {
		restart_agent(&g, false);
		until(&g, &g.agg.progress, 2);
	}
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.results, 1);
	CHECK(g.agg.has_file);
	CHECK_EQ(g.agg.events, 3);
	check_files(&g.agg, 3);
	rig_down(&g);
}

/* A file that does not match its spool entry is removed. */
static void test_next_agent_finds_damage(void)
{
	struct rig g;

	rig_up(&g, good_fakes);
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, NS_PER_S, NS_PER_MS, NULL);
	until(&g, &g.agg.progress, 1);
	wait_for_entry(&g);
	restart_agent(&g, true);
	until(&g, &g.agg.hellos, 2);
	CHECK_EQ(g.agg.n_held, 0);
	CHECK_EQ(spool_available(g.f.spool), 1 << 30);
	rig_down(&g);
}

/* The descriptors that the spool itself needs (its lock, its folder, and that once more to list it), and none for an entry. */
static struct rlimit allow_three_descriptors(void)
{
	struct rlimit all;
	int fds[3];

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		CHECK((fds[i] = dup(STDERR_FILENO)) > (i ? fds[i - 1] : -1));
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	CHECK(!getrlimit(RLIMIT_NOFILE, &all));
	CHECK(!setrlimit(RLIMIT_NOFILE, &(struct rlimit){ .rlim_cur = (rlim_t)fds[2] + 1,
							  .rlim_max = all.rlim_max }));
	return all;
}

/* Puts a folder where the entry is: reading it fails. Or puts the entry back. */
static void hide_entry(struct rig *g, bool hide)
{
	char *entry = xasprintf("%s/%s/entry", g->f.spool_dir, SESSION);
	char *away = xasprintf("%s/away", g->f.dir);

	CHECK(hide ? !rename(entry, away) && !mkdir(entry, 0700)
		   : !rmdir(entry) && !rename(away, entry));
	free(entry);
	free(away);
}

/* A spool entry that cannot be read for a moment (EMFILE, then an error of reading) is kept, and its file is
 * offered when it can be. */
static void test_spool_entry_is_unreadable_for_a_moment(void)
{
	struct fixture *f;
	struct rlimit all;
	struct rig g;
	struct err e;

	rig_up(&g, good_fakes);
	f = &g.f;
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, NS_PER_S, NS_PER_MS, NULL);
	until(&g, &g.agg.progress, 1);
	wait_for_entry(&g);
	control_free(g.control);
	captures_free(f->captures);
	spool_free(f->spool);
	all = allow_three_descriptors();
	CHECK_OK(spool_open(&f->spool, f->spool_dir, 1 << 30, &e), e);
	CHECK(!setrlimit(RLIMIT_NOFILE, &all));
	CHECK(is_in_spool(&g, SESSION));
	hide_entry(&g, true);
	fixture_new_captures(f);
	new_control(&g);
	until(&g, &g.agg.hellos, 2);
	CHECK_EQ(g.agg.n_held, 0);
	CHECK(is_in_spool(&g, SESSION));
	hide_entry(&g, false);
	until(&g, &g.agg.progress, 2);
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.results, 1);
	CHECK(g.agg.has_file);
	rig_down(&g);
}

/* As an agent with a bug would have left it: more events than a result may have. */
static void spoil_result(struct rig *g)
{
	char *dir = xasprintf("%s/%s", g->f.spool_dir, SESSION);
	Tutti__V1__SpoolEntry *entry;
	Tutti__V1__AgentMessage *m;
	struct err e;

	CHECK_OK(spool_entry_read(dir, SESSION, &entry, &e), e);
	m = tutti__v1__agent_message__unpack(NULL, entry->result.len, entry->result.data);
	CHECK(m && m->result);
	m->result->events = UINT64_MAX;
	free(entry->result.data);
	entry->result.len = tutti__v1__agent_message__get_packed_size(m);
	entry->result.data = xmalloc(entry->result.len);
	tutti__v1__agent_message__pack(m, entry->result.data);
	CHECK_OK(spool_entry_write(dir, entry, &e), e);
	tutti__v1__agent_message__free_unpacked(m, NULL);
	tutti__v1__spool_entry__free_unpacked(entry, NULL);
	free(dir);
}

/* The aggregator would end the link for this result, at each reconnect: it is not sent (the fake checks all
 * messages), its file is delivered. */
static void test_result_out_of_range(void)
{
	struct rig g;

	rig_up(&g, good_fakes);
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, NS_PER_S, NS_PER_MS, NULL);
	until(&g, &g.agg.progress, 1);
	wait_for_entry(&g);
	spoil_result(&g);
	restart_agent(&g, false);
	until(&g, &g.agg.progress, 2);
	fake_upload(&g.agg, SESSION);
	until(&g, &g.agg.results, 1);
	CHECK(g.agg.has_file);
	CHECK_STR(g.agg.reason, "tracer-failed");
	CHECK(strstr(g.agg.detail, "events"));
	rig_down(&g);
}

/* A broken message ends the connection; the agent dials again and keeps its requests. */
static void test_broken_peer(void)
{
	Tutti__V1__AggregatorMessage m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;
	Tutti__V1__Cancel cancel = TUTTI__V1__CANCEL__INIT;
	struct rig g;

	rig_up(&g, good_fakes);
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, 0, 600 * NS_PER_S, NULL);
	until(&g, &g.agg.armed, 1);
	rpc_send(g.agg.control, "\xff\xff\xff", 3);
	until(&g, &g.agg.hellos, 2);
	CHECK_EQ(g.agg.n_held, 1);
	CHECK_EQ(g.agg.lost, 1);

	until(&g, &g.agg.statuses, 2);
	cancel.session = (char *)"../../etc";
	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_CANCEL;
	m.cancel = &cancel;
	fake_send(&g.agg, &m);
	until(&g, &g.agg.hellos, 3);
	CHECK_EQ(g.agg.lost, 2);
	rig_down(&g);
}

/* The aggregator's first message must be Welcome. */
static void test_no_welcome(void)
{
	struct rig g;

	rig_up(&g, good_fakes);
	g.agg.no_welcome = true;
	until(&g, &g.agg.hellos, 1);
	CHECK(!control_is_connected(g.control));
	fake_release(&g.agg, SESSION);
	until(&g, &g.agg.hellos, 2);
	rig_down(&g);
}

/* Any message that is not valid ends the link; the agent dials again. */
static void end_link(struct rig *g)
{
	Tutti__V1__AggregatorMessage m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;
	Tutti__V1__Cancel cancel = TUTTI__V1__CANCEL__INIT;

	cancel.session = (char *)"../../etc";
	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_CANCEL;
	m.cancel = &cancel;
	fake_send(&g->agg, &m);
}

/* A leader of an earlier term is refused; an aggregator without a term is not, and changes nothing of that. */
static void test_terms(void)
{
	struct rig g;

	rig_up(&g, good_fakes);
	g.agg.term = 5;
	until(&g, &g.agg.statuses, 1);
	g.agg.term = 0;
	end_link(&g);
	until(&g, &g.agg.hellos, 2);
	until(&g, &g.agg.statuses, 2);
	CHECK(control_is_connected(g.control));
	g.agg.term = 4;
	end_link(&g);
	until(&g, &g.agg.hellos, 4);
	CHECK(!control_is_connected(g.control));
	CHECK_EQ(g.agg.statuses, 2);
	g.agg.term = 6;
	until(&g, &g.agg.statuses, 3);
	rig_down(&g);
}

/* ---- questions ---- */

struct answered {
	int n;
	bool ok;
	char session[64], detail[256];
};

static void on_answer(void *arg, bool ok, const char *session, const char *detail)
{
	struct answered *a = arg;

	a->n++;
	a->ok = ok;
	snprintf(a->session, sizeof(a->session), "%s", session);
	snprintf(a->detail, sizeof(a->detail), "%s", detail);
}

static void test_questions(void)
{
	const struct control_question q = {
		.verb = "start", .session = "", .hosts = "all", .duration_ns = NS_PER_S, .run = "r"
	};
	struct answered early = { 0 }, first = { 0 }, second = { 0 };
	struct rig g;

	rig_up(&g, good_fakes);
	control_ask(g.control, &q, on_answer, &early);
	CHECK_EQ(early.n, 1);
	CHECK(!early.ok && strstr(early.detail, "not connected"));
	until(&g, &g.agg.statuses, 1);
	control_ask(g.control, &q, on_answer, &first);
	control_ask(g.control, &q, on_answer, &second);
	until(&g, &g.agg.asks, 2);
	fake_answer(&g.agg, g.agg.ask_id + 100, true, SESSION); /* an unknown id */
	fake_answer(&g.agg, g.agg.ask_id, true, SESSION);
	until(&g, &second.n, 1);
	CHECK(second.ok);
	CHECK_STR(second.session, SESSION);
	CHECK_EQ(first.n, 0);
	rig_down(&g); /* the other is answered now, with "no" */
	CHECK_EQ(first.n, 1);
	CHECK(!first.ok);
}

static void test_json(void)
{
	struct rig g;
	json_t *j;

	rig_up(&g, good_fakes);
	until(&g, &g.agg.statuses, 1);
	fake_arm(&g.agg, SESSION, 0, 600 * NS_PER_S, NULL);
	until(&g, &g.agg.progress, 1);
	j = control_captures_json(g.control);
	CHECK_EQ(json_array_size(j), 1);
	CHECK_STR(json_string_value(json_object_get(json_array_get(j, 0), "state")), "running");
	json_decref(j);
	rig_down(&g);
}

int main(void)
{
	test_whole_cycle();
	test_leave();
	test_leave_for_good();
	test_leave_limits();
	test_early_credit();
	test_long_window();
	test_past_window();
	test_past_window_of_a_slow_tracer();
	test_big_file();
	test_uncalibrated();
	test_reasons();
	test_refusals();
	test_stop_and_cancel();
	test_upload_refused();
	test_upload_damaged();
	test_upload_resumes();
	test_small_upload_again();
	test_small_upload_for_grants();
	test_grant_of_no_use();
	test_link_breaks();
	test_failure_waits_for_link();
	test_armed_again();
	test_next_agent();
	test_several_files(false);
	test_several_files(true);
	test_next_agent_finds_damage();
	test_spool_entry_is_unreadable_for_a_moment();
	test_result_out_of_range();
	test_broken_peer();
	test_no_welcome();
	test_terms();
	test_questions();
	test_json();
	return 0;
}
