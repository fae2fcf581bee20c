/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a manifest to views: file after file is indexed. While that takes time, views of what is there so far are shown, each
 * file's tracks in the order that they keep. A worker.
 */
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
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/write_behind.h"
#include "storage/store.h"

#define FOLDER_MODE 0700
#define FILE_MODE   0600

/*
 * A view that is not complete is shown so long after the first byte, then each time that half as much time again has passed.
 * Each costs a copy of the tables and a catalogue: about a fiftieth of the building together.
 */
#define SHOW_FIRST_NS (200 * NS_PER_MS)
#define SHOW_MOST_NS  (3 * NS_PER_S)

struct building {
	struct view_opening *o;
	struct view_session *s;
	struct view_index *nothing; /* an index without tracks */
	int64_t begin_ns, next_ns; /* the next view is shown not before */
	/* of the file that is indexed: */
	struct view_file *f;
	uint64_t before; /* bytes of the files before it */
	int fd;
	struct write_behind *out;
	char *path;
};

/* ---- views that are not complete ---- */

/* The tracks of the file so far. Its blocks are mapped: they stay where they are when the file grows, gets its name, or goes. */
static int open_part(struct building *b, const struct tvx_writer *w, struct view_index **out,
		     struct err *e)
{
	struct view_index *part = view_index_new();
	uint64_t blocks_len = 0;
	int rc = write_behind_flush(b->out, e);

	if (!rc)
		rc = tvx_write_part(w, &part->tables, &blocks_len, e);
	part->map_len = (size_t)blocks_len;
	if (!rc && part->map_len) {
		part->map = mmap(NULL, part->map_len, PROT_READ, MAP_SHARED, b->fd, 0);
		if (part->map == MAP_FAILED) {
			part->map = NULL;
			rc = err_errno(e, "%s", b->path);
		}
	}
	if (!rc)
		rc = tvx_open_part(&part->x, part->map, blocks_len, part->tables.data,
				   part->tables.len, b->f->size, e);
	if (rc)
		view_index_unref(part);
	else
		*out = part;
	return rc;
}

static void show(struct building *b, bool is_complete)
{
	loop_post(b->o->loop, view_show, view_new(b->s, b->nothing, b->o, is_complete));
}

static int show_part(void *arg, const struct tvx_writer *w, struct err *e)
{
	struct building *b = arg;
	int64_t now = now_mono_ns(), wait;
	int rc;

	if (now < b->next_ns)
		return 0;
	rc = open_part(b, w, &b->f->index, e);
	if (rc)
		return rc;
	show(b, false);
	view_index_unref(b->f->index);
	b->f->index = NULL;
	wait = (now - b->begin_ns) / 2;
	b->next_ns = now_mono_ns() + (wait < SHOW_MOST_NS ? wait : SHOW_MOST_NS);
	return 0;
}

/* ---- an index ---- */

static int write_index(void *arg, const void *data, size_t len, struct err *e)
{
	struct building *b = arg;

	return write_behind_add(b->out, data, len, e);
}

static bool go_on(void *arg, uint64_t done)
{
	struct building *b = arg;

	atomic_store(&b->o->done, b->before + done);
	return !atomic_load(&b->o->is_stopped);
}

/* A file that is whole once it has its name. What an earlier run of the aggregator left unfinished goes first. */
static int build_index(struct building *b, const char *path, struct err *e)
{
	const struct tvx_build how = {
		.go_on = go_on, .on_line = show_part, .arg = b, .in_two_threads = true
	};
	const struct xs_sink sink = { .write = write_index, .arg = b };
	struct xs_source in = view_source(b->f);
	int rc;

	b->path = xasprintf("%s.part", path);
	unlink(b->path);
	b->fd = open(b->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
	if (b->fd < 0) {
		rc = err_errno(e, "%s", b->path);
		goto out;
	}
	b->out = write_behind_new(b->fd, b->path);
	rc = tvx_build(&in, &how, &sink, e);
	if (!rc)
		rc = write_behind_flush(b->out, e);
	write_behind_free(b->out);
	if (!rc && rename(b->path, path))
		rc = err_errno(e, "%s", path);
	if (rc)
		unlink(b->path);
	close(b->fd);
out:
	free(b->path);
	return rc;
}

/* Opens the index; one that is missing or damaged is built. */
static int have_index(struct building *b, const char *path, struct err *e)
{
	struct view_file *f = b->f;
	int rc = view_index_open(&f->index, path, f->size, e);

	if (!rc)
		return 0;
	if (rc != ERR_NOT_FOUND)
		log_warn("AGG-VIEW", "session=%s file=%s state=rebuild reason=\"%s\"", b->s->name,
			 f->name, e->msg);
	rc = build_index(b, path, e);
	return rc ? rc : view_index_open(&f->index, path, f->size, e);
}

/* ---- a session ---- */

/* Who fails to open a file that the manifest names: if it is not found, the store; if a disk is full, it is the one for copies. */
static enum view_fault fault_of(int rc)
{
	switch (rc) {
	case ERR_INVALID:
	case ERR_LIMIT:
	case ERR_FULL:
	case ERR_CANCELLED:
		return FAULT_OURS;
	default:
		return FAULT_STORE;
	}
}

/* All files first: so the progress is of all bytes from the start. */
static int open_files(struct building *b, struct err *e)
{
	struct view_opening *o = b->o;
	struct session_file found;
	uint64_t sum = 0;
	int rc = 0;

	for (size_t i = 0; !rc && i < b->s->n_files; i++) {
		struct view_file *f = &b->s->files[i];

		rc = session_find_file(o->store, o->session, f->name, &found, e);
		if (!rc)
			rc = store_open_fd(o->store, found.key, store_within(STORE_PATIENCE_NS),
					   &f->fd, &f->size, e);
		if (rc)
			o->fault = fault_of(rc);
		sum += rc ? 0 : f->size;
		if (!rc && atomic_load(&o->is_stopped))
			rc = err_set(e, ERR_CANCELLED, "opening the session was stopped");
	}
	atomic_store(&o->bytes, sum);
	return rc;
}

/* A file that is malformed has its reason, and the others are shown. */
static int index_file(struct building *b, size_t *n_shown, struct err *e)
{
	char *path = view_index_path(b->s, b->f->name);
	int rc;

	b->f->state = FILE_BUILDING;
	rc = have_index(b, path, e);
	free(path);
	if (rc == ERR_INVALID || rc == ERR_LIMIT) {
		err_prefix(e, "%s", b->f->name);
		log_warn("AGG-VIEW", "session=%s file=%s state=failed reason=\"%s\"", b->s->name,
			 b->f->name, e->msg);
		b->f->state = FILE_FAILED;
		b->f->why = xstrdup(e->msg);
		return 0;
	}
	if (rc)
		return err_prefix(e, "%s", b->f->name);
	b->f->state = FILE_READY;
	++*n_shown;
	return 0;
}

static int index_files(struct building *b, struct err *e)
{
	struct view_session *s = b->s;
	char *folder = xasprintf("%s/%s", b->o->folder, s->name);
	size_t n_shown = 0;
	int rc = file_make_folders(folder, FOLDER_MODE, FOLDER_MODE, e);

	for (size_t i = 0; !rc && i < s->n_files; i++) {
		b->f = &s->files[i];
		rc = index_file(b, &n_shown, e);
		b->before += b->f->size;
		atomic_store(&b->o->done, b->before);
	}
	if (!rc && s->n_files && !n_shown) {
		b->o->fault = FAULT_FILES;
		rc = err_set(e, ERR_INVALID, "%s", s->files[0].why);
	}
	if (!rc)
		utimensat(AT_FDCWD, folder, NULL,
			  0); /* the folder's time says when it was opened last */
	free(folder);
	return rc;
}

static int make_nothing(struct view_index **out, struct err *e)
{
	struct view_index *index = view_index_new();
	struct xs_source in = xs_source_memory("", 0);
	const struct xs_sink sink = xs_sink_buf(&index->tables);
	int rc = tvx_build(&in, NULL, &sink, e);

	if (!rc)
		rc = tvx_open(&index->x, index->tables.data, index->tables.len, 0, e);
	if (rc)
		view_index_unref(index);
	else
		*out = index;
	return rc;
}

int view_make(struct view_opening *o, struct err *e)
{
	struct building b = { .o = o, .begin_ns = now_mono_ns() };
	int rc;

	b.next_ns = b.begin_ns + SHOW_FIRST_NS;
	rc = view_session_new(&b.s, o, e);
	if (rc)
		return err_prefix(e, "the manifest");
	rc = make_nothing(&b.nothing, e);
	if (!rc)
		rc = open_files(&b, e);
	if (!rc)
		rc = index_files(&b, e);
	if (!rc) {
		view_bound_kept(o->folder, o->session, o->kept_bytes);
		show(&b, true);
	}
	view_index_unref(b.nothing);
	view_session_unref(b.s);
	return rc;
}
