/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conform/store_conform.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "tests/lib/check.h"
#include "tests/lib/store.h"

#define MIB ((size_t)1 << 20)

static void put_text(struct store *s, const char *key, const char *text)
{
	struct err e;

	CHECK_OK(store_put_bytes(s, key, text, strlen(text), 0, any_time(), &e), e);
}

static void check_text(struct store *s, const char *key, const char *text)
{
	struct buf b = BUF_INIT;
	struct err e;
	uint64_t size = 0;

	CHECK_OK(get_range(s, key, 0, UINT64_MAX, &b, &size, &e), e);
	CHECK_EQ(size, strlen(text));
	CHECK_STR(buf_str(&b), text);
	buf_release(&b);
}

static void drop(struct store *s, const char *key)
{
	struct err e;

	CHECK_OK(store_remove(s, key, any_time(), &e), e);
}

/* A key that others have as their folder. */
static bool is_no_object(int rc)
{
	return rc == ERR_NOT_FOUND || rc == ERR_INVALID;
}

static void test_put_get(struct store *s)
{
	struct buf b = BUF_INIT;
	struct err e;

	CHECK_EQ(get_range(s, "a/none", 0, 1, &b, NULL, &e), ERR_NOT_FOUND);
	CHECK(strstr(e.msg, "a/none"));
	CHECK_EQ(b.len, 0);
	put_text(s, "a/one", "first");
	check_text(s, "a/one", "first");
	put_text(s, "a/one", "second, and longer");
	check_text(s, "a/one", "second, and longer");
	put_text(s, "a/one", "3");
	check_text(s, "a/one", "3");
	CHECK(is_no_object(get_range(s, "a", 0, 1, &b, NULL, &e)));
	CHECK_EQ(get_range(s, "a/one/two", 0, 1, &b, NULL, &e), ERR_NOT_FOUND);
	drop(s, "a/one");
	buf_release(&b);
}

static void test_empty_object(struct store *s)
{
	struct err e;
	uint64_t size = 7;
	int fd;

	CHECK_OK(store_put_bytes(s, "empty", NULL, 0, STORE_ABSENT, any_time(), &e), e);
	check_text(s, "empty", "");
	CHECK_OK(store_open_fd(s, "empty", any_time(), &fd, &size, &e), e);
	CHECK_EQ(size, 0);
	close(fd);
	drop(s, "empty");
}

static struct store_stat stat_of(struct store *s, const char *key)
{
	struct store_stat st;
	struct err e;

	CHECK_OK(store_stat(s, key, any_time(), &st, &e), e);
	return st;
}

static bool keep_stat(void *arg, const char *key, const struct store_stat *st)
{
	(void)key;
	*(struct store_stat *)arg = *st;
	return false;
}

static void check_same(const struct store_stat *a, const struct store_stat *b)
{
	CHECK_EQ(a->size, b->size);
	CHECK_EQ(a->modified_ns, b->modified_ns);
	CHECK_STR(a->tag, b->tag);
}

/* put, stat, list and get agree on an object, and list has no tag; a put of other bytes gives another one. */
static void test_stat(struct store *s)
{
	struct store_put put = { .key = "st/at",
				 .data = "seven b",
				 .fd = -1,
				 .len = 7,
				 .deadline_mono_ns = any_time() };
	struct store_stat st, seen, again;
	struct buf b = BUF_INIT;
	struct err e;

	CHECK_EQ(store_stat(s, "st/at", any_time(), &st, &e), ERR_NOT_FOUND);
	CHECK(strstr(e.msg, "st/at"));
	CHECK_OK(store_put(s, &put, &st, &e), e);
	CHECK_EQ(st.size, 7);
	CHECK(*st.tag);
	seen = stat_of(s, "st/at");
	check_same(&seen, &st);
	CHECK_OK(list_keys(s, "st/", NULL, keep_stat, &seen, &e), e);
	CHECK_EQ(seen.size, st.size);
	CHECK_EQ(seen.modified_ns, st.modified_ns);
	CHECK_STR(seen.tag, "");
	CHECK_OK(store_get(s,
			   &(struct store_get){ .key = "st/at",
						.len = 2,
						.sink = add_to_buf,
						.arg = &b,
						.deadline_mono_ns = any_time() },
			   &seen, &e),
		 e);
	check_same(&seen, &st);
	CHECK_STR(buf_str(&b), "se");
	put.data = "other b";
	CHECK_OK(store_put(s, &put, &again, &e), e);
	CHECK(strcmp(again.tag, st.tag) != 0);
	CHECK(is_no_object(store_stat(s, "st", any_time(), &st, &e)));
	drop(s, "st/at");
	buf_release(&b);
}

static int refuse(void *arg, const void *data, size_t len, struct err *e)
{
	(void)data;
	(void)len;
	++*(int *)arg;
	return err_set(e, ERR_CANCELLED, "enough");
}

/* A sink that fails ends the get with its own error. */
static void test_sink(struct store *s)
{
	struct buf b = BUF_INIT;
	struct err e;
	int calls = 0;

	put_text(s, "sink", "0123456789");
	CHECK_EQ(store_get(s,
			   &(struct store_get){ .key = "sink",
						.len = 5,
						.sink = refuse,
						.arg = &calls,
						.deadline_mono_ns = any_time() },
			   NULL, &e),
		 ERR_CANCELLED);
	CHECK(strstr(e.msg, "enough"));
	CHECK_EQ(calls, 1);
	buf_add_str(&b, "kept");
	CHECK_EQ(store_get_bytes(s, "sink", 9, any_time(), &b, &e), ERR_LIMIT);
	CHECK_STR(buf_str(&b), "kept");
	CHECK_OK(store_get_bytes(s, "sink", 10, any_time(), &b, &e), e);
	CHECK_STR(buf_str(&b), "kept0123456789");
	drop(s, "sink");
	buf_release(&b);
}

/* After its deadline no call does anything. */
static void test_deadline(struct store *s)
{
	int64_t past_ns = now_mono_ns() - 1;
	struct buf b = BUF_INIT;
	struct store_stat st;
	uint64_t size;
	struct err e;
	int fd;

	put_text(s, "late", "here");
	CHECK_EQ(store_put_bytes(s, "late", "new", 3, 0, past_ns, &e), ERR_TIMEOUT);
	CHECK(strstr(e.msg, "put late"));
	CHECK_EQ(store_get_bytes(s, "late", 99, past_ns, &b, &e), ERR_TIMEOUT);
	CHECK_EQ(store_stat(s, "late", past_ns, &st, &e), ERR_TIMEOUT);
	CHECK_EQ(store_remove(s, "late", past_ns, &e), ERR_TIMEOUT);
	CHECK_EQ(store_open_fd(s, "late", past_ns, &fd, &size, &e), ERR_TIMEOUT);
	CHECK_EQ(store_list(s,
			    &(struct store_list){ .prefix = "",
						  .each = keep_stat,
						  .arg = &st,
						  .deadline_mono_ns = past_ns },
			    &e),
		 ERR_TIMEOUT);
	check_text(s, "late", "here");
	CHECK_OK(store_put_bytes(s, "late", "new", 3, 0, STORE_NO_DEADLINE, &e), e);
	check_text(s, "late", "new");
	drop(s, "late");
	buf_release(&b);
}

/* Lets the first `*arg` calls through. */
static int pass_first(void *arg, struct err *e)
{
	int *left = arg;

	return (*left)-- > 0 ? 0 : err_set(e, ERR_DENIED, "the lease is over");
}

static void test_fence(struct store *s)
{
	const struct store_grant_request req = { .key = "fence/granted",
						 .len = 1,
						 .life_ns = NS_PER_S,
						 .deadline_mono_ns = any_time() };
	const struct store_fence none = { 0 };
	const char *keys[] = { "fence/a" };
	struct store_grant grant;
	struct err e;
	int left = 0;

	put_text(s, keys[0], "old");
	store_set_fence(s, &(struct store_fence){ pass_first, &left });
	CHECK_EQ(store_put_bytes(s, keys[0], "new", 3, 0, any_time(), &e), ERR_DENIED);
	CHECK(strstr(e.msg, keys[0]) && strstr(e.msg, "the lease is over"));
	CHECK_EQ(store_put_bytes(s, "fence/b", "new", 3, STORE_ABSENT, any_time(), &e), ERR_DENIED);
	CHECK_EQ(store_remove(s, keys[0], any_time(), &e), ERR_DENIED);
	CHECK_EQ(store_remove_all(s, keys, 1, any_time(), &e), ERR_DENIED);
	CHECK_EQ(store_grant(s, &req, &grant, &e), ERR_DENIED);
	check_text(s, keys[0], "old");
	CHECK_EQ(store_stat(s, "fence/b", any_time(), NULL, &e), ERR_NOT_FOUND);
	/* Files are there when they are renamed, long after the put began: the fence is asked before that, too. */
	left = 1;
	if (!strcmp(s->ops->scheme, "file"))
		CHECK_EQ(store_put_bytes(s, keys[0], "new", 3, 0, any_time(), &e), ERR_DENIED);
	store_set_fence(s, &none);
	check_text(s, keys[0], "old");
	drop(s, keys[0]);
}

static void test_create_only(struct store *s)
{
	struct err e;

	CHECK_OK(store_put_bytes(s, "deep/er/manifest.json", "mine", 4, STORE_ABSENT, any_time(),
				 &e),
		 e);
	CHECK_EQ(store_put_bytes(s, "deep/er/manifest.json", "yours", 5, STORE_ABSENT, any_time(),
				 &e),
		 ERR_EXISTS);
	CHECK(strstr(e.msg, "manifest.json"));
	check_text(s, "deep/er/manifest.json", "mine");
	drop(s, "deep/er/manifest.json");
	CHECK_OK(store_put_bytes(s, "deep/er/manifest.json", "again", 5, STORE_ABSENT, any_time(),
				 &e),
		 e);
	drop(s, "deep/er/manifest.json");
}

static void check_range(struct store *s, uint64_t offset, uint64_t len, const char *want)
{
	struct buf b = BUF_INIT;
	struct err e;
	uint64_t size = 0;

	buf_add_str(&b, "<");
	CHECK_OK(get_range(s, "range", offset, len, &b, &size, &e), e);
	CHECK_EQ(size, 10);
	CHECK_STR(buf_str(&b) + 1, want);
	buf_release(&b);
}

static void test_range(struct store *s)
{
	put_text(s, "range", "0123456789");
	check_range(s, 0, 10, "0123456789");
	check_range(s, 0, 3, "012");
	check_range(s, 4, 3, "456");
	check_range(s, 7, 3, "789");
	check_range(s, 7, 4, "789");
	check_range(s, 7, UINT64_MAX, "789");
	check_range(s, 10, 5, "");
	check_range(s, 11, 5, "");
	check_range(s, UINT64_MAX, UINT64_MAX, "");
	check_range(s, 3, 0, "");
	drop(s, "range");
}

static void test_remove(struct store *s)
{
	struct err e;

	put_text(s, "r/a/x", "1");
	put_text(s, "r/b", "2");
	drop(s, "r/a/x");
	drop(s, "r/a/x");
	drop(s, "r/never/was");
	drop(s, "r");
	check_text(s, "r/b", "2");
	drop(s, "r/b");
	CHECK_OK(store_put_bytes(s, "r", "a file where a folder was", 25, STORE_ABSENT, any_time(),
				 &e),
		 e);
	drop(s, "r");
}

/* Many at once, one of which was never there. */
static void test_remove_all(struct store *s)
{
	char names[30][24];
	const char *keys[30];
	struct err e;

	for (int i = 0; i < 30; i++) {
		snprintf(names[i], sizeof(names[i]), "all(%d)/%d.pb", i % 3, i);
		keys[i] = names[i];
		if (i != 7)
			put_text(s, keys[i], "x");
	}
	put_text(s, "all(0)/stays", "y");
	CHECK_OK(store_remove_all(s, keys, 30, any_time(), &e), e);
	CHECK_OK(store_remove_all(s, keys, 0, any_time(), &e), e);
	for (int i = 0; i < 30; i++)
		CHECK_EQ(store_stat(s, keys[i], any_time(), NULL, &e), ERR_NOT_FOUND);
	check_text(s, "all(0)/stays", "y");
	drop(s, "all(0)/stays");
	keys[1] = "../bad";
	CHECK_EQ(store_remove_all(s, keys, 2, any_time(), &e), ERR_INVALID);
	CHECK_EQ(store_remove_all(s, keys, 1, now_mono_ns() - 1, &e), ERR_TIMEOUT);
}

static void check_bad_key(struct store *s, const char *key)
{
	struct buf b = BUF_INIT;
	struct err e;
	int fd;

	CHECK_EQ(store_check_key(key, &e), ERR_INVALID);
	CHECK_EQ(store_put_bytes(s, key, "x", 1, 0, any_time(), &e), ERR_INVALID);
	CHECK_EQ(get_range(s, key, 0, 1, &b, NULL, &e), ERR_INVALID);
	CHECK_EQ(store_remove(s, key, any_time(), &e), ERR_INVALID);
	CHECK_EQ(store_open_fd(s, key, any_time(), &fd, &(uint64_t){ 0 }, &e), ERR_INVALID);
	buf_release(&b);
}

static void test_bad_keys(struct store *s)
{
	static const char *const bad[] = {
		"",	  "/",	     "/a",	  "a/",		"a//b", ".",	  "..",
		"../a",	  "a/..",    "a/../b",	  "a/./b",	"a b",	"a\\b",	  "a\nb",
		"a:b",	  "a\x7f",   "h\xc3\xa4", "a*",		"a?b",	"%2e%2e", "^",
		".tmp-1", "a/.tmp-", "a,b",	  "a/.tmp-x/b", "$(a)", "a\"b",
	};
	char long_key[STORE_KEY_MAX + 2];
	struct err e;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		check_bad_key(s, bad[i]);
	memset(long_key, 'k', sizeof(long_key));
	for (size_t i = 200; i < sizeof(long_key); i += 200)
		long_key[i] = '/';
	long_key[STORE_KEY_MAX + 1] = '\0';
	check_bad_key(s, long_key);
	long_key[STORE_KEY_MAX] = '\0';
	CHECK_OK(store_put_bytes(s, long_key, "x", 1, 0, any_time(), &e), e);
	check_text(s, long_key, "x");
	drop(s, long_key);
	memset(long_key, 'p', STORE_PART_MAX + 1);
	long_key[STORE_PART_MAX + 1] = '\0';
	check_bad_key(s, long_key);
	long_key[STORE_PART_MAX] = '\0';
	put_text(s, long_key, "x");
	drop(s, long_key);
	put_text(s, "a/.cached_tools.json", "what XProf leaves");
	drop(s, "a/.cached_tools.json");
	put_text(s, "jit_f(12).hlo_proto.pb", "and this");
	drop(s, "jit_f(12).hlo_proto.pb");
}

/* Listed keys, a space behind each; stops after `most`. */
struct seen {
	struct buf keys;
	int most;
	int n;
};

static bool note_key(void *arg, const char *key, const struct store_stat *st)
{
	struct seen *seen = arg;

	CHECK_EQ(st->size, strlen(key));
	CHECK(st->modified_ns > 0);
	buf_addf(&seen->keys, "%s ", key);
	return ++seen->n < seen->most;
}

static void check_list(struct store *s, const char *prefix, const char *after, int most,
		       const char *want)
{
	struct seen seen = { .most = most };
	struct err e;

	CHECK_OK(list_keys(s, prefix, after, note_key, &seen, &e), e);
	CHECK_STR(buf_str(&seen.keys), want);
	buf_release(&seen.keys);
}

/* Each object holds its key, so that a listing can check the size. */
static const char *const listed[] = {
	"m/a",	 "m/b(1)/x",  "m/b-c",	  "m/b-c/x", "m/b.pb", "m/b/1",
	"m/b/2", "m/b/sub/9", "m/b/sub2", "m/b0/x",  "m/bb",   "n/z",
};

static void test_list(struct store *s)
{
	for (size_t i = ARRAY_SIZE(listed); i-- > 0;)
		if (strcmp(listed[i], "m/b-c"))
			put_text(s, listed[i], listed[i]);
	check_list(s, "", NULL, 99,
		   "m/a m/b(1)/x m/b-c/x m/b.pb m/b/1 m/b/2 m/b/sub/9 m/b/sub2 m/b0/x m/bb n/z ");
	check_list(s, "m/b/", NULL, 99, "m/b/1 m/b/2 m/b/sub/9 m/b/sub2 ");
	check_list(s, "m/b", NULL, 3, "m/b(1)/x m/b-c/x m/b.pb ");
	check_list(s, "m/b/s", NULL, 99, "m/b/sub/9 m/b/sub2 ");
	check_list(s, "m/bb", NULL, 99, "m/bb ");
	check_list(s, "m/bb/", NULL, 99, "");
	check_list(s, "n", NULL, 99, "n/z ");
	check_list(s, "nothing/here", NULL, 99, "");
	check_list(s, "", "m/b/2", 2, "m/b/sub/9 m/b/sub2 ");
	check_list(s, "", "m/b/sub", 2, "m/b/sub/9 m/b/sub2 ");
	check_list(s, "", "m/b/", 1, "m/b/1 ");
	check_list(s, "", "m/b.pc", 1, "m/b/1 ");
	check_list(s, "m/b/", "a", 1, "m/b/1 ");
	check_list(s, "m/b/", "m/b/sub2", 99, "");
	check_list(s, "m/b/", "z", 99, "");
	for (size_t i = 0; i < ARRAY_SIZE(listed); i++)
		drop(s, listed[i]);
	check_list(s, "", NULL, 99, "");
}

static void test_list_bad_prefix(struct store *s)
{
	struct seen seen = { .most = 1 };
	struct err e;

	CHECK_EQ(list_keys(s, "../", NULL, note_key, &seen, &e), ERR_INVALID);
	CHECK_EQ(list_keys(s, "/", NULL, note_key, &seen, &e), ERR_INVALID);
	CHECK_EQ(list_keys(s, "a//b", NULL, note_key, &seen, &e), ERR_INVALID);
	check_list(s, "..", NULL, 9, "");
	check_list(s, "a/..", NULL, 9, "");
	check_list(s, ".tmp-", NULL, 9, "");
}

static bool drop_it(void *arg, const char *key, const struct store_stat *st)
{
	(void)st;
	drop(arg, key);
	return true;
}

static void test_remove_while_listing(struct store *s)
{
	struct err e;

	for (int i = 0; i < 50; i++) {
		char key[32];

		snprintf(key, sizeof(key), "gone/%d/%d", i % 7, i);
		put_text(s, key, key);
	}
	CHECK_OK(list_keys(s, "gone/", NULL, drop_it, s, &e), e);
	check_list(s, "", NULL, 99, "");
}

/* A file of random bytes that no name leads to. */
static int random_file(uint8_t *bytes, size_t len)
{
	int fd = memfd_create("body", MFD_CLOEXEC);

	CHECK(fd >= 0);
	for (size_t done = 0; done < len; done += 256)
		random_bytes(bytes + done, len - done < 256 ? len - done : 256);
	CHECK_EQ(write(fd, bytes, len), (ssize_t)len);
	return fd;
}

static void check_bytes(struct store *s, const char *key, const uint8_t *want, size_t len)
{
	struct buf b = BUF_INIT;
	struct err e;

	CHECK_OK(get_range(s, key, 0, UINT64_MAX, &b, NULL, &e), e);
	CHECK_EQ(b.len, len);
	CHECK(!memcmp(b.data, want, len));
	buf_release(&b);
}

static void test_put_from_fd(struct store *s)
{
	size_t len = 3 * MIB + 17;
	uint8_t *bytes = xmalloc(len);
	struct store_put put = { .fd = random_file(bytes, len), .offset = 12345 };
	struct err e;

	put.len = len - put.offset - 5;
	CHECK_EQ(lseek(put.fd, 99, SEEK_SET), 99);
	CHECK_OK(put_as(s, "from/fd", put, 0, &e), e);
	CHECK_EQ(lseek(put.fd, 0, SEEK_CUR), 99);
	check_bytes(s, "from/fd", bytes + put.offset, put.len);
	put.len = 0;
	CHECK_OK(put_as(s, "from/fd", put, 0, &e), e);
	check_text(s, "from/fd", "");
	put.len = len;
	CHECK_EQ(put_as(s, "from/fd", put, 0, &e), ERR_INVALID);
	check_text(s, "from/fd", "");
	CHECK_EQ(put_as(s, "other/fd", put, STORE_ABSENT, &e), ERR_INVALID);
	check_list(s, "other", NULL, 9, "");
	drop(s, "from/fd");
	close(put.fd);
	free(bytes);
}

/* A file that may become the object, or not: the bytes are the same. */
static void test_put_taken(struct store *s)
{
	size_t len = MIB + 3;
	uint8_t *bytes = xmalloc(len);
	struct store_put put = { .fd = random_file(bytes, len), .len = len };
	struct err e;

	CHECK_OK(put_as(s, "taken/whole", put, STORE_ABSENT | STORE_TAKE, &e), e);
	CHECK_EQ(put_as(s, "taken/whole", put, STORE_ABSENT | STORE_TAKE, &e), ERR_EXISTS);
	put.offset = 7;
	put.len = 1000;
	CHECK_OK(put_as(s, "taken/part", put, STORE_TAKE, &e), e);
	close(put.fd);
	check_bytes(s, "taken/whole", bytes, len);
	check_bytes(s, "taken/part", bytes + 7, 1000);
	drop(s, "taken/part");
	drop(s, "taken/whole");
	check_list(s, "taken", NULL, 9, "");
	free(bytes);
}

/* How a staged upload becomes an object; in a file store the kernel does the copying. */
static void test_put_from_object(struct store *s)
{
	size_t len = MIB + 1;
	uint8_t *bytes = xmalloc(len);
	struct store_put put = { .offset = 4099, .len = len - 5000 };
	uint64_t size = 0;
	struct err e;

	close(random_file(bytes, len));
	CHECK_OK(store_put_bytes(s, "stage/part", bytes, len, 0, any_time(), &e), e);
	CHECK_OK(store_open_fd(s, "stage/part", any_time(), &put.fd, &size, &e), e);
	CHECK_EQ(size, len);
	CHECK_OK(put_as(s, "final/part", put, STORE_ABSENT, &e), e);
	drop(s, "stage/part");
	check_bytes(s, "final/part", bytes + put.offset, put.len);
	drop(s, "final/part");
	close(put.fd);
	free(bytes);
}

static void test_big_object(struct store *s)
{
	size_t len = 64 * MIB;
	uint8_t *bytes = xcalloc(1, len);
	struct buf b = BUF_INIT;
	uint64_t size = 0;
	struct err e;

	for (size_t i = 0; i < len; i += 4096)
		memcpy(bytes + i, &i, sizeof(i));
	CHECK_OK(store_put_bytes(s, "big", bytes, len, 0, any_time(), &e), e);
	CHECK_OK(get_range(s, "big", 33 * MIB, 5000, &b, &size, &e), e);
	CHECK_EQ(size, len);
	CHECK_EQ(b.len, 5000);
	CHECK(!memcmp(b.data, bytes + 33 * MIB, b.len));
	check_bytes(s, "big", bytes, len);
	drop(s, "big");
	buf_release(&b);
	free(bytes);
}

/* What was opened stays what it was. */
static void test_open_fd(struct store *s)
{
	char text[8] = "";
	uint64_t size = 0;
	struct err e;
	int fd;

	CHECK_EQ(store_open_fd(s, "open", any_time(), &fd, &size, &e), ERR_NOT_FOUND);
	put_text(s, "open", "before");
	CHECK_OK(store_open_fd(s, "open", any_time(), &fd, &size, &e), e);
	CHECK_EQ(size, 6);
	put_text(s, "open", "after");
	drop(s, "open");
	CHECK_EQ(read(fd, text, sizeof(text)), 6);
	CHECK_STR(text, "before");
	CHECK_EQ(pread(fd, text, 3, 3), 3);
	CHECK(!memcmp(text, "ore", 3));
	close(fd);
}

enum { RACERS = 8, ROUNDS = 20 };

struct race {
	struct store *store;
	pthread_barrier_t start;
	atomic_int winners[ROUNDS];
	atomic_bool over;
};

static void race_run(struct race *r, int n, void *(*fn)(void *))
{
	pthread_t threads[RACERS];

	for (int i = 0; i < n; i++)
		CHECK(!pthread_create(&threads[i], NULL, fn, r));
	for (int i = 0; i < n; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

static void *create_once(void *arg)
{
	struct race *r = arg;

	for (int round = 0; round < ROUNDS; round++) {
		char key[40];
		int rc;

		snprintf(key, sizeof(key), "race/%d/manifest.json", round);
		pthread_barrier_wait(&r->start);
		rc = store_put_bytes(r->store, key, "x", 1, STORE_ABSENT, any_time(), NULL);
		CHECK(rc == 0 || rc == ERR_EXISTS);
		if (!rc)
			r->winners[round]++;
	}
	return NULL;
}

static void test_create_race(struct store *s)
{
	struct race r = { .store = s };
	struct err e;

	pthread_barrier_init(&r.start, NULL, RACERS);
	race_run(&r, RACERS, create_once);
	pthread_barrier_destroy(&r.start);
	for (int round = 0; round < ROUNDS; round++)
		CHECK_EQ(r.winners[round], 1);
	CHECK_OK(list_keys(s, "race/", NULL, drop_it, s, &e), e);
}

/* Versions are runs of one letter, of different lengths. */
static void *read_versions(void *arg)
{
	struct race *r = arg;
	struct buf b = BUF_INIT;
	struct err e;

	while (!r->over) {
		uint64_t size = 0;

		buf_reset(&b);
		CHECK_OK(get_range(r->store, "version", 0, UINT64_MAX, &b, &size, &e), e);
		CHECK_EQ(size, b.len);
		CHECK_EQ(size, 10000 + 1000 * (b.data[0] - 'a'));
		for (size_t i = 1; i < b.len; i++)
			CHECK_EQ(b.data[i], b.data[0]);
	}
	buf_release(&b);
	return NULL;
}

static void put_version(struct store *s, int version)
{
	char bytes[40000];
	size_t len = 10000 + 1000 * (size_t)version;
	struct err e;

	memset(bytes, 'a' + version, len);
	CHECK_OK(store_put_bytes(s, "version", bytes, len, 0, any_time(), &e), e);
}

static void test_overwrite_while_read(struct store *s)
{
	struct race r = { .store = s };
	pthread_t readers[2];

	put_version(s, 0);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&readers[i], NULL, read_versions, &r));
	for (int i = 0; i < 60; i++)
		put_version(s, i % 26);
	r.over = true;
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(readers[i], NULL));
	drop(s, "version");
}

/* Each removal may take the folder away that another thread is about to put into. */
static void *put_and_remove(void *arg)
{
	struct race *r = arg;
	struct err e;
	uint64_t id;

	random_bytes(&id, sizeof(id));
	for (int i = 0; i < 40; i++) {
		char key[64];

		snprintf(key, sizeof(key), "busy/folder/%" PRIx64, id);
		CHECK_OK(store_put_bytes(r->store, key, "x", 1, 0, any_time(), &e), e);
		CHECK_OK(store_remove(r->store, key, any_time(), &e), e);
	}
	return NULL;
}

static void test_folder_race(struct store *s)
{
	struct race r = { .store = s };

	race_run(&r, 4, put_and_remove);
	check_list(s, "", NULL, 99, "");
}

void store_conform(const char *url)
{
	struct store *s;
	struct err e;

	CHECK_EQ(store_open(&s, "nfs://a", &e), ERR_UNSUPPORTED);
	CHECK(strstr(e.msg, "file://") && strstr(e.msg, "mem://"));
	CHECK_EQ(store_open(&s, "/var/lib", &e), ERR_UNSUPPORTED);
	CHECK_OK(store_open(&s, url, &e), e);
	test_put_get(s);
	test_stat(s);
	test_sink(s);
	test_deadline(s);
	test_fence(s);
	test_empty_object(s);
	test_create_only(s);
	test_range(s);
	test_remove(s);
	test_remove_all(s);
	test_bad_keys(s);
	test_list(s);
	test_list_bad_prefix(s);
	test_remove_while_listing(s);
	test_put_from_fd(s);
	test_put_taken(s);
	test_put_from_object(s);
	test_big_object(s);
	test_open_fd(s);
	test_create_race(s);
	test_overwrite_while_read(s);
	test_folder_race(s);
	store_free(s);
	store_free(NULL);
}
