/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of numbers are read at regular times and kept in a ring. Their plane has one line "_counters_" with an event per
 * number and reading. A reading has either one row without a label, or several rows with labels, for example one for
 * each cgroup: "ssh.service: cpu %". A late reading has the time at which it was really made. Readings never overlap:
 * those that are missed because one takes long add no row and count as lost, with as many rows as the last one had. A
 * window that one took half of, or that the agent did not run for, is degraded (ring_run.h).
 *
 * Loop thread, except where a function says otherwise.
 */
#ifndef AGENT_TRACER_COUNTERS_H
#define AGENT_TRACER_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/tracer/ring.h"
#include "agent/tracer/tracer.h"

#define COUNTERS_NAME_BYTES 64

struct counters_reading;

/* From read(): adds a row to this reading and returns its columns, which are set to NaN (no number); borrowed until the
 * next call. The label is copied, up to the source's label_bytes - 1; "" where rows have none. */
double *counters_add_row(struct counters_reading *reading, const char *label);

struct counters_source {
	const char *plane; /* "/host:CPU metrics" */
	const char *what; /* what the readings are called in a run's detail: "metrics" */
	size_t columns; /* of a row */
	size_t label_bytes; /* of a row's label, a multiple of 8; 0 = rows have none */

	/* On a worker. Adds its rows, or none. raw_ns is now on CLOCK_MONOTONIC_RAW. */
	void (*read)(void *arg, int64_t raw_ns, struct counters_reading *reading);
	/* read() waits for nothing but the CPU. Then it is called on the loop's thread, as long as it is quick: the way
	 * to a worker and back costs more than a quick reading. */
	bool never_waits;

	/* The name of a column: plain ASCII, may be written to `text`. Any thread; pure. */
	const char *(*name)(size_t column, char text[COUNTERS_NAME_BYTES]);

	/* On a worker, after the last reading. */
	void (*free)(void *arg);
	void *arg;
};

struct counters;

/* Copies the source, whose texts are constant, and owns its arg. With a period of 0 there are no regular readings: only
 * counters_read() reads. */
struct counters *counters_start(struct loop *loop, const struct counters_source *source,
				int64_t period_ns, const struct ring_limits *limits);

/* Does not wait for a reading under way. NULL is fine. */
void counters_free(struct counters *c);

/* A reading now, on the loop's thread; not while a worker reads. */
void counters_read(struct counters *c);

/* For ops->limit(): each step doubles the period. NULL is fine, and has no step. */
bool counters_limit(struct counters *c, unsigned int step);

struct ring *counters_ring(const struct counters *c);

/* For ops->gather(): the part has every stride-th reading. */
void counters_gather(struct counters *c, struct tracer_run *run, size_t stride);

/* For ops->cancel(). */
void counters_cancel(struct counters *c, struct tracer_run *run);

#endif
