/* SPDX-License-Identifier: Apache-2.0 */
/* From a manifest to an open view. A worker. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/sessions/sessions.h"
#include "aggregator/views/view.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "storage/store.h"

#define FOLDER_MODE 0700
#define FILE_MODE   0600
#define OUT_BYTES   ((size_t)1 << 20) /* written at once */

/* ---- an index ---- */

struct building {
	struct view *view;
	uint64_t before; /* bytes of the files before this one */
	int fd;
	struct buf pending;
	const char *path;
};

static int flush(struct building *b, struct err *e)
{
	int rc = file_write_all(b->fd, b->pending.data, b->pending.len, b->path, e);

	buf_reset(&b->pending);
	return rc;
}

static int write_index(void *arg, const void *data, size_t len, struct err *e)
{
	struct building *b = arg;

	buf_add(&b->pending, data, len);
	return b->pending.len >= OUT_BYTES ? flush(b, e) : 0;
}

static bool go_on(void *arg, uint64_t done)
{
	struct building *b = arg;

	atomic_store(&b->view->done, b->before + done);
	return !atomic_load(&b->view->is_stopped);
}

static int read_file(void *arg, uint64_t offset, void *buf, size_t len, struct err *e)
{
	const struct view_file *f = arg;

	return file_read_exact(f->fd, offset, buf, len, f->name, e);
}

struct xs_source view_source(const struct view_file *f)
{
	return (struct xs_source){ .read = read_file,
				   .arg = (void *)(uintptr_t)f,
				   .size = f->size };
}

/* A file that is whole once it has its name. */
static int build_index(struct view *view, const struct view_file *f, uint64_t before,
		       const char *path, struct err *e)
{
	char *part = xasprintf("%s.part", path);
	struct building b = { .view = view, .before = before, .path = part };
	const struct tvx_build how = { .go_on = go_on, .arg = &b };
	const struct xs_sink sink = { .write = write_index, .arg = &b };
	struct xs_source in = view_source(f);
	int rc;

	b.fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, FILE_MODE);
	if (b.fd < 0) {
		rc = err_errno(e, "%s", part);
		goto out;
	}
	rc = tvx_build(&in, &how, &sink, e);
	if (!rc)
		rc = flush(&b, e);
	if (!rc && rename(part, path))
		rc = err_errno(e, "%s", path);
	if (rc)
		unlink(part);
out:
	if (b.fd >= 0)
		close(b.fd);
	buf_release(&b.pending);
	free(part);
	return rc;
}

static void close_index(struct view_file *f)
{
	tvx_close(f->x);
	f->x = NULL;
	if (f->map)
		munmap(f->map, f->map_len);
	f->map = NULL;
}

static int open_index(struct view_file *f, const char *path, struct err *e)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

	if (fd < 0)
		return err_errno(e, "%s", path);
	if (fstat(fd, &st) || st.st_size <= 0) {
		close(fd);
		return err_set(e, ERR_INVALID, "%s is empty", path);
	}
	f->map_len = (size_t)st.st_size;
	f->map = mmap(NULL, f->map_len, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (f->map == MAP_FAILED) {
		f->map = NULL;
		return err_errno(e, "%s", path);
	}
	rc = tvx_open(&f->x, f->map, f->map_len, f->size, e);
	if (rc)
		close_index(f);
	return rc;
}

/* Opens the index; one that is missing or damaged is built. */
static int have_index(struct view *view, struct view_file *f, uint64_t before, const char *path,
		      struct err *e)
{
	int rc = open_index(f, path, e);

	if (!rc)
		return 0;
	if (rc != ERR_NOT_FOUND)
		log_warn("AGG-VIEW", "session=%s file=%s state=rebuild reason=\"%s\"",
			 view->session, f->name, e->msg);
	rc = build_index(view, f, before, path, e);
	return rc ? rc : open_index(f, path, e);
}

/* ---- the kept indexes ---- */

static void remove_folder(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	if (dir)
		closedir(dir);
	rmdir(path);
}

void view_remove_indexes(const char *folder, const char *session)
{
	char *path = xasprintf("%s/%s", folder, session);

	remove_folder(path);
	free(path);
}

static uint64_t folder_bytes(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	uint64_t sum = 0;
	struct stat st;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.' &&
		    !fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
			sum += (uint64_t)st.st_size;
	}
	if (dir)
		closedir(dir);
	return sum;
}

/* One look at all sessions' indexes; `oldest` is the session that was opened longest ago, but this one. */
static uint64_t look_at_kept(const struct view *view, char **oldest)
{
	DIR *dir = opendir(view->folder);
	struct timespec least = { 0 };
	struct dirent *entry;
	uint64_t sum = 0;
	struct stat st;

	*oldest = NULL;
	while (dir && (entry = readdir(dir))) {
		char *path;

		if (entry->d_name[0] == '.' ||
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		path = xasprintf("%s/%s", view->folder, entry->d_name);
		sum += folder_bytes(path);
		free(path);
		if (!strcmp(entry->d_name, view->session) ||
		    (*oldest &&
		     (st.st_mtim.tv_sec > least.tv_sec ||
		      (st.st_mtim.tv_sec == least.tv_sec && st.st_mtim.tv_nsec >= least.tv_nsec))))
			continue;
		least = st.st_mtim;
		free(*oldest);
		*oldest = xstrdup(entry->d_name);
	}
	if (dir)
		closedir(dir);
	return sum;
}

static void bound_kept(const struct view *view)
{
	char *oldest;

	while (look_at_kept(view, &oldest) > view->kept_bytes && oldest) {
		view_remove_indexes(view->folder, oldest);
		free(oldest);
	}
	free(oldest);
}

/* ---- a view ---- */

static void list_files(struct view *view)
{
	json_t *host, *file, *hosts = json_object_get(view->manifest, "hosts");
	size_t i, k, n = 0;

	json_array_foreach(hosts, i, host) n += json_array_size(json_object_get(host, "files"));
	view->files = xcalloc(n + 1, sizeof(*view->files));
	json_array_foreach(hosts, i, host)
	{
		json_array_foreach(json_object_get(host, "files"), k, file)
		{
			const char *name = json_string_value(file);

			view->files[view->n_files++] =
				(struct view_file){ .name = xstrdup(name ? name : ""),
						    .host = json_get_text(host, "host"),
						    .fd = -1 };
		}
	}
}

/* All files first: so the progress is of all bytes from the start. */
static int open_files(struct view *view, struct err *e)
{
	struct session_file found;
	uint64_t sum = 0;
	int rc = 0;

	for (size_t i = 0; !rc && i < view->n_files; i++) {
		struct view_file *f = &view->files[i];

		rc = session_find_file(view->store, view->session, f->name, &found, e);
		if (!rc)
			rc = store_open_fd(view->store, found.key, store_within(STORE_PATIENCE_NS),
					   &f->fd, &f->size, e);
		sum += rc ? 0 : f->size;
		if (!rc && atomic_load(&view->is_stopped))
			rc = err_set(e, ERR_CANCELLED, "opening the session was stopped");
	}
	atomic_store(&view->bytes, sum);
	return rc;
}

static int index_files(struct view *view, struct err *e)
{
	char *folder = xasprintf("%s/%s", view->folder, view->session);
	uint64_t before = 0;
	int rc = file_make_folders(folder, FOLDER_MODE, FOLDER_MODE, e);

	for (size_t i = 0; !rc && i < view->n_files; i++) {
		struct view_file *f = &view->files[i];
		char *path = xasprintf("%s/%s.tvx", folder, f->name);

		rc = have_index(view, f, before, path, e);
		if (rc)
			err_prefix(e, "%s", f->name);
		before += f->size;
		atomic_store(&view->done, before);
		free(path);
	}
	if (!rc)
		utimensat(AT_FDCWD, folder, NULL,
			  0); /* the folder's time says when it was opened last */
	free(folder);
	return rc;
}

/* The build stands for everything that answers are made of. */
static void name_build(struct view *view)
{
	uint32_t parts[2] = {
		crc32c(TVX_VERSION, view->manifest_text.data, view->manifest_text.len), 0
	};

	for (size_t i = 0; i < view->n_files; i++)
		parts[1] = crc32c(parts[1], &view->files[i].size, sizeof(view->files[i].size));
	parts[1] = crc32c(parts[1], view->session, strlen(view->session));
	hex_text(view->build, parts, sizeof(parts));
}

int view_make(struct view *view, struct err *e)
{
	int rc = json_parse(&view->manifest, buf_str(&view->manifest_text), view->manifest_text.len,
			    e);

	if (rc)
		return err_prefix(e, "the manifest");
	list_files(view);
	rc = open_files(view, e);
	if (!rc)
		rc = index_files(view, e);
	if (rc)
		return rc;
	bound_kept(view);
	name_build(view);
	catalogue_write(view);
	return 0;
}

void view_close(struct view *view)
{
	for (size_t i = 0; i < view->n_files; i++) {
		close_index(&view->files[i]);
		if (view->files[i].fd >= 0)
			close(view->files[i].fd);
		free(view->files[i].name);
	}
	free(view->files);
	json_decref(view->manifest);
	buf_release(&view->catalogue);
}
