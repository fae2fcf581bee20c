/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "agent/clock/clock.h"
#include "agent/link/step_reporter.h"
#include "agent/tracer/tracer.h"
#include "base/clean_text.h"
#include "base/conf.h"
#include "base/file.h"
#include "base/mem.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "proto/reasons.h"

void message_send(struct rpc_call *call, const Tutti__V1__AgentMessage *m)
{
	size_t len = tutti__v1__agent_message__get_packed_size(m);
	uint8_t *bytes;

	if (!call)
		return;
	bytes = xmalloc(len + 1);
	tutti__v1__agent_message__pack(m, bytes);
	rpc_send(call, bytes, len);
	free(bytes);
}

/* ---- tracers ---- */

/* How long the host slept since; the raw clock stood still meanwhile, and the model of now does not know of it. */
static int64_t slept_since_ns(const struct clock_ledger *l, int64_t raw_ns)
{
	int64_t slept_ns = 0;

	for (size_t i = 0; i < l->n_steps; i++) {
		if (l->steps[i].kind == LEDGER_SUSPEND && l->steps[i].to_raw_ns > raw_ns)
			slept_ns += l->steps[i].delta_ns;
	}
	return slept_ns;
}

int64_t message_ring_begin_ns(const struct tracer *t, const struct clock_model *m)
{
	int64_t begin_raw_ns, begin_ns;

	if (!t->ops->begin_raw_ns || !m->calibrated)
		return 0;
	begin_raw_ns = t->ops->begin_raw_ns(t);
	begin_ns = clock_model_session_of_raw(m, begin_raw_ns);
	if (begin_ns <= 0 || begin_ns > LIMIT_TIME_NS)
		return 0;
	begin_ns -= slept_since_ns(&m->ledger, begin_raw_ns);
	return begin_ns > 0 ? begin_ns : 0;
}

static Tutti__V1__TracerState *make_state(const struct tracer *t, const struct clock_model *m)
{
	Tutti__V1__TracerState *out = xmalloc(sizeof(*out));
	struct tracer_state st = { 0 };

	tracer_get_state(t, &st);
	tutti__v1__tracer_state__init(out);
	out->name = (char *)t->ops->name;
	out->state = (char *)tracer_health_name(st.health);
	out->reason = xmalloc(sizeof(st.reason));
	clean_sentence(out->reason, sizeof(st.reason), st.reason, strlen(st.reason));
	out->errno_value = st.errno_value;
	out->lead_ns = t->ops->lead_ns ? t->ops->lead_ns(t) : 0;
	out->begin_ns = message_ring_begin_ns(t, m);
	out->counts_steps = t->ops->counts_steps && t->ops->counts_steps(t);
	return out;
}

static Tutti__V1__TracerState **make_states(struct tracer *const *all, const struct clock_model *m,
					    size_t *n)
{
	Tutti__V1__TracerState **states;

	for (*n = 0; all[*n];)
		++*n;
	states = xcalloc(*n + 1, sizeof(*states));
	for (size_t i = 0; i < *n; i++)
		states[i] = make_state(all[i], m);
	return states;
}

static void free_states(Tutti__V1__TracerState **states, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(states[i]->reason);
		free(states[i]);
	}
	free(states);
}

/* ---- jobs ---- */

/* The jobs of all tracers, with the messages that point into them. */
struct job_list {
	struct tracer_job jobs[LIMIT_JOBS];
	Tutti__V1__Job messages[LIMIT_JOBS], *pointers[LIMIT_JOBS];
	size_t n; /* jobs that are listed */
	uint32_t more;
};

static size_t list_jobs(struct tracer *const *all, struct tracer_job jobs[LIMIT_JOBS])
{
	size_t n = 0;

	for (size_t i = 0; all[i]; i++) {
		size_t left = n < LIMIT_JOBS ? LIMIT_JOBS - n : 0;

		if (all[i]->ops->jobs)
			n += all[i]->ops->jobs(all[i], left ? jobs + n : NULL, left);
	}
	return n;
}

static struct job_list *make_jobs(struct tracer *const *all)
{
	struct job_list *l = xcalloc(1, sizeof(*l));
	size_t n = list_jobs(all, l->jobs);

	l->n = n < LIMIT_JOBS ? n : LIMIT_JOBS;
	l->more = (uint32_t)(n - l->n);
	for (size_t i = 0; i < l->n; i++) {
		Tutti__V1__Job *m = l->pointers[i] = &l->messages[i];

		tutti__v1__job__init(m);
		m->pid = l->jobs[i].pid;
		m->command = l->jobs[i].command;
		m->framework = (char *)l->jobs[i].framework;
		m->port = (uint32_t)l->jobs[i].port;
		m->address = l->jobs[i].address;
		m->state = (char *)l->jobs[i].state;
	}
	return l;
}

uint32_t message_jobs_digest(struct tracer *const *all)
{
	struct tracer_job *jobs = xcalloc(LIMIT_JOBS, sizeof(*jobs));
	size_t n = list_jobs(all, jobs);
	uint32_t digest = (uint32_t)n;

	for (size_t i = 0; i < n && i < LIMIT_JOBS; i++) {
		digest = (uint32_t)crc32_z(digest, (const uint8_t *)&jobs[i].pid,
					   sizeof(jobs[i].pid));
		digest = (uint32_t)crc32_z(digest, (const uint8_t *)jobs[i].address,
					   strlen(jobs[i].address));
		digest = (uint32_t)crc32_z(digest, (const uint8_t *)jobs[i].state,
					   strlen(jobs[i].state));
	}
	free(jobs);
	return digest;
}

/* ---- what captures may set ---- */

static void add_settings(Tutti__V1__Hello *hello, const struct tracer_ops *ops)
{
	for (const struct setting *s = ops->settings; s && s->name; s++) {
		Tutti__V1__TracerSetting *m = xmalloc(sizeof(*m));

		tutti__v1__tracer_setting__init(m);
		m->tracer = (char *)ops->name;
		m->name = (char *)s->name;
		m->type = (char *)setting_kind_name(s->kind);
		m->min = s->min;
		m->max = s->max;
		m->value = s->value;
		m->help = (char *)s->help;
		hello->settings = xrealloc(hello->settings, (hello->n_settings + 1) * sizeof(m));
		hello->settings[hello->n_settings++] = m;
	}
}

static void free_settings(Tutti__V1__Hello *hello)
{
	for (size_t i = 0; i < hello->n_settings; i++)
		free(hello->settings[i]);
	free(hello->settings);
}

/* ---- hello and status ---- */

/* Each is KEY=VALUE: agent_conf_finish() has checked it. */
static Tutti__V1__Hello__LabelsEntry **make_labels(const struct conf_list *list)
{
	Tutti__V1__Hello__LabelsEntry **labels = xcalloc(list->n + 1, sizeof(*labels));

	for (size_t i = 0; i < list->n; i++) {
		const char *eq = strchr(list->items[i], '=');

		labels[i] = xmalloc(sizeof(**labels));
		tutti__v1__hello__labels_entry__init(labels[i]);
		labels[i]->key = xstrndup(list->items[i], (size_t)(eq - list->items[i]));
		labels[i]->value = (char *)eq + 1;
	}
	return labels;
}

static void free_labels(Tutti__V1__Hello__LabelsEntry **labels, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(labels[i]->key);
		free(labels[i]);
	}
	free(labels);
}

void message_hello(struct rpc_call *call, const struct link_env *env, uint64_t instance,
		   Tutti__V1__Held **held, size_t n_held)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Hello hello = TUTTI__V1__HELLO__INIT;
	struct job_list *jobs = make_jobs(env->tracers);
	/* a file of an earlier aggregator was made with another session clock */
	const struct clock_model model = { 0 };
	char boot_id[64];

	(void)file_first_line("/proc/sys/kernel/random/boot_id", boot_id, sizeof(boot_id));
	hello.host = (char *)env->host;
	hello.version = (char *)TUTTI_VERSION;
	hello.boot_id = boot_id;
	hello.instance = instance;
	hello.n_labels = env->labels->n;
	hello.labels = make_labels(env->labels);
	hello.tracers = make_states(env->tracers, &model, &hello.n_tracers);
	for (size_t i = 0; env->tracers[i]; i++)
		add_settings(&hello, env->tracers[i]->ops);
	hello.profiler_address = (char *)env->profiler_address;
	hello.jobs = jobs->pointers;
	hello.n_jobs = jobs->n;
	hello.more_jobs = jobs->more;
	hello.held = held;
	hello.n_held = n_held;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_HELLO;
	m.hello = &hello;
	message_send(call, &m);
	free_states(hello.tracers, hello.n_tracers);
	free(jobs);
	free_settings(&hello);
	free_labels(hello.labels, hello.n_labels);
}

void message_status(struct rpc_call *call, const struct link_env *env, Tutti__V1__Held **held,
		    size_t n_held)
{
	struct clock_model model = clock_model(env->clock);
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Status status = TUTTI__V1__STATUS__INIT;
	struct job_list *jobs = make_jobs(env->tracers);
	struct message_clock clock;
	Tutti__V1__Steps steps;

	message_clock(&clock, &model, model.bound_ns);
	status.clock = &clock.model;
	fill_steps_message(env, &steps);
	if (steps.known)
		status.steps = &steps;
	status.jobs = jobs->pointers;
	status.n_jobs = jobs->n;
	status.more_jobs = jobs->more;
	status.held = held;
	status.n_held = n_held;
	status.tracers = make_states(env->tracers, &model, &status.n_tracers);
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_STATUS;
	m.status = &status;
	message_send(call, &m);
	free_states(status.tracers, status.n_tracers);
	free(jobs);
}

/* ---- the result of a capture ---- */

/* True if the reason of this tracer can be the reason of the host's result. */
static bool explains_result(const struct capture_report *r, bool tracers_named)
{
	if (!strcmp(r->state, "off"))
		return tracers_named;
	return strcmp(r->state, "ok") != 0;
}

static Tutti__V1__TracerReport *make_reports(const struct capture_report *reports, size_t n)
{
	Tutti__V1__TracerReport *out = xcalloc(n + 1, sizeof(*out));

	for (size_t i = 0; i < n; i++) {
		tutti__v1__tracer_report__init(&out[i]);
		out[i].name = (char *)reports[i].tracer;
		out[i].state = (char *)reports[i].state;
		out[i].reason = (char *)reports[i].reason;
		out[i].detail = (char *)reports[i].detail;
		out[i].lost = reports[i].lost;
	}
	return out;
}

static void set_reason(Tutti__V1__HostResult *out, const struct message_result *r,
		       const struct capture_report *reports, size_t n)
{
	if (r->reason) {
		out->reason = (char *)r->reason;
		out->detail = (char *)(r->detail ? r->detail : "");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (!explains_result(&reports[i], r->tracers_named))
			continue;
		out->reason = (char *)(*reports[i].reason ? reports[i].reason
							  : REASON_TRACER_FAILED);
		out->detail = (char *)reports[i].detail;
		return;
	}
}

static void put_files(Tutti__V1__HostResult *out, const struct capture *c)
{
	const struct buf *observations = capture_observations(c);
	unsigned int n;
	const struct capture_file *files = capture_files(c, &n);

	out->observations = (ProtobufCBinaryData){ observations->len, observations->data };
	out->n_files = out->n_crc32c = n;
	out->files = xcalloc(n + 1, sizeof(*out->files));
	out->crc32c = xcalloc(n + 1, sizeof(*out->crc32c));
	for (unsigned int i = 0; i < n; i++) {
		out->files[i] = files[i].bytes;
		out->crc32c[i] = files[i].crc32c;
	}
}

void message_result(const struct message_result *r,
		    void (*send)(void *arg, const Tutti__V1__AgentMessage *m), void *arg)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__HostResult result = TUTTI__V1__HOST_RESULT__INIT;
	Tutti__V1__TracerReport **pointers, *made;
	Tutti__V1__StepsSeen steps;
	struct clock_slack slack = capture_slack(r->capture);
	struct message_clock clock;
	const struct capture_report *reports;
	size_t n;

	reports = capture_reports(r->capture, &n);
	made = make_reports(reports, n);
	pointers = xcalloc(n + 1, sizeof(*pointers));
	for (size_t i = 0; i < n; i++)
		pointers[i] = &made[i];
	message_clock(&clock, capture_clock(r->capture), capture_bound_ns(r->capture));
	clock.model.earlier_ns = slack.earlier_ns;
	clock.model.later_ns = slack.later_ns;
	result.session = (char *)capture_session(r->capture);
	result.has_file = r->has_file;
	result.t0_ns = capture_t0_ns(r->capture);
	result.events = r->has_file ? capture_events(r->capture) : 0;
	result.bytes = r->has_file ? capture_bytes(r->capture) : 0;
	result.clock = &clock.model;
	result.n_tracers = n;
	result.tracers = pointers;
	if (r->has_file)
		put_files(&result, r->capture);
	if (r->has_file && capture_steps(r->capture, &steps))
		result.steps = &steps;
	set_reason(&result, r, reports, n);
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_RESULT;
	m.result = &result;
	send(arg, &m);
	free(result.files);
	free(result.crc32c);
	free(pointers);
	free(made);
}

uint32_t message_tracers_digest(struct tracer *const *all)
{
	uint32_t digest = 0;

	for (size_t i = 0; all[i]; i++) {
		struct tracer_state st = { 0 };

		tracer_get_state(all[i], &st);
		digest = (uint32_t)crc32_z(digest, (const uint8_t *)&st.health, sizeof(st.health));
		digest = (uint32_t)crc32_z(digest, (const uint8_t *)st.reason, strlen(st.reason));
	}
	return digest;
}

uint32_t message_held_digest(Tutti__V1__Held *const *held, size_t n)
{
	uint32_t digest = 0;

	for (size_t i = 0; i < n; i++) {
		const char *words[] = { held[i]->session, held[i]->state };

		for (size_t k = 0; k < ARRAY_SIZE(words); k++)
			digest = (uint32_t)crc32_z(digest, (const uint8_t *)words[k],
						   strlen(words[k]));
	}
	return digest;
}
