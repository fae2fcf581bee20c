/* SPDX-License-Identifier: Apache-2.0 */
/* Files read by another process, which hangs: a stopped process stands for one that waits for a file system. */
#include "agent/proc/far_file.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/proc/file_keeper.h"
#include "base/file.h"
#include "base/mem.h"
#include "tests/lib/check.h"
#include "tests/lib/file_reader.h"
#include "tests/lib/temp_dir.h"

#define BIG_BYTES (3 * FILE_CHUNK_BYTES + 17)
#define LATE_NS	  (500 * NS_PER_MS)

struct bed {
	struct file_keeper *keeper;
	const char *dir;
	char *big, *other; /* files */
};

static char *write_file(const char *dir, const char *name, const void *bytes, size_t len)
{
	char *path = xasprintf("%s/%s", dir, name);
	struct err e;

	CHECK_OK(file_replace(path, 0600, bytes, len, &e), e);
	return path;
}

static struct far_place place(uint32_t minor, uint32_t uid)
{
	return (struct far_place){ .minor = minor, .pid = (uint32_t)getpid(), .uid = uid };
}

static void files_are_read(const struct bed *b)
{
	struct far_files *direct = far_files_new(NULL), *far = far_files_new(b->keeper);
	struct far_files *both[] = { direct, far };
	const struct far_place p = place(1, 1);
	uint8_t *bytes = xmalloc(BIG_BYTES + 1);
	struct stat st, want;
	struct far_file f;
	struct err e;

	CHECK(!stat(b->big, &want));
	for (size_t i = 0; i < ARRAY_SIZE(both); i++) {
		struct far_files *ff = both[i];

		CHECK(!far_files_begin(ff));
		CHECK_OK(far_open_mapped(ff, &p, b->big, want.st_ino, &f, &st, &e), e);
		CHECK(st.st_size == BIG_BYTES && st.st_ino == want.st_ino && far_file_is_open(&f));
		CHECK_EQ(far_file_read_up_to(&f, 1, bytes, BIG_BYTES, &e), BIG_BYTES - 1);
		for (size_t k = 1; k < BIG_BYTES; k++)
			CHECK_EQ(bytes[k - 1], k % 251);
		CHECK_OK(far_file_read(&f, BIG_BYTES - 1, bytes, 1, &e), e);
		CHECK_EQ(far_file_read(&f, BIG_BYTES - 1, bytes, 2, &e), ERR_IO);
		CHECK(strstr(e.msg, "ends before"));
		far_file_close(&f);
		CHECK(!far_file_is_open(&f));
		CHECK_EQ(far_open_mapped(ff, &p, b->big, want.st_ino + 1, &f, &st, &e),
			 ERR_NOT_FOUND);
		CHECK_EQ(far_open(ff, &p, "/nothing/here", &f, &st, &e), ERR_NOT_FOUND);
		CHECK_EQ(far_open(ff, &p, "/proc", &f, &st, &e), ERR_INVALID);
		CHECK(strstr(e.msg, "not a regular file"));
		CHECK_OK(far_open_here(ff, &p, b->other, &f, &st, &e), e);
		CHECK_OK(far_file_read(&f, 0, bytes, 5, &e), e);
		CHECK(!memcmp(bytes, "other", 5));
		far_file_close(&f);
		CHECK_STR(far_files_hung(ff), "");
		far_files_free(ff);
	}
	free(bytes);
}

/* Its place is left alone, others are read, and it comes back. */
static void who_hangs_is_given_up(const struct bed *b)
{
	struct far_files *ff = far_files_new(b->keeper);
	const struct far_place here = place(1, 1), there = place(2, 1);
	struct far_file f, g;
	struct stat st;
	struct err e;
	int64_t began;
	char byte;
	pid_t pid;

	CHECK_OK(far_open_here(ff, &here, b->big, &f, &st, &e), e);
	CHECK_OK(far_open_here(ff, &there, b->other, &g, &st, &e), e);
	pid = file_reader(NULL, 0);
	CHECK(pid && !kill(pid, SIGSTOP));
	CHECK_EQ(far_file_read(&f, 0, &byte, 1, &e), ERR_TIMEOUT);
	CHECK(strstr(far_files_hung(ff), b->big));
	CHECK(!far_file_is_open(&f) && !far_file_is_open(&g));
	far_file_close(&f);

	began = now_mono_ns();
	CHECK_EQ(far_open_here(ff, &here, b->big, &f, &st, &e), ERR_TIMEOUT);
	CHECK(now_mono_ns() - began < FAR_LOOK_MS * NS_PER_MS * FAR_HANG_LOOKS / 2);
	CHECK_OK(far_open_here(ff, &there, b->other, &g, &st, &e), e);
	CHECK_OK(far_file_read(&g, 0, &byte, 1, &e), e);
	CHECK(!far_files_begin(ff));

	CHECK(!kill(pid, SIGCONT));
	while (!far_files_begin(ff)) {
		CHECK(*far_files_hung(ff));
		now_sleep_until_mono(now_mono_ns() + 20 * NS_PER_MS);
	}
	CHECK_STR(far_files_hung(ff), "");
	CHECK_OK(far_open_here(ff, &here, b->big, &f, &st, &e), e);
	CHECK_OK(far_file_read(&f, 7, &byte, 1, &e), e);
	CHECK_EQ(byte, 7);
	far_file_close(&f);
	far_file_close(&g);
	far_files_free(ff);
}

static void one_user_takes_no_more_than_his_share(const struct bed *b)
{
	struct far_files *ff = far_files_new(b->keeper);
	pid_t stopped[FAR_USER_HUNG_MAX];
	struct far_place p;
	struct far_file f;
	struct stat st;
	struct err e;
	char byte;

	for (uint32_t i = 0; i < FAR_USER_HUNG_MAX; i++) {
		p = place(i + 1, 1);
		CHECK_OK(far_open_here(ff, &p, b->big, &f, &st, &e), e);
		stopped[i] = file_reader(stopped, i);
		CHECK(stopped[i] && !kill(stopped[i], SIGSTOP));
		CHECK_EQ(far_file_read(&f, 0, &byte, 1, &e), ERR_TIMEOUT);
		far_file_close(&f);
	}
	p = place(100, 1);
	CHECK_EQ(far_open_here(ff, &p, b->big, &f, &st, &e), ERR_TIMEOUT);
	p = place(101, 2);
	CHECK_OK(far_open_here(ff, &p, b->big, &f, &st, &e), e);
	far_file_close(&f);
	for (size_t i = 0; i < FAR_USER_HUNG_MAX; i++)
		CHECK(!kill(stopped[i], SIGKILL));
	far_files_free(ff);
}

/* Lets the reader open the marked file, late. */
static void *open_late(void *arg)
{
	int fd = *(int *)arg;
	struct fanotify_event_metadata event;

	while (read(fd, &event, sizeof(event)) == sizeof(event)) {
		struct fanotify_response r = { .fd = event.fd, .response = FAN_ALLOW };

		now_sleep_until_mono(now_mono_ns() + LATE_NS);
		CHECK(write(fd, &r, sizeof(r)) == sizeof(r));
		close(event.fd);
	}
	return NULL;
}

/* Needs root, to make an open slow. */
static void slow_files_are_left_alone_in_time(const struct bed *b)
{
	int fd = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY | O_CLOEXEC), n = 0, rc;
	struct far_files *ff = far_files_new(b->keeper);
	const struct far_place slow = place(1, 1), of_user = place(2, 1), of_other = place(3, 2);
	struct far_file f;
	pthread_t thread;
	struct stat st;
	struct err e;

	if (fd < 0 || fanotify_mark(fd, FAN_MARK_ADD, FAN_OPEN_PERM, AT_FDCWD, b->other) ||
	    pthread_create(&thread, NULL, open_late, &fd)) {
		printf("slow files: not as this user, or on this kernel\n");
		close(fd);
		far_files_free(ff);
		return;
	}
	while (!(rc = far_open_here(ff, &slow, b->other, &f, &st, &e))) {
		far_file_close(&f);
		n++;
	}
	CHECK_EQ(rc, ERR_TIMEOUT);
	CHECK(n > 2 && n <= 1 + FAR_USER_ASLEEP_NS / LATE_NS);
	CHECK(strstr(far_files_hung(ff), b->other));
	CHECK_EQ(far_open_here(ff, &of_user, b->big, &f, &st, &e), ERR_TIMEOUT);
	CHECK_OK(far_open_here(ff, &of_other, b->big, &f, &st, &e), e);
	far_file_close(&f);

	CHECK(!far_files_begin(ff));
	CHECK_OK(far_open_here(ff, &of_user, b->big, &f, &st, &e), e);
	far_file_close(&f);
	CHECK_EQ(far_open_here(ff, &slow, b->big, &f, &st, &e), ERR_TIMEOUT);
	far_files_free(ff);
	pthread_cancel(thread);
	CHECK(!pthread_join(thread, NULL));
	close(fd);
}

static void *stop(void *ff)
{
	now_sleep_until_mono(now_mono_ns() + 50 * NS_PER_MS);
	far_files_stop(ff);
	return NULL;
}

/* Opens the big file, and sends the signal to the process that reads it. */
static pid_t signal_reader(const struct bed *b, struct far_files *ff, struct far_file *f,
			   int signal_number)
{
	const struct far_place p = place(1, 1);
	struct stat st;
	struct err e;
	pid_t pid;

	CHECK_OK(far_open_here(ff, &p, b->big, f, &st, &e), e);
	pid = file_reader(NULL, 0);
	CHECK(pid && !kill(pid, signal_number));
	return pid;
}

static void a_stop_ends_the_wait(const struct bed *b)
{
	struct far_files *ff = far_files_new(b->keeper);
	const struct far_place p = place(1, 1);
	struct far_file f;
	pid_t pid = signal_reader(b, ff, &f, SIGSTOP);
	pthread_t thread;
	struct stat st;
	struct err e;
	char byte;

	CHECK(!pthread_create(&thread, NULL, stop, ff));
	CHECK_EQ(far_file_read(&f, 0, &byte, 1, &e), ERR_CANCELLED);
	CHECK(!pthread_join(thread, NULL));
	CHECK_EQ(far_open_here(ff, &p, b->big, &f, &st, &e), ERR_CANCELLED);
	CHECK_STR(far_files_hung(ff), "");
	CHECK(!kill(pid, SIGKILL));
	far_files_free(ff);
}

static void a_reader_that_ends_is_replaced(const struct bed *b)
{
	struct far_files *ff = far_files_new(b->keeper);
	const struct far_place p = place(1, 1);
	struct far_file f;
	struct stat st;
	struct err e;
	char byte;
	pid_t pid;

	(void)signal_reader(b, ff, &f, SIGKILL);
	CHECK(far_file_read(&f, 0, &byte, 1, &e) < 0);
	far_file_close(&f);
	CHECK_OK(far_open_here(ff, &p, b->big, &f, &st, &e), e);
	CHECK_OK(far_file_read(&f, 0, &byte, 1, &e), e);
	far_file_close(&f);
	CHECK(far_files_begin(ff) && !far_files_begin(ff)); /* something could not be read */

	/* It ends before it is asked. */
	pid = file_reader(NULL, 0);
	CHECK(pid && !kill(pid, SIGKILL));
	while (!kill(pid, 0))
		now_sleep_until_mono(now_mono_ns() + NS_PER_MS);
	CHECK_OK(far_open_here(ff, &p, b->big, &f, &st, &e), e);
	far_file_close(&f);
	far_files_free(ff);
}

/* Kills what has forked the reader, which dies, too. */
static void kill_keeper(const struct bed *b, struct far_files *ff)
{
	const struct far_place p = place(1, 1);
	struct far_file f;
	struct stat st;
	struct err e;
	pid_t keeper;
	char byte;

	CHECK_OK(far_open_here(ff, &p, b->big, &f, &st, &e), e);
	keeper = file_reader_keeper(file_reader(NULL, 0));
	CHECK(keeper > 1 && !kill(keeper, SIGKILL));
	while (!far_file_read(&f, 0, &byte, 1, &e))
		now_sleep_until_mono(now_mono_ns() + NS_PER_MS);
	CHECK(!far_file_is_open(&f));
}

static void a_keeper_that_ends_is_replaced(const struct bed *b)
{
	struct far_files *ff = far_files_new(b->keeper), *other = far_files_new(b->keeper);
	const struct far_place p = place(1, 1);
	struct far_file f;
	struct stat st;
	struct err e;
	int64_t began;
	char byte;

	CHECK_OK(far_open_here(other, &p, b->other, &f, &st, &e), e);
	far_file_close(&f);
	kill_keeper(b, ff);
	CHECK_OK(far_open_here(ff, &p, b->big, &f, &st, &e), e);
	CHECK_OK(far_file_read(&f, 7, &byte, 1, &e), e);
	CHECK_EQ(byte, 7);
	far_file_close(&f);
	CHECK_OK(far_open_here(other, &p, b->other, &f, &st, &e), e);
	far_file_close(&f);
	far_files_free(other);

	/* A second time so soon: after a rest, in which nothing waits. */
	began = now_mono_ns();
	kill_keeper(b, ff);
	CHECK(far_open_here(ff, &p, b->big, &f, &st, &e) < 0);
	CHECK(strstr(far_files_hung(ff), "has ended"));
	while (far_open_here(ff, &p, b->big, &f, &st, &e))
		now_sleep_until_mono(now_mono_ns() + 10 * NS_PER_MS);
	printf("another keeper after %.2f s\n", (double)(now_mono_ns() - began) / NS_PER_S);
	CHECK(now_mono_ns() - began >= NS_PER_S / 2);
	CHECK_OK(far_file_read(&f, 7, &byte, 1, &e), e);
	far_file_close(&f);
	CHECK_STR(far_files_hung(ff), "");
	CHECK(far_files_begin(ff));
	far_files_free(ff);
}

/* Also while there is to be no keeper. */
static void all_end_with_the_agent(struct bed *b)
{
	struct far_files *ff = far_files_new(b->keeper);
	int64_t began = now_mono_ns();
	int status;

	kill_keeper(b, ff);
	far_files_free(ff);
	file_keeper_free(b->keeper);
	CHECK(wait(&status) > 0 && !status);
	CHECK(now_mono_ns() - began < 2 * NS_PER_S);
	while (file_reader(NULL, 0))
		now_sleep_until_mono(now_mono_ns() + NS_PER_MS);
}

int main(void)
{
	struct bed b = { .dir = temp_dir() };
	uint8_t *bytes = xmalloc(BIG_BYTES);
	struct err e;

	for (size_t i = 0; i < BIG_BYTES; i++)
		bytes[i] = (uint8_t)(i % 251);
	b.big = write_file(b.dir, "big", bytes, BIG_BYTES);
	b.other = write_file(b.dir, "other", "other", 5);
	CHECK_OK(file_keeper_start(&b.keeper, NULL, &e), e);
	files_are_read(&b);
	who_hangs_is_given_up(&b);
	one_user_takes_no_more_than_his_share(&b);
	slow_files_are_left_alone_in_time(&b);
	a_stop_ends_the_wait(&b);
	a_reader_that_ends_is_replaced(&b);
	a_keeper_that_ends_is_replaced(&b);
	all_end_with_the_agent(&b);
	temp_dir_remove(b.dir);
	free(b.big);
	free(b.other);
	free(bytes);
	return 0;
}
