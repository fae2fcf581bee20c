/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/import_index.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/import_split.h"

#define uthash_malloc(size) xmalloc(size)
#include <uthash.h>

#define CHUNK_BYTES (256 << 10)

#define KEY_BYTES (3 * IMPORT_NAME_BYTES + 1)

/* Its key is JOB, POD, SEVERITY, NODE, the texts with their NUL; it sorts like the four. */
struct import_group {
	uint32_t number; /* in order of appearance; then the rank */
	size_t len;
	UT_hash_handle hh;
	char key[];
};

static size_t make_key(const struct import_entry *entry, char out[KEY_BYTES])
{
	size_t job = strlen(entry->job) + 1, pod = strlen(entry->pod) + 1;
	size_t node = strlen(entry->node) + 1;

	memcpy(out, entry->job, job);
	memcpy(out + job, entry->pod, pod);
	out[job + pod] = (char)entry->severity;
	memcpy(out + job + pod + 1, entry->node, node);
	return job + pod + 1 + node;
}

static int find_group(struct import_index *index, const struct import_entry *entry, uint32_t *out,
		      struct err *e)
{
	char key[KEY_BYTES];
	size_t len = make_key(entry, key);
	struct import_group *group;

	HASH_FIND(hh, index->groups, key, len, group);
	if (!group) {
		if (index->n_groups == IMPORT_GROUPS_MAX)
			return err_set(e, ERR_LIMIT,
				       "more than %d pods and severities: filter the export",
				       IMPORT_GROUPS_MAX);
		group = xmalloc(sizeof(*group) + len);
		group->number = (uint32_t)index->n_groups++;
		group->len = len;
		memcpy(group->key, key, len);
		HASH_ADD_KEYPTR(hh, index->groups, group->key, len, group);
	}
	*out = group->number;
	return 0;
}

static int add_slot(struct import_index *index, const struct import_object *object,
		    const struct import_entry *entry, struct err *e)
{
	struct import_slot slot = { .unix_ns = entry->unix_ns,
				    .offset = object->offset,
				    .len = (uint32_t)object->len };
	int rc = find_group(index, entry, &slot.group, e);

	if (rc)
		return rc;
	if (index->n == IMPORT_ENTRIES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d entries: filter the export",
			       IMPORT_ENTRIES_MAX);
	if (index->n == index->cap) {
		index->cap = index->cap ? 2 * index->cap : 1024;
		index->slots = xrealloc(index->slots, index->cap * sizeof(*index->slots));
	}
	index->slots[index->n++] = slot;
	return 0;
}

static int on_object(void *arg, const struct import_object *object, struct err *e)
{
	struct import_index *index = arg;
	struct import_entry entry;
	json_error_t where;
	json_t *doc = json_loadb(object->text, object->len, JSON_ALLOW_NUL, &where);
	const char *why;

	if (!doc)
		return err_set(e, ERR_INVALID, "line %" PRIu64 ": no JSON: %.100s",
			       object->line + (uint64_t)(where.line > 0 ? where.line - 1 : 0),
			       where.text);
	why = import_entry_read(doc, &entry);
	json_decref(doc);
	if (!why)
		return add_slot(index, object, &entry, e);
	if (!index->skipped++) {
		index->skipped_line = object->line;
		index->skipped_why = why;
	}
	return 0;
}

int import_index_read(struct import_index *index, int fd, const char *name, struct err *e)
{
	struct import_split split = { 0 };
	uint8_t *chunk = xmalloc(CHUNK_BYTES);
	uint64_t at = 0;
	ssize_t n;
	int rc = 0;

	*index = (struct import_index){ 0 };
	while (!rc && (n = file_read_up_to(fd, at, chunk, CHUNK_BYTES)) > 0) {
		at += (uint64_t)n;
		rc = import_split_add(&split, chunk, (size_t)n, on_object, index, e);
	}
	if (!rc && n < 0)
		rc = err_errno(e, "reading");
	if (!rc)
		rc = import_split_end(&split, e);
	if (rc)
		err_prefix(e, "%.100s", name);
	import_split_release(&split);
	free(chunk);
	return rc;
}

/* ---- order ---- */

static int by_key(const struct import_group *x, const struct import_group *y)
{
	int c = memcmp(x->key, y->key, x->len < y->len ? x->len : y->len);

	return c ? c : (x->len > y->len) - (x->len < y->len);
}

static int by_group_and_time(const void *a, const void *b)
{
	const struct import_slot *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (x->unix_ns != y->unix_ns)
		return x->unix_ns < y->unix_ns ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

void import_index_sort(struct import_index *index)
{
	uint32_t *ranks = xcalloc(index->n_groups + 1, sizeof(*ranks));
	uint32_t rank = 0;

	HASH_SORT(index->groups, by_key);
	for (struct import_group *g = index->groups; g; g = g->hh.next) {
		ranks[g->number] = rank;
		g->number = rank++;
	}
	for (size_t i = 0; i < index->n; i++)
		index->slots[i].group = ranks[index->slots[i].group];
	free(ranks);
	sort_array(index->slots, index->n, sizeof(*index->slots), by_group_and_time);
}

int import_index_entry(const struct import_slot *slot, int fd, const char *name,
		       struct import_entry *out, struct err *e)
{
	char *text = xmalloc(slot->len);
	json_t *doc = NULL;
	int rc = file_read_exact(fd, slot->offset, text, slot->len, name, e);

	if (!rc)
		doc = json_loadb(text, slot->len, JSON_ALLOW_NUL, NULL);
	if (!rc && (!doc || import_entry_read(doc, out) || out->unix_ns != slot->unix_ns))
		rc = err_set(e, ERR_INVALID, "%.150s: the file changed while it was read", name);
	json_decref(doc);
	free(text);
	return rc;
}

void import_index_release(struct import_index *index)
{
	struct import_group *group, *next;

	HASH_ITER (hh, index->groups, group, next) {
		HASH_DEL(index->groups, group);
		free(group);
	}
	free(index->slots);
	*index = (struct import_index){ 0 };
}
