/* SPDX-License-Identifier: Apache-2.0 */
/* The window: arms the tracers before it, gathers after it, gives up tracers that take too long. */
#include "agent/capture/capture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/capture/capture_impl.h"
#include "agent/capture/request.h"
#include "agent/capture/spool.h"
#include "agent/clock/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

/* Least time for tracers to gather, even if this agent was late at the window's end. */
#define GATHER_LEAST_NS (100 * NS_PER_MS)

/* How far probes after Arm may move the window's end at most. */
#define WINDOW_SHIFT_MAX_NS (10 * NS_PER_S)

/* Limits of the margin: tracers gather so much more on each side of the window. */
#define MARGIN_MAX_NS  (10 * NS_PER_S)
#define MARGIN_WAIT_NS (100 * NS_PER_MS) /* longest wait for the margin after T1 */

/* Probes stay dense for this long after the window. */
#define PROBES_AFTER_NS (2 * NS_PER_S)

struct captures *captures_new(const struct capture_env *env)
{
	struct captures *cs = xcalloc(1, sizeof(*cs));

	cs->env = *env;
	return cs;
}

void captures_free(struct captures *cs)
{
	if (!cs)
		return;
	while (cs->head)
		capture_release(cs->head);
	free(cs);
}

static struct capture *find_capture(const struct captures *cs, const char *session)
{
	struct capture *c = cs->head;

	while (c && strcmp(c->session, session))
		c = c->next;
	return c;
}

void capture_set_state(struct capture *c, enum capture_state state)
{
	c->state = state;
	if (c->changed)
		c->changed(c, state, c->arg);
}

/* ---- time ---- */

/* If raw_ns is in the future: calls fn at that time, and returns true. */
static bool wait_until_raw(struct capture *c, int64_t raw_ns, loop_fn fn)
{
	if (now_raw_ns() >= raw_ns)
		return false;
	loop_timer_at(c->captures->env.loop, &c->next_state, now_mono_of_raw(raw_ns), fn, c);
	return true;
}

static int64_t raw_of(const struct capture *c, int64_t session_ns)
{
	return clock_model_raw_of_session(&c->clock, session_ns);
}

/* ---- after the window ---- */

static void assemble_if_done(struct capture *c);

static void on_probes_end(void *arg)
{
	assemble_if_done(arg);
}

static void assemble_if_done(struct capture *c)
{
	if (c->state != CAPTURE_GATHERING || c->calling_tracers)
		return;
	for (size_t i = 0; i < c->n_runs; i++) {
		if (c->runs[i].unfinished)
			return;
	}
	loop_timer_cancel(c->captures->env.loop, &c->give_up);
	if (now_mono_ns() < c->probes_end_mono_ns)
		loop_timer_at(c->captures->env.loop, &c->next_state, c->probes_end_mono_ns,
			      on_probes_end, c);
	else
		capture_assemble(c);
}

static void on_run_done(struct tracer_run *run)
{
	struct capture_run *r = run->done_arg;
	struct loop *loop = r->capture->captures->env.loop;
	/* The CPU time from here on is not charged to the tracer's account. */
	struct loop_account *tracers = loop_account_enter(loop, NULL);

	r->unfinished = false;
	assemble_if_done(r->capture);
	loop_account_enter(loop, tracers);
}

/* Removes part files, too. */
void capture_drop_parts(struct tracer_run *run)
{
	for (size_t i = 0; i < run->n_parts; i++) {
		buf_release(&run->parts[i].bytes);
		if (run->parts[i].path)
			unlink(run->parts[i].path);
		free(run->parts[i].path);
	}
	free(run->parts);
	run->parts = NULL;
	run->n_parts = 0;
}

/* Charges the spool for part files; they are merged and removed before the capture is ready. */
static bool charge_part_bytes(struct tracer_run *run, uint64_t bytes)
{
	const struct capture_run *r = run->done_arg;
	struct capture *c = r->capture;
	struct spool *spool = c->captures->env.spool;

	if (bytes > spool_available(spool))
		return false;
	spool_charge(spool, bytes);
	c->part_bytes += bytes;
	return true;
}

void capture_return_part_bytes(struct capture *c)
{
	spool_uncharge(c->captures->env.spool, c->part_bytes);
	c->part_bytes = 0;
}

static void cancel_run(struct capture_run *r)
{
	r->unfinished = false;
	r->tracer->ops->cancel(r->tracer, &r->run);
	capture_drop_parts(&r->run);
}

static void give_up_run(struct capture_run *r)
{
	log_warn("AGT-TRACER", "session=%s tracer=%s reason=timeout", r->capture->session,
		 r->tracer->ops->name);
	if (r->tracer->ops->give_up) {
		r->tracer->ops->give_up(r->tracer, &r->run);
		return;
	}
	cancel_run(r);
	tracer_run_set_result(
		&r->run, RUN_FAILED, REASON_TRACER_FAILED,
		"timeout: the tracer gave no data before the capture's time to gather ended");
}

static void on_give_up(void *arg)
{
	struct capture *c = arg;

	c->calling_tracers = true;
	for (size_t i = 0; i < c->n_runs; i++) {
		if (c->runs[i].unfinished)
			give_up_run(&c->runs[i]);
	}
	c->calling_tracers = false;
	assemble_if_done(c);
}

static int64_t min_ns(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Probes since Arm, and steps or sleep of the host, move the window on the raw clock. A host that slept may
 * be far beyond it. */
static void update_window(struct capture *c)
{
	struct clock_model m = clock_window_model(c->captures->env.clock, c->t0_raw_ns,
						  c->t1_raw_ns);
	int64_t t1_raw_ns = clock_model_raw_of_session(&m, c->t1_ns);

	/* The new model is uncalibrated, or of another session clock: the old one stays. */
	if (!m.calibrated || t1_raw_ns > c->t1_raw_ns + WINDOW_SHIFT_MAX_NS) {
		clock_model_free(&m);
		return;
	}
	clock_model_free(&c->clock);
	c->clock = m;
	c->t0_raw_ns = raw_of(c, c->t0_ns);
	c->t1_raw_ns = t1_raw_ns;
	c->margin_ns = clock_model_bound_over(&m, c->t0_raw_ns, c->t1_raw_ns);
	c->margin_ns = min_ns(c->margin_ns, MARGIN_MAX_NS);
}

/* Tracers gather a margin on both sides, because the exact window is known only when the file is made. */
static void gather_all(struct capture *c)
{
	c->gathered_raw_ns = min_ns(c->t1_raw_ns + c->margin_ns, now_raw_ns());
	c->calling_tracers = true;
	for (size_t i = 0; i < c->n_runs; i++) {
		struct capture_run *r = &c->runs[i];

		if (!r->unfinished)
			continue;
		r->run.t0_raw_ns = c->t0_raw_ns - c->margin_ns;
		r->run.t1_raw_ns = c->gathered_raw_ns;
		r->tracer->ops->gather(r->tracer, &r->run);
	}
	c->calling_tracers = false;
}

static void on_t1(void *arg);

/* With a wide bound the window may not be over yet: then gathering waits for new probes, but only once. */
static bool wait_for_probes(struct capture *c)
{
	if (c->margin_ns <= MARGIN_WAIT_NS || c->awaited_probes)
		return false;
	c->awaited_probes = true;
	loop_timer_at(c->captures->env.loop, &c->next_state,
		      clock_probe_after_window(c->captures->env.clock), on_t1, c);
	return true;
}

/* Places the edges of a window that is over, once: later models do not move them. Tracers gather exactly what is between
 * them. */
static void place_edges(struct capture *c)
{
	if (!c->is_past || !c->clock.calibrated)
		return;
	c->edges = edges_place(&c->captures->edges, &c->clock, c->t0_ns, c->t1_ns);
	if (!c->edges.from.session_ns)
		return;
	c->t0_raw_ns = c->edges.from.raw_ns;
	c->t1_raw_ns = c->edges.to.raw_ns;
	c->margin_ns = 0;
}

static void on_t1(void *arg)
{
	struct capture *c = arg;

	update_window(c);
	if (wait_until_raw(c, c->t1_raw_ns + min_ns(c->margin_ns, MARGIN_WAIT_NS), on_t1) ||
	    wait_for_probes(c))
		return;
	c->probes_end_mono_ns = clock_probe_after_window(c->captures->env.clock);
	c->was_over = now_raw_ns() >= c->t1_raw_ns + c->margin_ns;
	place_edges(c);
	capture_set_state(c, CAPTURE_GATHERING);
	gather_all(c);
	if (c->give_up_mono_ns < now_mono_ns() + GATHER_LEAST_NS)
		c->give_up_mono_ns = now_mono_ns() + GATHER_LEAST_NS;
	loop_timer_at(c->captures->env.loop, &c->give_up, c->give_up_mono_ns, on_give_up, c);
	assemble_if_done(c);
}

static void on_t0(void *arg)
{
	struct capture *c = arg;

	if (wait_until_raw(c, c->t0_raw_ns, on_t0))
		return;
	capture_set_state(c, CAPTURE_RUNNING);
	loop_timer_at(c->captures->env.loop, &c->next_state, now_mono_of_raw(c->t1_raw_ns), on_t1,
		      c);
}

void capture_stop(struct capture *c, int64_t t1_ns, int64_t give_up_ns)
{
	if (c->state > CAPTURE_RUNNING || t1_ns >= c->t1_ns)
		return;
	c->t1_ns = t1_ns > c->t0_ns ? t1_ns : c->t0_ns;
	c->t1_raw_ns = raw_of(c, c->t1_ns);
	if (give_up_ns)
		c->give_up_mono_ns = now_mono_of_raw(raw_of(c, give_up_ns));
	for (size_t i = 0; i < c->n_runs; i++) {
		struct capture_run *r = &c->runs[i];

		if (!r->unfinished)
			continue;
		r->run.t1_raw_ns = c->t1_raw_ns;
		if (r->tracer->ops->stop)
			r->tracer->ops->stop(r->tracer, &r->run);
	}
	if (c->state == CAPTURE_RUNNING)
		loop_timer_at(c->captures->env.loop, &c->next_state, now_mono_of_raw(c->t1_raw_ns),
			      on_t1, c);
}

void capture_cut(struct capture *c, int64_t t1_ns, int64_t give_up_mono_ns)
{
	int64_t planned_ns = c->t1_ns;

	capture_stop(c, t1_ns, 0);
	c->cut_ns += planned_ns - c->t1_ns;
	if (give_up_mono_ns >= c->give_up_mono_ns)
		return;
	c->give_up_mono_ns = give_up_mono_ns;
	if (c->state == CAPTURE_GATHERING)
		loop_timer_at(c->captures->env.loop, &c->give_up, give_up_mono_ns, on_give_up, c);
}

/* ---- before the window ---- */

static const char *reason_of(int code)
{
	switch (code) {
	case ERR_DENIED:
		return REASON_NO_PERMISSION;
	case ERR_UNSUPPORTED:
		return REASON_UNSUPPORTED;
	default:
		return REASON_TRACER_FAILED;
	}
}

static void arm_run(struct capture *c, struct capture_run *r, struct tracer *tracer,
		    const struct capture_request *req)
{
	struct err e = { 0 };

	*r = (struct capture_run){ .capture = c, .tracer = tracer, .unfinished = true };
	if (tracer_values(tracer->ops, req->settings, req->n_settings, &r->settings, &e)) {
		r->unfinished = false; /* not reached: request_check() refuses such settings */
		return;
	}
	r->texts = tracer_texts(tracer->ops, req->settings, req->n_settings);
	r->run = (struct tracer_run){
		.session = c->session,
		.t0_raw_ns = c->t0_raw_ns,
		.t1_raw_ns = c->t1_raw_ns,
		.t0_real_ns = clock_model_real_of_raw(&c->clock, c->t0_raw_ns),
		.give_up_mono_ns = c->give_up_mono_ns,
		.settings = r->settings,
		.texts = r->texts,
		.profile_options = c->options,
		.profile_options_len = c->options_len,
		.is_named = req->tracers != NULL,
		.dir = c->dir,
		.reserve_bytes = charge_part_bytes,
		.done = on_run_done,
		.done_arg = r,
	};
	if (!tracer->ops->arm || !tracer->ops->arm(tracer, &r->run, &e))
		return;
	r->unfinished = false;
	capture_drop_parts(&r->run);
	if (r->run.result == RUN_OK)
		tracer_run_set_result(&r->run, RUN_FAILED, reason_of(e.code), "%s", e.msg);
}

static void arm_all(struct capture *c, const struct capture_request *req)
{
	struct tracer *const *all = c->captures->env.tracers;
	const struct request_levels levels = request_levels(req);
	size_t n = 0;

	while (all[n])
		n++;
	/* Tracers keep pointers to runs, so the array must never move. */
	c->runs = xcalloc(n + 1, sizeof(*c->runs));
	for (size_t i = 0; i < n; i++) {
		if (request_wants(req, &levels, all[i]->ops))
			arm_run(c, &c->runs[c->n_runs++], all[i], req);
	}
}

static struct capture *capture_new(struct captures *cs, const struct capture_request *req,
				   char *dir_taken)
{
	struct capture *c = xcalloc(1, sizeof(*c));

	c->captures = cs;
	c->session = xstrdup(req->session);
	c->dir = dir_taken;
	c->path = xasprintf("%s/%s.xplane.pb", c->dir, cs->env.host);
	c->t0_ns = req->t0_ns;
	c->t1_ns = req->t0_ns + req->duration_ns;
	c->options_len = req->profile_options_len;
	c->options = xmalloc(c->options_len + 1);
	memcpy(c->options, c->options_len ? req->profile_options : "", c->options_len);
	c->changed = req->changed;
	c->arg = req->arg;
	c->clock = clock_model(cs->env.clock);
	c->was_calibrated = c->clock.calibrated;
	c->warnings = xcalloc(req->n_notes + 1, sizeof(*c->warnings));
	for (size_t i = 0; i < req->n_notes; i++)
		c->warnings[i] = xstrdup(req->notes[i]);
	c->t0_raw_ns = raw_of(c, c->t0_ns);
	c->t1_raw_ns = raw_of(c, c->t1_ns);
	c->is_past = now_raw_ns() - c->t0_raw_ns > c->t1_raw_ns - now_raw_ns();
	c->give_up_mono_ns = now_mono_of_raw(raw_of(c, req->give_up_ns));
	c->next = cs->head;
	cs->head = c;
	cs->n++;
	return c;
}

int capture_start(struct captures *cs, const struct capture_request *req, struct capture **out,
		  struct err *e)
{
	struct capture *c;
	int64_t probes_until_ns;
	char *dir;
	int rc;

	if (find_capture(cs, req->session))
		return err_set(e, ERR_EXISTS, "session %.64s is already under way on this host",
			       req->session);
	rc = request_check(cs, req, e);
	if (!rc)
		rc = spool_add(cs->env.spool, req->session, &dir, e);
	if (rc)
		return rc;
	c = capture_new(cs, req, dir);
	arm_all(c, req);
	probes_until_ns = now_mono_of_raw(c->t1_raw_ns) + PROBES_AFTER_NS;
	if (c->t1_raw_ns <= now_raw_ns())
		clock_probe_for_past(cs->env.clock, probes_until_ns, req->probe_gap_ns);
	else
		clock_probe_densely(cs->env.clock, probes_until_ns, req->probe_gap_ns);
	loop_timer_at(cs->env.loop, &c->next_state, now_mono_of_raw(c->t0_raw_ns), on_t0, c);
	*out = c;
	return 0;
}

/* ---- the end ---- */

void capture_destroy(struct capture *c)
{
	if (!c->keep_file)
		spool_remove(c->dir);
	for (size_t i = 0; i < c->n_runs; i++) {
		capture_drop_parts(&c->runs[i].run);
		free(c->runs[i].settings);
		free(c->runs[i].texts);
	}
	capture_release_assembly(c);
	buf_release(&c->observations);
	free(c->reports);
	free(c->runs);
	free(c->options);
	free(c->path);
	free(c->dir);
	free(c->session);
	clock_model_free(&c->clock);
	free(c);
}

static void unlink_capture(struct capture *c)
{
	struct capture **at = &c->captures->head;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->captures->n--;
	c->captures = NULL;
}

void capture_release(struct capture *c)
{
	const struct capture_env *env = &c->captures->env;

	loop_timer_cancel(env->loop, &c->next_state);
	loop_timer_cancel(env->loop, &c->give_up);
	for (size_t i = 0; i < c->n_runs; i++) {
		if (c->runs[i].unfinished)
			cancel_run(&c->runs[i]);
	}
	if (c->state == CAPTURE_READY || c->state == CAPTURE_ASSEMBLING)
		spool_uncharge(env->spool, c->bytes);
	capture_return_part_bytes(c);
	unlink_capture(c);
	/* A worker still uses it: on_assembled() frees it. */
	if (c->state != CAPTURE_ASSEMBLING)
		capture_destroy(c);
}

void capture_release_keep_file(struct capture *c)
{
	c->keep_file = c->state == CAPTURE_READY;
	capture_release(c);
}

const char *capture_session(const struct capture *c)
{
	return c->session;
}

int64_t capture_t0_ns(const struct capture *c)
{
	return c->t0_ns;
}

int64_t capture_t1_ns(const struct capture *c)
{
	return c->t1_ns;
}

const char *capture_path(const struct capture *c)
{
	return c->path;
}

uint64_t capture_bytes(const struct capture *c)
{
	return c->bytes;
}

uint64_t capture_bytes_made(const struct capture *c)
{
	struct stat st;

	return stat(c->path, &st) ? 0 : (uint64_t)st.st_size;
}

uint32_t capture_crc32(const struct capture *c)
{
	return c->assembly.crc32;
}

const struct capture_file *capture_files(const struct capture *c, unsigned int *n)
{
	*n = c->assembly.n_files;
	return c->assembly.files;
}

const struct buf *capture_observations(const struct capture *c)
{
	return &c->observations;
}

const char *capture_dir(const struct capture *c)
{
	return c->dir;
}

uint64_t capture_events(const struct capture *c)
{
	return c->events;
}

const struct err *capture_error(const struct capture *c)
{
	return &c->error;
}

const char *capture_reason(const struct capture *c)
{
	return c->reason;
}

const struct clock_model *capture_clock(const struct capture *c)
{
	return &c->clock;
}

const struct capture_report *capture_reports(const struct capture *c, size_t *n)
{
	*n = c->n_reports;
	return c->reports;
}
