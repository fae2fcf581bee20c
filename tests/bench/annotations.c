/* SPDX-License-Identifier: Apache-2.0 */
/* For tests/bench/annotations. */
#include <stdio.h>

#include "include/tutti/tutti.h"

#define BATCHES	     100
#define CALLS	     20000
#define SCOPE_NS_MAX 40
#define OFF_NS_MAX   4

static volatile int sink;

static __attribute__((noinline)) void empty(void)
{
	sink = sink + 1;
}

static __attribute__((noinline)) void scope(void)
{
	TUTTI_SCOPE("step");
	sink = sink + 1;
}

static __attribute__((noinline)) void long_scope(void)
{
	TUTTI_SCOPE("train_step/forward/layer_17/attention");
	sink = sink + 1;
}

static __attribute__((noinline)) void instant(void)
{
	tutti_instant("here");
	sink = sink + 1;
}

static __attribute__((noinline)) void counter(void)
{
	tutti_counter("loss", 0.5);
	sink = sink + 1;
}

/* Thread time: what other programs take does not count. */
static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static double best_ns(void (*call)(void))
{
	double best = 1e9;

	for (int b = 0; b < BATCHES; b++) {
		double start = now_ns(), took;

		for (int i = 0; i < CALLS; i++)
			call();
		took = (now_ns() - start) / CALLS;
		best = took < best ? took : best;
	}
	return best;
}

static double measure(const char *what, void (*call)(void))
{
	double none = best_ns(empty), with = best_ns(call);

	printf("%-28s %6.1f ns, an empty call %4.1f ns: +%.1f ns, %.1f times\n", what, with, none,
	       with - none, with / none);
	return with - none;
}

static void *measure_on_thread(void *arg)
{
	*(double *)arg = best_ns(scope);
	return NULL;
}

int main(void)
{
	double on, off, each[2];
	pthread_t threads[2];

	on = measure("scope", scope);
	measure("scope, name of 37 bytes", long_scope);
	measure("instant", instant);
	measure("counter", counter);
	for (int i = 0; i < 2; i++) {
		if (pthread_create(&threads[i], NULL, measure_on_thread, &each[i]))
			return 2;
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%-28s %6.1f and %.1f ns\n", "scope, two threads at once", each[0], each[1]);
	tutti_set_enabled(false);
	off = measure("scope, off", scope);
	return on > SCOPE_NS_MAX || off > OFF_NS_MAX;
}
