/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_job CPU_SECONDS    works in its own code, libc, libm and the vdso for so long; 0 = fixed work
 * agent_job --switches N   two processes on one CPU pass a byte to and fro, N times
 *
 * Prints the CPU seconds that the work took, of --switches of both processes for each context switch.
 */
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"

#define N	     20000
#define FIXED_ROUNDS 250

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((noinline)) static uint64_t hash_all(const uint32_t *v)
{
	uint64_t h = 1469598103934665603U;

	for (size_t round = 0; round < 20; round++)
		for (size_t i = 0; i < N; i++)
			h = (h ^ v[i]) * 1099511628211U;
	return h;
}

static int by_value(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

__attribute__((noinline)) static double sum_of_sines(void)
{
	double sum = 0;

	for (int i = 1; i < N; i++)
		sum += sin(i) * exp(-1.0 / i);
	return sum;
}

__attribute__((noinline)) static int64_t read_clock(void)
{
	struct timespec t;
	int64_t sum = 0;

	for (int i = 0; i < 5000; i++) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		sum += t.tv_nsec;
	}
	return sum;
}

__attribute__((noinline)) static void move_blocks(char *to, const char *from)
{
	for (int i = 0; i < 20; i++) {
		memmove(to + i, from, 80000);
		if (memcmp(to, from, 80000) > 1000)
			puts("");
	}
}

__attribute__((noinline)) static void allocate(void)
{
	void *v[500];

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 500; i++)
			v[i] = malloc((size_t)(i * 37 % 900 + 1));
		for (int i = 0; i < 500; i++)
			free(v[i]);
	}
}

/* Answers each byte until there are no more. */
static void answer_bytes(int from, int to)
{
	char byte;

	while (read(from, &byte, 1) == 1 && write(to, &byte, 1) == 1)
		;
}

static double seconds_of(int who)
{
	struct rusage u;

	getrusage(who, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static int pass_bytes(long n)
{
	int there[2], back[2];
	cpu_set_t one;
	char byte = 0;
	pid_t child;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof(one), &one) || pipe(there) || pipe(back))
		return 1;
	child = child_fork(SIGKILL);
	if (!child) {
		close(there[1]);
		answer_bytes(there[0], back[1]);
		_exit(0);
	}
	for (long i = 0; i < n; i++) {
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			return 1;
	}
	close(there[1]);
	waitpid(child, NULL, 0);
	printf("%.9f\n",
	       (seconds_of(RUSAGE_SELF) + seconds_of(RUSAGE_CHILDREN)) / (2.0 * (double)n));
	return 0;
}

static int work(double seconds)
{
	double start = cpu_seconds();
	uint32_t *v = malloc(N * sizeof(*v));
	char *a = calloc(1, 100000), *b = calloc(1, 100000);
	double keep = 0;

	for (int round = 0; seconds > 0 ? cpu_seconds() - start < seconds : round < FIXED_ROUNDS;
	     round++) {
		for (uint32_t i = 0; i < N; i++)
			v[i] = i * 2654435761U + (uint32_t)round;
		qsort(v, N, sizeof(*v), by_value);
		keep += (double)hash_all(v) + sum_of_sines() + (double)read_clock();
		move_blocks(a, b);
		allocate();
	}
	printf("%.6f %d\n", cpu_seconds() - start, keep > 0);
	free(v);
	free(a);
	free(b);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "--switches"))
		return pass_bytes(strtol(argv[2], NULL, 10));
	return work(argc > 1 ? atof(argv[1]) : 0);
}
