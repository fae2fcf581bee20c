/* SPDX-License-Identifier: Apache-2.0 */
/* The tracers of this build: one row a driver, in the order of their planes. */
#ifndef AGENT_TRACERS_H
#define AGENT_TRACERS_H

#include "agent/tracer/tracer.h"

#define TRACERS(ROW) \
	ROW(profiler) /* what JAX, TensorFlow and PyTorch/XLA record about themselves */ \
	ROW(pytorch) /* what PyTorch processes record about themselves */ \
	ROW(watch) /* what programs record and write to a folder by themselves */ \
	ROW(cpu) /* what runs on the CPUs: perf samples, always on */ \
	ROW(sched) /* when each thread ran or waited for a CPU, always on */ \
	ROW(python) /* what Python programs do: stacks copied from outside, always on */ \
	ROW(metrics) /* numbers from /proc, ten times a second */ \
	ROW(cgroups) /* numbers about pods, containers and other cgroups, always on */ \
	ROW(nvml) /* numbers about NVIDIA devices, always on */ \
	ROW(budget) /* what the agent itself takes, always on */ \
	ROW(annotations) /* what programs write into shared memory, always on */ \
	ROW(marks) /* marks that processes send through the local socket */ \
	ROW(logs) /* what programs log: files, containers, the journal; off without --logs */

#define TRACERS_DECLARE(name) TRACER_DECLARE(name);
TRACERS(TRACERS_DECLARE)

/* The same as an array; NULL-terminated. */
extern const struct tracer_ops *const tracers[];

#endif
