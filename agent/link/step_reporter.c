/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/step_reporter.h"

#include <stdlib.h>

#include "agent/clock/clock.h"
#include "agent/link/env.h"
#include "agent/marks/marks.h"
#include "agent/marks/steps.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"

struct step_reporter {
	const struct link_env *env;
	step_reporter_send_fn send;
	void *arg;
	struct loop_timer timer; /* a step began; it is reported when the gap is over */
	int64_t watch_end_mono_ns, gap_ns, sent_mono_ns;
};

/* The aggregator refuses a period or jitter of more than a day. */
static int64_t at_most_a_day(int64_t ns)
{
	return ns < 24 * 3600 * NS_PER_S ? ns : 24 * 3600 * NS_PER_S;
}

void fill_steps_message(const struct link_env *env, Tutti__V1__Steps *out)
{
	struct step_state steps = steps_state(marks_steps(env->marks));
	struct clock_model m = clock_model(env->clock);

	tutti__v1__steps__init(out);
	if (!steps.known || !m.calibrated)
		return;
	out->known = true;
	out->step = steps.step;
	out->at_ns = clock_model_session_of_raw(&m, steps.raw_ns);
	out->period_ns = at_most_a_day(steps.period_ns);
	out->jitter_ns = at_most_a_day(steps.jitter_ns);
	out->counted = steps.counted;
}

static void send_steps(void *arg)
{
	struct step_reporter *r = arg;
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Steps steps;

	r->sent_mono_ns = now_mono_ns();
	fill_steps_message(r->env, &steps);
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_STEPS;
	m.steps = &steps;
	r->send(r->arg, &m);
}

static void on_step(void *arg)
{
	struct step_reporter *r = arg;
	int64_t now_ns = now_mono_ns(), due_ns = r->sent_mono_ns + r->gap_ns;

	if (now_ns >= r->watch_end_mono_ns || loop_timer_armed(&r->timer))
		return;
	if (now_ns >= due_ns)
		send_steps(r);
	else
		loop_timer_at(r->env->loop, &r->timer, due_ns, send_steps, r);
}

void step_reporter_watch(struct step_reporter *r, const Tutti__V1__StepWatch *m)
{
	r->watch_end_mono_ns = now_mono_ns() + m->for_ns;
	r->gap_ns = m->gap_ns;
	send_steps(r);
}

void step_reporter_link_down(struct step_reporter *r)
{
	r->watch_end_mono_ns = 0;
	loop_timer_cancel(r->env->loop, &r->timer);
}

struct step_reporter *step_reporter_new(const struct link_env *env, step_reporter_send_fn send,
					void *arg)
{
	struct step_reporter *r = xcalloc(1, sizeof(*r));

	*r = (struct step_reporter){ .env = env, .send = send, .arg = arg };
	steps_watch(marks_steps(env->marks), on_step, r);
	return r;
}

void step_reporter_free(struct step_reporter *r)
{
	if (!r)
		return;
	steps_watch(marks_steps(r->env->marks), NULL, NULL);
	loop_timer_cancel(r->env->loop, &r->timer);
	free(r);
}
