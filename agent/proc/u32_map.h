/* SPDX-License-Identifier: Apache-2.0 */
/* A table from a number (pid, tid) to a pointer. Values are the caller's and never NULL. */
#ifndef AGENT_PROC_U32_MAP_H
#define AGENT_PROC_U32_MAP_H

#include <stddef.h>
#include <stdint.h>

struct u32_map {
	struct u32_entry {
		uint32_t key;
		void *value; /* NULL = free slot */
	} * slots;
	size_t n, n_slots;
};

void u32_map_release(struct u32_map *m); /* a zeroed struct is an empty map */
void *u32_map_get(const struct u32_map *m, uint32_t key); /* NULL if unknown */
void u32_map_set(struct u32_map *m, uint32_t key, void *value);
void *u32_map_remove(struct u32_map *m, uint32_t key); /* returns the value, or NULL */

/* The i-th value in no order, i < n_slots; NULL for a free slot. Not while adding or removing. */
void *u32_map_at(const struct u32_map *m, size_t i);

#endif
