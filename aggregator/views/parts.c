/* SPDX-License-Identifier: Apache-2.0 */
/* What views are made of: a session's files, their indexes, and a view of them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/views/view.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/hex.h"
#include "base/mem.h"
#include "json/json_text.h"

/* ---- an index ---- */

struct view_index *view_index_new(void)
{
	struct view_index *index = xcalloc(1, sizeof(*index));

	atomic_init(&index->refs, 1);
	return index;
}

struct view_index *view_index_ref(struct view_index *index)
{
	atomic_fetch_add(&index->refs, 1);
	return index;
}

void view_index_unref(struct view_index *index)
{
	if (!index || atomic_fetch_sub(&index->refs, 1) > 1)
		return;
	tvx_close(index->x);
	if (index->map)
		munmap(index->map, index->map_len);
	buf_release(&index->tables);
	free(index);
}

static int map_index(struct view_index *index, int fd, const char *path, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st))
		return err_errno(e, "%s", path);
	if (st.st_size <= 0)
		return err_set(e, ERR_INVALID, "%s is empty", path);
	index->map_len = (size_t)st.st_size;
	index->map = mmap(NULL, index->map_len, PROT_READ, MAP_SHARED, fd, 0);
	if (index->map == MAP_FAILED) {
		index->map = NULL;
		return err_errno(e, "%s", path);
	}
	return 0;
}

int view_index_open(struct view_index **out, const char *path, uint64_t source_bytes, struct err *e)
{
	struct view_index *index;
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

	if (fd < 0)
		return err_errno(e, "%s", path);
	index = view_index_new();
	rc = map_index(index, fd, path, e);
	close(fd);
	if (!rc)
		rc = tvx_open(&index->x, index->map, index->map_len, source_bytes, e);
	if (rc)
		view_index_unref(index);
	else
		*out = index;
	return rc;
}

/* ---- a session ---- */

static void list_files(struct view_session *s)
{
	json_t *host, *file, *hosts = json_object_get(s->manifest, "hosts");
	size_t i, k, n = 0;

	json_array_foreach(hosts, i, host) n += json_array_size(json_object_get(host, "files"));
	s->files = xcalloc(n + 1, sizeof(*s->files));
	json_array_foreach(hosts, i, host)
	{
		json_array_foreach(json_object_get(host, "files"), k, file)
		{
			const char *name = json_string_value(file);

			s->files[s->n_files++] =
				(struct view_file){ .name = xstrdup(name ? name : ""),
						    .host = json_get_text(host, "host"),
						    .fd = -1 };
		}
	}
}

int view_session_new(struct view_session **out, const struct view_opening *o, struct err *e)
{
	struct view_session *s = xcalloc(1, sizeof(*s));
	int rc = json_parse(&s->manifest, o->manifest_text.data, o->manifest_text.len, e);

	if (rc) {
		free(s);
		return rc;
	}
	atomic_init(&s->refs, 1);
	s->name = xstrdup(o->session);
	s->folder = o->folder;
	s->manifest_crc = crc32c(TVX_VERSION, o->manifest_text.data, o->manifest_text.len);
	list_files(s);
	*out = s;
	return 0;
}

void view_session_unref(struct view_session *s)
{
	if (atomic_fetch_sub(&s->refs, 1) > 1)
		return;
	for (size_t i = 0; i < s->n_files; i++) {
		view_index_unref(s->files[i].index);
		if (s->files[i].fd >= 0)
			close(s->files[i].fd);
		free(s->files[i].name);
		free(s->files[i].why);
	}
	free(s->files);
	json_decref(s->manifest);
	free(s->name);
	free(s);
}

/* ---- a view ---- */

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

/*
 * The build stands for everything that answers are made of. Files are indexed in their order, and so are the lines of a
 * file: of a view that is not complete the number of tracks says what it has.
 */
static void name_build(struct view *view)
{
	uint32_t parts[2] = { view->of->manifest_crc, 0 };
	const struct tvx_track *tracks;
	size_t n = 0;

	for (size_t i = 0; i < view->n_files; i++) {
		parts[1] = crc32c(parts[1], &view->files[i].size, sizeof(view->files[i].size));
		n += tvx_tracks(view->files[i].x, &tracks);
	}
	parts[1] = crc32c(parts[1], view->of->name, strlen(view->of->name));
	hex_text(view->build, parts, sizeof(parts));
	if (!view->is_complete)
		snprintf(view->build + 2 * sizeof(parts), sizeof(view->build) - 2 * sizeof(parts),
			 "-%zu", n);
}

struct view *view_new(struct view_session *s, struct view_index *nothing, struct view_opening *o,
		      bool is_complete)
{
	struct view *view = xcalloc(1, sizeof(*view));

	view->refs = 1;
	view->opening = o;
	atomic_fetch_add(&s->refs, 1);
	view->of = s;
	view->manifest = s->manifest;
	view->n_files = s->n_files;
	view->files = xcalloc(s->n_files + 1, sizeof(*view->files));
	for (size_t i = 0; i < s->n_files; i++) {
		struct view_file *f = &view->files[i];

		*f = s->files[i];
		f->why = f->why ? xstrdup(f->why) : NULL;
		f->index = view_index_ref(f->index ? f->index : nothing);
		f->x = f->index->x;
	}
	view->done = atomic_load(&o->done);
	view->bytes = atomic_load(&o->bytes);
	view->is_complete = is_complete;
	name_build(view);
	catalogue_write(view);
	return view;
}

void view_release(struct view *view)
{
	if (!view || --view->refs)
		return;
	for (size_t i = 0; i < view->n_files; i++) {
		view_index_unref(view->files[i].index);
		free(view->files[i].why);
	}
	free(view->files);
	buf_release(&view->catalogue);
	view_session_unref(view->of);
	free(view);
}
