/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Against the server that store_s3.py has started. "suite URL": that of all stores; "own URL": what only S3 has, in
 * a bucket with foreign objects around the prefix; "refused URL TEXT": a put, whose error must have this text; "for URL
 * MS": puts for so long.
 */
#include "tests/conform/store_conform.h"

#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/store.h"

static struct store *open_store(const char *url)
{
	struct store *s;
	struct err e;

	CHECK_OK(store_open(&s, url, &e), e);
	return s;
}

static bool add_key(void *arg, const char *key, const struct store_stat *st)
{
	CHECK(st->size > 0 && *st->tag);
	buf_addf(arg, "%s ", key);
	return true;
}

/* Objects outside the prefix, and those whose keys are none of ours, are not there. */
static void test_prefix(const char *url)
{
	struct store *s = open_store(url);
	struct buf keys = BUF_INIT;
	struct err e;
	char long_key[STORE_KEY_MAX + 1];

	CHECK_OK(store_put_bytes(s, "mine(1)/a", "x", 1, 0, any_time(), &e), e);
	CHECK_OK(list_keys(s, "", NULL, add_key, &keys, &e), e);
	CHECK_STR(buf_str(&keys), "mine(1)/a ");
	CHECK_OK(store_remove(s, "mine(1)/a", any_time(), &e), e);
	memset(long_key, 'k', sizeof(long_key));
	for (size_t i = 200; i < sizeof(long_key); i += 200)
		long_key[i] = '/';
	long_key[STORE_KEY_MAX] = '\0';
	CHECK_EQ(store_put_bytes(s, long_key, "x", 1, 0, any_time(), &e), ERR_LIMIT);
	buf_release(&keys);
	store_free(s);
}

static void check_bad_url(const char *url, const char *text)
{
	struct store *s;
	struct err e;

	CHECK_EQ(store_open(&s, url, &e), ERR_INVALID);
	if (!strstr(e.msg, text))
		fprintf(stderr, "%s: %s\n", url, e.msg);
	CHECK(strstr(e.msg, text));
}

static void test_bad_urls(void)
{
	check_bad_url("s3://", "bucket");
	check_bad_url("s3://Bucket", "bucket");
	check_bad_url("s3://b/x", "bucket");
	check_bad_url("s3://bucket/a//b", "a//b");
	check_bad_url("s3://bucket/../b", "..");
	check_bad_url("s3://bucket?colour=red", "colour");
	check_bad_url("s3://bucket?region=", "region");
	check_bad_url("s3://bucket?region=a&region=b", "region");
	check_bad_url("s3://bucket?region=a%20b", "region");
	check_bad_url("s3://bucket?endpoint=ftp://x", "endpoint");
	check_bad_url("s3://bucket?endpoint=http://x/path", "endpoint");
	check_bad_url("s3://bucket?endpoint=http://a@b", "endpoint");
	check_bad_url("s3://bucket?path-style=yes", "path-style");
}

/* A store that is not there is tried until the deadline, and no longer. */
static void test_no_server(void)
{
	struct store *s = open_store("s3://bucket?endpoint=http://127.0.0.1:1");
	int64_t start_ns = now_mono_ns();
	struct err e;
	int rc = store_put_bytes(s, "a", "x", 1, 0, start_ns + 300 * NS_PER_MS, &e);

	CHECK(rc == ERR_CLOSED || rc == ERR_TIMEOUT);
	CHECK(strstr(e.msg, "127.0.0.1:1"));
	CHECK(now_mono_ns() - start_ns < 20 * NS_PER_S);
	store_free(s);
}

static void test_refused(const char *url, const char *text)
{
	struct store *s = open_store(url);
	struct err e;

	CHECK(store_put_bytes(s, "a", "x", 1, STORE_ABSENT, store_within(60 * NS_PER_S), &e) < 0);
	if (!strstr(e.msg, text))
		fprintf(stderr, "%s\n", e.msg);
	CHECK(strstr(e.msg, text));
	store_free(s);
}

/* Puts for so many ms; all succeed, whatever happens to the keys meanwhile. */
static void test_for(const char *url, int64_t ms)
{
	int64_t end_ns = now_mono_ns() + ms * NS_PER_MS;
	struct store *s = open_store(url);
	struct err e;

	while (now_mono_ns() < end_ns) {
		CHECK_OK(store_put_bytes(s, "again", "x", 1, 0, any_time(), &e), e);
		now_sleep_until_mono(now_mono_ns() + 50 * NS_PER_MS);
	}
	CHECK_OK(store_remove(s, "again", any_time(), &e), e);
	store_free(s);
}

int main(int argc, char **argv)
{
	CHECK(argc >= 3);
	if (!strcmp(argv[1], "suite")) {
		store_conform(argv[2]);
	} else if (!strcmp(argv[1], "refused")) {
		test_refused(argv[2], argv[3]);
	} else if (!strcmp(argv[1], "for")) {
		CHECK(argc == 4);
		test_for(argv[2], strtoll(argv[3], NULL, 10));
	} else {
		test_prefix(argv[2]);
		test_bad_urls();
		test_no_server();
	}
	return 0;
}
