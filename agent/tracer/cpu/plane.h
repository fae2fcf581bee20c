/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples as a timeline: the plane "/host:CPU" with one line per thread. Where consecutive
 * samples have the same outermost functions, each of these functions becomes one event, nested in its
 * caller's. It lasts from its first sample to one period after its last, or to the sample that shows
 * something else. Functions of Python stand where the interpreter's do (python_frames.h), named "forward (model.py)".
 */
#ifndef AGENT_TRACER_CPU_PLANE_H
#define AGENT_TRACER_CPU_PLANE_H

#include "agent/tracer/cpu/window.h"
#include "xspace/xspace.h"

/* Frames of a stack, at most; of a deeper stack the outermost frames are left out. */
#define CPU_DEPTH_MAX 256

struct symbols;

/* On a worker, between symbols_begin() and symbols_end(), after cpu_cut_load(). Completes the names and sorts
 * the samples of the cut. */
void cpu_plane_build(struct cpu_cut *cut, struct symbols *sy, struct xs_builder *b);

#endif
