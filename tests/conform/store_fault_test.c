/* SPDX-License-Identifier: Apache-2.0 */
/* A store that breaks nothing keeps every promise; each rule breaks what it says and nothing else. */
#include "storage/store_fault.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/conform/store_conform.h"
#include "tests/lib/check.h"
#include "tests/lib/store.h"

static struct store *wrap(const struct store_fault_env *env)
{
	struct store *inner;
	struct err e;

	CHECK_OK(store_open(&inner, "mem://inner", &e), e);
	return store_fault_wrap(inner, env);
}

static void rules(struct store *s, const char *text)
{
	struct err e;

	CHECK_OK(store_fault_set(s, text, &e), e);
}

static int put(struct store *s, const char *key, struct err *e)
{
	return store_put_bytes(s, key, "x", 1, 0, any_time(), e);
}

static bool has(struct store *s, const char *key)
{
	struct store_stat st;

	return !store_stat(s, key, any_time(), &st, NULL);
}

static void test_rules(void)
{
	struct store *s = wrap(NULL);
	struct buf b = BUF_INIT;
	struct err e;

	rules(s,
	      "# a comment\nput a/* fail skip=1 times=2\n  remove b full # another\nlist * fail\n");
	CHECK_OK(put(s, "a/1", &e), e);
	CHECK_EQ(put(s, "a/2", &e), ERR_IO);
	CHECK(strstr(e.msg, "put a/2"));
	CHECK_EQ(put(s, "a/2", &e), ERR_IO);
	CHECK(!has(s, "a/2"));
	CHECK_OK(put(s, "b", &e), e);
	CHECK_OK(put(s, "a/2", &e), e);
	CHECK_EQ(store_remove(s, "b", any_time(), &e), ERR_FULL);
	CHECK(has(s, "b"));
	CHECK_EQ(list_keys(s, "", NULL, NULL, NULL, &e), ERR_IO);
	rules(s, "put b lose times=1\nget b fail");
	CHECK_EQ(store_put_bytes(s, "b", "new", 3, 0, any_time(), &e), ERR_TIMEOUT);
	CHECK_EQ(store_get_bytes(s, "b", 9, any_time(), &b, &e), ERR_IO);
	rules(s, "");
	CHECK_OK(store_get_bytes(s, "b", 9, any_time(), &b, &e), e);
	CHECK_STR(buf_str(&b), "new");
	CHECK_EQ(store_fault_writes(s), 7);
	buf_release(&b);
	store_free(s);
}

static void test_bad_rules(void)
{
	static const char *const bad[] = { "put",	  "put *",	     "puts * fail",
					   "put * melt",  "put * fail skip", "put * fail skip=x",
					   "put * delay", "put * fail=1",    "" };
	struct store *s = wrap(NULL);
	struct err e;

	for (size_t i = 0; *bad[i]; i++)
		CHECK_EQ(store_fault_set(s, bad[i], &e), ERR_INVALID);
	CHECK_EQ(store_open(&s, "fault://mem://", &e), ERR_INVALID);
	store_free(s);
}

/* The world of a test: waiting moves a clock of its own past the deadline at once. */
struct world {
	int waits, crashes;
};

static void do_not_wait(void *arg, int64_t until_mono_ns)
{
	struct world *w = arg;

	(void)until_mono_ns;
	w->waits++;
}

static void note_crash(void *arg)
{
	((struct world *)arg)->crashes++;
}

static void test_time(void)
{
	struct world w = { 0 };
	struct store *s = wrap(&(struct store_fault_env){ do_not_wait, note_crash, &w });
	struct err e;

	rules(s, "put * delay=0.002 times=1\nput * delay=1000 times=1\nput * hang times=1");
	CHECK_OK(put(s, "a", &e), e);
	CHECK(w.waits > 0);
	CHECK_EQ(store_put_bytes(s, "b", "x", 1, 0, store_within(2 * NS_PER_MS), &e), ERR_TIMEOUT);
	CHECK(!has(s, "b"));
	CHECK_EQ(store_put_bytes(s, "b", "x", 1, 0, store_within(2 * NS_PER_MS), &e), ERR_TIMEOUT);
	CHECK(!has(s, "b"));
	rules(s, "put * crash times=1\nput * crash-after");
	CHECK_EQ(put(s, "c", &e), ERR_CLOSED);
	CHECK(!has(s, "c"));
	CHECK_EQ(put(s, "c", &e), ERR_CLOSED);
	CHECK(has(s, "c"));
	CHECK_EQ(w.crashes, 2);
	store_free(s);
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	CHECK(f && fputs(text, f) >= 0 && !fclose(f));
}

/* Rules in a file; a crash is a crash of the process. */
static void test_file(void)
{
	char path[] = "/tmp/tutti-fault-XXXXXX";
	int fd = mkstemp(path), status;
	char *url = xasprintf("fault://%s!mem://inner", path);
	struct store *s;
	struct err e;
	pid_t pid;

	CHECK(fd >= 0);
	close(fd);
	CHECK_OK(store_open(&s, url, &e), e);
	CHECK_OK(put(s, "a", &e), e);
	write_file(path, "put * fail\n");
	CHECK_EQ(put(s, "a", &e), ERR_IO);
	write_file(path, "nonsense\n");
	CHECK_OK(put(s, "a", &e), e);
	write_file(path, "put * crash-after\n");
	pid = child_fork(SIGKILL);
	CHECK(pid >= 0);
	if (!pid) {
		(void)!put(s, "b", NULL);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	CHECK(!unlink(path));
	CHECK_OK(put(s, "c", &e), e);
	store_free(s);
	free(url);
}

int main(void)
{
	store_conform("fault:///nonexistent!mem://inner");
	test_rules();
	test_bad_rules();
	test_time();
	test_file();
	return 0;
}
