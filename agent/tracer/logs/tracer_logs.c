/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracer "logs": what programs log, from files, container runtimes and the journal. A worker reads all sources ten times a
 * second; the lines are kept in a ring. Off unless it is asked for: logs may hold secrets, and a profile is shown around.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/tracer/build_job.h"
#include "agent/tracer/logs/files.h"
#include "agent/tracer/logs/journal.h"
#include "agent/tracer/logs/plane.h"
#include "agent/tracer/logs/reading.h"
#include "agent/tracer/ring_run.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

#define READ_NS	 (100 * NS_PER_MS)
#define AGAIN_NS (20 * NS_PER_MS) /* while runs wait */
#define LOOK_NS	 NS_PER_S
#define ARRIVAL_NS \
	(50 * NS_PER_MS) /* runtimes and the journal pass on a window's last lines after its end */
#define LATE_NS	    (READING_BEHIND_NS + READING_AHEAD_NS + NS_PER_S)
#define FILE_BYTES  (64U << 20) /* of the ring's file: programs must not fill the spool */
#define SOURCES_MAX 64

/* A container's log has several names; Kubernetes' own says the most. */
#define CONTAINERS \
	"{/var/log/pods/*/*/*.log,/var/log/containers/*.log,/var/lib/docker/containers/*/" \
	"*-json.log}"

TRACER_DECLARE(logs);

struct logs_conf {
	char *logs;
	int logs_rate;
};

static const struct conf_field conf_fields[] = {
	CONF(struct logs_conf, logs, NULL,
	     "logs to record, with commas between: containers, journal, FILE, or a pattern like "
	     "'/a/*.log'"),
	CONF_RANGE(struct logs_conf, logs_rate, "2000", 1, 100000,
		   "log lines per second that are kept at most"),
	{ 0 }
};

/* A reading of all sources: the worker's while it is under way. */
struct reader {
	struct tracer_logs *owner; /* loop's thread only; NULL when the tracer is gone */
	struct files *files;
	bool wants_journal;
	struct journal *journal;
	int64_t lines_s, look_mono_ns;
	struct reading reading;
	char problem[256];
	int error; /* errno of the problem; 0 = none */
};

/* A run that waits for a reading that began ARRIVAL_NS after its window. */
struct waiting_run {
	struct waiting_run *next;
	struct tracer_run *run;
	bool begun;
};

struct tracer_logs {
	struct tracer base;
	struct loop *loop;
	struct loop_timer timer;
	struct reader *reader; /* NULL: it is off */
	bool reading;
	struct ring *ring;
	struct waiting_run *waiting;
	char problem[256]; /* why nothing, or not everything, is recorded; "" = everything is */
	int error; /* errno of the problem; 0 = none */
};

struct snapshot {
	int64_t t0_raw_ns;
	struct ring_cut *cut;
};

static struct tracer_logs *to_logs(const struct tracer *t)
{
	assert(t->ops == &tracer_logs_ops);
	return (struct tracer_logs *)t;
}

/* ---- reading, on a worker ---- */

static void read_sources(void *arg)
{
	struct reader *r = arg;
	const char *problem = "";

	reading_begin(&r->reading, r->lines_s);
	if (r->wants_journal && !r->journal)
		r->journal = journal_new();
	if (r->reading.mono_ns >= r->look_mono_ns) {
		files_look(r->files);
		r->look_mono_ns = r->reading.mono_ns + LOOK_NS;
	}
	files_read(r->files, &r->reading);
	if (r->journal) {
		journal_read(r->journal, &r->reading);
		problem = journal_problem(r->journal);
	}
	r->error = *problem ? 0 : files_error(r->files);
	snprintf(r->problem, sizeof(r->problem), "%s",
		 *problem ? problem : files_problem(r->files));
}

static void release_reader(void *arg)
{
	struct reader *r = arg;

	journal_free(r->journal);
	files_free(r->files);
	reading_release(&r->reading);
	free(r);
}

static void do_nothing(void *arg)
{
	(void)arg;
}

/* ---- the result of a reading ---- */

static void keep_line(void *arg, int64_t raw_ns, const void *data, size_t len)
{
	ring_add(arg, raw_ns, data, len);
}

static void snapshot_free(void *arg)
{
	struct snapshot *s = arg;

	ring_cut_free(s->cut);
	free(s);
}

static uint64_t build(void *arg, struct xs_builder *b)
{
	const struct snapshot *s = arg;

	return plane_build(s->cut, s->t0_raw_ns, b);
}

/* Lost lines are mentioned in the detail; a source that cannot be read makes the run degraded only if the capture names
 * this tracer. */
static void note_incomplete(const struct tracer_logs *t, struct tracer_run *run)
{
	if (run->result != RUN_OK)
		return;
	if (run->lost)
		snprintf(run->detail, sizeof(run->detail),
			 "%" PRIu64 " log lines are lost: more than --logs-rate a second, or of a "
			 "file that grows too fast",
			 run->lost);
	else if (*t->problem && run->is_named)
		tracer_run_set_result(run, RUN_DEGRADED,
				      t->error == EACCES ? REASON_NO_PERMISSION
							 : REASON_TRACER_FAILED,
				      "%s", t->problem);
	else
		snprintf(run->detail, sizeof(run->detail), "%s", t->problem);
}

static void cut_and_build(struct tracer_logs *t, struct tracer_run *run)
{
	struct snapshot *s = xcalloc(1, sizeof(*s));

	s->t0_raw_ns = run->t0_raw_ns;
	s->cut = ring_run_cut(t->ring, run, "log lines", 0);
	note_incomplete(t, run);
	build_job_start(t->loop, run,
			&(struct build_job){ .build = build,
					     .free = snapshot_free,
					     .snapshot = s,
					     .is_small = ring_cut_bytes(s->cut) <=
							 BUILD_SMALL_BYTES,
					     .is_empty = ring_cut_is_empty(s->cut) });
}

static void end_waits(struct tracer_logs *t)
{
	struct waiting_run **at = &t->waiting;

	while (*at) {
		struct waiting_run *w = *at;

		if (!w->begun) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		cut_and_build(t, w->run);
		free(w);
		at = &t->waiting; /* done() may have changed the list */
	}
}

static void begin_reading(void *arg);

static void on_read(void *arg)
{
	struct reader *r = arg;
	struct tracer_logs *t = r->owner;

	if (!t) {
		release_reader(r);
		return;
	}
	t->reading = false;
	record_row_each(&r->reading.rows, keep_line, t->ring);
	if (r->reading.lost)
		ring_add_loss(t->ring, r->reading.pair.raw_ns, r->reading.lost);
	snprintf(t->problem, sizeof(t->problem), "%s", r->problem);
	t->error = r->error;
	end_waits(t);
	loop_timer_each(t->loop, &t->timer, t->waiting ? AGAIN_NS : READ_NS, begin_reading, t);
}

static void begin_reading(void *arg)
{
	struct tracer_logs *t = arg;

	if (t->reading)
		return;
	loop_timer_cancel(t->loop, &t->timer);
	for (struct waiting_run *w = t->waiting; w; w = w->next)
		w->begun = now_raw_ns() >= w->run->t1_raw_ns + ARRIVAL_NS;
	t->reading = true;
	loop_work(t->loop, read_sources, on_read, t->reader);
}

/* ---- the table ---- */

/* Sets what the words of --logs ask for. */
static int parse_sources(const char *text, struct reader *r, struct err *e)
{
	const char *patterns[SOURCES_MAX];
	char *words = xstrdup(text), *rest = words, *word;
	size_t n = 0;
	int rc = 0;

	while (!rc && (word = strsep(&rest, ","))) {
		if (!*word)
			continue;
		if (!strcmp(word, "journal"))
			r->wants_journal = true;
		else if (*word != '/' && strcmp(word, "containers"))
			rc = err_set(e, ERR_INVALID,
				     "--logs '%s': use containers, journal, or an absolute path",
				     word);
		else if (n == SOURCES_MAX)
			rc = err_set(e, ERR_INVALID, "--logs: more than %d files", SOURCES_MAX);
		else
			patterns[n++] = *word == '/' ? word : CONTAINERS;
	}
	r->files = files_new(patterns, rc ? 0 : n);
	free(words);
	return rc;
}

static int logs_open(struct tracer **out, const struct tracer_env *env, struct err *e)
{
	const struct logs_conf *conf = env->conf;
	struct tracer_logs *t = xcalloc(1, sizeof(*t));
	int rc = 0;

	t->base.ops = &tracer_logs_ops;
	t->loop = env->loop;
	if (!conf->logs || !*conf->logs) {
		snprintf(t->problem, sizeof(t->problem),
			 "no log is named: --logs containers,journal,FILE");
		goto out;
	}
	t->reader = xcalloc(1, sizeof(*t->reader));
	t->reader->owner = t;
	t->reader->lines_s = conf->logs_rate;
	rc = parse_sources(conf->logs, t->reader, e);
	if (rc) {
		release_reader(t->reader);
		free(t);
		return rc;
	}
	t->ring = ring_new(&(struct ring_conf){ .limits = env->ring,
						.file_bytes = FILE_BYTES,
						.late_ns = LATE_NS,
						.begin_raw_ns = now_raw_ns() });
	begin_reading(t);
out:
	*out = &t->base;
	return rc;
}

static void logs_state(const struct tracer *tracer, struct tracer_state *out)
{
	const struct tracer_logs *t = to_logs(tracer);

	*out = (struct tracer_state){ .health = !t->reader    ? TRACER_OFF
						: *t->problem ? TRACER_DEGRADED
							      : TRACER_OK,
				      .errno_value = t->error };
	snprintf(out->reason, sizeof(out->reason), "%s", t->problem);
}

static int64_t logs_begin(const struct tracer *tracer)
{
	const struct tracer_logs *t = to_logs(tracer);

	return t->reader ? ring_begin(t->ring) : INT64_MAX;
}

static int logs_arm(struct tracer *tracer, struct tracer_run *run, struct err *e)
{
	struct tracer_logs *t = to_logs(tracer);

	(void)e;
	if (t->reader)
		ring_run_arm(t->ring, run);
	return 0;
}

static void logs_gather(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_logs *t = to_logs(tracer);
	struct waiting_run *w;

	if (!t->reader) {
		tracer_run_set_result(run, RUN_OFF, REASON_UNSUPPORTED, "%s", t->problem);
		run->done(run);
		return;
	}
	w = xcalloc(1, sizeof(*w));
	*w = (struct waiting_run){ .next = t->waiting, .run = run };
	t->waiting = w;
	begin_reading(t);
}

static void logs_cancel(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_logs *t = to_logs(tracer);
	struct waiting_run **at = &t->waiting, *w;

	if (!t->reader)
		return;
	ring_run_cancel(t->ring, run);
	while (*at && (*at)->run != run)
		at = &(*at)->next;
	w = *at;
	if (!w) {
		build_job_cancel(run);
		return;
	}
	*at = w->next;
	free(w);
}

static void logs_free(struct tracer *tracer)
{
	struct tracer_logs *t = to_logs(tracer);

	loop_timer_cancel(t->loop, &t->timer);
	if (t->reader && t->reading)
		t->reader->owner = NULL; /* on_read() frees it */
	else if (t->reader)
		loop_work(t->loop, release_reader, do_nothing, t->reader);
	ring_free(t->ring);
	free(t);
}

const struct tracer_ops tracer_logs_ops = {
	.name = "logs",
	.host_level = 2,
	.conf = conf_fields,
	.conf_size = sizeof(struct logs_conf),
	.open = logs_open,
	.state = logs_state,
	.begin_raw_ns = logs_begin,
	.arm = logs_arm,
	.gather = logs_gather,
	.cancel = logs_cancel,
	.free = logs_free,
};
