/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracer "watch": profiles that programs write into a folder by themselves. When a profile is complete, the agent
 * requests a session for the profile's time span, with the records of this host's rings. The profile becomes a part of
 * that session, and of every other session whose window overlaps the span.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/tracer/tracer.h"
#include "agent/tracer/watch/folder.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"
#include "xspace/xspace.h"

TRACER_DECLARE(watch);

#define LOOK_EVERY_NS (2 * NS_PER_S)
#define FOLDERS_MAX   16
#define PROFILES_MAX  64 /* the newest ones that are known */

struct watch_conf {
	struct conf_list watch;
};

static const struct conf_field conf_fields[] = {
	CONF(struct watch_conf, watch, NULL,
	     "folder that programs of this host write profiles into, as jax.profiler.start_trace() "
	     "does: each "
	     "becomes a session"),
	{ 0 }
};

/* The worker's while a look is under way. */
struct look {
	struct tracer_watch *owner; /* loop's thread only; NULL when the tracer is gone */
	struct watch_folder *folders[FOLDERS_MAX];
	size_t n_folders;
	struct watch_profile found[PROFILES_MAX];
	size_t n_found;
	char problem[256]; /* of the first folder that has one */
	int error;
};

struct tracer_watch {
	struct tracer base;
	struct loop *loop;
	struct tracer_env env;
	struct loop_timer timer;
	struct look *look;
	bool looking;
	struct watch_profile profiles[PROFILES_MAX];
	char problem[256]; /* what cannot be read; "" = nothing */
	int error; /* its errno */
	size_t n_profiles; /* that were ever found: number n is at n modulo PROFILES_MAX */
	int live; /* copies under way */
};

/* The copies for one run; the worker's while they are made. */
struct copies {
	struct tracer_watch *owner;
	struct tracer_run *run; /* NULL when it was cancelled; loop's thread only */
	struct watch_profile *profiles;
	char **paths;
	struct err *errs;
	int *rcs;
	size_t n;
};

static struct tracer_watch *to_watch(struct tracer *t)
{
	return (struct tracer_watch *)t;
}

/* ---- looking ---- */

static void on_found(void *arg, const struct watch_profile *p)
{
	struct look *l = arg;

	if (l->n_found < PROFILES_MAX)
		l->found[l->n_found++] = *p;
}

static void look_run(void *arg)
{
	struct look *l = arg;

	l->n_found = 0;
	l->error = 0;
	*l->problem = '\0';
	for (size_t i = 0; i < l->n_folders; i++) {
		watch_folder_look(l->folders[i], now_real_ns(), on_found, l);
		if (l->error)
			continue;
		l->error = watch_folder_error(l->folders[i]);
		snprintf(l->problem, sizeof(l->problem), "%s", watch_folder_problem(l->folders[i]));
	}
}

static void look_free(struct look *l)
{
	for (size_t i = 0; i < l->n_folders; i++)
		watch_folder_free(l->folders[i]);
	free(l);
}

static void begin_look(void *arg);

static void take_profile(struct tracer_watch *t, const struct watch_profile *p)
{
	t->profiles[t->n_profiles++ % PROFILES_MAX] = *p;
	log_info("AGT-WATCH", "run=%s file=%s bytes=%" PRIu64 " state=found", p->run, p->file,
		 p->bytes);
	if (t->env.request_snapshot)
		t->env.request_snapshot(t->env.request_arg, p->from_real_ns, p->to_real_ns, p->run);
}

static void look_done(void *arg)
{
	struct look *l = arg;
	struct tracer_watch *t = l->owner;

	if (!t) {
		look_free(l);
		return;
	}
	t->looking = false;
	t->error = l->error;
	snprintf(t->problem, sizeof(t->problem), "%s", l->problem);
	for (size_t i = 0; i < l->n_found; i++)
		take_profile(t, &l->found[i]);
	loop_timer_in(t->loop, &t->timer, LOOK_EVERY_NS, begin_look, t);
}

static void begin_look(void *arg)
{
	struct tracer_watch *t = arg;

	t->looking = true;
	loop_work(t->loop, look_run, look_done, t->look);
}

/* ---- copying ---- */

static void copies_free(struct copies *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->paths[i]);
	free(c->profiles);
	free(c->paths);
	free(c->errs);
	free(c->rcs);
	free(c);
}

static void copy_run(void *arg)
{
	struct copies *c = arg;

	for (size_t i = 0; i < c->n; i++)
		c->rcs[i] = watch_profile_copy(&c->profiles[i], c->paths[i], &c->errs[i]);
}

static void add_part(struct tracer_run *run, const struct watch_profile *p, char **path)
{
	struct tracer_part *part = tracer_run_add_part(run);

	part->path = *path;
	*path = NULL;
	part->base = PART_REAL;
	part->start_real_ns = p->from_real_ns;
	part->pid = XS_PID_UNKNOWN;
	snprintf(part->label, sizeof(part->label), "%.60s", p->run);
}

static void copy_done(void *arg)
{
	struct copies *c = arg;
	struct tracer_run *run = c->run;

	c->owner->live--;
	for (size_t i = 0; run && i < c->n; i++) {
		if (!c->rcs[i])
			add_part(run, &c->profiles[i], &c->paths[i]);
		else
			tracer_run_set_result(run, RUN_DEGRADED, REASON_TRACER_FAILED,
					      "the profile %s: %s", c->profiles[i].run,
					      c->errs[i].msg);
	}
	copies_free(c);
	if (run) {
		run->arg = NULL;
		run->done(run);
	}
}

static bool overlaps(const struct tracer_run *run, const struct watch_profile *p)
{
	return p->to_real_ns > run->t0_real_ns &&
	       p->from_real_ns < run->t0_real_ns + (run->t1_raw_ns - run->t0_raw_ns);
}

static void add_copy(struct copies *c, const struct watch_profile *p)
{
	struct tracer_run *run = c->run;

	if (!run->reserve_bytes(run, p->bytes)) {
		tracer_run_set_result(run, RUN_DEGRADED, REASON_DISK_FULL,
				      "the profile %s does not fit into the spool", p->run);
		return;
	}
	c->profiles[c->n] = *p;
	c->paths[c->n] = xasprintf("%s/watch-%zu.xplane.pb", run->dir, c->n);
	c->n++;
}

/* ---- the table ---- */

static void watch_gather(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_watch *t = to_watch(tracer);
	size_t known = t->n_profiles < PROFILES_MAX ? t->n_profiles : PROFILES_MAX;
	struct copies *c = xcalloc(1, sizeof(*c));

	*c = (struct copies){ .owner = t,
			      .run = run,
			      .profiles = xcalloc(known + 1, sizeof(*c->profiles)),
			      .paths = xcalloc(known + 1, sizeof(*c->paths)),
			      .errs = xcalloc(known + 1, sizeof(*c->errs)),
			      .rcs = xcalloc(known + 1, sizeof(*c->rcs)) };
	for (size_t i = 0; i < known; i++) {
		if (overlaps(run, &t->profiles[i]))
			add_copy(c, &t->profiles[i]);
	}
	if (!c->n) {
		copies_free(c);
		run->done(run);
		return;
	}
	run->arg = c;
	t->live++;
	loop_work(t->loop, copy_run, copy_done, c);
}

static void watch_cancel(struct tracer *tracer, struct tracer_run *run)
{
	struct copies *c = run->arg;

	(void)tracer;
	if (c)
		c->run = NULL;
}

static void watch_state(const struct tracer *tracer, struct tracer_state *out)
{
	const struct tracer_watch *t = (const struct tracer_watch *)tracer;

	*out = (struct tracer_state){ .health = !t->look->n_folders ? TRACER_OFF
						: t->error	    ? TRACER_DEGRADED
								    : TRACER_OK,
				      .errno_value = t->error };
	snprintf(out->reason, sizeof(out->reason), "%s",
		 t->look->n_folders ? t->problem : "no folder: set --watch");
}

static int watch_open(struct tracer **out, const struct tracer_env *env, struct err *e)
{
	const struct watch_conf *conf = env->conf;
	struct tracer_watch *t;

	if (conf->watch.n > FOLDERS_MAX)
		return err_set(e, ERR_LIMIT, "--watch: %zu folders, at most %d", conf->watch.n,
			       FOLDERS_MAX);
	t = xcalloc(1, sizeof(*t));
	t->base.ops = &tracer_watch_ops;
	t->loop = env->loop;
	t->env = *env;
	t->look = xcalloc(1, sizeof(*t->look));
	t->look->owner = t;
	for (size_t i = 0; i < conf->watch.n; i++)
		t->look->folders[t->look->n_folders++] = watch_folder_new(conf->watch.items[i],
									  now_real_ns());
	if (conf->watch.n)
		begin_look(t);
	*out = &t->base;
	return 0;
}

static void watch_free(struct tracer *tracer)
{
	struct tracer_watch *t = to_watch(tracer);

	loop_timer_cancel(t->loop, &t->timer);
	if (t->looking)
		t->look->owner = NULL; /* look_done() frees it */
	else
		look_free(t->look);
	while (t->live)
		loop_turn(t->loop, 50);
	free(t);
}

const struct tracer_ops tracer_watch_ops = {
	.name = "watch",
	.conf = conf_fields,
	.conf_size = sizeof(struct watch_conf),
	.open = watch_open,
	.state = watch_state,
	.gather = watch_gather,
	.cancel = watch_cancel,
	.free = watch_free,
};
