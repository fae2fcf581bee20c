/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop_impl.h"

#include <dlfcn.h>
#include <inttypes.h>

#include "base/log.h"
#include "base/now.h"

const int64_t loop_turn_limits_ns[LOOP_TURN_CLASSES] = {
	NS_PER_MS,	2 * NS_PER_MS,	 5 * NS_PER_MS,	  10 * NS_PER_MS,   20 * NS_PER_MS,
	50 * NS_PER_MS, 100 * NS_PER_MS, 500 * NS_PER_MS, 1000 * NS_PER_MS,
};

void loop_turns_count(struct loop_turns *t, int64_t took_ns, int64_t wall_ns)
{
	size_t i = 0;

	while (i < LOOP_TURN_CLASSES && took_ns > loop_turn_limits_ns[i])
		i++;
	t->n[i]++;
	t->total_ns += took_ns;
	if (took_ns > t->longest_ns)
		t->longest_ns = took_ns;
	if (wall_ns > t->longest_wall_ns)
		t->longest_wall_ns = wall_ns;
}

/* ---- one turn ---- */

void loop_turn_begin(struct loop_turn *t)
{
	*t = (struct loop_turn){ .began_cpu_ns = now_thread_cpu_ns(),
				 .last_mono_ns = now_mono_ns() };
	t->last_cpu_ns = t->began_cpu_ns;
}

void loop_turn_add(struct loop_turn *t, uintptr_t fn)
{
	int64_t now_ns = now_thread_cpu_ns(), took_ns = now_ns - t->last_cpu_ns;

	if (took_ns > t->longest_ns) {
		t->longest_ns = took_ns;
		t->longest = t->named ? t->named : fn;
	}
	t->named = 0;
	t->n++;
	t->last_cpu_ns = now_ns;
	t->last_mono_ns = now_mono_ns();
}

/* As addr2line takes it. */
static uintptr_t place_of(uintptr_t fn)
{
	Dl_info in;

	return dladdr((void *)fn, &in) ? fn - (uintptr_t)in.dli_fbase : fn;
}

void loop_turn_end(struct loop_turn *t, struct loop_turns *turns, int64_t wall_ns)
{
	int64_t took_ns = t->last_cpu_ns - t->began_cpu_ns;

	loop_turns_count(turns, took_ns, wall_ns);
	if (took_ns > LOOP_TURN_LONG_NS)
		log_debug("LOOP-TURN",
			  "cpu_us=%" PRId64 " callbacks=%u longest_us=%" PRId64
			  " place=0x%" PRIxPTR,
			  took_ns / NS_PER_US, t->n, t->longest_ns / NS_PER_US,
			  place_of(t->longest));
}
