/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/link/host_report.h"

#include "base/now.h"

void host_take_steps(struct host *h, const Tutti__V1__Steps *s)
{
	h->steps = (struct host_steps){
		.known = s->known,
		.counted = s->counted,
		.step = s->step,
		.at_ns = s->at_ns,
		.period_ns = s->period_ns,
		.jitter_ns = s->jitter_ns,
		.received_mono_ns = now_mono_ns(),
	};
}

static void set_tracers(struct host *h, Tutti__V1__TracerState *const *tracers, size_t n)
{
	host_clear_tracers(h);
	for (size_t i = 0; i < n; i++)
		host_add_tracer(h, &(struct host_tracer){
					   .name = tracers[i]->name,
					   .state = tracers[i]->state,
					   .reason = tracers[i]->reason,
					   .errno_value = tracers[i]->errno_value,
					   .lead_ns = tracers[i]->lead_ns,
					   .counts_steps = tracers[i]->counts_steps,
					   .begin_ns = tracers[i]->begin_ns,
				   });
}

static void set_jobs(struct host *h, Tutti__V1__Job *const *jobs, size_t n, uint32_t more)
{
	host_clear_jobs(h);
	for (size_t i = 0; i < n; i++) {
		const struct host_job job = {
			.command = jobs[i]->command,
			.framework = jobs[i]->framework,
			.address = jobs[i]->address,
			.state = jobs[i]->state,
			.pid = jobs[i]->pid,
			.port = (int)jobs[i]->port,
		};

		host_add_job(h, &job);
	}
	h->more_jobs = more;
}

/* control_check has checked the types. */
static void set_settings(struct host *h, Tutti__V1__TracerSetting *const *settings, size_t n)
{
	struct settings_list *l = n ? settings_list_new() : NULL;

	for (size_t i = 0; i < n; i++) {
		struct setting s = {
			.name = settings[i]->name,
			.min = settings[i]->min,
			.max = settings[i]->max,
			.value = settings[i]->value,
			.help = settings[i]->help,
		};

		if (setting_kind_parse(settings[i]->type, &s.kind))
			settings_list_add(l, settings[i]->tracer, &s);
	}
	host_set_settings(h, l);
}

static void set_held(struct host *h, Tutti__V1__Held *const *held, size_t n)
{
	host_clear_held(h);
	for (size_t i = 0; i < n; i++)
		host_add_held(h, held[i]->session, held[i]->state, held[i]->instance);
}

void host_take_hello(struct host *h, const Tutti__V1__Hello *hello)
{
	host_set_text(h, &h->version, hello->version);
	host_set_text(h, &h->profiler_address, hello->profiler_address);
	host_clear_labels(h);
	for (size_t i = 0; i < hello->n_labels; i++)
		host_add_label(h, hello->labels[i]->key, hello->labels[i]->value);
	set_tracers(h, hello->tracers, hello->n_tracers);
	set_settings(h, hello->settings, hello->n_settings);
	set_jobs(h, hello->jobs, hello->n_jobs, hello->more_jobs);
	set_held(h, hello->held, hello->n_held);
	h->instance = hello->instance;
	host_set_clock(h, NULL);
	h->steps = (struct host_steps){ 0 };
	host_renew_cookie(h);
}

void host_take_status(struct host *h, const Tutti__V1__Status *s)
{
	if (s->steps)
		host_take_steps(h, s->steps);
	host_set_clock(h, s->clock);
	set_held(h, s->held, s->n_held);
	if (s->n_tracers)
		set_tracers(h, s->tracers, s->n_tracers);
	set_jobs(h, s->jobs, s->n_jobs, s->more_jobs);
}
