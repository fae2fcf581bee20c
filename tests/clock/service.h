/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The aggregator's time service, the real one, in a process of its own, perhaps in another network namespace,
 * with hosts that nobody registered. All processes of a machine read one physical clock, so what its
 * session clock shows at any instant is known: the truth.
 */
#ifndef TESTS_CLOCK_SERVICE_H
#define TESTS_CLOCK_SERVICE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/clock/clock.h"

struct service_conf {
	const char *listen; /* "127.0.0.1:0" */
	const char *netns; /* path of a network namespace; NULL = this one */
	size_t hosts;
	int64_t ahead_ns; /* of the wall clock */
	double wander_ppm,
		wander_s; /* peak of a sine in the session clock's rate, and its period */
};

struct service {
	struct service_conf conf;
	pid_t pid;
	int64_t shift_ns, begin_raw_ns;
	struct clock_peer *peers; /* of each host; their `host` is NULL */
};

/* Forks; ends the process, with a line, if it cannot. Each service is another epoch. */
void service_start(struct service *s, const struct service_conf *conf);

/* Kills it. Returns the CPU time that it took, in ns. */
int64_t service_stop(struct service *s);

/* The CPU time that it took so far, in ns. */
int64_t service_cpu_ns(const struct service *s);

/* What the session clock shows. */
int64_t service_session_ns(const struct service *s, int64_t raw_ns);

/* A child that runs fn(arg) and dies with its parent. */
pid_t service_fork(void (*fn)(void *arg), void *arg);

#endif
