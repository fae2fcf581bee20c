/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures that AWS publishes, and some that botocore made. With "lines" it signs what stdin asks for, a
 * request a line, for tests/unit/net/sigv4_botocore.py; with "bench" it times signing.
 */
#include "net/sigv4.h"

#include <unistd.h>

#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"

#define BAR_US 12 /* of tests/bench/signing */
#define EMPTY  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define HOST   "examplebucket.s3.amazonaws.com"

static const struct sigv4_keys example = { "AKIAIOSFODNN7EXAMPLE",
					   "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", NULL };
static const struct sigv4_keys ours = { "AKIDTEST", "secretsecret/+test", "tok/+==" };
static const struct sigv4_scope s3 = { "us-east-1", "s3" };

struct vector {
	const struct sigv4_keys *keys;
	const char *region; /* NULL = that of s3 */
	int64_t unix_s;
	const char *method, *host, *path, *payload;
	struct sigv4_pair query[4], headers[4];
	int expires_s; /* presigned */
	const char *signature;
};

#define PUBLISHED .keys = &example, .unix_s = 1369353600, .host = HOST
#define BOTOCORE \
	.keys = &ours, .unix_s = 1767323045, .host = "127.0.0.1:9000", .payload = SIGV4_UNSIGNED

static const struct vector vectors[] = {
	{ PUBLISHED, .method = "GET", .path = "/test.txt", .payload = EMPTY,
	  .headers = { { "range", "bytes=0-9" } },
	  .signature = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41" },
	{ PUBLISHED, .method = "PUT", .path = "/test$file.text",
	  .payload = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
	  .headers = { { "date", "Fri, 24 May 2013 00:00:00 GMT" },
		       { "x-amz-storage-class", "REDUCED_REDUNDANCY" } },
	  .signature = "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd" },
	{ PUBLISHED, .method = "GET", .path = "/", .payload = EMPTY,
	  .query = { { "lifecycle", "" } },
	  .signature = "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543" },
	{ PUBLISHED, .method = "GET", .path = "/", .payload = EMPTY,
	  .query = { { "prefix", "J" }, { "max-keys", "2" } },
	  .signature = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7" },
	{ PUBLISHED, .method = "GET", .path = "/test.txt", .expires_s = 86400,
	  .signature = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404" },
	{ BOTOCORE, .method = "PUT", .path = "/bkt/a=b c+d.bin",
	  .query = { { "uploadId", "2~x/y+z=" }, { "partNumber", "10" } },
	  .headers = { { "x-amz-copy-source", "/bkt/a%20b" },
		       { "x-amz-copy-source-range", "bytes=0-5242879" } },
	  .signature = "dd9938fbd3bca21012ab6856fcf14bbfa0e131e91116470184f541fed796d115" },
	{ BOTOCORE, .method = "PUT",
	  .path = "/bkt/run 1/plugins/profile/2026_01_02_03_04_05/h\xc3\xa4.xplane.pb",
	  .headers = { { "content-length", "6" }, { "if-none-match", "*" } }, .expires_s = 900,
	  .signature = "d29db3e5924deb50cf6640a25aba64013ae7075e89338efd7ba1bad7cc05d17f" },
	{ BOTOCORE, .method = "GET", .path = "/bkt",
	  .query = { { "list-type", "2" },
		     { "prefix", "run 1/plugins/profile/" },
		     { "delimiter", "/" },
		     { "continuation-token", "a+b/==" } },
	  .signature = "21f37c291d017c7e95666f4abc8d2d0d7b1d5edf83b0cfdf64ae2390ed34a763" },
	{ BOTOCORE, .region = "eu-central-1", .method = "GET", .path = "/bkt",
	  .headers = { { "x-amz-meta-a", "two  blanks   inside" } },
	  .signature = "62a875693b5bd7985be7d8807be1416a42673b631477f42612e5b8ee104f4c0e" },
};

static size_t count_pairs(const struct sigv4_pair *pairs, size_t max)
{
	size_t n = 0;

	while (n < max && pairs[n].name)
		n++;
	return n;
}

/* The last 64 characters of what was signed. */
static void sign(const struct sigv4_keys *keys, const char *region, const struct sigv4_request *req,
		 int expires_s, char out[SIGV4_HASH_BYTES])
{
	const struct sigv4_scope scope = { region ? region : s3.region, s3.service };
	struct sigv4_signed s = { 0 };
	const struct buf *made = expires_s ? &s.target : &s.authorization;
	struct err e;

	CHECK_OK(expires_s ? sigv4_presign(keys, &scope, req, expires_s, &s.target, &e)
			   : sigv4_sign(keys, &scope, req, &s, &e),
		 e);
	CHECK(made->len > 64);
	snprintf(out, SIGV4_HASH_BYTES, "%s", buf_str(made) + made->len - 64);
	sigv4_release(&s);
}

static struct sigv4_request request_of(const struct vector *v)
{
	return (struct sigv4_request){ .method = v->method,
				       .host = v->host,
				       .path = v->path,
				       .query = v->query,
				       .n_query = count_pairs(v->query, ARRAY_SIZE(v->query)),
				       .headers = v->headers,
				       .n_headers = count_pairs(v->headers, ARRAY_SIZE(v->headers)),
				       .payload = v->payload,
				       .unix_s = v->unix_s };
}

static void test_vectors(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(vectors); i++) {
		struct sigv4_request req = request_of(&vectors[i]);
		char signature[SIGV4_HASH_BYTES];

		sign(vectors[i].keys, vectors[i].region, &req, vectors[i].expires_s, signature);
		CHECK_STR(signature, vectors[i].signature);
	}
}

static void test_limits(void)
{
	struct sigv4_pair many[SIGV4_PAIRS_MAX + 1];
	struct sigv4_request req = request_of(&vectors[0]);
	struct sigv4_signed s = { 0 };
	struct err e;

	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = (struct sigv4_pair){ "name", "value" };
	req.query = many;
	req.n_query = ARRAY_SIZE(many);
	CHECK_EQ(sigv4_sign(&example, &s3, &req, &s, &e), ERR_LIMIT);
	req.n_query = ARRAY_SIZE(many) - 1;
	CHECK_OK(sigv4_sign(&example, &s3, &req, &s, &e), e);
	CHECK_EQ(sigv4_presign(&example, &s3, &req, 0, &s.target, &e), ERR_INVALID);
	CHECK_EQ(sigv4_presign(&example, &s3, &req, SIGV4_EXPIRES_MAX + 1, &s.target, &e),
		 ERR_INVALID);
	CHECK(!strstr(e.msg, example.secret));
	sigv4_release(&s);
}

static void test_hashes(void)
{
	char whole[SIGV4_HASH_BYTES], part[SIGV4_HASH_BYTES], path[] = "/tmp/sigv4-XXXXXX";
	size_t len = 700001;
	char *bytes = xcalloc(1, len);
	int fd = mkstemp(path);
	struct err e;

	CHECK(fd >= 0 && !unlink(path));
	for (size_t i = 0; i < len; i++)
		bytes[i] = (char)(i * 31);
	CHECK_EQ(write(fd, bytes, len), (ssize_t)len);
	sigv4_hash(NULL, 0, whole);
	CHECK_STR(whole, EMPTY);
	sigv4_hash(bytes + 9, len - 20, whole);
	CHECK_OK(sigv4_hash_file(fd, 9, len - 20, part, &e), e);
	CHECK_STR(part, whole);
	CHECK_EQ(sigv4_hash_file(fd, 9, len, part, &e), ERR_INVALID);
	close(fd);
	free(bytes);
}

/* The next field of a line that was split at tabs. */
static char *field(char **rest)
{
	char *f = strsep(rest, "\t");

	CHECK(f);
	return f;
}

static size_t read_pairs(char **rest, struct sigv4_pair pairs[SIGV4_PAIRS_MAX])
{
	size_t n = (size_t)strtoul(field(rest), NULL, 10);

	CHECK(n <= SIGV4_PAIRS_MAX);
	for (size_t i = 0; i < n; i++) {
		pairs[i].name = field(rest);
		pairs[i].value = field(rest);
	}
	return n;
}

/* Of each line: seconds of life or 0, method, path, Unix time, token, queries, headers. */
static int sign_lines(void)
{
	struct sigv4_pair query[SIGV4_PAIRS_MAX], headers[SIGV4_PAIRS_MAX];
	char *line = NULL, signature[SIGV4_HASH_BYTES];
	size_t cap = 0;

	while (getline(&line, &cap, stdin) > 0) {
		char *rest = line;
		int expires_s;
		struct sigv4_keys keys = ours;
		struct sigv4_request req = { .host = "127.0.0.1:9000",
					     .query = query,
					     .headers = headers,
					     .payload = SIGV4_UNSIGNED };

		line[strcspn(line, "\n")] = '\0';
		expires_s = (int)strtol(field(&rest), NULL, 10);
		req.method = field(&rest);
		req.path = field(&rest);
		req.unix_s = strtoll(field(&rest), NULL, 10);
		keys.token = field(&rest);
		req.n_query = read_pairs(&rest, query);
		req.n_headers = read_pairs(&rest, headers);
		sign(&keys, NULL, &req, expires_s, signature);
		puts(signature);
	}
	free(line);
	return 0;
}

static int bench(void)
{
	enum { TIMES = 20000 };
	struct sigv4_request req = request_of(&vectors[6]);
	char signature[SIGV4_HASH_BYTES];
	int64_t start_ns = now_thread_cpu_ns();
	double us;

	for (int i = 0; i < TIMES; i++)
		sign(&ours, NULL, &req, 900, signature);
	us = (double)(now_thread_cpu_ns() - start_ns) / TIMES / 1000;
	printf("%.1f us of CPU for a presigned put\n", us);
	return us > BAR_US;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "lines"))
		return sign_lines();
	if (argc > 1 && !strcmp(argv[1], "bench"))
		return bench();
	test_vectors();
	test_limits();
	test_hashes();
	return 0;
}
