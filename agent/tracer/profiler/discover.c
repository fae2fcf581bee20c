/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/profiler/discover.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/pods/local_pods.h"
#include "agent/pods/pod_view.h"
#include "agent/proc/scan.h"
#include "proto/profiler_request.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "proto/limits.h"

#define SCAN_PERIOD_NS	  (5 * NS_PER_S)
#define SCAN_FRESH_NS	  (100 * NS_PER_MS)
#define PROBE_DEADLINE_NS NS_PER_S
#define MAX_PROBES	  3 /* probes of one socket without an answer; any answer is final */

/* A listening socket of a framework's process. */
struct candidate {
	struct discover_target target;
	uint64_t inode;
	int probes;
};

/* One probe under way. */
struct probe {
	struct discover *d;
	struct rpc_channel *channel;
	uint64_t inode;
};

struct waiter {
	struct waiter *next;
	void (*fn)(void *arg);
	void *arg;
};

struct discover {
	struct discover_conf conf;
	struct loop_timer timer;
	bool dead;

	/* A search: a scan on a worker, then the probes. */
	bool scanning;
	int probing;
	int64_t scanned_ns; /* when the last scan ended; 0 = never */
	struct proc_scan *scan; /* the worker's while `scanning` */
	int scan_rc;
	struct err scan_error;

	/* The result of the last scan; a scan under way does not change it. */
	struct proc_listener *listeners;
	size_t n_listeners;
	bool incomplete; /* the sockets of some processes could not be listed */

	struct candidate *candidates;
	size_t n_candidates;
	struct discover_target *targets; /* the candidates that are profilers */
	size_t n_targets;
	struct waiter *waiters;
};

/* ---- waiters ---- */

static bool is_searching(const struct discover *d)
{
	return d->scanning || d->probing;
}

static void discover_timer(void *arg);

static void discover_end_search(struct discover *d)
{
	while (d->waiters && !is_searching(d) && !d->dead) {
		struct waiter *w = d->waiters;

		d->waiters = w->next;
		w->fn(w->arg);
		free(w);
	}
	if (d->conf.probe && !d->dead && !is_searching(d))
		loop_timer_in(d->conf.loop, &d->timer, SCAN_PERIOD_NS, discover_timer, d);
}

void discover_forget(struct discover *d, void *arg)
{
	struct waiter **at = &d->waiters;

	while (*at) {
		struct waiter *w = *at;

		if (w->arg != arg) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		free(w);
	}
}

/* ---- probes ---- */

static struct candidate *candidate_find(struct discover *d, uint64_t inode)
{
	for (size_t i = 0; i < d->n_candidates; i++) {
		if (d->candidates[i].inode == inode)
			return &d->candidates[i];
	}
	return NULL;
}

static void discover_set_targets(struct discover *d)
{
	free(d->targets);
	d->targets = xcalloc(d->n_candidates + 1, sizeof(*d->targets));
	d->n_targets = 0;
	for (size_t i = 0; i < d->n_candidates; i++) {
		if (d->candidates[i].target.kind == DISCOVER_PROFILER)
			d->targets[d->n_targets++] = d->candidates[i].target;
	}
}

static void candidate_set_kind(struct candidate *c, enum rpc_code code)
{
	const struct discover_target *t = &c->target;

	if (code == RPC_OK) {
		c->target.kind = DISCOVER_PROFILER;
		log_info("AGT-PROFILER", "address=%s pid=%" PRId64 " comm=%s state=found",
			 t->address, t->pid, t->comm);
	} else if ((code == RPC_DEADLINE_EXCEEDED || code == RPC_UNAVAILABLE) &&
		   c->probes < MAX_PROBES) {
		c->target.kind =
			DISCOVER_UNPROBED; /* the server is still starting, or is no gRPC server */
	} else {
		c->target.kind = DISCOVER_OTHER;
	}
}

static void on_probe_answer(void *arg, const struct rpc_status *st, const struct rpc_msg *msg)
{
	struct probe *p = arg;
	struct discover *d = p->d;
	struct candidate *c = candidate_find(d, p->inode);

	(void)msg;
	d->probing--;
	if (c && !d->dead) {
		candidate_set_kind(c, st->code);
		discover_set_targets(d);
	}
	rpc_channel_free(p->channel);
	free(p);
	discover_end_search(d);
}

static void candidate_probe(struct discover *d, struct candidate *c)
{
	struct rpc_channel_opts opts = {
		.target = c->target.address,
		.lane = "discover",
		.max_message_bytes = LIMIT_CONTROL_BYTES,
	};
	char session[PROFILER_SESSION_BYTES];
	struct rpc_channel *channel;
	struct buf request = BUF_INIT;
	struct probe *p;

	if (rpc_channel_new(&channel, d->conf.rpc, &opts, NULL)) {
		c->target.kind = DISCOVER_OTHER;
		return;
	}
	p = xcalloc(1, sizeof(*p));
	p->d = d;
	p->channel = channel;
	p->inode = c->inode;
	c->target.kind = DISCOVER_PROBING;
	c->probes++;
	d->probing++;
	profiler_session_name("tutti-probe", session);
	profiler_terminate_pack(&request, session);
	rpc_unary(channel, PROFILER_TERMINATE, request.data, request.len,
		  now_mono_ns() + PROBE_DEADLINE_NS, on_probe_answer, p);
	buf_release(&request);
}

/* ---- scans ---- */

/* A process may listen several times on one port (SO_REUSEPORT): only the first socket counts. */
static bool is_candidate(const struct discover *d, const struct proc_listener *l,
			 const struct pod_view *pods)
{
	if (!l->framework || l->pid == getpid() || pod_view_hides(pods, l->pid))
		return false;
	for (size_t i = 0; i < d->n_listeners && &d->listeners[i] != l; i++) {
		if (d->listeners[i].pid == l->pid && d->listeners[i].port == l->port)
			return false;
	}
	return true;
}

static void make_target(const struct proc_listener *l, struct discover_target *out)
{
	memset(out, 0, sizeof(*out));
	memcpy(out->address, l->address, sizeof(out->address));
	memcpy(out->comm, l->comm, sizeof(out->comm));
	memcpy(out->command, l->command, sizeof(out->command));
	out->framework = l->framework;
	out->port = l->port;
	out->pid = l->pid;
}

static struct candidate make_candidate(struct discover *d, const struct proc_listener *l)
{
	const struct candidate *old = candidate_find(d, l->inode);
	struct candidate c = { .inode = l->inode };

	if (old && old->target.pid == l->pid && old->target.port == l->port)
		return *old;
	make_target(l, &c.target);
	return c;
}

static int by_pid(const void *a, const void *b)
{
	const struct discover_target *x = &((const struct candidate *)a)->target,
				     *y = &((const struct candidate *)b)->target;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->port - y->port;
}

static void discover_set_candidates(struct discover *d)
{
	struct candidate *now = xcalloc(d->n_listeners + 1, sizeof(*now));
	struct pod_view *pods = local_pods_view(d->conf.pods);
	size_t n = 0;

	for (size_t i = 0; i < d->n_listeners; i++) {
		if (is_candidate(d, &d->listeners[i], pods))
			now[n++] = make_candidate(d, &d->listeners[i]);
	}
	pod_view_release(pods);
	if (n)
		sort_array(now, n, sizeof(*now), by_pid);
	free(d->candidates);
	d->candidates = now;
	d->n_candidates = n;
	discover_set_targets(d);
}

static void scan_run(void *arg)
{
	struct discover *d = arg;

	d->scan_rc = proc_scan_run(d->scan, &d->scan_error);
}

static void discover_take_scan(struct discover *d)
{
	const struct proc_listener *seen;

	seen = proc_scan_listeners(d->scan, &d->n_listeners);
	free(d->listeners);
	d->listeners = xcalloc(d->n_listeners + 1, sizeof(*seen));
	if (d->n_listeners)
		memcpy(d->listeners, seen, d->n_listeners * sizeof(*seen));
	d->incomplete = proc_scan_is_incomplete(d->scan);
}

static void scan_done(void *arg)
{
	struct discover *d = arg;

	d->scanning = false;
	d->scanned_ns = now_mono_ns();
	if (d->dead)
		return;
	if (d->scan_rc) {
		log_warn("AGT-DISCOVER", "reason=\"%s\"", d->scan_error.msg);
	} else {
		discover_take_scan(d);
		discover_set_candidates(d);
	}
	for (size_t i = 0; d->conf.probe && i < d->n_candidates; i++) {
		if (d->candidates[i].target.kind == DISCOVER_UNPROBED)
			candidate_probe(d, &d->candidates[i]);
	}
	discover_end_search(d);
}

static void discover_timer(void *arg)
{
	struct discover *d = arg;

	if (d->waiters && d->scanned_ns && now_mono_ns() - d->scanned_ns < SCAN_FRESH_NS) {
		discover_end_search(d);
		return;
	}
	d->scanning = true;
	loop_work(d->conf.loop, scan_run, scan_done, d);
}

void discover_refresh(struct discover *d, void (*fn)(void *arg), void *arg)
{
	struct waiter *w = xcalloc(1, sizeof(*w));

	w->fn = fn;
	w->arg = arg;
	w->next = d->waiters;
	d->waiters = w;
	if (!is_searching(d))
		loop_timer_in(d->conf.loop, &d->timer, 0, discover_timer, d);
}

/* ---- answers ---- */

const struct discover_target *discover_targets(const struct discover *d, size_t *n)
{
	*n = d->n_targets;
	return d->targets;
}

const struct discover_target *discover_candidate(const struct discover *d, size_t i)
{
	return i < d->n_candidates ? &d->candidates[i].target : NULL;
}

bool discover_owner(const struct discover *d, int port, struct discover_target *out)
{
	for (size_t i = 0; i < d->n_listeners; i++) {
		const struct proc_listener *l = &d->listeners[i];

		if (l->local && l->port == port && l->pid) {
			make_target(l, out);
			return true;
		}
	}
	return false;
}

bool discover_is_incomplete(const struct discover *d)
{
	return d->incomplete;
}

struct discover *discover_new(const struct discover_conf *conf)
{
	struct discover *d = xcalloc(1, sizeof(*d));

	d->conf = *conf;
	d->scan = proc_scan_new(conf->proc);
	if (conf->probe)
		loop_timer_in(conf->loop, &d->timer, 0, discover_timer, d);
	return d;
}

void discover_free(struct discover *d)
{
	if (!d)
		return;
	d->dead = true;
	loop_timer_cancel(d->conf.loop, &d->timer);
	proc_scan_stop(d->scan);
	while (is_searching(d)) /* bounded: each probe has a deadline */
		loop_turn(d->conf.loop, 50);
	while (d->waiters)
		discover_forget(d, d->waiters->arg);
	proc_scan_free(d->scan);
	free(d->listeners);
	free(d->candidates);
	free(d->targets);
	free(d);
}
