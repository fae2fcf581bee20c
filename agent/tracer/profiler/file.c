/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/profiler/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/proc/foreign_file.h"
#include "base/file.h"
#include "base/mem.h"
#include "proto/limits.h"

enum { COPY_BYTES = 1 << 18 };

/* Folders below the repository in which servers make the folder of a session. */
static const char *const layouts[] = { "", "plugins/profile/" };

/* ---- foreign paths ---- */

/* Opens a path inside the root of a process; on failure returns -1 with errno. */
static int open_in_root(const char *root, const char *path, int flags)
{
	int root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd, saved;

	if (root_fd < 0)
		return -1;
	fd = file_open_in_root(root_fd, path, flags);
	saved = errno;
	close(root_fd);
	errno = saved;
	return fd;
}

static DIR *open_dir_in_root(const char *root, const char *path)
{
	int fd = open_in_root(root, path, O_RDONLY | O_DIRECTORY);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !dir)
		close(fd);
	return dir;
}

static char *session_path(const struct profiler_place *place, const char *layout)
{
	return xasprintf("%s/%s%s", place->repository, layout, place->session);
}

/* ---- fetch ---- */

static bool is_xspace_name(const char *name)
{
	static const char suffix[] = ".xplane.pb";
	size_t len = strlen(name);

	return len >= strlen(suffix) && !strcmp(name + len - strlen(suffix), suffix);
}

/* Opens a regular file in `dir` with the name of an XSpace; -1 if there is none. */
static int open_xspace(DIR *dir)
{
	struct dirent *entry;
	struct stat st;

	while ((entry = readdir(dir))) {
		int fd;

		if (!is_xspace_name(entry->d_name))
			continue;
		fd = openat(dirfd(dir), entry->d_name,
			    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (!fstat(fd, &st) && S_ISREG(st.st_mode))
			return fd;
		close(fd);
	}
	return -1;
}

/* The file may still grow while it is copied. */
static int copy_file(int from, int to, uint64_t limit_bytes, struct err *e)
{
	uint8_t *block = xmalloc(COPY_BYTES);
	uint64_t total = 0;
	int rc = 0;
	ssize_t n;

	while ((n = read(from, block, COPY_BYTES)) > 0) {
		total += (uint64_t)n;
		if (total > limit_bytes) {
			rc = err_set(e, ERR_FULL, "the profiler's file grows while it is copied");
			goto out;
		}
		rc = file_write_all(to, block, (size_t)n, "the copy of the profiler's file", e);
		if (rc)
			goto out;
	}
	if (n < 0)
		rc = err_errno(e, "reading the profiler's file");
out:
	free(block);
	return rc;
}

static int copy_to(int from, const char *to, uint64_t limit_bytes, struct err *e)
{
	int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), rc;

	if (fd < 0)
		return err_errno(e, "%s", to);
	rc = copy_file(from, fd, limit_bytes, e);
	close(fd);
	if (rc)
		unlink(to);
	return rc;
}

static int check_size(int fd, uint64_t limit_bytes, uint64_t *size, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st))
		return err_errno(e, "examining the profiler's file");
	*size = (uint64_t)st.st_size;
	if (*size > LIMIT_RESPONSE_BYTES)
		return err_set(e, ERR_LIMIT, "the profiler's file is larger than 2 GB");
	if (*size > limit_bytes)
		return err_set(e, ERR_FULL, "the profiler's file has %" PRIu64 " bytes", *size);
	return 0;
}

static int fetch_from(DIR *dir, const char *to, uint64_t limit_bytes, uint64_t *size, struct err *e)
{
	int from = open_xspace(dir), rc;

	if (from < 0)
		return err_set(e, ERR_NOT_FOUND, "no .xplane.pb file");
	rc = check_size(from, limit_bytes, size, e);
	if (!rc)
		rc = copy_to(from, to, limit_bytes, e);
	close(from);
	return rc;
}

int profiler_file_fetch(const struct profiler_place *place, const char *to, uint64_t limit_bytes,
			uint64_t *size, struct err *e)
{
	int rc = ERR_NOT_FOUND;

	for (size_t i = 0; i < ARRAY_SIZE(layouts) && rc == ERR_NOT_FOUND; i++) {
		char *path = session_path(place, layouts[i]);
		DIR *dir = open_dir_in_root(place->root, path);

		if (!dir && (errno == EACCES || errno == EPERM))
			rc = foreign_error(e, strcmp(place->root, "/") ? place->root : path);
		free(path);
		if (!dir)
			continue;
		rc = fetch_from(dir, to, limit_bytes, size, e);
		closedir(dir);
	}
	if (rc == ERR_NOT_FOUND)
		err_set(e, ERR_NOT_FOUND, "the profiler left no file below %s%s",
			strcmp(place->root, "/") ? place->root : "", place->repository);
	return rc;
}

/* ---- remove ---- */

static bool is_owned(const struct profiler_place *place, const struct stat *st)
{
	return !place->owner || st->st_uid == *place->owner;
}

static void remove_files(const struct profiler_place *place, DIR *dir)
{
	struct dirent *entry;
	struct stat st;

	if (fstat(dirfd(dir), &st) || !is_owned(place, &st))
		return;
	while ((entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
}

/* Removes one empty directory; `path` is inside the process's root. */
static void remove_dir(const struct profiler_place *place, const char *path)
{
	char *parent = xstrdup(path);
	char *slash = strrchr(parent, '/');
	struct stat st;
	int fd;

	if (slash) {
		*slash = '\0';
		fd = open_in_root(place->root, *parent ? parent : "/", O_PATH | O_DIRECTORY);
		if (fd >= 0) {
			if (!fstatat(fd, slash + 1, &st, AT_SYMLINK_NOFOLLOW) &&
			    is_owned(place, &st))
				unlinkat(fd, slash + 1, AT_REMOVEDIR);
			close(fd);
		}
	}
	free(parent);
}

void profiler_file_remove(const struct profiler_place *place)
{
	static const char *const rest[] = { "/plugins/profile", "/plugins", "" };

	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
		char *path = session_path(place, layouts[i]);
		DIR *dir = open_dir_in_root(place->root, path);

		if (dir) {
			remove_files(place, dir);
			closedir(dir);
			remove_dir(place, path);
		}
		free(path);
	}
	for (size_t i = 0; i < ARRAY_SIZE(rest); i++) {
		char *path = xasprintf("%s%s", place->repository, rest[i]);

		remove_dir(place, path);
		free(path);
	}
}
