/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One PyTorch process in one capture. The process asks regularly, and then gets a start and a duration. It
 * records for that time, and nothing can end that earlier. 1 to 3 s after the end its file is there.
 *
 *   WAITING -> TOLD -> FETCHING -> ENDED
 *
 * A recording that ends without a file has a reason. A file that is not fetched goes to the leftovers. Loop
 * thread.
 */
#ifndef AGENT_TRACER_PYTORCH_RECORDING_H
#define AGENT_TRACER_PYTORCH_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/tracer/pytorch/leftovers.h"
#include "agent/tracer/pytorch/processes.h"
#include "agent/tracer/pytorch/trace_file.h"
#include "agent/tracer/tracer.h"
#include "base/loop.h"

/* PyTorch begins in time only if the start is at least this long after the end of its warm-up. */
#define RECORDING_REACTION_NS (2 * NS_PER_S)

/* Its file is there 1 to 3 s after the end. */
#define RECORDING_FILE_PATIENCE_NS (10 * NS_PER_S)

/* How long a file that comes later is still looked for, to be removed. */
#define RECORDING_LEFTOVER_PATIENCE_NS (300 * NS_PER_S)

enum recording_state { RECORDING_WAITING, RECORDING_TOLD, RECORDING_FETCHING, RECORDING_ENDED };

/* What all recordings of a tracer share; it lives longer than their jobs on workers. */
struct recording_workers {
	struct loop *loop;
	int live; /* jobs */
	bool is_converting; /* one at a time: each needs memory */
	bool is_looking; /* one at a time, too */
	struct fetch *first, *last; /* that wait for that */
	struct far_files *looks,
		*conversions; /* who reads for these jobs: a file system may hang */
	int64_t looks_began_ns; /* CLOCK_MONOTONIC */
};

void recording_workers_init(struct recording_workers *w, struct loop *loop,
			    const struct file_keeper *keeper);
/* Ends their jobs, and waits for that. */
void recording_workers_release(struct recording_workers *w);

/* What the recordings of a run share; it lives longer than they do. */
struct recording_conf {
	struct loop *loop;
	struct tracer_run *run;
	struct recording_workers *workers;
	struct leftovers *leftovers; /* gets the files that are not fetched */
	uint32_t number; /* the tracer's, in the names of files */
	int64_t warm_up_s;
	bool with_stack, with_shapes;
	int64_t n_steps; /* record so many calls of optimizer.step(); 0 = the window */
	int64_t first_step; /* the first of them, counted from 0; 0 = the next one */
	/* begin with the next call whose number is a multiple of this; 0 or 1 = any */
	int64_t step_multiple;
	int64_t piece_ns; /* record no longer than this at once; 0 = the window */
	int64_t open_ns; /* in a process that has a hook (hook.h); 0 = as in one without */
	const char *hook_dir; /* NULL = there are no hooks */
	uint64_t salt; /* of flows */
	void (*ended)(void *arg); /* the state is RECORDING_ENDED now; the caller may free it */
	void *arg;
};

struct recording {
	struct recording *next; /* the owner's */
	/* the pieces that this recording belongs to; NULL = it is the process's only one */
	struct pieces *pieces;
	enum recording_state state;
	const struct recording_conf *conf;
	struct trace_place place;
	char comm[16];
	bool has_file; /* the process writes a file, which is not removed yet */
	bool was_busy; /* it asked, and said that it cannot record */
	bool is_open; /* the process's hook ends it */
	int64_t late_ns; /* from T0 to the start that it was given */
	int64_t told_real_ns;
	int64_t told_from_real_ns, told_to_real_ns; /* the time that it was given */
	int64_t file_by_mono_ns;
	struct loop_timer timer;
	struct fetch *fetch; /* on a worker */

	/* The result. */
	const char *reason; /* proto/reasons.h; "" = complete */
	char detail[160];
	char *path; /* of the XSpace; NULL = none */
	/* the times in the XSpace count from here. If set before the recording, `path` is appended to an XSpace with
	 * this start; 0 = a new XSpace */
	int64_t start_real_ns;
	/* the time that it recorded, if it was not told of a time; 0 = unknown */
	int64_t from_real_ns, to_real_ns;
	uint64_t unfinished;
};

struct recording *recording_new(const struct recording_conf *conf, const struct pytorch_process *p);
void recording_free(struct recording *r);

/* For a recording by steps: fetches its file as soon as it is there, and waits for it until mono_ns at most. */
void recording_wait_until(struct recording *r, int64_t mono_ns);

/* The process asks. Appends its configuration, or ends the recording if the window cannot be reached any more. */
void recording_tell(struct recording *r, const struct pytorch_process *p, struct buf *config);

/* The process asks while it is recorded. If it says that it does not record, its file is there, or never comes. */
void recording_note_ask(struct recording *r, const struct pytorch_process *p);

/* The window is over: if the process was told to record, fetches its file, else ends. */
void recording_gather(struct recording *r);

/* Ends the recording now with this reason, unless it has ended. */
void recording_give_up(struct recording *r, const char *reason, const char *detail);

#endif
