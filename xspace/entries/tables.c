/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/entries/tables.h"

#include <string.h>

#include "xspace/text.h"

#define TRACK_OVERHEAD 48 /* what malloc() and the hash table need beside each */

void tables_release(struct tables *t)
{
	struct track *track, *next;

	HASH_ITER (hh, t->by_key, track, next) {
		HASH_DEL(t->by_key, track);
		free(track);
	}
	names_release(&t->texts);
	buf_release(&t->scratch);
	free(t->processes);
	free(t->tracks);
	free(t->rows);
	free(t->flows);
}

int tables_check_memory(const struct tables *t, size_t more, struct err *e)
{
	size_t sort = t->n_rows * sizeof(*t->rows); /* qsort() copies the array */
	size_t used = t->texts.text.cap + t->texts.cap * sizeof(*t->texts.ends) +
		      t->texts.n_slots * sizeof(*t->texts.slots) +
		      t->n_tracks * (sizeof(struct track) + TRACK_OVERHEAD) +
		      t->cap_rows * sizeof(*t->rows) + t->cap_flows * sizeof(*t->flows) + sort;

	if (used + more <= t->max_memory)
		return 0;
	return err_set(e, ERR_LIMIT, "%zu of its events need more than %zu MiB of memory",
		       t->n_rows, t->max_memory >> 20);
}

/* Makes room for one more in the array that the pointer at `array` points to. */
static int grow(struct tables *t, void *array, size_t n, size_t *cap, size_t size, struct err *e)
{
	size_t more = *cap ? *cap : 256;
	void *v;
	int rc;

	if (n < *cap)
		return 0;
	rc = tables_check_memory(t, more * size, e);
	if (rc)
		return rc;
	*cap += more;
	memcpy(&v, array, sizeof(v));
	v = xrealloc(v, *cap * size);
	memcpy(array, &v, sizeof(v));
	return 0;
}

/* ---- texts ---- */

int tables_text(struct tables *t, const struct scan_text *text, uint32_t *out, struct err *e)
{
	struct scan_text own = *text;

	if (own.len > ENTRY_TEXT_MAX)
		own.len = ENTRY_TEXT_MAX;
	if (!own.has_escapes)
		return names_add(&t->texts, own.len ? own.s : "", own.len, out, e);
	buf_reset(&t->scratch);
	scan_unescape(&own, &t->scratch);
	return names_add(&t->texts, t->scratch.data, t->scratch.len, out, e);
}

int tables_text_of(struct tables *t, const char *text, uint32_t *out, struct err *e)
{
	return names_add(&t->texts, text, strlen(text), out, e);
}

void tables_copy_text(const struct tables *t, uint32_t text, struct buf *out)
{
	uint64_t begin = text ? t->texts.ends[text - 1] : 0;

	buf_reset(out);
	buf_add(out, t->texts.text.data + begin, (size_t)(t->texts.ends[text] - begin));
}

struct piece tables_piece(const struct tables *t, const struct scan_text *object)
{
	if (!object->len)
		return (struct piece){ 0 };
	return (struct piece){ (uint32_t)(object->s - t->file), (uint32_t)object->len };
}

/* ---- processes and tracks ---- */

int tables_process(struct tables *t, const struct scan_text *id, uint32_t *out, struct err *e)
{
	uint32_t text;
	int rc = tables_text(t, id, &text, e);

	if (rc)
		return rc;
	/* traces name the same process many times in a row, and have few */
	for (*out = t->n_processes; *out > 0; --*out) {
		if (t->processes[*out - 1].text == text) {
			--*out;
			return 0;
		}
	}
	if (t->n_processes == ENTRY_PROCESSES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d processes", ENTRY_PROCESSES_MAX);
	t->processes = xrealloc(t->processes, (t->n_processes + 1) * sizeof(*t->processes));
	t->processes[t->n_processes] = (struct process){ .text = text, .name = NO_TEXT };
	*out = t->n_processes++;
	return 0;
}

/* A thread whose id is a number has that number as its line's id, too. */
static int64_t id_of(struct tables *t, enum track_kind kind, uint32_t text)
{
	struct scan_text number;
	int64_t id;

	if (kind != TRACK_THREAD)
		return -1;
	tables_copy_text(t, text, &t->scratch);
	number = (struct scan_text){ .s = buf_str(&t->scratch), .len = t->scratch.len };
	return number.len && scan_decimal(&number, 0, &id) && id >= 0 ? id : -1;
}

int tables_track(struct tables *t, uint32_t process, enum track_kind kind, uint32_t text,
		 struct track **out, struct err *e)
{
	const struct track_key key = { process, kind, text };
	int rc;

	HASH_FIND(hh, t->by_key, &key, sizeof(key), *out);
	if (*out)
		return 0;
	if (kind != TRACK_CALLS && t->n_tracks >= ENTRY_TRACKS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d threads", ENTRY_TRACKS_MAX);
	rc = grow(t, &t->tracks, t->n_tracks, &t->cap_tracks, sizeof(*t->tracks), e);
	if (!rc)
		rc = tables_check_memory(t, sizeof(struct track) + TRACK_OVERHEAD, e);
	if (rc)
		return rc;
	*out = xcalloc(1, sizeof(**out));
	(*out)->key = key;
	(*out)->index = (*out)->shown = (uint32_t)t->n_tracks;
	(*out)->name = NO_TEXT;
	(*out)->id = id_of(t, kind, text);
	HASH_ADD(hh, t->by_key, key, sizeof(key), *out);
	t->tracks[t->n_tracks++] = *out;
	return 0;
}

/* ---- rows ---- */

int tables_add(struct tables *t, const struct row *row, struct err *e)
{
	int rc = grow(t, &t->rows, t->n_rows, &t->cap_rows, sizeof(*t->rows), e);

	if (rc)
		return rc;
	t->rows[t->n_rows] = *row;
	t->rows[t->n_rows].order = (uint32_t)t->n_rows;
	t->n_rows++;
	return 0;
}

int tables_add_flow(struct tables *t, const struct flow_end *flow, struct err *e)
{
	int rc = grow(t, &t->flows, t->n_flows, &t->cap_flows, sizeof(*t->flows), e);

	if (!rc)
		t->flows[t->n_flows++] = *flow;
	return rc;
}
