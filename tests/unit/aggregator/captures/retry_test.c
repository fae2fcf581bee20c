/* SPDX-License-Identifier: Apache-2.0 */
/* Links that break and come back, and sessions that are taken up again. */
#include "aggregator/captures/capture.h"
#include "aggregator/sessions/sessions.h"
#include "storage/store.h"
#include "tests/lib/manifest.h"
#include "tests/lib/store.h"
#include "tests/unit/aggregator/fleet.h"

#define HALF_GRACE_NS (2 * NS_PER_S)

static void hold(struct fake *a, const char *session, const char *state)
{
	snprintf(a->held, sizeof(a->held), "%s", session);
	snprintf(a->held_state, sizeof(a->held_state), "%s", state);
	snprintf(a->session, sizeof(a->session), "%s", session);
}

static json_t *load(struct fleet *f, const char *session)
{
	json_t *manifest = NULL;
	struct err e = { 0 };

	CHECK_OK(load_manifest(f->agg.store.store, session, &manifest, &e), e);
	return manifest;
}

static const json_t *result(const json_t *manifest, size_t i)
{
	return json_array_get(json_object_get(manifest, "hosts"), i);
}

static int retry_with(struct fleet *f, const char *session, int64_t grace_ns, struct capture **c,
		      struct err *e)
{
	struct retry_source *s;
	int rc = retry_source_read(f->agg.store.store, session, &s, e);

	if (!rc)
		rc = capture_retry(f->agg.captures, s, grace_ns, c, e);
	retry_source_free(s);
	return rc;
}

static int retry(struct fleet *f, const char *session, struct capture **c, struct err *e)
{
	return retry_with(f, session, 0, c, e);
}

/* host-a delivers, host-b is armed and then silent: a session that lacks b. */
static struct capture *half(struct fleet *f, struct fake *a, struct fake *b, char session[64])
{
	struct capture *c;

	fleet_start(f, 0, HALF_GRACE_NS);
	a->auto_deliver = true;
	fake_connect(a, f, "host-a");
	fake_connect(b, f, "host-b");
	c = fleet_begin(f);
	snprintf(session, 64, "%s", c->session);
	WAIT(f, b->arms);
	fake_armed(b);
	WAIT(f, fleet_host_is(c, 0, "complete") && fleet_host_is(c, 1, "armed"));
	fleet_wait_over(f, session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	CHECK_STR(fleet_result(c, 1).reason, "timeout");
	return c;
}

/* The agent, started anew meanwhile, still has the file of then: the same window. */
static void test_held(void)
{
	struct fake a = { 0 }, b = { 0 };
	struct err e = { 0 };
	char session[64];
	json_t *manifest;
	struct capture *c;
	struct fleet f;
	int64_t t0_ns;

	t0_ns = half(&f, &a, &b, session)->t0_ns;
	fake_hang_up(&b);
	hold(&b, session, "uploading");
	b.held_instance = b.instance;
	b.auto_deliver = true;
	b.welcomes = 0;
	fake_connect(&b, &f, "host-b");
	CHECK_OK(retry(&f, session, &c, &e), e);
	fleet_wait_over(&f, session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	CHECK_EQ(a.arms, 1);
	CHECK_EQ(a.uploads, 1);
	CHECK_EQ(b.arms, 1);
	CHECK_EQ(b.uploads, 1);
	WAIT(&f, b.releases);
	manifest = load(&f, session);
	CHECK_EQ(json_integer_value(json_object_get(manifest, "revision")), 2);
	CHECK_EQ(json_integer_value(json_object_get(manifest, "complete")), 2);
	CHECK_EQ(json_integer_value(json_object_get(manifest, "t0_ns")), t0_ns);
	CHECK(!json_object_get(result(manifest, 1), "t0_ns"));
	CHECK_EQ(json_integer_value(json_object_get(result(manifest, 0), "events")), 42);
	json_decref(manifest);
	/* Two files, manifest, two of the index: nothing of the retry is left. */
	CHECK_EQ(fleet_keys(&f), 5);
	/* No host lacks a file any more. */
	CHECK_EQ(retry(&f, session, &c, &e), ERR_EXISTS);
	fleet_stop(&f);
}

/* It has nothing: it records anew, in a window of its own. */
static void test_again(void)
{
	struct fake a = { 0 }, b = { 0 };
	struct err e = { 0 };
	char session[64];
	json_t *manifest;
	struct capture *c;
	struct fleet f;
	int64_t t0_ns;

	t0_ns = half(&f, &a, &b, session)->t0_ns;
	b.auto_deliver = true;
	CHECK_OK(retry(&f, session, &c, &e), e);
	CHECK_EQ(retry(&f, session, &c, &e), ERR_EXISTS); /* it is under way */
	fleet_wait_over(&f, session);
	CHECK_EQ(a.arms, 1);
	CHECK_EQ(b.arms, 2);
	CHECK_EQ(b.duration_ns, 10 * NS_PER_MS);
	CHECK(b.t0_ns > t0_ns);
	manifest = load(&f, session);
	CHECK_EQ(json_integer_value(json_object_get(manifest, "t0_ns")), t0_ns);
	CHECK_EQ(json_integer_value(json_object_get(result(manifest, 1), "t0_ns")), b.t0_ns);
	CHECK(!json_object_get(result(manifest, 0), "t0_ns"));
	CHECK_EQ(json_array_size(json_object_get(manifest, "warnings")), 1);
	json_decref(manifest);
	fleet_stop(&f);
}

/* The grace of the retry is its own, if it names one. */
static void test_grace(void)
{
	struct fake a = { 0 }, b = { 0 };
	struct err e = { 0 };
	char session[64];
	struct capture *c;
	struct fleet f;

	half(&f, &a, &b, session);
	b.auto_deliver = true;
	CHECK_OK(retry_with(&f, session, 7 * NS_PER_S, &c, &e), e);
	CHECK_EQ(c->grace_ns, 7 * NS_PER_S);
	fleet_wait_over(&f, session);
	fleet_stop(&f);
}

/* It said to hold the file, but has dropped it: it records anew. */
static void test_dropped_meanwhile(void)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Status status = TUTTI__V1__STATUS__INIT;
	struct fake a = { 0 }, b = { 0 };
	struct err e = { 0 };
	char session[64];
	struct capture *c;
	struct fleet f;

	half(&f, &a, &b, session);
	fake_hang_up(&b);
	hold(&b, session, "uploading");
	b.welcomes = 0;
	fake_connect(&b, &f, "host-b");
	CHECK_OK(retry(&f, session, &c, &e), e);
	WAIT(&f, b.uploads);
	b.auto_deliver = true;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_STATUS;
	m.status = &status;
	fake_send(&b, &m);
	fleet_wait_over(&f, session);
	CHECK_EQ(b.arms, 2);
	CHECK(fleet_host_is(c, 1, "complete"));
	CHECK_EQ(fleet_result(c, 1).t0_ns, b.t0_ns);
	fleet_stop(&f);
}

/* What the manifest says of a host. */
static char *result_text(const json_t *manifest, size_t i)
{
	return json_dumps(result(manifest, i), JSON_COMPACT | JSON_SORT_KEYS);
}

/*
 * Of three hosts one is complete, one partial, one has no file: only that one is asked again, though the agent of the partial one
 * could record, and even offers a file. The other two stay as they were, to the byte.
 */
static void test_partial_stays(bool fails_again)
{
	struct fake a = { 0 }, b = { 0 }, p = { .auto_arm = true };
	json_t *before, *after;
	struct err e = { 0 };
	char session[64];
	struct capture *c;
	struct fleet f;

	fleet_start(&f, 0, HALF_GRACE_NS);
	a.auto_deliver = true;
	fake_connect(&a, &f, "host-a");
	fake_connect(&b, &f, "host-b");
	fake_connect(&p, &f, "host-p");
	c = fleet_begin(&f);
	snprintf(session, sizeof(session), "%s", c->session);
	WAIT(&f, b.arms && fleet_host_is(c, 2, "armed"));
	CHECK_EQ(fake_upload(&p, 1, 10, FLAW_NONE), RPC_OK);
	fake_result(&p, true, "tracer-failed", "cpu: it hung");
	fleet_wait_over(&f, session);
	CHECK(fleet_host_is(c, 0, "complete"));
	CHECK(fleet_host_is(c, 2, "partial"));
	before = load(&f, session);
	CHECK_STR(json_string_value(json_object_get(result(before, 2), "state")), "partial");

	fake_hang_up(&p);
	hold(&p, session, "uploading");
	p.auto_deliver = true;
	p.welcomes = p.uploads = 0;
	fake_connect(&p, &f, "host-p");
	b.auto_deliver = !fails_again;
	CHECK_OK(retry(&f, session, &c, &e), e);
	CHECK(fleet_host_is(c, 0, "complete"));
	CHECK(fleet_host_is(c, 2, "partial"));
	WAIT(&f, b.arms == 2);
	if (fails_again)
		fake_refuse(&b, "disk-full", "its spool is full");
	fleet_wait_over(&f, session);
	CHECK_EQ(a.arms, 1);
	CHECK_EQ(p.arms, 1);
	CHECK_EQ(a.uploads, 1);
	CHECK_EQ(p.uploads, 0);
	CHECK(fleet_host_is(c, 2, "partial"));
	CHECK_STR(fleet_result(c, 2).reason, "tracer-failed");
	after = load(&f, session);
	CHECK_EQ(json_integer_value(json_object_get(after, "revision")), 2);
	CHECK_EQ(json_integer_value(json_object_get(after, "complete")), 1 + !fails_again);
	for (size_t i = 0; i < 3; i++) {
		char *was = result_text(before, i), *is = result_text(after, i);

		CHECK(!strcmp(was, is) == (i != 1));
		free(was);
		free(is);
	}
	json_decref(before);
	json_decref(after);
	/* There is nothing more to be had by a retry once each host has a file, whole or not. */
	CHECK_EQ(retry(&f, session, &c, &e), fails_again ? 0 : ERR_EXISTS);
	if (!fails_again)
		CHECK(strstr(e.msg, "partial hosts"));
	fleet_stop(&f);
}

/* Who fails again is said anew; the rest stays as it was. */
static void test_fails_again(void)
{
	struct fake a = { 0 }, b = { 0 };
	struct err e = { 0 };
	char session[64];
	json_t *manifest;
	struct capture *c;
	struct fleet f;

	half(&f, &a, &b, session);
	fake_hang_up(&b);
	CHECK_OK(retry(&f, session, &c, &e), e);
	fleet_wait_over(&f, session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	manifest = load(&f, session);
	CHECK_EQ(json_integer_value(json_object_get(manifest, "revision")), 2);
	CHECK_EQ(json_integer_value(json_object_get(manifest, "complete")), 1);
	CHECK_STR(json_string_value(json_object_get(result(manifest, 1), "reason")), "unreachable");
	json_decref(manifest);
	fleet_stop(&f);
}

/* A retry that is called off leaves the session as it was. */
static void test_cancelled(void)
{
	struct fake a = { 0 }, b = { 0 };
	struct err e = { 0 };
	char session[64];
	json_t *manifest;
	struct capture *c;
	struct fleet f;

	half(&f, &a, &b, session);
	CHECK_OK(retry(&f, session, &c, &e), e);
	WAIT(&f, b.arms == 2);
	fake_armed(&b);
	CHECK_EQ(fake_upload(&b, 1, 10, FLAW_NONE), RPC_OK);
	CHECK_EQ(fleet_keys(&f), 6);
	CHECK(capture_cancel(c));
	fleet_wait_over(&f, session);
	CHECK_EQ(c->state, CAP_FAILED);
	CHECK_EQ(fleet_keys(&f), 4);
	manifest = load(&f, session);
	CHECK_EQ(json_integer_value(json_object_get(manifest, "revision")), 1);
	json_decref(manifest);
	fleet_stop(&f);
}

/* ---- others have the profilers ---- */

/* Another capture of host-b that is armed, and goes on until uploading() says otherwise. */
static struct capture *occupy(struct fleet *f, struct fake *b)
{
	const struct capture_request req = { .hosts = "host-b",
					     .duration_ns = LIMIT_DURATION_NS,
					     .origin = "test" };
	int arms = b->arms;
	struct err e = { 0 };
	struct capture *c;

	CHECK_OK(capture_begin(f->agg.captures, &req, &c, &e), e);
	WAIT(f, b->arms == arms + 1);
	fake_armed(b);
	WAIT(f, fleet_host_is(c, 0, "armed"));
	return c;
}

static void uploading(struct fleet *f, struct fake *b, struct capture *c)
{
	fake_progress(b, "uploading", 100);
	WAIT(f, fleet_host_is(c, 0, "uploading"));
}

/* The third capture that it is armed for: after half() and occupy(). */
static void deliver(struct fleet *f, struct fake *b)
{
	WAIT(f, b->arms == 3);
	fake_armed(b);
	CHECK_EQ(fake_upload(b, 1, 10, FLAW_NONE), RPC_OK);
	fake_result(b, true, "", "");
}

static void test_queued(void)
{
	struct fake a = { 0 }, b = { .has_profiler = true };
	struct capture *c, *other, *third;
	struct err e = { 0 };
	char session[64];
	json_t *manifest;
	struct fleet f;

	half(&f, &a, &b, session);
	other = occupy(&f, &b);
	CHECK_OK(retry(&f, session, &c, &e), e);
	CHECK_EQ(c->state, CAP_QUEUED);
	CHECK(strstr(c->waits_for, other->session) && strstr(c->waits_for, "host-b"));
	CHECK_EQ(retry(&f, session, &c, &e), ERR_EXISTS);
	third = fleet_begin(&f); /* behind it */
	CHECK(!fleet_wait_durable(&f, c) && !fleet_wait_durable(&f, third));
	CHECK_EQ(c->position, 1);
	CHECK_EQ(third->position, 2);
	CHECK(capture_cancel(third)); /* a fake speaks of the last session it was armed for */
	CHECK_EQ(b.arms, 2);
	uploading(&f, &b, other);
	deliver(&f, &b);
	fleet_wait_over(&f, session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	CHECK(fleet_host_is(c, 1, "complete"));
	manifest = load(&f, session);
	CHECK_EQ(json_integer_value(json_object_get(manifest, "revision")), 2);
	json_decref(manifest);
	fleet_stop(&f);
}

/* Who sends what it holds needs no profiler. */
static void test_held_is_not_queued(void)
{
	struct fake a = { 0 }, b = { .has_profiler = true };
	struct err e = { 0 };
	char session[64];
	struct capture *c;
	struct fleet f;

	half(&f, &a, &b, session);
	fake_hang_up(&b);
	hold(&b, session, "uploading");
	b.welcomes = 0;
	fake_connect(&b, &f, "host-b");
	occupy(&f, &b);
	CHECK_OK(retry(&f, session, &c, &e), e);
	CHECK(!capture_is_queued(c));
	WAIT(&f, b.uploads);
	fleet_stop(&f);
}

/* Whether it is cancelled or waits too long: the session is as it was. */
static void test_queued_without_success(void)
{
	struct fake a = { 0 }, b = { .has_profiler = true };
	struct err e = { 0 };
	char session[64];
	json_t *manifest;
	struct capture *c;
	struct fleet f;

	half(&f, &a, &b, session);
	occupy(&f, &b);
	CHECK_OK(retry(&f, session, &c, &e), e);
	CHECK(!fleet_wait_durable(&f, c));
	CHECK(fleet_has_ledger(&f, session));
	CHECK(capture_cancel(c));
	fleet_wait_over(&f, session);
	CHECK(!fleet_has_ledger(&f, session));
	CHECK_OK(retry(&f, session, &c, &e), e);
	CHECK(!fleet_wait_durable(&f, c));
	c->queued_until_ns = 0;
	CHECK(capture_cancel(fleet_begin(&f))); /* the queue is looked at */
	fleet_wait_over(&f, session);
	CHECK_EQ(c->state, CAP_FAILED);
	CHECK(strstr(c->error.msg, "waited without success"));
	CHECK_STR(fleet_result(c, 1).reason, "queued");
	CHECK(!fleet_has_ledger(&f, session));
	manifest = load(&f, session);
	CHECK_EQ(json_integer_value(json_object_get(manifest, "revision")), 1);
	json_decref(manifest);
	fleet_stop(&f);
}

/* Killed while it waits: its place is kept. */
static void test_queued_resumed(void)
{
	struct fake a = { 0 }, b = { .has_profiler = true };
	struct capture *c, *other;
	struct err e = { 0 };
	char session[64];
	json_t *left;
	struct fleet f;

	half(&f, &a, &b, session);
	other = occupy(&f, &b);
	CHECK_OK(retry(&f, session, &c, &e), e);
	CHECK(!fleet_wait_durable(&f, c));
	left = fleet_left(&f, session);
	CHECK(capture_cancel(c));
	fleet_wait_over(&f, session);
	fleet_recover(&f, left);
	json_decref(left);
	c = capture_find(f.agg.captures, session);
	CHECK_EQ(c->state, CAP_QUEUED);
	uploading(&f, &b, other);
	deliver(&f, &b);
	fleet_wait_over(&f, session);
	c = capture_find(f.agg.captures, session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	CHECK(fleet_host_is(c, 1, "complete"));
	fleet_stop(&f);
}

/* A link that breaks for a moment costs nothing. */
static void test_back_in_time(void)
{
	struct fake a = { .auto_arm = true };
	struct capture *c;
	struct fleet f;

	fleet_start(&f, 0, 0);
	f.agg.patience.lost_ns = 20 * NS_PER_S;
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	fake_hang_up(&a);
	hold(&a, c->session, "uploading");
	fake_dial(&a, &f, "a", a.instance);
	fake_hello(&a, NULL, NULL);
	WAIT(&f, a.welcomes == 2);
	a.auto_deliver = true;
	fake_progress(&a, "uploading", 2000);
	fleet_wait_over(&f, c->session);
	CHECK(fleet_host_is(c, 0, "complete"));
	CHECK_EQ(a.arms, 1);
	fleet_stop(&f);
}

/* Another agent of that name, or one that has forgotten, ends the wait at once. */
static void test_back_without(void)
{
	struct fake a = { .auto_arm = true };
	struct capture *c;
	struct fleet f;

	fleet_start(&f, 0, 0);
	f.agg.patience.lost_ns = 3600 * NS_PER_S;
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	fake_hang_up(&a);
	a.welcomes = 0;
	fake_connect(&a, &f, "a");
	fleet_wait_over(&f, c->session);
	CHECK_STR(fleet_result(c, 0).reason, "lost");
	fleet_stop(&f);
}

/* Killed in the middle of a retry: it goes on where it was, and what was stored for it counts. */
static void test_resumed(void)
{
	json_t *left, *manifest;
	struct fake a = { 0 }, b = { 0 };
	struct err e = { 0 };
	char session[64], key[SESSION_KEY_BYTES];
	struct capture *c;
	struct fleet f;

	half(&f, &a, &b, session);
	CHECK_OK(retry(&f, session, &c, &e), e);
	WAIT(&f, b.arms == 2);
	fake_armed(&b);
	CHECK_EQ(fake_upload(&b, 1, 10, FLAW_NONE), RPC_OK);
	left = fleet_left(&f, session);
	CHECK(capture_cancel(c));
	fleet_wait_over(&f, session);
	session_file_key(session, "", "host-b", key);
	store_put_text(f.agg.store.store, key, "0123456789"); /* a kill leaves it there */
	fake_hang_up(&b);
	hold(&b, session, "stored");
	f.agg.clock.kept = true;
	fleet_recover(&f, left);
	json_decref(left);
	b.welcomes = 0;
	fake_dial(&b, &f, "host-b", b.instance);
	fake_hello(&b, NULL, NULL);
	WAIT(&f, b.welcomes);
	fake_result(&b, true, "", "");
	fleet_wait_over(&f, session);
	manifest = load(&f, session);
	CHECK_EQ(json_integer_value(json_object_get(manifest, "revision")), 2);
	CHECK_EQ(json_integer_value(json_object_get(manifest, "complete")), 2);
	CHECK_EQ(json_integer_value(json_object_get(result(manifest, 1), "t0_ns")), b.t0_ns);
	CHECK_EQ(b.arms, 2);
	json_decref(manifest);
	fleet_stop(&f);
}

int main(void)
{
	test_held();
	test_again();
	test_grace();
	test_dropped_meanwhile();
	test_partial_stays(false);
	test_partial_stays(true);
	test_fails_again();
	test_cancelled();
	test_back_in_time();
	test_back_without();
	test_resumed();
	test_queued();
	test_held_is_not_queued();
	test_queued_without_success();
	test_queued_resumed();
	return 0;
}
