/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracers: whatever records something on a host, behind one table.
 *
 * A tracer is opened once, at the agent's start, and says what it can do (state). For each capture the
 * agent makes one tracer_run per tracer: arm() before T0, gather() when the window is over; the tracer
 * fills the run's output and calls run->done(run) once, on the loop's thread, after gather(). Always-on
 * tracers record into rings all the time and cut the window out in gather(); so T0 may lie in the past.
 * All functions are called on the loop's thread; slow work belongs into loop_work().
 *
 * To add one: write tracer_<name>.c with a struct whose first member is `struct tracer` and one const
 * table, add the table to tracers[] in tracers.c. It touches nothing but its environment.
 */
#ifndef AGENT_TRACER_TRACER_H
#define AGENT_TRACER_TRACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct loop;
struct rpc;
struct agent_conf;
struct marks;
struct tracer;

struct tracer_env {
	struct loop *loop;
	struct rpc *rpc;
	const struct agent_conf *conf;
	struct marks *marks;
};

enum tracer_health { TRACER_OK, TRACER_DEGRADED, TRACER_OFF };

struct tracer_state {
	enum tracer_health health;
	int errno_value; /* of the call that failed, or 0 */
	char reason[256]; /* cause and what to grant; "" when ok */
};

/* In which clock the line times of a part are. */
enum part_base {
	PART_RAW, /* absolute CLOCK_MONOTONIC_RAW ns */
	PART_REAL, /* ns since start_real_ns, of CLOCK_REALTIME (framework profilers) */
};

/* One XSpace that a tracer gives: in memory, or in a file below run->dir (the agent removes it). */
struct tracer_part {
	struct buf bytes; /* used when path is NULL */
	char *path;
	enum part_base base;
	int64_t start_real_ns;
	int64_t pid; /* of the traced process; 0 = the agent's own planes */
	char label[64]; /* "jax 4711"; goes before its warnings */
};

struct tracer_run {
	/* Given. t1_raw_ns may move to an earlier instant before gather(); for gather() both edges are what
	 * is known of them by then, with a margin: the file is cut to the window exactly. */
	const char *session;
	int64_t t0_raw_ns, t1_raw_ns; /* the window on CLOCK_MONOTONIC_RAW */
	int64_t t0_real_ns; /* T0 on this host's CLOCK_REALTIME */
	int64_t give_up_mono_ns; /* what is not there by then is not waited for */
	const void *profile_options; /* serialized tensorflow.ProfileOptions */
	size_t profile_options_len;
	const char *dir; /* exists; for part files */

	/* Given. Takes room in the spool for bytes below `dir`, before they are written: false if there is
	 * not so much, and nothing was taken. Given back by the agent, with the parts. */
	bool (*take_room)(struct tracer_run *run, uint64_t bytes);

	/* The tracer's own, between arm() and done. */
	void *arg;

	/* Filled by the tracer before done. */
	struct tracer_part *parts; /* xmalloc'd array; the agent frees it and its members */
	size_t n_parts;
	enum { RUN_OK, RUN_DEGRADED, RUN_FAILED, RUN_OFF } result;
	char reason[32]; /* typed: "profiler-unreachable"; "" when ok. docs/wire.md lists them */
	char detail[256]; /* a sentence with cause and fix */
	uint64_t lost; /* records known to be lost */

	void (*done)(struct tracer_run *run);
	void *done_arg;
};

/* Adds an empty part and returns it; borrowed until the next call. */
struct tracer_part *tracer_run_add_part(struct tracer_run *run);

/* Sets result, reason and detail in one go. */
void tracer_run_fail(struct tracer_run *run, int result, const char *reason, const char *fmt, ...)
	PRINTF_LIKE(4, 5);

struct tracer_ops {
	/* "cpu": as it is called in reports and by --tracers. */
	const char *name;

	/* Never fails for want of a permission: then the state says so. */
	int (*open)(struct tracer **out, const struct tracer_env *env, struct err *e);

	/* What it can do here and now. */
	void (*state)(const struct tracer *t, struct tracer_state *out);

	/* Get ready for a window. On failure the run is over: e's words become its detail. Optional. */
	int (*arm)(struct tracer *t, struct tracer_run *run, struct err *e);

	/* t1_raw_ns moved to the past or near future: stop early. Optional. */
	void (*stop)(struct tracer *t, struct tracer_run *run);

	/* The window is over: fill in the run and call done, now or later. */
	void (*gather)(struct tracer *t, struct tracer_run *run);

	/* The capture waits no longer: call done from inside, with what is there. Optional: without it
	 * the run is cancelled, and what it had is lost. */
	void (*give_up)(struct tracer *t, struct tracer_run *run);

	/* Nobody wants the run any more; it is dead when this returns and done is not called. */
	void (*cancel)(struct tracer *t, struct tracer_run *run);

	/* No run is open. */
	void (*free)(struct tracer *t);
};

struct tracer {
	const struct tracer_ops *ops;
};

/* All tracers of this build, in the order of their planes; NULL-terminated (tracers.c). */
extern const struct tracer_ops *const tracers[];

#endif
