/* SPDX-License-Identifier: Apache-2.0 */
/* What is said on the control link: Hello, Status, and what the aggregator asks for. */
#include <math.h>
#include <string.h>

#include "agent/link/control_impl.h"
#include "agent/link/messages.h"
#include "agent/link/questions.h"
#include "agent/link/requests.h"
#include "agent/link/step_reporter.h"
#include "agent/pods/local_pods.h"
#include "base/log.h"
#include "base/now.h"
#include "proto/probe.h"

/* time between two Status messages at first; doubles while nothing changes */
#define STATUS_GAP_NS (2 * NS_PER_S)
/* the longest time between two Status messages; 10,000 agents then send 80 a second */
#define STATUS_GAP_MAX_NS   (120 * NS_PER_S)
#define CALIBRATION_POLL_NS (20 * NS_PER_MS)

/* ---- messages to the aggregator ---- */

/* During the first STATUS_GAP_NS of a link the timer is due often until the clock is calibrated: the aggregator waits
 * for that. */
static int64_t status_pause(const struct control *c, bool calibrated)
{
	bool soon = !calibrated && now_mono_ns() - c->up_mono_ns < STATUS_GAP_NS;

	return soon ? CALIBRATION_POLL_NS : STATUS_GAP_NS;
}

/* True if the reported model, extrapolated to now, agrees with `m` within the bounds of both. */
static bool clock_is_as_reported(const struct clock_model *reported, const struct clock_model *m)
{
	double gap_ns = (double)(m->at_raw_ns - reported->at_raw_ns);
	double off_ns = (double)(m->offset_ns - reported->offset_ns) - reported->rate * gap_ns;
	double bound_ns = (double)(m->bound_ns + reported->bound_ns) +
			  reported->bound_rate * gap_ns;

	return m->calibrated == reported->calibrated &&
	       (!m->calibrated || fabs(off_ns) <= bound_ns);
}

/* A retry asks for files of this host, so the aggregator needs a current list. */
static uint32_t held_digest(const struct requests *rs)
{
	size_t n;
	Tutti__V1__Held **held = requests_held(rs, &n);
	uint32_t digest = message_held_digest(held, n);

	requests_held_free(held, n);
	return digest;
}

static bool status_changed(struct control *c, const struct clock_model *m)
{
	uint32_t digest = message_tracers_digest(c->env.tracers) ^ held_digest(c->requests) ^
			  message_jobs_digest(c->env.tracers);
	bool changed = digest != c->reported_digest || !clock_is_as_reported(&c->reported_clock, m);

	c->reported_digest = digest;
	return changed;
}

void control_send_hello(struct control *c, struct rpc_call *call)
{
	size_t n;
	Tutti__V1__Held **held;

	requests_adopt_files(c->requests);
	held = requests_held(c->requests, &n);
	message_hello(call, &c->env, c->instance, held, n);
	requests_held_free(held, n);
}

static void send_status(struct control *c)
{
	size_t n;
	Tutti__V1__Held **held = requests_held(c->requests, &n);

	message_status(control_call(c), &c->env, held, n);
	requests_held_free(held, n);
}

static void report_status(struct control *c, const struct clock_model *m, bool changed)
{
	send_status(c);
	c->reported_clock = *m;
	c->status_mono_ns = now_mono_ns();
	c->status_gap_ns = changed ? STATUS_GAP_NS : 2 * c->status_gap_ns;
	if (c->status_gap_ns > STATUS_GAP_MAX_NS)
		c->status_gap_ns = STATUS_GAP_MAX_NS;
}

static void on_status_timer(void *arg)
{
	struct control *c = arg;
	struct clock_model m = clock_model(c->env.clock);
	int64_t since_ns = now_mono_ns() - c->status_mono_ns;
	bool changed;

	requests_adopt_files(c->requests);
	changed = m.calibrated != c->reported_clock.calibrated ||
		  (since_ns >= STATUS_GAP_NS && status_changed(c, &m));
	if (changed || since_ns >= c->status_gap_ns)
		report_status(c, &m, changed);
	loop_timer_in(c->env.loop, &c->status, status_pause(c, m.calibrated), on_status_timer, c);
}

void control_send_leaving(struct control *c)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Leaving leaving = TUTTI__V1__LEAVING__INIT;

	if (!c->env.back_within_ns)
		return;
	leaving.back_within_ns = c->env.back_within_ns;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_LEAVING;
	m.leaving = &leaving;
	message_send(control_call(c), &m);
}

/* ---- messages from the aggregator ---- */

static void send_probe(void *arg, const uint8_t *packet)
{
	struct control *c = arg;
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Probe probe = TUTTI__V1__PROBE__INIT;

	probe.packet = (ProtobufCBinaryData){ PROBE_BYTES, (uint8_t *)packet };
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_PROBE;
	m.probe = &probe;
	message_send(control_call(c), &m);
}

void control_begin(struct control *c, const Tutti__V1__Welcome *m)
{
	struct clock_peer peer = {
		.host = c->host,
		.port = (int)m->probe_port,
		.cookie = m->probe_cookie,
		.epoch = m->clock_epoch,
		.former = m->former_epochs,
		.n_former = m->n_former_epochs,
		.stream = send_probe,
		.stream_arg = c,
	};
	struct err e;

	if (m->probe_key.len == sizeof(peer.key.bytes))
		memcpy(peer.key.bytes, m->probe_key.data, sizeof(peer.key.bytes));
	if (clock_set_peer(c->env.clock, &peer, &e))
		log_warn("AGT-CLOCK", "state=uncalibrated reason=\"%s\"", e.msg);
	c->reported_clock = clock_model(c->env.clock);
	report_status(c, &c->reported_clock, true);
	on_status_timer(c);
	if (c->leaving)
		control_send_leaving(c);
}

void control_take(struct control *c, Tutti__V1__AggregatorMessage *m)
{
	if (m->kind_case == TUTTI__V1__AGGREGATOR_MESSAGE__KIND_PROBE) {
		clock_take_stream_reply(c->env.clock, m->probe->packet.data);
		return;
	}
	/* the message soon changes what Status reports of a request */
	c->status_gap_ns = STATUS_GAP_NS;
	switch (m->kind_case) {
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_ARM:
		clock_check_breaks(c->env.clock);
		requests_arm(c->requests, m->arm);
		m->arm = NULL;
		break;
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_STOP:
		requests_stop(c->requests, m->stop);
		break;
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_CANCEL:
		requests_cancel(c->requests, m->cancel->session);
		break;
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_UPLOAD:
		requests_upload(c->requests, m->upload);
		break;
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_RELEASE:
		requests_release(c->requests, m->release->session);
		break;
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_ANSWER:
		questions_answer(c->questions, m->answer->id, m->answer->ok, m->answer->session,
				 m->answer->detail);
		break;
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_STEP_WATCH:
		step_reporter_watch(c->step_reporter, m->step_watch);
		break;
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_PODS:
		if (c->env.pods) {
			local_pods_take(c->env.pods, m->pods);
			m->pods = NULL;
		}
		break;
	default:
		break; /* a second Welcome, or a kind of message that this version does not have */
	}
}
