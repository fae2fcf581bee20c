/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/snapshots.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "aggregator/aggregator.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "tests/sim/burst.h"
#include "tests/sim/check.h"
#include "tests/sim/daemon.h"
#include "tests/sim/session_time.h"
#include "tests/sim/user.h"

#define AGAIN_NS      NS_PER_S
#define AFTER_NS      (20 * NS_PER_MS) /* a window is asked for this long after its end */
#define OLDEST_NS     (150 * NS_PER_S)
#define LONGEST_NS    (30 * NS_PER_S)
#define WINDOWS_MAX   30 /* of a series */
#define WINDOWS_LARGE 8 /* in a large fleet */

/* A host's part in a window: bursts first_k to last_k. */
struct cut {
	bool known;
	int64_t first_k, last_k;
};

/* A window of a series, which the aggregator has accepted. */
struct window {
	char session[64];
	unsigned int series;
	int64_t t0_ns, t1_ns;
	struct cut *cuts; /* of each host */
	TAILQ_ENTRY(window) entry;
};

static struct {
	unsigned int series; /* the number of the last one */
	bool running;
	int left;
	int64_t every_ns, t1_ns; /* of the window that is due; session clock */
	int64_t shift_ns; /* of the session clock */
	struct sim_event due;
	TAILQ_HEAD(, window) windows;
} the;

static int64_t session_now_ns(void)
{
	return session_time_ns(session_time_in_use(), sim.now_ns);
}

static void post(json_t *body_taken, sim_answer_fn fn, void *arg)
{
	char *text = json_dumps(body_taken, 0);

	http_ask("POST", "/api/v1/snapshots", text, fn, arg);
	free(text);
	json_decref(body_taken);
}

/* ---- one window ---- */

/* True time. */
struct asked {
	int64_t t1_ns;
};

static bool is_connected(const struct sim_host *h)
{
	const struct host *host = the_aggregator()
					  ? registry_find(the_aggregator()->registry, h->name)
					  : NULL;

	return h->alive && host && host->control;
}

/* Refused is a window that no ring has: all of them begin after its end. */
static void check_refusal(const struct asked *a, const char *body, size_t len)
{
	if (!memmem(body, len, "before all rings begin", 22)) {
		sim_fail("a snapshot is refused: %.*s", (int)len, body);
		return;
	}
	for (size_t i = 1; i < sim.n_hosts; i++) {
		if (is_connected(sim.hosts[i]) &&
		    sim_ring_begin_ns(sim.hosts[i]) < a->t1_ns - NS_PER_S)
			sim_fail("a snapshot that ends at %" PRId64
				 " is refused, and host %s has it: %.*s",
				 a->t1_ns, sim.hosts[i]->name, (int)len, body);
	}
}

static void on_taken(void *arg, int status, const char *body, size_t len)
{
	struct asked *a = arg;
	json_t *doc = status == 202 ? json_loadb(body, len, 0, NULL) : NULL;

	sim_note("snapshot: status %d", status);
	if (doc)
		user_accepted(doc);
	else if (status == 400)
		check_refusal(a, body, len);
	json_decref(doc);
	free(a);
}

void snapshot_take(void)
{
	int64_t age_ns = rng_scale(&sim.rng, NS_PER_MS, OLDEST_NS);
	struct asked *a = xcalloc(1, sizeof(*a));
	json_t *body = json_object();

	json_put_int(body, "last_ns", rng_scale(&sim.rng, 10 * NS_PER_MS, LONGEST_NS));
	if (the_aggregator() && rng_chance(&sim.rng, 0.5))
		json_put_int(body, "ending_at_ns", session_now_ns() - age_ns);
	else
		json_put_int(body, "ago_ns", age_ns);
	if (rng_chance(&sim.rng, 0.3))
		json_put(body, "tracers", json_pack("[s]", "sim"));
	a->t1_ns = sim.now_ns - age_ns;
	post(body, on_taken, a);
}

/* ---- a series ---- */

static void ask(void *arg);

static void ask_again(int64_t in_ns)
{
	sim_at(&the.due, sim.now_ns + in_ns, ask, NULL);
}

static void end_series(const char *why)
{
	sim_note("series %u ends: %s", the.series, why);
	the.running = false;
}

/* The next window follows, as soon as it is over. */
static void follow(int64_t t1_ns)
{
	int64_t wait_ns;

	the.t1_ns = t1_ns + the.every_ns;
	wait_ns = the_aggregator() ? the.t1_ns - session_now_ns() + AFTER_NS : the.every_ns;
	if (--the.left > 0)
		ask_again(wait_ns > 0 ? wait_ns : 0);
	else
		end_series("it is long enough");
}

static void add_window(const json_t *doc)
{
	struct window *w = xcalloc(1, sizeof(*w));

	user_accepted(doc);
	snprintf(w->session, sizeof(w->session), "%s", json_get_text(doc, "session"));
	w->series = the.series;
	w->t0_ns = json_get_int(doc, "t0_ns");
	w->t1_ns = w->t0_ns + json_get_int(doc, "duration_ns");
	w->cuts = xcalloc(sim.n_hosts, sizeof(*w->cuts));
	TAILQ_INSERT_TAIL(&the.windows, w, entry);
	if (w->t1_ns != the.t1_ns || w->t0_ns != the.t1_ns - the.every_ns)
		sim_fail("session %s: the window is not the one that was asked for", w->session);
	follow(w->t1_ns);
}

static void on_answer(void *arg, int status, const char *body, size_t len)
{
	json_t *doc = status == 202 ? json_loadb(body, len, 0, NULL) : NULL;

	(void)arg;
	sim_note("series %u: status %d", the.series, status);
	if (!the.running) {
		if (doc)
			user_accepted(doc);
	} else if (doc) {
		add_window(doc);
	} else if (status == 400 && !memmem(body, len, "is of the past", 14)) {
		end_series("its window is gone");
	} else {
		ask_again(status == 400 ? AFTER_NS : AGAIN_NS);
	}
	json_decref(doc);
}

static void ask(void *arg)
{
	json_t *body;

	(void)arg;
	if (!the.running)
		return;
	if (!the_aggregator() || session_time_in_use() != the.shift_ns) {
		end_series("the aggregator is away, or its session clock is another one");
		return;
	}
	body = json_object();
	json_put_int(body, "last_ns", the.every_ns);
	json_put_int(body, "ending_at_ns", the.t1_ns);
	json_put(body, "tracers", json_pack("[s]", "sim"));
	post(body, on_answer, NULL);
}

void snapshot_series(void)
{
	if (the.running || !the_aggregator() || daemon_is_busy(sim.hosts[0]))
		return;
	the.running = true;
	the.series++;
	the.left = (int)rng_range(&sim.rng, 2,
				  sim.n_hosts > LARGE_FLEET ? WINDOWS_LARGE : WINDOWS_MAX);
	the.every_ns = rng_scale(&sim.rng, 100 * NS_PER_MS, 5 * NS_PER_S);
	the.shift_ns = session_time_in_use();
	the.t1_ns = session_now_ns();
	ask_again(AFTER_NS);
}

void snapshots_stop(void)
{
	sim_cancel(&the.due);
	if (the.running)
		end_series("all ends");
}

/* ---- checks ---- */

static size_t host_index(const char *name)
{
	size_t i = 0;

	while (i < sim.n_hosts && strcmp(sim.hosts[i]->name, name))
		i++;
	return i;
}

void snapshots_add_file(const char *session, const char *host, int64_t first_k, int64_t last_k)
{
	size_t i = host_index(host);
	struct window *w;

	TAILQ_FOREACH (w, &the.windows, entry) {
		if (i < sim.n_hosts && !strcmp(w->session, session))
			w->cuts[i] = (struct cut){ true, first_k, last_k };
	}
}

static void check_edge(const struct window *a, const struct window *b, size_t i)
{
	const struct cut *before = &a->cuts[i], *after = &b->cuts[i];
	int64_t next = before->last_k + 1;

	if (!before->known || !after->known)
		return;
	while (host_is_asleep(sim.hosts[i], burst_ns(next)))
		next++;
	check_counts.edges++;
	if (after->first_k != next)
		sim_fail("series %u host %s: %s ends with burst %" PRId64
			 ", %s begins with %" PRId64,
			 a->series, sim.hosts[i]->name, a->session, before->last_k, b->session,
			 after->first_k);
}

void snapshots_check(void)
{
	struct window *a, *b;

	TAILQ_FOREACH (a, &the.windows, entry) {
		TAILQ_FOREACH (b, &the.windows, entry) {
			for (size_t i = 1;
			     a->series == b->series && a->t1_ns == b->t0_ns && i < sim.n_hosts; i++)
				check_edge(a, b, i);
		}
	}
}

/* ---- life ---- */

void snapshots_new(void)
{
	memset(&the, 0, sizeof(the));
	TAILQ_INIT(&the.windows);
}

void snapshots_free(void)
{
	struct window *w;

	sim_cancel(&the.due);
	while ((w = TAILQ_FIRST(&the.windows))) {
		TAILQ_REMOVE(&the.windows, w, entry);
		free(w->cuts);
		free(w);
	}
}
