/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace as tables, between reading and building. What a format's reader adds are rows on tracks of processes, in any
 * order; the end matches begins with ends, sorts, and writes planes. Private to xspace/entries/.
 */
#ifndef XSPACE_ENTRIES_TABLES_H
#define XSPACE_ENTRIES_TABLES_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/mem.h"
#include "xspace/entries/entries.h"
#include "xspace/scan.h"
#include "xspace/tvx/names.h"

#define uthash_malloc(size) xmalloc(size)
#include <uthash.h>

#define NO_TEXT UINT32_MAX

/* In this order in a plane. TRACK_CALLS are the asynchronous events of one id: they are shown on another track. */
enum track_kind { TRACK_THREAD, TRACK_ASYNC, TRACK_COUNTERS, TRACK_CALLS };

struct track {
	struct track_key {
		uint32_t process, kind;
		uint32_t text; /* number of what tells it apart: a thread's id, a category */
	} key;
	uint32_t index;
	uint32_t shown; /* the track that has its rows in the output; itself, but for TRACK_CALLS */
	uint32_t name; /* NO_TEXT = its key's text */
	int64_t id; /* of the line; below 0: it gets a free one */
	UT_hash_handle hh;
};

struct process {
	uint32_t text; /* its id in the file */
	uint32_t name; /* NO_TEXT = none */
};

enum row_kind { ROW_SPAN, ROW_BEGIN, ROW_END, ROW_SAMPLE };

/* A piece of the file that is read again when the row is written: an object. Files are shorter than 4 GiB. */
struct piece {
	uint32_t at, len;
};

struct row {
	int64_t at_ns, duration_ns; /* from the file's time 0 */
	union {
		uint64_t flow; /* as the stat, 0 = none */
		double value; /* of a sample */
	};
	struct piece args, more; /* `more`: those of the end; len 0 = none */
	uint32_t name, category; /* texts; NO_TEXT = no category */
	uint32_t track, order;
	uint8_t kind; /* enum row_kind */
	bool is_unfinished;
};

/* One end of an arrow. */
struct flow_end {
	int64_t at_ns;
	uint64_t value; /* as the stat */
	uint32_t track;
	bool is_next; /* it binds to the event that begins then or next, else to the one around it */
};

struct tables;

/* Whether this member of a row's object becomes no stat. */
typedef bool (*tables_skip_fn)(const struct scan_text *key, bool is_sample);

struct tables {
	const char *file;
	size_t max_memory;
	tables_skip_fn skip; /* NULL = none is skipped */
	const char *value_name; /* the stat of samples */
	int64_t base_ns; /* Unix time of the file's time 0; 0 = unknown */
	struct names texts;
	struct process *processes;
	uint32_t n_processes;
	struct track *by_key;
	struct track **tracks;
	size_t n_tracks, cap_tracks;
	struct row *rows;
	size_t n_rows, cap_rows;
	struct flow_end *flows;
	size_t n_flows, cap_flows;
	struct buf scratch;
	struct entry_counts counts;
};

void tables_release(struct tables *t);

/* ---- reading ---- */

/* ERR_LIMIT if the tables and `more` bytes are beyond max_memory. */
MUST_CHECK int tables_check_memory(const struct tables *t, size_t more, struct err *e);

/* The number of a text of the file; escapes are decoded, what is too long is cut. */
MUST_CHECK int tables_text(struct tables *t, const struct scan_text *text, uint32_t *out,
			   struct err *e);
MUST_CHECK int tables_text_of(struct tables *t, const char *text, uint32_t *out, struct err *e);
void tables_copy_text(const struct tables *t, uint32_t text, struct buf *out); /* replaces it */

MUST_CHECK int tables_process(struct tables *t, const struct scan_text *id, uint32_t *out,
			      struct err *e);

/* The track, made if there is none. */
MUST_CHECK int tables_track(struct tables *t, uint32_t process, enum track_kind kind, uint32_t text,
			    struct track **out, struct err *e);

MUST_CHECK int tables_add(struct tables *t, const struct row *row, struct err *e);
MUST_CHECK int tables_add_flow(struct tables *t, const struct flow_end *flow, struct err *e);

/* The place of an object in the file. */
struct piece tables_piece(const struct tables *t, const struct scan_text *object);

/* ---- the end: build.c ---- */

/* Fills `counts`; with no event nothing is added to `b`. */
MUST_CHECK int tables_build(struct tables *t, struct xs_builder *b, struct err *e);

#endif
