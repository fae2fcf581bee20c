/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api/hosts_text.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/registry.h"
#include "aggregator/pods/pods.h"
#include "base/buf.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "base/now.h"

#define QUIET_NS   (40 * NS_PER_S)
#define TURN_HOSTS 100 /* hosts that are written in one turn of the loop at most */

struct hosts_text {
	struct registry *registry;
	struct jobs *jobs;
	char *last; /* the host that was written last; NULL = none yet */
	char **names; /* only these hosts, sorted; NULL = all */
	size_t n_names, next_name;
	struct buf text;
	size_t wanted; /* bytes of the piece that is being made; 0 = none is */
	bool is_dropped; /* freed when its turn comes */
	hosts_piece_fn fn;
	void *arg;
};

static json_t *tracer_json(const struct host_tracer *t)
{
	json_t *o = json_object();

	json_put_text(o, "name", t->name);
	json_put_text(o, "state", t->state);
	json_put_text(o, "reason", t->reason);
	json_put_int(o, "errno", t->errno_value);
	if (t->lead_ns)
		json_put_int(o, "lead_ms", t->lead_ns / NS_PER_MS);
	if (t->counts_steps)
		json_put_bool(o, "counts_steps", true);
	if (t->begin_ns)
		json_put_int(o, "begin_ns", t->begin_ns);
	return o;
}

static json_t *job_json(const struct host_job *j)
{
	json_t *o = json_object();

	json_put_int(o, "pid", j->pid);
	json_put_text(o, "command", j->command);
	json_put_text(o, "framework", j->framework);
	json_put_int(o, "port", j->port);
	json_put_text(o, "address", j->address);
	json_put_text(o, "state", j->state);
	return o;
}

static json_t *steps_json(const struct host_steps *s)
{
	json_t *o = json_object();

	json_put_int(o, "step", s->step);
	json_put_int(o, "at_ns", s->at_ns);
	json_put_int(o, "period_ns", s->period_ns);
	json_put_int(o, "jitter_ns", s->jitter_ns);
	return o;
}

/* Adds how long a connected host has been silent. A host sends probes at least every 16 s. */
static void put_quiet(json_t *o, const struct host *h)
{
	int64_t quiet_ns = now_real_ns() - h->seen_real_ns;

	if (h->control && quiet_ns > QUIET_NS)
		json_put_int(o, "quiet_ns", quiet_ns);
}

static void put_processes(json_t *o, const struct host *h)
{
	json_t *held = json_array(), *jobs = json_array();

	for (size_t i = 0; i < h->n_jobs; i++)
		json_array_append_new(jobs, job_json(&h->jobs[i]));
	json_put(o, "jobs", jobs);
	if (h->more_jobs)
		json_put_int(o, "more_jobs", h->more_jobs);
	for (size_t i = 0; i < h->n_held; i++) {
		if (h->held[i].undelivered)
			json_array_append_new(held, json_text(h->held[i].session));
	}
	json_put(o, "held", held);
}

/* All members but those of put_processes(). */
static json_t *machine_json(const struct host *h)
{
	json_t *o = json_object(), *labels = json_object(), *tracers = json_array();

	json_put_text(o, "host", h->name);
	json_put_text(o, "state", h->control ? "connected" : "lost");
	for (size_t i = 0; i < h->n_labels; i++)
		json_put_text(labels, h->label_keys[i], h->label_values[i]);
	json_put(o, "labels", labels);
	json_put_text(o, "version", h->version);
	json_put_text(o, "address", h->address);
	json_put_text(o, "profiler_address", h->profiler_address);
	json_put_int(o, "seen_ns", h->seen_real_ns);
	put_quiet(o, h);
	json_put(o, "clock", host_clock_json(&h->clock));
	for (size_t i = 0; i < h->n_tracers; i++)
		json_array_append_new(tracers, tracer_json(&h->tracers[i]));
	json_put(o, "tracers", tracers);
	if (h->steps.known)
		json_put(o, "steps", steps_json(&h->steps));
	return o;
}

json_t *host_json(const struct host *h)
{
	json_t *o = machine_json(h);

	put_processes(o, h);
	return o;
}

/* A piece is whole, or the turn over. */
static bool is_enough(const struct hosts_text *t, size_t n)
{
	return n == TURN_HOSTS || t->text.len >= t->wanted ||
	       (n && loop_turn_is_over(t->jobs->loop));
}

static void add_host(struct hosts_text *t, const char *name, json_t *o)
{
	if (t->last)
		buf_add_str(&t->text, ",");
	json_write(&t->text, o, 0);
	free(t->last);
	t->last = xstrdup(name);
}

/* False if hosts are left for the next turn. */
static bool write_turn(struct hosts_text *t)
{
	size_t n;
	struct host *const *hosts = registry_hosts(t->registry, &n);
	size_t first = registry_index_after(t->registry, t->last), i = first;

	for (; i < n && !is_enough(t, i - first); i++)
		add_host(t, hosts[i]->name, host_json(hosts[i]));
	return i == n;
}

/* The same of the named hosts; one that was forgotten meanwhile is left out. */
static bool write_named_turn(struct hosts_text *t)
{
	size_t first = t->next_name;

	for (; t->next_name < t->n_names && !is_enough(t, t->next_name - first); t->next_name++) {
		const struct host *h = registry_find(t->registry, t->names[t->next_name]);
		json_t *o = h ? machine_json(h) : NULL;

		if (!h)
			continue;
		json_put(o, "jobs", json_array());
		json_put(o, "held", json_array());
		add_host(t, h->name, o);
	}
	return t->next_name == t->n_names;
}

static void text_free(struct hosts_text *t)
{
	for (size_t i = 0; i < t->n_names; i++)
		free(t->names[i]);
	free(t->names);
	free(t->last);
	buf_release(&t->text);
	free(t);
}

static void write_next_hosts(void *arg)
{
	struct hosts_text *t = arg;
	struct buf piece;
	bool is_last;

	if (t->is_dropped) {
		text_free(t);
		return;
	}
	is_last = t->names ? write_named_turn(t) : write_turn(t);
	if (!is_last && t->text.len < t->wanted) {
		jobs_post(t->jobs, write_next_hosts, t);
		return;
	}
	if (is_last)
		buf_add_str(&t->text, "]}");
	t->wanted = 0;
	piece = t->text;
	t->text = (struct buf)BUF_INIT;
	t->fn(t->arg, &piece, is_last); /* may free it */
	buf_release(&piece);
}

static void add_names(struct hosts_text *t, const struct pods *pods, const struct spaces *within)
{
	struct pods_selection s;

	t->names = xcalloc(1, sizeof(*t->names));
	if (pods_select(pods, t->registry, "all", within, &s, NULL))
		return;
	t->names = xrealloc(t->names, (s.n_hosts + 1) * sizeof(*t->names));
	for (size_t i = 0; i < s.n_hosts; i++)
		t->names[t->n_names++] = xstrdup(s.hosts[i]->name);
	pods_selection_release(&s);
}

struct hosts_text *hosts_text_new(struct registry *r, const struct pods *pods,
				  const struct spaces *within, struct jobs *jobs, hosts_piece_fn fn,
				  void *arg)
{
	struct hosts_text *t = xcalloc(1, sizeof(*t));

	t->registry = r;
	t->jobs = jobs;
	t->fn = fn;
	t->arg = arg;
	buf_add_str(&t->text, "{\"hosts\":[");
	if (within && !within->all)
		add_names(t, pods, within);
	return t;
}

void hosts_text_more(struct hosts_text *t, size_t bytes)
{
	assert(!t->wanted && bytes);
	t->wanted = bytes;
	jobs_post(t->jobs, write_next_hosts, t);
}

void hosts_text_free(struct hosts_text *t)
{
	if (!t)
		return;
	if (t->wanted)
		t->is_dropped = true;
	else
		text_free(t);
}

/* ---- the whole text ---- */

struct whole {
	struct hosts_text *text;
	json_text_fn fn;
	void *arg;
};

static void on_whole(void *arg, struct buf *piece_taken, bool is_last)
{
	struct whole *w = arg;

	(void)is_last;
	w->fn(w->arg, piece_taken);
	hosts_text_free(w->text);
	free(w);
}

void hosts_make_text(struct registry *r, const struct pods *pods, const struct spaces *within,
		     struct jobs *jobs, json_text_fn fn, void *arg)
{
	struct whole *w = xcalloc(1, sizeof(*w));

	w->fn = fn;
	w->arg = arg;
	w->text = hosts_text_new(r, pods, within, jobs, on_whole, w);
	hosts_text_more(w->text, SIZE_MAX);
}
