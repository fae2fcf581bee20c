/* SPDX-License-Identifier: Apache-2.0 */
/* Captures of a host with a wide bound: its clock is ahead until a probe is answered without delay. */
#include <stdlib.h>

#include "agent/capture/assemble.h"
#include "agent/clock/clock.h"
#include "agent/marks/marks.h"
#include "base/now.h"
#include "net/udp.h"
#include "proto/probe.h"
#include "tests/lib/check.h"
#include "tests/lib/xspace_text.h"
#include "tests/unit/agent/core_fixture.h"

#define SHIFT INT64_C(1790000000000000000) /* true session clock - raw */
#define EPOCH 77

static const struct siphash_key key = { { 9, 8, 7 } };

/* Answers probes. While it delays, it takes one at a time and answers as if that had come so late. */
struct reflector {
	struct loop *loop;
	struct udp *udp;
	int port;
	int64_t slow_ppm,
		begin_raw_ns; /* the session clock loses so much against raw from then on */
	int64_t hold_ns; /* 0 = at once */
	struct loop_timer timer;
	struct probe held;
	uint8_t addr[64];
	struct udp_from from;
};

static int64_t session_of_raw(const struct reflector *r, int64_t raw_ns)
{
	return raw_ns + SHIFT - (raw_ns - r->begin_raw_ns) / 1000000 * r->slow_ppm;
}

static int64_t raw_of_session(const struct reflector *r, int64_t session_ns)
{
	int64_t raw_ns = session_ns - SHIFT;

	for (int i = 0; i < 4; i++) /* each time 300 ppm nearer */
		raw_ns += session_ns - session_of_raw(r, raw_ns);
	return raw_ns;
}

static void answer(struct reflector *r, struct probe p, const struct udp_from *from)
{
	uint8_t packet[PROBE_BYTES];

	p.type = PROBE_REPLY;
	p.epoch = EPOCH;
	p.t2_ns = p.t3_ns = session_of_raw(r, now_raw_ns());
	probe_encode(&p, &key, packet);
	udp_send_to(r->udp, from, packet, sizeof(packet));
}

static void on_held(void *arg)
{
	struct reflector *r = arg;

	answer(r, r->held, &r->from);
}

static void on_probe(void *arg, const void *data, size_t len, int64_t raw_ns,
		     const struct udp_from *from)
{
	struct reflector *r = arg;
	struct probe p;

	(void)raw_ns;
	CHECK(probe_decode(&p, data, len));
	if (!r->hold_ns) {
		answer(r, p, from);
		return;
	}
	if (loop_timer_armed(&r->timer))
		return;
	CHECK(from->addr_len <= sizeof(r->addr));
	memcpy(r->addr, from->addr, from->addr_len);
	r->from = (struct udp_from){ r->addr, from->addr_len, false };
	r->held = p;
	loop_timer_in(r->loop, &r->timer, r->hold_ns, on_held, r);
}

struct rig {
	struct fixture f;
	struct reflector r;
	bool over;
};

static void rig_up_with(struct rig *g, int64_t hold_ns, const struct tracer_ops *const *fakes)
{
	struct clock_peer peer = {
		.host = "127.0.0.1", .cookie = 0xfeed, .epoch = EPOCH, .key = key
	};
	struct err e;

	*g = (struct rig){ .r = { .hold_ns = hold_ns } };
	fixture_up(&g->f, fakes, 1 << 20);
	g->r.loop = g->f.loop;
	CHECK_OK(udp_listen(&g->r.udp, g->r.loop, "127.0.0.1:0", on_probe, &g->r, &g->r.port, &e),
		 e);
	peer.port = g->r.port;
	CHECK_OK(clock_set_peer(g->f.clock, &peer, &e), e);
}

static void rig_up(struct rig *g, int64_t hold_ns)
{
	static const struct tracer_ops *const fakes[] = { &fake_now_ops, NULL };

	rig_up_with(g, hold_ns, fakes);
}

static void rig_down(struct rig *g)
{
	loop_timer_cancel(g->r.loop, &g->r.timer);
	udp_free(g->r.udp);
	fixture_down(&g->f);
}

static bool is_calibrated(void *arg)
{
	return clock_model(((struct rig *)arg)->f.clock).calibrated;
}

static bool is_over(void *arg)
{
	return ((struct rig *)arg)->over;
}

static void on_changed(struct capture *c, enum capture_state state, void *arg)
{
	struct rig *g = arg;

	(void)c;
	if (state == CAPTURE_GATHERING)
		g->r.hold_ns = 0;
	CHECK(state != CAPTURE_FAILED);
	g->over = state == CAPTURE_READY;
}

/* A window of 50 ms that by this clock, half of `hold_ns` ahead, was over 110 ms ago. */
static const struct capture_report *capture(struct rig *g, bool held_on, int64_t *t1_raw_ns)
{
	struct clock_model m;
	struct capture_request req = {
		.session = "2026_11_21_12_00_00_abc123",
		.duration_ns = 50 * NS_PER_MS,
		.changed = on_changed,
		.arg = g,
	};
	struct capture *c;
	struct err e;
	size_t n;

	fixture_until(&g->f, is_calibrated, g);
	m = clock_model(g->f.clock);
	req.t0_ns = clock_model_session_of_raw(&m, now_raw_ns()) - 160 * NS_PER_MS;
	req.give_up_ns = req.t0_ns + 30 * NS_PER_S;
	*t1_raw_ns = req.t0_ns + req.duration_ns - SHIFT;
	if (!held_on)
		g->r.hold_ns = 0;
	CHECK_OK(capture_start(g->f.captures, &req, &c, &e), e);
	fixture_until(&g->f, is_over, g);
	return capture_reports(c, &n);
}

/* The window is still to come, and the capture waits for it. */
static void test_asked_first(void)
{
	const struct capture_report *report;
	int64_t t1_raw_ns;
	struct rig g;

	rig_up(&g, 300 * NS_PER_MS);
	report = capture(&g, false, &t1_raw_ns);
	CHECK_STR(report->state, "ok");
	/* The edge is where the model has the window's end, which is right within its bound. */
	CHECK(fake_counts.t1_raw_ns > t1_raw_ns - NS_PER_MS);
	rig_down(&g);
}

/* If the clock learns too late, the report has what is missing. How late this machine is decides whether
 * something is. */
static void test_known_too_late(void)
{
	const struct capture_report *report;
	int64_t t1_raw_ns, missing_ns;
	struct rig g;

	rig_up(&g, 800 * NS_PER_MS);
	report = capture(&g, true, &t1_raw_ns);
	missing_ns = t1_raw_ns - fake_counts.t1_raw_ns;
	printf("%" PRId64 " ms are missing: %s %s\n", missing_ns / NS_PER_MS, report->state,
	       report->reason);
	if (missing_ns > 50 * NS_PER_MS)
		CHECK_STR(report->reason, "window-cut");
	if (missing_ns < -50 * NS_PER_MS)
		CHECK_STR(report->state, "ok");
	rig_down(&g);
}

/* The window was over whatever its end is within the bound, and the ring had all of it. The next model puts the end
 * beyond the edge: that is no loss. */
static void test_over_within_the_bound(void)
{
	const struct capture_report *report;
	int64_t t1_raw_ns;
	struct rig g;

	rig_up(&g, 60 * NS_PER_MS);
	report = capture(&g, true, &t1_raw_ns);
	CHECK(t1_raw_ns - fake_counts.t1_raw_ns > 20 * NS_PER_MS);
	CHECK_STR(report->state, "ok");
	rig_down(&g);
}

static void mark_step_of(struct rig *g, int32_t pid, int64_t raw_ns, int step)
{
	char text[32];

	snprintf(text, sizeof(text), "train#step_num=%d#", step);
	marks_add(g->f.marks,
		  &(struct mark){ .raw_ns = raw_ns, .pid = pid, .tid = pid, .text = text });
}

static void mark_step(struct rig *g, int64_t raw_ns, int step)
{
	mark_step_of(g, 7, raw_ns, step);
}

/* On a raw clock that is 300 ppm fast a window of 10 s takes 10.003 s: times of steps are those of the session
 * clock, and none lies beyond the window. */
static void test_times_of_steps_are_session_times(void)
{
	const int64_t window_ns = 10 * NS_PER_S;
	struct capture_request req = {
		.session = "2026_11_21_12_00_00_abc123",
		.duration_ns = window_ns,
		.changed = on_changed,
	};
	Tutti__V1__StepsSeen steps;
	struct capture *c;
	struct rig g;
	struct err e;

	rig_up(&g, 0);
	g.r.slow_ppm = 300;
	g.r.begin_raw_ns = now_raw_ns();
	fixture_until(&g.f, is_calibrated, &g);
	req.t0_ns = session_of_raw(&g.r, now_raw_ns()) + NS_PER_S;
	req.give_up_ns = req.t0_ns + 60 * NS_PER_S;
	req.arg = &g;
	CHECK_OK(capture_start(g.f.captures, &req, &c, &e), e);
	fixture_until(&g.f, is_over, &g);
	mark_step(&g, raw_of_session(&g.r, req.t0_ns + NS_PER_S), 1);
	/* those of another process do not count: it repeats the first one's, or has another job */
	mark_step_of(&g, 8, raw_of_session(&g.r, req.t0_ns + 2 * NS_PER_S), 70);
	mark_step(&g, raw_of_session(&g.r, req.t0_ns + window_ns - NS_PER_MS), 2);
	/* tracers gather what the bound says that the window may reach to, on both sides */
	CHECK(fake_counts.t0_raw_ns <
	      clock_model_raw_of_session(capture_clock(c), req.t0_ns) - 1000);
	CHECK(fake_counts.t1_raw_ns >
	      clock_model_raw_of_session(capture_clock(c), req.t0_ns + window_ns) + 1000);
	CHECK(capture_steps(c, &steps));
	CHECK_EQ(steps.first, 1);
	CHECK_EQ(steps.last, 1);
	CHECK(llabs(steps.first_at_ns - NS_PER_S) <= capture_bound_ns(c));
	CHECK(steps.end_at_ns <= window_ns);
	CHECK(steps.end_at_ns >= window_ns - NS_PER_MS - capture_bound_ns(c));
	CHECK(capture_bound_ns(c) < NS_PER_MS);
	rig_down(&g);
}

/* The bound of a capture is that of its file: how well it is known how the wall clock ran counts if a part is stamped with it. */
static void test_bound_of_wall_times(bool has_wall_times)
{
	static const struct tracer_ops *const raw[] = { &fake_now_ops, NULL };
	static const struct tracer_ops *const both[] = { &fake_now_ops, &fake_later_ops, NULL };
	const struct window_edges none = { 0 };
	struct capture_request req = {
		.session = "2026_11_21_12_00_00_abc123",
		.duration_ns = NS_PER_S,
		.changed = on_changed,
	};
	const struct clock_model *m;
	int64_t error_ns, without_ns;
	struct capture *c;
	struct rig g;
	struct err e;
	char *text;

	rig_up_with(&g, 0, has_wall_times ? both : raw);
	fixture_until(&g.f, is_calibrated, &g);
	req.t0_ns = session_of_raw(&g.r, now_raw_ns()) + 3 * NS_PER_S;
	req.give_up_ns = req.t0_ns + 60 * NS_PER_S;
	req.arg = &g;
	CHECK_OK(capture_start(g.f.captures, &req, &c, &e), e);
	fixture_until(&g.f, is_over, &g);
	m = capture_clock(c);
	error_ns = ledger_error_ns(&m->ledger, clock_model_raw_of_session(m, req.t0_ns),
				   clock_model_raw_of_session(m, req.t0_ns + NS_PER_S));
	without_ns = assemble_bound_ns(m, req.t0_ns, req.t0_ns + req.duration_ns, &none, false);
	CHECK(error_ns > 100);
	CHECK_EQ(capture_bound_ns(c), without_ns + (has_wall_times ? error_ns : 0));
	text = xspace_text_of_file(capture_path(c));
	CHECK_EQ(text_number(text, "clock_bound_ns="), capture_bound_ns(c));
	free(text);
	rig_down(&g);
}

int main(void)
{
	test_bound_of_wall_times(false);
	test_bound_of_wall_times(true);
	test_times_of_steps_are_session_times();
	test_asked_first();
	test_known_too_late();
	test_over_within_the_bound();
	return 0;
}
