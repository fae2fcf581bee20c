/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/xprof/response.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "aggregator/sessions/sessions.h"
#include "base/buf.h"
#include "base/mem.h"
#include "net/rpc.h"
#include "storage/store.h"

/* Field numbers, all length-delimited: ProfileResponse.tool_data and .xspace; ProfileToolData.name and .data;
 * XSpace.errors and .warnings. empty_trace (7) is left out: false. */
enum {
	FIELD_TOOL_DATA = 6,
	FIELD_XSPACE = 8,
	FIELD_NAME = 1,
	FIELD_DATA = 2,
	FIELD_ERRORS = 2,
	FIELD_WARNINGS = 3,
};

#define ERRORS_NAME	 "errors" SESSION_FILE_SUFFIX
#define HEADER_MAX_BYTES 512 /* most bytes before one file's data: tags, lengths, name */
#define NOTES_MAX_BYTES	 (64 << 10)
#define NOTE_BYTES	 1024 /* a note has room for a host's name, reason and detail */

struct map {
	void *data;
	size_t len;
};

struct file {
	char *name, *key;
	struct map *map; /* NULL = left out */
};

struct response {
	struct store *store;
	struct file *files;
	size_t n_files;
	char **notes;
	size_t n_notes;
	size_t notes_bytes;
};

struct response *response_new(struct store *store)
{
	struct response *r = xcalloc(1, sizeof(*r));

	r->store = store;
	return r;
}

/* Any thread. */
static void map_free(void *arg)
{
	struct map *m = arg;

	munmap(m->data, m->len);
	free(m);
}

void response_free(struct response *r)
{
	for (size_t i = 0; i < r->n_files; i++) {
		if (r->files[i].map)
			map_free(r->files[i].map);
		free(r->files[i].name);
		free(r->files[i].key);
	}
	for (size_t i = 0; i < r->n_notes; i++)
		free(r->notes[i]);
	free(r->files);
	free(r->notes);
	free(r);
}

void response_add_file(struct response *r, const char *name, const char *key)
{
	r->files = xrealloc(r->files, (r->n_files + 1) * sizeof(*r->files));
	r->files[r->n_files++] = (struct file){ .name = xstrdup(name), .key = xstrdup(key) };
}

void response_add_note(struct response *r, const char *fmt, ...)
{
	char text[NOTE_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (r->notes_bytes + strlen(text) > NOTES_MAX_BYTES)
		return;
	r->notes_bytes += strlen(text) + 8;
	r->notes = xrealloc(r->notes, (r->n_notes + 1) * sizeof(char *));
	r->notes[r->n_notes++] = xstrdup(text);
}

/* ---- on a worker ---- */

static int map_file(struct response *r, struct file *f, uint64_t max_bytes, struct err *e)
{
	struct map *m;
	uint64_t size;
	void *data;
	int fd, rc = store_open_fd(r->store, f->key, store_within(STORE_PATIENCE_NS), &fd, &size,
				   e);

	if (rc)
		return rc;
	if (!size || size > max_bytes) {
		close(fd);
		return err_set(e, ERR_LIMIT, "%" PRIu64 " bytes do not fit into one response",
			       size);
	}
	data = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		rc = err_errno(e, "mapping %s", f->key);
	close(fd);
	if (rc)
		return rc;
	m = xmalloc(sizeof(*m));
	*m = (struct map){ data, (size_t)size };
	f->map = m;
	return 0;
}

void response_load(struct response *r, uint64_t max_bytes)
{
	uint64_t used = 2 * NOTES_MAX_BYTES;

	for (size_t i = 0; i < r->n_files; i++) {
		struct file *f = &r->files[i];
		struct err e;

		used += HEADER_MAX_BYTES;
		if (used >= max_bytes || map_file(r, f, max_bytes - used, &e))
			response_add_note(r, "%s is left out: %s", f->name,
					  used >= max_bytes ? "the response is full" : e.msg);
		else
			used += f->map->len;
	}
}

/* ---- the response ---- */

static void add_field(struct buf *out, uint32_t field, size_t len)
{
	buf_add_varint(out, field << 3 | 2);
	buf_add_varint(out, len);
}

static void add_bytes(struct buf *out, uint32_t field, const void *data, size_t len)
{
	add_field(out, field, len);
	buf_add(out, data, len);
}

static void add_notes(const struct response *r, uint32_t field, struct buf *out)
{
	for (size_t i = 0; i < r->n_notes; i++)
		add_bytes(out, field, r->notes[i], strlen(r->notes[i]));
}

/* The header before `len` bytes of a file's data. */
static void add_tool_header(struct buf *out, const char *name, size_t len)
{
	size_t name_len = strlen(name);
	size_t inner = 1 + varint_size(name_len) + name_len + 1 + varint_size(len) + len;

	add_field(out, FIELD_TOOL_DATA, inner);
	add_bytes(out, FIELD_NAME, name, name_len);
	add_field(out, FIELD_DATA, len);
}

static void send_errors(const struct response *r, bool emit_xspace, struct rpc_call *call)
{
	struct buf space = BUF_INIT, message = BUF_INIT;

	add_notes(r, FIELD_ERRORS, &space);
	if (emit_xspace)
		add_field(&message, FIELD_XSPACE, space.len);
	else
		add_tool_header(&message, ERRORS_NAME, space.len);
	buf_add(&message, space.data, space.len);
	rpc_send(call, message.data, message.len);
	buf_release(&space);
	buf_release(&message);
}

static struct rpc_part part_of_buf(struct buf *b)
{
	struct rpc_part p = { .release = free };

	p.data = p.arg = buf_detach(b, &p.len);
	return p;
}

static struct rpc_part part_of_file(struct file *f)
{
	struct rpc_part p = { f->map->data, f->map->len, map_free, f->map };

	f->map = NULL;
	return p;
}

/* The files and the notes as one XSpace. */
static size_t add_xspace(struct response *r, struct buf *notes, struct rpc_part *parts)
{
	struct buf header = BUF_INIT;
	size_t len = notes->len, n = 1;

	for (size_t i = 0; i < r->n_files; i++) {
		if (!r->files[i].map)
			continue;
		len += r->files[i].map->len;
		parts[n++] = part_of_file(&r->files[i]);
	}
	if (n == 1)
		return 0;
	add_field(&header, FIELD_XSPACE, len);
	parts[0] = part_of_buf(&header);
	if (notes->len)
		parts[n++] = part_of_buf(notes);
	return n;
}

/* The notes are appended to the file as one more XSpace: concatenated XSpaces are one. */
static size_t add_file(struct file *f, struct buf *notes, struct rpc_part *parts)
{
	struct buf header = BUF_INIT;
	char *name = xasprintf("%s" SESSION_FILE_SUFFIX, f->name);
	size_t n = 0;

	add_tool_header(&header, name, f->map->len + notes->len);
	parts[n++] = part_of_buf(&header);
	parts[n++] = part_of_file(f);
	if (notes->len)
		parts[n++] = part_of_buf(notes);
	free(name);
	return n;
}

void response_send(struct response *r, bool emit_xspace, struct rpc_call *call)
{
	struct rpc_part *parts = xcalloc(r->n_files * 2 + 2, sizeof(*parts));
	struct buf notes = BUF_INIT;
	size_t n = 0;

	add_notes(r, FIELD_WARNINGS, &notes);
	if (emit_xspace)
		n = add_xspace(r, &notes, parts);
	for (size_t i = 0; i < r->n_files && !emit_xspace; i++) {
		if (r->files[i].map)
			n += add_file(&r->files[i], &notes, &parts[n]);
	}
	if (n)
		rpc_send_parts(call, parts, n);
	else
		send_errors(r, emit_xspace, call);
	buf_release(&notes);
	free(parts);
}
