/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/curve.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"

#define PS_PER_NS 1000
/* ns, 104 days: the largest distance of two knots; products stay within 128 bits */
#define PIECE_MAX   (INT64_C(1) << 53)
#define SLOPE_LIMIT ((ps_wide)1 << 62)

static int check_piece(const struct xs_knot *a, const struct xs_knot *b, struct err *e)
{
	ps_wide from = (ps_wide)b->from_ns - a->from_ns, to = (ps_wide)b->to_ns - a->to_ns;

	if (from <= 0 || to < 0 || from > PIECE_MAX || to > PIECE_MAX)
		return err_set(e, ERR_INVALID,
			       "knots at %" PRId64 " and %" PRId64
			       " ns: not in ascending order, or 104 days apart",
			       a->from_ns, b->from_ns);
	return 0;
}

/* Rounded down, so that no piece ends above the next knot. */
static struct curve_slope slope_of(const struct xs_knot *a, const struct xs_knot *b)
{
	ps_wide from = (ps_wide)b->from_ns - a->from_ns;
	ps_wide gain = (ps_wide)b->to_ns - a->to_ns - from;
	unsigned int shift = 62;
	ps_wide scaled, slope;

	while (shift && (gain < 0 ? -gain : gain) >= (from << 62 >> shift))
		shift--;
	scaled = gain * ((ps_wide)1 << shift);
	slope = scaled / from;
	if (slope * from > scaled)
		slope--;
	return (struct curve_slope){ (int64_t)slope, shift };
}

int curve_init(struct curve *c, const struct xs_knot *knots, size_t n, struct err *e)
{
	int rc = 0;

	*c = (struct curve){ .knots = knots, .n = n };
	c->slopes = xcalloc(n ? n : 1, sizeof(*c->slopes));
	for (size_t i = 0; i + 1 < n && !rc; i++) {
		rc = check_piece(&knots[i], &knots[i + 1], e);
		if (!rc)
			c->slopes[i] = slope_of(&knots[i], &knots[i + 1]);
	}
	return rc;
}

void curve_release(struct curve *c)
{
	free(c->slopes);
	*c = (struct curve){ 0 };
}

static ps_wide ps(int64_t ns)
{
	return (ps_wide)ns * PS_PER_NS;
}

static bool is_in(const struct curve *c, size_t i, ps_wide at)
{
	return at >= ps(c->knots[i].from_ns) && at < ps(c->knots[i + 1].from_ns);
}

/* The piece that contains `at`, which is between the first knot and the last. */
static size_t find_piece(struct curve *c, ps_wide at)
{
	size_t low = 0, high = c->n - 1;

	if (is_in(c, c->last, at))
		return c->last;
	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;

		if (ps(c->knots[mid].from_ns) <= at)
			low = mid;
		else
			high = mid;
	}
	c->last = low;
	return low;
}

ps_wide curve_at(struct curve *c, ps_wide at)
{
	const struct xs_knot *first = &c->knots[0], *last = &c->knots[c->n - 1];
	const struct xs_knot *k;
	const struct curve_slope *s;
	size_t i;
	ps_wide far;

	if (at <= ps(first->from_ns))
		return ps(first->to_ns) + (at - ps(first->from_ns));
	if (at >= ps(last->from_ns))
		return ps(last->to_ns) + (at - ps(last->from_ns));
	i = find_piece(c, at);
	k = &c->knots[i];
	s = &c->slopes[i];
	far = at - ps(k->from_ns);
	return ps(k->to_ns) + far + (far * s->slope >> s->shift);
}
