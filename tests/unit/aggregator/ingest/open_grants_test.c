/* SPDX-License-Identifier: Apache-2.0 */
/* Grants that the store keeps open: which are revoked, and when. */
#include <string.h>

#include "aggregator/captures/capture.h"
#include "aggregator/ingest/ingest_impl.h"
#include "aggregator/sessions/session_store.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "tests/lib/run_until.h"
#include "tests/lib/store.h"

#define SESSION "2026_11_22_10_00_00_abc123"

/* A store that writes down what it has revoked, and may fail. */
struct fake {
	struct store base;
	struct buf revoked; /* "url url " */
	bool fails;
};

static int fake_revoke(struct store *s, const char *url, int64_t deadline_mono_ns, struct err *e)
{
	struct fake *f = (struct fake *)s;

	(void)deadline_mono_ns;
	if (f->fails)
		return err_set(e, ERR_CLOSED, "away");
	buf_addf(&f->revoked, "%s ", url);
	return 0;
}

static const struct store_ops fake_ops = { .scheme = "fake", .revoke = fake_revoke };

struct bed {
	struct fake store;
	struct session_store sessions;
	struct jobs jobs;
	struct ingest ingest;
};

static void bed_start(struct bed *b)
{
	struct err e = { 0 };

	*b = (struct bed){ .store.base = { .ops = &fake_ops, .grants = true, .revokes = true } };
	CHECK_OK(loop_new(&b->jobs.loop, 2, &e), e);
	b->sessions.store = &b->store.base;
	b->ingest.env.jobs = &b->jobs;
	b->ingest.env.store = &b->sessions;
	TAILQ_INIT(&b->ingest.uploads);
	TAILQ_INIT(&b->ingest.open_sessions);
	TAILQ_INIT(&b->ingest.to_revoke);
}

static void bed_stop(struct bed *b)
{
	jobs_drain(&b->jobs);
	open_grants_stop(&b->ingest);
	loop_free(b->jobs.loop);
	buf_release(&b->store.revoked);
}

/* What the store has revoked since the last call. */
static void check_revoked(struct bed *b, const char *urls)
{
	jobs_drain(&b->jobs);
	CHECK_STR(buf_str(&b->store.revoked), urls);
	buf_reset(&b->store.revoked);
}

static void make_grant(struct bed *b, struct upload *u, const char *host, const char *url)
{
	u->ingest = &b->ingest;
	u->session = (char *)SESSION;
	u->host = (char *)host;
	u->grant.url = xstrdup(url);
}

static void give_grant(struct bed *b, struct upload *u, const char *host, const char *url)
{
	make_grant(b, u, host, url);
	open_grant_add(u);
	CHECK(!u->grant.url && u->open_grant);
}

/* Not used: revoked with the upload, by the next one, or because it was never sent. */
static void test_unused(void)
{
	struct upload u = { 0 };
	struct bed b;

	bed_start(&b);
	give_grant(&b, &u, "a", "one");
	check_revoked(&b, "");
	give_grant(&b, &u, "a", "two");
	check_revoked(&b, "one ");
	open_grant_revoke(&u);
	open_grant_revoke(&u);
	check_revoked(&b, "two ");
	make_grant(&b, &u, "a", "three");
	open_grant_drop(&u);
	open_grant_drop(&u);
	check_revoked(&b, "three ");
	CHECK_EQ(b.ingest.stats.grants_revoked, 3);
	give_grant(&b, &u, "a", "left");
	bed_stop(&b);
}

/* An agent says that it has put the file: if the session ends without it, it has not. */
static void test_end(void)
{
	struct capture_host hosts[] = { { .name = "a", .stored = true },
					{ .name = "b" },
					{ .name = "c" },
					{ .name = "d", .stored = true } };
	struct capture c = { .session = (char *)SESSION,
			     .hosts = hosts,
			     .n_hosts = ARRAY_SIZE(hosts) };
	struct upload u[ARRAY_SIZE(hosts)] = { 0 };
	struct bed b;

	bed_start(&b);
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		char url[2] = { (char)('0' + i), '\0' };

		give_grant(&b, &u[i], hosts[i].name, url);
		open_grant_used(&u[i]);
	}
	open_grants_end(&b.ingest, &c);
	check_revoked(&b, "1 2 ");
	CHECK(TAILQ_EMPTY(&b.ingest.open_sessions));
	open_grants_end(&b.ingest, &c);
	check_revoked(&b, "");
	bed_stop(&b);
}

/* The session ends before the upload's call does. */
static void test_end_first(void)
{
	struct capture_host host = { .name = "a" };
	struct capture c = { .session = (char *)SESSION, .hosts = &host, .n_hosts = 1 };
	struct upload u = { 0 };
	struct bed b;

	bed_start(&b);
	give_grant(&b, &u, "a", "one");
	TAILQ_INSERT_TAIL(&b.ingest.uploads, &u, entry);
	open_grants_end(&b.ingest, &c);
	CHECK(!u.open_grant);
	open_grant_revoke(&u);
	check_revoked(&b, "one ");
	bed_stop(&b);
}

/* A store that is away is asked once; whose grants end by themselves, never. */
static void test_stores(void)
{
	struct upload u = { 0 };
	struct bed b;

	bed_start(&b);
	b.store.fails = true;
	give_grant(&b, &u, "a", "one");
	open_grant_revoke(&u);
	check_revoked(&b, "");
	CHECK_EQ(b.ingest.stats.grants_revoked, 0);
	b.store.fails = false;
	give_grant(&b, &u, "a", "two");
	open_grant_revoke(&u);
	check_revoked(&b, "two ");
	b.store.base.revokes = false;
	make_grant(&b, &u, "a", "three");
	open_grant_add(&u);
	open_grant_drop(&u);
	CHECK(u.grant.url && !u.open_grant);
	store_grant_release(&u.grant);
	check_revoked(&b, "");
	bed_stop(&b);
}

int main(void)
{
	test_unused();
	test_end();
	test_end_first();
	test_stores();
	return 0;
}
