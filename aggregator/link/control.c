/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/link/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/captures/capture.h"
#include "aggregator/fleet/messages.h"
#include "aggregator/fleet/registry.h"
#include "aggregator/time/session_clock.h"
#include "aggregator/time/time_service.h"
#include "base/clean_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/secret.h"
#include "net/rpc.h"
#include "proto/control_check.h"
#include "proto/limits.h"
#include "proto/probe.h"
#include "proto/reasons.h"

#define HELLO_TIMEOUT_NS (10 * NS_PER_S)
#define ASK_DURATION_NS \
	(600 * NS_PER_S) /* longest window of a local request that names no duration */

typedef Tutti__V1__AgentMessage agent_message;

struct control {
	struct control_env env;
	struct control_stats stats;
};

/* One stream. */
struct link {
	struct control *control;
	struct rpc_call *call;
	struct host *host; /* NULL before Hello and after Disconnect */
	bool finished;
	struct loop_timer hello_timer;
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
	rpc_set_arg(call, l);
	loop_timer_in(l->control->env.loop, &l->hello_timer, HELLO_TIMEOUT_NS, on_hello_timeout, l);
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

	loop_timer_cancel(l->control->env.loop, &l->hello_timer);
	if (l->host)
		link_lose_host(l, *st->text ? st->text : rpc_code_name(st->code));
	free(l);
}

/* The agent closed its side: no message can follow. */
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

static void set_host(struct host *h, const Tutti__V1__Hello *hello)
{
	host_set_text(&h->version, hello->version);
	host_set_text(&h->profiler_address, hello->profiler_address);
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

/*
 * False, and the link is ended, if another agent has this host's name. An older stream of the same agent,
 * whose break was not noticed yet, is replaced.
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
		return false;
	}
	old = rpc_arg(h->control);
	old->host = NULL;
	link_finish(old, RPC_ABORTED, "replaced by a newer connection of the same agent");
	return true;
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
		 "whose common name is the host's, or start it with --host",
		 identity, host);
	log_warn("AGG-PEER", "host=%s peer=%s reason=\"%s\"", host, rpc_peer(l->call), why);
	link_finish(l, RPC_PERMISSION_DENIED, why);
	return false;
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

/* For a host with a new name. False, and the link is ended, if there is no place. */
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

static void handle_hello(struct link *l, const agent_message *m)
{
	const struct control_env *env = &l->control->env;
	const Tutti__V1__Hello *hello = m->hello;
	struct registry *r = l->control->env.registry;
	struct host *h = registry_find(r, hello->host);
	struct buf message = BUF_INIT;

	if (!link_check_identity(l, hello->host) || (!h && !make_place(l)))
		return;
	h = registry_add(r, hello->host);
	if (!link_take_host(l, h, hello))
		return;
	loop_timer_cancel(l->control->env.loop, &l->hello_timer);
	rpc_admit(l->call);
	set_host(h, hello);
	host_set_address(h, rpc_peer(l->call));
	h->seen_real_ns = now_real_ns();
	host_set_control(h, l->call);
	l->host = h;
	message_welcome(&message, env->clock->epoch, time_service_port(env->time), h->probe_cookie,
			&h->probes.key);
	send_and_release(l, &message);
	log_info("AGG-HOST", "host=%s address=%s version=%s", h->name, h->address, h->version);
	captures_host_connected(l->control->env.captures, h);
	registry_notify(r);
}

static void handle_disconnect(struct link *l, const agent_message *m)
{
	struct host *h = l->host;

	(void)m;
	l->host = NULL;
	host_set_control(h, NULL);
	log_info("AGG-HOST-GONE", "host=%s", h->name);
	captures_host_lost(l->control->env.captures, h->name, h->instance);
	registry_remove(l->control->env.registry, h);
	registry_notify(l->control->env.registry);
	link_finish(l, RPC_OK, "");
}

/* ---- Status and captures ---- */

static void set_steps(struct host *h, const Tutti__V1__Steps *s)
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

static void handle_steps(struct link *l, const agent_message *m)
{
	set_steps(l->host, m->steps);
	captures_host_steps_changed(l->control->env.captures, l->host);
}

static void handle_status(struct link *l, const agent_message *m)
{
	if (m->status->steps)
		set_steps(l->host, m->status->steps);
	host_set_clock(l->host, m->status->clock);
	set_held(l->host, m->status->held, m->status->n_held);
	captures_host_held_changed(l->control->env.captures, l->host);
	if (m->status->n_tracers)
		set_tracers(l->host, m->status->tracers, m->status->n_tracers);
	set_jobs(l->host, m->status->jobs, m->status->n_jobs, m->status->more_jobs);
	registry_notify(l->control->env.registry);
}

/* NULL if the capture has ended, or this agent was not armed for it. */
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

/* The reason for this word of Refused; NULL if no agent may refuse with it: the caller puts it into the detail. */
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

	if (h && state != HOST_ARMING)
		capture_host_progress(h, state, p->bytes_total, p->bytes_done);
}

/* The reason of a result. A word that is no reason of agents becomes "other", and the detail begins with it. */
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
	h->n_tracers = r->n_tracers;
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

	h->clock = host_clock_from(c, breaks);
	h->clock.breaks = pool_copy(&h->capture->kept, breaks, h->clock.n_breaks * sizeof(*breaks));
}

static void set_steps_seen(struct capture_host *h, const Tutti__V1__StepsSeen *m)
{
	struct err e;

	if (control_check_steps_seen(m, &e))
		log_warn("AGG-PEER", "host=%s reason=\"its steps are left out: %s\"", h->name,
			 e.msg);
	else
		h->steps = (struct steps_seen){ true, m->first, m->last, m->first_at_ns,
						m->end_at_ns };
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
	/* The file may be from before this retry, or from an earlier retry. */
	if (r->has_file && r->t0_ns > 0)
		h->t0_ns = r->t0_ns == h->capture->t0_ns ? 0 : r->t0_ns;
	if (r->clock)
		set_clock(h, r->clock);
	set_reports(h, r);
	if (r->steps)
		set_steps_seen(h, r->steps);
	reason = clean_reason(r->reason, r->detail, detail, sizeof(detail));
	capture_host_result(h, r->has_file, reason, detail);
}

/* ---- Ask: requests from the local socket of a host ---- */

/* A host's processes capture their own host; for others they need what callers over HTTP need. */
static int check_ask_token(const struct link *l, const Tutti__V1__Ask *ask, struct err *e)
{
	const char *token = l->control->env.token;

	if (!token || !*ask->hosts || !strcmp(ask->hosts, l->host->name) ||
	    secret_equal(token, ask->token))
		return 0;
	return err_set(e, ERR_DENIED,
		       "capturing other hosts than %s needs the aggregator's token: "
		       "tutti start --token-file FILE",
		       l->host->name);
}

static int ask_start(struct link *l, const Tutti__V1__Ask *ask, struct capture **c, struct err *e)
{
	char *origin = xasprintf("local %s", l->host->name);
	struct capture_request req = {
		.hosts = *ask->hosts ? ask->hosts : l->host->name,
		.run = ask->run,
		.duration_ns = ask->duration_ns ? ask->duration_ns : ASK_DURATION_NS,
		.open_ended = true,
		.origin = origin,
	};
	int rc = check_ask_token(l, ask, e);

	if (!rc)
		rc = capture_begin(l->control->env.captures, &req, c, e);
	free(origin);
	return rc;
}

/* A host's agent has a profile that a program made of it: a session of that time, of this host alone. */
static int ask_snapshot(struct link *l, const Tutti__V1__Ask *ask, struct capture **c,
			struct err *e)
{
	char *origin = xasprintf("watch %s", l->host->name);
	struct capture_request req = {
		.hosts = l->host->name,
		.run = ask->run,
		.duration_ns = ask->duration_ns,
		.snapshot = true,
		.ending_at_ns = ask->ending_at_ns,
		.origin = origin,
	};
	int rc = 0;

	if (!ask->ending_at_ns || !ask->duration_ns)
		rc = err_set(e, ERR_INVALID, "a snapshot needs its end and its length");
	if (!rc)
		rc = capture_begin(l->control->env.captures, &req, c, e);
	free(origin);
	return rc;
}

/* A host's processes stop what one of them requested. What others requested needs what callers over HTTP need; where
 * that is nothing, the host must take part. */
static int check_ask_stop(const struct link *l, const Tutti__V1__Ask *ask, struct capture *c,
			  struct err *e)
{
	const char *token = l->control->env.token;
	char origin[LIMIT_HOST_NAME + 8];

	snprintf(origin, sizeof(origin), "local %s", l->host->name);
	if (!strcmp(c->origin, origin))
		return 0;
	if (token && !secret_equal(token, ask->token))
		return err_set(e, ERR_DENIED,
			       "no process of %s requested this capture: stopping it needs the "
			       "aggregator's token: tutti stop --token-file FILE",
			       l->host->name);
	if (!token && !capture_find_host(c, l->host->name, l->host->instance))
		return err_set(e, ERR_DENIED,
			       "capture %s was not requested by this host and does not record it",
			       ask->session);
	return 0;
}

static int ask_stop(struct link *l, const Tutti__V1__Ask *ask, struct capture **c, struct err *e)
{
	int rc;

	*c = capture_find(l->control->env.captures, ask->session);
	if (!*c)
		return err_set(e, ERR_NOT_FOUND, "there is no capture '%s'", ask->session);
	rc = check_ask_stop(l, ask, *c, e);
	if (!rc)
		capture_stop(*c);
	return rc;
}

/* An answer that waits for the store; the host may have a new link by then. */
struct pending_answer {
	struct registry *registry;
	char *host;
	uint64_t instance, id;
};

static void send_answer(void *arg, struct capture *c, const struct err *not_durable)
{
	struct pending_answer *a = arg;
	struct host *host = registry_find(a->registry, a->host);
	struct buf message = BUF_INIT;

	message_answer(&message, a->id, !not_durable, c->session,
		       not_durable ? not_durable->msg : "");
	if (host && host->instance == a->instance)
		host_send(host, &message);
	buf_release(&message);
	free(a->host);
	free(a);
}

static void answer_when_durable(struct link *l, uint64_t id, struct capture *c)
{
	struct pending_answer *a = xmalloc(sizeof(*a));

	*a = (struct pending_answer){ l->control->env.registry, xstrdup(l->host->name),
				      l->host->instance, id };
	capture_when_durable(c, send_answer, a);
}

static void handle_ask(struct link *l, const agent_message *m)
{
	const Tutti__V1__Ask *ask = m->ask;
	struct buf message = BUF_INIT;
	struct capture *c = NULL;
	struct err e = { 0 };
	int rc;

	if (!strcmp(ask->verb, "start"))
		rc = ask_start(l, ask, &c, &e);
	else if (!strcmp(ask->verb, "stop"))
		rc = ask_stop(l, ask, &c, &e);
	else if (!strcmp(ask->verb, "snapshot"))
		rc = ask_snapshot(l, ask, &c, &e);
	else
		rc = err_set(&e, ERR_UNSUPPORTED, "unknown verb '%s'", ask->verb);
	if (!rc) {
		answer_when_durable(l, ask->id, c);
		return;
	}
	message_answer(&message, ask->id, false, "", e.msg);
	send_and_release(l, &message);
}

/* ---- probes of hosts without UDP ---- */

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

void control_close_links(struct control *c, const char *why)
{
	size_t n;
	struct host *const *hosts = registry_hosts(c->env.registry, &n);

	for (size_t i = 0; i < n; i++) {
		if (hosts[i]->control)
			link_finish(rpc_arg(hosts[i]->control), RPC_ABORTED, why);
	}
}

void control_free(struct control *c)
{
	free(c);
}

const struct control_stats *control_stats(const struct control *c)
{
	return &c->stats;
}
