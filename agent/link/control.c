/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/link/addresses.h"
#include "agent/link/control_impl.h"
#include "agent/link/dial.h"
#include "agent/link/enrol.h"
#include "agent/link/messages.h"
#include "agent/link/requests.h"
#include "agent/link/step_reporter.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "net/rpc.h"
#include "proto/control_check.h"

#define BACKOFF_FIRST_NS (200 * NS_PER_MS)
/* the longest pause where there are several aggregators */
#define SEARCH_MAX_NS (5 * NS_PER_S)
#define STEADY_NS     (5 * NS_PER_S) /* a link that was up this long resets the pauses */
/* Longest time from dialling to Welcome. It is long, because agents that give up early make a busy aggregator
 * busier. */
#define WELCOME_LIMIT_NS (90 * NS_PER_S)
/* the same where there are several: a frozen one accepts connections, and another one may lead */
#define WELCOME_LIMIT_SEVERAL_NS (10 * NS_PER_S)
/* the same of a second link: what is said on it meanwhile waits */
#define WELCOME_LIMIT_SECOND_NS (10 * NS_PER_S)
#define SETTLE_POLL_NS		(20 * NS_PER_MS)
#define DISCONNECT_LIMIT_NS	(500 * NS_PER_MS)
#define QUIET_POLL_NS		(NS_PER_S)
/* the pause after a second link that came to nothing */
#define RENEW_PAUSE_NS (30 * NS_PER_S)

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

static void drop_fresh_link(struct control *c)
{
	if (!c->fresh_channel)
		return;
	rpc_channel_free(c->fresh_channel);
	c->dropped_call = c->fresh_call;
	c->fresh_channel = NULL;
	c->fresh_call = NULL;
	c->awaited = NULL;
}

/* The second link is the only one from now on. */
static void take_fresh_link(struct control *c)
{
	rpc_channel_free(c->channel);
	c->dropped_call = c->call;
	c->channel = c->fresh_channel;
	c->call = c->fresh_call;
	c->fresh_channel = NULL;
	c->fresh_call = NULL;
}

/* The first link stays, and gets what was said on the second one. */
static void give_up_fresh_link(struct control *c, const char *reason)
{
	log_warn("AGT-LINK", "state=not-renewed aggregator=%s reason=\"%s\"", c->env.aggregator,
		 reason);
	drop_fresh_link(c);
	loop_timer_cancel(c->env.loop, &c->retry);
	loop_timer_in(c->env.loop, &c->renew, random_pause_ns(RENEW_PAUSE_NS), replace_link, c);
	requests_report_again(c->requests);
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
	loop_timer_cancel(l, &c->renew);
	if (c->enrol)
		enrol_stop_renewing(c->enrol);
	drop_fresh_link(c);
	c->awaited = NULL;
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
	const char *hint = st->code == RPC_UNAVAILABLE ? dial_hint(&c->env, st->text) : NULL;
	char reason[512];

	snprintf(reason, sizeof(reason), "%s: %s%s%s%s", rpc_code_name(st->code), hint ? hint : "",
		 hint ? " (" : "", st->text, hint ? ")" : "");
	if (call == c->dropped_call) {
		c->dropped_call = NULL;
		return;
	}
	if (call == c->fresh_call) {
		c->fresh_call = NULL;
		give_up_fresh_link(c, reason);
		return;
	}
	c->call = NULL;
	if (c->fresh_call) {
		/* the aggregator ends the first one when it has Hello of the second, whose Welcome is under way */
		take_fresh_link(c);
		return;
	}
	if (c->enrol && st->code == RPC_UNAUTHENTICATED)
		enrol_forget(c->enrol);
	if (c->state == LINK_DOWN)
		return; /* close_link() has logged it */
	/* The aggregator asks for a new link and waits for it for some seconds only. */
	if (c->state == LINK_UP && st->code == RPC_ABORTED)
		c->backoff_ns = BACKOFF_FIRST_NS;
	end_link(c, reason);
}

static void close_link(struct control *c, const char *reason)
{
	end_link(c, reason);
	if (c->call)
		rpc_cancel(c->call);
}

/* The link whose Welcome is awaited, or else the one that is up, is of no use. */
static void refuse_link(struct control *c, const char *reason)
{
	if (c->fresh_call)
		give_up_fresh_link(c, reason);
	else
		close_link(c, reason);
}

/* ---- what the parts use the link for ---- */

static void send_message(void *arg, const Tutti__V1__AgentMessage *m)
{
	struct control *c = arg;

	message_send(control_call(c), m);
}

static struct rpc_channel *link_channel(void *arg)
{
	const struct control *c = arg;

	return c->state == LINK_UP ? c->channel : NULL;
}

/* ---- messages ---- */

static void on_welcome(struct control *c, const Tutti__V1__Welcome *m)
{
	if (m->term && m->term < c->term) {
		refuse_link(c, "not the leader: another aggregator has named a later term");
		return;
	}
	if (m->term)
		c->term = m->term;
	c->awaited = NULL;
	loop_timer_cancel(c->env.loop, &c->retry);
	if (c->fresh_call)
		take_fresh_link(c);
	c->state = LINK_UP;
	c->up_mono_ns = now_mono_ns();
	c->down_reason[0] = '\0';
	log_info("AGT-LINK", "state=up aggregator=%s", c->env.aggregator);
	control_begin(c, m);
	requests_link_up(c->requests);
	if (c->enrol)
		enrol_renew(c->enrol, c->env.aggregator, replace_link, c);
}

static int take_message(struct rpc_call *call, const struct rpc_msg *msg, struct err *e)
{
	struct control *c = rpc_arg(call);
	Tutti__V1__AggregatorMessage *m;
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);
	int rc = control_unpack_from_aggregator(&m, data, len, e);

	if (rc)
		return rc;
	if (call != c->awaited)
		control_take(c, m);
	else if (m->kind_case == TUTTI__V1__AGGREGATOR_MESSAGE__KIND_WELCOME)
		on_welcome(c, m->welcome);
	else
		rc = err_set(e, ERR_INVALID, "the first message is not Welcome");
	tutti__v1__aggregator_message__free_unpacked(m, NULL);
	return rc;
}

static bool on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct control *c = rpc_arg(call);
	struct err e;

	if (c->state == LINK_DOWN)
		return true;
	if (!take_message(call, msg, &e))
		return true;
	log_warn("AGT-PEER", "peer=%s reason=\"%s\"", rpc_peer(call), e.msg);
	if (call == c->call)
		close_link(c, "the aggregator broke the protocol");
	else
		give_up_fresh_link(c, "the aggregator broke the protocol");
	return true;
}

/* ---- dialling ---- */

static const struct rpc_events events = {
	.message = on_message,
	.closed = on_closed,
};

static void on_welcome_limit(void *arg)
{
	refuse_link(arg, "no answer to Hello");
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

static struct rpc_call *open_stream(struct control *c, struct rpc_channel *channel,
				    int64_t limit_ns)
{
	struct rpc_call *call = rpc_open(channel, "/tutti.v1.Control/Connect", INT64_MAX, &events,
					 c);

	control_send_hello(c, call);
	c->awaited = call;
	loop_timer_in(c->env.loop, &c->retry, limit_ns, on_welcome_limit, c);
	return call;
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
	c->call = open_stream(c, c->channel,
			      addresses_n(c->addresses) > 1 ? WELCOME_LIMIT_SEVERAL_NS
							    : WELCOME_LIMIT_NS);
}

/* ---- a newer certificate ---- */

/* A second link, while the first one is there, so that no capture finds this host without one. */
static void replace_link(void *arg)
{
	struct control *c = arg;
	struct err e;

	loop_timer_cancel(c->env.loop, &c->renew);
	if (c->fresh_channel || c->awaited || c->dropped_call ||
	    (requests_are_held(c->requests) && now_mono_ns() < enrol_last_mono_ns(c->enrol))) {
		loop_timer_in(c->env.loop, &c->renew, QUIET_POLL_NS, replace_link, c);
		return;
	}
	if (dial_aggregator(&c->fresh_channel, &c->env, "control", &e))
		give_up_fresh_link(c, e.msg);
	else
		c->fresh_call = open_stream(c, c->fresh_channel, WELCOME_LIMIT_SECOND_NS);
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
	message_send(control_call(c), &m);
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
		control_send_leaving(c);
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
	loop_timer_cancel(l, &c->renew);
	loop_timer_cancel(l, &c->settle);
	if (c->enrol)
		enrol_stop_renewing(c->enrol);
	drop_fresh_link(c);
	if (c->state == LINK_UP)
		send_disconnect(c);
	c->state = LINK_DOWN;
	rpc_channel_free(c->channel);
	while (c->call || c->dropped_call)
		loop_turn(l, 20); /* cancelled: on_closed() comes soon */
	clock_unset_peer(c->env.clock);
	requests_free(c->requests);
	step_reporter_free(c->step_reporter);
	questions_free(c->questions);
	enrol_free(c->enrol); /* links and uploads have used its certificate */
	addresses_free(c->addresses);
	free(c);
}
