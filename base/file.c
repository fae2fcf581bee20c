/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define LOAD_BYTES ((size_t)16 << 10)
#define COPY_BYTES ((size_t)1 << 18)

ssize_t file_read_up_to(int fd, uint64_t offset, void *out, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pread(fd, (char *)out + done, len - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (!n)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

int file_read_exact(int fd, uint64_t offset, void *out, size_t len, const char *name, struct err *e)
{
	ssize_t n = file_read_up_to(fd, offset, out, len);

	if (n < 0)
		return err_errno(e, "reading %s", name);
	return (size_t)n == len ? 0 : err_set(e, ERR_IO, "%s ends too early", name);
}

int file_write_all(int fd, const void *data, size_t len, const char *name, struct err *e)
{
	const uint8_t *p = data;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno != EINTR)
			return err_errno(e, "writing %s", name);
		p += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

int file_write_at(int fd, uint64_t offset, const void *data, size_t len, const char *name,
		  struct err *e)
{
	if (lseek(fd, (off_t)offset, SEEK_SET) < 0)
		return err_errno(e, "writing %s", name);
	return file_write_all(fd, data, len, name, e);
}

int file_open_nameless(const char *folder)
{
	char *path = xasprintf("%s/nameless-XXXXXX", folder);
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0)
			unlink(path);
	}
	free(path);
	return fd;
}

int file_copy(int from, int to, uint64_t bytes, const char *name, struct err *e)
{
	char *block = xmalloc(COPY_BYTES), *copy = xasprintf("the copy of %s", name);
	int rc = 0;

	for (uint64_t at = 0; !rc && at < bytes; at += COPY_BYTES) {
		size_t n = bytes - at < COPY_BYTES ? (size_t)(bytes - at) : COPY_BYTES;

		rc = file_read_exact(from, at, block, n, name, e);
		if (!rc)
			rc = file_write_all(to, block, n, copy, e);
	}
	free(copy);
	free(block);
	return rc;
}

int file_load(const char *path, size_t max_bytes, struct buf *out, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
	size_t before = out->len;
	ssize_t n = 1;

	if (fd < 0)
		return err_errno(e, "opening %s", path);
	while (n && !rc) {
		buf_reserve(out, LOAD_BYTES);
		n = read(fd, out->data + out->len, LOAD_BYTES);
		if (n < 0 && errno != EINTR)
			rc = err_errno(e, "reading %s", path);
		out->len += n > 0 ? (size_t)n : 0;
		out->data[out->len] = '\0';
		if (out->len - before > max_bytes)
			rc = err_set(e, ERR_LIMIT, "%s is longer than %zu bytes", path, max_bytes);
	}
	close(fd);
	return rc;
}

bool file_first_line(const char *path, char *out, size_t size)
{
	FILE *f = fopen(path, "re");
	bool found = f && fgets(out, (int)size, f);

	if (f)
		fclose(f);
	if (!found)
		out[0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	return found;
}

/* ---- folders ---- */

/* The folder that `path` is in. False and errno. */
static bool sync_above(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *above = slash > path ? xstrndup(path, (size_t)(slash - path))
				   : xstrdup(slash ? "/" : ".");
	int fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool is_synced = fd >= 0 && !fsync(fd);

	if (fd >= 0)
		close(fd);
	free(above);
	return is_synced;
}

int file_make_folders(const char *path, mode_t mode_above, mode_t mode, struct err *e)
{
	const char *slash = strrchr(path, '/');
	char *above;
	int rc = 0;

	if (!access(path, F_OK))
		return 0;
	above = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup("");
	if (*above)
		rc = file_make_folders(above, mode_above, mode_above, e);
	if (!rc && mkdir(path, mode) && errno != EEXIST)
		rc = err_errno(e, "making the folder %.160s", path);
	if (!rc)
		(void)sync_above(path); /* there are file systems that cannot */
	free(above);
	return rc;
}

int file_replace(const char *path, mode_t mode, const void *data, size_t len, struct err *e)
{
	char *fresh = xasprintf("%s.new", path);
	int fd, rc;

	unlink(fresh); /* of a crash; it may have another mode */
	fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	rc = fd < 0 ? err_errno(e, "%s", fresh) : 0;
	if (!rc)
		rc = file_write_all(fd, data, len, fresh, e);
	if (!rc && (fsync(fd) || rename(fresh, path) || !sync_above(path)))
		rc = err_errno(e, "%s", path);
	if (fd >= 0)
		close(fd);
	free(fresh);
	return rc;
}
