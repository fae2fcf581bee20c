/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index that a viewer reads instead of an XSpace: any window of any track at any zoom costs a few blocks,
 * whatever the size of the file. docs/format.md has the bytes.
 *
 * A track is what one line of the XSpace shows: events that are sorted by their start and placed in rows, so
 * that no two events of a row overlap. A line of counters is a track for each counter. A track has levels: the
 * events themselves, then coarser ones, in which events shorter than 2^shift ps are folded, row by row. No event
 * is left out of any level: the counts of a level's entries add up to the track's events.
 *
 * Times are picoseconds since the session's T0, like those of the XSpace. Pure: no files, no clock, and no threads but
 * the one that a building asks for. One open index may be read by several threads at once.
 */
#ifndef XSPACE_TVX_TVX_H
#define XSPACE_TVX_TVX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "xspace/xspace.h"

/* Changes with the bytes: an index of another version is built anew. */
#define TVX_VERSION 2

/* ---- limits: ERR_LIMIT above them ---- */

#define TVX_NAMES_MAX	   4000000 /* different names of one file */
#define TVX_NAME_BYTES_MAX ((size_t)256 << 20) /* of all of them together */
#define TVX_NAME_MAX \
	4096 /* bytes of one name; a longer one is cut (the event's details have all of it) */
#define TVX_ROWS_MAX  (1 << 20) /* of a track */
#define TVX_FLOWS_MAX 4000000 /* ends of flows; further ones are counted */

/* ---- build ---- */

struct tvx_writer; /* what is built so far */

struct tvx_build {
	/* Called now and then with the bytes read so far; false ends the building with ERR_CANCELLED. May be NULL. */
	bool (*go_on)(void *arg, uint64_t done);
	/*
	 * Called when a line is whole, in two threads also when several are: tvx_write_part() may be called then. An error ends
	 * the building. May be NULL.
	 */
	int (*on_line)(void *arg, const struct tvx_writer *w, struct err *e);
	void *arg;
	size_t held_events; /* of a line at once, 2 or more; 0 = 2 Mi */
	/* A second thread makes tracks while the caller's reads lines: the index is the same. The sink is called by both, never
	 * at once; all else by the caller's. */
	bool in_two_threads;
};

/*
 * Reads the XSpace and writes its index; a line of more events than are held at once is read again and again. Needs
 * 80 bytes for each event that is held (120 in two threads), 32 for each end of a flow, and a few megabytes for each million of names and
 * blocks. An XSpace that is cut off or malformed is ERR_INVALID.
 */
MUST_CHECK int tvx_build(const struct xs_source *in, const struct tvx_build *how,
			 const struct xs_sink *out, struct err *e);

/*
 * A part of an index: its tracks so far, each of them whole, in the order that they keep. It has no flows; those so far
 * count as left out. Its blocks are the first *blocks_len bytes that the sink was given; its tables are added to `tables`.
 */
MUST_CHECK int tvx_write_part(const struct tvx_writer *w, struct buf *tables, uint64_t *blocks_len,
			      struct err *e);

/* ---- what an index holds; these structs are the file's own ---- */

struct tvx_plane {
	int64_t id;
	uint64_t body, end; /* where it is in the XSpace */
	uint32_t name;
	uint32_t unused;
};

enum tvx_kind { TVX_EVENTS, TVX_COUNTER };

struct tvx_track {
	uint64_t events;
	int64_t first_ps, last_ps; /* the first start, the last end; both 0 without events */
	int64_t line_id;
	uint64_t untimed; /* aggregates of the line, which have no time: only counted */
	uint64_t unplaced; /* events of the line whose time is out of range: only counted */
	double min, max; /* of a counter's values */
	uint32_t name, plane;
	uint32_t kind; /* enum tvx_kind */
	uint32_t rows; /* 1 + the deepest row; 0 without events */
	uint32_t level0, n_levels; /* the first one is the events themselves */
	uint32_t total0, n_totals;
};

/* All events of a name on a track. */
struct tvx_total {
	uint64_t count, total_ps, min_ps, max_ps;
	int64_t first_ps, last_ps; /* the first start, the last start */
	uint32_t name, track;
};

/* One end of a flow. Sorted by id, then by track and event. */
struct tvx_flow {
	uint64_t id; /* the stat `flow` without its two lowest bits */
	uint32_t event;
	uint32_t track : 30;
	uint32_t direction : 2; /* 1 in, 2 out, 3 both */
};

/* An event, or (count > 1) events of one row that are folded into one. */
struct tvx_entry {
	int64_t start_ps;
	uint64_t length_ps; /* to the last end */
	uint64_t count;
	uint64_t
		busy_ps; /* the sum of their durations; of a counter's sample: the bits of a double */
	uint64_t longest_ps; /* duration of the longest one, which gives the name and the event */
	uint64_t event; /* its number on the track */
	uint64_t source; /* of an event itself: where it is in the XSpace; else 0 */
	uint32_t name;
	uint32_t row;
};

/* ---- read ---- */

struct tvx;

/*
 * Opens an index in memory, which must outlive the result and be aligned to 8 bytes. Nothing in it is trusted:
 * ERR_INVALID if its tables are damaged, if it is of another version, or of a file of another size than `source_bytes`.
 * Blocks are checked when they are first read: a damaged one is ERR_IO.
 */
MUST_CHECK int tvx_open(struct tvx **out, const void *data, size_t len, uint64_t source_bytes,
			struct err *e);
/* The same of a part: its blocks and its tables, which both must outlive it; the tables are aligned to 8 bytes. */
MUST_CHECK int tvx_open_part(struct tvx **out, const void *blocks, uint64_t blocks_len,
			     const void *tables, size_t tables_len, uint64_t source_bytes,
			     struct err *e);
void tvx_close(struct tvx *x); /* NULL is fine */

size_t tvx_planes(const struct tvx *x, const struct tvx_plane **out);
size_t tvx_tracks(const struct tvx *x, const struct tvx_track **out);
size_t tvx_totals(const struct tvx *x,
		  const struct tvx_total **out); /* of all tracks, track by track */
size_t tvx_names(const struct tvx *x);
const char *tvx_name(const struct tvx *x, uint32_t name, size_t *len); /* any bytes, no NUL */
uint64_t tvx_flows_left_out(const struct tvx *x);

/* All ends of flows; returns how many. */
size_t tvx_flows(const struct tvx *x, const struct tvx_flow **out);

/* The ends of one flow; returns how many. */
size_t tvx_flow_ends(const struct tvx *x, uint64_t id, const struct tvx_flow **out);

/* Takes the next entry; a negative code ends the query with that code. */
typedef int (*tvx_entry_fn)(void *arg, const struct tvx_entry *en);

/*
 * The entries of a track that overlap [from_ps, to_ps), in order of their starts, without those of row `rows` and
 * deeper (0 = all rows). Events shorter than 2^shift ps are folded: at most two entries a row for each 2^shift ps.
 * shift 0 gives every event itself. Of a counter every sample is given, and the one before the window.
 */
struct tvx_window {
	int64_t from_ps, to_ps;
	unsigned int shift; /* 0 to 62 */
	uint32_t rows;
};
MUST_CHECK int tvx_query(const struct tvx *x, uint32_t track, const struct tvx_window *window,
			 tvx_entry_fn each, void *arg, struct err *e);

/* One event; ERR_NOT_FOUND if the track has fewer. */
MUST_CHECK int tvx_event(const struct tvx *x, uint32_t track, uint64_t event, struct tvx_entry *out,
			 struct err *e);

/* ---- what only the XSpace has ---- */

#define TVX_TEXT_MAX ((size_t)128 << 10) /* bytes of one name or value; what is longer is cut */

/* A stat with its name, of the event itself or of its metadata. A reference has the kind XS_STR. Borrowed for the call. */
typedef void (*tvx_stat_fn)(void *arg, const char *key, size_t key_len, const struct xs_stat *s);

struct tvx_detail {
	struct buf name; /* of the metadata */
	struct buf display_name; /* empty if there is none */
};

/* Reads an event, its metadata and its stats from the XSpace `in` that `x` was built from. The caller releases the bufs. */
MUST_CHECK int tvx_detail(const struct tvx *x, const struct xs_source *in, uint32_t track,
			  const struct tvx_entry *en, struct tvx_detail *out, tvx_stat_fn each,
			  void *arg, struct err *e);

#endif
