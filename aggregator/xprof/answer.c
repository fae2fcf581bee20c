/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/xprof/answer.h"

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

/* Field numbers, all length-delimited: ProfileResponse.tool_data; ProfileToolData.name and .data;
 * XSpace.errors and .warnings. empty_trace (7) stays away: false. */
enum { FIELD_TOOL_DATA = 6, FIELD_NAME = 1, FIELD_DATA = 2, FIELD_ERRORS = 2, FIELD_WARNINGS = 3 };

#define ERRORS_NAME	 "errors" SESSION_FILE_SUFFIX
#define HEADER_MAX_BYTES 512 /* of one file: tags, lengths, name */
#define NOTES_MAX_BYTES	 (64 << 10)

struct map {
	void *data;
	size_t len;
};

struct file {
	char *name, *key;
	struct map *map; /* NULL = left out */
};

struct answer {
	struct store *store;
	struct file *files;
	size_t n_files;
	char **notes;
	size_t n_notes;
	size_t notes_bytes;
};

struct answer *answer_new(struct store *store)
{
	struct answer *a = xcalloc(1, sizeof(*a));

	a->store = store;
	return a;
}

/* Any thread. */
static void map_free(void *arg)
{
	struct map *m = arg;

	munmap(m->data, m->len);
	free(m);
}

void answer_free(struct answer *a)
{
	for (size_t i = 0; i < a->n_files; i++) {
		if (a->files[i].map)
			map_free(a->files[i].map);
		free(a->files[i].name);
		free(a->files[i].key);
	}
	for (size_t i = 0; i < a->n_notes; i++)
		free(a->notes[i]);
	free(a->files);
	free(a->notes);
	free(a);
}

void answer_add(struct answer *a, const char *name, const char *key)
{
	a->files = xrealloc(a->files, (a->n_files + 1) * sizeof(*a->files));
	a->files[a->n_files++] = (struct file){ .name = xstrdup(name), .key = xstrdup(key) };
}

void answer_note(struct answer *a, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (a->notes_bytes + strlen(text) > NOTES_MAX_BYTES)
		return;
	a->notes_bytes += strlen(text) + 8;
	a->notes = xrealloc(a->notes, (a->n_notes + 1) * sizeof(char *));
	a->notes[a->n_notes++] = xstrdup(text);
}

/* ---- on a worker ---- */

static int map_file(struct answer *a, struct file *f, uint64_t room, struct err *e)
{
	struct map *m;
	uint64_t size;
	void *data;
	int fd, rc = store_open_fd(a->store, f->key, store_within(STORE_PATIENCE_NS), &fd, &size,
				   e);

	if (rc)
		return rc;
	if (!size || size > room) {
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

void answer_load(struct answer *a, uint64_t max_bytes)
{
	uint64_t used = 2 * NOTES_MAX_BYTES;

	for (size_t i = 0; i < a->n_files; i++) {
		struct file *f = &a->files[i];
		struct err e;

		used += HEADER_MAX_BYTES;
		if (used >= max_bytes || map_file(a, f, max_bytes - used, &e))
			answer_note(a, "%s is left out: %s", f->name,
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

static void add_notes(const struct answer *a, uint32_t field, struct buf *out)
{
	for (size_t i = 0; i < a->n_notes; i++)
		add_bytes(out, field, a->notes[i], strlen(a->notes[i]));
}

/* What stands before `len` bytes of a file's data. */
static void add_tool_head(struct buf *out, const char *name, size_t len)
{
	size_t name_len = strlen(name);
	size_t inner = 1 + varint_size(name_len) + name_len + 1 + varint_size(len) + len;

	add_field(out, FIELD_TOOL_DATA, inner);
	add_bytes(out, FIELD_NAME, name, name_len);
	add_field(out, FIELD_DATA, len);
}

static void send_errors(const struct answer *a, struct rpc_call *call)
{
	struct buf space = BUF_INIT, message = BUF_INIT;

	add_notes(a, FIELD_ERRORS, &space);
	add_tool_head(&message, ERRORS_NAME, space.len);
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

/* Serialized XSpaces one after the other are one XSpace: that is how the notes get into a file. */
static size_t add_file(struct file *f, struct buf *notes, struct rpc_part *parts)
{
	struct buf head = BUF_INIT;
	char *name = xasprintf("%s" SESSION_FILE_SUFFIX, f->name);
	size_t n = 0;

	add_tool_head(&head, name, f->map->len + notes->len);
	parts[n++] = part_of_buf(&head);
	parts[n++] = (struct rpc_part){ f->map->data, f->map->len, map_free, f->map };
	f->map = NULL;
	if (notes->len)
		parts[n++] = part_of_buf(notes);
	free(name);
	return n;
}

void answer_send(struct answer *a, struct rpc_call *call)
{
	struct rpc_part *parts = xcalloc(a->n_files * 2 + 1, sizeof(*parts));
	struct buf notes = BUF_INIT;
	size_t n = 0;

	add_notes(a, FIELD_WARNINGS, &notes);
	for (size_t i = 0; i < a->n_files; i++) {
		if (a->files[i].map)
			n += add_file(&a->files[i], &notes, &parts[n]);
	}
	if (n)
		rpc_send_parts(call, parts, n);
	else
		send_errors(a, call);
	buf_release(&notes);
	free(parts);
}
