/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/mem.h"
#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"

static const char *root;

static const char *in_root(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	return path;
}

static int new_file(const char *name)
{
	int fd = open(in_root(name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	return fd;
}

static void write_file(const char *name, const char *text)
{
	struct err e;
	int fd = new_file(name);

	CHECK_OK(file_write_all(fd, text, strlen(text), name, &e), e);
	close(fd);
}

static void test_read(void)
{
	char out[16] = "";
	struct err e;
	int fd = new_file("read");

	CHECK_OK(file_write_all(fd, "0123456789", 10, "read", &e), e);
	CHECK_EQ(file_read_up_to(fd, 0, out, 10), 10);
	CHECK_EQ(file_read_up_to(fd, 7, out, sizeof(out)), 3);
	CHECK_EQ(file_read_up_to(fd, 10, out, sizeof(out)), 0);
	CHECK_EQ(file_read_up_to(-1, 0, out, sizeof(out)), -1);
	memset(out, 0, sizeof(out));
	CHECK_OK(file_read_exact(fd, 2, out, 4, "read", &e), e);
	CHECK_STR(out, "2345");
	CHECK_OK(file_read_exact(fd, 99, out, 0, "read", &e), e);
	CHECK_EQ(file_read_exact(fd, 8, out, 3, "the file", &e), ERR_IO);
	CHECK_STR(e.msg, "the file ends too early");
	CHECK_EQ(file_read_exact(-1, 0, out, 1, "the file", &e), ERR_IO);
	CHECK_STR(e.msg, "reading the file: Bad file descriptor");
	close(fd);
}

static void test_write(void)
{
	char out[16] = "";
	struct err e;
	int fd = new_file("write"), full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	CHECK_OK(file_write_all(fd, "abc", 3, "write", &e), e);
	CHECK_OK(file_write_all(fd, "def", 3, "write", &e), e);
	CHECK_OK(file_write_at(fd, 2, "XY", 2, "write", &e), e);
	CHECK_EQ(file_read_up_to(fd, 0, out, sizeof(out)), 6);
	CHECK_STR(out, "abXYef");
	CHECK_EQ(file_write_all(full, "a", 1, "the disk", &e), ERR_FULL);
	CHECK_STR(e.msg, "writing the disk: No space left on device");
	CHECK_EQ(file_write_at(-1, 0, "a", 1, "it", &e), ERR_IO);
	close(full);
	close(fd);
}

/* More than a pipe holds at once: several writes for one call. */
static void test_write_in_pieces(void)
{
	enum { BYTES = 1 << 20 };
	uint8_t *data = xcalloc(1, BYTES);
	struct err e;
	int fd[2];
	size_t got = 0;
	ssize_t n;
	pid_t child;

	CHECK(!pipe(fd));
	child = child_fork(SIGKILL);
	CHECK(child >= 0);
	if (!child) {
		close(fd[0]);
		_exit(file_write_all(fd[1], data, BYTES, "the pipe", &e) ? 1 : 0);
	}
	close(fd[1]);
	while ((n = read(fd[0], data, 1000)) > 0)
		got += (size_t)n;
	CHECK_EQ(got, BYTES);
	CHECK(waitpid(child, NULL, 0) == child);
	close(fd[0]);
	free(data);
}

static void test_load(void)
{
	struct buf b = BUF_INIT;
	struct err e;
	char line[8];

	write_file("load", "first line\nsecond\n");
	buf_add_str(&b, "before ");
	CHECK_OK(file_load(in_root("load"), 18, &b, &e), e);
	CHECK_STR(buf_str(&b), "before first line\nsecond\n");
	CHECK_EQ(file_load(in_root("load"), 17, &b, &e), ERR_LIMIT);
	buf_reset(&b);
	CHECK_OK(file_load("/proc/self/stat", 1 << 20, &b, &e), e);
	CHECK(b.len > 0);
	CHECK_EQ(file_load(in_root("none"), 10, &b, &e), ERR_NOT_FOUND);
	CHECK_EQ(file_load(root, 10, &b, &e), ERR_IO);
	buf_release(&b);

	CHECK(file_first_line(in_root("load"), line, sizeof(line)));
	CHECK_STR(line, "first l");
	write_file("load", "abc\ndef");
	CHECK(file_first_line(in_root("load"), line, sizeof(line)));
	CHECK_STR(line, "abc");
	write_file("load", "");
	CHECK(!file_first_line(in_root("load"), line, sizeof(line)));
	CHECK_STR(line, "");
	CHECK(!file_first_line(in_root("none"), line, sizeof(line)));
}

static int mode_of(const char *name)
{
	struct stat st;

	CHECK(!stat(in_root(name), &st));
	return (int)(st.st_mode & 07777);
}

static void test_make_folders(void)
{
	struct err e;
	char cwd[256];

	umask(0);
	CHECK_OK(file_make_folders(in_root("a/b//c"), 0750, 0700, &e), e);
	CHECK_EQ(mode_of("a"), 0750);
	CHECK_EQ(mode_of("a/b"), 0750);
	CHECK_EQ(mode_of("a/b/c"), 0700);
	CHECK_OK(file_make_folders(in_root("a"), 0777, 0777, &e), e);
	CHECK_EQ(mode_of("a"), 0750);
	CHECK_OK(file_make_folders(in_root("a/slash/"), 0750, 0700, &e), e);
	CHECK_EQ(mode_of("a/slash"), 0750);
	CHECK(!symlink("a", in_root("link")));
	CHECK_OK(file_make_folders(in_root("link/d"), 0750, 0700, &e), e);
	CHECK_EQ(mode_of("a/d"), 0700);
	write_file("file", "");
	CHECK_EQ(file_make_folders(in_root("file/below"), 0750, 0700, &e), ERR_IO);
	CHECK(strstr(e.msg, "making the folder "));

	CHECK(getcwd(cwd, sizeof(cwd)) && !chdir(root));
	CHECK_OK(file_make_folders("relative/folder", 0750, 0700, &e), e);
	CHECK_EQ(mode_of("relative/folder"), 0700);
	CHECK(!chdir(cwd));
}

/* ---- in a root ---- */

static void check_opens(int root_fd, const char *path, const char *expected)
{
	char text[16] = "";
	int fd = file_open_in_root(root_fd, path, O_RDONLY);

	CHECK(fd >= 0);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK(file_read_up_to(fd, 0, text, sizeof(text) - 1) >= 0);
	CHECK_STR(text, expected);
	close(fd);
}

static void check_fails(int root_fd, const char *path, int number)
{
	errno = 0;
	CHECK_EQ(file_open_in_root(root_fd, path, O_RDONLY), -1);
	CHECK_EQ(errno, number);
}

static void make_foreign_root(void)
{
	struct err e;

	CHECK_OK(file_make_folders(in_root("foreign/lib"), 0755, 0755, &e), e);
	write_file("secret", "outside");
	write_file("foreign/secret", "inside");
	write_file("foreign/lib/code", "code");
	CHECK(!symlink("/secret", in_root("foreign/absolute")));
	CHECK(!symlink("../../../secret", in_root("foreign/lib/climbing")));
	CHECK(!symlink("lib", in_root("foreign/folder")));
}

static int open_root(const char *path)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

static void check_any_kernel(int root_fd)
{
	int fd;

	check_opens(root_fd, "/lib/code", "code");
	check_opens(root_fd, "lib/./code", "code");
	check_opens(root_fd, "//lib//code", "code");
	check_fails(root_fd, "/none/code", ENOENT);
	check_fails(root_fd, "/secret/code", ENOTDIR);
	fd = file_open_in_root(root_fd, "/", O_PATH | O_DIRECTORY);
	CHECK(fd >= 0);
	close(fd);
	fd = file_open_in_root(root_fd, "/lib/", O_RDONLY | O_DIRECTORY);
	CHECK(fd >= 0);
	close(fd);
}

static void test_links_stay_inside(void)
{
	int root_fd = open_root(in_root("foreign"));

	check_any_kernel(root_fd);
	check_opens(root_fd, "/absolute", "inside");
	check_opens(root_fd, "/lib/climbing", "inside");
	check_opens(root_fd, "/folder/code", "code");
	check_opens(root_fd, "/../../secret", "inside");
	close(root_fd);
}

/* From here on openat2() fails as on a kernel that lacks it. */
static void refuse_openat2(int number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)number),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = ARRAY_SIZE(code), .filter = code };

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

static void check_without_openat2(int number)
{
	int root_fd = open_root(in_root("foreign")), ours = open_root("/");

	refuse_openat2(number);
	check_any_kernel(root_fd);
	check_fails(root_fd, "/absolute", ELOOP);
	check_fails(root_fd, "/lib/climbing", ELOOP);
	check_fails(root_fd, "/folder/code", ENOTDIR);
	check_fails(root_fd, "/../secret", ELOOP);
	check_opens(ours, in_root("foreign/folder/code"), "code");
	close(ours);
	close(root_fd);
}

static void test_without_openat2(int number)
{
	int status = 0;
	pid_t child = child_fork(SIGKILL);

	CHECK(child >= 0);
	if (!child) {
		check_without_openat2(number);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_EQ(status, 0);
}

/* Also over what a crash left beside it, whatever that is; where it fails, the old file is as it was. */
static void test_replace(void)
{
	struct buf text = BUF_INIT;
	struct stat st;
	struct err e;

	CHECK_OK(file_replace(in_root("kept"), 0600, "old", 3, &e), e);
	write_file("elsewhere", "untouched");
	CHECK(!symlink("elsewhere", in_root("kept.new")));
	CHECK_OK(file_replace(in_root("kept"), 0640, "newer", 5, &e), e);
	CHECK_OK(file_load(in_root("kept"), 64, &text, &e), e);
	CHECK_STR(buf_str(&text), "newer");
	CHECK(!stat(in_root("kept"), &st) && (st.st_mode & 0777) == 0640);
	buf_reset(&text);
	CHECK_OK(file_load(in_root("elsewhere"), 64, &text, &e), e);
	CHECK_STR(buf_str(&text), "untouched");
	CHECK(access(in_root("kept.new"), F_OK) < 0);
	CHECK(!mkdir(in_root("kept.new"), 0700));
	CHECK(file_replace(in_root("kept"), 0600, "x", 1, &e) < 0);
	buf_reset(&text);
	CHECK_OK(file_load(in_root("kept"), 64, &text, &e), e);
	CHECK_STR(buf_str(&text), "newer");
	buf_release(&text);
}

int main(void)
{
	root = temp_dir();
	test_read();
	test_write();
	test_write_in_pieces();
	test_load();
	test_make_folders();
	test_replace();
	make_foreign_root();
	test_links_stay_inside();
	test_without_openat2(ENOSYS);
	test_without_openat2(EPERM);
	return 0;
}
