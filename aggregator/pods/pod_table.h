/* SPDX-License-Identifier: Apache-2.0 */
/* The pods of the cluster by their uid. A full listing replaces what it does not name. Loop thread. */
#ifndef AGGREGATOR_PODS_POD_TABLE_H
#define AGGREGATOR_PODS_POD_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aggregator/pods/pod.h"

#define POD_TABLE_BYTES ((size_t)256 << 20) /* of all pods; further ones are counted, not kept */
#define POD_TABLE_SLOTS 16384

struct pod_table {
	struct pod *slots[POD_TABLE_SLOTS];
	struct pod *by_node[POD_TABLE_SLOTS]; /* by the hash of their node */
	size_t n, bytes;
	uint64_t serial; /* of the pod that was put last */
	uint64_t listing; /* the number of the current one */
	uint64_t left_out; /* pods that did not fit */
};

void pod_table_put(struct pod_table *t, struct pod *p_taken); /* replaces the one of its uid */
void pod_table_remove(struct pod_table *t, const char *uid); /* if it is there */
struct pod *pod_table_find(const struct pod_table *t, const char *uid); /* borrowed, or NULL */

/* The first pod of a node, and the one after `p` (borrowed, in no order); NULL = none. */
struct pod *pod_table_first_on(const struct pod_table *t, const char *node);
struct pod *pod_table_next_on(const struct pod *p);

/* Between these calls all pods of the cluster are put; the second removes the others. */
void pod_table_begin_listing(struct pod_table *t);
void pod_table_end_listing(struct pod_table *t);

/* All pods, in no order; the caller frees the array. They are borrowed. */
struct pod **pod_table_all(const struct pod_table *t, size_t *n);

void pod_table_release(struct pod_table *t); /* empty then */

#endif
