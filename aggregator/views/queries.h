/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a viewer asks of an open session. Each call appends one answer to `out`. They run on workers and block; the
 * caller holds the view. docs/viewer.md has the answers' members and the bytes of a tile.
 *
 * A place names an event in a session: file, track of the file, number of the event on the track. `stop` becomes true
 * when no client waits for the answer any more: then they end with ERR_CANCELLED. It may be NULL. ERR_IO is an index that
 * is damaged, or a file that cannot be read: then view_discard() and views_drop().
 */
#ifndef AGGREGATOR_VIEWS_QUERIES_H
#define AGGREGATOR_VIEWS_QUERIES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct buf;
struct view;

const char *view_build(const struct view *view); /* changes when an answer would */
bool view_is_complete(const struct view *view); /* all files are indexed */

/* Hosts, files, planes, tracks as a JSON document. Borrowed from the view. */
const struct buf *view_catalogue(const struct view *view);

/* One tile: TILE_TRACKS tracks, TILE_BUCKETS * 2^shift ps. */
#define TILE_TRACKS  16
#define TILE_BUCKETS 1024
#define TILE_ROWS    256 /* most rows of a track */
struct view_tile {
	uint32_t file, group; /* tracks group * TILE_TRACKS and the following */
	uint32_t shift; /* 0 to 50 */
	int64_t index; /* it begins at index * TILE_BUCKETS * 2^shift ps */
	uint32_t rows; /* of each track, at most; 0 = TILE_ROWS */
};
MUST_CHECK int view_write_tile(const struct view *view, const struct view_tile *t, struct buf *out,
			       struct err *e);

struct view_place {
	uint32_t file, track;
	uint64_t event;
};
MUST_CHECK int view_write_event(const struct view *view, const struct view_place *at,
				struct buf *out, struct err *e);

/* Events whose name has the text in it, or matches it as a POSIX extended regular expression of at most
 * VIEW_PATTERN_MAX bytes. */
#define VIEW_PATTERN_MAX 200
struct view_search {
	const char *text;
	bool exact_case, is_pattern;
	const atomic_bool *stop;
};
MUST_CHECK int view_write_search(const struct view *view, const struct view_search *s,
				 struct buf *out, struct err *e);

/* The match that follows `at` in time, or precedes it, anywhere in the session. */
struct view_step {
	struct view_search search;
	int64_t start_ps;
	struct view_place at; /* decides between matches that begin together */
	bool backward;
};
MUST_CHECK int view_write_next(const struct view *view, const struct view_step *s, struct buf *out,
			       struct err *e);

/* How many matches begin in each of `bins` equal parts of [from_ps, to_ps): where they are, for an overview. Reads all
 * events of the tracks that have matches. */
#define VIEW_BINS_MAX 4096
struct view_spread {
	struct view_search search;
	int64_t from_ps, to_ps;
	uint32_t bins; /* 1 to VIEW_BINS_MAX */
};
MUST_CHECK int view_write_spread(const struct view *view, const struct view_spread *s,
				 struct buf *out, struct err *e);

/* The events that overlap [from_ps, to_ps), name by name; of the tracks "FILE.TRACK,FILE.TRACK,...", ascending, or of
 * "all". */
struct view_selection {
	int64_t from_ps, to_ps;
	const char *tracks;
	const atomic_bool *stop;
};
MUST_CHECK int view_write_selection(const struct view *view, const struct view_selection *s,
				    struct buf *out, struct err *e);

/* The flows that have an end among these events: from each end to the next one in time, also on other tracks and hosts.
 * Of more than `limit` every so many. */
#define VIEW_LINKS_MAX 1000
struct view_links {
	struct view_selection of;
	uint32_t limit; /* 1 to VIEW_LINKS_MAX */
};
MUST_CHECK int view_write_links(const struct view *view, const struct view_links *l,
				struct buf *out, struct err *e);

/* The same events as a tree of calls: the caller of an event is the latest one that it lies in as a whole. */
enum view_group { GROUP_NONE, GROUP_HOST, GROUP_PLANE, GROUP_TRACK };
struct view_flame {
	struct view_selection of;
	enum view_group group; /* whose trees are joined */
};
MUST_CHECK int view_write_flame(const struct view *view, const struct view_flame *f,
				struct buf *out, struct err *e);

/* The durations of all events of the session that have the name of this one, and begin in [from_ps, to_ps). */
struct view_durations {
	struct view_place of;
	int64_t from_ps, to_ps;
	const atomic_bool *stop;
};
MUST_CHECK int view_write_durations(const struct view *view, const struct view_durations *d,
				    struct buf *out, struct err *e);

/* The events that overlap [from_ps, to_ps), whole, as one file: a trace of Perfetto, or Chrome's JSON (xspace/exits/exits.h). Reads
 * all files of the session that are shown. ERR_LIMIT beyond VIEW_TRACE_MAX bytes. */
#define VIEW_TRACE_MAX 100000000
struct view_trace {
	int64_t from_ps, to_ps;
	bool is_json;
	const atomic_bool *stop;
};
MUST_CHECK int view_write_trace(const struct view *view, const struct view_trace *t,
				struct buf *out, struct err *e);

/* Whether the client is gone; an error then. */
MUST_CHECK static inline int view_check_stop(const atomic_bool *stop, struct err *e)
{
	if (!stop || !atomic_load_explicit(stop, memory_order_relaxed))
		return 0;
	return err_set(e, ERR_CANCELLED, "the client is gone");
}

/* Removes the kept indexes of the view's session. */
void view_discard(const struct view *view);

/* Compresses an answer with gzip, if that makes it shorter; returns whether it did. */
bool view_compress(struct buf *text);

#endif
