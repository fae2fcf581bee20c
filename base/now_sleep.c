/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <time.h>

#include "base/now.h"

void now_sleep_until_mono(int64_t mono_ns)
{
	struct timespec at = { .tv_sec = mono_ns / NS_PER_S, .tv_nsec = mono_ns % NS_PER_S };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}
