/* SPDX-License-Identifier: Apache-2.0 */
/* The suite for file://, and what only files can get wrong. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/conform/store_conform.h"
#include "tests/lib/check.h"
#include "tests/lib/store.h"
#include "tests/lib/temp_dir.h"

static const char *top;

/* Opens the store "<top>/<name>". */
static struct store *open_store(const char *name)
{
	char *url = xasprintf("file://%s/%s", top, name);
	struct store *s;
	struct err e;

	CHECK_OK(store_open(&s, url, &e), e);
	free(url);
	return s;
}

static char *path_in(const struct store *s, const char *name)
{
	return xasprintf("%s/%s", store_directory(s), name);
}

/* A file that the store did not write, `age_s` old. */
static void plant(const struct store *s, const char *name, int64_t age_s)
{
	char *path = path_in(s, name);
	struct timespec times[2] = { { .tv_sec = now_real_ns() / NS_PER_S - age_s } };
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK_EQ(write(fd, "planted", 7), 7);
	times[1] = times[0];
	CHECK(!futimens(fd, times));
	close(fd);
	free(path);
}

static int open_locked(const struct store *s, const char *name)
{
	char *path = path_in(s, name);
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB));
	free(path);
	return fd;
}

static bool there(const struct store *s, const char *name)
{
	char *path = path_in(s, name);
	struct stat st;
	bool yes = !lstat(path, &st);

	free(path);
	return yes;
}

static bool count_key(void *arg, const char *key, const struct store_stat *st)
{
	(void)key;
	(void)st;
	++*(int *)arg;
	return true;
}

static int count_keys(struct store *s)
{
	struct err e;
	int n = 0;

	CHECK_OK(list_keys(s, "", NULL, count_key, &n, &e), e);
	return n;
}

static void put(struct store *s, const char *key)
{
	struct err e;

	CHECK_OK(store_put_bytes(s, key, "x", 1, 0, any_time(), &e), e);
}

static void drop(struct store *s, const char *key)
{
	struct err e;

	CHECK_OK(store_remove(s, key, any_time(), &e), e);
}

static void test_open(void)
{
	struct store *s = open_store("deep/er/root///");
	char *path = xasprintf("%s/deep/er/root", top);
	char *url;
	struct err e;

	CHECK_STR(store_directory(s), path);
	put(s, "file");
	url = xasprintf("file://%s/file/below", path);
	store_free(s);
	CHECK(store_open(&s, url, &e) < 0);
	CHECK(strstr(e.msg, "Not a directory"));
	CHECK_EQ(store_open(&s, "file://relative/folder", &e), ERR_INVALID);
	CHECK_EQ(store_open(&s, "file:///", &e), ERR_INVALID);
	CHECK_EQ(store_open(&s, "file://", &e), ERR_INVALID);
	free(url);
	free(path);
}

/* What a put that was killed leaves is never listed, and the next open sweeps it. What another process has locked stays for
 * an hour. */
static void test_leftovers(void)
{
	struct store *s = open_store("leftovers");
	int locked;

	put(s, "s/host.xplane.pb");
	put(s, "t/u/x");
	plant(s, "s/.tmp-00112233", 3700);
	plant(s, "s/.tmp-young", 60);
	plant(s, "s/.tmp-locked", 60);
	locked = open_locked(s, "s/.tmp-locked");
	plant(s, "t/u/.tmp-00112233", 7200);
	plant(s, ".tmp-top", 7200);
	drop(s, "t/u/x");
	CHECK(there(s, "t/u/.tmp-00112233"));
	CHECK_EQ(count_keys(s), 1);
	store_free(s);
	s = open_store("leftovers");
	CHECK(!there(s, "s/.tmp-00112233"));
	CHECK(!there(s, ".tmp-top"));
	CHECK(!there(s, "t"));
	CHECK(!there(s, "s/.tmp-young"));
	CHECK(there(s, "s/.tmp-locked"));
	close(locked);
	CHECK(there(s, "s/host.xplane.pb"));
	CHECK_EQ(count_keys(s), 1);
	store_free(s);
}

/* Runs when a file has grown to its limit: in the middle of a put. */
static void stop_here(int number)
{
	(void)number;
	raise(SIGSTOP);
}

static pid_t start_put(struct store *s, uint8_t *bytes, size_t len)
{
	const struct rlimit limit = { .rlim_cur = len / 2, .rlim_max = len / 2 };
	pid_t pid = child_fork(SIGKILL);
	struct err e;
	int rc;

	CHECK(pid >= 0);
	if (pid)
		return pid;
	signal(SIGXFSZ, stop_here);
	setrlimit(RLIMIT_FSIZE, &limit);
	rc = store_put_bytes(s, "ledger/key", bytes, len, STORE_ABSENT, any_time(), &e);
	_exit(rc ? 1 : 0);
}

/* An open leaves the files of puts that are under way. Those of puts that were killed go at once: the process that was
 * killed is started again within seconds, and then runs for months. */
static void test_killed_put(void)
{
	struct store *s = open_store("killed"), *other;
	size_t len = (size_t)2 << 20;
	uint8_t *bytes = xcalloc(1, len);
	pid_t pid = start_put(s, bytes, len);
	int status;

	CHECK_EQ(waitpid(pid, &status, WUNTRACED), pid);
	CHECK(WIFSTOPPED(status));
	other = open_store("killed");
	CHECK(there(s, "ledger"));
	store_free(other);
	CHECK(!kill(pid, SIGKILL));
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	CHECK(there(s, "ledger"));
	other = open_store("killed");
	CHECK(!there(s, "ledger"));
	store_free(other);
	store_free(s);
	free(bytes);
}

/* XProf takes any folder for a session, so none may outlive its last object. */
static void test_no_empty_folders(void)
{
	struct store *s = open_store("empty");
	struct store_put none = { .fd = open("/dev/null", O_RDONLY | O_CLOEXEC), .len = 1 };
	struct err e;

	put(s, "p/plugins/profile/1/a.xplane.pb");
	put(s, "p/plugins/profile/1/b.xplane.pb");
	drop(s, "p/plugins/profile/1/a.xplane.pb");
	CHECK(there(s, "p/plugins/profile/1/b.xplane.pb"));
	drop(s, "p/plugins/profile/1/b.xplane.pb");
	CHECK(!there(s, "p"));
	CHECK_EQ(put_as(s, "failed/put", none, 0, &e), ERR_INVALID);
	CHECK(!there(s, "failed"));
	close(none.fd);
	store_free(s);
}

/* Of a file that is given away, only what the put is of. */
static void test_part_taken(void)
{
	struct store *s = open_store("part");
	char *path = path_in(s, ".given");
	struct store_put put = { .fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), .len = 3 };
	struct store_stat st;
	struct err e;

	CHECK(put.fd >= 0 && write(put.fd, "abcdef", 6) == 6);
	CHECK_OK(put_as(s, "first", put, STORE_TAKE, &e), e);
	CHECK_OK(store_stat(s, "first", any_time(), &st, &e), e);
	CHECK_EQ(st.size, 3);
	put.offset = 3;
	CHECK_OK(put_as(s, "last", put, STORE_TAKE, &e), e);
	CHECK_OK(store_stat(s, "last", any_time(), &st, &e), e);
	CHECK_EQ(st.size, 3);
	close(put.fd);
	free(path);
	store_free(s);
}

/* Stands where an object or a folder could be, and leads out: an object there is neither read nor taken for missing. */
static void test_links(void)
{
	struct store *s = open_store("links");
	struct store *outside = open_store("outside");
	struct buf b = BUF_INIT;
	struct err e;
	char *file = path_in(s, "file");
	char *folder = path_in(s, "folder");
	char *target = path_in(outside, "secret");
	int fd, n = 0;

	put(outside, "secret");
	CHECK(!symlink(target, file));
	CHECK(!symlink(store_directory(outside), folder));
	CHECK_EQ(get_range(s, "file", 0, 1, &b, NULL, &e), ERR_INVALID);
	CHECK(strstr(e.msg, "link"));
	CHECK_EQ(store_open_fd(s, "file", any_time(), &fd, &(uint64_t){ 0 }, &e), ERR_INVALID);
	CHECK_EQ(get_range(s, "folder/secret", 0, 1, &b, NULL, &e), ERR_INVALID);
	CHECK_EQ(store_stat(s, "folder/secret", any_time(), NULL, &e), ERR_INVALID);
	CHECK_EQ(list_keys(s, "folder/", NULL, count_key, NULL, &e), ERR_INVALID);
	CHECK(strstr(e.msg, "link"));
	CHECK_EQ(store_put_bytes(s, "folder/new", "x", 1, 0, any_time(), &e), ERR_INVALID);
	CHECK(strstr(e.msg, "link"));
	CHECK_EQ(list_keys(s, "fi", NULL, count_key, NULL, &e), ERR_INVALID);
	CHECK(strstr(e.msg, "\"file\" is a link"));
	CHECK_EQ(store_remove(s, "folder/secret", any_time(), &e), ERR_INVALID);
	CHECK_EQ(store_put_bytes(s, "file", "x", 1, STORE_ABSENT, any_time(), &e), ERR_EXISTS);
	put(s, "file");
	CHECK_EQ(list_keys(s, "fi", NULL, count_key, &n, &e), 0);
	CHECK_EQ(n, 1);
	CHECK_OK(get_range(outside, "secret", 0, 9, &b, NULL, &e), e);
	CHECK_EQ(count_keys(outside), 1);
	free(file);
	free(folder);
	free(target);
	buf_release(&b);
	store_free(s);
	store_free(outside);
}

/* No copy where the file system can do without; it ends as an object like any. */
static void test_takes_the_file(void)
{
	struct store *s = open_store("taken");
	char *path = path_in(s, "spooled");
	struct store_put put = { .fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), .len = 5 };
	struct stat spooled, object;
	char *taken = path_in(s, "t/object");
	struct err e;

	CHECK_EQ(write(put.fd, "bytes", 5), 5);
	CHECK_OK(put_as(s, "t/object", put, STORE_ABSENT | STORE_TAKE, &e), e);
	CHECK(!unlink(path) && !fstat(put.fd, &spooled) && !stat(taken, &object));
	CHECK_EQ(spooled.st_ino, object.st_ino);
	CHECK_EQ(object.st_nlink, 1);
	CHECK_EQ(object.st_mode & 0777, 0640);
	close(put.fd);
	drop(s, "t/object");
	CHECK_EQ(count_keys(s), 0);
	free(taken);
	free(path);
	store_free(s);
}

/* Profiles are for the operator's group: files 0640, folders 0750, whatever their size and way. */
static void test_modes(void)
{
	struct store *s = open_store("modes");
	char *small = path_in(s, "f/small"), *large = path_in(s, "f/large"),
	     *folder = path_in(s, "f");
	struct store_put put = { .fd = memfd_create("large", MFD_CLOEXEC), .len = 9 << 20 };
	struct stat st;
	struct err e;

	CHECK(put.fd >= 0 && !ftruncate(put.fd, 9 << 20));
	CHECK_OK(put_as(s, "f/large", put, 0, &e), e);
	CHECK_OK(store_put_bytes(s, "f/small", "x", 1, 0, any_time(), &e), e);
	CHECK(!stat(small, &st));
	CHECK_EQ(st.st_mode & 0777, 0640);
	CHECK(!stat(large, &st));
	CHECK_EQ(st.st_mode & 0777, 0640);
	CHECK(!stat(folder, &st));
	CHECK_EQ(st.st_mode & 0777, 0750);
	CHECK(!stat(store_directory(s), &st));
	CHECK_EQ(st.st_mode & 0777, 0750);
	drop(s, "f/small");
	drop(s, "f/large");
	close(put.fd);
	free(small);
	free(large);
	free(folder);
	store_free(s);
}

/* What was made in its place is another folder, with nothing of what is in memory. */
static void test_removed(void)
{
	struct store *s = open_store("removed");
	struct err e;

	CHECK(!rmdir(store_directory(s)));
	CHECK_EQ(store_put_bytes(s, "a", "x", 1, 0, any_time(), &e), ERR_IO);
	CHECK(strstr(e.msg, "was removed"));
	store_free(s);
}

/* FIFOs, odd names and folders are no objects. What stands in an object's place is not taken for missing. */
static void test_foreign_files(void)
{
	struct store *s = open_store("foreign_files");
	struct buf b = BUF_INIT;
	struct err e;
	char *fifo = path_in(s, "fifo");

	CHECK(!mkfifo(fifo, 0644));
	plant(s, "odd name", 0);
	plant(s, "caret^", 0);
	put(s, "a/b");
	CHECK_EQ(count_keys(s), 1);
	CHECK_EQ(get_range(s, "fifo", 0, 1, &b, NULL, &e), ERR_INVALID);
	CHECK_STR(e.msg, "get fifo: it is no regular file");
	CHECK_EQ(get_range(s, "a", 0, 1, &b, NULL, &e), ERR_INVALID);
	CHECK_STR(e.msg, "get a: it is a folder");
	CHECK_EQ(store_stat(s, "a", any_time(), NULL, &e), ERR_INVALID);
	CHECK_EQ(store_put_bytes(s, "a", "x", 1, 0, any_time(), &e), ERR_INVALID);
	CHECK_EQ(store_put_bytes(s, "a/b/c", "x", 1, 0, any_time(), &e), ERR_INVALID);
	drop(s, "a");
	CHECK_EQ(count_keys(s), 1);
	free(fifo);
	store_free(s);
}

/* Bodies the kernel cannot copy by itself: other file systems and files without a size. */
static void test_odd_bodies(void)
{
	struct store *s = open_store("bodies");
	struct store_put put = { .fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC), .len = 20 };
	struct buf b = BUF_INIT;
	struct err e;
	int pipes[2];

	CHECK_OK(put_as(s, "proc", put, 0, &e), e);
	CHECK_OK(get_range(s, "proc", 0, 99, &b, NULL, &e), e);
	CHECK_EQ(b.len, 20);
	CHECK(!memcmp(b.data, "Name:", 5));
	close(put.fd);
	CHECK(!pipe(pipes));
	put.fd = pipes[0];
	CHECK(put_as(s, "pipe", put, 0, &e) < 0);
	CHECK(strstr(e.msg, "pipe") && strstr(e.msg, "seek"));
	close(pipes[0]);
	close(pipes[1]);
	buf_release(&b);
	store_free(s);
}

/* Stands in for a full disk: no file of this process may grow beyond 1 MiB. */
static void test_no_room(void)
{
	struct store *s = open_store("full");
	struct rlimit old, small;
	uint8_t *bytes = xcalloc(1, (size_t)2 << 20);
	struct err e;

	put(s, "key");
	signal(SIGXFSZ, SIG_IGN);
	CHECK(!getrlimit(RLIMIT_FSIZE, &old));
	small = (struct rlimit){ .rlim_cur = 1 << 20, .rlim_max = old.rlim_max };
	CHECK(!setrlimit(RLIMIT_FSIZE, &small));
	CHECK_EQ(store_put_bytes(s, "key", bytes, (size_t)2 << 20, 0, any_time(), &e), ERR_IO);
	CHECK(!setrlimit(RLIMIT_FSIZE, &old));
	CHECK_STR(e.msg, "put key: writing the object: File too large");
	CHECK_EQ(count_keys(s), 1);
	drop(s, "key");
	CHECK_EQ(rmdir(store_directory(s)), 0);
	store_free(s);
	free(bytes);
}

static void test_no_permission(void)
{
	struct store *s = open_store("locked");
	struct err e;

	if (geteuid() == 0) {
		printf("no_permission: skipped, root may do all\n");
		store_free(s);
		return;
	}
	put(s, "folder/key");
	CHECK(!chmod(store_directory(s), 0555));
	CHECK_EQ(store_put_bytes(s, "new", "x", 1, 0, any_time(), &e), ERR_DENIED);
	CHECK(strstr(e.msg, "put new: ") && strstr(e.msg, "Permission denied"));
	CHECK_EQ(store_put_bytes(s, "new/deep", "x", 1, 0, any_time(), &e), ERR_DENIED);
	CHECK(!chmod(store_directory(s), 0755));
	store_free(s);
}

int main(void)
{
	char *url;

	top = temp_dir();
	url = xasprintf("file://%s/suite", top);
	store_conform(url);
	free(url);
	test_open();
	test_leftovers();
	test_killed_put();
	test_no_empty_folders();
	test_part_taken();
	test_links();
	test_removed();
	test_modes();
	test_foreign_files();
	test_takes_the_file();
	test_odd_bodies();
	test_no_room();
	test_no_permission();
	return 0;
}
