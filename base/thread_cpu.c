/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread_cpu.h"

#include <time.h>

#include "base/now.h"

int64_t thread_cpu_ns(pthread_t thread)
{
	struct timespec t;
	clockid_t clock;

	if (pthread_getcpuclockid(thread, &clock) || clock_gettime(clock, &t))
		return 0;
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}
