/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process is in a job of Slurm, by the environment that it was begun with: srun gives each task its rank. The
 * process may have been given any text: it is cleaned, and nothing more is made of it than names.
 */
#ifndef AGENT_PROC_SLURM_TASK_H
#define AGENT_PROC_SLURM_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slurm_task {
	char job[24]; /* SLURM_JOB_ID: a number */
	char node[64]; /* SLURMD_NODENAME; "" = not known */
	char nodes
		[256]; /* SLURM_JOB_NODELIST, as "node[1-3,7]"; cut at a comma if it is longer; "" = not known */
	int64_t rank; /* SLURM_PROCID; -1 = none, as of the batch script, whose own 0 is no rank */
};

/* From the contents of /proc/PID/environ. False if it is of no job. Pure. */
bool slurm_task_read(struct slurm_task *out, const char *environment, size_t len);

/* Reads that file of a process, below `proc` ("/proc"). False also if it may not be read, or the process has ended. */
bool slurm_task_of_process(struct slurm_task *out, const char *proc, int64_t pid);

#endif
