/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a capture: the report of each tracer, the merge on a worker, the outcome. */
#include "agent/capture/capture_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/capture/observe.h"
#include "agent/capture/spool.h"
#include "agent/clock/clock.h"
#include "agent/marks/marks.h"
#include "agent/pods/local_pods.h"
#include "agent/pods/pod_view.h"
#include "base/clean_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

/* space that is charged for environment planes and warnings in all files */
#define ENVIRONMENT_BYTES (1 << 20)

/* ---- reports and warnings ---- */

static const char *result_word(const struct tracer_run *run)
{
	static const char *const words[] = {
		[RUN_OK] = "ok",
		[RUN_DEGRADED] = "degraded",
		[RUN_FAILED] = "failed",
		[RUN_OFF] = "off",
	};

	return words[run->result];
}

/* Details may quote foreign text, and messages and XSpaces need UTF-8. */
static void clean_detail(struct tracer_run *run)
{
	char text[sizeof(run->detail)] = "";

	clean_sentence(text, sizeof(text), run->detail, strlen(run->detail));
	memcpy(run->detail, text, sizeof(text));
}

/* Whether all of the window was gathered, though the model at assembly puts its end so much after what was. At an edge
 * that is no loss if the window was over: the edge decides, and the next window goes on there. */
static bool has_whole_window(const struct capture *c, int64_t missing_ns)
{
	const struct window_edges none = { 0 };
	bool in_bound = missing_ns <=
			assemble_bound_ns(&c->clock, c->t0_ns, c->t1_ns, &none, false);

	return c->edges.from.session_ns ? c->was_over || in_bound : c->was_over && in_bound;
}

static void report_cut_end(struct capture *c)
{
	int64_t t1_raw_ns = clock_model_raw_of_session(&c->clock, c->t1_ns);
	int64_t missing_ns = t1_raw_ns - c->gathered_raw_ns;

	if (!c->was_calibrated || !c->clock.calibrated || missing_ns <= 0 ||
	    has_whole_window(c, missing_ns))
		return;
	for (size_t i = 0; i < c->n_runs; i++) {
		struct tracer_run *run = &c->runs[i].run;

		if (run->result == RUN_OK)
			tracer_run_set_result(run, RUN_DEGRADED, REASON_WINDOW_CUT,
					      "the last %" PRId64
					      " us were not gathered: a later clock model moved "
					      "the window's end",
					      missing_ns / NS_PER_US);
	}
}

static void report_stopped_agent(struct capture *c)
{
	for (size_t i = 0; c->cut_ns && i < c->n_runs; i++) {
		struct tracer_run *run = &c->runs[i].run;

		if (run->result == RUN_OK)
			tracer_run_set_result(
				run, RUN_DEGRADED, REASON_WINDOW_CUT,
				"the agent was stopped: the last %.3g s of the window "
				"were not recorded",
				(double)c->cut_ns / NS_PER_S);
	}
}

static void report_limit(struct capture_run *r)
{
	if (r->run.result == RUN_OK &&
	    tracer_was_limited(r->tracer, r->run.t0_raw_ns, r->run.t1_raw_ns))
		tracer_run_set_result(&r->run, RUN_DEGRADED, REASON_BUDGET, "%s",
				      r->tracer->limit.reason);
}

static void make_reports(struct capture *c)
{
	c->reports = xcalloc(c->n_runs + 1, sizeof(*c->reports));
	for (size_t i = 0; i < c->n_runs; i++) {
		struct tracer_run *run = &c->runs[i].run;

		report_limit(&c->runs[i]);
		clean_detail(run);
		c->reports[c->n_reports++] = (struct capture_report){
			.tracer = c->runs[i].tracer->ops->name,
			.state = result_word(run),
			.reason = run->reason,
			.detail = run->detail,
			.lost = run->lost,
		};
	}
}

static void add_warning(struct capture *c, char *text_taken)
{
	size_t n = 0;

	while (c->warnings[n])
		n++;
	c->warnings = xrealloc(c->warnings, (n + 2) * sizeof(*c->warnings));
	c->warnings[n] = text_taken;
	c->warnings[n + 1] = NULL;
}

static void add_clock_warning(struct capture *c)
{
	if (!c->clock.calibrated)
		add_warning(c, xasprintf("clock: not calibrated against the aggregator: times are "
					 "this host's own"));
	else if (!c->was_calibrated)
		add_warning(c,
			    xasprintf("clock: calibrated only during the capture: the window was "
				      "cut by this host's own clock"));
}

static void make_warnings(struct capture *c)
{
	for (size_t i = 0; i < c->n_reports; i++) {
		const struct capture_report *r = &c->reports[i];

		if (c->runs[i].run.result != RUN_OK)
			add_warning(c, xasprintf("%s: %s%s%s: %s", r->tracer, r->state,
						 *r->reason ? ", " : "", r->reason, r->detail));
		if (r->lost)
			add_warning(c, xasprintf("%s: %" PRIu64 " records were lost", r->tracer,
						 r->lost));
	}
	add_clock_warning(c);
}

/* ---- the file ---- */

/* Parts of processes whose pod opted out after the tracers had asked. */
static void drop_hidden_parts(struct capture *c, struct tracer_run *run)
{
	size_t kept = 0;

	for (size_t i = 0; i < run->n_parts; i++) {
		struct tracer_part *part = &run->parts[i];

		if (part->pid <= 0 || !pod_view_hides(c->pods, part->pid)) {
			run->parts[kept++] = *part;
			continue;
		}
		buf_release(&part->bytes);
		if (part->path)
			unlink(part->path);
		free(part->path);
	}
	run->n_parts = kept;
}

static size_t collect_parts(struct capture *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_runs; i++) {
		drop_hidden_parts(c, &c->runs[i].run);
		n += c->runs[i].run.n_parts;
	}
	c->parts = xcalloc(n + 1, sizeof(*c->parts));
	n = 0;
	for (size_t i = 0; i < c->n_runs; i++) {
		for (size_t j = 0; j < c->runs[i].run.n_parts; j++)
			c->parts[n++] = &c->runs[i].run.parts[j];
	}
	return n;
}

static uint64_t part_bytes(const struct tracer_part *part)
{
	struct stat st;

	if (!part->path)
		return part->bytes.len;
	return stat(part->path, &st) ? 0 : (uint64_t)st.st_size;
}

/* A translated time may take a byte more than the tracer's own. */
static uint64_t estimate_bytes(const struct capture *c, size_t n_parts)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n_parts; i++)
		bytes += part_bytes(c->parts[i]);
	return bytes + bytes / 8 + ENVIRONMENT_BYTES;
}

/* Charges the spool before the file is written, so that two captures together do not exceed its limit. */
static uint64_t charge_file_bytes(struct capture *c, size_t n_parts)
{
	struct spool *spool = c->captures->env.spool;
	uint64_t want = estimate_bytes(c, n_parts), left = spool_available(spool);

	c->bytes = want < left ? want : left;
	spool_charge(spool, c->bytes);
	return c->bytes;
}

static bool has_wall_times(const struct capture *c, size_t n_parts)
{
	for (size_t i = 0; i < n_parts; i++) {
		if (c->parts[i]->base == PART_REAL)
			return true;
	}
	return false;
}

static void make_assembly(struct capture *c)
{
	const struct capture_env *env = &c->captures->env;
	size_t n_parts;

	c->pods = local_pods_view(env->pods);
	n_parts = collect_parts(c);

	c->assembly = (struct assembly){
		.host = env->host,
		.session = c->session,
		.path = c->path,
		.clock = c->clock,
		.t0_ns = c->t0_ns,
		.t1_ns = c->t1_ns,
		.edges = c->edges,
		.bound_ns = assemble_bound_ns(&c->clock, c->t0_ns, c->t1_ns, &c->edges,
					      has_wall_times(c, n_parts)),
		.profile_options = c->options,
		.profile_options_len = c->options_len,
		.n_parts = n_parts,
		.parts = c->parts,
		.pods = c->pods,
		.warnings = (const char *const *)c->warnings,
		.limit_bytes = charge_file_bytes(c, n_parts),
		.file_bytes = env->file_limit_bytes,
	};
	c->assembly.results = xcalloc(n_parts + 1, sizeof(*c->assembly.results));
}

void capture_release_assembly(struct capture *c)
{
	for (size_t i = 0; c->warnings && c->warnings[i]; i++)
		free(c->warnings[i]);
	free(c->warnings);
	free(c->parts);
	free(c->assembly.results);
	pod_view_release(c->pods);
}

/* Without observations the host is not compared with others: its file is as good. */
static void observe(struct capture *c)
{
	struct err e;

	if (observe_file(c->path, c->assembly.bytes, c->t1_ns - c->t0_ns, &c->observations, &e))
		log_warn("AGT-CAPTURE", "session=%s reason=\"no observations: %s\"", c->session,
			 e.msg);
}

/* On a worker: the loop thread leaves the capture alone meanwhile. */
static void run_assembly(void *arg)
{
	struct capture *c = arg;

	c->error = (struct err){ 0 };
	c->error.code = assemble(&c->assembly, &c->error);
	if (!c->error.code)
		observe(c);
}

/* A tracer with a part that is not wholly in the file is degraded. */
static void report_left_out_part(struct capture *c, struct capture_run *r,
				 const struct tracer_part *part, enum part_result result)
{
	if (result == PART_USED)
		return;
	if (result == PART_TOO_LARGE)
		tracer_run_set_result(&r->run, RUN_DEGRADED, REASON_TOO_LARGE,
				      "%s: plane %s is left out: a file may have %" PRIu64
				      " bytes at most",
				      part->label, c->assembly.too_large_plane,
				      c->assembly.file_bytes);
	else if (result == PART_BEYOND_LIMITS)
		tracer_run_set_result(&r->run, RUN_DEGRADED, REASON_TOO_LARGE,
				      "%s: left out: it exceeds the limits of an XSpace; a warning "
				      "in the file names which",
				      part->label);
	else if (result == PART_NO_SPACE)
		tracer_run_set_result(&r->run, RUN_DEGRADED, REASON_DISK_FULL,
				      "%s: left out: the spool has no space for it (--spool-limit)",
				      part->label);
	else
		tracer_run_set_result(&r->run, RUN_DEGRADED,
				      part->pid ? REASON_PROFILER_FAILED : REASON_TRACER_FAILED,
				      "%s: left out: %s", part->label,
				      result == PART_INVALID
					      ? "it is not an XSpace"
					      : "its file in the spool cannot be read");
	clean_detail(&r->run);
	c->reports[r - c->runs].state = result_word(&r->run);
}

static void report_left_out_parts(struct capture *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_runs; i++) {
		struct capture_run *r = &c->runs[i];

		for (size_t j = 0; j < r->run.n_parts; j++)
			report_left_out_part(c, r, &r->run.parts[j], c->assembly.results[n++]);
	}
}

/* ERR_FULL: the spool or its disk is too small, which the operator can change. ERR_LIMIT: more than readers
 * of an XSpace accept. */
static const char *failure_reason(const struct capture *c)
{
	if (c->error.code == ERR_FULL)
		return REASON_DISK_FULL;
	return c->error.code == ERR_LIMIT ? REASON_TOO_LARGE : REASON_ASSEMBLE;
}

static void on_assembled(void *arg)
{
	struct capture *c = arg;

	if (!c->captures) {
		capture_destroy(c);
		return;
	}
	report_left_out_parts(c);
	for (size_t i = 0; i < c->n_runs; i++)
		capture_drop_parts(&c->runs[i].run);
	capture_return_part_bytes(c);
	spool_uncharge(c->captures->env.spool, c->bytes);
	if (c->error.code) {
		snprintf(c->reason, sizeof(c->reason), "%s", failure_reason(c));
		log_warn("AGT-CAPTURE", "session=%s state=failed reason=%s detail=\"%s\"",
			 c->session, c->reason, c->error.msg);
		capture_set_state(c, CAPTURE_FAILED);
		return;
	}
	c->bytes = c->assembly.bytes;
	c->events = c->assembly.events;
	spool_charge(c->captures->env.spool, c->bytes);
	log_info("AGT-CAPTURE", "session=%s state=ready bytes=%" PRIu64 " files=%u events=%" PRIu64,
		 c->session, c->bytes, c->assembly.n_files, c->events);
	capture_set_state(c, CAPTURE_READY);
}

void capture_assemble(struct capture *c)
{
	struct clock_model m = clock_window_model(c->captures->env.clock,
						  clock_model_raw_of_session(&c->clock, c->t0_ns),
						  clock_model_raw_of_session(&c->clock, c->t1_ns));

	clock_model_free(&c->clock);
	c->clock = m;
	if (edges_distance_ns(&c->edges, &m) < 0)
		c->edges = (struct window_edges){ 0 };
	report_stopped_agent(c);
	report_cut_end(c);
	make_reports(c);
	make_warnings(c);
	make_assembly(c);
	capture_set_state(c, CAPTURE_ASSEMBLING);
	loop_work(c->captures->env.loop, run_assembly, on_assembled, c);
}

int64_t capture_bound_ns(const struct capture *c)
{
	if (c->state >= CAPTURE_ASSEMBLING)
		return c->assembly.bound_ns;
	return assemble_bound_ns(&c->clock, c->t0_ns, c->t1_ns, &c->edges, false);
}

struct clock_slack capture_slack(const struct capture *c)
{
	return clock_model_slack_over(&c->clock, clock_model_raw_of_session(&c->clock, c->t0_ns),
				      clock_model_raw_of_session(&c->clock, c->t1_ns));
}

/* ---- training steps ---- */

struct steps_found {
	const struct capture *capture;
	/* the process whose steps count: the first one with steps, since others repeat the same steps */
	int32_t pid;
	size_t n;
	Tutti__V1__StepsSeen *out;
};

/* Time since T0 on the session clock, kept within the window against rounding. */
static int64_t since_t0_ns(const struct capture *c, int64_t raw_ns)
{
	int64_t at_ns = clock_model_session_of_raw(&c->clock, raw_ns) - c->t0_ns;
	int64_t duration_ns = c->t1_ns - c->t0_ns;

	return at_ns < 0 ? 0 : at_ns > duration_ns ? duration_ns : at_ns;
}

static void count_step(void *arg, const struct step_mark *mark)
{
	struct steps_found *f = arg;

	if (f->n && (mark->pid != f->pid || mark->step <= f->out->last))
		return;
	f->out->end_at_ns = since_t0_ns(f->capture, mark->raw_ns);
	f->out->last = mark->step;
	if (f->n++)
		return;
	f->pid = mark->pid;
	f->out->first = mark->step;
	f->out->first_at_ns = f->out->end_at_ns;
}

/* The step that began last does not end in the window. */
bool capture_steps(const struct capture *c, Tutti__V1__StepsSeen *out)
{
	int64_t t0_raw_ns = clock_model_raw_of_session(&c->clock, c->t0_ns);
	int64_t t1_raw_ns = clock_model_raw_of_session(&c->clock, c->t1_ns);
	struct steps_found f = { .capture = c, .out = out };

	tutti__v1__steps_seen__init(out);
	marks_each_step(c->captures->env.marks, t0_raw_ns, t1_raw_ns, count_step, &f);
	out->last--;
	return f.n > 0;
}
