/* SPDX-License-Identifier: Apache-2.0 */
/* Timers that are not set for an instant: the same on every implementation of the loop. */
#include "base/loop.h"

#include "base/now.h"

void loop_timer_in(struct loop *l, struct loop_timer *t, int64_t delay_ns, loop_fn fn, void *arg)
{
	loop_timer_at(l, t, now_mono_ns() + delay_ns, fn, arg);
}

void loop_timer_each(struct loop *l, struct loop_timer *t, int64_t period_ns, loop_fn fn, void *arg)
{
	loop_timer_at(l, t, (now_mono_ns() / period_ns + 1) * period_ns, fn, arg);
}
