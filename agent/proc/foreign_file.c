/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/foreign_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OPEN_FLAGS (O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)

/* An absolute link inside a container would lead out of it: RESOLVE_IN_ROOT keeps it in. Kernels that
 * lack openat2() (before 5.6) get no links at all in the last place. */
static int open_in_root(int root, const char *path)
{
	struct open_how how = { .flags = OPEN_FLAGS, .resolve = RESOLVE_IN_ROOT };
	int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));

	if (fd < 0 && (errno == ENOSYS || errno == EPERM)) {
		while (*path == '/')
			path++;
		fd = openat(root, path, OPEN_FLAGS | O_NOFOLLOW);
	}
	return fd;
}

static int only_regular(int fd, const char *path, struct stat *st, struct err *e)
{
	int rc;

	if (fd < 0)
		return err_errno(e, "opening %s", path);
	if (fstat(fd, st))
		rc = err_errno(e, "looking at %s", path);
	else if (!S_ISREG(st->st_mode))
		rc = err_set(e, ERR_INVALID, "%s is not a regular file", path);
	else
		return fd;
	close(fd);
	return rc;
}

int foreign_open(uint32_t pid, const char *path, struct stat *st, struct err *e)
{
	char name[32];
	int root, fd;

	snprintf(name, sizeof(name), "/proc/%u/root", pid);
	root = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return err_errno(e, "opening %s", name);
	fd = open_in_root(root, path);
	close(root);
	return only_regular(fd, path, st, e);
}

int foreign_open_here(const char *path, struct stat *st, struct err *e)
{
	return only_regular(open(path, OPEN_FLAGS), path, st, e);
}

int read_text_file(const char *path, size_t max_bytes, struct buf *out, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
	size_t before = out->len;
	ssize_t n = 1;

	if (fd < 0)
		return err_errno(e, "opening %s", path);
	while (n > 0 && !rc) {
		buf_reserve(out, 16 << 10);
		n = read(fd, out->data + out->len, 16 << 10);
		if (n > 0) {
			out->len += (size_t)n;
			out->data[out->len] = '\0';
		} else if (n < 0) {
			rc = err_errno(e, "reading %s", path);
		}
		if (out->len - before > max_bytes)
			rc = err_set(e, ERR_LIMIT, "%s is longer than %zu bytes", path, max_bytes);
	}
	close(fd);
	return rc;
}

int read_exactly(int fd, uint64_t offset, void *out, size_t len, struct err *e)
{
	uint8_t *p = out;

	while (len) {
		ssize_t n = pread(fd, p, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(e, "reading");
		if (!n)
			return err_set(e, ERR_IO, "the file ends too early");
		p += n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}
