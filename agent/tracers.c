/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracers.h"

const struct tracer_ops *const tracers[] = {
	&tracer_profiler_ops, /* what JAX, TensorFlow and PyTorch/XLA know about themselves */
	&tracer_cpu_ops, /* who runs on the CPUs: perf samples, all the time */
	&tracer_metrics_ops, /* /proc, ten times a second */
	&tracer_marks_ops, /* what processes said through the local socket */
	NULL
};
