/* SPDX-License-Identifier: Apache-2.0 */
/* Removing sessions: one that is pinned, captured or claimed stays whole, and who waits is told once. */
#include "aggregator/retention/removal.h"

#include "aggregator/sessions/pins.h"
#include "tests/unit/aggregator/fleet.h"

#define NOWHERE "2026_11_21_12_00_00_aaaaaa"

struct told {
	int n;
	enum removal_end end;
	struct err e;
};

static void on_end(void *arg, enum removal_end end, const struct err *e)
{
	struct told *t = arg;

	t->n++;
	t->end = end;
	if (e)
		t->e = *e;
}

static void remove_now(struct fleet *f, const char *session, struct told *t)
{
	*t = (struct told){ 0 };
	removals_begin(f->agg.removals, session, "test", on_end, t);
	WAIT(f, t->n);
	run_for(f->loop, NS_PER_S);
	CHECK_EQ(t->n, 1);
}

static void check_refused(struct fleet *f, const char *session, const char *why)
{
	size_t keys = fleet_keys(f);
	struct told t;

	remove_now(f, session, &t);
	CHECK_EQ(t.end, REMOVAL_REFUSED);
	CHECK(strstr(t.e.msg, why));
	CHECK_EQ(fleet_keys(f), keys);
}

static void stored(struct fleet *f, char session[64])
{
	snprintf(session, 64, "%s", fleet_begin(f)->session);
	fleet_wait_over(f, session);
	CHECK_EQ(capture_find(f->agg.captures, session)->state, CAP_COMMITTED);
}

static void test_pinned(struct fleet *f)
{
	char session[64], other[64];
	struct told t;
	struct err e;

	stored(f, session);
	stored(f, other);
	CHECK_OK(session_pin(f->agg.store.store, session, &e), e);
	check_refused(f, session, "is pinned");
	remove_now(f, other, &t); /* of another one a pin says nothing */
	CHECK_EQ(t.end, REMOVAL_DONE);
	CHECK_OK(session_unpin(f->agg.store.store, session, &e), e);
	remove_now(f, session, &t);
	CHECK_EQ(t.end, REMOVAL_DONE);
	CHECK_EQ(fleet_keys(f), 0);
}

static void test_captured(struct fleet *f, struct fake *a)
{
	struct capture *c;
	struct told t;

	a->auto_deliver = false;
	c = fleet_begin(f);
	WAIT(f, fleet_host_is(c, 0, "armed"));
	check_refused(f, c->session, "is being captured");
	CHECK(capture_cancel(c));
	fleet_wait_over(f, c->session);
	a->auto_deliver = true;
	remove_now(f, NOWHERE, &t);
	CHECK_EQ(t.end, REMOVAL_FAILED);
	CHECK_EQ(t.e.code, ERR_NOT_FOUND);
}

/* One at a time has a session; whoever had it leaves it free, whatever came of it. */
static void test_claimed(struct fleet *f)
{
	struct removals *r = f->agg.removals;
	struct told first = { 0 }, second = { 0 };
	char session[64];
	struct err e;

	stored(f, session);
	CHECK(removals_claim(r, session) && !removals_claim(r, session));
	CHECK(removals_claim(r, NOWHERE));
	check_refused(f, session, "is being deleted, pinned or retried");
	removals_release(r, NOWHERE);
	check_refused(f, session, "is being deleted, pinned or retried");
	removals_release(r, session);
	CHECK_OK(session_pin(f->agg.store.store, session, &e), e);
	check_refused(f, session, "is pinned");
	CHECK(removals_claim(r, session)); /* free again */
	removals_release(r, session);
	CHECK_OK(session_unpin(f->agg.store.store, session, &e), e);
	removals_begin(r, session, "test", on_end, &first);
	removals_begin(r, session, "test", on_end, &second);
	CHECK_EQ(second.n, 1);
	CHECK_EQ(second.end, REMOVAL_REFUSED);
	WAIT(f, first.n);
	CHECK_EQ(first.end, REMOVAL_DONE);
	CHECK(removals_claim(r, session));
	removals_release(r, session);
}

int main(void)
{
	struct fake a = { .auto_arm = true, .auto_deliver = true };
	struct fleet f;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	test_pinned(&f);
	test_captured(&f, &a);
	test_claimed(&f);
	fleet_stop(&f);
	return 0;
}
