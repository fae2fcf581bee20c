/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures on this host: runs the tracers over one window and assembles their parts into one XSpace
 * file in the spool, in nanoseconds since T0. The caller (for the aggregator, or for a client of this
 * agent's own ProfilerService) gets each change of state and takes the file from the spool. Loop thread.
 *
 *   armed -> running (T0) -> gathering (T1) -> assembling -> ready | failed
 */
#ifndef AGENT_CAPTURE_CAPTURE_H
#define AGENT_CAPTURE_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/capture/capture_file.h"
#include "agent/clock/model.h"
#include "agent/tracer/set.h"
#include "agent/tracer/tracer.h"
#include "proto/tutti/v1/control.pb-c.h"

struct loop;
struct captures;
struct local_pods;
struct marks;
struct spool;
struct capture;

enum capture_state {
	CAPTURE_ARMED,
	CAPTURE_RUNNING,
	CAPTURE_GATHERING,
	CAPTURE_ASSEMBLING,
	CAPTURE_READY, /* the file is there until capture_release() */
	CAPTURE_FAILED, /* no file: capture_error() has the cause */
};

struct capture_request {
	/* All borrowed for the call. The session must pass name_check_host(). If it also passes
	 * name_is_session(), the next agent removes its folder if this agent is killed before the file is made. */
	const char *session;
	int64_t t0_ns, duration_ns; /* session clock */
	int64_t give_up_ns; /* session clock; parts that come later are left out */
	int64_t probe_gap_ns; /* least time between two pairs of probes; 0 = the clock chooses */
	const void *profile_options;
	size_t profile_options_len;
	const char *const *tracers; /* names, NULL-terminated; NULL = all */
	const struct tracer_setting *settings; /* of the tracers */
	size_t n_settings;
	char *const *notes; /* n_notes warnings for the file */
	size_t n_notes;

	/* Called at each change of state; in READY and FAILED it may release the capture. */
	void (*changed)(struct capture *c, enum capture_state state, void *arg);
	void *arg;
};

/* The outcome of one tracer. */
struct capture_report {
	const char *tracer;
	const char *state; /* "ok", "degraded", "failed" or "off" */
	const char *reason; /* of proto/reasons.h; "" when ok */
	const char *detail;
	uint64_t lost; /* records */
};

/* What captures need of the agent: all borrowed, and there until captures_free(). */
struct capture_env {
	struct loop *loop;
	struct clock *clock;
	struct spool *spool;
	struct marks *marks; /* for capture_steps() */
	struct local_pods *pods; /* NULL = none */
	struct tracer *const *tracers; /* opened; NULL-terminated */
	const char *host; /* this host's name in sessions */
	uint64_t file_limit_bytes; /* of each file of a session */
};

struct captures *captures_new(const struct capture_env *env);
void captures_free(struct captures *cs); /* cancels captures under way; NULL is fine */

/*
 * T0 may lie in the past. ERR_EXISTS for a session that is already here, ERR_FULL when the spool is full,
 * ERR_LIMIT when too many captures are under way, ERR_INVALID for an unknown tracer or a setting out of its
 * range. The capture lives until it is released. `changed` is not called before this returns.
 *
 * Before the clock is calibrated the window is cut by this host's wall clock. Times in the file come from
 * the clock model at the time of assembly; a file without a calibrated clock has a warning.
 */
MUST_CHECK int capture_start(struct captures *cs, const struct capture_request *req,
			     struct capture **out, struct err *e);

/* Ends the window early and keeps the data; `give_up_ns` as in the request, 0 = as before. */
void capture_stop(struct capture *c, int64_t t1_ns, int64_t give_up_ns);
/* This agent stops: the window ends at t1_ns at the latest, which is reported as window-cut, and what tracers have not
 * given by give_up_mono_ns is left out. */
void capture_cut(struct capture *c, int64_t t1_ns, int64_t give_up_mono_ns);
void capture_release(struct capture *c); /* cancels if under way, removes its files, frees it */
/* Frees a capture in READY; its file stays in the spool for the next agent. */
void capture_release_keep_file(struct capture *c);

const char *capture_session(const struct capture *c);
int64_t capture_t0_ns(const struct capture *c); /* of its window, session clock */
int64_t capture_t1_ns(const struct capture *c);
const char *capture_path(const struct capture *c); /* of the file, in READY */
uint64_t capture_bytes(const struct capture *c);
uint64_t capture_bytes_made(const struct capture *c); /* of the file, in ASSEMBLING */
uint32_t capture_crc32(const struct capture *c); /* of the file, in READY */
/* In READY: the session's files that the file at capture_path() holds, one after the other. Borrowed. */
const struct capture_file *capture_files(const struct capture *c, unsigned int *n);
/* In READY: what other hosts may have seen, too (xspace/causality.h). Borrowed. */
const struct buf *capture_observations(const struct capture *c);
const char *capture_dir(const struct capture *c); /* the file's folder */
uint64_t capture_events(const struct capture *c);
const struct err *capture_error(const struct capture *c); /* in FAILED */
const char *capture_reason(const struct capture *c); /* in FAILED: of proto/reasons.h */
const struct clock_model *capture_clock(const struct capture *c); /* as used for the file */
int64_t capture_bound_ns(const struct capture *c); /* largest clock error in the window */
struct clock_slack capture_slack(const struct capture *c); /* of all times of the window */

/* The training steps in the window; false if none began in it. */
bool capture_steps(const struct capture *c, Tutti__V1__StepsSeen *out);

/* One per requested tracer; complete in READY and FAILED. Borrowed. */
const struct capture_report *capture_reports(const struct capture *c, size_t *n);

#endif
