/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pod as the Kubernetes API describes it, and what Tutti uses of it. One allocation, about 1 kB; it never changes:
 * a changed pod is a new one. Reading is pure; references are counted on the loop's thread.
 */
#ifndef AGGREGATOR_PODS_POD_H
#define AGGREGATOR_PODS_POD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"

#define POD_LABELS	  64 /* that are kept of one pod */
#define POD_CONTAINERS	  16
#define POD_TEXT_BYTES	  320 /* of one name or value; a label with a longer one is left out */
#define POD_RESTARTS_MOST 1000000000

#define POD_PROFILE_ANNOTATION	"tutti.dev/profile" /* "false": leave the pod alone */
#define POD_PORT_ANNOTATION	"tutti.dev/profiler-port"
#define POD_SNAPSHOT_ANNOTATION "tutti.dev/snapshot-on-failure" /* "30s": of the time before */
#define POD_SNAPSHOT_MOST_NS	INT64_C(600000000000)

struct pod_label {
	const char *key, *value;
};

struct pod_container {
	const char *name;
	const char *id; /* 64 hexadecimal digits; "" = it has not begun */
	int64_t restarts;
};

/* No text is NULL. */
struct pod {
	unsigned int refs;
	struct pod *next, *next_on_node; /* these four are the table's */
	uint64_t listing;
	uint64_t serial; /* of this change of the pod; never used twice */
	size_t bytes; /* of this allocation */

	const char *uid, *name, *space; /* `space` is its namespace */
	const char *node, *ip, *phase; /* "Running"; "" = not known yet */
	/* what it is a part of: "train", "PyTorchJob"; "" = nothing. `rank` is a number, or "" */
	const char *job, *kind, *rank;
	bool is_over; /* it has succeeded or failed: nothing of it runs */
	bool is_ending; /* its deletion was requested */
	bool opted_out; /* by POD_PROFILE_ANNOTATION */
	int64_t snapshot_ns; /* by POD_SNAPSHOT_ANNOTATION; 0 = none, or no duration up to POD_SNAPSHOT_MOST_NS */
	int profiler_port; /* by POD_PORT_ANNOTATION; 0 = not given */
	struct pod_label *labels;
	size_t n_labels;
	struct pod_container *containers;
	size_t n_containers;
};

/* `doc` is a Pod object. The caller has the only reference to `*out`. ERR_PEER for what is no pod, or one without a
 * uid, a name or a namespace. Any thread. */
MUST_CHECK int pod_read(struct pod **out, const json_t *doc, struct err *e);

struct pod *pod_ref(struct pod *p);
void pod_unref(struct pod *p); /* NULL is fine */

const char *pod_label(const struct pod *p, const char *key); /* or NULL */
int64_t pod_restarts(const struct pod *p); /* of all its containers */

#endif
