/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file://: an object is a file, its key the path below the root. A put writes a hidden temporary file
 * beside the final name and renames it when all is on disk, so a reader has the old or the new file
 * open, and a crash leaves a temporary file, never half an object. The put holds a lock (flock) on its temporary
 * file, so the next open knows which files are of puts that were killed, and removes them.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "storage/folder.h"
#include "storage/kinds.h"

/* Profiles show what users run: only the operator and the operator's group read them. */
#define FILE_MODE	0640
#define FOLDER_MODE	0750
#define LEFTOVER_AGE_NS (3600 * NS_PER_S) /* where the file system has no locks */
/* a removal may remove the empty folder before the put has made its file there: the put starts again this
 * often */
#define PUT_TRIES 16

struct store_file {
	struct store base;
	char *path;
	int root;
};

static struct store_file *to_file(struct store *s)
{
	assert(s->ops == &store_file_ops);
	return (struct store_file *)s;
}

static void file_free(struct store *store)
{
	struct store_file *s = to_file(store);

	if (s->root >= 0)
		close(s->root);
	free(s->path);
	free(s);
}

static void sweep(const struct store_file *s)
{
	size_t n = folder_sweep(s->root, now_real_ns() - LEFTOVER_AGE_NS);

	if (n > 0)
		log_info("STORE-SWEPT", "path=\"%s\" leftovers=%zu", s->path, n);
}

static int file_open(struct store **out, const char *rest, struct err *e)
{
	struct store_file *s;
	size_t len = strlen(rest);
	int rc;

	while (len > 1 && rest[len - 1] == '/')
		len--;
	if (rest[0] != '/' || len < 2)
		return err_set(e, ERR_INVALID,
			       "needs an absolute folder, as in file:///var/lib/tutti");
	s = xcalloc(1, sizeof(*s));
	s->base.ops = &store_file_ops;
	s->path = xstrndup(rest, len);
	s->base.directory = s->path;
	s->root = -1;
	rc = file_make_folders(s->path, 0755, FOLDER_MODE, e);
	if (rc)
		goto out;
	s->root = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->root < 0) {
		rc = err_errno(e, "open folder");
		goto out;
	}
	sweep(s);
	*out = &s->base;
	s = NULL;
out:
	if (s)
		file_free(&s->base);
	return rc;
}

/* A new file in `folder` with a name that no key and no XProf pattern matches; locked until it is closed. ENOENT if a
 * sweep has found it before it was locked. */
static int temp_open(int folder, char name[32])
{
	struct stat st;
	uint64_t id;
	int fd;

	random_bytes(&id, sizeof(id));
	snprintf(name, 32, STORE_TEMP_PREFIX "%016" PRIx64, id);
	fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
	if (fd < 0)
		return -1;
	flock(fd, LOCK_EX); /* waits for a sweep at most; without locks the sweep goes by age */
	if (fstat(fd, &st) || st.st_nlink)
		return fd;
	close(fd);
	errno = ENOENT;
	return -1;
}

static int rename_new(int folder, const char *from, const char *to)
{
	if (!renameat2(folder, from, folder, to, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	/* For a file system without renameat2(): link() also fails if the name exists. */
	if (linkat(folder, from, folder, to, 0))
		return -1;
	unlinkat(folder, from, 0);
	return 0;
}

/* Gives the finished file its name, then syncs the folder. */
static int temp_publish(int folder, const char *temp, const char *leaf, unsigned int flags,
			struct err *e)
{
	int rc = flags & STORE_ABSENT ? rename_new(folder, temp, leaf)
				      : renameat(folder, temp, folder, leaf);

	if (rc && errno == EEXIST)
		return err_set(e, ERR_EXISTS, "the key exists already");
	if (rc && errno == EISDIR)
		return err_set(e, ERR_INVALID, "other keys have it as their folder");
	if (rc)
		return err_errno(e, "rename");
	if (folder_sync(folder))
		return err_errno(e, "fsync of the folder");
	return 0;
}

/* STORE_TAKE: links the body's file under a temporary name instead of copying it. False where that is not
 * possible: the body is in memory, a part of a file, or on another file system. */
static bool temp_link(int folder, char name[32], const struct store_put *put)
{
	struct stat st;
	char path[32];
	uint64_t id;

	if (put->fd < 0 || put->offset || fstat(put->fd, &st) || (uint64_t)st.st_size != put->len)
		return false;
	random_bytes(&id, sizeof(id));
	snprintf(name, 32, STORE_TEMP_PREFIX "%016" PRIx64, id);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", put->fd);
	flock(put->fd, LOCK_EX | LOCK_NB);
	return !fchmod(put->fd, FILE_MODE) &&
	       !linkat(AT_FDCWD, path, folder, name, AT_SYMLINK_FOLLOW);
}

static int temp_fill(int fd, const struct store_put *put, struct err *e)
{
	int rc = store_put_write(put, fd, e);

	return !rc && fsync(fd) ? err_errno(e, "fsync") : rc;
}

static int temp_fill_or_link(int folder, char temp[32], int fd, const struct store_put *put,
			     struct err *e)
{
	char linked[32];

	if (!(put->flags & STORE_TAKE) || !temp_link(folder, linked, put))
		return temp_fill(fd, put, e);
	unlinkat(folder, temp, 0);
	memcpy(temp, linked, sizeof(linked));
	return fsync(put->fd) ? err_errno(e, "fsync") : 0;
}

/* Makes the folder and the temporary file in it. From then on the folder cannot be removed. */
static int put_begin(const struct store_file *s, const char *key, const char **leaf, int *folder,
		     char temp[32])
{
	for (int tries = PUT_TRIES;; tries--) {
		int fd;

		*folder = folder_of(s->root, key, true, leaf);
		fd = *folder < 0 ? -1 : temp_open(*folder, temp);
		if (fd >= 0)
			return fd;
		folder_close(*folder);
		if (errno != ENOENT || tries == 0)
			return -1;
	}
}

/* The folder may have been removed and made again meanwhile; that is another folder. */
static bool is_removed(const struct store_file *s)
{
	int number = errno;
	struct stat st;
	bool yes = !fstat(s->root, &st) && !st.st_nlink;

	errno = number;
	return yes;
}

static int file_put(struct store *store, const struct store_put *put, struct store_stat *out,
		    struct err *e)
{
	struct store_file *s = to_file(store);
	const char *leaf;
	char temp[32];
	int folder;
	int fd = put_begin(s, put->key, &leaf, &folder, temp);
	int rc;

	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return err_set(e, ERR_INVALID, "one of its folders is an object or a link");
	if (fd < 0 && is_removed(s))
		return err_set(e, ERR_IO, "\"%.80s\" was removed while it was open: start again",
			       s->path);
	if (fd < 0)
		return err_errno(e, "make a file in \"%.80s\"", s->path);
	rc = temp_fill_or_link(folder, temp, fd, put, e);
	if (!rc && folder_stat(folder, temp, out))
		rc = err_errno(e, "stat");
	if (!rc)
		rc = store_check_deadline(put->deadline_mono_ns, e);
	if (!rc)
		rc = store_check_fence(store, e);
	if (!rc)
		rc = temp_publish(folder, temp, leaf, put->flags, e);
	if (rc) {
		unlinkat(folder, temp, 0);
		folder_prune(s->root, put->key);
	}
	close(fd);
	if (put->flags & STORE_TAKE)
		flock(put->fd, LOCK_UN);
	folder_close(folder);
	return rc;
}

/* As store_ops.open_fd; ERR_NOT_FOUND has the same text whichever part of the path is missing. */
static int object_open(struct store *store, const char *key, int *fd, struct store_stat *st,
		       struct err *e)
{
	const char *leaf;
	int folder = folder_of(to_file(store)->root, key, false, &leaf);

	*fd = folder < 0 ? -1 : folder_open_file(folder, leaf, st);
	folder_close(folder);
	if (*fd >= 0)
		return 0;
	if (errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, "there is no such object");
	if (errno == ELOOP)
		return err_set(e, ERR_INVALID, "it or one of its folders is a link");
	if (errno == EISDIR)
		return err_set(e, ERR_INVALID, "it is a folder");
	if (errno == ENXIO)
		return err_set(e, ERR_INVALID, "it is no regular file");
	return err_errno(e, "open");
}

static int file_open_fd(struct store *store, const char *key, int64_t deadline_mono_ns, int *fd,
			uint64_t *size, struct err *e)
{
	struct store_stat st;
	int rc = object_open(store, key, fd, &st, e);

	(void)deadline_mono_ns; /* one system call */
	if (!rc)
		*size = st.size;
	return rc;
}

static int file_stat(struct store *store, const char *key, int64_t deadline_mono_ns,
		     struct store_stat *out, struct err *e)
{
	int fd, rc = object_open(store, key, &fd, out, e);

	(void)deadline_mono_ns;
	if (!rc)
		close(fd);
	return rc;
}

static int read_range(int fd, uint64_t size, const struct store_get *get, struct err *e)
{
	uint64_t at = get->offset < size ? get->offset : size;
	uint64_t end = get->len < size - at ? at + get->len : size;
	uint8_t *chunk = xmalloc(end - at < STORE_CHUNK_BYTES ? end - at + 1 : STORE_CHUNK_BYTES);
	int rc = 0;

	while (!rc && at < end) {
		size_t n = end - at < STORE_CHUNK_BYTES ? end - at : STORE_CHUNK_BYTES;

		rc = store_check_deadline(get->deadline_mono_ns, e);
		if (!rc)
			rc = file_read_exact(fd, at, chunk, n, "the object", e);
		if (!rc)
			rc = get->sink(get->arg, chunk, n, e);
		at += n;
	}
	free(chunk);
	return rc;
}

static int file_get(struct store *store, const struct store_get *get, struct store_stat *out,
		    struct err *e)
{
	int fd, rc = object_open(store, get->key, &fd, out, e);

	if (rc)
		return rc;
	rc = read_range(fd, out->size, get, e);
	close(fd);
	return rc;
}

static int file_list(struct store *store, const struct store_list *list, struct err *e)
{
	return folder_list(to_file(store)->root, list, e);
}

static int file_remove(struct store *store, const char *key, int64_t deadline_mono_ns,
		       struct err *e)
{
	struct store_file *s = to_file(store);
	const char *leaf;
	int folder = folder_of(s->root, key, false, &leaf);
	int rc = 0;

	(void)deadline_mono_ns;
	if (folder < 0 && errno == ELOOP)
		return err_set(e, ERR_INVALID, "one of its folders is a link");
	if (folder < 0)
		return errno == ENOENT ? 0 : err_errno(e, "open its folder");
	/* EISDIR: a folder is not an object, so there is nothing to remove. */
	if (unlinkat(folder, leaf, 0) && errno != ENOENT && errno != EISDIR)
		rc = err_errno(e, "unlink");
	else if (folder_sync(folder))
		rc = err_errno(e, "fsync of the folder");
	folder_close(folder);
	folder_prune(s->root, key);
	return rc;
}

const struct store_ops store_file_ops = {
	.scheme = "file",
	.open = file_open,
	.put = file_put,
	.get = file_get,
	.stat = file_stat,
	.list = file_list,
	.remove = file_remove,
	.open_fd = file_open_fd,
	.free = file_free,
};
