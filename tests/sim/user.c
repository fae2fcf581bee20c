/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/user.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "aggregator/aggregator.h"
#include "json/json_text.h"
#include "base/mem.h"
#include "tests/sim/check.h"
#include "tests/sim/daemon.h"

#define SLACK_NS     (3 * NS_PER_S) /* from a deadline to the manifest */
#define ASK_AGAIN_NS (5 * NS_PER_S)
#define EXTENSION    10 /* times the grace, while hosts make progress */

static struct requests requests;
static int64_t grace_ns;

static void ask(void *arg);

/* ---- what became of it ---- */

static void is_over(struct request *w, bool committed)
{
	/* A retry that fails leaves its session as it was. */
	committed |= w->committed;
	w->over = true;
	w->committed = committed;
	sim_cancel(&w->ask);
	sim_note("session %s is %s", w->session, committed ? "committed" : "failed");
	if (committed)
		check_session(w);
	else if (w->must_complete)
		sim_fail("session %s failed on a healthy fleet", w->session);
}

static void on_session(void *arg, int status, const char *body, size_t len)
{
	struct request *w = arg;

	(void)body;
	(void)len;
	if (status == 200) {
		is_over(w, true);
	} else if (status == 404) {
		if (!w->spoilt)
			sim_fail("session %s was accepted and is forgotten", w->session);
		w->committed = false;
		is_over(w, false);
	} else {
		sim_at(&w->ask, sim.now_ns + ASK_AGAIN_NS, ask, w);
	}
}

static void read_session(struct request *w)
{
	char path[128];

	snprintf(path, sizeof(path), "/api/v1/sessions/%s", w->session);
	http_ask("GET", path, NULL, on_session, w);
}

static void on_capture(void *arg, int status, const char *body, size_t len)
{
	struct request *w = arg;
	json_t *doc = status == 200 ? json_loadb(body, len, 0, NULL) : NULL;
	const char *state = doc ? json_get_text(doc, "state") : "";

	if (w->over) {
		/* it was seen to end meanwhile */
	} else if (status == 404) {
		read_session(w);
	} else if (!strcmp(state, "committed") || !strcmp(state, "failed")) {
		if (!strcmp(state, "failed") && !*json_get_text(doc, "error"))
			sim_fail("session %s failed without a reason", w->session);
		is_over(w, !strcmp(state, "committed"));
	} else {
		if (status == 200 && w->undisturbed && sim.now_ns > w->last_ns)
			sim_fail("session %s is still %s after its last deadline", w->session,
				 state);
		sim_at(&w->ask, sim.now_ns + ASK_AGAIN_NS, ask, w);
	}
	json_decref(doc);
}

static void ask(void *arg)
{
	struct request *w = arg;
	char path[128];

	snprintf(path, sizeof(path), "/api/v1/captures/%s", w->session);
	http_ask("GET", path, NULL, on_capture, w);
}

/* ---- captures ---- */

static int64_t session_to_true_ns(const struct request *w, int64_t session_ns)
{
	return sim.now_ns + session_ns - (host_raw_ns(sim.hosts[0], sim.now_ns) + w->shift_ns);
}

static void on_accepted(void *arg, int status, const char *body, size_t len)
{
	int64_t end_ns, own_grace_ns;
	struct request *w;
	json_t *doc;

	if (status != 202) {
		sim_note("capture: status %d", status);
		if (arg)
			sim_fail("a healthy fleet refuses a capture: %d %.*s", status, (int)len,
				 body);
		return;
	}
	doc = json_loadb(body, len, 0, NULL);
	w = xcalloc(1, sizeof(*w));
	snprintf(w->session, sizeof(w->session), "%s", json_get_text(doc, "session"));
	w->n_hosts = json_array_size(json_object_get(doc, "hosts"));
	w->t0_ns = json_get_int(doc, "t0_ns");
	w->duration_ns = json_get_int(doc, "duration_ns");
	w->shift_ns = the_aggregator()->clock.shift_ns;
	w->accepted_ns = sim.now_ns;
	w->undisturbed = !daemon_is_busy(sim.hosts[0]);
	w->must_complete = arg;
	TAILQ_INSERT_TAIL(&requests, w, entry);
	end_ns = session_to_true_ns(w, w->t0_ns + w->duration_ns);
	own_grace_ns = 2 * w->duration_ns > grace_ns ? 2 * w->duration_ns : grace_ns;
	w->last_ns = end_ns + EXTENSION * own_grace_ns + SLACK_NS;
	sim_at(&w->ask, end_ns + own_grace_ns + SLACK_NS, ask, w);
	sim_note("session %s accepted: %zu hosts, %" PRId64 " ns", w->session, w->n_hosts,
		 w->duration_ns);
	if (!strcmp(json_get_text(doc, "state"), "failed"))
		is_over(w, false);
	json_decref(doc);
}

/* None, some, one, or all. */
static void pick_hosts(char *out, size_t size)
{
	size_t at = 0;

	snprintf(out, size, "all");
	if (rng_chance(&sim.rng, 0.6) || sim.n_hosts > LARGE_FLEET)
		return;
	for (size_t i = 1; i < sim.n_hosts; i++) {
		if (rng_chance(&sim.rng, 0.5))
			at += (size_t)snprintf(out + at, size - at, "%s%s", at ? "," : "",
					       sim.hosts[i]->name);
	}
}

void user_capture(bool must_complete)
{
	char hosts[512] = "all", body[700];
	int64_t duration_ns = rng_scale(&sim.rng, NS_PER_MS, 4 * NS_PER_S);

	if (!must_complete)
		pick_hosts(hosts, sizeof(hosts));
	snprintf(body, sizeof(body), "{\"hosts\": \"%s\", \"duration_ns\": %" PRId64 "}", hosts,
		 duration_ns);
	http_ask("POST", "/api/v1/captures", body, on_accepted, must_complete ? &requests : NULL);
}

/* ---- about one of them ---- */

static struct request *pick(bool over)
{
	struct request *w, *found = NULL;
	int64_t n = 0;

	TAILQ_FOREACH (w, &requests, entry) {
		if (w->over == over && (!over || w->committed) && !w->spoilt &&
		    rng_range(&sim.rng, 0, n++) == 0)
			found = w;
	}
	return found;
}

static void on_answer(void *arg, int status, const char *body, size_t len)
{
	(void)len;
	(void)body;
	sim_note("%s: status %d", (const char *)arg, status);
}

static void send_verb(const char *method, const struct request *w, const char *kind,
		      const char *verb)
{
	char path[128];

	snprintf(path, sizeof(path), "/api/v1/%s/%s%s", kind, w->session, verb);
	http_ask(method, path, NULL, on_answer, (void *)(*verb ? verb : "/delete"));
}

void user_stop(void)
{
	struct request *w = pick(false);

	if (!w)
		return;
	w->stopped = true;
	send_verb("POST", w, "captures", "/stop");
}

void user_cancel(void)
{
	struct request *w = pick(false);

	if (!w)
		return;
	w->spoilt = true;
	send_verb("DELETE", w, "captures", "");
}

static void on_retried(void *arg, int status, const char *body, size_t len)
{
	struct request *w = arg;

	(void)body;
	(void)len;
	sim_note("retry %s: status %d", w->session, status);
	if (status != 202)
		return;
	w->over = false;
	w->undisturbed = false; /* its window is its own */
	sim_at(&w->ask, sim.now_ns + w->duration_ns + grace_ns + 2 * ASK_AGAIN_NS, ask, w);
}

/* The answer may be lost, and the retry carried on by the next aggregator all the same. */
void user_retry(void)
{
	const struct aggregator *agg = the_aggregator();
	struct request *w = pick(true);
	char path[128];

	/* After two retries on two session clocks it would be unknown which host is on which. */
	if (!w || !agg || (w->retry_shift_ns && w->retry_shift_ns != agg->clock.shift_ns))
		return;
	w->retry_shift_ns = agg->clock.shift_ns;
	snprintf(path, sizeof(path), "/api/v1/sessions/%s/retry", w->session);
	http_ask("POST", path, NULL, on_retried, w);
}

void user_delete(void)
{
	struct request *w = pick(true);

	if (!w)
		return;
	w->spoilt = true;
	send_verb("DELETE", w, "sessions", "");
}

static void on_look(void *arg, int status, const char *body, size_t len)
{
	bool stopping = daemon_is_busy(sim.hosts[0]);

	(void)arg;
	(void)body;
	(void)len;
	if (status && status != 200 && !(status == 503 && stopping))
		sim_fail("a page that only looks is answered %d", status);
}

void user_browse(void)
{
	static const char *const paths[] = { "/api/v1/hosts",	 "/api/v1/captures",
					     "/api/v1/sessions", "/metrics",
					     "/healthz",	 "/api/v1/events" };
	/* A page that stays and receives every change; not with a thousand hosts. */
	int64_t n = sim.n_hosts > LARGE_FLEET ? ARRAY_SIZE(paths) - 1 : ARRAY_SIZE(paths);

	http_ask("GET", paths[rng_range(&sim.rng, 0, n - 1)], NULL, on_look, NULL);
}

/* ---- outages ---- */

void user_before_outage(void)
{
	struct request *w;

	TAILQ_FOREACH (w, &requests, entry)
		w->undisturbed = false;
}

size_t user_waiting(void)
{
	struct request *w;
	size_t n = 0;

	TAILQ_FOREACH (w, &requests, entry)
		n += !w->over;
	return n;
}

const struct requests *user_requests(void)
{
	return &requests;
}

/* ---- life ---- */

void user_new(int64_t grace)
{
	TAILQ_INIT(&requests);
	grace_ns = grace;
}

void user_free(void)
{
	struct request *w;

	while ((w = TAILQ_FIRST(&requests))) {
		TAILQ_REMOVE(&requests, w, entry);
		sim_cancel(&w->ask);
		free(w);
	}
}
