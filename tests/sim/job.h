/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training job: one process on every host, which marks its steps. A step begins on all hosts at about the
 * same true instant. A job that is restarted is silent for a while and goes on with larger numbers.
 */
#ifndef SIM_JOB_H
#define SIM_JOB_H

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct marks;
struct job_process;

void job_new(void);
void job_restart(void);
int64_t job_step_now(void); /* the latest that has begun */

/* When this step began on this host, in true time; false if there was no such step. */
struct sim_host;
bool job_step_ns(const struct sim_host *h, int64_t step, int64_t *true_ns);

/* The process on the host whose code runs: marks its steps from now on. */
struct job_process *job_process_new(struct loop *loop, struct marks *marks);
void job_process_free(struct job_process *p); /* NULL is fine */

#endif
