/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/capture/assemble_curve.h"

#include <stdlib.h>

#include "base/mem.h"

#define PIECES	     256 /* first pieces of the window; they are halved where the curve bends */
#define TOLERANCE_NS 1
#define KNOTS_MAX    65536 /* limits memory for a clock that bends everywhere */

/* Saturates. */
static int64_t since_t0(const struct curve_scale *s, int64_t ns)
{
	int64_t raw = s->real ? clock_model_raw_of_real(s->model, ns) : ns;
	int64_t out;

	if (__builtin_sub_overflow(clock_model_session_of_raw(s->model, raw), s->t0_ns, &out))
		return INT64_MIN;
	return out;
}

/* The window in times of the host's clock. */
static void host_window(const struct curve_scale *s, int64_t t1_ns, int64_t *from, int64_t *to)
{
	*from = clock_model_raw_of_session(s->model, s->t0_ns);
	*to = clock_model_raw_of_session(s->model, t1_ns);
	if (!s->real)
		return;
	*from = clock_model_real_of_raw(s->model, *from);
	*to = clock_model_real_of_raw(s->model, *to);
}

/* Tracers gather more than the window, so a line may begin seconds before it, where the clock's translation
 * may differ. This uses the translation at the nearest instant of the window. */
int64_t curve_line_since_t0(const struct curve_scale *s, int64_t t1_ns, int64_t ns)
{
	int64_t from, to, near, far, out;

	host_window(s, t1_ns, &from, &to);
	near = ns < from ? from : ns > to ? to : ns;
	if (__builtin_sub_overflow(ns, near, &far) ||
	    __builtin_add_overflow(since_t0(s, near), far, &out))
		return INT64_MIN;
	return out;
}

static int64_t max_ns(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* `from_t0_ns` is the time of `from` since T0. */
static int64_t deviation_ns(const struct curve_scale *s, int64_t from, int64_t from_t0_ns,
			    int64_t distance_ns)
{
	int64_t at;

	if (__builtin_add_overflow(from, distance_ns, &at))
		return 0;
	return llabs(since_t0(s, at) - from_t0_ns - distance_ns);
}

/* If the host slept at the window's end, `to` is the last instant before the sleep. One more point beyond `to` is
 * examined, so that the error over the sleep counts. */
int64_t curve_line_error_ns(const struct curve_scale *s, int64_t t1_ns)
{
	int64_t from, to, from_t0_ns, piece, worst = 0;

	host_window(s, t1_ns, &from, &to);
	from_t0_ns = since_t0(s, from);
	piece = to / PIECES - from / PIECES;
	for (int i = 1; i <= PIECES; i++)
		worst = max_ns(worst, deviation_ns(s, from, from_t0_ns, piece * i));
	return max_ns(worst, deviation_ns(s, from, from_t0_ns, (piece + 2) * PIECES));
}

struct knots {
	const struct curve_scale *scale;
	struct xs_knot *all;
	size_t n, cap;
	size_t seen; /* index of the next knot of the model */
};

/* Times on the session clock must not decrease. Where they would, because the wall clock was set back, the time of
 * the last knot is repeated. */
static void add_knot(struct knots *k, struct xs_knot knot)
{
	if (k->n && knot.to_ns < k->all[k->n - 1].to_ns)
		knot.to_ns = k->all[k->n - 1].to_ns;
	if (k->n == k->cap) {
		k->cap = k->cap ? 2 * k->cap : 2 * PIECES;
		k->all = xrealloc(k->all, k->cap * sizeof(*k->all));
	}
	k->all[k->n++] = knot;
}

static struct xs_knot make_knot(const struct knots *k, int64_t ns)
{
	return (struct xs_knot){ ns, since_t0(k->scale, ns) };
}

/* Adds knots between a and b. a is added already; b is not, and is not added here. */
static void add_between(struct knots *k, struct xs_knot a, struct xs_knot b)
{
	struct xs_knot middle;

	if (b.from_ns - a.from_ns < 2 || k->n > KNOTS_MAX)
		return;
	middle = make_knot(k, a.from_ns + (b.from_ns - a.from_ns) / 2);
	if (llabs(middle.to_ns - a.to_ns - (b.to_ns - a.to_ns) / 2) <= TOLERANCE_NS)
		return;
	add_between(k, a, middle);
	add_knot(k, middle);
	add_between(k, middle, b);
}

static int64_t time_of_model_knot(const struct curve_scale *s, size_t i)
{
	int64_t raw = clock_model_knot_raw_ns(s->model, i);

	return s->real ? clock_model_real_of_raw(s->model, raw) : raw;
}

/* Adds knots from the last one to `next`. The model bends only at its own knots, so between two of them only
 * bends of the ledger have to be searched, by halving. */
static void add_piece(struct knots *k, struct xs_knot last, struct xs_knot next)
{
	const struct clock_model *m = k->scale->model;

	for (; k->seen < m->n_knots; k->seen++) {
		int64_t at = time_of_model_knot(k->scale, k->seen);
		struct xs_knot middle;

		if (at >= next.from_ns)
			break;
		if (at <= last.from_ns)
			continue;
		middle = make_knot(k, at);
		add_between(k, last, middle);
		add_knot(k, middle);
		last = middle;
	}
	add_between(k, last, next);
	add_knot(k, next);
}

struct xs_knot *curve_knots(const struct curve_scale *s, int64_t t1_ns, size_t *n)
{
	struct knots k = { .scale = s };
	struct xs_knot last, next;
	int64_t from, to, step;

	host_window(s, t1_ns, &from, &to);
	step = 3 * ((to - from) / PIECES + 1);
	last = make_knot(&k, from - (to - from));
	add_knot(&k, last);
	for (int i = 1; i <= PIECES; i++) {
		next = make_knot(&k, last.from_ns + step);
		add_piece(&k, last, next);
		last = next;
	}
	*n = k.n;
	return k.all;
}

/* Limits the knot's time since T0: below 0 before from_ns, in [0, window_ns) before to_ns, at least window_ns from
 * there on. */
static struct xs_knot clamp_to_edges(struct xs_knot k, int64_t window_ns, int64_t from_ns,
				     int64_t to_ns)
{
	int64_t least = k.from_ns < from_ns ? INT64_MIN : k.from_ns < to_ns ? 0 : window_ns;
	int64_t most = k.from_ns < from_ns ? -1 : k.from_ns < to_ns ? window_ns - 1 : INT64_MAX;

	k.to_ns = k.to_ns < least ? least : k.to_ns > most ? most : k.to_ns;
	return k;
}

struct xs_knot *curve_cut_at_edges(const struct curve_scale *s, int64_t window_ns, int64_t from_ns,
				   int64_t to_ns, struct xs_knot *knots, size_t *n)
{
	const int64_t edges[] = { from_ns - 1, from_ns, to_ns - 1, to_ns };
	struct xs_knot *out = xcalloc(*n + ARRAY_SIZE(edges), sizeof(*out));
	size_t used = 0, edge = 0;

	for (size_t i = 0; i <= *n; i++) {
		for (; edge < ARRAY_SIZE(edges) && (i == *n || edges[edge] <= knots[i].from_ns);
		     edge++) {
			struct xs_knot k = { edges[edge], since_t0(s, edges[edge]) };

			if (!used || out[used - 1].from_ns < k.from_ns)
				out[used++] = clamp_to_edges(k, window_ns, from_ns, to_ns);
		}
		if (i < *n && (!used || out[used - 1].from_ns < knots[i].from_ns))
			out[used++] = clamp_to_edges(knots[i], window_ns, from_ns, to_ns);
	}
	free(knots);
	*n = used;
	return out;
}
