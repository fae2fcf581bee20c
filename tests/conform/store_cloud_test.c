/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Against a server that a script beside this file has started. "suite URL": that of all stores; "own URL": what only stores
 * behind HTTP have, in a bucket with foreign objects around the prefix; "away URL": where no server is; "refused URL TEXT": a
 * put, whose error must have this text; "gateway URL", "not-removed URL": where something else answers; "for URL MS": puts
 * for so long; "grants URL": what a grant allows, and what it does not; "once URL [CA]": the same for stores with other
 * statuses than S3's.
 */
#include "tests/conform/store_conform.h"

#include "base/crc32c.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/http_client_pool.h"
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
	CHECK(st->size > 0 && !*st->tag);
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
	check_bad_url("gs://", "bucket");
	check_bad_url("gs://Bucket", "bucket");
	check_bad_url("gs://bucket/../b", "..");
	check_bad_url("gs://bucket?region=a", "endpoint, ca");
	check_bad_url("gs://bucket?endpoint=http://x/path", "endpoint");
	check_bad_url("az://account", "az://ACCOUNT/CONTAINER");
	check_bad_url("az://acc-ount/container", "az://ACCOUNT/CONTAINER");
	check_bad_url("az://account/Container", "az://ACCOUNT/CONTAINER");
	check_bad_url("az://account/container/a//b", "a//b");
	check_bad_url("az://account/container?key=x", "endpoint, ca");
	check_bad_url("az://account/container?endpoint=ftp://x", "endpoint");
}

/* A store that is not there is tried until the deadline, and no longer. */
static void test_no_server(const char *url)
{
	struct store *s = open_store(url);
	int64_t start_ns = now_mono_ns();
	struct err e;
	int rc = store_put_bytes(s, "a", "x", 1, 0, start_ns + 300 * NS_PER_MS, &e);

	CHECK(rc == ERR_CLOSED || rc == ERR_TIMEOUT);
	CHECK(strstr(e.msg, "127.0.0.1"));
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

static bool no_key(void *arg, const char *key, const struct store_stat *st)
{
	(void)arg;
	(void)key;
	(void)st;
	CHECK(false);
	return false;
}

/* Something in front of the store answers in its place: that is never what an object is, or that one is damaged. */
static void test_gateway(const char *url)
{
	struct store *s = open_store(url);
	struct buf b = BUF_INIT;
	struct store_stat st;
	struct err e;

	CHECK_EQ(store_put_bytes(s, "a", "x", 1, STORE_ABSENT, any_time(), &e), ERR_PEER);
	CHECK_EQ(store_put_bytes(s, "a", "x", 1, 0, any_time(), &e), ERR_PEER);
	CHECK_EQ(store_get_bytes(s, "a", 100, any_time(), &b, &e), ERR_PEER);
	CHECK_EQ(store_stat(s, "a", any_time(), &st, &e), ERR_PEER);
	CHECK_EQ(list_keys(s, "", NULL, no_key, NULL, &e), ERR_PEER);
	buf_release(&b);
	store_free(s);
}

/* "Not found" of a gateway: nothing was removed. */
static void test_not_removed(const char *url)
{
	static const char *const keys[] = { "a", "b" };
	struct store *s = open_store(url);
	struct err e;

	CHECK_EQ(store_remove(s, "a", any_time(), &e), ERR_PEER);
	CHECK_EQ(store_remove_all(s, keys, 2, any_time(), &e), ERR_PEER);
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

/* ---- grants ---- */

/* The status of the answer to the grant's request with these bytes, at another URL if one is given. */
static int use_grant(struct http_pool *http, const struct store_grant *g, const char *url,
		     const void *data, size_t len)
{
	char *headers[STORE_GRANT_HEADERS + 1] = { 0 };
	struct http_request req = { .method = g->method,
				    .url = url ? url : g->url,
				    .headers = (const char *const *)headers,
				    .has_body = true,
				    .data = data,
				    .fd = -1,
				    .len = len,
				    .answer_max = (size_t)64 << 10,
				    .deadline_mono_ns = any_time() };
	struct buf answer = BUF_INIT;
	struct err e;
	int status;

	memcpy(headers, g->headers, sizeof(g->headers));
	CHECK_OK(http_pool_request(http, &req, &status, &answer, &e), e);
	buf_release(&answer);
	return status;
}

static void make_grant(struct store *s, const char *key, const char *text, int64_t life_ns,
		       struct store_grant *g)
{
	const struct store_grant_request req = { .key = key,
						 .len = strlen(text),
						 .crc32c = crc32c(0, text, strlen(text)),
						 .life_ns = life_ns,
						 .deadline_mono_ns = any_time() };
	struct err e;

	CHECK_OK(store_grant(s, &req, g, &e), e);
}

static bool is_missing(struct store *s, const char *key)
{
	struct err e;

	return store_stat(s, key, any_time(), NULL, &e) == ERR_NOT_FOUND;
}

static char *replace_in(const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);

	CHECK(at);
	return xasprintf("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

/* Another key, another size, another checksum, a second use. */
static void test_grant_once(struct store *s, struct http_pool *http)
{
	struct store_grant g;
	struct store_stat st;
	struct err e;
	char *url, *header;

	make_grant(s, "granted/a", "hello", 60 * NS_PER_S, &g);
	CHECK_EQ(g.life_ns, 60 * NS_PER_S);
	url = replace_in(g.url, "granted/a", "granted/b");
	CHECK_EQ(use_grant(http, &g, url, "hello", 5), 403);
	CHECK_EQ(use_grant(http, &g, NULL, "hell", 4), 403);
	CHECK_EQ(use_grant(http, &g, NULL, "hello!", 6), 403);
	header = g.headers[1];
	g.headers[1] = xstrdup("x-amz-meta-tutti-crc32c: 00000000");
	CHECK_EQ(use_grant(http, &g, NULL, "hello", 5), 403);
	free(g.headers[1]);
	g.headers[1] = header;
	header = g.headers[0];
	g.headers[0] = g.headers[1];
	g.headers[1] = NULL; /* without the condition */
	CHECK_EQ(use_grant(http, &g, NULL, "hello", 5), 403);
	g.headers[1] = g.headers[0];
	g.headers[0] = header;
	CHECK(is_missing(s, "granted/a") && is_missing(s, "granted/b"));
	CHECK_EQ(use_grant(http, &g, NULL, "hello", 5), 200);
	CHECK_EQ(use_grant(http, &g, NULL, "other", 5), 412);
	CHECK_OK(store_stat(s, "granted/a", any_time(), &st, &e), e);
	CHECK(st.size == 5 && st.has_crc32c && st.crc32c == crc32c(0, "hello", 5));
	CHECK_OK(store_remove(s, "granted/a", any_time(), &e), e);
	free(url);
	store_grant_release(&g);
}

/* A grant of a second: used until it is refused, and refused from then on. */
static void test_grant_life(struct store *s, struct http_pool *http)
{
	struct store_grant g;
	struct err e;
	int status;

	make_grant(s, "granted/c", "x", NS_PER_S, &g);
	do {
		status = use_grant(http, &g, NULL, "x", 1);
		CHECK_OK(store_remove(s, "granted/c", any_time(), &e), e);
		now_sleep_until_mono(now_mono_ns() + 100 * NS_PER_MS);
	} while (status == 200);
	CHECK_EQ(status, 403);
	CHECK(is_missing(s, "granted/c"));
	store_grant_release(&g);
}

static void test_grant_bounds(struct store *s)
{
	struct store_grant_request req = { .key = "granted/d",
					   .len = UINT64_MAX,
					   .life_ns = NS_PER_S,
					   .deadline_mono_ns = any_time() };
	struct store_grant g;
	struct store *other;
	struct err e;

	CHECK_EQ(store_grant(s, &req, &g, &e), ERR_LIMIT);
	CHECK(strstr(e.msg, "5368709120") && !g.url);
	req.len = 1;
	req.life_ns = 0;
	CHECK_EQ(store_grant(s, &req, &g, &e), ERR_INVALID);
	req.key = "../d";
	CHECK_EQ(store_grant(s, &req, &g, &e), ERR_INVALID);
	other = open_store("mem://x");
	req.key = "d";
	CHECK(!store_grants(other));
	CHECK_EQ(store_grant(other, &req, &g, &e), ERR_UNSUPPORTED);
	store_free(other);
}

/* Grants of stores that have other statuses: one use, one key; the object has size and checksum. */
static void test_once(const char *url, const char *ca_file)
{
	struct store *s = open_store(url);
	struct http_pool *http = http_pool_new(ca_file);
	struct store_grant g, none;
	struct store_stat st;
	struct err e;
	int first, again;

	CHECK(store_grants(s));
	make_grant(s, "granted/a(1)", "hello", 60 * NS_PER_S, &g);
	if (strstr(g.url, "sig=")) {
		char *other = replace_in(g.url, "granted/a", "granted/b");

		CHECK_EQ(use_grant(http, &g, other, "hello", 5), 403);
		free(other);
	} else {
		CHECK(use_grant(http, &g, NULL, "other", 5) >= 400);
		store_grant_release(&g);
		make_grant(s, "granted/a(1)", "hello", 60 * NS_PER_S, &g);
	}
	CHECK(is_missing(s, "granted/a(1)"));
	first = use_grant(http, &g, NULL, "hello", 5);
	again = use_grant(http, &g, NULL, "other", 5);
	printf("used: %d, used again: %d\n", first, again);
	CHECK(first / 100 == 2 && again >= 400);
	if (strstr(g.url, "sig="))
		CHECK_EQ(
			store_grant(s,
				    &(struct store_grant_request){ .key = "granted/a(1)",
								   .life_ns = NS_PER_S,
								   .deadline_mono_ns = any_time() },
				    &none, &e),
			ERR_EXISTS);
	CHECK_OK(store_stat(s, "granted/a(1)", any_time(), &st, &e), e);
	CHECK(st.size == 5 && st.has_crc32c && st.crc32c == crc32c(0, "hello", 5));
	CHECK_OK(store_remove(s, "granted/a(1)", any_time(), &e), e);
	store_grant_release(&g);
	make_grant(s, "granted/empty", "", 60 * NS_PER_S, &g);
	CHECK(use_grant(http, &g, NULL, "", 0) / 100 == 2);
	CHECK_OK(store_stat(s, "granted/empty", any_time(), &st, &e), e);
	CHECK(st.size == 0 && st.has_crc32c);
	CHECK_OK(store_remove(s, "granted/empty", any_time(), &e), e);
	store_grant_release(&g);
	http_pool_free(http);
	store_free(s);
}

static void test_grants(const char *url)
{
	struct store *s = open_store(url);
	struct http_pool *http = http_pool_new(NULL);

	CHECK(store_grants(s));
	test_grant_once(s, http);
	test_grant_life(s, http);
	test_grant_bounds(s);
	http_pool_free(http);
	store_free(s);
}

int main(int argc, char **argv)
{
	CHECK(argc >= 3);
	if (!strcmp(argv[1], "suite")) {
		store_conform(argv[2]);
	} else if (!strcmp(argv[1], "refused")) {
		test_refused(argv[2], argv[3]);
	} else if (!strcmp(argv[1], "gateway")) {
		test_gateway(argv[2]);
	} else if (!strcmp(argv[1], "not-removed")) {
		test_not_removed(argv[2]);
	} else if (!strcmp(argv[1], "grants")) {
		test_grants(argv[2]);
	} else if (!strcmp(argv[1], "once")) {
		test_once(argv[2], argc > 3 ? argv[3] : NULL);
	} else if (!strcmp(argv[1], "for")) {
		CHECK(argc == 4);
		test_for(argv[2], strtoll(argv[3], NULL, 10));
	} else if (!strcmp(argv[1], "own")) {
		test_prefix(argv[2]);
	} else {
		test_bad_urls();
		test_no_server(argv[2]);
	}
	return 0;
}
