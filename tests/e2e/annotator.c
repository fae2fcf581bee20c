/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with annotations: annotator STEP_MS [KILL_AFTER_STEPS]. Steps "train" with a scope "load" and one "compute"
 * around "kernel", a counter "loss" and an instant "halfway" in each; a second thread that ends the range "save" which the
 * first one began. After so many steps it kills itself in the middle of a scope. With `annotator STEP_MS 0 thread` another thread
 * does the steps, and the main one ends. Its output is its pid, as it has it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "include/tutti/tutti.h"

static uint64_t saving;

static void work(long us)
{
	struct timespec t = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };

	nanosleep(&t, NULL);
}

static void *save(void *arg)
{
	struct timespec t = { .tv_nsec = 1000000 };

	for (;;) {
		uint64_t range = __atomic_exchange_n(&saving, 0, __ATOMIC_ACQUIRE);

		if (range)
			tutti_range_end(range);
		nanosleep(&t, NULL);
	}
	return arg;
}

static void step(int64_t n, long us)
{
	TUTTI_STEP("train", n);
	{
		TUTTI_SCOPE_VALUE("load", n % 7);
		work(us / 4);
	}
	tutti_instant("halfway");
	TUTTI_SCOPE("compute");
	{
		TUTTI_SCOPE("kernel with a name that is longer than a slot");
		work(us / 2);
	}
	tutti_counter("loss", 1.0 / (double)(n + 1));
	if (!__atomic_load_n(&saving, __ATOMIC_RELAXED))
		__atomic_store_n(&saving, tutti_range_begin("save"), __ATOMIC_RELEASE);
}

static long step_us = 100000, last_step;

static void *steps(void *arg)
{
	for (int64_t n = 0; !last_step || n < last_step; n++)
		step(n, step_us);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc > 1)
		step_us = strtol(argv[1], NULL, 10) * 1000;
	if (argc > 2)
		last_step = strtol(argv[2], NULL, 10);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%d\n", (int)getpid());
	if (pthread_create(&thread, NULL, save, NULL))
		return 1;
	if (argc > 3)
		pthread_exit(pthread_create(&thread, NULL, steps, NULL) ? (void *)1 : NULL);
	steps(NULL);
	tutti_begin("the last scope");
	tutti_instant("the end");
	raise(SIGKILL);
}
