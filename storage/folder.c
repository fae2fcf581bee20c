/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/now.h"

void folder_close(int fd)
{
	int number = errno;

	if (fd >= 0)
		close(fd);
	errno = number;
}

int folder_sync(int fd)
{
	/* EINVAL means that the file system cannot sync folders: no error. */
	return fsync(fd) && errno != EINVAL ? -1 : 0;
}

static int open_dir(int parent, const char *name)
{
	return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Syncs the new folder's entry in `parent` before anything is put inside. */
static int make_dir(int parent, const char *name)
{
	int fd;

	if (mkdirat(parent, name, 0750) && errno != EEXIST)
		return -1;
	fd = open_dir(parent, name);
	if (fd >= 0 && folder_sync(parent)) {
		folder_close(fd);
		return -1;
	}
	return fd;
}

static bool is_link(int parent, const char *name)
{
	struct stat st;

	return !fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISLNK(st.st_mode);
}

int folder_of(int root, const char *key, bool make, const char **leaf)
{
	int fd = open_dir(root, ".");
	const char *slash;

	while (fd >= 0 && (slash = strchr(key, '/'))) {
		char name[STORE_PART_MAX + 1];
		int next;

		snprintf(name, sizeof(name), "%.*s", (int)(slash - key), key);
		next = open_dir(fd, name);
		if (next < 0 && errno == ENOENT && make)
			next = make_dir(fd, name);
		if (next < 0 && (errno == ENOTDIR || errno == ELOOP))
			errno = is_link(fd, name) ? ELOOP : make ? ENOTDIR : ENOENT;
		folder_close(fd);
		fd = next;
		key = slash + 1;
	}
	*leaf = key;
	return fd;
}

void folder_prune(int root, const char *key)
{
	char *path = xstrdup(key);
	char *slash;
	bool gone = true;

	while (gone && (slash = strrchr(path, '/'))) {
		const char *leaf;
		int fd;

		*slash = '\0';
		fd = folder_of(root, path, false, &leaf);
		gone = fd >= 0 && !unlinkat(fd, leaf, AT_REMOVEDIR) && !folder_sync(fd);
		folder_close(fd);
	}
	free(path);
}

/* Anything but a regular file is no object: EISDIR for a folder, else ENXIO. */
static int stat_object(const struct stat *st, struct store_stat *out)
{
	if (!S_ISREG(st->st_mode)) {
		errno = S_ISDIR(st->st_mode) ? EISDIR : ENXIO;
		return -1;
	}
	out->size = (uint64_t)st->st_size;
	out->modified_ns = (int64_t)st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec;
	/* A tag from inode and time: each put makes a new inode, and an inode number that is used again has
	 * another time. */
	snprintf(out->tag, sizeof(out->tag), "%" PRIx64 "-%" PRIx64 "-%" PRIx64,
		 (uint64_t)st->st_ino, (uint64_t)out->modified_ns, out->size);
	return 0;
}

int folder_stat(int folder, const char *leaf, struct store_stat *out)
{
	struct stat st;

	if (fstatat(folder, leaf, &st, AT_SYMLINK_NOFOLLOW))
		return -1;
	return stat_object(&st, out);
}

int folder_open_file(int folder, const char *leaf, struct store_stat *out)
{
	struct stat st;
	/* O_NONBLOCK: a foreign FIFO must not block. */
	int fd = openat(folder, leaf, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) || stat_object(&st, out)) {
		folder_close(fd);
		return -1;
	}
	return fd;
}
