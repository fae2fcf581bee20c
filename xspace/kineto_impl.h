/* SPDX-License-Identifier: Apache-2.0 */
/* A kineto file as tables, between reading and building; private to kineto*.c. */
#ifndef XSPACE_KINETO_IMPL_H
#define XSPACE_KINETO_IMPL_H

#include "base/buf.h"
#include "base/mem.h"
#include "xspace/kineto.h"
#include "xspace/scan.h"

#define uthash_malloc(size) xmalloc(size)
#include <uthash.h>

/* A table of texts: each is kept once and has a number, from 0 on. */
struct kineto_name {
	uint32_t id;
	UT_hash_handle hh;
	char text[];
};

struct kineto_names {
	struct kineto_name *table;
	const char **texts; /* by id */
	size_t n, cap;
	size_t bytes; /* allocated for them */
	struct buf scratch;
};

/* What a line shows; the planes come in this order. */
enum kineto_kind { KINETO_HOST, KINETO_STREAM, KINETO_STREAM_ANNOTATIONS };

struct kineto_line {
	struct kineto_key {
		int64_t kind; /* enum kineto_kind */
		int64_t device; /* of a stream */
		int64_t id; /* thread or stream */
	} key;
	uint32_t index; /* its place in the array of lines; after sorting, in the output */
	const char *name; /* of a thread; NULL if the file has none */
	UT_hash_handle hh;
};

/* An event of the table. Its args stay in the file until the event is written. */
struct kineto_event {
	int64_t start_ns, duration_ns; /* from the file's base time */
	uint64_t flow; /* as the stat, 0 = none */
	/* where in the file its args are; without args, where the event is */
	uint32_t args_at, args_len;
	uint32_t name;
	uint32_t line;
	bool is_kernel;
};

/* One end of an arrow. */
struct kineto_flow {
	int64_t at_ns;
	uint64_t value; /* as the stat */
	uint32_t line;
};

struct kineto {
	const struct kineto_conf *conf;
	const char *file;
	struct kineto_names names;
	struct kineto_line *table;
	struct kineto_line **lines;
	size_t n_lines, cap_lines;
	struct kineto_event *events;
	size_t n_events, cap_events;
	struct kineto_flow *flows;
	size_t n_flows, cap_flows;
	int64_t base_ns; /* of the file's times */
	int64_t first_ns; /* of the first event */
	int64_t line_ns; /* the time of all lines */
	struct kineto_counts counts;
};

/* ERR_LIMIT if the tables and `more` bytes are beyond conf->max_memory. */
MUST_CHECK int kineto_check_memory(const struct kineto *k, size_t more, struct err *e);

/* Sorts the tables and adds their planes to `b`. */
MUST_CHECK int kineto_build(struct kineto *k, struct xs_builder *b, struct err *e);

/* Adds the stats of an event's args to the event that is open in `b`; `scratch` is the caller's. */
MUST_CHECK int kineto_put_args(const struct kineto *k, const struct kineto_event *ev,
			       struct xs_builder *b, struct buf *scratch,
			       struct kineto_counts *counts, struct err *e);

#endif
