/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/loop.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "net/rpc.h"
#include "proto/profiler_request.h"
#include "tests/sim/check.h"
#include "tests/sim/daemon.h"
#include "tests/sim/flaky_store.h"
#include "tests/sim/sim.h"
#include "tests/sim/user.h"

#define LONGEST_MS	  4000 /* of a window */
#define RESPONSE_BYTES	  ((size_t)256 << 20)
#define POLL_NS		  NS_PER_S
#define POLLS_MAX	  5 /* an answer takes less than so many */
#define TERMINATE_WAIT_NS (30 * NS_PER_S)

struct profile {
	char session[32]; /* the name that the client chose */
	bool undisturbed; /* since it was sent */
	unsigned int polls_ended; /* one after the other that found its capture ended */
	TAILQ_ENTRY(profile) entry;
};

static struct {
	struct sim_host *host;
	struct loop *loop;
	struct rpc *rpc;
	struct rpc_channel *channel;
	struct sim_event poll;
	unsigned int n_names;
	bool is_linked; /* its connection has served a call, and has not been disturbed since */
	TAILQ_HEAD(, profile) profiles;
} client;

/* ---- the answers ---- */

/* A call that has a deadline is answered also if the store has not taken the plan yet: that promises nothing. Its
 * window may have been ended by Terminate, which reaches some hosts too late. */
static void accept_capture(const json_t *capture)
{
	struct request *w;

	if (!check_has_record(json_get_text(capture, "session")))
		return;
	w = user_accepted(capture);
	w->accepted_ns = 0; /* long before this answer */
	w->longest_ns = LONGEST_MS * NS_PER_MS;
	if (!w->stop)
		w->stop = PROMISE_ASKED;
}

static void on_listed(void *arg, int status, const char *body, size_t len)
{
	char *session = arg;
	json_t *doc = status == 200 ? json_loadb(body, len, 0, NULL) : NULL;
	const json_t *captures = json_object_get(doc, "captures");

	for (size_t i = 0; i < json_array_size(captures); i++) {
		const json_t *c = json_array_get(captures, i);

		if (!strcmp(json_get_text(c, "client_session"), session))
			accept_capture(c);
	}
	json_decref(doc);
	free(session);
}

static void on_profiled(void *arg, const struct rpc_status *st, const struct rpc_msg *msg)
{
	struct profile *p = arg;

	(void)msg;
	sim_note("profile %s: %s %s", p->session, rpc_code_name(st->code), st->text);
	if (p->undisturbed && st->code)
		sim_fail("ProfilerService answers %s: %s %s", p->session, rpc_code_name(st->code),
			 st->text);
	client.is_linked |= !st->code;
	check_counts.profiled += !st->code;
	if (!st->code)
		http_ask("GET", "/api/v1/captures", NULL, on_listed, xstrdup(p->session));
	TAILQ_REMOVE(&client.profiles, p, entry);
	free(p);
}

static void on_terminated(void *arg, const struct rpc_status *st, const struct rpc_msg *msg)
{
	(void)arg;
	(void)msg;
	sim_note("terminate: %s %s", rpc_code_name(st->code), st->text);
}

/* ---- while they wait ---- */

static struct profile *profile_of(const json_t *capture)
{
	const char *session = json_get_text(capture, "client_session");
	struct profile *p;

	TAILQ_FOREACH (p, &client.profiles, entry) {
		if (!strcmp(p->session, session))
			return p;
	}
	return NULL;
}

static void check_waits(const json_t *capture)
{
	const char *state = json_get_text(capture, "state");
	struct profile *p = profile_of(capture);

	if (!p || (strcmp(state, "committed") && strcmp(state, "failed")))
		return;
	if (++p->polls_ended == POLLS_MAX && p->undisturbed)
		sim_fail("ProfilerService does not answer %s, whose capture is %s", p->session,
			 state);
}

static void on_polled(void *arg, int status, const char *body, size_t len)
{
	json_t *doc = status == 200 ? json_loadb(body, len, 0, NULL) : NULL;
	const json_t *captures = json_object_get(doc, "captures");

	(void)arg;
	for (size_t i = 0; i < json_array_size(captures); i++)
		check_waits(json_array_get(captures, i));
	json_decref(doc);
}

static void poll(void *arg)
{
	if (TAILQ_EMPTY(&client.profiles))
		return;
	http_ask("GET", "/api/v1/captures", NULL, on_polled, NULL);
	sim_at(&client.poll, sim.now_ns + POLL_NS, poll, arg);
}

/* ---- the calls ---- */

static bool is_well(void)
{
	return sim.hosts[0]->alive && !daemon_is_busy(sim.hosts[0]) &&
	       sim.hosts[0]->paused_until_ns <= sim.now_ns && flaky_store_is_whole(0);
}

/* Its code is only this: what it sends now. */
static void send(const char *path, const uint8_t *data, size_t len, int64_t wait_ns,
		 rpc_unary_fn done, void *arg)
{
	struct sim_host *was = sim.host;

	sim.host = client.host;
	rpc_unary(client.channel, path, data, len, now_mono_ns() + wait_ns, done, arg);
	sim.host = was;
}

void client_profile(void)
{
	struct profile *p = xcalloc(1, sizeof(*p));
	Tensorflow__ProfileRequest r = TENSORFLOW__PROFILE_REQUEST__INIT;
	uint8_t *data;

	snprintf(p->session, sizeof(p->session), "client_%u", ++client.n_names);
	p->undisturbed = is_well() && client.is_linked;
	TAILQ_INSERT_TAIL(&client.profiles, p, entry);
	r.session_id = p->session;
	r.duration_ms = (uint64_t)rng_scale(&sim.rng, 1, LONGEST_MS);
	data = xmalloc(tensorflow__profile_request__get_packed_size(&r));
	send(PROFILER_PROFILE, data, tensorflow__profile_request__pack(&r, data),
	     rng_range(&sim.rng, 10, 90) * NS_PER_S, on_profiled, p);
	free(data);
	if (!client.poll.slot)
		sim_at(&client.poll, sim.now_ns + POLL_NS, poll, NULL);
}

void client_terminate(void)
{
	struct profile *p = TAILQ_FIRST(&client.profiles);
	Tensorflow__TerminateRequest r = TENSORFLOW__TERMINATE_REQUEST__INIT;
	uint8_t data[64];

	if (!p)
		return;
	r.session_id = p->session;
	send(PROFILER_TERMINATE, data, tensorflow__terminate_request__pack(&r, data),
	     TERMINATE_WAIT_NS, on_terminated, NULL);
}

void client_before_outage(void)
{
	struct profile *p;

	client.is_linked = false;
	TAILQ_FOREACH (p, &client.profiles, entry)
		p->undisturbed = false;
}

/* ---- life ---- */

void client_new(void)
{
	const struct rpc_channel_opts opts = { .target = "leader:7401",
					       .max_message_bytes = RESPONSE_BYTES };
	struct err e;

	memset(&client, 0, sizeof(client));
	TAILQ_INIT(&client.profiles);
	client.host = host_new_outside("client");
	client.host->there.delay_ns = client.host->back.delay_ns = 100 * NS_PER_US;
	client.host->slow_ns = 10 * NS_PER_US;
	sim.host = client.host;
	if (loop_new(&client.loop, 1, &e) || rpc_new(&client.rpc, client.loop, &e) ||
	    rpc_channel_new(&client.channel, client.rpc, &opts, &e))
		sim_fail("the client does not start: %s", e.msg);
	sim.host = NULL;
}

void client_stop(void)
{
	sim_cancel(&client.poll);
	sim.host = client.host;
	rpc_channel_free(client.channel);
	rpc_free(client.rpc);
	loop_free(client.loop);
	sim.host = NULL;
	wire_host_gone(client.host);
}

void client_free(void)
{
	host_free(client.host);
}
