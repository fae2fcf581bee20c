/* SPDX-License-Identifier: Apache-2.0 */
/* Windows that are over: sharing, patience, no queue for profilers, and windows that no ring reaches. */
#include "aggregator/captures/capture.h"
#include "aggregator/sessions/sessions.h"
#include "base/mem.h"
#include "tests/unit/aggregator/fleet.h"

#define LAST_NS (5 * NS_PER_S)

static int begin(struct fleet *f, int64_t ending_at_ns, int64_t ago_ns, struct capture **c,
		 struct err *e)
{
	const struct capture_request req = { .duration_ns = LAST_NS,
					     .snapshot = true,
					     .ending_at_ns = ending_at_ns,
					     .ago_ns = ago_ns,
					     .origin = "test" };

	return capture_begin(f->agg.captures, &req, c, e);
}

/* Hosts are armed for the past, have the whole patience to answer, and the whole grace to deliver. */
static void test_past_window(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true, .auto_deliver = true };
	struct capture *c;
	struct err e = { 0 };
	int64_t now_ns;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	now_ns = session_clock_now(&f.agg.clock);
	CHECK_OK(begin(&f, 0, 20 * NS_PER_S, &c, &e), e);
	WAIT(&f, capture_has_ended(c));
	CHECK_EQ(c->state, CAP_COMMITTED);
	CHECK_EQ(a.duration_ns, LAST_NS);
	CHECK(a.t0_ns + LAST_NS <= now_ns - 20 * NS_PER_S + NS_PER_S);
	CHECK(a.gather_by_ns > now_ns && a.deadline_ns > now_ns);
	CHECK_STR(fleet_result(c, 0).state, "complete");
	fleet_stop(&f);
}

/* A host that never answers costs the patience from now on, not nothing because T0 is long over. */
static void test_patience(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = false };
	struct capture *c;
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	CHECK_OK(begin(&f, 0, 0, &c, &e), e);
	WAIT(&f, a.arms == 1);
	CHECK(!capture_has_ended(c));
	fake_armed(&a);
	WAIT(&f, c->state == CAP_UPLOADING && fleet_host_is(c, 0, "armed"));
	CHECK(capture_cancel(c));
	WAIT(&f, capture_has_ended(c));
	fleet_stop(&f);
}

static void test_shared(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c, *same, *other;
	struct err e = { 0 };
	int64_t end_ns;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	end_ns = session_clock_now(&f.agg.clock) - NS_PER_S;
	CHECK_OK(begin(&f, end_ns, 0, &c, &e), e);
	CHECK_OK(begin(&f, end_ns, 0, &same, &e), e);
	CHECK(same == c);
	CHECK_OK(begin(&f, end_ns + 1, 0, &other, &e), e);
	CHECK(other != c);
	CHECK_OK(begin(&f, 0, NS_PER_S, &other, &e), e);
	CHECK(other != c);
	CHECK_OK(begin(&f, 0, NS_PER_S, &same, &e), e);
	CHECK(same == other); /* at the same time */
	fleet_stop(&f);
}

/* A capture has the profilers: a snapshot does not need them. */
static void test_no_queue(void)
{
	const struct capture_request long_one = { .duration_ns = LIMIT_DURATION_NS,
						  .origin = "test" };
	struct fleet f;
	struct fake a = { .auto_arm = true, .has_profiler = true };
	struct capture *first, *c;
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	CHECK_OK(capture_begin(f.agg.captures, &long_one, &first, &e), e);
	CHECK_OK(begin(&f, 0, 0, &c, &e), e);
	CHECK(c->state != CAP_QUEUED);
	fleet_stop(&f);
}

static void test_refused(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c;
	struct err e = { 0 };
	struct host *h;
	int64_t now_ns;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	now_ns = session_clock_now(&f.agg.clock);
	CHECK_EQ(begin(&f, now_ns + NS_PER_S, 0, &c, &e), ERR_INVALID);
	CHECK(strstr(e.msg, "a snapshot is of the past"));
	CHECK_EQ(begin(&f, LAST_NS, 0, &c, &e), ERR_INVALID);
	h = registry_find(f.agg.registry, "a");
	h->tracers[0].begin_ns = now_ns - 2 * NS_PER_S;
	CHECK_OK(begin(&f, 0, NS_PER_S, &c, &e), e); /* partly there */
	CHECK_EQ(begin(&f, 0, 3 * NS_PER_S, &c, &e), ERR_INVALID);
	CHECK(strstr(e.msg, "host a reaches back furthest"));
	CHECK_EQ(a.arms, 0);
	fleet_stop(&f);
}

static int retry(struct fleet *f, const char *session, struct capture **c, struct err *e)
{
	struct retry_source *s;
	int rc;

	CHECK_OK(retry_source_read(f->agg.store.store, session, &s, e), *e);
	rc = capture_retry(f->agg.captures, s, 0, c, e);
	retry_source_free(s);
	return rc;
}

/* A retry cuts the same window, and its hosts have the whole grace again. */
static void test_retry(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true, .auto_deliver = true };
	struct fake b = { .auto_arm = true };
	struct capture *c;
	struct err e = { 0 };
	char session[64];
	int64_t t0_ns, now_ns;

	fleet_start(&f, 0, NS_PER_S);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	CHECK_OK(begin(&f, 0, 20 * NS_PER_S, &c, &e), e);
	snprintf(session, sizeof(session), "%s", c->session);
	fleet_wait_over(&f, session);
	t0_ns = c->t0_ns;
	CHECK_STR(fleet_result(c, 1).state, "failed");
	b.auto_deliver = true;
	now_ns = session_clock_now(&f.agg.clock);
	CHECK_OK(retry(&f, session, &c, &e), e);
	fleet_wait_over(&f, session);
	CHECK_EQ(a.arms, 1);
	CHECK_EQ(b.arms, 2);
	CHECK_EQ(b.t0_ns, t0_ns);
	CHECK(b.gather_by_ns > now_ns && b.deadline_ns > now_ns);
	CHECK_STR(fleet_result(c, 1).state, "complete");
	CHECK_EQ(fleet_result(c, 1).t0_ns, 0);
	CHECK_EQ(json_array_size(c->warnings), 0);
	fleet_stop(&f);
}

/* On another session clock the window would be cut at a wrong place, so no host is asked for it. */
static void test_retry_on_another_clock(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true, .auto_deliver = true };
	struct fake b = { .auto_arm = true };
	struct capture *c;
	struct err e = { 0 };
	char session[64];

	fleet_start(&f, 0, NS_PER_S);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	CHECK_OK(begin(&f, 0, 20 * NS_PER_S, &c, &e), e);
	snprintf(session, sizeof(session), "%s", c->session);
	fleet_wait_over(&f, session);
	b.auto_deliver = true;
	f.agg.clock.shift_ns += NS_PER_S;
	CHECK_OK(retry(&f, session, &c, &e), e);
	fleet_wait_over(&f, session);
	CHECK_EQ(b.arms, 1);
	CHECK_STR(fleet_result(c, 1).reason, "refused");
	CHECK(strstr(fleet_result(c, 1).detail, "session clock was set anew"));
	fleet_stop(&f);
}

/* An agent that a restarted aggregator arms again has the whole grace, too. */
static void test_recovered(void)
{
	struct fleet f;
	struct fake a = { 0 };
	struct capture *c;
	struct err e = { 0 };
	char session[64];
	int64_t now_ns;
	json_t *left;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	CHECK_OK(begin(&f, 0, 20 * NS_PER_S, &c, &e), e);
	CHECK_EQ(fleet_wait_durable(&f, c), 0);
	snprintf(session, sizeof(session), "%s", c->session);
	left = fleet_left(&f, session);
	CHECK(capture_cancel(c));
	fleet_wait_over(&f, session);
	fake_hang_up(&a);
	f.agg.clock.kept = true;
	fleet_recover(&f, left);
	json_decref(left);
	a.welcomes = a.arms = 0;
	a.auto_arm = a.auto_deliver = true;
	now_ns = session_clock_now(&f.agg.clock);
	fake_dial(&a, &f, "a", a.instance);
	fake_hello(&a, NULL, NULL);
	WAIT(&f, a.arms == 1);
	CHECK(a.gather_by_ns > now_ns && a.deadline_ns > now_ns);
	fleet_wait_over(&f, session);
	CHECK_STR(fleet_result(capture_find(f.agg.captures, session), 0).state, "complete");
	fleet_stop(&f);
}

/* After a restart "all" is not all before agents have connected. */
static void test_known_hosts(void)
{
	struct capture_request req = {
		.duration_ns = LAST_NS, .snapshot = true, .ago_ns = 1, .origin = "test"
	};
	struct fleet f;
	struct fake a = { .auto_arm = true }, b = { .auto_arm = true };
	struct capture *c;
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	req.known = json_pack("[ss]", "a", "b");
	CHECK_EQ(capture_begin(f.agg.captures, &req, &c, &e), ERR_BUSY);
	CHECK(strstr(e.msg, "host b has not connected"));
	fake_connect(&b, &f, "b");
	CHECK_OK(capture_begin(f.agg.captures, &req, &c, &e), e);
	json_decref(req.known);
	req.known = json_pack("[i]", 7);
	CHECK_EQ(capture_begin(f.agg.captures, &req, &c, &e), ERR_INVALID);
	json_decref(req.known);
	fleet_stop(&f);
}

static int begin_expecting(struct fleet *f, json_t *expected, struct capture **c, struct err *e)
{
	const struct capture_request req = { .duration_ns = LAST_NS,
					     .snapshot = true,
					     .ago_ns = 1,
					     .origin = "test",
					     .expected = expected };
	int rc = capture_begin(f->agg.captures, &req, c, e);

	json_decref(expected);
	return rc;
}

/* A host that ended together with an earlier aggregator is named, in its place among the others, once. */
static void test_expected_hosts(void)
{
	struct fleet f;
	struct fake b = { .auto_arm = true, .auto_deliver = true };
	struct capture *c;
	struct err e = { 0 };
	char *session;

	fleet_start(&f, 0, 0);
	fake_connect(&b, &f, "b");
	CHECK_OK(begin_expecting(&f, json_pack("[sssss]", "d", "b", "a", "c", "a"), &c, &e), e);
	CHECK_EQ(c->n_hosts, 4);
	for (size_t i = 0; i < 4; i++) {
		const char name[2] = { (char)('a' + i), '\0' };

		CHECK_STR(c->hosts[i].name, name);
		CHECK_EQ(c->hosts[i].instance != 0, i == 1);
	}
	session = xstrdup(c->session);
	fleet_wait_over(&f, session);
	c = capture_find(f.agg.captures, session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	CHECK_STR(fleet_result(c, 0).reason, "unreachable");
	CHECK_STR(fleet_result(c, 1).state, "complete");
	CHECK_STR(fleet_result(c, 3).reason, "unreachable");
	CHECK_EQ(begin_expecting(&f, json_pack("[i]", 7), &c, &e), ERR_INVALID);
	CHECK_EQ(begin_expecting(&f, json_pack("[s]", "../x"), &c, &e), ERR_INVALID);
	free(session);
	fleet_stop(&f);
}

/* How far a ring reaches is not known before its host's clock is calibrated: it may have the window. */
static void test_unknown_reach(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true }, b = { .auto_arm = true };
	struct capture *c;
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	registry_find(f.agg.registry, "a")->tracers[0].begin_ns = session_clock_now(&f.agg.clock);
	CHECK_OK(begin(&f, 0, 3 * NS_PER_S, &c, &e), e);
	WAIT(&f, a.arms == 1 && b.arms == 1);
	fake_hang_up(&b);
	CHECK_EQ(begin(&f, 0, 10 * NS_PER_S, &c, &e), ERR_INVALID);
	fleet_stop(&f);
}

int main(void)
{
	test_past_window();
	test_patience();
	test_shared();
	test_no_queue();
	test_refused();
	test_unknown_reach();
	test_known_hosts();
	test_expected_hosts();
	test_retry();
	test_retry_on_another_clock();
	test_recovered();
	return 0;
}
