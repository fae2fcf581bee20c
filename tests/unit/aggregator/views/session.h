/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions whose truth is known: the events of a few files, kept as they are, and stored as a capture stores them. A stage has
 * the room that answers questions about them, on a loop and workers of its own.
 */
#ifndef TESTS_AGGREGATOR_VIEWS_SESSION_H
#define TESTS_AGGREGATOR_VIEWS_SESSION_H

#include <jansson.h>

#include "aggregator/sessions/session_store.h"
#include "aggregator/views/queries.h"
#include "aggregator/views/views.h"
#include "base/buf.h"
#include "base/jobs.h"
#include "tests/lib/run_until.h"
#include "tests/lib/store.h"

#define TRUE_FILES  8
#define TRUE_LINES  64
#define TRUE_EVENTS 40000

struct true_line {
	uint32_t file, track; /* the track is counted through the file */
	const char *plane, *name;
	bool is_counter; /* of one counter, which has the line's name */
};

struct true_event {
	uint32_t line;
	int64_t start_ps, length_ps;
	const char *name;
	uint64_t flow; /* 0 = none */
	unsigned int direction; /* of the flow's end: 1 in, 2 out */
	double value; /* of a counter */
	uint64_t number; /* of the event on its track, by start; truth_store() sets it */
};

struct truth {
	const char *hosts[TRUE_FILES], *files[TRUE_FILES];
	uint32_t n_files;
	struct true_line lines[TRUE_LINES];
	uint32_t n_lines;
	struct true_event events[TRUE_EVENTS];
	size_t n;
};

/* Each adds to what was added last. Texts are borrowed. No two events of a line have the same start and length. */
void truth_file(struct truth *t, const char *host, const char *name);
void truth_line(struct truth *t, const char *plane, const char *name);
void truth_counter(struct truth *t, const char *name);
struct true_event *truth_event(struct truth *t, int64_t start_ps, int64_t length_ps,
			       const char *name);
void truth_sample(struct truth *t, int64_t at_ps, double value);

const struct true_line *line_of(const struct truth *t, const struct true_event *ev);
const char *host_of(const struct truth *t, const struct true_event *ev);
bool true_overlap(const struct true_event *ev, int64_t from_ps, int64_t to_ps);

/* Calls in calls, so that no two begin together; whole nanoseconds. Names are "f 0" to "f 9". */
void truth_calls(struct truth *t, size_t n, int64_t from_ps);

/* Three files of two hosts, small enough to read. */
void truth_small(struct truth *t);

/* Three files of two hosts, with two lines of calls and a counter each. */
#define LARGE_CALLS   1000 /* of a line */
#define LARGE_SAMPLES 1000
void truth_large(struct truth *t);

/* The same numbers at every run. */
uint64_t draw(uint64_t below);

struct stage {
	struct jobs jobs;
	struct session_store sessions;
	struct views *views;
	char folder[120];
	struct buf manifest; /* of what was stored last */
};

/* `kept_bytes`: of all indexes; 0 = as many as there are. */
void stage_start(struct stage *s, uint64_t kept_bytes);
void stage_stop(struct stage *s);

/* The file as it is stored; `bytes` instead of what is true of it, unless NULL. Sets `manifest`. */
void stage_store(struct stage *s, struct truth *t, const char *session, const struct buf *bytes);
void truth_write_file(const struct truth *t, uint32_t file, struct buf *out);

/* One call of views_open() with the manifest; the view that is there, or NULL. */
struct view *stage_ask(struct stage *s, const char *session, const char *known_build,
		       struct view_progress *p);

/* Waits until the session is open as a whole. */
struct view *stage_open(struct stage *s, const char *session);

/* The text of an answer is this document; "'" stands for the quotation mark. Empties the buf. */
void check_answer(struct buf *answer, const char *document);

/* Parses an answer; a new reference. Empties the buf. */
json_t *answer_json(struct buf *answer);

/* A member that is a number in a text. */
int64_t get_ps(const json_t *o, const char *key);

#endif
