/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/control.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/clock/clock.h"
#include "agent/link/addresses.h"
#include "agent/link/dial.h"
#include "agent/link/enrol.h"
#include "agent/link/messages.h"
#include "agent/link/requests.h"
#include "agent/link/step_reporter.h"
#include "agent/pods/local_pods.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "net/address.h"
#include "net/rpc.h"
#include "proto/control_check.h"
#include "proto/probe.h"

#define BACKOFF_FIRST_NS (200 * NS_PER_MS)
/* the longest pause where there are several aggregators */
#define SEARCH_MAX_NS (5 * NS_PER_S)
#define STEADY_NS     (5 * NS_PER_S) /* a link that was up this long resets the pauses */
/* Longest time from dialling to Welcome. It is long, because agents that give up early make a busy aggregator
 * busier. */
#define WELCOME_LIMIT_NS (90 * NS_PER_S)
/* the same where there are several: a frozen one accepts connections, and another one may lead */
#define WELCOME_LIMIT_SEVERAL_NS (10 * NS_PER_S)
/* time between two Status messages at first; doubles while nothing changes */
#define STATUS_GAP_NS (2 * NS_PER_S)
/* the longest time between two Status messages; 10,000 agents then send 80 a second */
#define STATUS_GAP_MAX_NS   (120 * NS_PER_S)
#define CALIBRATION_POLL_NS (20 * NS_PER_MS)
#define SETTLE_POLL_NS	    (20 * NS_PER_MS)
#define DISCONNECT_LIMIT_NS (500 * NS_PER_MS)
#define QUIET_POLL_NS	    (NS_PER_S)

enum link_state { LINK_DOWN, LINK_DIALLING, LINK_UP };

struct control {
	struct link_env env; /* its `aggregator` is the one of `addresses` that is dialled now */
	struct addresses *addresses;
	char host[ADDRESS_HOST_BYTES]; /* of the aggregator: probes go there */
	uint64_t term; /* the highest that a Welcome has named; 0 = none has */
	uint64_t instance;
	struct requests *requests;
	struct questions *questions;
	struct step_reporter *step_reporter;
	struct enrol *enrol; /* NULL = certificates are in files, or there are none */

	enum link_state state;
	struct rpc_channel *channel;
	struct rpc_call *call;
	/* The link with the certificate before, until the aggregator has taken the present one for it: each arms
	 * captures until then. NULL = none */
	struct rpc_channel *old_channel;
	struct rpc_call *old_call;
	struct loop_timer quiet; /* until no capture is under way, for that */
	struct loop_timer retry; /* when to dial; while dialling, when to give up */
	struct loop_timer status;
	int64_t backoff_ns;
	int64_t up_mono_ns, status_mono_ns, status_gap_ns;
	struct clock_model reported_clock; /* what the last Status on this link said */
	uint32_t reported_digest; /* a digest of the tracers, captures and jobs in it */
	bool leaving, stopping;
	struct loop_timer settle; /* while leaving */
	int64_t leave_by_mono_ns;
	loop_fn left;
	void *left_arg;
	char down_reason[256]; /* the last error of the link; "" before the first attempt failed */
};

static void dial(void *arg);
static void replace_link(void *arg);

/* ---- the link goes down ---- */

/* Logs one line for each kind of reason, however often dialling fails. The kind is the text before the first
 * colon. */
static void log_down(struct control *c, const char *reason)
{
	size_t kind = strcspn(reason, ":");
	bool new = c->state == LINK_UP || strncmp(c->down_reason, reason, kind);

	snprintf(c->down_reason, sizeof(c->down_reason), "%s", reason);
	if (new)
		log_warn("AGT-LINK", "state=down aggregator=%s reason=\"%s\"", c->env.aggregator,
			 c->down_reason);
}

/* While one of several aggregators is about to take over, agents look for it often. */
static int64_t reconnect_max_ns(const struct control *c)
{
	int64_t max_ns = c->env.reconnect_max_ns;

	return addresses_n(c->addresses) > 1 && max_ns > SEARCH_MAX_NS ? SEARCH_MAX_NS : max_ns;
}

/* The next address; true if all have been tried. */
static bool choose_next(struct control *c)
{
	bool all = addresses_next(c->addresses);

	c->env.aggregator = addresses_now(c->addresses, c->host);
	return all;
}

static void drop_old_link(struct control *c)
{
	rpc_channel_free(c->old_channel);
	c->old_channel = NULL;
}

static void end_link(struct control *c, const char *reason)
{
	bool was_up = c->state == LINK_UP;
	struct loop *l = c->env.loop;

	if (c->stopping)
		log_info("AGT-LINK", "state=closed aggregator=%s", c->env.aggregator);
	else
		log_down(c, reason);
	if (was_up && now_mono_ns() - c->up_mono_ns >= STEADY_NS)
		c->backoff_ns = BACKOFF_FIRST_NS;
	c->state = LINK_DOWN;
	loop_timer_cancel(l, &c->status);
	loop_timer_cancel(l, &c->quiet);
	if (c->enrol)
		enrol_stop_renewing(c->enrol);
	drop_old_link(c);
	requests_link_down(c->requests);
	step_reporter_link_down(c->step_reporter);
	questions_fail_all(c->questions, "the link to the aggregator broke");
	clock_unset_peer(c->env.clock);
	if (c->stopping)
		return;
	if (c->backoff_ns > reconnect_max_ns(c))
		c->backoff_ns = reconnect_max_ns(c);
	loop_timer_in(l, &c->retry, random_pause_ns(c->backoff_ns), dial, c);
	/* an aggregator that was there is tried once more first */
	if (was_up || choose_next(c))
		c->backoff_ns *= 2;
}

static void on_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct control *c = rpc_arg(call);
	char reason[256];

	if (call == c->old_call) {
		c->old_call = NULL;
		return;
	}
	c->call = NULL;
	if (c->enrol && st->code == RPC_UNAUTHENTICATED)
		enrol_forget(c->enrol);
	if (c->state == LINK_DOWN)
		return; /* close_link() has logged it */
	/* The aggregator asks for a new link and waits for it for some seconds only. */
	if (c->state == LINK_UP && st->code == RPC_ABORTED)
		c->backoff_ns = BACKOFF_FIRST_NS;
	snprintf(reason, sizeof(reason), "%s: %s", rpc_code_name(st->code), st->text);
	end_link(c, reason);
}

static void close_link(struct control *c, const char *reason)
{
	end_link(c, reason);
	if (c->call)
		rpc_cancel(c->call);
}

/* ---- messages to the aggregator ---- */

static void send_message(void *arg, const Tutti__V1__AgentMessage *m)
{
	struct control *c = arg;

	message_send(c->call, m);
}

static struct rpc_channel *link_channel(void *arg)
{
	const struct control *c = arg;

	return c->state == LINK_UP ? c->channel : NULL;
}

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

static void send_hello(struct control *c)
{
	size_t n;
	Tutti__V1__Held **held;

	requests_adopt_files(c->requests);
	held = requests_held(c->requests, &n);
	message_hello(c->call, &c->env, c->instance, held, n);
	requests_held_free(held, n);
}

static void send_status(struct control *c)
{
	size_t n;
	Tutti__V1__Held **held = requests_held(c->requests, &n);

	message_status(c->call, &c->env, held, n);
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

static void send_leaving(struct control *c)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Leaving leaving = TUTTI__V1__LEAVING__INIT;

	if (!c->env.back_within_ns)
		return;
	leaving.back_within_ns = c->env.back_within_ns;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_LEAVING;
	m.leaving = &leaving;
	message_send(c->call, &m);
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
	message_send(c->call, &m);
}

static void on_welcome(struct control *c, const Tutti__V1__Welcome *m)
{
	struct clock_peer peer = {
		.host = c->host,
		.port = (int)m->probe_port,
		.cookie = m->probe_cookie,
		.epoch = m->clock_epoch,
		.stream = send_probe,
		.stream_arg = c,
	};
	struct err e;

	if (c->state == LINK_UP && !c->old_channel)
		return;
	if (m->term && m->term < c->term) {
		close_link(c, "not the leader: another aggregator has named a later term");
		return;
	}
	if (m->term)
		c->term = m->term;
	loop_timer_cancel(c->env.loop, &c->retry);
	drop_old_link(c);
	c->state = LINK_UP;
	c->up_mono_ns = now_mono_ns();
	c->down_reason[0] = '\0';
	log_info("AGT-LINK", "state=up aggregator=%s", c->env.aggregator);
	if (m->probe_key.len == sizeof(peer.key.bytes))
		memcpy(peer.key.bytes, m->probe_key.data, sizeof(peer.key.bytes));
	if (clock_set_peer(c->env.clock, &peer, &e))
		log_warn("AGT-CLOCK", "state=uncalibrated reason=\"%s\"", e.msg);
	c->reported_clock = clock_model(c->env.clock);
	report_status(c, &c->reported_clock, true);
	on_status_timer(c);
	if (c->leaving)
		send_leaving(c);
	requests_link_up(c->requests);
	if (c->enrol)
		enrol_renew(c->enrol, c->env.aggregator, replace_link, c);
}

static void dispatch(struct control *c, Tutti__V1__AggregatorMessage *m)
{
	if (m->kind_case == TUTTI__V1__AGGREGATOR_MESSAGE__KIND_PROBE) {
		clock_take_stream_reply(c->env.clock, m->probe->packet.data);
		return;
	}
	/* the message soon changes what Status reports of a request */
	c->status_gap_ns = STATUS_GAP_NS;
	switch (m->kind_case) {
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_WELCOME:
		on_welcome(c, m->welcome);
		break;
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
		break; /* a kind of message that this version does not have */
	}
}

static int take_message(struct control *c, const struct rpc_msg *msg, struct err *e)
{
	Tutti__V1__AggregatorMessage *m;
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);
	int rc = control_unpack_from_aggregator(&m, data, len, e);

	if (rc)
		return rc;
	if (c->state == LINK_DIALLING &&
	    m->kind_case != TUTTI__V1__AGGREGATOR_MESSAGE__KIND_WELCOME)
		rc = err_set(e, ERR_INVALID, "the first message is not Welcome");
	else
		dispatch(c, m);
	tutti__v1__aggregator_message__free_unpacked(m, NULL);
	return rc;
}

static bool on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct control *c = rpc_arg(call);
	struct err e;

	if (c->state == LINK_DOWN)
		return true;
	if (take_message(c, msg, &e)) {
		log_warn("AGT-PEER", "peer=%s reason=\"%s\"", rpc_peer(call), e.msg);
		close_link(c, "the aggregator broke the protocol");
	}
	return true;
}

/* ---- dialling ---- */

static const struct rpc_events events = {
	.message = on_message,
	.closed = on_closed,
};

static void on_welcome_limit(void *arg)
{
	close_link(arg, "no answer to Hello");
}

static void on_enrolled(void *arg, const struct err *why)
{
	struct control *c = arg;

	if (c->stopping)
		return;
	if (why)
		end_link(c, why->msg);
	else
		dial(c);
}

static void open_stream(struct control *c)
{
	c->call = rpc_open(c->channel, "/tutti.v1.Control/Connect", INT64_MAX, &events, c);
	send_hello(c);
	loop_timer_in(c->env.loop, &c->retry,
		      addresses_n(c->addresses) > 1 ? WELCOME_LIMIT_SEVERAL_NS : WELCOME_LIMIT_NS,
		      on_welcome_limit, c);
}

/* Each attempt has a channel of its own: gRPC core would make pauses of its own between attempts. */
static void dial(void *arg)
{
	struct control *c = arg;
	struct err e;

	if (c->call) {
		/* on_closed() of the last call is still to come. */
		loop_timer_in(c->env.loop, &c->retry, BACKOFF_FIRST_NS, dial, c);
		return;
	}
	if (c->enrol && !enrol_has_certificate(c->enrol)) {
		enrol_ask(c->enrol, c->env.aggregator, on_enrolled, c);
		return;
	}
	rpc_channel_free(c->channel);
	c->channel = NULL;
	if (dial_aggregator(&c->channel, &c->env, "control", &e)) {
		end_link(c, e.msg);
		return;
	}
	c->state = LINK_DIALLING;
	open_stream(c);
}

/* ---- a newer certificate ---- */

/* A second link, while the first one is there, so that no capture finds this host without one. */
static void replace_link(void *arg)
{
	struct control *c = arg;
	struct rpc_channel *fresh = NULL;
	struct err e;

	if (c->old_call ||
	    (requests_are_held(c->requests) && now_mono_ns() < enrol_last_mono_ns(c->enrol))) {
		loop_timer_in(c->env.loop, &c->quiet, QUIET_POLL_NS, replace_link, c);
		return;
	}
	if (dial_aggregator(&fresh, &c->env, "control", &e)) {
		log_warn("AGT-LINK", "state=not-renewed reason=\"%s\"", e.msg);
		return;
	}
	c->old_channel = c->channel;
	c->old_call = c->call;
	c->channel = fresh;
	open_stream(c);
}

/* ---- questions ---- */

void control_ask(struct control *c, const struct control_question *q, answer_fn fn, void *arg)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Ask ask = TUTTI__V1__ASK__INIT;
	char detail[512];

	if (c->state != LINK_UP) {
		snprintf(detail, sizeof(detail), "not connected to the aggregator %s: %s",
			 c->env.aggregator, *c->down_reason ? c->down_reason : "still dialling");
		fn(arg, false, "", detail);
		return;
	}
	ask.id = questions_add(c->questions, fn, arg);
	ask.verb = (char *)q->verb;
	ask.session = (char *)q->session;
	ask.hosts = (char *)q->hosts;
	ask.duration_ns = q->duration_ns;
	ask.ending_at_ns = q->ending_at_ns;
	ask.run = (char *)q->run;
	ask.token = (char *)q->token;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_ASK;
	m.ask = &ask;
	message_send(c->call, &m);
}

bool control_is_connected(const struct control *c)
{
	return c->state == LINK_UP;
}

const char *control_error(const struct control *c)
{
	return c->state == LINK_UP ? "" : c->down_reason;
}

json_t *control_captures_json(const struct control *c)
{
	return requests_json(c->requests);
}

/* ---- the end ---- */

static void on_settle(void *arg)
{
	struct control *c = arg;

	if (requests_have_settled(c->requests) || now_mono_ns() >= c->leave_by_mono_ns)
		c->left(c->left_arg);
	else
		loop_timer_in(c->env.loop, &c->settle, SETTLE_POLL_NS, on_settle, c);
}

void control_leave(struct control *c, int64_t limit_ns, loop_fn done, void *arg)
{
	c->leaving = true;
	c->leave_by_mono_ns = now_mono_ns() + limit_ns;
	c->left = done;
	c->left_arg = arg;
	if (c->state == LINK_UP)
		send_leaving(c);
	requests_leave(c->requests, c->leave_by_mono_ns);
	on_settle(c);
}

/* ---- life ---- */

int control_new(struct control **out, const struct link_env *env, struct err *e)
{
	struct control *c = xcalloc(1, sizeof(*c));
	struct requests_link link = { .send = send_message, .channel = link_channel, .arg = c };
	int rc;

	c->env = *env;
	rc = addresses_new(&c->addresses, env->aggregator, e);
	if (rc) {
		free(c);
		return rc;
	}
	rc = env->enrol ? enrol_new(&c->enrol, env->enrol, e) : 0;
	if (rc) {
		addresses_free(c->addresses);
		free(c);
		return rc;
	}
	if (c->enrol)
		c->env.tls = enrol_tls(c->enrol);
	c->env.aggregator = addresses_now(c->addresses, c->host);
	c->env.several = addresses_n(c->addresses) > 1;
	random_bytes(&c->instance, sizeof(c->instance));
	link.instance = c->instance;
	c->requests = requests_new(&c->env, &link);
	c->questions = questions_new(env->loop);
	c->step_reporter = step_reporter_new(&c->env, send_message, c);
	c->backoff_ns = BACKOFF_FIRST_NS;
	loop_timer_in(env->loop, &c->retry, 0, dial, c);
	*out = c;
	return 0;
}

static void send_disconnect(struct control *c)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Disconnect disconnect = TUTTI__V1__DISCONNECT__INIT;
	int64_t until = now_mono_ns() + DISCONNECT_LIMIT_NS;

	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_DISCONNECT;
	m.disconnect = &disconnect;
	message_send(c->call, &m);
	rpc_half_close(c->call);
	while (c->call && now_mono_ns() < until)
		loop_turn(c->env.loop, 20);
}

void control_free(struct control *c)
{
	struct loop *l;

	if (!c)
		return;
	l = c->env.loop;
	c->stopping = true;
	loop_timer_cancel(l, &c->retry); /* no dialling while the loop is turned below */
	loop_timer_cancel(l, &c->status);
	loop_timer_cancel(l, &c->quiet);
	loop_timer_cancel(l, &c->settle);
	if (c->enrol)
		enrol_stop_renewing(c->enrol);
	if (c->state == LINK_UP)
		send_disconnect(c);
	c->state = LINK_DOWN;
	rpc_channel_free(c->channel);
	drop_old_link(c);
	while (c->call || c->old_call)
		loop_turn(l, 20); /* cancelled: on_closed() comes soon */
	clock_unset_peer(c->env.clock);
	requests_free(c->requests);
	step_reporter_free(c->step_reporter);
	questions_free(c->questions);
	enrol_free(c->enrol); /* links and uploads have used its certificate */
	addresses_free(c->addresses);
	free(c);
}
