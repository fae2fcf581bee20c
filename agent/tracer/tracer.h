/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracers: each records something on a host, behind one table.
 *
 * A tracer is opened once, at the agent's start; state() reports what it can do. For each capture the agent
 * makes one tracer_run per tracer: arm() before T0, gather() when the window is over. The tracer fills the
 * run's output and calls run->done(run) once, on the loop's thread, during or after gather(). Tracers that
 * always record do so into rings, and cut the window out in gather(), so T0 may be in the past. All functions
 * are called on the loop's thread; slow work goes to loop_work().
 *
 * To add a driver NAME: a folder agent/tracer/NAME with a struct whose first member is `struct tracer` and
 * one const table tracer_NAME_ops, a row in agent/tracers.h, and a line in agent/tracer/CMakeLists.txt. Its
 * configuration and its capture settings are rows of its table. A driver uses only its environment; it
 * includes no other driver and nothing above agent/tracer/.
 */
#ifndef AGENT_TRACER_TRACER_H
#define AGENT_TRACER_TRACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/tracer/ring.h"
#include "base/buf.h"
#include "base/conf.h"
#include "base/err.h"
#include "proto/setting.h"

struct budget;
struct file_keeper;
struct loop;
struct local_pods;
struct loop_account;
struct rpc;
struct marks;
struct python;
struct tracer;
struct tracer_ops;

/* The parts of the agent that a driver uses; all of them outlive the tracer. */
struct tracer_env {
	struct loop *loop;
	struct rpc *rpc;
	struct marks *marks;
	struct local_pods *pods; /* which process is of which pod; NULL = no pods are known */
	struct file_keeper
		*files; /* reads files of programs, which may hang; NULL: drivers themselves do */
	struct python *python; /* samples Python programs, once a driver starts it */
	/* measures and limits what this agent takes, once a driver starts it */
	struct budget *budget;
	struct ring_limits ring; /* of each tracer's ring */
	const char *host; /* this host's name in sessions */
	const char *listen; /* address of the agent's own ProfilerService; NULL or "" = none */

	/* Requests a snapshot of this host of the window [from, to) on the host's wall clock. NULL: this agent
	 * cannot request sessions. */
	void (*request_snapshot)(void *arg, int64_t from_real_ns, int64_t to_real_ns,
				 const char *run);
	void *request_arg;
	const void *conf; /* the driver's struct, filled by ops->conf; NULL if it has none */
};

enum tracer_health { TRACER_OK, TRACER_DEGRADED, TRACER_OFF };

/* "ok", "degraded", "off". */
const char *tracer_health_name(enum tracer_health health);

struct tracer_state {
	enum tracer_health health;
	int errno_value; /* of the call that failed, or 0 */
	char reason[256]; /* cause and what to grant; "" when ok */
};

/* The clock of a part's line times. */
enum part_base {
	PART_RAW, /* absolute CLOCK_MONOTONIC_RAW ns */
	PART_REAL, /* ns since start_real_ns, of CLOCK_REALTIME (framework profilers) */
};

/* A process that a tracer has found. */
struct tracer_job {
	int64_t pid; /* 0 = unknown */
	const char *framework; /* "jax"; "" = unknown */
	char command[96]; /* "python train.py"; "" = unknown */
	char address[64]; /* of its profiler; "" = it has none */
	int port; /* of its profiler; 0 = none, or unknown */
	const char *state; /* of its profiler: a word of Job.state in control.proto */
};

/* One XSpace that a tracer gives: in memory, or in a file below run->dir (the agent removes it). */
struct tracer_part {
	struct buf bytes; /* used when path is NULL */
	char *path;
	enum part_base base;
	int64_t start_real_ns;
	int64_t pid; /* of the traced process, or XS_PID_UNKNOWN; 0 = the agent's own planes */
	char label[64]; /* "jax 4711"; goes before its warnings */
};

struct tracer_run {
	/* Given. Until gather(), t1_raw_ns may become earlier. In gather() [t0, t1) is the best estimate of
	 * the window plus a margin on both sides; the file is cut to the exact window later. */
	const char *session;
	int64_t t0_raw_ns, t1_raw_ns; /* the window on CLOCK_MONOTONIC_RAW */
	int64_t t0_real_ns; /* T0 on this host's CLOCK_REALTIME */
	int64_t give_up_mono_ns; /* the capture waits for the run until then */
	const int64_t *settings; /* in the order of ops->settings; NULL = the defaults */
	char *const *texts; /* of SETTING_TEXT, in the same order; NULL = none */
	const void *profile_options; /* serialized tensorflow.ProfileOptions */
	size_t profile_options_len;
	bool is_named; /* the capture's request names this tracer */
	const char *dir; /* exists; for part files */

	/* Given. Reserves spool space for files below `dir`, before they are written. False if there is not
	 * enough; then nothing is reserved. The agent frees it together with the parts. */
	bool (*reserve_bytes)(struct tracer_run *run, uint64_t bytes);

	/* The tracer's own, between arm() and done. */
	void *arg;

	/* Filled in by the tracer before done. */
	struct tracer_part *parts; /* xmalloc'd array; the agent frees it and its members */
	size_t n_parts;
	enum { RUN_OK, RUN_DEGRADED, RUN_FAILED, RUN_OFF } result;
	char reason[32]; /* typed, proto/reasons.h; "" when ok */
	char detail[512]; /* sentences with cause and fix */
	uint64_t lost; /* records known to be lost */

	void (*done)(struct tracer_run *run);
	void *done_arg;
};

/* Adds an empty part and returns it; borrowed until the next call. */
struct tracer_part *tracer_run_add_part(struct tracer_run *run);

/* The value of ops->settings' row `name` in this run. */
int64_t tracer_run_setting(const struct tracer_run *run, const struct tracer_ops *ops,
			   const char *name);

/* The same of a SETTING_TEXT; "" by default, borrowed until done. */
const char *tracer_run_text(const struct tracer_run *run, const struct tracer_ops *ops,
			    const char *name);

/* When gather() should go on without what it waits for: half of the time from now until give_up_mono_ns is over then. */
int64_t tracer_run_half_time(const struct tracer_run *run);

/* Sets result, reason and detail. */
void tracer_run_set_result(struct tracer_run *run, int result, const char *reason, const char *fmt,
			   ...) PRINTF_LIKE(4, 5);

struct tracer_ops {
	/* "cpu": its name in reports, in --tracers and in front of its capture settings. */
	const char *name;

	/* In a capture that names no tracers, the tracer takes part if ProfileOptions.host_tracer_level is at least
	 * this: 1 for annotations, 2 for samples, switches and numbers, 3 for all else; 0 = always. */
	unsigned int host_level;

	/* A second level that decides. LEVEL_PYTHON: python_tracer_level above 0 includes the tracer, 0 excludes it if
	 * the capture sets it, whatever host_level is. LEVEL_DEVICE: device_tracer_level 0 excludes the tracer. */
	enum { LEVEL_NONE, LEVEL_PYTHON, LEVEL_DEVICE } other_level;

	/* This driver's own flags of the agent: rows over a struct of conf_size bytes, which open() gets in
	 * env->conf. Ends with an all-zero row. NULL = none. */
	const struct conf_field *conf;

	/* Size of that struct; 0 = none. */
	size_t conf_size;

	/* What a capture may set, as "NAME.SETTING": read with tracer_run_setting() in arm() or gather().
	 * Ends with an all-zero row. NULL = nothing. */
	const struct setting *settings;

	/* Does not fail for lack of a permission; then state() reports it. */
	int (*open)(struct tracer **out, const struct tracer_env *env, struct err *e);

	/* What it can do here and now. */
	void (*state)(const struct tracer *t, struct tracer_state *out);

	/* The processes it has found: returns how many, and sets the first `max`. Optional. */
	size_t (*jobs)(const struct tracer *t, struct tracer_job *out, size_t max);

	/* The instant from which on its ring is complete, on CLOCK_MONOTONIC_RAW. Optional: without it the
	 * tracer has no records of before arm(). */
	int64_t (*begin_raw_ns)(const struct tracer *t);

	/* How long before T0 it must be armed, as things are now, to record from T0 on. Optional: 0. */
	int64_t (*lead_ns)(const struct tracer *t);

	/* True if its processes count training steps themselves, and the agent learns of them only after the
	 * recording. Then it has the settings "first_step" and "steps", and calls marks_add_counted().
	 * Optional: false. */
	bool (*counts_steps)(const struct tracer *t);

	/* Prepare for a window. On failure the run is over and e becomes its detail. Optional. */
	int (*arm)(struct tracer *t, struct tracer_run *run, struct err *e);

	/* The window ends earlier: t1_raw_ns is now in the past or near future. Optional. */
	void (*stop)(struct tracer *t, struct tracer_run *run);

	/* The window is over: fill in the run and call done, now or later. */
	void (*gather)(struct tracer *t, struct tracer_run *run);

	/* give_up_mono_ns has come: call done before returning, with the parts that are complete.
	 * Optional: without it the run is cancelled and its data is lost. */
	void (*give_up)(struct tracer *t, struct tracer_run *run);

	/* The run's data is not needed. When this returns the run is freed; done is not called. Comes
	 * at any time after a successful arm() and before done. */
	void (*cancel)(struct tracer *t, struct tracer_run *run);

	/* Records less from now on, to cost less: `step` steps below what it is configured for, 0 = all. A step halves
	 * the tracer's rate or ends its recording; a call with a smaller `step` takes that back. Returns false, and
	 * changes nothing, if it has no such step. Optional: it has none. */
	bool (*limit)(struct tracer *t, unsigned int step);

	/* Called when no run is open. */
	void (*free)(struct tracer *t);
};

/* The table of driver NAME, for its own file and for agent/tracers.h. */
#define TRACER_DECLARE(name) extern const struct tracer_ops tracer_##name##_ops

/* How far the agent's budget has limited a tracer. */
struct tracer_limit {
	unsigned int step; /* of ops->limit */
	/* the last interval in which the tracer was limited; `to_raw_ns` is INT64_MAX while it is; 0, 0 = it never was */
	int64_t from_raw_ns, to_raw_ns;
	char reason[160]; /* a sentence */
};

/* First member of each driver's struct, which sets `ops`; the rest is the agent's. */
struct tracer {
	const struct tracer_ops *ops;
	struct loop_account *account; /* the CPU time that it takes to record */
	struct tracer_limit limit;
};

/* The state from ops->state(); TRACER_DEGRADED instead of TRACER_OK while the budget limits the tracer. */
void tracer_get_state(const struct tracer *t, struct tracer_state *out);

/* Whether it was limited at some time of [t0, t1). */
bool tracer_was_limited(const struct tracer *t, int64_t t0_raw_ns, int64_t t1_raw_ns);

#endif
