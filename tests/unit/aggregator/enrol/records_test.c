/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/enrol/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jobs.h"
#include "base/mem.h"
#include "storage/store.h"
#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"

#define NOW_S 1000000

static struct jobs jobs;
static char *path;
static struct store *store; /* NULL: the records are in the file */

static struct records *open_records(void)
{
	struct records *r;
	struct err e;

	CHECK_OK(records_open(&r, &jobs, path, store, &e), e);
	return r;
}

static void on_saved(void *arg, const struct err *why)
{
	int *n_saved = arg;

	CHECK(!why);
	++*n_saved;
}

/* A change that came after another one began to be saved is there once that is said, and not before. */
static void on_later_saved(void *arg, const struct err *why)
{
	struct records *found = open_records();

	CHECK(!why);
	CHECK_EQ(records_check_host(found, "later", NULL), ERR_DENIED);
	records_free(found);
	++*(int *)arg;
}

/* As a restart finds them. */
static struct records *reopen(struct records *r)
{
	int n_saved = 0;

	records_save(r, on_saved, &n_saved);
	jobs_drain(&jobs);
	CHECK_EQ(n_saved, 1);
	records_free(r);
	return open_records();
}

/* ---- tokens ---- */

static int make_token(struct records *r, int64_t until_s, int64_t uses, int64_t now_s, char *out)
{
	const struct join_rules rules = { .host = "", .until_s = until_s, .uses = uses };
	char token[RECORDS_TOKEN_BYTES];

	return records_add_token(r, &rules, now_s, out ? out : token, NULL);
}

static void test_full_of_live(void)
{
	struct records *r = open_records();
	char first[RECORDS_TOKEN_BYTES];
	struct err e;

	for (int i = 0; i < RECORDS_TOKENS_MOST; i++)
		CHECK_EQ(make_token(r, NOW_S + 10, 0, NOW_S, i ? NULL : first), 0);
	CHECK_EQ(make_token(r, NOW_S + 10, 1, NOW_S, NULL), ERR_LIMIT);
	CHECK_OK(records_use_token(r, first, "host-a", NOW_S, &e), e);
	r = reopen(r);
	CHECK_EQ(make_token(r, NOW_S + 10, 1, NOW_S + 9, NULL), ERR_LIMIT);
	CHECK_EQ(make_token(r, NOW_S + 20, 1, NOW_S + 10, NULL), 0);
	records_free(r);
}

/* The oldest of those that let no host in goes, whether it has ended or is used up; the others are known as what they are. */
static void test_useless_make_room(void)
{
	struct records *r = open_records();
	char live[RECORDS_TOKEN_BYTES], used[RECORDS_TOKEN_BYTES], ended[RECORDS_TOKEN_BYTES];
	struct err e;

	CHECK_EQ(make_token(r, NOW_S + 10, 1, NOW_S, live), 0);
	CHECK_EQ(make_token(r, NOW_S + 10, 1, NOW_S, used), 0);
	CHECK_EQ(make_token(r, NOW_S + 1, 1, NOW_S, ended), 0);
	CHECK_OK(records_use_token(r, used, "host-a", NOW_S, &e), e);
	CHECK_EQ(records_use_token(r, used, "host-b", NOW_S, &e), ERR_DENIED);
	CHECK_STR(e.msg, "this join token is used up");
	for (int i = 3; i < RECORDS_TOKENS_MOST; i++)
		CHECK_EQ(make_token(r, NOW_S + 10, 1, NOW_S, NULL), 0);
	CHECK_EQ(make_token(r, NOW_S + 10, 1, NOW_S + 2, NULL), 0);
	CHECK_EQ(records_use_token(r, used, "host-b", NOW_S + 2, &e), ERR_DENIED);
	CHECK_STR(e.msg, "this join token is not known here");
	CHECK_EQ(records_use_token(r, ended, "host-b", NOW_S + 2, &e), ERR_DENIED);
	CHECK_STR(e.msg, "this join token has expired");
	CHECK_EQ(make_token(r, NOW_S + 10, 1, NOW_S + 2, NULL), 0);
	CHECK_EQ(records_use_token(r, ended, "host-b", NOW_S + 2, &e), ERR_DENIED);
	CHECK_STR(e.msg, "this join token is not known here");
	CHECK_EQ(make_token(r, NOW_S + 10, 1, NOW_S + 2, NULL), ERR_LIMIT);
	CHECK_OK(records_use_token(r, live, "host-b", NOW_S + 2, &e), e);
	records_free(r);
}

/* ---- revocations ---- */

static int check(const struct records *r, const char *host, uint64_t epoch, int64_t begin_s)
{
	struct cert_host cert = { .epoch = epoch, .begin_s = begin_s - CERT_EARLY_S };

	snprintf(cert.name, sizeof(cert.name), "%s", host);
	return records_check(r, &cert, NULL);
}

/* Whatever the order in which they came, and over a restart. */
static void test_revoked(void)
{
	static const char *const hosts[] = { "m", "z", "a", "host-10", "host-1", "host-2", "n" };
	struct records *r = open_records();
	struct err e;

	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		CHECK_OK(records_revoke(r, hosts[i], &e), e);
		CHECK_OK(records_revoke(r, hosts[i], &e), e);
	}
	for (int restarted = 0; restarted < 2; restarted++) {
		for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
			CHECK_EQ(records_check_host(r, hosts[i], NULL), ERR_DENIED);
			CHECK_EQ(check(r, hosts[i], 1, NOW_S), ERR_DENIED);
		}
		CHECK_EQ(records_check_host(r, "host", NULL), 0);
		CHECK_EQ(check(r, "zz", 1, NOW_S), 0);
		CHECK_EQ(check(r, "0", 1, NOW_S), 0);
		r = reopen(r);
	}
	CHECK_EQ(records_lift(r, "b", NOW_S, NULL), ERR_NOT_FOUND);
	CHECK_OK(records_lift(r, "m", NOW_S, &e), e);
	CHECK_EQ(records_check_host(r, "m", NULL), 0);
	CHECK_EQ(check(r, "m", 1, NOW_S), ERR_DENIED);
	CHECK_EQ(check(r, "m", 1, NOW_S + 1), 0);
	records_free(r);
}

/* An epoch outlives a restart. It makes room for as many revocations as were lifted, and lets no other host in. */
static void test_epoch(void)
{
	struct records *r = open_records();
	char host[32];
	struct err e;

	for (int i = 0; i < RECORDS_REVOKED_MOST; i++) {
		snprintf(host, sizeof(host), "host-%d", i);
		CHECK_OK(records_revoke(r, host, &e), e);
		if (i % 2)
			CHECK_OK(records_lift(r, host, NOW_S, &e), e);
	}
	CHECK_EQ(records_revoke(r, "other", NULL), ERR_LIMIT);
	records_next_epoch(r);
	r = reopen(r);
	CHECK_EQ(records_epoch(r), 2);
	CHECK_EQ(check(r, "host-1", 1, NOW_S + 1), ERR_DENIED);
	CHECK_EQ(check(r, "host-1", 2, NOW_S + 1), 0);
	CHECK_EQ(check(r, "host-2", 2, NOW_S + 1), ERR_DENIED);
	for (int i = 0; i < RECORDS_REVOKED_MOST / 2; i++) {
		snprintf(host, sizeof(host), "other-%d", i);
		CHECK_OK(records_revoke(r, host, &e), e);
	}
	CHECK_EQ(records_revoke(r, "other", NULL), ERR_LIMIT);
	records_free(r);
}

static void test_saved_while_saving(void)
{
	struct records *r = open_records();
	int n_saved = 0, n_later = 0;
	struct err e;

	CHECK_OK(records_revoke(r, "first", &e), e);
	records_save(r, on_saved, &n_saved);
	CHECK_OK(records_revoke(r, "later", &e), e);
	records_save(r, on_later_saved, &n_later);
	records_save(r, on_later_saved, &n_later);
	jobs_drain(&jobs);
	CHECK_EQ(n_saved, 1);
	CHECK_EQ(n_later, 2);
	records_free(r);
}

/* ---- in the store of several aggregators ---- */

static void save(struct records *r)
{
	int n_saved = 0;

	records_save(r, on_saved, &n_saved);
	jobs_drain(&jobs);
	CHECK_EQ(n_saved, 1);
}

/* A former leader that was frozen still saves what it knew: it replaces nothing. Nor does the leader that finds its number taken lose
 * what it says. */
static void test_former_leader(void)
{
	struct records *former, *leader;
	struct err e;

	if (!store)
		return;
	former = open_records();
	leader = open_records();
	CHECK_OK(records_revoke(leader, "host-a", &e), e);
	save(leader);
	save(leader);
	records_next_epoch(former);
	save(former);
	CHECK_OK(records_revoke(leader, "host-b", &e), e);
	leader = reopen(leader);
	CHECK_EQ(records_epoch(leader), 1);
	CHECK_EQ(records_check_host(leader, "host-a", NULL), ERR_DENIED);
	CHECK_EQ(records_check_host(leader, "host-b", NULL), ERR_DENIED);
	records_free(former);
	records_free(leader);
}

static bool count_object(void *arg, const char *key, const struct store_stat *st)
{
	int *n = arg;

	(void)key;
	(void)st;
	++*n;
	return true;
}

static void test_one_object_is_left(void)
{
	int n = 0;
	const struct store_list list = { .prefix = "tutti/enrol/",
					 .each = count_object,
					 .arg = &n,
					 .deadline_mono_ns = STORE_NO_DEADLINE };
	struct records *r = open_records();
	struct err e;

	for (int i = 0; store && i < 3; i++)
		save(r);
	if (store) {
		CHECK_OK(store_list(store, &list, &e), e);
		CHECK_EQ(n, 1);
	}
	records_free(r);
}

/* One aggregator's file is not forgotten when it becomes one of several. */
static void test_file_beside_an_empty_store(void)
{
	struct store *several = store;
	struct records *r;
	struct err e;

	if (!several)
		return;
	store = NULL;
	r = open_records();
	save(r);
	records_free(r);
	store = several;
	CHECK_EQ(records_open(&r, &jobs, path, store, &e), ERR_INVALID);
}

int main(void)
{
	static void (*const tests[])(void) = { test_full_of_live,
					       test_useless_make_room,
					       test_revoked,
					       test_epoch,
					       test_saved_while_saving,
					       test_former_leader,
					       test_one_object_is_left,
					       test_file_beside_an_empty_store };
	const char *dir = temp_dir();
	struct err e;

	path = xasprintf("%s/records.json", dir);
	CHECK_OK(loop_new(&jobs.loop, 1, &e), e);
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		remove(path);
		tests[i]();
		remove(path);
		CHECK_OK(store_open(&store, "mem://records", &e), e);
		tests[i]();
		store_free(store);
		store = NULL;
	}
	loop_free(jobs.loop);
	free(path);
	temp_dir_remove(dir);
	return 0;
}
