/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/clock_world.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/queue.h"

#define EPOCH_NS     INT64_C(1790000000000000000) /* the session clock at t = 0 */
#define LATE_NS	     (50 * NS_PER_MS)
#define PARETO	     1.5 /* the tail: a finite mean, no variance */
#define PARETO_LEAST (PARETO - 1)

static uint64_t state = 1;

void world_seed(uint64_t seed)
{
	state = seed;
}

/* xorshift64* */
double world_uniform(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return ((double)((state * UINT64_C(2685821657736338717)) >> 12) + 0.5) / 4503599627370496.0;
}

static double exponential(double mean)
{
	return -log(world_uniform()) * mean;
}

/* ---- clocks ---- */

/* How long the host's clock has run: not while it is stopped. */
static int64_t run_of(const struct clock_world *w, int64_t t)
{
	int64_t since = t - w->step_at_ns;

	if (w->step_ns >= 0 || since < 0)
		return t;
	return since < -w->step_ns ? w->step_at_ns : t + w->step_ns;
}

int64_t world_session_ns(int64_t t_ns)
{
	return EPOCH_NS + t_ns;
}

/* How long an event has lasted at t. */
static int64_t past_of(struct clock_event e, int64_t t)
{
	int64_t past = t - e.at_ns;

	if (past < 0)
		return 0;
	return e.for_ns && past > e.for_ns ? e.for_ns : past;
}

static bool is_within(struct clock_event e, int64_t t)
{
	return t >= e.at_ns && (!e.for_ns || t < e.at_ns + e.for_ns);
}

static int64_t whole_ticks(int64_t host_ns, int mhz)
{
	int64_t us = host_ns / 1000;

	return us * 1000 + host_ns % 1000 * mhz / 1000 * 1000 / mhz;
}

/* What now_raw_tick_ns() finds. */
static int64_t tick_of(const struct clock_world *w)
{
	return w->ticks_mhz ? 1000 / w->ticks_mhz + (1000 % w->ticks_mhz != 0) : 0;
}

/* How far the host's clock has jumped ahead. */
static int64_t jump_of(const struct clock_world *w, int64_t t)
{
	int64_t since = t - w->step_at_ns, out = 0;

	if (w->step_ns > 0 && since >= 0)
		out += w->step_ns;
	if (w->step_ns > 0 && w->step_again_ns && since >= w->step_again_ns)
		out += w->step_ns;
	return out;
}

int64_t world_host_ns(const struct clock_world *w, int64_t t_ns)
{
	int64_t run = run_of(w, t_ns);
	double moved = (double)run * w->drift_ppm * 1e-6 +
		       (double)past_of(w->rate_step, run) * w->rate_step_ppm * 1e-6;
	int64_t host_ns;

	if (w->wander_ppm != 0) {
		double turn = 2 * M_PI / (w->wander_s * 1e9);

		moved += w->wander_ppm * 1e-6 / turn *
			 sin(turn * (double)run + 2 * M_PI * w->wander_turn);
	}
	host_ns = EPOCH_NS + run + w->offset_ns + llround(moved) + jump_of(w, t_ns);
	return w->ticks_mhz ? whole_ticks(host_ns, w->ticks_mhz) : host_ns;
}

/* ---- the link ---- */

struct way {
	bool is_back;
	int64_t least_ns;
	int64_t bad_ns, moving_ns; /* more, while the link is worse, and as it changes */
	double bad_jitter_ns;
	int64_t free_ns; /* the last packet arrived then: packets do not pass each other */
	struct queue queue;
};

static double jitter_at(struct way *way, const struct clock_world *w, int64_t t)
{
	double mean = w->jitter_ns;

	if (way->bad_jitter_ns > 0 && is_within(w->bad, t))
		mean += way->bad_jitter_ns;
	switch (w->jitter) {
	case JITTER_QUEUE:
		way->queue.load = w->load;
		return queue_wait(&way->queue, mean, t, world_uniform);
	case JITTER_SPIKES:
		return exponential(world_uniform() < 0.05 ? 50 * mean : mean);
	case JITTER_PARETO:
		return fmin(mean * PARETO_LEAST * (pow(world_uniform(), -1 / PARETO) - 1),
			    (double)NS_PER_S);
	case JITTER_EXP:
		break;
	}
	return exponential(mean);
}

/* Routes that swap: the longer one is there in even periods, back in odd ones. */
static bool has_longer_route(const struct way *way, const struct clock_world *w, int64_t t)
{
	return t / w->swaps_ns % 2 == way->is_back;
}

static int64_t least_at(const struct way *way, const struct clock_world *w, int64_t t)
{
	int64_t out = way->least_ns;

	if (w->swaps_ns)
		out += has_longer_route(way, w, t) ? w->bad_there_ns : 0;
	else if (way->bad_ns && is_within(w->bad, t))
		out += way->bad_ns;
	if (way->moving_ns)
		out += llround((double)way->moving_ns * (double)past_of(w->moving, t) /
			       (double)w->moving.for_ns);
	return out;
}

static int64_t arrival_of(struct way *way, const struct clock_world *w, int64_t t)
{
	int64_t out = t + least_at(way, w, t) + llround(jitter_at(way, w, t));

	if (w->beacon_ns && way->is_back)
		out += w->beacon_ns - out % w->beacon_ns;
	if (world_uniform() < w->late)
		return out + LATE_NS; /* by another path: out of order */
	if (w->reorders)
		return out;
	way->free_ns = out > way->free_ns ? out : way->free_ns;
	return way->free_ns;
}

/* ---- probes ---- */

static void push(struct world_samples *out, int64_t at_ns, struct clock_sample s)
{
	if (out->n == out->cap) {
		out->cap = out->cap ? 2 * out->cap : 1024;
		out->at = xrealloc(out->at, out->cap * sizeof(*out->at));
	}
	out->at[out->n++] = (struct world_sample){ at_ns, s };
}

/* Packets that arrive while the host is frozen are read at its end. */
static int64_t unfrozen(const struct clock_world *w, int64_t t)
{
	return w->frozen.for_ns && is_within(w->frozen, t) ? w->frozen.at_ns + w->frozen.for_ns : t;
}

static bool was_lost;

/* In bursts: a link of two states (Gilbert, Elliott). */
static bool is_lost(const struct clock_world *w)
{
	double share = w->loss;

	if (w->burst > 0)
		share = was_lost ? 1 - 1 / w->burst : w->loss / (1 - w->loss) / w->burst;
	was_lost = world_uniform() < share;
	return was_lost;
}

static void probe(const struct clock_world *w, struct way *there, struct way *back, int64_t t,
		  struct world_samples *out)
{
	int64_t arrives = arrival_of(there, w, t);
	int64_t leaves = arrives + 3000;
	int64_t returns = unfrozen(w, arrival_of(back, w, leaves));
	struct clock_sample s = {
		/* as agent/clock/exchange.c makes samples */
		.t1_ns = world_host_ns(w, t) - tick_of(w),
		.t2_ns = world_session_ns(arrives),
		.t3_ns = world_session_ns(w->late_stamps ? leaves - 2500 : leaves),
		.t4_ns = world_host_ns(w, returns) + tick_of(w),
	};

	if (is_lost(w) || (w->cut.for_ns && (is_within(w->cut, t) || is_within(w->cut, returns))))
		return;
	push(out, returns, s);
	if (world_uniform() < w->twice) {
		struct clock_sample twice = s;

		twice.t4_ns = world_host_ns(w, returns + 100000);
		push(out, returns + 100000, twice);
	}
	if (w->late_stamps) {
		s.t3_ns = world_session_ns(leaves);
		s.no_request = true;
		s.is_update = true;
		push(out, returns + NS_PER_S, s);
	}
}

static int by_arrival(const void *a, const void *b)
{
	const struct world_sample *x = a, *y = b;

	return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

#define AGENT_SPACING_NS (7 * NS_PER_US)

static bool is_stopped(const struct clock_world *w, int64_t t)
{
	return (w->step_ns < 0 && t >= w->step_at_ns && t <= w->step_at_ns - w->step_ns) ||
	       (w->frozen.for_ns && is_within(w->frozen, t));
}

struct ways {
	struct way there, back;
};

static struct ways ways_of(const struct clock_world *w)
{
	return (struct ways){
		.there = { .least_ns = w->there_ns,
			   .bad_ns = w->bad_there_ns,
			   .bad_jitter_ns = w->bad_there_jitter_ns,
			   .moving_ns = w->moving_there_ns },
		.back = { .is_back = true,
			  .least_ns = w->back_ns,
			  .bad_ns = w->bad_back_ns,
			  .bad_jitter_ns = w->bad_back_jitter_ns },
	};
}

static void send_train(const struct clock_world *w, struct ways *ways, int64_t t, int train,
		       int64_t gap_ns, struct world_samples *out)
{
	for (int i = 0; i < train && !is_stopped(w, t); i++)
		probe(w, &ways->there, &ways->back, t + i * gap_ns, out);
}

void world_probe(const struct clock_world *w, int64_t from_ns, int64_t to_ns,
		 struct world_samples *out)
{
	struct ways ways = ways_of(w);

	for (int64_t t = from_ns; t < to_ns; t += w->every_ns)
		send_train(w, &ways, t, w->train, w->gap_ns, out);
	if (out->n)
		qsort(out->at, out->n, sizeof(*out->at), by_arrival);
}

bool world_is_jittery(const struct clock_world *w)
{
	return w->jitter_ns > 20e3;
}

#define STREAM_GAP_NS (500 * NS_PER_MS)
#define END_GAP_NS    (125 * NS_PER_MS)
#define JITTERY_NS \
	(500 * NS_PER_MS) /* so long a window is probed after its end on a jittery link */
#define JITTERY_GAP_NS	   (80 * NS_PER_MS)
#define JITTERY_SPACING_NS (3 * NS_PER_MS)

/* How the agent probes in a window and after it. */
struct schedule {
	int train, after; /* probes in a train; trains after the window */
	int64_t gap_ns, after_gap_ns;
	int64_t spacing_ns; /* between the probes of a train */
};

static int64_t at_least(int64_t v, int64_t least)
{
	return v > least ? v : least;
}

static struct schedule schedule_of(const struct clock_world *w)
{
	bool jitters = world_is_jittery(w);
	int64_t pair_ns = at_least(w->pair_gap_ns, jitters ? JITTERY_GAP_NS : END_GAP_NS);

	if (w->by_stream)
		return (struct schedule){ 1, 1, STREAM_GAP_NS, STREAM_GAP_NS, 0 };
	if (jitters)
		return (struct schedule){ 2, (int)(1 + JITTERY_NS / pair_ns), pair_ns, pair_ns,
					  JITTERY_SPACING_NS };
	return (struct schedule){ w->is_past ? 4 : 2, 2, pair_ns, END_GAP_NS, AGENT_SPACING_NS };
}

/* The schedule of agent/clock/clock.c. */
void world_probe_capture(const struct clock_world *w, int64_t armed_ns, int64_t to_ns,
			 struct world_samples *out)
{
	struct ways ways = ways_of(w);
	struct schedule s = schedule_of(w);
	int64_t t = 0, calm_ns = 2 * NS_PER_S;

	for (int i = 0; i < 8 && t < armed_ns; i++, t += 60 * NS_PER_MS)
		send_train(w, &ways, t, 4, AGENT_SPACING_NS, out);
	for (; t < armed_ns;
	     t += calm_ns, calm_ns = calm_ns < 16 * NS_PER_S ? 2 * calm_ns : calm_ns)
		send_train(w, &ways, t, 4, AGENT_SPACING_NS, out);
	for (t = armed_ns; t < to_ns; t += s.gap_ns)
		send_train(w, &ways, t, t == armed_ns ? 4 : s.train,
			   t == armed_ns ? AGENT_SPACING_NS : s.spacing_ns, out);
	t = to_ns + llround(world_uniform() * 100e6);
	for (int i = 0; i < s.after; i++, t += s.after_gap_ns)
		send_train(w, &ways, t, s.train, s.spacing_ns, out);
	if (out->n)
		qsort(out->at, out->n, sizeof(*out->at), by_arrival);
}

/* ---- the judge ---- */

void world_check(struct world_judge *j, const struct clock_world *w, const struct clock_model *m,
		 int64_t t_ns)
{
	int64_t host = world_host_ns(w, t_ns), error, bound;

	if (is_stopped(w, t_ns))
		return;
	if (!m->calibrated) {
		j->unknown++;
		return;
	}
	error = clock_model_session_of_raw(m, host) - world_session_ns(t_ns);
	bound = clock_model_bound_at(m, host);
	if (j->n == j->cap) {
		j->cap = j->cap ? 2 * j->cap : 4096;
		j->error_ns = xrealloc(j->error_ns, j->cap * sizeof(double));
		j->bound_ns = xrealloc(j->bound_ns, j->cap * sizeof(double));
	}
	j->outside += llabs(error) > bound;
	j->error_ns[j->n] = (double)llabs(error);
	j->bound_ns[j->n++] = (double)bound;
}

void world_judge_free(struct world_judge *j)
{
	free(j->error_ns);
	free(j->bound_ns);
	*j = (struct world_judge){ 0 };
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double world_quantile(double *v, size_t n, double share)
{
	if (!n)
		return 0;
	qsort(v, n, sizeof(*v), by_value);
	return v[(size_t)((double)(n - 1) * share)];
}
