/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/control.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "agent/clock/clock.h"
#include "agent/link/dial.h"
#include "agent/link/messages.h"
#include "agent/link/requests.h"
#include "agent/link/step_reporter.h"
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
#define STEADY_NS	 (5 * NS_PER_S) /* a link that held this long starts the pauses anew */
/* From dialling to Welcome. Who gives up earlier than a busy aggregator can answer keeps it busy. */
#define WELCOME_LIMIT_NS    (90 * NS_PER_S)
#define STATUS_GAP_NS	    (2 * NS_PER_S) /* doubles while all is as it was */
#define STATUS_GAP_MAX_NS   (120 * NS_PER_S) /* 10,000 agents then say 80 things a second */
#define CALIBRATION_POLL_NS (20 * NS_PER_MS)
#define GOODBYE_LIMIT_NS    (500 * NS_PER_MS)

enum link_state { LINK_DOWN, LINK_DIALLING, LINK_UP };

struct control {
	struct link_env env;
	char host[ADDRESS_HOST_BYTES]; /* of the aggregator: probes go there */
	uint64_t instance;
	struct requests *requests;
	struct questions *questions;
	struct step_reporter *step_reporter;

	enum link_state state;
	struct rpc_channel *channel;
	struct rpc_call *call;
	struct loop_timer retry; /* to dial; while dialling, to give up */
	struct loop_timer status;
	int64_t backoff_ns;
	int64_t up_at_ns, status_at_ns, status_gap_ns;
	struct clock_model said; /* in the last Status on this link */
	uint32_t said_digest; /* a digest of their states */
	bool stopping;
	char why[256]; /* the link is down; "" = nothing to complain of yet */
};

static void dial(void *arg);

/* ---- the link goes down ---- */

/* Said once for each kind of reason, however often dialling fails; kinds end at the first colon. */
static void note_down(struct control *c, const char *why)
{
	size_t kind = strcspn(why, ":");
	bool new = c->state == LINK_UP || strncmp(c->why, why, kind);

	snprintf(c->why, sizeof(c->why), "%s", why);
	if (new)
		log_warn("AGT-LINK", "state=down aggregator=%s reason=\"%s\"", c->env.aggregator,
			 c->why);
}

static void go_down(struct control *c, const char *why)
{
	struct loop *l = c->env.loop;

	if (c->stopping)
		log_info("AGT-LINK", "state=closed aggregator=%s", c->env.aggregator);
	else
		note_down(c, why);
	if (c->state == LINK_UP && now_mono_ns() - c->up_at_ns >= STEADY_NS)
		c->backoff_ns = BACKOFF_FIRST_NS;
	c->state = LINK_DOWN;
	loop_timer_cancel(l, &c->status);
	requests_link_down(c->requests);
	step_reporter_link_down(c->step_reporter);
	questions_fail_all(c->questions, "the link to the aggregator broke");
	clock_unset_peer(c->env.clock);
	if (c->stopping)
		return;
	if (c->backoff_ns > c->env.reconnect_max_ns)
		c->backoff_ns = c->env.reconnect_max_ns;
	loop_timer_in(l, &c->retry, random_pause_ns(c->backoff_ns), dial, c);
	c->backoff_ns *= 2;
}

static void on_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct control *c = rpc_arg(call);
	char why[256];

	c->call = NULL;
	if (c->state == LINK_DOWN)
		return; /* we hung up and have said why */
	snprintf(why, sizeof(why), "%s: %s", rpc_code_name(st->code), st->text);
	go_down(c, why);
}

static void hang_up(struct control *c, const char *why)
{
	go_down(c, why);
	if (c->call)
		rpc_cancel(c->call);
}

/* ---- what is sent ---- */

static void send_message(void *arg, const Tutti__V1__AgentMessage *m)
{
	struct control *c = arg;

	message_send(c->call, m);
}

static struct rpc_channel *own_channel(void *arg)
{
	const struct control *c = arg;

	return c->state == LINK_UP ? c->channel : NULL;
}

/* The clock's first calibration is news that the aggregator waits for. */
static int64_t status_pause(const struct control *c, bool calibrated)
{
	bool soon = !calibrated && now_mono_ns() - c->up_at_ns < STATUS_GAP_NS;

	return soon ? CALIBRATION_POLL_NS : STATUS_GAP_NS;
}

static uint32_t tracers_digest(struct tracer *const *all)
{
	uint32_t digest = 0;

	for (size_t i = 0; all[i]; i++) {
		struct tracer_state st = { 0 };

		all[i]->ops->state(all[i], &st);
		digest = (uint32_t)crc32_z(digest, (const uint8_t *)&st.health, sizeof(st.health));
		digest = (uint32_t)crc32_z(digest, (const uint8_t *)st.reason, strlen(st.reason));
	}
	return digest;
}

/* Where the clock that was told about has drifted to by now; the bounds of both say what is certain. */
static bool clock_is_as_told(const struct clock_model *told, const struct clock_model *m)
{
	double gap_ns = (double)(m->at_raw_ns - told->at_raw_ns);
	double off_ns = (double)(m->offset_ns - told->offset_ns) - told->rate * gap_ns;
	double bound_ns = (double)(m->bound_ns + told->bound_ns) + told->bound_rate * gap_ns;

	return m->calibrated == told->calibrated && (!m->calibrated || fabs(off_ns) <= bound_ns);
}

/* Captures come and go, or end: whoever retries asks where files are. */
static uint32_t held_digest(const struct requests *o)
{
	size_t n;
	Tutti__V1__Held **held = requests_held(o, &n);
	uint32_t digest = 0;

	for (size_t i = 0; i < n; i++) {
		const char *words[] = { held[i]->session, held[i]->state };

		for (size_t k = 0; k < ARRAY_SIZE(words); k++)
			digest = (uint32_t)crc32_z(digest, (const uint8_t *)words[k],
						   strlen(words[k]));
	}
	requests_held_free(held, n);
	return digest;
}

static bool status_is_news(struct control *c, const struct clock_model *m)
{
	uint32_t digest = tracers_digest(c->env.tracers) ^ held_digest(c->requests);
	bool news = digest != c->said_digest || !clock_is_as_told(&c->said, m);

	c->said_digest = digest;
	return news;
}

static void send_hello(struct control *c)
{
	size_t n;
	Tutti__V1__Held **held = requests_held(c->requests, &n);

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

static void say_status(struct control *c, const struct clock_model *m, bool news)
{
	send_status(c);
	c->said = *m;
	c->status_at_ns = now_mono_ns();
	c->status_gap_ns = news ? STATUS_GAP_NS : 2 * c->status_gap_ns;
	if (c->status_gap_ns > STATUS_GAP_MAX_NS)
		c->status_gap_ns = STATUS_GAP_MAX_NS;
}

static void on_status(void *arg)
{
	struct control *c = arg;
	struct clock_model m = clock_model(c->env.clock);
	int64_t silent_ns = now_mono_ns() - c->status_at_ns;
	bool news = m.calibrated != c->said.calibrated ||
		    (silent_ns >= STATUS_GAP_NS && status_is_news(c, &m));

	if (news || silent_ns >= c->status_gap_ns)
		say_status(c, &m, news);
	loop_timer_in(c->env.loop, &c->status, status_pause(c, m.calibrated), on_status, c);
}

/* ---- what comes ---- */

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

	if (c->state == LINK_UP)
		return;
	loop_timer_cancel(c->env.loop, &c->retry);
	c->state = LINK_UP;
	c->up_at_ns = now_mono_ns();
	c->why[0] = '\0';
	log_info("AGT-LINK", "state=up aggregator=%s", c->env.aggregator);
	if (m->probe_key.len == sizeof(peer.key.bytes))
		memcpy(peer.key.bytes, m->probe_key.data, sizeof(peer.key.bytes));
	if (clock_set_peer(c->env.clock, &peer, &e))
		log_warn("AGT-CLOCK", "state=uncalibrated reason=\"%s\"", e.msg);
	c->said = clock_model(c->env.clock);
	say_status(c, &c->said, true);
	on_status(c);
	requests_link_up(c->requests);
}

static void dispatch(struct control *c, Tutti__V1__AggregatorMessage *m)
{
	if (m->kind_case == TUTTI__V1__AGGREGATOR_MESSAGE__KIND_PROBE) {
		clock_take_stream_reply(c->env.clock, m->probe->packet.data);
		return;
	}
	c->status_gap_ns = STATUS_GAP_NS; /* requests make news */
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
		step_reporter_listen(c->step_reporter, m->step_watch);
		break;
	default:
		break; /* of a newer version */
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
		hang_up(c, "the aggregator broke the protocol");
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
	hang_up(arg, "no answer to Hello");
}

/* A channel of its own for each try: core's pauses between tries are not ours. */
static void dial(void *arg)
{
	struct control *c = arg;
	struct err e;

	if (c->call) {
		/* The last call has not come home yet. */
		loop_timer_in(c->env.loop, &c->retry, BACKOFF_FIRST_NS, dial, c);
		return;
	}
	rpc_channel_free(c->channel);
	c->channel = NULL;
	if (dial_aggregator(&c->channel, &c->env, "control", &e)) {
		go_down(c, e.msg);
		return;
	}
	c->state = LINK_DIALLING;
	c->call = rpc_open(c->channel, "/tutti.v1.Control/Connect", INT64_MAX, &events, c);
	send_hello(c);
	loop_timer_in(c->env.loop, &c->retry, WELCOME_LIMIT_NS, on_welcome_limit, c);
}

/* ---- questions ---- */

void control_ask(struct control *c, const struct control_question *q, answer_fn fn, void *arg)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Ask ask = TUTTI__V1__ASK__INIT;
	char detail[512];

	if (c->state != LINK_UP) {
		snprintf(detail, sizeof(detail), "not connected to the aggregator %s: %s",
			 c->env.aggregator, *c->why ? c->why : "still dialling");
		fn(arg, false, "", detail);
		return;
	}
	ask.id = questions_add(c->questions, fn, arg);
	ask.verb = (char *)q->verb;
	ask.session = (char *)q->session;
	ask.hosts = (char *)q->hosts;
	ask.duration_ns = q->duration_ns;
	ask.run = (char *)q->run;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_ASK;
	m.ask = &ask;
	message_send(c->call, &m);
}

bool control_is_connected(const struct control *c)
{
	return c->state == LINK_UP;
}

json_t *control_captures_json(const struct control *c)
{
	return requests_json(c->requests);
}

/* ---- life ---- */

int control_new(struct control **out, const struct link_env *env, struct err *e)
{
	struct control *c = xcalloc(1, sizeof(*c));
	struct requests_link link = { .send = send_message, .channel = own_channel, .arg = c };
	int port, rc;

	c->env = *env;
	rc = address_split(env->aggregator, c->host, &port, e);
	if (rc) {
		free(c);
		return rc;
	}
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

static void say_goodbye(struct control *c)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Goodbye goodbye = TUTTI__V1__GOODBYE__INIT;
	int64_t until = now_mono_ns() + GOODBYE_LIMIT_NS;

	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_GOODBYE;
	m.goodbye = &goodbye;
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
	if (c->state == LINK_UP)
		say_goodbye(c);
	c->state = LINK_DOWN;
	rpc_channel_free(c->channel);
	while (c->call)
		loop_turn(l, 20); /* cancelled: comes home soon */
	clock_unset_peer(c->env.clock);
	requests_free(c->requests);
	step_reporter_free(c->step_reporter);
	questions_free(c->questions);
	free(c);
}
