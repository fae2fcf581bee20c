/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one caller may have at the same time, by his name; callers without one share a name. A refusal is 429, and names the limit.
 * Loop thread.
 */
#ifndef AGGREGATOR_API_LIMITS_H
#define AGGREGATOR_API_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define LIMITS_NAMES \
	1024 /* whose starts are counted; a further one replaces the one that started longest ago, and none now */

struct captures;
struct events;
struct limits;

struct limits_conf { /* 0 = any number */
	int captures; /* under way at the same time */
	int starts; /* of captures, snapshots and retries, a minute */
	uint64_t bytes; /* of captures under way: none begins beyond */
	int streams; /* of events, open at the same time */
};

struct limits *limits_new(const struct limits_conf *conf, const struct captures *captures,
			  const struct events *events);
void limits_free(struct limits *l); /* NULL is fine */

/* Whether `name` may start something now, which counts as a start if so, or open a stream. ERR_LIMIT names the limit; `*retry_s` is
 * when to ask again. A start that may be counts as a capture under way until limits_end_start(), which is to be called once it is
 * one, or nothing: in between, others are asked for. */
MUST_CHECK int limits_start(struct limits *l, const char *name, int *retry_s, struct err *e);
void limits_end_start(struct limits *l, const char *name);
MUST_CHECK int limits_stream(const struct limits *l, const char *name, int *retry_s, struct err *e);

#endif
