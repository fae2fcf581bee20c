/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/profiler/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/tracer/profiler/call.h"
#include "agent/tracer/profiler/continuous.h"
#include "agent/tracer/profiler/discover.h"
#include "agent/tracer/profiler/reason_text.h"
#include "agent/tracer/profiler/targets.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/address.h"
#include "proto/profiler_request.h"
#include "proto/reasons.h"

/* One process in one capture. */
struct profiled_process {
	struct profiled_process *next;
	struct profiler_call *call;
	char *address;
	int port;
	bool snapshot; /* it is a snapshot of the continuous session */
	bool local;
	bool discovered;
	int64_t pid;
	char comm[32];
};

/* One capture. */
struct profiler_run {
	struct tracer_profiler *t;
	struct tracer_run *run;
	struct profiled_process *processes;
	bool searching; /* a scan for new processes is under way */
	bool gathering;
	bool had_processes; /* processes that have ended since they were discovered */
	bool is_past; /* the window was over when the run was armed */
	bool pauses; /* the run has paused the continuous sessions */
	struct loop_timer begin; /* fires when the continuous sessions have ended */
};

/* ---- the end of a run ---- */

static void profiled_process_free(struct profiled_process *t)
{
	profiler_call_free(t->call);
	free(t->address);
	free(t);
}

void profiler_run_free(struct profiler_run *pr)
{
	discover_forget(pr->t->discover, pr);
	loop_timer_cancel(pr->t->env.loop, &pr->begin);
	if (pr->pauses)
		continuous_resume(pr->t->continuous);
	while (pr->processes) {
		struct profiled_process *t = pr->processes;

		pr->processes = t->next;
		profiled_process_free(t);
	}
	pr->run->arg = NULL;
	free(pr);
}

static void profiled_process_label(const struct profiled_process *t, char *out, size_t len)
{
	if (t->pid)
		snprintf(out, len, "%s %" PRId64, t->comm, t->pid);
	else
		snprintf(out, len, "profiler %s", t->address);
}

static void run_add_part(struct tracer_run *run, const struct profiled_process *t)
{
	struct profiler_result *r = profiler_call_result(t->call);
	struct tracer_part *part = tracer_run_add_part(run);

	part->path = r->path;
	r->path = NULL;
	part->base = PART_REAL;
	part->start_real_ns = r->start_real_ns;
	part->pid = t->pid;
	profiled_process_label(t, part->label, sizeof(part->label));
}

/* "127.0.0.1:9999: no server listens: ... (failed to connect); 127.0.0.1:9998: ..." */
static void add_detail(struct tracer_run *run, const struct profiled_process *t,
		       const struct reason_text *prefix, const char *text)
{
	size_t used = strlen(run->detail), left = sizeof(run->detail) - used;

	if ((size_t)snprintf(run->detail + used, left, "%s%s: %s (%s)", used ? "; " : "",
			     t->address, prefix->text, text) >= left)
		end_cut_sentence(run->detail, sizeof(run->detail));
}

static const struct profiler_result *profiled_process_result(const struct profiled_process *t)
{
	static const struct profiler_result given_up = {
		.reason = REASON_PROFILER_TIMEOUT,
		.detail = "its trace had not come when the grace ended",
	};

	return profiler_call_is_done(t->call) ? profiler_call_result(t->call) : &given_up;
}

/* Whether the options have some that only frameworks use; levels do not count, since other tracers use them. */
static bool has_framework_options(const struct tracer_run *run)
{
	Tensorflow__ProfileOptions *m;
	bool own;

	if (profile_options_unpack(&m, run->profile_options, run->profile_options_len, NULL))
		return false;
	own = m->version && (m->device_type || m->trace_options || m->n_advanced_configuration);
	tensorflow__profile_options__free_unpacked(m, NULL);
	return own;
}

/* Tells continuous.h whether the session goes on. If the session's data begins after the window, says so in
 * the detail. */
static void end_snapshot(struct profiler_run *pr, const struct profiled_process *t,
			 const struct profiler_result *r)
{
	struct tracer_run *run = pr->run;
	size_t used = strlen(run->detail);
	int64_t late_ns = r->start_real_ns - run->t0_real_ns;

	if (*r->reason)
		continuous_lost(pr->t->continuous, t->address);
	else
		continuous_taken(pr->t->continuous, t->address);
	if (r->path && late_ns > NS_PER_MS)
		snprintf(run->detail + used, sizeof(run->detail) - used,
			 "%s%s: its recording begins %.1f s after the window begins",
			 used ? "; " : "", t->address, (double)late_ns / 1e9);
}

/* A capture that asks for a framework's events is not complete without any. */
static void report_missing(struct profiler_run *pr)
{
	const struct tracer_run *run = pr->run;

	if (pr->processes || pr->had_processes || !(run->is_named || has_framework_options(run)))
		return;
	if (pr->t->conf->discover && discover_is_incomplete(pr->t->discover))
		tracer_run_set_result(
			pr->run, RUN_FAILED, REASON_NO_PERMISSION,
			"no framework's profiler found, and the sockets of other users' "
			"processes cannot be seen: grant CAP_SYS_PTRACE and "
			"CAP_DAC_READ_SEARCH");
	else
		tracer_run_set_result(pr->run, RUN_FAILED, REASON_NO_FRAMEWORK,
				      "no process with a framework's profiler: does the job call "
				      "jax.profiler.start_server(), or is --profiler needed?");
}

void profiler_run_finish(struct profiler_run *pr)
{
	struct tracer_run *run = pr->run;
	const struct reason_text *worst = NULL;
	size_t good = 0;

	for (const struct profiled_process *t = pr->processes; t; t = t->next) {
		const struct profiler_result *r = profiled_process_result(t);
		bool ok = !*r->reason;

		if (t->snapshot)
			end_snapshot(pr, t, r);
		good += ok || r->incomplete;
		if (!ok) {
			const struct reason_text *text = reason_text_find(r->reason);

			if (!worst || text > worst)
				worst = text;
			add_detail(run, t, text, r->detail);
		}
		if (r->path)
			run_add_part(run, t);
	}
	run->result = !worst ? RUN_OK : good ? RUN_DEGRADED : RUN_FAILED;
	if (worst)
		snprintf(run->reason, sizeof(run->reason), "%s", worst->reason);
	report_missing(pr);
	profiler_run_free(pr);
	run->done(run);
}

static void profiler_run_finish_if_done(struct profiler_run *pr)
{
	if (!pr->gathering || pr->searching)
		return;
	for (const struct profiled_process *t = pr->processes; t; t = t->next) {
		if (!profiler_call_is_done(t->call))
			return;
	}
	profiler_run_finish(pr);
}

static void profiled_process_done(void *arg)
{
	profiler_run_finish_if_done(arg);
}

static bool profiled_process_reserve_bytes(void *arg, uint64_t bytes)
{
	const struct profiler_run *pr = arg;

	return pr->run->reserve_bytes(pr->run, bytes);
}

/* ---- processes ---- */

static struct profiled_process *run_find_port(const struct profiler_run *pr, int port)
{
	struct profiled_process *t = pr->processes;

	while (t && !(t->local && t->port == port))
		t = t->next;
	return t;
}

static void profiled_process_set_owner(struct profiled_process *t,
				       const struct discover_target *owner)
{
	t->pid = owner->pid;
	memcpy(t->comm, owner->comm, sizeof(t->comm));
	profiler_call_set_pid(t->call, owner->pid);
}

static struct profiled_process *run_add_process(struct profiler_run *pr, const char *address,
						bool local, int port)
{
	const struct tracer_env *env = &pr->t->env;
	const struct tracer_run *run = pr->run;
	struct profiler_call_conf conf = {
		.loop = env->loop,
		.rpc = env->rpc,
		.sweep = pr->t->sweep,
		.lane = pr->t->lane,
		.live = &pr->t->live,
		.address = address,
		.session = run->session,
		.host = env->host ? env->host : "localhost",
		.dir = run->dir,
		.t0_raw_ns = run->t0_raw_ns,
		.t1_raw_ns = run->t1_raw_ns,
		.t0_real_ns = run->t0_real_ns,
		.give_up_mono_ns = run->give_up_mono_ns,
		.snapshot = pr->is_past,
		.max_reply_bytes = pr->t->conf->profiler_limit_bytes,
		.options = run->profile_options,
		.options_len = run->profile_options_len,
		.reserve_bytes = profiled_process_reserve_bytes,
		.done = profiled_process_done,
		.arg = pr,
	};
	struct profiled_process *t = xcalloc(1, sizeof(*t));

	t->call = profiler_call_start(&conf);
	t->address = xstrdup(address);
	t->snapshot = pr->is_past;
	t->local = local;
	t->port = port;
	t->next = pr->processes;
	pr->processes = t;
	return t;
}

static bool run_has_process(const struct profiler_run *pr, int64_t pid)
{
	const struct profiled_process *t = pr->processes;

	while (t && t->pid != pid)
		t = t->next;
	return pid && t;
}

/* Servers that pods name: in networks of their own, where discovery does not look. */
static void run_add_pods(struct profiler_run *pr)
{
	struct pod_profiler *pods;
	size_t n = profiler_list_pods(pr->t->env.pods, &pods);

	for (size_t i = 0; i < n; i++) {
		struct profiled_process *t;

		if (run_has_process(pr, pods[i].pid))
			continue;
		t = run_add_process(pr, pods[i].address, false, pods[i].port);
		t->pid = pods[i].pid;
		memcpy(t->comm, pods[i].comm, sizeof(t->comm));
		if (t->pid)
			profiler_call_set_pid(t->call, t->pid);
	}
	free(pods);
}

static void run_add_configured(struct profiler_run *pr)
{
	const struct conf_list *list = &pr->t->conf->profiler;

	for (size_t i = 0; i < list->n; i++) {
		char host[ADDRESS_HOST_BYTES];
		int port;

		if (!address_split(list->items[i], host, &port, NULL))
			run_add_process(pr, list->items[i], address_is_loopback(host), port);
	}
}

static void run_add_discovered(struct profiler_run *pr)
{
	const struct discover_target *found;
	size_t n;

	found = discover_targets(pr->t->discover, &n);
	for (size_t i = 0; i < n; i++) {
		struct profiled_process *t;

		if (run_find_port(pr, found[i].port) || run_has_process(pr, found[i].pid))
			continue;
		t = run_add_process(pr, found[i].address, true, found[i].port);
		t->discovered = true;
		profiled_process_set_owner(t, &found[i]);
	}
}

static bool is_still_there(const struct profiler_run *pr, const struct profiled_process *t)
{
	const struct discover_target *found;
	size_t n;

	found = discover_targets(pr->t->discover, &n);
	for (size_t i = 0; i < n; i++) {
		if (found[i].port == t->port && found[i].pid == t->pid)
			return true;
	}
	return false;
}

/* A process that has ended between its discovery and the window is not an error. */
static void run_drop_vanished(struct profiler_run *pr)
{
	struct profiled_process **at = &pr->processes;
	bool has_begun = now_raw_ns() >= pr->run->t0_raw_ns;

	while (*at) {
		struct profiled_process *t = *at;

		if (has_begun || !t->discovered || is_still_there(pr, t)) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		profiled_process_free(t);
		pr->had_processes = true;
	}
}

static void run_set_owners(struct profiler_run *pr)
{
	for (struct profiled_process *t = pr->processes; t; t = t->next) {
		struct discover_target owner;

		if (t->local && !t->pid && discover_owner(pr->t->discover, t->port, &owner))
			profiled_process_set_owner(t, &owner);
	}
}

static void on_scanned(void *arg)
{
	struct profiler_run *pr = arg;

	pr->searching = false;
	run_drop_vanished(pr);
	if (!pr->gathering && now_raw_ns() < pr->run->t1_raw_ns)
		run_add_discovered(pr);
	run_set_owners(pr);
	profiler_run_finish_if_done(pr);
}

/* ---- the life of a run ---- */

/* Takes snapshots from servers that record all the time; names the others in the detail. */
static void add_snapshot(void *arg, const char *address, const char *lack)
{
	struct profiler_run *pr = arg;
	struct tracer_run *run = pr->run;
	size_t used = strlen(run->detail);
	char host[ADDRESS_HOST_BYTES];
	int port;

	if (lack)
		snprintf(run->detail + used, sizeof(run->detail) - used, "%s%s: %s",
			 used ? "; " : "", address, lack);
	else if (!address_split(address, host, &port, NULL))
		run_add_process(pr, address, address_is_loopback(host), port);
}

static void begin(void *arg)
{
	struct profiler_run *pr = arg;

	run_add_configured(pr);
	run_add_discovered(pr);
	run_add_pods(pr);
	pr->searching = true;
	discover_refresh(pr->t->discover, on_scanned, pr);
}

void profiler_run_start(struct tracer_profiler *t, struct tracer_run *run)
{
	struct profiler_run *pr = xcalloc(1, sizeof(*pr));

	pr->t = t;
	pr->run = run;
	run->arg = pr;
	pr->is_past = run->t1_raw_ns <= now_raw_ns();
	if (pr->is_past && t->continuous) {
		continuous_each(t->continuous, add_snapshot, pr);
		run_set_owners(pr);
	} else if (!pr->is_past && t->continuous) {
		pr->pauses = true;
		pr->searching = true; /* from begin() on */
		continuous_pause(t->continuous);
		loop_timer_in(t->env.loop, &pr->begin, PROFILER_STOP_NS, begin, pr);
	} else if (!pr->is_past) {
		begin(pr);
	}
}

void profiler_run_stop(struct profiler_run *pr)
{
	for (struct profiled_process *t = pr->processes; t; t = t->next)
		profiler_call_stop(t->call, pr->run->t1_raw_ns);
}

void profiler_run_gather(struct profiler_run *pr)
{
	struct tracer_run *run = pr->run;
	size_t n;

	discover_targets(pr->t->discover, &n);
	if (pr->is_past && !pr->processes && n + pr->t->conf->profiler.n) {
		if (*run->detail)
			run->result = RUN_OFF;
		else
			tracer_run_set_result(run, RUN_OFF, REASON_UNSUPPORTED,
					      "framework profilers cannot record a window that is "
					      "over, unless they always record (--continuous)");
		profiler_run_free(pr);
		run->done(run);
		return;
	}
	pr->gathering = true;
	profiler_run_finish_if_done(pr);
}
