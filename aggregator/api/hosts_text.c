/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api/hosts_text.h"

#include <stdlib.h>

#include "aggregator/fleet/registry.h"
#include "aggregator/pods/pods.h"
#include "base/buf.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/pieces.h"

#define QUIET_NS   (40 * NS_PER_S)
#define TURN_HOSTS 100 /* hosts that are written in one turn of the loop at most */

struct hosts_text {
	struct registry *registry;
	struct jobs *jobs;
	char *last; /* the host that was written last; NULL = none yet */
	char **names; /* only these hosts, sorted; NULL = all */
	size_t n_names, next_name;
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

/* A piece is whole, or the turn over, in which `n` hosts were written. */
static bool is_enough(const struct hosts_text *t, size_t n, const struct buf *text, size_t wanted)
{
	return n == TURN_HOSTS || text->len >= wanted || (n && loop_turn_is_over(t->jobs->loop));
}

static void add_host(struct hosts_text *t, struct buf *text, const char *name, json_t *o)
{
	if (t->last)
		buf_add_str(text, ",");
	json_write(text, o, 0);
	free(t->last);
	t->last = xstrdup(name);
}

/* False if hosts are left for the next turn. */
static bool write_turn(struct hosts_text *t, struct buf *text, size_t wanted)
{
	size_t n;
	struct host *const *hosts = registry_hosts(t->registry, &n);
	size_t first = registry_index_after(t->registry, t->last), i = first;

	for (; i < n && !is_enough(t, i - first, text, wanted); i++)
		add_host(t, text, hosts[i]->name, host_json(hosts[i]));
	return i == n;
}

/* The same of the named hosts; one that was forgotten meanwhile is left out. */
static bool write_named_turn(struct hosts_text *t, struct buf *text, size_t wanted)
{
	size_t first = t->next_name;

	for (; t->next_name < t->n_names && !is_enough(t, t->next_name - first, text, wanted);
	     t->next_name++) {
		const struct host *h = registry_find(t->registry, t->names[t->next_name]);
		json_t *o = h ? machine_json(h) : NULL;

		if (!h)
			continue;
		json_put(o, "jobs", json_array());
		json_put(o, "held", json_array());
		add_host(t, text, h->name, o);
	}
	return t->next_name == t->n_names;
}

static enum pieces_state write_hosts(void *arg, struct buf *text, size_t wanted)
{
	struct hosts_text *t = arg;

	if (!(t->names ? write_named_turn(t, text, wanted) : write_turn(t, text, wanted)))
		return PIECES_PART;
	buf_add_str(text, "]}");
	return PIECES_WHOLE;
}

static void text_free(void *arg)
{
	struct hosts_text *t = arg;

	for (size_t i = 0; i < t->n_names; i++)
		free(t->names[i]);
	free(t->names);
	free(t->last);
	free(t);
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

struct pieces *hosts_text_new(struct registry *r, const struct pods *pods,
			      const struct spaces *within, struct jobs *jobs)
{
	static const struct pieces_source source = { write_hosts, text_free };
	struct hosts_text *t = xcalloc(1, sizeof(*t));

	t->registry = r;
	t->jobs = jobs;
	if (within && !within->all)
		add_names(t, pods, within);
	return pieces_new(jobs, &source, t, "{\"hosts\":[");
}

void hosts_make_text(struct registry *r, const struct pods *pods, const struct spaces *within,
		     struct jobs *jobs, json_text_fn fn, void *arg)
{
	pieces_make_whole(hosts_text_new(r, pods, within, jobs), false, fn, arg);
}
