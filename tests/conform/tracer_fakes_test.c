/* SPDX-License-Identifier: Apache-2.0 */
/* The fakes of the agent's unit tests are tracers like any other. */
#include "tests/conform/tracer_conform.h"
#include "tests/lib/check.h"
#include "tests/unit/agent/core_fixture.h"

int main(void)
{
	static const struct {
		const struct tracer_ops *ops;
		bool needs_give_up;
	} fakes[] = {
		{ &fake_now_ops, false },   { &fake_later_ops, false }, { &fake_slow_ops, true },
		{ &fake_silent_ops, true }, { &fake_broken_ops, true }, { &fake_off_ops, false },
		{ &fake_big_ops, false },
	};
	static const struct tracer_ops *const none[] = { NULL };

	for (size_t i = 0; i < sizeof(fakes) / sizeof(fakes[0]); i++) {
		struct fixture f;

		fixture_up(&f, none, 1 << 20);
		tracer_conform(&(struct tracer_subject){
			.ops = fakes[i].ops,
			.needs_give_up = fakes[i].needs_give_up,
			.env = { .loop = f.loop, .host = "host-a" },
		});
		fixture_down(&f);
	}
	return 0;
}
