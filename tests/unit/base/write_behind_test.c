/* SPDX-License-Identifier: Apache-2.0 */
#include "base/write_behind.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"

static int new_file(void)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/file", temp_dir());
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	return fd;
}

static void check_file(int fd, const struct buf *want)
{
	struct buf have = BUF_INIT;
	struct err e;

	buf_reserve(&have, want->len);
	CHECK_EQ(lseek(fd, 0, SEEK_END), want->len);
	CHECK_OK(file_read_exact(fd, 0, have.data, want->len, "the file", &e), e);
	CHECK(!memcmp(have.data, want->data, want->len));
	buf_release(&have);
}

/* Pieces of many sizes, some of them larger than what is held, in their order. */
static void test_order(void)
{
	static const size_t sizes[] = { 1, 0, 70000, 1 << 20, 3, (1 << 20) - 1, 5 << 20, 17 };
	struct buf want = BUF_INIT, piece = BUF_INIT;
	int fd = new_file();
	struct write_behind *w = write_behind_new(fd, "the file");
	struct err e;

	for (size_t i = 0; i < 160; i++) {
		size_t n = sizes[i % (sizeof(sizes) / sizeof(sizes[0]))];

		buf_reset(&piece);
		buf_reserve(&piece, n);
		memset(piece.data, (int)i, n);
		piece.len = n;
		buf_add(&want, piece.data, n);
		CHECK_OK(write_behind_add(w, piece.data, n, &e), e);
		if (i % 31)
			continue;
		CHECK_OK(write_behind_flush(w, &e), e);
		check_file(fd, &want);
	}
	CHECK_OK(write_behind_flush(w, &e), e);
	CHECK_OK(write_behind_flush(w, &e), e);
	check_file(fd, &want);
	write_behind_free(w);
	buf_release(&want);
	buf_release(&piece);
	close(fd);
}

static void check_refused(struct write_behind *w)
{
	static const char bytes[300000];
	struct err e = { 0 };
	int rc = 0;

	for (int i = 0; !rc && i < 20; i++)
		rc = write_behind_add(w, bytes, sizeof(bytes), &e);
	CHECK_EQ(rc, ERR_FULL);
	CHECK_EQ(write_behind_flush(w, NULL), ERR_FULL);
	CHECK(strstr(e.msg, "writing the file: "));
	write_behind_free(w);
}

static void test_full(void)
{
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	check_refused(write_behind_new(fd, "the file"));
	close(fd);
}

/* Without what was added the thread ends, too. */
static void test_unflushed(void)
{
	int fd = new_file();
	struct write_behind *w = write_behind_new(fd, "the file");
	struct err e;

	CHECK_OK(write_behind_add(w, "abc", 3, &e), e);
	write_behind_free(w);
	write_behind_free(NULL);
	CHECK_EQ(lseek(fd, 0, SEEK_END), 0);
	close(fd);
}

int main(void)
{
	test_order();
	test_full();
	test_unflushed();
	return 0;
}
