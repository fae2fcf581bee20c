/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracer "pytorch": recordings of unmodified PyTorch processes that were started with KINETO_USE_DAEMON set. They
 * ask this agent every five seconds, are told when to record, and write a file, which becomes a part.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/pods/local_pods.h"
#include "agent/pods/pod_view.h"
#include "agent/proc/foreign_file.h"
#include "agent/proc/living.h"
#include "agent/tracer/pytorch/hook.h"
#include "agent/tracer/pytorch/leftovers.h"
#include "agent/tracer/pytorch/pieces.h"
#include "agent/tracer/pytorch/processes.h"
#include "agent/tracer/pytorch/recording.h"
#include "agent/marks/marks.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "proto/limits.h"
#include "proto/reasons.h"

TRACER_DECLARE(pytorch);

#define LEFT_OUT \
	"PyTorch processes are left out: more than %d ask this agent, or more than %d of one user"

#define LONGEST_RECORDING_NS (LIMIT_DURATION_NS + 60 * NS_PER_S)

struct pytorch_conf {
	char *pytorch_socket, *pytorch_dir;
	int64_t pytorch_poll_ns;
};

static const struct conf_field conf_fields[] = {
	CONF(struct pytorch_conf, pytorch_socket, "dynolog",
	     "name of the abstract socket at which PyTorch processes ask; \"\" = none"),
	CONF(struct pytorch_conf, pytorch_dir, NULL,
	     "folder in which the agent listens for PyTorch processes that run with "
	     "KINETO_IPC_SOCKET_DIR=FOLDER"),
	CONF_RANGE(struct pytorch_conf, pytorch_poll_ns, "5s", 1e8, 6e10,
		   "how often PyTorch processes ask; ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS changes "
		   "it"),
	{ 0 }
};

static const struct setting settings[] = {
	{ "warm_up_s", SETTING_INT, 1, 60, 1, "seconds that PyTorch warms up before it records" },
	{ "stack", SETTING_BOOL, 0, 1, 0, "record the Python stack of each operator" },
	{ "shapes", SETTING_BOOL, 0, 1, 0, "record the shapes of each operator's inputs" },
	{ "steps", SETTING_INT, 0, LIMIT_STEPS, 0,
	  "record so many calls of optimizer.step() in the window; 0 = all of the window" },
	{ "first_step", SETTING_INT, 0, INT32_MAX, 0,
	  "begin with this call, counted from 0; 0 = the next one" },
	{ "step_multiple", SETTING_INT, 1, 1000000, 1,
	  "begin after a multiple of this many calls, so that ranks begin together" },
	{ "piece_s", SETTING_INT, 0, 3600, 0,
	  "record in pieces of this many seconds, also of processes that start in the window; 0 = "
	  "the whole window in one recording" },
	{ "open_s", SETTING_INT, 0, 3600, 30,
	  "with piece_s, in programs of tutti inspect that end a recording when they end: record "
	  "so many "
	  "seconds at once; 0 = piece_s" },
	{ 0 }
};

struct tracer_pytorch {
	struct tracer base;
	struct loop *loop;
	const struct pytorch_conf *conf;
	struct pytorch_processes *processes;
	struct marks *marks;
	const struct local_pods *pods; /* NULL = none */
	struct leftovers *leftovers;
	struct pytorch_run *runs; /* the run that was armed first comes first */
	struct recording_workers workers;
	uint32_t number; /* this tracer's number in the names of its files */
};

/* One capture. */
struct pytorch_run {
	struct pytorch_run *next;
	struct tracer_pytorch *t;
	struct tracer_run *run;
	struct recording_conf conf;
	struct recording *recordings;
	struct pieces *pieces; /* by process, if it is recorded in pieces */
	size_t n_pieces;
	bool gathering;
	bool steps_told; /* agent/marks has got the steps that were recorded */
	/* by steps: the first recording has ended, so the others should end soon */
	struct loop_timer timer;
	bool is_past; /* the window was over when the run was armed */
};

static struct tracer_pytorch *to_pytorch(struct tracer *t)
{
	return (struct tracer_pytorch *)t;
}

/* ---- the end of a run ---- */

static void pytorch_run_free(struct pytorch_run *pr)
{
	struct pytorch_run **at = &pr->t->runs;

	loop_timer_cancel(pr->t->loop, &pr->timer);
	while (*at != pr)
		at = &(*at)->next;
	*at = pr->next;
	while (pr->recordings) {
		struct recording *r = pr->recordings;

		pr->recordings = r->next;
		recording_free(r);
	}
	while (pr->pieces) {
		struct pieces *p = pr->pieces;

		pr->pieces = p->next;
		pieces_free(p);
	}
	pr->run->arg = NULL;
	free(pr);
}

/* The path is the part's from now on. */
static void add_part(struct tracer_run *run, const char *comm, int64_t pid, char **path,
		     int64_t start_real_ns)
{
	struct tracer_part *part = tracer_run_add_part(run);

	part->path = *path;
	*path = NULL;
	part->base = PART_REAL;
	part->start_real_ns = start_real_ns;
	part->pid = pid;
	snprintf(part->label, sizeof(part->label), "%s %" PRId64, comm, pid);
}

/* "python 4711: it asked too late ...; python 4712: ..." */
static void add_detail(struct tracer_run *run, const char *comm, int64_t pid, const char *text)
{
	size_t used = strlen(run->detail);

	snprintf(run->detail + used, sizeof(run->detail) - used, "%s%s %" PRId64 ": %s",
		 used ? "; " : "", comm, pid, text);
}

static void report_none(struct pytorch_run *pr)
{
	struct err e;

	if (pr->recordings || pr->pieces || !pr->run->is_named)
		return;
	if (pytorch_processes_error(pr->t->processes, &e))
		tracer_run_set_result(pr->run, RUN_FAILED, REASON_NO_FRAMEWORK, "%s", e.msg);
	else
		tracer_run_set_result(pr->run, RUN_FAILED, REASON_NO_FRAMEWORK,
				      "no PyTorch process asks this agent: start the job with "
				      "KINETO_USE_DAEMON=1 in its environment");
}

/* It ended, and its hook did not see that. */
static bool was_killed(const struct pytorch_run *pr, const struct pieces *p)
{
	return hook_get_state(pr->conf.hook_dir, p->inner_pid, p->uid) != HOOK_NONE &&
	       proc_has_ended((uint32_t)p->pid);
}

static void finish_pieces(struct pytorch_run *pr, size_t *good, size_t *bad, const char **reason)
{
	struct tracer_run *run = pr->run;
	int64_t to_real_ns = run->t0_real_ns + (run->t1_raw_ns - run->t0_raw_ns);
	char text[320];

	for (struct pieces *p = pr->pieces; p; p = p->next) {
		const char *why = pieces_describe(p, to_real_ns, was_killed(pr, p), text,
						  sizeof(text));

		if (*why) {
			add_detail(run, p->comm, p->pid, text);
			if (!**reason || !p->path)
				*reason = why;
			++*bad;
		}
		*good += p->path != NULL;
		if (p->path)
			add_part(run, p->comm, p->pid, &p->path, p->start_real_ns);
	}
}

/* The run's reason is the first one of a recording without data, else the first one of a recording with data. */
static void pytorch_run_finish(struct pytorch_run *pr)
{
	struct tracer_run *run = pr->run;
	size_t good = 0, bad = 0;
	const char *reason = "";

	if (pytorch_processes_left_out(pr->t->processes)) {
		snprintf(run->detail, sizeof(run->detail), LEFT_OUT, PYTORCH_PROCESSES_MAX,
			 PYTORCH_PER_USER_MAX);
		reason = REASON_UNSUPPORTED;
		bad++;
	}
	finish_pieces(pr, &good, &bad, &reason);
	for (struct recording *r = pr->recordings; r; r = r->next) {
		good += r->path != NULL;
		bad += *r->reason != 0;
		if (*r->reason) {
			add_detail(run, r->comm, r->place.pid, r->detail);
			if (!*reason || !r->path)
				reason = r->reason;
		}
		if (r->path)
			add_part(run, r->comm, r->place.pid, &r->path, r->start_real_ns);
	}
	run->result = !bad ? RUN_OK : good ? RUN_DEGRADED : RUN_FAILED;
	snprintf(run->reason, sizeof(run->reason), "%s", reason);
	report_none(pr);
	pytorch_run_free(pr);
	run->done(run);
}

/* Tells agent/marks the recorded steps, from the first begin to the last end, since the ranks of a job step
 * together. */
static void tell_of_steps(void *arg)
{
	struct pytorch_run *pr = arg;
	const struct tracer_run *run = pr->run;
	int64_t from_ns = INT64_MAX, to_ns = 0, pid = 0;

	loop_timer_cancel(pr->t->loop, &pr->timer);
	pr->steps_told = true;
	for (struct recording *r = pr->recordings; r; r = r->next) {
		recording_wait_until(r, now_mono_ns());
		if (!r->path || !r->to_real_ns)
			continue;
		pid = r->place.pid;
		from_ns = r->from_real_ns < from_ns ? r->from_real_ns : from_ns;
		to_ns = r->to_real_ns > to_ns ? r->to_real_ns : to_ns;
	}
	if (pid)
		marks_add_counted(pr->t->marks, (int32_t)pid, pr->conf.first_step, pr->conf.n_steps,
				  run->t0_raw_ns + (from_ns - run->t0_real_ns),
				  run->t0_raw_ns + (to_ns - run->t0_real_ns));
}

/* Recordings by steps: the steps are told when all have ended, or some time after the first one with data. */
static void look_at_steps(struct pytorch_run *pr, size_t open, size_t good)
{
	int64_t patience_ns = pr->t->conf->pytorch_poll_ns + RECORDING_FILE_PATIENCE_NS;

	if (!pr->conf.n_steps || pr->steps_told)
		return;
	if (!open)
		tell_of_steps(pr);
	else if (good && !loop_timer_armed(&pr->timer))
		loop_timer_in(pr->t->loop, &pr->timer, patience_ns, tell_of_steps, pr);
}

/* Adds each recording that has ended to the pieces of its process. */
static void collect_pieces(struct pytorch_run *pr)
{
	struct recording **at = &pr->recordings;

	while (*at) {
		struct recording *r = *at;

		if (!r->pieces || r->state != RECORDING_ENDED) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		pieces_take(r->pieces, r);
		recording_free(r);
	}
}

static void finish_if_ended(void *arg)
{
	struct pytorch_run *pr = arg;
	size_t open = 0, good = 0;

	collect_pieces(pr);
	for (const struct recording *r = pr->recordings; r; r = r->next) {
		open += r->state != RECORDING_ENDED;
		good += r->path != NULL;
	}
	look_at_steps(pr, open, good);
	if (pr->gathering && !open)
		pytorch_run_finish(pr);
}

/* ---- the table ---- */

/* A new process: an earlier agent may have told it to record before it was killed. */
static void clean_up_after_others(const struct tracer_pytorch *t, const struct pytorch_process *p)
{
	struct trace_place place = {
		.pid = p->pid, .inner_pid = p->inner_pid, .uid = p->uid, .run = t->number
	};

	leftovers_add(t->leftovers, &place, now_mono_ns() + LONGEST_RECORDING_NS);
}

static struct pieces *pieces_of(struct pytorch_run *pr, const struct pytorch_process *process)
{
	struct pieces *p = pr->pieces;

	while (p && p->pid != process->pid)
		p = p->next;
	if (p || pr->n_pieces == PIECES_PROCESSES_MAX)
		return p;
	p = pieces_new(process);
	p->next = pr->pieces;
	pr->pieces = p;
	pr->n_pieces++;
	return p;
}

static struct recording *recording_of(const struct pytorch_run *pr, int64_t pid)
{
	struct recording *r = pr->recordings;

	while (r && r->place.pid != pid)
		r = r->next;
	return r;
}

/* True: the process is told of its next piece. */
static bool tell_next_piece(struct pytorch_run *pr, const struct pytorch_process *process,
			    struct buf *config)
{
	int64_t end_raw_ns = pr->run->t1_raw_ns - pr->conf.warm_up_s * NS_PER_S -
			     RECORDING_REACTION_NS;
	enum hook_state hook = hook_get_state(pr->conf.hook_dir, process->inner_pid, process->uid);
	struct recording *r = recording_of(pr, process->pid);
	struct pieces *p;

	if (r)
		recording_note_ask(r, process);
	if (r || pr->gathering || pr->is_past || now_raw_ns() >= end_raw_ns || hook == HOOK_LOADING)
		return false;
	p = pieces_of(pr, process);
	if (!p || !process->can_record || (p->is_open && hook == HOOK_NONE)) /* its program ends */
		return false;
	r = recording_new(&pr->conf, process);
	r->pieces = p;
	r->start_real_ns = p->start_real_ns;
	r->next = pr->recordings;
	pr->recordings = r;
	recording_tell(r, process, config);
	return true;
}

/* Whether the process's pod opted out. */
static bool is_hidden(const struct tracer_pytorch *t, int64_t pid)
{
	struct pod_view *pods = local_pods_view(t->pods);
	bool hidden = pod_view_hides(pods, pid);

	pod_view_release(pods);
	return hidden;
}

/* If several captures want the process, the first one gets it. */
static void on_ask(void *arg, const struct pytorch_process *p, struct buf *config)
{
	const struct tracer_pytorch *t = arg;

	if (is_hidden(t, p->pid))
		return;
	if (p->requests == 1)
		clean_up_after_others(t, p);
	for (struct pytorch_run *pr = t->runs; pr; pr = pr->next) {
		if (pr->conf.piece_ns && tell_next_piece(pr, p, config))
			return;
		for (struct recording *r = pr->recordings; r && !pr->steps_told; r = r->next) {
			if (r->state == RECORDING_WAITING && r->place.pid == p->pid) {
				recording_tell(r, p, config);
				return;
			}
		}
	}
}

static void add_recordings(struct pytorch_run *pr)
{
	size_t n;
	const struct pytorch_process *list = pytorch_processes_list(pr->t->processes, &n);

	for (size_t i = 0; i < n; i++) {
		struct recording *r;

		if (is_hidden(pr->t, list[i].pid))
			continue;
		r = recording_new(&pr->conf, &list[i]);
		r->next = pr->recordings;
		pr->recordings = r;
	}
}

static int pytorch_arm(struct tracer *tracer, struct tracer_run *run, struct err *e)
{
	struct tracer_pytorch *t = to_pytorch(tracer);
	struct pytorch_run *pr = xcalloc(1, sizeof(*pr)), **at = &t->runs;

	(void)e;
	pr->t = t;
	pr->run = run;
	pr->conf = (struct recording_conf){
		.loop = t->loop,
		.run = run,
		.workers = &t->workers,
		.leftovers = t->leftovers,
		.number = t->number,
		.warm_up_s = tracer_run_setting(run, &tracer_pytorch_ops, "warm_up_s"),
		.with_stack = tracer_run_setting(run, &tracer_pytorch_ops, "stack"),
		.with_shapes = tracer_run_setting(run, &tracer_pytorch_ops, "shapes"),
		.n_steps = tracer_run_setting(run, &tracer_pytorch_ops, "steps"),
		.first_step = tracer_run_setting(run, &tracer_pytorch_ops, "first_step"),
		.step_multiple = tracer_run_setting(run, &tracer_pytorch_ops, "step_multiple"),
		.piece_ns = tracer_run_setting(run, &tracer_pytorch_ops, "piece_s") * NS_PER_S,
		.hook_dir = t->conf->pytorch_dir,
		.ended = finish_if_ended,
		.arg = pr,
	};
	if (pr->conf.n_steps)
		pr->conf.piece_ns = 0;
	if (pr->conf.piece_ns)
		pr->conf.open_ns = tracer_run_setting(run, &tracer_pytorch_ops, "open_s") *
				   NS_PER_S;
	random_bytes(&pr->conf.salt, sizeof(pr->conf.salt));
	run->arg = pr;
	while (*at)
		at = &(*at)->next;
	*at = pr;
	pr->is_past = run->t1_raw_ns <= now_raw_ns();
	if (!pr->is_past && !pr->conf.piece_ns)
		add_recordings(pr);
	return 0;
}

static void pytorch_gather(struct tracer *tracer, struct tracer_run *run)
{
	struct pytorch_run *pr = run->arg;
	size_t n;

	pytorch_processes_list(to_pytorch(tracer)->processes, &n);
	if (pr->is_past && n) {
		tracer_run_set_result(run, RUN_OFF, REASON_UNSUPPORTED,
				      "PyTorch cannot record a window that is over");
		pytorch_run_free(pr);
		run->done(run);
		return;
	}
	for (struct recording *r = pr->recordings, *next; r; r = next) {
		next = r->next; /* a piece is freed when it ends */
		recording_gather(r);
	}
	pr->gathering = true;
	finish_if_ended(pr);
}

static void pytorch_give_up(struct tracer *tracer, struct tracer_run *run)
{
	struct pytorch_run *pr = run->arg;

	(void)tracer;
	pr->gathering = false; /* the run's done() is called once, below */
	for (struct recording *r = pr->recordings, *next; r; r = next) {
		next = r->next;
		recording_give_up(r, REASON_PROFILER_TIMEOUT,
				  "its trace had not come when the capture's time to gather ended");
	}
	pytorch_run_finish(pr);
}

static void pytorch_cancel(struct tracer *tracer, struct tracer_run *run)
{
	(void)tracer;
	pytorch_run_free(run->arg);
}

/* Processes whose traces the agent will not be able to read. */
static size_t count_denied(const struct tracer_pytorch *t, struct err *e)
{
	size_t n, denied = 0;
	const struct pytorch_process *v = pytorch_processes_list(t->processes, &n);

	for (size_t i = 0; i < n; i++) {
		struct err one;

		if (foreign_check((uint32_t)v[i].pid, &one) != ERR_DENIED)
			continue;
		denied++;
		*e = one;
	}
	return denied;
}

static void pytorch_state(const struct tracer *tracer, struct tracer_state *out)
{
	const struct tracer_pytorch *t = (const struct tracer_pytorch *)tracer;
	const struct pytorch_conf *conf = t->conf;
	size_t denied;
	struct err e;

	*out = (struct tracer_state){ .health = TRACER_OK };
	if (!*conf->pytorch_socket && !(conf->pytorch_dir && *conf->pytorch_dir)) {
		out->health = TRACER_OFF;
		snprintf(out->reason, sizeof(out->reason),
			 "no socket for PyTorch processes: set --pytorch-socket or --pytorch-dir");
	} else if (pytorch_processes_error(t->processes, &e)) {
		out->health = TRACER_OFF;
		out->errno_value = EADDRINUSE;
		snprintf(out->reason, sizeof(out->reason),
			 "%.100s: stop it (is it dynolog or another agent?), or give the jobs "
			 "KINETO_IPC_SOCKET_DIR and this agent --pytorch-dir",
			 e.msg);
	} else if ((denied = count_denied(t, &e))) {
		out->health = TRACER_DEGRADED;
		out->errno_value = EACCES;
		snprintf(out->reason, sizeof(out->reason),
			 "traces of %zu PyTorch processes cannot be read: %.190s", denied, e.msg);
	} else if (pytorch_processes_left_out(t->processes)) {
		out->health = TRACER_DEGRADED;
		snprintf(out->reason, sizeof(out->reason), LEFT_OUT, PYTORCH_PROCESSES_MAX,
			 PYTORCH_PER_USER_MAX);
	}
}

/* Time until a process asks, warms up and begins, and a second for messages. */
static int64_t pytorch_lead(const struct tracer *tracer)
{
	const struct tracer_pytorch *t = (const struct tracer_pytorch *)tracer;
	size_t n;

	pytorch_processes_list(t->processes, &n);
	return n ? t->conf->pytorch_poll_ns + settings[0].value * NS_PER_S + RECORDING_REACTION_NS +
			       NS_PER_S
		 : 0;
}

static bool pytorch_counts_steps(const struct tracer *tracer)
{
	size_t n;

	pytorch_processes_list(((const struct tracer_pytorch *)tracer)->processes, &n);
	return n > 0;
}

static int pytorch_open(struct tracer **out, const struct tracer_env *env, struct err *e)
{
	struct tracer_pytorch *t = xcalloc(1, sizeof(*t));

	(void)e;
	t->base.ops = &tracer_pytorch_ops;
	t->loop = env->loop;
	t->conf = env->conf;
	t->marks = env->marks;
	t->pods = env->pods;
	t->leftovers = leftovers_new(env->loop, env->files);
	recording_workers_init(&t->workers, env->loop, env->files);
	random_bytes(&t->number, sizeof(t->number));
	t->processes = pytorch_processes_new(env->loop, t->conf->pytorch_socket,
					     t->conf->pytorch_dir, on_ask, t);
	*out = &t->base;
	return 0;
}

static void pytorch_free(struct tracer *tracer)
{
	struct tracer_pytorch *t = to_pytorch(tracer);

	pytorch_processes_free(t->processes);
	recording_workers_release(&t->workers);
	leftovers_free(t->leftovers);
	free(t);
}

const struct tracer_ops tracer_pytorch_ops = {
	.name = "pytorch",
	.conf = conf_fields,
	.conf_size = sizeof(struct pytorch_conf),
	.settings = settings,
	.open = pytorch_open,
	.state = pytorch_state,
	.lead_ns = pytorch_lead,
	.counts_steps = pytorch_counts_steps,
	.arm = pytorch_arm,
	.gather = pytorch_gather,
	.give_up = pytorch_give_up,
	.cancel = pytorch_cancel,
	.free = pytorch_free,
};
