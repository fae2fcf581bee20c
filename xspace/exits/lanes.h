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

struct lanes;

/* Called in this order: plane, then for each line with an event that goes out: line, and begin and end for its events or
 * sample; then plane_end. A negative result ends the reading and becomes its result. */
struct lanes_visitor {
	int (*plane)(void *arg, const struct xs_plane *p);
	int (*plane_stat)(void *arg, const struct xs_stat *s); /* as of xs_visitor */
	int (*line)(void *arg, const struct xs_line *l, bool is_counters);
	/* In order of time, lane by lane. Without a length (start_ns == end_ns) no end() follows. */
	int (*begin)(void *arg, const struct lane_event *ev);
	int (*end)(void *arg, uint32_t lane, int64_t end_ns);
	int (*sample)(void *arg, uint32_t name, int64_t at_ns, double value); /* of a counter */
	int (*plane_end)(void *arg);
};

/* Of one plane: by number. */
struct lanes_names {
	struct names texts;
	struct number_map by_id;
};

struct lanes_result {
	uint64_t filtered, untimed, left_out;
};

/* `names` and `stat_names` hold the present plane's while the visitor is called. */
MUST_CHECK int lanes_read(const struct xs_source *in, const struct exit_filter *filter,
			  const struct lanes_visitor *v, void *arg, struct lanes_names *names,
			  struct lanes_names *stat_names, struct lanes_result *result,
			  struct err *e);

static inline const char *lanes_text(const struct lanes_names *n, uint32_t number, size_t *len)
{
	uint64_t begin = number ? n->texts.ends[number - 1] : 0;

	*len = (size_t)(n->texts.ends[number] - begin);
	return (const char *)n->texts.text.data + begin;
}

/* The pod of a plane's process, by the plane's stats; zeroed at each plane. */
struct lanes_pod {
	char name[96]; /* "" = none */
	int64_t rank;
	bool has_rank;
};
void lanes_take_pod(struct lanes_pod *pod, const struct lanes_names *stat_names,
		    const struct xs_stat *s);

/* "/host:CPU [4711] (train-0 rank 3)"; the plane's name alone without a pod. */
void lanes_title(const char *plane, const struct lanes_pod *pod, char *out, size_t size);

#endif
