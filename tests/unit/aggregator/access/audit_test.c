/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chain of the audit log, over full files, restarts, failed writes and kills. Lines are hashed by another library
 * than the log's own.
 */
#include "aggregator/access/audit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "base/file.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "base/now.h"
#include "json/json_text.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"
#include "tests/lib/temp_dir.h"

#define BIG	     (1 << 20) /* of a file: more than a test writes */
#define HASH_LETTERS 64
#define LINES_MOST   400

static struct jobs jobs;
static const char *dir;
static char *path, *head_path;

/* ---- the log ---- */

static int try_open(struct audit **a, uint64_t file_bytes, struct err *e)
{
	const struct audit_env env = { .jobs = &jobs, .path = path, .file_bytes = file_bytes };

	return audit_open(a, &env, e);
}

static struct audit *open_log(uint64_t file_bytes)
{
	struct audit *a;
	struct err e;

	CHECK_OK(try_open(&a, file_bytes, &e), e);
	return a;
}

static void close_log(struct audit *a)
{
	jobs_drain(&jobs);
	audit_free(a);
}

static void check_not_opened(const char *part)
{
	struct audit *a;
	struct err e = { 0 };

	CHECK_EQ(try_open(&a, BIG, &e), ERR_INVALID);
	CHECK(strstr(e.msg, part));
}

static json_t *entry_of(int number)
{
	return json_pack("{s:s, s:i}", "verb", "start", "number", number);
}

struct told {
	int n, failed;
};

static void on_told(void *arg, const struct err *why)
{
	struct told *t = arg;

	t->n++;
	t->failed += why != NULL;
}

static void add(struct audit *a, int number)
{
	struct told t = { 0 };

	audit_write(a, entry_of(number), on_told, &t);
	CHECK_EQ(t.n, 0); /* never before it returns */
	RUN_UNTIL(jobs.loop, t.n);
	CHECK_EQ(t.failed, 0);
}

/* ---- what is in the files ---- */

static char *read_text(const char *name)
{
	struct buf text = BUF_INIT;
	struct err e;
	size_t len;

	CHECK_OK(file_load(name, 4 * BIG, &text, &e), e);
	buf_add(&text, "", 1);
	return (char *)buf_detach(&text, &len);
}

static void write_text(const char *name, const char *text)
{
	struct err e;

	CHECK_OK(file_replace(name, 0600, text, strlen(text), &e), e);
}

static void sha256(const char *line, char out[HASH_LETTERS + 1])
{
	unsigned char digest[HASH_LETTERS / 2];
	unsigned int len = 0;

	CHECK(EVP_Digest(line, strlen(line), digest, &len, EVP_sha256(), NULL) == 1);
	CHECK_EQ(len, sizeof(digest));
	for (unsigned int i = 0; i < len; i++)
		snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/* Where the chain is by now. */
struct chain {
	int n;
	char hash[HASH_LETTERS + 1];
};

/* Each line of the file is the next one of the chain. */
static void check_file(struct chain *c, const char *name)
{
	char *text = read_text(name), *rest, *line;

	CHECK(!*text || text[strlen(text) - 1] == '\n');
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		json_t *doc = json_loads(line, JSON_REJECT_DUPLICATES, NULL);

		CHECK(doc);
		CHECK_EQ(json_get_int(doc, "n"), c->n + 1);
		CHECK_STR(json_get_text(doc, "prev"), c->hash);
		CHECK_EQ(strlen(json_get_text(doc, "at")), strlen("2026-11-23T04:07:33.123Z"));
		sha256(line, c->hash);
		c->n++;
		json_decref(doc);
	}
	free(text);
}

/* The full files, by the number of their last lines, and the one that is written; then the head. Returns how many lines. */
static int check_log(int *n_files)
{
	struct chain c = { 0 };
	char *expected, *head;

	memset(c.hash, '0', HASH_LETTERS);
	*n_files = 1;
	for (int n = 1; n < LINES_MOST; n++) {
		char *name = xasprintf("%s.%012d", path, n);

		if (!access(name, F_OK)) {
			check_file(&c, name);
			CHECK_EQ(c.n, n);
			++*n_files;
		}
		free(name);
	}
	check_file(&c, path);
	expected = xasprintf("{\"n\":%d,\"hash\":\"%s\"}\n", c.n, c.hash);
	head = read_text(head_path);
	CHECK_STR(head, expected);
	free(expected);
	free(head);
	return c.n;
}

static void check_lines(int n)
{
	int n_files;

	CHECK_EQ(check_log(&n_files), n);
}

static void clear(void)
{
	char *command = xasprintf("rm -f %s*", path);

	CHECK(!system(command));
	free(command);
}

/* ---- tests ---- */

/* Lines that come together, and one after the other; over a restart. Each is in the file when it is said to be. */
static void test_chain(void)
{
	struct audit *a = open_log(BIG);
	struct told t = { 0 };

	add(a, 1);
	check_lines(1);
	add(a, 2);
	check_lines(2);
	for (int i = 3; i <= 302; i++) /* more than are written at once */
		audit_write(a, entry_of(i), on_told, &t);
	audit_write(a, entry_of(303), NULL, NULL);
	jobs_drain(&jobs);
	CHECK_EQ(t.n, 300);
	CHECK_EQ(t.failed, 0);
	check_lines(303);
	close_log(a);
	a = open_log(BIG);
	add(a, 304);
	check_lines(304);
	close_log(a);
}

static void test_full_files(void)
{
	struct audit *a = open_log(700);
	int n_files;

	for (int i = 1; i <= 20; i++)
		add(a, i);
	CHECK_EQ(check_log(&n_files), 20);
	CHECK(n_files >= 4);
	close_log(a);
	a = open_log(700);
	for (int i = 21; i <= 30; i++)
		add(a, i);
	CHECK_EQ(check_log(&n_files), 30);
	close_log(a);
}

/* A kill: within a line, between a line and its head, and between a full file and the next one. */
static void test_kills(void)
{
	struct audit *a = open_log(BIG);
	char *head, *text, *more, *full;

	for (int i = 1; i <= 3; i++)
		add(a, i);
	head = read_text(head_path);
	add(a, 4);
	close_log(a);
	text = read_text(path);
	more = xasprintf("%s{\"n\":5,\"prev\":\"", text);
	write_text(path, more);
	a = open_log(BIG);
	add(a, 5);
	close_log(a);
	check_lines(5);

	write_text(path, text);
	write_text(head_path, head); /* of line 3 */
	a = open_log(BIG);
	add(a, 5);
	close_log(a);
	check_lines(5);

	full = xasprintf("%s.%012d", path, 5);
	CHECK(!rename(path, full));
	a = open_log(BIG);
	add(a, 6);
	close_log(a);
	check_lines(6);
	free(full);
	free(head);
	free(text);
	free(more);
}

/* What was changed at its end is not gone on with. */
static void test_changed(void)
{
	struct audit *a = open_log(BIG);
	char *text, *changed, *last;

	for (int i = 1; i <= 5; i++)
		add(a, i);
	close_log(a);
	text = read_text(path);

	changed = xstrdup(text);
	last = strstr(changed, "\"number\":5");
	CHECK(last);
	last[strlen("\"number\":")] = '6';
	write_text(path, changed);
	check_not_opened("it was changed");

	snprintf(changed, strlen(text) + 1, "%s", text);
	last = strstr(changed, "{\"n\":5,");
	CHECK(last);
	*last = '\0'; /* the last line is missing */
	write_text(path, changed);
	check_not_opened("it was changed");

	CHECK(!unlink(path));
	check_not_opened("it was removed");
	write_text(path, "");
	check_not_opened("it was removed");

	write_text(path, text);
	close_log(open_log(BIG));
	check_lines(5);
	free(changed);
	free(text);
}

static void test_two_writers(void)
{
	struct audit *a = open_log(BIG), *b;
	struct err e;

	CHECK_EQ(try_open(&b, BIG, &e), ERR_BUSY);
	add(a, 1);
	close_log(a);
	check_lines(1);
	a = open_log(BIG);
	close_log(a);
}

/* Beyond so many a second they are counted, and the next line says how many; whoever waits is told in either case. */
static void test_refusals(void)
{
	struct audit *a = open_log(BIG);
	struct told t = { 0 };
	char *text;

	run_for(jobs.loop, NS_PER_S - now_mono_ns() % NS_PER_S); /* a second begins */
	for (int i = 0; i < AUDIT_REFUSALS_PER_S + 7; i++)
		audit_refusal(a, entry_of(i), on_told, &t);
	CHECK_EQ(t.n, 7);
	jobs_drain(&jobs);
	CHECK_EQ(t.n, AUDIT_REFUSALS_PER_S + 7);
	CHECK_EQ(t.failed, 0);
	check_lines(AUDIT_REFUSALS_PER_S);
	add(a, 1); /* what was granted is always a line */
	check_lines(AUDIT_REFUSALS_PER_S + 1);
	run_for(jobs.loop, NS_PER_S);
	audit_refusal(a, entry_of(0), on_told, &t);
	audit_refusal(a, entry_of(0), on_told, &t);
	jobs_drain(&jobs);
	check_lines(AUDIT_REFUSALS_PER_S + 3);
	text = read_text(path);
	CHECK(strstr(text, "\"refusals_before\":7"));
	CHECK(!strstr(strstr(text, "\"refusals_before\"") + 1, "\"refusals_before\""));
	free(text);
	close_log(a);
}

static void test_long_line(void)
{
	struct audit *a = open_log(BIG);
	char *filler = xcalloc(1, AUDIT_LINE_BYTES + 1), *text;
	json_t *entry = entry_of(1);

	memset(filler, 'x', AUDIT_LINE_BYTES);
	json_object_set_new(entry, "request", json_pack("{s:s}", "text", filler));
	audit_write(a, entry, NULL, NULL);
	close_log(a);
	check_lines(1);
	text = read_text(path);
	CHECK(strlen(text) <= AUDIT_LINE_BYTES + 1);
	CHECK(strstr(text, "\"shortened\":true") && strstr(text, "\"number\":1"));
	free(text);
	free(filler);
	a = open_log(BIG);
	add(a, 2);
	close_log(a);
	check_lines(2);
}

static void limit_files(rlim_t bytes)
{
	const struct rlimit limit = { bytes, RLIM_INFINITY };

	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
}

/* A line that does not fit on the disk: whoever waits is told, nothing of it stays, and the next one goes on. */
static void test_full_disk(void)
{
	struct audit *a = open_log(BIG);
	struct told t = { 0 };
	struct stat st;
	struct err e;

	add(a, 1);
	CHECK_OK(audit_check(a, &e), e);
	CHECK(!stat(path, &st));
	limit_files((rlim_t)st.st_size + 20);
	audit_write(a, entry_of(2), on_told, &t);
	audit_write(a, entry_of(3), on_told, &t);
	jobs_drain(&jobs);
	CHECK_EQ(t.n, 2);
	CHECK_EQ(t.failed, 2);
	CHECK(audit_check(a, &e) < 0);
	CHECK(strstr(e.msg, "the audit log cannot be written"));
	limit_files(RLIM_INFINITY);
	check_lines(1);
	add(a, 4);
	CHECK_OK(audit_check(a, &e), e);
	check_lines(2);
	close_log(a);
}

static void test_none(void)
{
	struct told t = { 0 };
	struct err e;

	audit_write(NULL, entry_of(1), on_told, &t);
	audit_refusal(NULL, entry_of(2), on_told, &t);
	CHECK_EQ(t.n, 2);
	CHECK_EQ(t.failed, 0);
	CHECK_OK(audit_check(NULL, &e), e);
}

int main(void)
{
	static void (*const tests[])(void) = { test_chain,     test_full_files,	 test_kills,
					       test_changed,   test_two_writers, test_refusals,
					       test_long_line, test_full_disk,	 test_none };
	struct err e;

	signal(SIGXFSZ, SIG_IGN);
	dir = temp_dir();
	path = xasprintf("%s/audit", dir);
	head_path = xasprintf("%s.head", path);
	CHECK_OK(loop_new(&jobs.loop, 1, &e), e);
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		tests[i]();
		clear();
	}
	loop_free(jobs.loop);
	free(path);
	free(head_path);
	temp_dir_remove(dir);
	return 0;
}
