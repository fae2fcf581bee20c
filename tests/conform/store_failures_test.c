/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores that fail, for tests/stores.sh. "keys URL": keys with every character that a key may have; "writers URL": 16 writers of
 * one new key, 20 times: one wins; "slow URL": a server that takes 10 s for each request; "full URL": puts until the
 * store is full, then room again.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/store.h"

#define MIB	((size_t)1 << 20)
#define WRITERS 16
#define ROUNDS	20

static struct store *open_store(const char *url)
{
	struct store *s;
	struct err e;

	CHECK_OK(store_open(&s, url, &e), e);
	return s;
}

/* ---- keys ---- */

static bool count(void *arg, const char *key, const struct store_stat *st)
{
	CHECK_EQ(st->size, strlen(key));
	++*(int *)arg;
	return true;
}

static bool drop(void *arg, const char *key, const struct store_stat *st)
{
	struct err e;

	(void)st;
	CHECK_OK(store_remove(arg, key, any_time(), &e), e);
	return true;
}

static void test_keys(struct store *s)
{
	static const char *const keys[] = {
		"A/z",	     "a/~",
		"a/-",	     "a/..b",
		"a/...",     "a/(",
		"a/)(",	     "a/_",
		"a/%s~",     "0/.a.",
		"a-b/c.d~e", "~/x",
		"-/x",	     "(x)/(y)/jit_f(12).hlo_proto.pb",
	};
	struct err e;
	int n = 0, put = 0;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		struct buf b = BUF_INIT;
		int rc = store_put_bytes(s, keys[i], keys[i], strlen(keys[i]), STORE_ABSENT,
					 any_time(), &e);

		if (store_check_key(keys[i], NULL)) {
			CHECK_EQ(rc, ERR_INVALID);
			continue;
		}
		CHECK_OK(rc, e);
		CHECK_OK(store_get_bytes(s, keys[i], 100, any_time(), &b, &e), e);
		CHECK_STR(buf_str(&b), keys[i]);
		CHECK_EQ(store_put_bytes(s, keys[i], "x", 1, STORE_ABSENT, any_time(), &e),
			 ERR_EXISTS);
		buf_release(&b);
		put++;
	}
	CHECK_OK(list_keys(s, "", NULL, count, &n, &e), e);
	CHECK_EQ(n, put);
	CHECK_OK(list_keys(s, "", NULL, drop, s, &e), e);
}

/* ---- writers ---- */

struct race {
	struct store *store;
	pthread_barrier_t start;
	atomic_int winners[ROUNDS];
};

static void *write_once(void *arg)
{
	struct race *r = arg;

	for (int round = 0; round < ROUNDS; round++) {
		char key[32];
		int rc;

		snprintf(key, sizeof(key), "race/%d", round);
		pthread_barrier_wait(&r->start);
		rc = store_put_bytes(r->store, key, "x", 1, STORE_ABSENT, any_time(), NULL);
		CHECK(rc == 0 || rc == ERR_EXISTS);
		r->winners[round] += !rc;
	}
	return NULL;
}

static void test_writers(struct store *s)
{
	struct race r = { .store = s };
	pthread_t threads[WRITERS];
	struct err e;

	pthread_barrier_init(&r.start, NULL, WRITERS);
	for (int i = 0; i < WRITERS; i++)
		CHECK(!pthread_create(&threads[i], NULL, write_once, &r));
	for (int i = 0; i < WRITERS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	pthread_barrier_destroy(&r.start);
	for (int round = 0; round < ROUNDS; round++)
		CHECK_EQ(r.winners[round], 1);
	CHECK_OK(list_keys(s, "race/", NULL, drop, s, &e), e);
}

/* ---- a slow server ---- */

static void test_slow(struct store *s)
{
	int64_t start_ns = now_mono_ns();
	struct err e;

	CHECK_EQ(store_put_bytes(s, "slow/a", "x", 1, 0, store_within(2 * NS_PER_S), &e),
		 ERR_TIMEOUT);
	CHECK(now_mono_ns() - start_ns < 8 * NS_PER_S);
	CHECK_OK(store_put_bytes(s, "slow/b", "x", 1, STORE_ABSENT, store_within(120 * NS_PER_S),
				 &e),
		 e);
}

/* ---- a full store ---- */

/* Whether the put was refused; nothing else may happen. Says how. */
static bool fill(struct store *s, int i, const uint8_t *bytes)
{
	char key[32];
	struct err e = { 0 };
	int rc;

	snprintf(key, sizeof(key), "full/%d", i);
	rc = store_put_bytes(s, key, bytes, MIB, STORE_ABSENT, store_within(20 * NS_PER_S), &e);
	if (rc)
		printf("%s after %d MiB: %s\n", err_name(rc), i, e.msg);
	return rc;
}

static void test_full(struct store *s, int most)
{
	uint8_t *bytes = xcalloc(1, MIB);
	struct err e;
	int n = 0;

	while (n < most && !fill(s, n, bytes))
		n++;
	CHECK(n > 0 && n < most);
	for (int i = 0; i < n; i++) {
		struct store_stat st;
		char key[32];

		snprintf(key, sizeof(key), "full/%d", i);
		CHECK_OK(store_stat(s, key, any_time(), &st, &e), e);
		CHECK_EQ(st.size, MIB);
	}
	CHECK_OK(list_keys(s, "full/", NULL, drop, s, &e), e);
	CHECK_OK(store_put_bytes(s, "full/again", bytes, 100, 0, store_within(120 * NS_PER_S), &e),
		 e);
	CHECK_OK(store_remove(s, "full/again", any_time(), &e), e);
	free(bytes);
}

int main(int argc, char **argv)
{
	struct store *s;

	CHECK(argc >= 3);
	s = open_store(argv[2]);
	if (!strcmp(argv[1], "keys"))
		test_keys(s);
	else if (!strcmp(argv[1], "writers"))
		test_writers(s);
	else if (!strcmp(argv[1], "slow"))
		test_slow(s);
	else
		test_full(s, (int)strtol(argc > 3 ? argv[3] : "64", NULL, 10));
	store_free(s);
	return 0;
}
