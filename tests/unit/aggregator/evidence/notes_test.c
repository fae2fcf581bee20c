/* SPDX-License-Identifier: Apache-2.0 */
/* Warnings at the end of a stored file: also of a large one, without its size in memory. */
#include "aggregator/evidence/notes.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/lib/store.h"
#include "tests/lib/temp_dir.h"
#include "xspace/xspace.h"

#define KEY	    "profiles/plugins/profile/s/host-a.xplane.pb"
#define LARGE_BYTES ((uint64_t)200 << 20)
#define MORE_KB	    (16 << 10) /* how much more memory the process may have had */

static char *const texts[] = { (char *)"host-b is missing: lost: the agent's connection ended",
			       (char *)"1 more host is missing" };

static struct store *new_store(const char *folder)
{
	char *url = xasprintf("file://%s/store", folder);
	struct err e = { 0 };
	struct store *s;

	CHECK_OK(store_open(&s, url, &e), e);
	free(url);
	return s;
}

/* Zeros, of which the disk has none: warnings are appended to bytes of any kind. */
static void put_sparse(struct store *s, const char *folder, uint64_t bytes)
{
	char *path = xasprintf("%s/sparse", folder);
	struct store_put put = { .key = KEY, .len = bytes, .deadline_mono_ns = any_time() };
	struct err e = { 0 };

	put.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(put.fd >= 0 && !ftruncate(put.fd, (off_t)bytes));
	CHECK_OK(store_put(s, &put, NULL, &e), e);
	close(put.fd);
	unlink(path);
	free(path);
}

struct tail {
	int fd;
	uint64_t begin;
};

static int read_tail(void *arg, uint64_t offset, void *buf, size_t len, struct err *e)
{
	const struct tail *t = arg;

	(void)e;
	CHECK_EQ(pread(t->fd, buf, len, (off_t)(t->begin + offset)), len);
	return 0;
}

/* What follows `begin` is an XSpace; returns its size. */
static uint64_t check_tail(struct store *s, uint64_t begin)
{
	struct tail t = { .begin = begin };
	struct xs_source source = { .read = read_tail, .arg = &t };
	struct xs_summary sum;
	struct err e = { 0 };
	uint64_t size;

	CHECK_OK(store_open_fd(s, KEY, any_time(), &t.fd, &size, &e), e);
	source.size = size - begin;
	CHECK_OK(xs_summarize(&source, &sum, &e), e);
	close(t.fd);
	return source.size;
}

static long peak_kb(void)
{
	struct rusage u;

	CHECK(!getrusage(RUSAGE_SELF, &u));
	return u.ru_maxrss;
}

static void test_append(uint64_t bytes)
{
	const char *folder = temp_dir();
	struct store *s = new_store(folder);
	const struct notes_file file = { .store = s, .key = KEY, .spool = folder };
	long before_kb;
	const uint64_t bare = bytes;
	uint64_t size = bytes, again = bytes;
	uint32_t sum = 7, sum_again = 7; /* of what is there; only its end is computed */
	struct err e = { 0 };

	put_sparse(s, folder, bytes);
	before_kb = peak_kb();
	CHECK_OK(notes_put(&file, texts, 2, &size, &sum, &e), e);
	CHECK(sum != 7);
	CHECK(peak_kb() - before_kb < MORE_KB);
	CHECK(size > bytes + strlen(texts[0]) + strlen(texts[1]));
	CHECK_EQ(check_tail(s, bytes), size - bytes);
	CHECK_OK(notes_put(&file, texts, 2, &again, &sum_again, &e), e); /* they are there */
	CHECK_EQ(again, size);
	CHECK_EQ(sum_again, sum);
	bytes = size;
	size = bare;
	CHECK_OK(notes_put(&file, texts, 1, &size, NULL, &e), e); /* instead of both */
	CHECK(size > bare && size < bytes);
	size = bare;
	CHECK_OK(notes_put(&file, NULL, 0, &size, NULL, &e), e);
	CHECK_EQ(size, bare);
	store_free(s);
	temp_dir_remove(folder);
}

static void test_no_folder(void)
{
	const char *folder = temp_dir();
	struct store *s = new_store(folder);
	const struct notes_file file = { .store = s, .key = KEY, .spool = "/nowhere" };
	uint64_t size = 10;
	struct err e = { 0 };

	put_sparse(s, folder, size);
	CHECK_EQ(notes_put(&file, texts, 2, &size, NULL, &e), ERR_NOT_FOUND);
	CHECK(strstr(e.msg, "/nowhere"));
	CHECK_EQ(size, 10);
	store_free(s);
	temp_dir_remove(folder);
}

static int refuse(void *arg, struct err *e)
{
	++*(int *)arg;
	return err_set(e, ERR_EXISTS, "it is another's");
}

static void test_not_ours(void)
{
	const char *folder = temp_dir();
	struct store *s = new_store(folder);
	int asked = 0;
	const struct notes_file file = {
		.store = s, .key = KEY, .spool = folder, .may_replace = refuse, .arg = &asked
	};
	uint64_t size = 10, there;
	struct err e = { 0 };
	int fd;

	put_sparse(s, folder, size);
	CHECK_EQ(notes_put(&file, texts, 2, &size, NULL, &e), ERR_EXISTS);
	CHECK_EQ(asked, 1);
	CHECK_EQ(size, 10);
	CHECK_OK(store_open_fd(s, KEY, any_time(), &fd, &there, &e), e);
	CHECK_EQ(there, 10);
	close(fd);
	store_free(s);
	temp_dir_remove(folder);
}

int main(void)
{
	test_append(0);
	test_append(LARGE_BYTES);
	test_no_folder();
	test_not_ours();
	return 0;
}
