/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/profiler/jobs.h"

#include <stdio.h>
#include <string.h>

#include "agent/tracer/profiler/discover.h"
#include "net/address.h"

struct listing {
	struct tracer_job *out;
	size_t max, n;
};

static void add_job(struct listing *l, const struct tracer_job *job)
{
	if (l->n < l->max)
		l->out[l->n] = *job;
	l->n++;
}

static struct tracer_job job_of(const struct discover_target *t, const char *state)
{
	struct tracer_job job = { .state = state };

	job.pid = t->pid;
	job.framework = t->framework ? t->framework : "";
	memcpy(job.command, t->command, sizeof(job.command));
	return job;
}

static void add_profiler(struct listing *l, const struct discover_target *t, const char *state,
			 const char *address, int port)
{
	struct tracer_job job = job_of(t, state);

	snprintf(job.address, sizeof(job.address), "%s", address);
	job.port = port;
	add_job(l, &job);
}

/* Lists the jobs of one process, whose sockets begin at the i-th; returns where the next process's begin. A
 * process without a profiler is one job, however many sockets it has. */
static size_t add_process(struct listing *l, const struct discover *d, size_t i)
{
	const struct discover_target *first = discover_candidate(d, i), *t;
	bool has_profiler = false, is_open = false;

	for (; (t = discover_candidate(d, i)) && t->pid == first->pid; i++) {
		if (t->kind == DISCOVER_PROFILER)
			add_profiler(l, t, "ready", t->address, t->port);
		has_profiler |= t->kind == DISCOVER_PROFILER;
		is_open |= t->kind != DISCOVER_PROFILER && t->kind != DISCOVER_OTHER;
	}
	if (!has_profiler) {
		struct tracer_job job = job_of(first, is_open ? "probing" : "no-profiler");

		add_job(l, &job);
	}
	return i;
}

static bool is_discovered(const struct discover *d, int port)
{
	const struct discover_target *t;

	for (size_t i = 0; (t = discover_candidate(d, i)); i++) {
		if (t->port == port && t->kind == DISCOVER_PROFILER)
			return true;
	}
	return false;
}

static void add_configured(struct listing *l, const struct discover *d, const char *address,
			   bool discovers)
{
	struct discover_target owner = { 0 };
	char host[ADDRESS_HOST_BYTES];
	int port;

	if (address_split(address, host, &port, NULL))
		return;
	if (address_is_loopback(host)) {
		if (discovers && is_discovered(d, port))
			return;
		(void)discover_owner(d, port, &owner);
	}
	add_profiler(l, &owner, "configured", address, port);
}

size_t profiler_list_jobs(const struct profiler_conf *conf, const struct discover *d,
			  struct tracer_job *out, size_t max)
{
	struct listing l = { .out = out, .max = max };

	for (size_t i = 0; i < conf->profiler.n; i++)
		add_configured(&l, d, conf->profiler.items[i], conf->discover);
	for (size_t i = 0; conf->discover && discover_candidate(d, i);)
		i = add_process(&l, d, i);
	return l.n;
}
