/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/annotations/ticks.h"

#include "agent/tracer/annotations/note.h"
#include "base/now.h"

#define TRIES	  5
#define RATE_BEND 1000 /* ppm: if the rate changes by more, a new line begins, as after a suspend */

#if defined(__x86_64__)
#define MACHINE_CLOCK TUTTI_CLOCK_TSC
static uint64_t read_ticks(void)
{
	return __builtin_ia32_rdtsc();
}
#elif defined(__aarch64__)
#define MACHINE_CLOCK TUTTI_CLOCK_CNTVCT
static uint64_t read_ticks(void)
{
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
}
#else
#define MACHINE_CLOCK TUTTI_CLOCK_RAW
static uint64_t read_ticks(void)
{
	return (uint64_t)now_raw_ns();
}
#endif

bool ticks_is_known(uint32_t clock)
{
	return clock == TUTTI_CLOCK_RAW || clock == MACHINE_CLOCK;
}

/* The narrowest of a few. */
void ticks_map_read(struct ticks_map *m)
{
	struct ticks_reading best = { 0 };
	int64_t best_ns = INT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		int64_t before = now_raw_ns();
		uint64_t ticks = read_ticks();
		int64_t width_ns = now_raw_ns() - before;

		if (width_ns < best_ns) {
			best_ns = width_ns;
			best = (struct ticks_reading){ ticks, before + width_ns / 2 };
		}
	}
	ticks_map_add(m, best);
}

/* Translates by the line through a and b. */
static int64_t on_line(const struct ticks_reading *a, const struct ticks_reading *b,
		       const struct ticks_reading *from, uint64_t ticks)
{
	__int128 span = (__int128)b->ticks - a->ticks;
	__int128 raw = from->raw_ns;

	if (span > 0)
		raw += ((__int128)ticks - from->ticks) * (b->raw_ns - a->raw_ns) / span;
	return raw > 0 && raw < INT64_MAX / 4 ? (int64_t)raw : 0;
}

/* Whether the last two readings lie on the line through the first. */
static bool is_straight(const struct ticks_map *m)
{
	int64_t due_ns = on_line(&m->first, &m->before, &m->before, m->last.ticks) -
			 m->before.raw_ns;
	int64_t took_ns = m->last.raw_ns - m->before.raw_ns;
	int64_t off_ns = due_ns > took_ns ? due_ns - took_ns : took_ns - due_ns;

	return off_ns <= took_ns / 1000000 * RATE_BEND + 100 * NS_PER_US;
}

void ticks_map_add(struct ticks_map *m, struct ticks_reading r)
{
	if (!m->last.raw_ns) {
		m->first = m->before = m->last = r;
		return;
	}
	if (r.ticks <= m->last.ticks || r.raw_ns <= m->last.raw_ns)
		return;
	m->before = m->last;
	m->last = r;
	if (m->before.ticks > m->first.ticks && !is_straight(m))
		m->first = m->before;
}

int64_t ticks_to_raw(const struct ticks_map *m, uint32_t clock, uint64_t ticks)
{
	if (clock == TUTTI_CLOCK_RAW)
		return ticks < INT64_MAX / 4 ? (int64_t)ticks : 0;
	if (clock != MACHINE_CLOCK || !m->last.raw_ns)
		return 0;
	if (ticks >= m->before.ticks && ticks <= m->last.ticks)
		return on_line(&m->before, &m->last, &m->before, ticks);
	return on_line(&m->first, &m->last, ticks < m->before.ticks ? &m->before : &m->last, ticks);
}
