/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery: rounds of a worker with the Kubernetes API, one after the other, and what they bring. */
#include "aggregator/pods/pods.h"

#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/registry.h"
#include "aggregator/pods/pods_impl.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"

#define BATCHES_WAITING 8
#define RETRY_DOUBLINGS 6
#define ROOM_CHECK_NS	NS_PER_MS

const char *const pods_state_names[] = { "off", "listing", "watching", "waiting", "ended" };

enum pods_event { ROUND_BEGINS, LISTED, ROUND_ENDS, ROUND_FAILS, STOPPED, N_EVENTS };

/* What follows; an event that has no row here changes nothing. */
static const struct {
	enum pods_state from;
	enum pods_event event;
	enum pods_state to;
} moves[] = {
	{ PODS_OFF, STOPPED, PODS_ENDED },
	{ PODS_WAITING, ROUND_BEGINS, PODS_LISTING },
	{ PODS_WAITING, STOPPED, PODS_ENDED },
	{ PODS_LISTING, LISTED, PODS_WATCHING },
	{ PODS_LISTING, ROUND_FAILS, PODS_WAITING },
	{ PODS_LISTING, STOPPED, PODS_ENDED },
	{ PODS_WATCHING, ROUND_ENDS, PODS_WATCHING },
	{ PODS_WATCHING, ROUND_FAILS, PODS_WAITING },
	{ PODS_WATCHING, STOPPED, PODS_ENDED },
};

static void move(struct pods *p, enum pods_event event)
{
	for (size_t i = 0; i < ARRAY_SIZE(moves); i++) {
		if (moves[i].from == p->state && moves[i].event == event) {
			p->state = moves[i].to;
			return;
		}
	}
}

/* ---- what a round brings ---- */

struct delivery {
	struct pods *pods;
	struct kube_batch *batch;
};

static void set_well(struct pods *p)
{
	p->n_failed = 0;
	p->error = (struct err){ 0 };
}

/* What happened to a pod between two reports; NULL = no failure. */
static const char *failure_between(const struct pod *was, const struct pod *is)
{
	if (strcmp(was->phase, "Failed") && !strcmp(is->phase, "Failed"))
		return "the pod has failed";
	return pod_restarts(is) > pod_restarts(was) ? "a container began again" : NULL;
}

/* A pod that was not known, or that the listing after a pause shows, has no state before: nothing is concluded. */
static void look_for_failure(struct pods *p, const struct pod *is)
{
	const struct pod *was = is->snapshot_ns ? pod_table_find(&p->table, is->uid) : NULL;
	const char *what = was && !is->opted_out ? failure_between(was, is) : NULL;
	const struct node_entry *node;
	struct node_index nodes;

	if (!what || !p->on_failure)
		return;
	node_index_build(&nodes, p->env.registry);
	node = node_index_find(&nodes, is->node);
	if (node && node->host->control)
		p->on_failure(p->failure_arg, is, node->host->name, what);
	node_index_release(&nodes);
}

static void apply(struct pods *p, struct kube_batch *b)
{
	if (b->begins_listing)
		pod_table_begin_listing(&p->table);
	for (size_t i = 0; i < b->n; i++) {
		if (b->changes[i].is_gone) {
			pod_table_remove(&p->table, b->changes[i].pod->uid);
			continue;
		}
		look_for_failure(p, b->changes[i].pod);
		pod_table_put(&p->table, pod_ref(b->changes[i].pod));
	}
	pod_teller_wake(&p->teller);
	if (!b->ends_listing)
		return;
	pod_table_end_listing(&p->table);
	p->was_listed = true;
	set_well(p);
	move(p, LISTED);
	log_info("PODS-LISTED", "pods=%zu bytes=%zu left_out=%llu", p->table.n, p->table.bytes,
		 (unsigned long long)p->table.left_out);
}

static void on_batch(void *arg)
{
	struct delivery *d = arg;

	apply(d->pods, d->batch);
	d->pods->n_waiting--;
	kube_batch_free(d->batch);
	free(d);
}

/* On the worker: waits while the loop has several batches to take, so that these stay few. */
static void deliver(void *arg, struct kube_batch *batch_taken)
{
	struct pods *p = arg;
	struct delivery *d = xcalloc(1, sizeof(*d));

	while (p->n_waiting >= BATCHES_WAITING && !p->cancelled)
		now_sleep_until_mono(now_mono_ns() + ROOM_CHECK_NS);
	p->n_waiting++;
	*d = (struct delivery){ .pods = p, .batch = batch_taken };
	loop_post(p->env.jobs->loop, on_batch, d);
}

/* ---- rounds ---- */

static void begin_round(void *arg);

static void run_round(void *arg)
{
	struct pods *p = arg;

	p->round_rc = kube_feed_run(&p->feed, &p->round_error);
}

static void wait_for_next(struct pods *p)
{
	unsigned int doublings = p->n_failed < RETRY_DOUBLINGS ? p->n_failed : RETRY_DOUBLINGS;
	int64_t pause_ns = random_pause_ns(p->env.retry_ns << doublings);

	p->error = p->round_error;
	move(p, ROUND_FAILS);
	/* A version that is too old is no failure: all that is needed is another listing. */
	if (p->round_rc == ERR_NOT_FOUND)
		log_info("PODS-RELIST", "reason=\"%s\"", p->error.msg);
	else
		log_warn("PODS-RETRY", "in_ms=%lld reason=\"%s\"",
			 (long long)(pause_ns / NS_PER_MS), p->error.msg);
	p->n_failed++;
	loop_timer_in(p->env.jobs->loop, &p->retry, pause_ns, begin_round, p);
}

static void on_round_end(void *arg)
{
	struct pods *p = arg;

	if (p->cancelled)
		return;
	if (p->round_rc) {
		wait_for_next(p);
		return;
	}
	set_well(p);
	move(p, ROUND_ENDS);
	jobs_work(p->env.jobs, run_round, on_round_end, p);
}

static void begin_round(void *arg)
{
	struct pods *p = arg;

	move(p, ROUND_BEGINS);
	if (p->feed.version[0]) /* the listing that there is goes on to be good */
		move(p, LISTED);
	jobs_work(p->env.jobs, run_round, on_round_end, p);
}

/* ---- life ---- */

static void on_hosts_changed(void *arg)
{
	struct pods *p = arg;

	if (!p->cancelled && p->was_listed)
		pod_teller_wake(&p->teller);
}

int pods_new(struct pods **out, const struct pods_env *env, struct err *e)
{
	struct pods *p = xcalloc(1, sizeof(*p));
	int rc = 0;

	p->env = *env;
	STAILQ_INIT(&p->events.waiting);
	if (env->server && *env->server)
		rc = kube_api_open(&p->api, env->server, env->token_file, env->ca_file, e);
	if (rc) {
		pods_free(p);
		return rc;
	}
	*out = p;
	if (!p->api.url)
		return 0;
	p->feed = (struct kube_feed){
		.api = &p->api, .cancelled = &p->cancelled, .take = deliver, .arg = p
	};
	p->teller = (struct pod_teller){ .loop = env->jobs->loop,
					 .registry = env->registry,
					 .table = &p->table };
	registry_watch(env->registry, on_hosts_changed, p);
	p->state = PODS_WAITING;
	begin_round(p);
	return 0;
}

void pods_stop(struct pods *p)
{
	if (!p)
		return;
	p->cancelled = true;
	loop_timer_cancel(p->env.jobs->loop, &p->retry);
	pod_teller_stop(&p->teller);
	move(p, STOPPED);
}

void pods_free(struct pods *p)
{
	if (!p)
		return;
	pod_table_release(&p->table);
	kube_api_close(&p->api);
	free(p);
}

void pods_on_failure(struct pods *p,
		     void (*fn)(void *arg, const struct pod *pod, const char *host,
				const char *what),
		     void *arg)
{
	p->on_failure = fn;
	p->failure_arg = arg;
}

struct pod *pods_find(const struct pods *p, const char *uid)
{
	return pod_table_find(&p->table, uid);
}

bool pods_are_known(const struct pods *p)
{
	return p->was_listed;
}
