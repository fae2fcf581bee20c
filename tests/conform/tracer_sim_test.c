/* SPDX-License-Identifier: Apache-2.0 */
/* The simulation's tracer, in virtual time. */
#include "base/loop.h"
#include "tests/conform/tracer_conform.h"
#include "tests/lib/check.h"
#include "tests/sim/burst.h"

int main(void)
{
	struct tracer_subject s = { .ops = sim_tracers[0], .env = { .host = "host-a" } };
	struct err e;

	CHECK_OK(loop_new(&s.env.loop, 1, &e), e);
	tracer_conform(&s);
	loop_free(s.env.loop);
	return 0;
}
