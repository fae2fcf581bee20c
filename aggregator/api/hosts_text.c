/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api/hosts_text.h"

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

struct hosts_job {
	struct registry *registry;
	struct jobs *jobs;
	char *last; /* the host that was written last; NULL = none yet */
	char **names; /* only these hosts, sorted; NULL = all */
	size_t n_names, next_name;
	struct buf text;
	json_text_fn fn;
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

/* False if hosts are left for the next turn. */
static bool write_turn(struct hosts_job *job)
{
	size_t n;
	struct host *const *hosts = registry_hosts(job->registry, &n);
	size_t i = registry_index_after(job->registry, job->last);
	size_t end = n - i > TURN_HOSTS ? i + TURN_HOSTS : n;

	for (size_t first = i; i < end && (i == first || !loop_turn_is_over(job->jobs->loop));
	     i++) {
		if (job->last)
			buf_add_str(&job->text, ",");
		json_write(&job->text, host_json(hosts[i]), 0);
		free(job->last);
		job->last = xstrdup(hosts[i]->name);
	}
	return i == n;
}

/* The same of the named hosts; one that was forgotten meanwhile is left out. */
static bool write_named_turn(struct hosts_job *job)
{
	size_t left = job->n_names - job->next_name, n = left < TURN_HOSTS ? left : TURN_HOSTS;

	for (size_t end = job->next_name + n; job->next_name < end; job->next_name++) {
		const struct host *h = registry_find(job->registry, job->names[job->next_name]);
		json_t *o;

		if (!h)
			continue;
		if (job->last)
			buf_add_str(&job->text, ",");
		o = machine_json(h);
		json_put(o, "jobs", json_array());
		json_put(o, "held", json_array());
		json_write(&job->text, o, 0);
		free(job->last);
		job->last = xstrdup(h->name);
	}
	return n == left;
}

static void write_next_hosts(void *arg)
{
	struct hosts_job *job = arg;

	if (!(job->names ? write_named_turn(job) : write_turn(job))) {
		jobs_post(job->jobs, write_next_hosts, job);
		return;
	}
	buf_add_str(&job->text, "]}");
	job->fn(job->arg, &job->text);
	for (size_t i = 0; i < job->n_names; i++)
		free(job->names[i]);
	free(job->names);
	free(job->last);
	free(job);
}

static struct hosts_job *job_new(struct registry *r, struct jobs *jobs, json_text_fn fn, void *arg)
{
	struct hosts_job *job = xcalloc(1, sizeof(*job));

	job->registry = r;
	job->jobs = jobs;
	job->fn = fn;
	job->arg = arg;
	buf_add_str(&job->text, "{\"hosts\":[");
	return job;
}

void hosts_make_text(struct registry *r, struct jobs *jobs, json_text_fn fn, void *arg)
{
	write_next_hosts(job_new(r, jobs, fn, arg));
}

static void add_names(struct hosts_job *job, const struct pods *pods, const struct spaces *within)
{
	struct pods_selection s;

	job->names = xcalloc(1, sizeof(*job->names));
	if (pods_select(pods, job->registry, "all", within, &s, NULL))
		return;
	job->names = xrealloc(job->names, (s.n_hosts + 1) * sizeof(*job->names));
	for (size_t i = 0; i < s.n_hosts; i++)
		job->names[job->n_names++] = xstrdup(s.hosts[i]->name);
	pods_selection_release(&s);
}

void hosts_make_text_within(struct registry *r, const struct pods *pods,
			    const struct spaces *within, struct jobs *jobs, json_text_fn fn,
			    void *arg)
{
	struct hosts_job *job;

	if (within->all) {
		hosts_make_text(r, jobs, fn, arg);
		return;
	}
	job = job_new(r, jobs, fn, arg);
	add_names(job, pods, within);
	write_next_hosts(job);
}
