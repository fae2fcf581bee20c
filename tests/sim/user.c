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
#include "storage/store.h"
#include "tests/sim/check.h"
#include "tests/sim/daemon.h"
#include "tests/sim/session_time.h"
#include "tests/sim/flaky_store.h"
#include "tests/sim/job.h"

#define SLACK_NS     (3 * NS_PER_S) /* from a deadline to the manifest */
#define ASK_AGAIN_NS (5 * NS_PER_S)
#define ASK_MOST_NS  (60 * NS_PER_S) /* a window of steps may end minutes before it had to */
#define CALLS_OVER_NS \
	(STORE_PATIENCE_NS + 30 * NS_PER_S) /* after an outage no call is waiting any more */
#define RETRY_AFTER_NS (5 * NS_PER_S) /* an agent that was down is back */
#define EXTENSION      10 /* times the grace, while hosts make progress */

static struct requests requests;
static int64_t grace_ns;
static bool is_calm;
static unsigned int n_cancels;
static struct {
	double part; /* of the captures */
	int64_t within_ns;
} at_once;

/* What is asked for, until it is answered. */
struct asked {
	json_t *settings; /* or NULL */
	bool must_complete;
	void (*accepted)(struct request *w); /* or NULL */
};

static void ask(void *arg);
static void end_at_once(struct request *w);
static void retry_later(struct request *w);

/* ---- what became of it ---- */

/* A retry that fails leaves its session as it was. */
static void is_over(struct request *w, bool committed)
{
	committed |= w->committed;
	w->over = true;
	w->committed = committed;
	sim_cancel(&w->ask);
	sim_note("session %s is %s", w->session, committed ? "committed" : "failed");
	if (committed)
		check_session(w);
	else if (w->must_complete)
		sim_fail("session %s failed on a healthy fleet", w->session);
	if (committed && w->retries_left)
		retry_later(w);
}

/* Neither a capture nor a session. */
static void is_gone(struct request *w)
{
	if (!w->removal)
		sim_fail("session %s was accepted and is forgotten", w->session);
	w->committed = false;
	is_over(w, false);
}

static void ask_later(struct request *w)
{
	sim_at(&w->ask, sim.now_ns + ASK_AGAIN_NS, ask, w);
}

static void on_session(void *arg, int status, const char *body, size_t len)
{
	struct request *w = arg;

	(void)body;
	(void)len;
	if (status == 200)
		is_over(w, true);
	else if (status == 404)
		is_gone(w);
	else
		ask_later(w);
}

static void get(struct request *w, const char *kind, sim_answer_fn fn)
{
	char path[128];

	snprintf(path, sizeof(path), "/api/v1/%s/%s", kind, w->session);
	http_ask("GET", path, NULL, fn, w);
}

static int64_t session_to_true_ns(const struct request *w, int64_t session_ns)
{
	return sim.now_ns + session_ns - session_time_ns(w->shift_ns, sim.now_ns);
}

/* Takes the window of this document; returns when to ask again. A queued one has no window yet. */
static int64_t learn_window(struct request *w, const json_t *doc)
{
	int64_t duration_ns = json_get_int(doc, "duration_ns"), end_ns;
	int64_t own_grace_ns = 2 * duration_ns > grace_ns ? 2 * duration_ns : grace_ns;

	if (duration_ns > w->longest_ns)
		w->longest_ns = duration_ns;
	if (!strcmp(json_get_text(doc, "state"), "queued")) {
		if (the_aggregator() && !w->retried)
			w->shift_ns = session_time_in_use();
		w->last_ns = INT64_MAX;
		return sim.now_ns + ASK_AGAIN_NS;
	}
	end_ns = w->snapshot_ns;
	if (!end_ns)
		end_ns = session_to_true_ns(w, json_get_int(doc, "t0_ns") + duration_ns);
	w->last_ns = end_ns + EXTENSION * own_grace_ns + SLACK_NS;
	end_ns += own_grace_ns + SLACK_NS;
	if (end_ns > sim.now_ns + ASK_MOST_NS)
		return sim.now_ns + ASK_MOST_NS;
	return end_ns > sim.now_ns ? end_ns : sim.now_ns + ASK_AGAIN_NS;
}

static void ask_when_due(struct request *w, const json_t *doc)
{
	sim_at(&w->ask, learn_window(w, doc), ask, w);
	if (w->undisturbed && flaky_store_is_whole(CALLS_OVER_NS) && sim.now_ns > w->last_ns)
		sim_fail("session %s is still %s after its last deadline", w->session,
			 json_get_text(doc, "state"));
}

static void on_capture(void *arg, int status, const char *body, size_t len)
{
	struct request *w = arg;
	json_t *doc = status == 200 ? json_loadb(body, len, 0, NULL) : NULL;
	const char *state = doc ? json_get_text(doc, "state") : "";

	if (w->over) {
		/* it was seen to end meanwhile */
	} else if (status == 404) {
		get(w, "sessions", on_session);
	} else if (!strcmp(state, "committed") || !strcmp(state, "failed")) {
		if (!strcmp(state, "failed") && !*json_get_text(doc, "error"))
			sim_fail("session %s failed without a reason", w->session);
		is_over(w, !strcmp(state, "committed"));
	} else if (doc) {
		ask_when_due(w, doc);
	} else {
		ask_later(w);
	}
	json_decref(doc);
}

static void ask(void *arg)
{
	get(arg, "captures", on_capture);
}

/* ---- the ends, once more ---- */

static void on_end_session(void *arg, int status, const char *body, size_t len)
{
	struct request *w = arg;

	(void)body;
	(void)len;
	w->end_known = status == 200 || (status == 404 && w->removal);
}

static void on_end(void *arg, int status, const char *body, size_t len)
{
	struct request *w = arg;
	json_t *doc = status == 200 ? json_loadb(body, len, 0, NULL) : NULL;
	const char *state = doc ? json_get_text(doc, "state") : "";

	if (status == 404)
		get(w, "sessions", on_end_session);
	else
		w->end_known = !strcmp(state, "committed") || !strcmp(state, "failed");
	json_decref(doc);
}

void user_ask_ends(void)
{
	struct request *w;

	TAILQ_FOREACH (w, &requests, entry)
		get(w, "captures", on_end);
}

void user_check_ends(void)
{
	struct request *w;

	TAILQ_FOREACH (w, &requests, entry) {
		if (!w->end_known)
			sim_fail("session %s: its end cannot be asked for", w->session);
	}
}

/* ---- captures ---- */

static struct request *find(const char *session)
{
	struct request *w;

	TAILQ_FOREACH (w, &requests, entry) {
		if (!strcmp(w->session, session))
			return w;
	}
	return NULL;
}

const struct request *user_find(const char *session)
{
	return find(session);
}

struct request *user_accepted(const json_t *doc)
{
	struct request *w = find(json_get_text(doc, "session"));

	if (w) /* a shared capture */
		return w;
	w = xcalloc(1, sizeof(*w));
	snprintf(w->session, sizeof(w->session), "%s", json_get_text(doc, "session"));
	w->n_hosts = json_array_size(json_object_get(doc, "hosts"));
	w->by_step = json_object_get(doc, "at_step");
	w->snapshot_ns = json_is_true(json_object_get(doc, "snapshot")) ? sim.now_ns : 0;
	w->shift_ns = session_time_in_use();
	w->kept = json_object();
	w->accepted_ns = sim.now_ns;
	w->undisturbed = !daemon_is_busy(sim.hosts[0]) && flaky_store_is_whole(0);
	check_counts.by_step += w->by_step;
	check_counts.queued += !w->by_step && !strcmp(json_get_text(doc, "state"), "queued");
	TAILQ_INSERT_TAIL(&requests, w, entry);
	sim_at(&w->ask, learn_window(w, doc), ask, w);
	sim_note("session %s accepted: %zu hosts, %" PRId64 " ns, %s", w->session, w->n_hosts,
		 w->longest_ns, json_get_text(doc, "state"));
	return w;
}

/* Two callers share a capture only if it is what both of them asked for. */
static void check_settings(struct request *w, json_t *settings)
{
	if (!w->has_settings)
		w->settings = json_incref(settings);
	else if (!check_same_settings(w->settings, settings))
		sim_fail("session %s answers a request with other settings", w->session);
	w->has_settings = true;
}

static void take_accepted(const struct asked *asked, const char *body, size_t len)
{
	json_t *doc = json_loadb(body, len, 0, NULL);
	struct request *w = user_accepted(doc);

	w->must_complete |= asked->must_complete;
	check_settings(w, asked->settings);
	if (asked->accepted)
		asked->accepted(w);
	if (!w->over && !strcmp(json_get_text(doc, "state"), "failed"))
		is_over(w, false);
	else if (!w->must_complete)
		end_at_once(w);
	json_decref(doc);
}

static void on_accepted(void *arg, int status, const char *body, size_t len)
{
	struct asked *asked = arg;

	if (status == 202) {
		take_accepted(asked, body, len);
	} else {
		sim_note("capture: status %d %.*s", status, (int)len, body);
		if (asked->must_complete)
			sim_fail("a healthy fleet refuses a capture: %d %.*s", status, (int)len,
				 body);
	}
	json_decref(asked->settings);
	free(asked);
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

/* Without "tracers" it needs the profilers, and waits for those of other captures. */
static json_t *make_body(void)
{
	char hosts[512];
	json_t *body = json_object();

	pick_hosts(hosts, sizeof(hosts));
	json_put_text(body, "hosts", hosts);
	json_put_int(body, "duration_ns", rng_scale(&sim.rng, NS_PER_MS, 4 * NS_PER_S));
	if (rng_chance(&sim.rng, 0.5))
		json_put(body, "tracers", json_pack("[s]", "sim"));
	else if (rng_chance(&sim.rng, 0.3))
		json_put_int(body, "wait_ns",
			     rng_chance(&sim.rng, 0.5)
				     ? 0
				     : rng_scale(&sim.rng, NS_PER_S, 60 * NS_PER_S));
	return body;
}

/* The next step, one that comes soon, or by chance one that has passed. */
static void put_step(json_t *body)
{
	if (rng_chance(&sim.rng, 0.6))
		json_put_text(body, "at_step", "next");
	else
		json_put_int(body, "at_step", job_step_now() + rng_range(&sim.rng, -1, 20));
	if (rng_chance(&sim.rng, 0.7))
		json_put_int(body, "steps", rng_range(&sim.rng, 1, 5));
}

static void post_capture(json_t *body_taken, const struct asked *what)
{
	struct asked *asked = xmalloc(sizeof(*asked));
	char *text = json_dumps(body_taken, 0);

	*asked = *what;
	asked->settings = json_incref(json_object_get(body_taken, "settings"));
	http_ask("POST", "/api/v1/captures", text, on_accepted, asked);
	free(text);
	json_decref(body_taken);
}

void user_post(json_t *body_taken, void (*accepted)(struct request *w))
{
	post_capture(body_taken, &(struct asked){ .accepted = accepted });
}

void user_capture(void)
{
	user_post(make_body(), NULL);
}

void user_capture_steps(void)
{
	json_t *body = make_body();

	put_step(body);
	user_post(body, NULL);
}

static void post_all(int64_t duration_ns, bool must_complete)
{
	json_t *body = json_object();

	json_put_int(body, "duration_ns", duration_ns);
	post_capture(body, &(struct asked){ .must_complete = must_complete });
}

void user_capture_all(int64_t duration_ns)
{
	post_all(duration_ns, false);
}

void user_capture_whole(void)
{
	post_all(rng_scale(&sim.rng, NS_PER_MS, 4 * NS_PER_S), true);
}

/* ---- about one of them ---- */

static struct request *pick(bool over)
{
	struct request *w, *found = NULL;
	int64_t n = 0;

	TAILQ_FOREACH (w, &requests, entry) {
		if (w->over == over && (!over || w->committed) && !w->cancel && !w->removal &&
		    rng_range(&sim.rng, 0, n++) == 0)
			found = w;
	}
	return found;
}

static void send_verb(const char *method, struct request *w, const char *kind, const char *verb,
		      sim_answer_fn fn)
{
	char path[128];

	snprintf(path, sizeof(path), "/api/v1/%s/%s%s", kind, w->session, verb);
	http_ask(method, path, NULL, fn, w);
}

/* A stop that finds the capture queued cancels it. */
static void on_stopped(void *arg, int status, const char *body, size_t len)
{
	struct request *w = arg;
	json_t *doc = status == 202 ? json_loadb(body, len, 0, NULL) : NULL;

	sim_note("stop %s: status %d", w->session, status);
	if (doc && json_is_true(json_object_get(doc, "cancelled"))) {
		w->cancel = PROMISE_KEPT;
	} else if (doc) {
		w->stop = PROMISE_KEPT;
		w->stopped_duration_ns = json_get_int(doc, "duration_ns");
	}
	json_decref(doc);
}

static void ask_stop(struct request *w)
{
	if (!w->stop)
		w->stop = PROMISE_ASKED;
	w->n_stops++;
	send_verb("POST", w, "captures", "/stop", on_stopped);
}

void user_stop(void)
{
	struct request *w = pick(false);

	if (w)
		ask_stop(w);
}

static bool any_host_is_away(void)
{
	for (size_t i = 1; i < sim.n_hosts; i++) {
		const struct sim_host *h = sim.hosts[i];

		if (!h->alive || h->asleep || h->paused_until_ns > sim.now_ns ||
		    h->cut_until_ns > sim.now_ns)
			return true;
	}
	return false;
}

static void on_cancelled(void *arg, int status, const char *body, size_t len)
{
	struct request *w = arg;

	(void)body;
	(void)len;
	sim_note("cancel %s: status %d", w->session, status);
	if (status != 202)
		return;
	w->cancel = PROMISE_KEPT;
	check_counts.cancelled_away += any_host_is_away();
}

static void ask_cancel(struct request *w)
{
	w->cancel = PROMISE_ASKED;
	send_verb("DELETE", w, "captures", "", on_cancelled);
}

/* By turns a stop comes with it: two changes of a ledger at once. */
void user_cancel(void)
{
	struct request *w = pick(false);

	if (!w)
		return;
	if (n_cancels++ % 2)
		ask_stop(w);
	ask_cancel(w);
}

static void on_end_at_once(void *arg)
{
	struct request *w = arg;

	if (w->over || w->cancel)
		return;
	ask_stop(w);
	ask_cancel(w);
	check_counts.ended_at_once++;
}

static void end_at_once(struct request *w)
{
	if (at_once.part > 0 && rng_chance(&sim.rng, at_once.part))
		sim_at(&w->end, sim.now_ns + rng_range(&sim.rng, 0, at_once.within_ns),
		       on_end_at_once, w);
}

void user_end_at_once(double part, int64_t within_ns)
{
	at_once.part = part;
	at_once.within_ns = within_ns;
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
	ask_later(w);
}

/* The answer may be lost, and the retry carried on by the next aggregator all the same. */
static void retry(struct request *w)
{
	/* After two retries on two session clocks it would be unknown which host is on which. */
	if (!the_aggregator() || (w->retry_shift_ns && w->retry_shift_ns != session_time_in_use()))
		return;
	w->retry_shift_ns = session_time_in_use();
	w->retried = true;
	send_verb("POST", w, "sessions", "/retry", on_retried);
}

void user_retry(void)
{
	struct request *w = pick(true);

	if (w)
		retry(w);
}

static void on_again(void *arg)
{
	struct request *w = arg;

	if (w->over && !w->cancel && !w->removal)
		retry(w);
}

static void retry_later(struct request *w)
{
	w->retries_left--;
	sim_at(&w->again, sim.now_ns + RETRY_AFTER_NS, on_again, w);
}

void user_retry_when_over(struct request *w, unsigned int times)
{
	w->retries_left = times;
	if (w->over && w->committed && times)
		retry_later(w);
}

static void on_removed(void *arg, int status, const char *body, size_t len)
{
	struct request *w = arg;

	(void)body;
	(void)len;
	sim_note("delete %s: status %d", w->session, status);
	if (status == 200)
		w->removal = PROMISE_KEPT;
}

void user_delete(void)
{
	struct request *w = pick(true);

	if (!w)
		return;
	w->removal = PROMISE_ASKED;
	send_verb("DELETE", w, "sessions", "", on_removed);
}

static void on_look(void *arg, int status, const char *body, size_t len)
{
	const char *path = arg;
	bool stopping = daemon_is_busy(sim.hosts[0]);
	bool needs_store = !strcmp(path, "/api/v1/sessions");

	if (status && status != 200 && !(status == 503 && stopping) &&
	    !(status >= 500 && needs_store && !flaky_store_is_whole(STORE_PATIENCE_NS)))
		sim_fail("GET %s is answered %d %.*s", path, status, (int)len, body);
}

void user_browse(void)
{
	static const char *const paths[] = { "/api/v1/hosts",	 "/api/v1/captures",
					     "/api/v1/sessions", "/metrics",
					     "/healthz",	 "/api/v1/events" };
	/* A page that stays and receives every change; not with a thousand hosts. */
	int64_t n = sim.n_hosts > LARGE_FLEET ? ARRAY_SIZE(paths) - 1 : ARRAY_SIZE(paths);

	const char *path = paths[rng_range(&sim.rng, 0, n - 1)];

	http_ask("GET", path, NULL, on_look, (void *)path);
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

bool user_has_unanswered_removals(void)
{
	struct request *w;

	TAILQ_FOREACH (w, &requests, entry) {
		if (w->removal == PROMISE_ASKED)
			return true;
	}
	return false;
}

const struct requests *user_requests(void)
{
	return &requests;
}

bool user_is_calm(void)
{
	return is_calm;
}

/* ---- life ---- */

void user_new(int64_t grace, bool calm)
{
	TAILQ_INIT(&requests);
	grace_ns = grace;
	is_calm = calm;
	n_cancels = 0;
	user_end_at_once(0, 0);
}

void user_free(void)
{
	struct request *w;

	while ((w = TAILQ_FIRST(&requests))) {
		TAILQ_REMOVE(&requests, w, entry);
		sim_cancel(&w->ask);
		sim_cancel(&w->end);
		sim_cancel(&w->again);
		json_decref(w->settings);
		json_decref(w->kept);
		free(w);
	}
}
