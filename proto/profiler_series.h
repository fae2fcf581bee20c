/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The series of a ProfilerService's clients. From StartContinuousProfiling to StopContinuousProfiling, the
 * windows of one client's snapshots follow one another without a gap. Rings always record, so a client
 * without a series gets snapshots, too. Pure; times are of any one clock.
 */
#ifndef PROTO_PROFILER_SERIES_H
#define PROTO_PROFILER_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define PROFILER_SERIES_MAX 256 /* the oldest one is dropped */

/* The first window of a series, and a window outside of any. */
#define PROFILER_SNAPSHOT_NS INT64_C(30000000000)

/* The longest window: rings keep this much by default. */
#define PROFILER_SNAPSHOT_MAX_NS INT64_C(60000000000)

/* Calls of one client within this time get the same window. */
#define PROFILER_SAME_INSTANT_NS INT64_C(50000000)

struct profiler_series {
	char *client; /* identifies it */
	bool emit_xspace; /* as Start asked */
	char *session; /* of the last snapshot; NULL = none */
	int64_t t0_ns, t1_ns; /* its window */
	TAILQ_ENTRY(profiler_series) entry;
};

struct profiler_series_list {
	TAILQ_HEAD(, profiler_series) all; /* the oldest first */
	size_t n;
};

void profiler_series_init(struct profiler_series_list *list);
void profiler_series_free_all(struct profiler_series_list *list);

/* Begins a series, and ends one that the client has already: a client that crashed sent no Stop. */
void profiler_series_begin(struct profiler_series_list *list, const char *client, bool emit_xspace);
void profiler_series_end(struct profiler_series_list *list,
			 const char *client); /* does nothing if there is none */

/* Borrowed; NULL if the client has no series. */
struct profiler_series *profiler_series_find(struct profiler_series_list *list, const char *client);

/* The window of the next snapshot; `s` is NULL without a series. */
void profiler_series_window(const struct profiler_series *s, int64_t now_ns, int64_t *t0_ns,
			    int64_t *t1_ns);

/* That snapshot has begun. */
void profiler_series_add(struct profiler_series *s, const char *session, int64_t t0_ns,
			 int64_t t1_ns);

/* A snapshot has failed: if it was the last one, the next window includes its window. */
void profiler_series_lose(struct profiler_series_list *list, const char *session);

#endif
