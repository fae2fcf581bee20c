/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The aggregator's real time service, in a process of its own, perhaps in another network
 * namespace, with made-up hosts. All processes of a machine read one physical clock, so the true
 * session time of any instant is known.
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
	struct clock_peer *peers; /* one per host; their `host` is NULL */
};

/* Forks. Prints why and ends the process if it fails. Each service has another epoch. */
void service_start(struct service *s, const struct service_conf *conf);

/* Kills the service. Returns the CPU time that it took, in ns. */
int64_t service_stop(struct service *s);

/* The CPU time that the service took so far, in ns. */
int64_t service_cpu_ns(const struct service *s);

/* The session clock at this raw time: the truth. */
int64_t service_session_ns(const struct service *s, int64_t raw_ns);

/* A child that runs fn(arg) and dies with its parent. */
pid_t service_fork(void (*fn)(void *arg), void *arg);

#endif
