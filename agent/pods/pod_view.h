/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods and processes of this host at one time. It never changes, and references are counted: any thread may read it.
 * NULL is a view without pods.
 */
#ifndef AGENT_PODS_POD_VIEW_H
#define AGENT_PODS_POD_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/tutti/v1/control.pb-c.h"

struct pod_view;

struct pod_view *pod_view_hold(struct pod_view *v); /* returns v */
void pod_view_release(struct pod_view *v);

/* A pod of this host; texts are the view's, none is NULL. */
struct local_pod {
	const char *uid, *name, *space; /* `space` is its namespace */
	const char *job, *rank; /* "" = none; rank is a number */
	bool opted_out;
	const char *address; /* of its network; "" = not known */
	int profiler_port; /* 0 = not given */
	const char **containers; /* "ID NAME" */
	size_t n_containers;
};

const char *pod_view_node(const struct pod_view *v); /* "" = not known */
const struct local_pod *pod_view_pods(const struct pod_view *v, size_t *n);

/* The process that listens at the profiler port of the i-th pod; 0 = not known. */
int64_t pod_view_profiler(const struct pod_view *v, size_t i);

/* What a process is a part of. */
struct process_pod {
	const struct local_pod *pod;
	const char *container; /* its name; "" = not known */
};

/* False if the process is of no pod that is known. Reads /proc for a process that is not known yet. */
bool pod_view_find(const struct pod_view *v, int64_t pid, struct process_pod *out);

/*
 * Whether the process may not be recorded, as its pod opted out. A process that ended before its cgroup was read counts as
 * one, where any pod of the host has opted out: it may have been of that pod. So does pid 0: not known.
 */
bool pod_view_hides(const struct pod_view *v, int64_t pid);

/* "train-0 rank 3", for names of tracks; "" if it is of no pod. */
#define POD_TITLE_BYTES 96
void pod_view_title(const struct pod_view *v, int64_t pid, char out[POD_TITLE_BYTES]);

/* ---- making one (local_pods.c) ---- */

/* The pods of a message, which the views of different times share; references are counted. */
struct pod_set;
struct pod_set *pod_set_new(Tutti__V1__Pods *m_taken);
struct pod_set *pod_set_hold(struct pod_set *s); /* returns s; any thread */
void pod_set_release(struct pod_set *s); /* any thread; NULL is fine */
size_t pod_set_count(const struct pod_set *s);

/* Blocks on /proc. The processes of `before` (NULL = none) that are still there or ended lately, and those that began.
 * Returns the only reference. */
struct pod_view *pod_view_make(struct pod_set *pods, const struct pod_view *before,
			       const char *proc, int64_t now_mono_ns);

#endif
