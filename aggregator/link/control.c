/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/link/control.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/captures/capture.h"
#include "aggregator/fleet/host_walk.h"
#include "aggregator/fleet/messages.h"
#include "aggregator/fleet/registry.h"
#include "aggregator/link/ask.h"
#include "aggregator/link/host_report.h"
#include "aggregator/time/session_clock.h"
#include "aggregator/time/time_service.h"
#include "base/clean_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "proto/control_check.h"
#include "proto/limits.h"
#include "proto/probe.h"
#include "proto/reasons.h"

#define HELLO_TIMEOUT_NS (10 * NS_PER_S)
#define POKE_GAP_NS	 (10 * NS_PER_S)

typedef Tutti__V1__AgentMessage agent_message;

struct control {
	struct control_env env;
	struct control_stats stats;
	uint64_t n_links; /* opened so far */
	/* control_close_links() */
	struct host_walk closing;
	uint64_t close_up_to; /* number of the last link that it ends */
	const char *why;
};

/* One stream. */
struct link {
	struct control *control;
	struct rpc_call *call;
	uint64_t number; /* 1 = the first one */
	struct host *host; /* NULL before Hello and after Disconnect */
	bool finished;
	int64_t poked_mono_ns; /* 0 = never */
	struct loop_timer timer; /* until Hello came, then until the certificate is over */
};

/* ---- streams ---- */

static void link_finish(struct link *l, enum rpc_code code, const char *text)
{
	if (l->finished)
		return;
	l->finished = true;
	if (code)
		rpc_abort(l->call, code, text);
	else
		rpc_finish(l->call, code, text);
}

static void on_hello_timeout(void *arg)
{
	struct link *l = arg;

	log_warn("AGG-PEER", "peer=%s reason=\"no Hello\"", rpc_peer(l->call));
	link_finish(l, RPC_DEADLINE_EXCEEDED, "no Hello within 10 s");
}

static void on_opened(struct rpc_call *call)
{
	struct link *l = xcalloc(1, sizeof(*l));

	l->control = rpc_arg(call);
	l->call = call;
	l->number = ++l->control->n_links;
	rpc_set_arg(call, l);
	loop_timer_in(l->control->env.loop, &l->timer, HELLO_TIMEOUT_NS, on_hello_timeout, l);
}

/* The host stays in the registry as lost; its captures are notified. */
static void link_lose_host(struct link *l, const char *why)
{
	struct host *h = l->host;

	l->host = NULL;
	host_set_control(h, NULL);
	h->seen_real_ns = now_real_ns();
	log_warn("AGG-HOST-LOST", "host=%s address=%s reason=\"%s\"", h->name, h->address, why);
	captures_host_disconnected(l->control->env.captures, h->name, h->instance);
	registry_notify(l->control->env.registry);
}

static void on_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct link *l = rpc_arg(call);

	loop_timer_cancel(l->control->env.loop, &l->timer);
	if (l->host)
		link_lose_host(l, *st->text ? st->text : rpc_code_name(st->code));
	free(l);
}

/* The agent closed its side of the stream: no message can follow. */
static void on_half_closed(struct rpc_call *call)
{
	link_finish(rpc_arg(call), RPC_OK, "");
}

static void send_and_release(struct link *l, struct buf *message)
{
	rpc_send(l->call, message->data, message->len);
	buf_release(message);
}

/* ---- Hello ---- */

/* An agent that vanished without a word, as its host lost power, is missed at the next ping, up to a minute later. Bytes
 * that its host does not acknowledge end its stream within 10 s. */
static void link_poke(struct link *l)
{
	const int64_t now_ns = now_mono_ns();
	struct buf message = { 0 };

	if (rpc_queued_bytes(l->call) ||
	    (l->poked_mono_ns && now_ns < l->poked_mono_ns + POKE_GAP_NS))
		return;
	l->poked_mono_ns = now_ns;
	message_poke(&message);
	send_and_release(l, &message);
}

/*
 * False, and the link is ended, if another agent has this host's name; that one must show that it is there. An older
 * stream of the same agent is replaced: its break was not noticed yet.
 */
static bool link_take_host(struct link *l, struct host *h, const Tutti__V1__Hello *hello)
{
	struct link *old;
	char text[200];

	if (!h->control)
		return true;
	if (h->instance != hello->instance) {
		snprintf(text, sizeof(text),
			 "the name %.60s is taken by the agent at %.60s: start one of them with "
			 "--host",
			 h->name, h->address);
		log_warn("AGG-PEER", "host=%s peer=%s reason=\"%s\"", h->name, rpc_peer(l->call),
			 text);
		link_finish(l, RPC_ALREADY_EXISTS, text);
		link_poke(rpc_arg(h->control));
		return false;
	}
	old = rpc_arg(h->control);
	old->host = NULL;
	link_finish(old, RPC_ABORTED, "replaced by a newer connection of the same agent");
	return true;
}

/* The certificate is looked at again: it may have been revoked since the call was opened. */
static bool link_check_certificate(struct link *l, const char *host)
{
	struct err e;

	if (!rpc_check_identity(l->call, &e))
		return true;
	log_warn("AGG-PEER", "host=%s peer=%s reason=\"%s\"", host, rpc_peer(l->call), e.msg);
	link_finish(l, RPC_UNAUTHENTICATED, e.msg);
	return false;
}

/* With mTLS the certificate must have the host's name; in plaintext the name in Hello is accepted unchecked. */
static bool link_check_identity(struct link *l, const char *host)
{
	const char *identity = rpc_identity(l->call);
	char why[320];

	if (!strcmp(identity, host) || (!*identity && !l->control->env.needs_certificate))
		return true;
	snprintf(why, sizeof(why),
		 "the certificate is for '%.60s', not for host '%.60s': give the agent a "
		 "certificate "
		 "of its own host, or start it with --host",
		 identity, host);
	log_warn("AGG-PEER", "host=%s peer=%s reason=\"%s\"", host, rpc_peer(l->call), why);
	link_finish(l, RPC_PERMISSION_DENIED, why);
	return false;
}

/* The agent has dialled again with a newer certificate long before; one that has none is cut off. */
static void on_identity_end(void *arg)
{
	link_finish(arg, RPC_ABORTED, "the certificate has ended: dial again");
}

static void await_identity_end(struct link *l)
{
	int64_t end_ns = rpc_identity_end_ns(l->call);

	loop_timer_cancel(l->control->env.loop, &l->timer);
	if (end_ns != INT64_MAX)
		loop_timer_in(l->control->env.loop, &l->timer, end_ns - now_real_ns(),
			      on_identity_end, l);
}

/* The host loses its place in the registry. */
static void forget_host(const struct control_env *env, struct host *h, const char *why)
{
	struct link *old = h->control ? rpc_arg(h->control) : NULL;

	log_warn("AGG-HOST-FORGOTTEN", "host=%s address=%s reason=\"%s\"", h->name, h->address,
		 why);
	if (old) {
		old->host = NULL;
		host_set_control(h, NULL);
		link_finish(old, RPC_RESOURCE_EXHAUSTED, why);
	}
	captures_host_lost(env->captures, h->name, h->instance);
	registry_remove(env->registry, h);
}

/* Finds a place for a host with a new name. If there is none, ends the link and returns false. */
static bool make_place(struct link *l)
{
	const struct control_env *env = &l->control->env;
	struct host *replaced;
	struct err e;

	if (registry_find_place(env->registry, rpc_peer(l->call), now_real_ns(), &replaced, &e)) {
		link_finish(l, RPC_RESOURCE_EXHAUSTED, e.msg);
		return false;
	}
	if (replaced)
		forget_host(env, replaced,
			    "its place goes to another: too many hosts, most of "
			    "them with its address");
	return true;
}

static void send_welcome(struct link *l, const struct host *h)
{
	const struct control_env *env = &l->control->env;
	const struct session_clock *clock = env->clock;
	struct welcome w = {
		.epoch = clock->epoch,
		.cookie = h->probe_cookie,
		.term = env->term,
		.probe_port = time_service_port(env->time),
		.key = &h->probes.key,
	};
	struct buf message = BUF_INIT;

	_Static_assert(ARRAY_SIZE(w.former) >= SESSION_CLOCK_CHANGES, "a change has no room");
	for (; w.n_former < clock->n_changes; w.n_former++)
		w.former[w.n_former] = clock->changes[w.n_former].epoch;
	message_welcome(&message, &w);
	send_and_release(l, &message);
}

static void handle_hello(struct link *l, const agent_message *m)
{
	const Tutti__V1__Hello *hello = m->hello;
	struct registry *r = l->control->env.registry;
	struct host *h = registry_find(r, hello->host);

	if (!link_check_certificate(l, hello->host) || !link_check_identity(l, hello->host) ||
	    (!h && !make_place(l)))
		return;
	h = registry_add(r, hello->host);
	if (!link_take_host(l, h, hello))
		return;
	await_identity_end(l);
	rpc_admit(l->call);
	host_take_hello(h, hello);
	host_set_address(h, rpc_peer(l->call));
	h->seen_real_ns = now_real_ns();
	host_set_control(h, l->call);
	l->host = h;
	send_welcome(l, h);
	log_info("AGG-HOST", "host=%s address=%s version=%s", h->name, h->address, h->version);
	captures_host_connected(l->control->env.captures, h);
	registry_notify(r);
}

static void handle_leaving(struct link *l, const agent_message *m)
{
	struct host *h = l->host;

	host_set_back_within(h, m->leaving->back_within_ns);
	log_info("AGG-HOST-LEAVING", "host=%s back_within_ms=%" PRId64, h->name,
		 h->back_within_ns / NS_PER_MS);
}

static void handle_disconnect(struct link *l, const agent_message *m)
{
	struct host *h = l->host;

	(void)m;
	l->host = NULL;
	host_set_control(h, NULL);
	log_info("AGG-HOST-GONE", "host=%s", h->name);
	if (host_replaced_within_ns(h)) {
		captures_host_disconnected(l->control->env.captures, h->name, h->instance);
	} else {
		captures_host_lost(l->control->env.captures, h->name, h->instance);
		registry_remove(l->control->env.registry, h);
	}
	registry_notify(l->control->env.registry);
	link_finish(l, RPC_OK, "");
}

/* ---- Status and captures ---- */

static void handle_steps(struct link *l, const agent_message *m)
{
	host_take_steps(l->host, m->steps);
	captures_host_steps_changed(l->control->env.captures, l->host);
}

static void handle_status(struct link *l, const agent_message *m)
{
	host_take_status(l->host, m->status);
	captures_host_held_changed(l->control->env.captures, l->host);
	registry_notify(l->control->env.registry);
}

/* The agent's host in that capture; NULL if the capture has ended, or this agent was not armed for it. */
static struct capture_host *find_capture_host(struct link *l, const char *session)
{
	struct capture *c = capture_find(l->control->env.captures, session);

	return c ? capture_find_host(c, l->host->name, l->host->instance) : NULL;
}

static void handle_armed(struct link *l, const agent_message *m)
{
	struct capture_host *h = find_capture_host(l, m->armed->session);

	l->control->stats.armed++;
	if (h)
		capture_host_armed(h, m->armed->bound_ns, m->armed->lead_ns);
}

/* The table's reason for the word in a Refused message. NULL if no agent may refuse with it; the caller
 * then puts the word into the detail. */
static const char *known_refusal(const char *word)
{
	const struct reason *r = reason_find(*word ? word : REASON_REFUSED);

	return r && r->flags & REASON_REFUSES ? r->word : NULL;
}

static void handle_refused(struct link *l, const agent_message *m)
{
	const Tutti__V1__Refused *r = m->refused;
	struct capture_host *h = find_capture_host(l, r->session);
	const char *reason = known_refusal(r->reason);

	if (!h)
		return;
	h->reported = true;
	if (reason)
		capture_host_failed(h, reason, "%s", r->detail);
	else
		capture_host_failed(h, REASON_REFUSED, "%s: %s", r->reason, r->detail);
}

static void handle_progress(struct link *l, const agent_message *m)
{
	const Tutti__V1__Progress *p = m->progress;
	struct capture_host *h = find_capture_host(l, p->session);
	enum host_state state = !strcmp(p->state, "running")	 ? HOST_RUNNING
				: !strcmp(p->state, "gathering") ? HOST_GATHERING
				: !strcmp(p->state, "uploading") ? HOST_UPLOADING
								 : HOST_ARMING;

	if (!h || state == HOST_ARMING)
		return;
	if (state == HOST_UPLOADING)
		capture_host_take_offer(h, p->takes_grant, p->crc32c);
	capture_host_progress(h, state, p->bytes_total, p->bytes_done);
}

/* The reason of a result. A word that is not a reason for agents becomes "other", and the detail begins with
 * the word. */
static const char *clean_reason(const char *word, const char *detail, char *out, size_t size)
{
	const struct reason *r = reason_find(word);
	char *text = NULL;

	if (*word && !(r && r->by & REASON_BY_AGENT)) {
		text = xasprintf("%s%s%s", word, *detail ? ": " : "", detail);
		word = REASON_OTHER;
		detail = text;
	}
	clean_sentence(out, size, detail, strlen(detail));
	free(text);
	return word;
}

static void set_reports(struct capture_host *h, const Tutti__V1__HostResult *r)
{
	struct pool *kept = &h->capture->kept;

	if (h->tracers || !r->n_tracers)
		return;
	h->tracers = pool_alloc(kept, r->n_tracers * sizeof(*h->tracers));
	h->n_tracers = (unsigned int)r->n_tracers;
	for (size_t i = 0; i < r->n_tracers; i++) {
		const Tutti__V1__TracerReport *t = r->tracers[i];
		char detail[HOST_DETAIL_BYTES];
		const char *reason = clean_reason(t->reason, t->detail, detail, sizeof(detail));

		h->tracers[i] = (struct tracer_report){
			.name = pool_text(kept, t->name),
			.state = pool_text(kept, t->state),
			.reason = pool_text(kept, reason),
			.detail = pool_text(kept, detail),
			.lost = t->lost,
		};
	}
}

static void set_clock(struct capture_host *h, const Tutti__V1__ClockModel *c)
{
	struct host_clock_break breaks[LIMIT_CLOCK_STEPS];
	struct host_clock clock = host_clock_from(c, breaks);

	clock.breaks = pool_copy(&h->capture->kept, breaks, clock.n_breaks * sizeof(*breaks));
	h->clock = pool_copy(&h->capture->kept, &clock, sizeof(clock));
}

static void set_steps_seen(struct capture_host *h, const Tutti__V1__StepsSeen *m)
{
	const struct steps_seen seen = { m->first, m->last, m->first_at_ns, m->end_at_ns };
	struct err e;

	if (control_check_steps_seen(m, &e))
		log_warn("AGG-PEER", "host=%s reason=\"its steps are left out: %s\"", h->name,
			 e.msg);
	else
		h->steps = pool_copy(&h->capture->kept, &seen, sizeof(seen));
}

static void handle_result(struct link *l, const agent_message *m)
{
	const Tutti__V1__HostResult *r = m->result;
	struct capture_host *h = find_capture_host(l, r->session);
	char detail[HOST_DETAIL_BYTES];
	const char *reason;

	if (!h || capture_host_has_ended(h))
		return;
	h->events = r->events;
	/* Sets the file's window: the file may be from before this retry, or from an earlier retry. */
	if (r->has_file && r->t0_ns > 0)
		h->t0_ns = r->t0_ns == h->capture->t0_ns ? 0 : r->t0_ns;
	if (r->clock)
		set_clock(h, r->clock);
	set_reports(h, r);
	if (r->steps)
		set_steps_seen(h, r->steps);
	if (r->put && r->has_file && r->n_files == 1)
		capture_host_put(h, r->files[0]);
	capture_host_report_files(h, r->files, r->crc32c, (unsigned int)r->n_files);
	capture_host_report_observations(h, r->observations.data, r->observations.len);
	reason = clean_reason(r->reason, r->detail, detail, sizeof(detail));
	capture_host_result(h, r->has_file, reason, detail);
}

/* ---- requests of a host's processes, probes of hosts without UDP ---- */

static void handle_ask(struct link *l, const agent_message *m)
{
	ask_handle(&l->control->env, l->host, m->ask);
}

static void handle_probe(struct link *l, const agent_message *m)
{
	uint8_t reply[PROBE_BYTES];
	struct buf message = { 0 };

	if (!time_service_answer(l->control->env.time, l->host, m->probe->packet.data, reply))
		return;
	message_probe(&message, reply);
	send_and_release(l, &message);
}

/* ---- messages ---- */

typedef void (*handle_fn)(struct link *l, const agent_message *m);

static const handle_fn handlers[] = {
	[TUTTI__V1__AGENT_MESSAGE__KIND_HELLO] = handle_hello,
	[TUTTI__V1__AGENT_MESSAGE__KIND_STATUS] = handle_status,
	[TUTTI__V1__AGENT_MESSAGE__KIND_ARMED] = handle_armed,
	[TUTTI__V1__AGENT_MESSAGE__KIND_REFUSED] = handle_refused,
	[TUTTI__V1__AGENT_MESSAGE__KIND_PROGRESS] = handle_progress,
	[TUTTI__V1__AGENT_MESSAGE__KIND_RESULT] = handle_result,
	[TUTTI__V1__AGENT_MESSAGE__KIND_ASK] = handle_ask,
	[TUTTI__V1__AGENT_MESSAGE__KIND_DISCONNECT] = handle_disconnect,
	[TUTTI__V1__AGENT_MESSAGE__KIND_STEPS] = handle_steps,
	[TUTTI__V1__AGENT_MESSAGE__KIND_PROBE] = handle_probe,
	[TUTTI__V1__AGENT_MESSAGE__KIND_LEAVING] = handle_leaving,
};

static void link_refuse(struct link *l, const char *why)
{
	l->control->stats.bad_messages++;
	log_warn("AGG-PEER", "host=%s peer=%s reason=\"%s\"", l->host ? l->host->name : "?",
		 rpc_peer(l->call), why);
	link_finish(l, RPC_INVALID_ARGUMENT, why);
}

/* A well-formed message may still be wrong in this place. */
static int check_order(const struct link *l, const agent_message *m, struct err *e)
{
	bool hello = m->kind_case == TUTTI__V1__AGENT_MESSAGE__KIND_HELLO;

	if (hello && l->host)
		return err_set(e, ERR_INVALID, "a second Hello");
	if (!hello && !l->host)
		return err_set(e, ERR_INVALID, "the first message is not Hello");
	if (hello && !m->hello->instance)
		return err_set(e, ERR_INVALID, "Hello without an instance");
	return 0;
}

static void dispatch(struct link *l, const agent_message *m)
{
	l->control->stats.messages++;
	if (l->host)
		l->host->seen_real_ns = now_real_ns();
	if ((size_t)m->kind_case < ARRAY_SIZE(handlers) && handlers[m->kind_case])
		handlers[m->kind_case](l, m);
}

static bool on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct link *l = rpc_arg(call);
	agent_message *m = NULL;
	struct err e = { 0 };
	size_t len;
	const uint8_t *data;

	if (l->finished)
		return true;
	data = rpc_msg_data(msg, &len);
	if (control_unpack_from_agent(&m, data, len, &e) || check_order(l, m, &e))
		link_refuse(l, e.msg);
	else
		dispatch(l, m);
	if (m)
		tutti__v1__agent_message__free_unpacked(m, NULL);
	return true;
}

const struct rpc_events control_events = {
	.opened = on_opened,
	.message = on_message,
	.half_closed = on_half_closed,
	.closed = on_closed,
};

/* ---- life ---- */

struct control *control_new(const struct control_env *env)
{
	struct control *c = xcalloc(1, sizeof(*c));

	c->env = *env;
	return c;
}

static void close_link(void *arg, struct host *h)
{
	struct control *c = arg;
	struct link *l = h->control ? rpc_arg(h->control) : NULL;

	if (l && l->number <= c->close_up_to)
		link_finish(l, RPC_ABORTED, c->why);
}

void control_close_links(struct control *c, const char *why)
{
	c->close_up_to = c->n_links;
	c->why = why;
	c->closing.loop = c->env.loop;
	c->closing.registry = c->env.registry;
	c->closing.visit = close_link;
	c->closing.arg = c;
	host_walk_begin(&c->closing);
}

void control_refuse_host(struct control *c, const char *host, const char *why)
{
	struct host *h = registry_find(c->env.registry, host);
	struct link *l = h && h->control ? rpc_arg(h->control) : NULL;

	captures_host_refused(c->env.captures, host, why);
	if (!h)
		return;
	log_warn("AGG-HOST-GONE", "host=%s reason=\"%s\"", h->name, why);
	if (l) {
		l->host = NULL;
		host_set_control(h, NULL);
		link_finish(l, RPC_UNAUTHENTICATED, why);
	}
	registry_remove(c->env.registry, h);
	registry_notify(c->env.registry);
}

void control_free(struct control *c)
{
	if (c)
		host_walk_cancel(&c->closing);
	free(c);
}

const struct control_stats *control_stats(const struct control *c)
{
	return &c->stats;
}
