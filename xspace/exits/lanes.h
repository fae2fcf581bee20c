/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads an XSpace for an exit: filters events, puts those of each line in order of time and into lanes, in which events
 * are nested or follow each other. Private to xspace/exits/.
 *
 * A line's events are collected, sorted and given out in chunks of at most LANES_HELD events. An event that begins before
 * one that was given out already, of an earlier chunk, gets another lane: that happens to lines that are not sorted and
 * have more events than a chunk.
 */
#ifndef XSPACE_EXITS_LANES_H
#define XSPACE_EXITS_LANES_H

#include "xspace/exits/exits.h"
#include "xspace/tvx/names.h"

#define LANES_HELD	 300000
#define LANES_HELD_BYTES ((size_t)32 << 20) /* of their stats */
#define LANES_DEPTH	 4096 /* of nested events */

/* A number of a name in struct lanes' names, or of a stat's name in its stat_names. */
struct lane_event {
	int64_t start_ns, end_ns; /* since T0 */
	uint32_t name, lane;
	const struct xs_stat *
		stats; /* metadata_id and references are numbers of stat_names; LANES_NO_NAME = unknown */
	size_t n_stats;
};
#define LANES_NO_NAME UINT32_MAX

/* What exits want to know of a plane, its stats among it. */
struct lanes_plane {
	char name[1024];
	char title[1200]; /* "/host:CPU [4711] (train-0 rank 3)": with its process's pod and rank */
	bool is_device; /* "/device:..." */
	bool has_process;
	int64_t process_id; /* the stat `process_id` */
	bool is_sampled; /* its events are samples of the tracer cpu (docs/format.md) */
};

/* Called in this order: plane, then for each line with an event that goes out: line, and begin and end for its events or
 * sample. All names of a plane are known when plane is called. A negative result ends the reading and becomes its result. */
struct lanes_visitor {
	int (*plane)(void *arg, const struct lanes_plane *p); /* borrowed until the next one */
	int (*line)(void *arg, const struct xs_line *l);
	/* In order of time, lane by lane. Without a length (start_ns == end_ns) no end() follows. */
	int (*begin)(void *arg, const struct lane_event *ev);
	int (*end)(void *arg, uint32_t lane, int64_t end_ns); /* may be NULL */
	/* Of a counter: name and start_ns; its stats only where they are wanted, the value among them. May be NULL. */
	int (*sample)(void *arg, const struct lane_event *ev, double value);
	bool wants_sample_stats;
};

/* Of one plane: by number. */
struct lanes_names {
	struct names texts;
	struct number_map by_id;
};

/* What goes out of a file, and what does not: `filtered`, `untimed` and `left_out` of the counts grow. `names` and `stat_names`
 * hold the present plane's while the visitor is called. */
MUST_CHECK int lanes_read(const struct xs_source *in, const struct exit_filter *filter,
			  const struct lanes_visitor *v, void *arg, struct lanes_names *names,
			  struct lanes_names *stat_names, struct exit_counts *counts,
			  struct err *e);

static inline const char *lanes_text(const struct lanes_names *n, uint32_t number, size_t *len)
{
	uint64_t begin = number ? n->texts.ends[number - 1] : 0;

	*len = (size_t)(n->texts.ends[number] - begin);
	return (const char *)n->texts.text.data + begin;
}

/* Whether the stat has this name. */
bool lanes_is_stat(const struct lanes_names *stat_names, const struct xs_stat *s, const char *name);

/* The stat's text, which may be a reference; "" if it is none. */
const char *lanes_stat_text(const struct lanes_names *stat_names, const struct xs_stat *s,
			    size_t *len);

#endif
