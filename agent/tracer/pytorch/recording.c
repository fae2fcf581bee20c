/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/pytorch/recording.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/proc/living.h"
#include "agent/tracer/pytorch/hook.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

/* After this long a process that was told of a recording without an end has begun it. */
#define OPEN_BEGIN_NS (3 * NS_PER_S)

/* A process that was told of a step which has passed begins within this time, also on a busy machine. */
#define BEGIN_NS (500 * NS_PER_MS)

#define LOOK_EVERY_NS (200 * NS_PER_MS)

/* In this time a user's file systems are waited for FAR_USER_ASLEEP_NS at most. */
#define LOOKS_NS (10 * NS_PER_S)

/* How long the file of a process that waits for a step is looked for: the step may come at any time. */
#define LEFTOVERS_OF_STEPS_NS (24 * 3600 * NS_PER_S)

/* Spool space per byte of the file: for the copy and the XSpace. */
#define SPOOL_FACTOR 2

/* A job of a worker: looks for the file or, with `path` set, converts it. */
struct fetch {
	struct fetch *next;
	struct recording *recording; /* NULL = it is not waited for any more */
	struct recording_workers *workers;
	struct trace_place place;
	char *to;
	uint64_t bytes;
	uint64_t salt;
	int64_t start_real_ns;
	uint32_t steps; /* that it was told to record; 0 = a window */
	bool is_last; /* it is waited for no longer: what the process left of it goes */
	bool begins; /* files that could not be opened before may be opened again */
	bool is_gone; /* the process had ended before the worker looked for its file */
	struct kineto_counts counts;
	int rc;
	struct err e;
};

struct recording *recording_new(const struct recording_conf *conf, const struct pytorch_process *p)
{
	struct recording *r = xcalloc(1, sizeof(*r));

	r->conf = conf;
	r->place = (struct trace_place){
		.pid = p->pid, .inner_pid = p->inner_pid, .uid = p->uid, .run = conf->number
	};
	trace_place_name(&r->place);
	memcpy(r->comm, p->comm, sizeof(r->comm));
	r->reason = "";
	return r;
}

static void leave_file(struct recording *r)
{
	int64_t patience_ns = r->conf->n_steps ? LEFTOVERS_OF_STEPS_NS
					       : RECORDING_LEFTOVER_PATIENCE_NS;

	if (r->has_file)
		leftovers_add(r->conf->leftovers, &r->place, r->file_by_mono_ns + patience_ns);
	r->has_file = false;
}

/* The process's hook need not wait any more. */
static void let_go(const struct recording *r)
{
	if (r->is_open)
		hook_drop_piece(r->conf->hook_dir, r->place.inner_pid);
}

void recording_free(struct recording *r)
{
	leave_file(r);
	let_go(r);
	loop_timer_cancel(r->conf->loop, &r->timer);
	if (r->fetch)
		r->fetch->recording = NULL;
	free(r->path);
	free(r);
}

static void end(struct recording *r, const char *reason, const char *detail)
{
	loop_timer_cancel(r->conf->loop, &r->timer);
	if (r->fetch)
		r->fetch->recording = NULL;
	r->fetch = NULL;
	leave_file(r);
	let_go(r);
	r->state = RECORDING_ENDED;
	r->reason = reason;
	snprintf(r->detail, sizeof(r->detail), "%s", detail);
	r->conf->ended(r->conf->arg);
}

void recording_give_up(struct recording *r, const char *reason, const char *detail)
{
	if (r->state != RECORDING_ENDED)
		end(r, reason, detail);
}

/* ---- telling ---- */

static void write_common(const struct recording *r, struct buf *out)
{
	const struct recording_conf *conf = r->conf;
	const char *pid = strrchr(r->place.name, '_');

	buf_addf(out, "ACTIVITIES_LOG_FILE=%s/%.*s.json\n", TRACE_FOLDER,
		 (int)(pid - r->place.name), r->place.name);
	buf_addf(out, "PROFILE_WITH_STACK=%s\n", conf->with_stack ? "true" : "false");
	buf_addf(out, "PROFILE_REPORT_INPUT_SHAPES=%s\n", conf->with_shapes ? "true" : "false");
}

static void write_window(const struct recording *r, int64_t start_real_ns, int64_t duration_ms,
			 struct buf *out)
{
	buf_addf(out, "PROFILE_START_TIME=%" PRId64 "\n", start_real_ns / NS_PER_MS);
	buf_addf(out, "ACTIVITIES_WARMUP_PERIOD_SECS=%" PRId64 "\n", r->conf->warm_up_s);
	buf_addf(out, "ACTIVITIES_DURATION_MSECS=%" PRId64 "\n", duration_ms);
	write_common(r, out);
}

/* PyTorch counts calls of optimizer.step() from 0. It begins to record at the end of the call with the given
 * number, or at the next one if that has passed. */
static void write_steps(const struct recording *r, struct buf *out)
{
	const struct recording_conf *conf = r->conf;

	buf_addf(out, "PROFILE_START_ITERATION=%" PRId64 "\n",
		 conf->first_step ? conf->first_step - 1 : 0);
	if (conf->step_multiple > 1)
		buf_addf(out, "PROFILE_START_ITERATION_ROUNDUP=%" PRId64 "\n", conf->step_multiple);
	buf_addf(out, "ACTIVITIES_WARMUP_ITERATIONS=1\nACTIVITIES_ITERATIONS=%" PRId64 "\n",
		 conf->n_steps);
	write_common(r, out);
}

static void look(void *arg);

static void tell_window(struct recording *r, struct buf *config)
{
	const struct tracer_run *run = r->conf->run;
	int64_t now_ns = now_real_ns();
	int64_t end_ns = run->t0_real_ns + (run->t1_raw_ns - run->t0_raw_ns);
	int64_t start_ns = now_ns + r->conf->warm_up_s * NS_PER_S + RECORDING_REACTION_NS;
	int64_t duration_ms;

	if (start_ns < run->t0_real_ns)
		start_ns = run->t0_real_ns;
	if (start_ns >= end_ns) {
		char text[160];

		snprintf(text, sizeof(text),
			 "it asked too late: it could begin %.1f s after T0, the window ends after "
			 "%.1f s; start the capture later or make it longer",
			 (double)(start_ns - run->t0_real_ns) / 1e9,
			 (double)(end_ns - run->t0_real_ns) / 1e9);
		end(r, REASON_REFUSED_LATE, text);
		return;
	}
	if (r->conf->piece_ns && end_ns - start_ns > r->conf->piece_ns)
		end_ns = start_ns + r->conf->piece_ns;
	/* Whole milliseconds around the window; the rest is cut off later. */
	duration_ms = (end_ns - start_ns) / NS_PER_MS + 3;
	write_window(r, start_ns, duration_ms, config);
	log_debug("AGENT-PYTORCH", "pid=%" PRId64 " state=told in_ms=%" PRId64, r->place.pid,
		  (start_ns - now_ns) / NS_PER_MS);
	r->late_ns = start_ns - run->t0_real_ns;
	r->told_from_real_ns = start_ns;
	r->told_to_real_ns = end_ns;
	r->state = RECORDING_TOLD;
	r->has_file = true;
	r->file_by_mono_ns = now_mono_ns() + (start_ns - now_ns) + duration_ms * NS_PER_MS +
			     RECORDING_FILE_PATIENCE_NS;
	if (r->conf->piece_ns)
		loop_timer_in(r->conf->loop, &r->timer, end_ns - now_ns, look, r);
}

/* The process may begin at once, so it is told only at T0. */
static void tell_steps(struct recording *r, struct buf *config)
{
	const struct tracer_run *run = r->conf->run;

	r->told_real_ns = now_real_ns();
	if (r->told_real_ns < run->t0_real_ns)
		return;
	write_steps(r, config);
	r->state = RECORDING_TOLD;
	r->has_file = true;
	r->file_by_mono_ns = now_mono_ns() + (run->t1_raw_ns - now_raw_ns()) +
			     RECORDING_FILE_PATIENCE_NS;
	loop_timer_in(r->conf->loop, &r->timer, LOOK_EVERY_NS, look, r);
}

/* A recording that the process's hook ends, by steps. False: the hook cannot be told. */
static bool tell_open(struct recording *r, struct buf *config)
{
	const struct recording_conf *conf = r->conf;
	struct err e;

	if (!conf->open_ns ||
	    hook_get_state(conf->hook_dir, r->place.inner_pid, r->place.uid) != HOOK_READY ||
	    hook_set_piece(conf->hook_dir, r->place.inner_pid, conf->open_ns / NS_PER_S, &e))
		return false;
	buf_addf(config,
		 "PROFILE_START_ITERATION=0\nACTIVITIES_WARMUP_ITERATIONS=1\n"
		 "ACTIVITIES_ITERATIONS=%d\n",
		 HOOK_STEPS);
	write_common(r, config);
	r->is_open = true;
	r->has_file = true;
	r->told_real_ns = now_real_ns();
	r->state = RECORDING_TOLD;
	r->file_by_mono_ns = now_mono_ns() + (conf->run->t1_raw_ns - now_raw_ns()) +
			     RECORDING_FILE_PATIENCE_NS;
	loop_timer_in(conf->loop, &r->timer, LOOK_EVERY_NS, look, r);
	return true;
}

void recording_note_ask(struct recording *r, const struct pytorch_process *p)
{
	if (r->is_open && p->can_record && now_real_ns() - r->told_real_ns > OPEN_BEGIN_NS)
		recording_wait_until(r, now_mono_ns() + OPEN_BEGIN_NS);
}

void recording_tell(struct recording *r, const struct pytorch_process *p, struct buf *config)
{
	r->was_busy = !p->can_record;
	if (!p->can_record || tell_open(r, config))
		return;
	if (r->conf->n_steps)
		tell_steps(r, config);
	else
		tell_window(r, config);
}

void recording_wait_until(struct recording *r, int64_t mono_ns)
{
	if (mono_ns < r->file_by_mono_ns)
		r->file_by_mono_ns = mono_ns;
}

/* ---- fetching ---- */

static void fetch_start(struct recording *r, char *to, uint64_t bytes);

static void fetch_run(void *arg)
{
	struct fetch *f = arg;
	struct far_files *ff = f->to ? f->workers->conversions : f->workers->looks;

	if (f->begins)
		(void)far_files_begin(ff);
	if (!f->to) {
		f->is_gone = proc_has_ended((uint32_t)f->place.pid);
		f->rc = trace_file_look(ff, &f->place, &f->bytes, &f->e);
		if (f->rc == ERR_NOT_FOUND && (f->is_gone || f->is_last))
			trace_file_remove(ff, &f->place, true);
		return;
	}
	f->rc = trace_file_convert(ff, &f->place, f->to, f->bytes, f->salt, f->start_real_ns,
				   f->steps, &f->counts, &f->e);
	trace_file_remove(ff, &f->place, true);
}

static void look(void *arg)
{
	struct recording *r = arg;

	r->state = RECORDING_FETCHING;
	fetch_start(r, NULL, 0);
}

/* The worker has looked for the file: it is not there yet, or its size is known. */
static void on_looked(struct recording *r, const struct fetch *f)
{
	const struct recording_conf *conf = r->conf;
	uint64_t bytes = f->bytes;
	char text[160];

	if (f->rc == ERR_NOT_FOUND && f->is_gone) {
		r->has_file = false;
		end(r, REASON_PROFILER_LOST, "the process ended while it recorded");
	} else if (f->rc == ERR_NOT_FOUND && !f->is_last &&
		   (r->is_open || now_mono_ns() < r->file_by_mono_ns)) {
		loop_timer_in(conf->loop, &r->timer, LOOK_EVERY_NS, look, r);
	} else if (f->rc == ERR_NOT_FOUND && conf->n_steps) {
		end(r, REASON_REFUSED_LATE,
		    "its steps did not come in the window: does it call optimizer.step(), and is "
		    "the "
		    "first step near enough?");
	} else if (f->rc == ERR_NOT_FOUND && r->is_open) {
		end(r, REASON_PROFILER_BUSY,
		    "it ended the recording without a file: does the program use "
		    "torch.profiler itself?");
	} else if (f->rc == ERR_NOT_FOUND) {
		end(r, REASON_REFUSED_LATE,
		    "it wrote no file: its own log says \"insufficient time for warmup\", or why "
		    "it did not record");
	} else if (f->rc) {
		end(r, f->rc == ERR_DENIED ? REASON_NO_PERMISSION : REASON_TRACER_FAILED, f->e.msg);
	} else if (bytes > KINETO_MAX_BYTES) {
		snprintf(text, sizeof(text),
			 "its trace has %" PRIu64 " MiB, more than %" PRIu64 ": make the window "
			 "shorter",
			 bytes >> 20, KINETO_MAX_BYTES >> 20);
		end(r, REASON_TOO_LARGE, text);
	} else if (conf->workers->is_converting) {
		loop_timer_in(conf->loop, &r->timer, LOOK_EVERY_NS, look, r);
	} else if (!conf->run->reserve_bytes(conf->run, SPOOL_FACTOR * bytes)) {
		end(r, REASON_DISK_FULL, "its trace does not fit into the spool");
	} else {
		fetch_start(r,
			    xasprintf("%s/pytorch-%" PRId64 ".xplane.pb", conf->run->dir,
				      r->place.pid),
			    bytes);
	}
}

/* Which step the recording began with: the given one if it was still to come, else the next one. */
static bool began_at_once(const struct recording *r)
{
	int64_t period_ns = (r->to_real_ns - r->from_real_ns) / r->conf->n_steps;

	return r->conf->first_step && r->from_real_ns - r->told_real_ns < 3 * period_ns + BEGIN_NS;
}

/* The recording has data: checks whether that is what was requested. */
static void check_interval(struct recording *r)
{
	const struct recording_conf *conf = r->conf;
	char text[160];

	if (conf->n_steps && began_at_once(r)) {
		snprintf(text, sizeof(text),
			 "it began at once: step %" PRId64 " may have passed, and then its %" PRId64
			 " steps are later ones than requested",
			 conf->first_step, conf->n_steps);
		end(r, REASON_REFUSED_LATE, text);
	} else if (r->late_ns && !conf->piece_ns) {
		snprintf(text, sizeof(text), "it began %.1f s after T0: it was told late",
			 (double)r->late_ns / 1e9);
		end(r, REASON_WINDOW_CUT, text);
	} else {
		end(r, "", "");
	}
}

static void on_converted(struct recording *r, struct fetch *f)
{
	if (f->rc) {
		end(r, f->rc == ERR_LIMIT ? REASON_TOO_LARGE : REASON_TRACER_FAILED, f->e.msg);
	} else if (!f->counts.events) {
		end(r, REASON_EMPTY,
		    "it recorded no event: does it still import torch, does it run operators, and "
		    "is "
		    "this build of PyTorch known to record?");
	} else {
		r->path = f->to;
		f->to = NULL;
		r->start_real_ns = f->counts.start_unix_ns;
		r->unfinished = f->counts.unfinished;
		r->from_real_ns = f->counts.from_unix_ns;
		r->to_real_ns = f->counts.to_unix_ns;
		check_interval(r);
	}
}

static void fetch_done(void *arg);

static void begin_look(struct recording_workers *w)
{
	struct fetch *f = w->first;
	int64_t now_ns = now_mono_ns();

	if (w->is_looking || !f)
		return;
	w->first = f->next;
	w->is_looking = true;
	f->begins = now_ns - w->looks_began_ns >= LOOKS_NS;
	if (f->begins)
		w->looks_began_ns = now_ns;
	loop_work(w->loop, fetch_run, fetch_done, f);
}

static void wait_for_look(struct recording_workers *w, struct fetch *f)
{
	if (w->first)
		w->last->next = f;
	else
		w->first = f;
	w->last = f;
	begin_look(w);
}

void recording_workers_init(struct recording_workers *w, struct loop *loop,
			    const struct file_keeper *keeper)
{
	*w = (struct recording_workers){ .loop = loop,
					 .looks = far_files_new(keeper),
					 .conversions = far_files_new(keeper) };
}

void recording_workers_release(struct recording_workers *w)
{
	far_files_stop(w->looks);
	far_files_stop(w->conversions);
	while (w->live)
		loop_turn(w->loop, 50);
	far_files_free(w->looks);
	far_files_free(w->conversions);
}

static void fetch_done(void *arg)
{
	struct fetch *f = arg;
	struct recording *r = f->recording;

	f->workers->live--;
	if (f->to) {
		f->workers->is_converting = false;
	} else {
		f->workers->is_looking = false;
		begin_look(f->workers);
	}
	if (r) {
		r->fetch = NULL;
		if (f->to)
			on_converted(r, f);
		else
			on_looked(r, f);
	}
	free(f->to);
	free(f);
}

static void fetch_start(struct recording *r, char *to, uint64_t bytes)
{
	struct fetch *f = xcalloc(1, sizeof(*f));

	f->recording = r;
	f->workers = r->conf->workers;
	f->place = r->place;
	f->to = to;
	f->bytes = bytes;
	f->salt = r->conf->salt;
	f->start_real_ns = r->start_real_ns;
	f->steps = (uint32_t)r->conf->n_steps;
	f->is_last = r->is_open && now_mono_ns() >= r->file_by_mono_ns;
	r->fetch = f;
	f->workers->live++;
	if (to) { /* its worker then also removes the file */
		f->workers->is_converting = f->begins = true;
		r->has_file = false;
		loop_work(r->conf->loop, fetch_run, fetch_done, f);
	} else {
		wait_for_look(f->workers, f);
	}
}

/* The hook ends the recording now; the file comes soon after that. */
static void end_open(struct recording *r)
{
	struct err e;

	if (hook_set_piece(r->conf->hook_dir, r->place.inner_pid, 0, &e))
		recording_give_up(r, REASON_TRACER_FAILED, e.msg);
	else
		recording_wait_until(r, now_mono_ns() + RECORDING_FILE_PATIENCE_NS);
}

void recording_gather(struct recording *r)
{
	if (r->is_open && r->state != RECORDING_ENDED)
		end_open(r);
	else if (r->state == RECORDING_TOLD) {
		loop_timer_cancel(r->conf->loop, &r->timer);
		look(r);
	} else if (r->state == RECORDING_WAITING && r->was_busy)
		end(r, REASON_PROFILER_BUSY,
		    "another recording runs in that process: end it or wait");
	else if (r->state == RECORDING_WAITING && proc_has_ended((uint32_t)r->place.pid))
		end(r, REASON_PROFILER_LOST, "the process ended before it was told to record");
	else if (r->state == RECORDING_WAITING)
		end(r, REASON_NO_POLL,
		    "it did not ask since the capture was armed: is it stopped, or does it ask "
		    "less often than --pytorch-poll says?");
}
