/* SPDX-License-Identifier: Apache-2.0 */
/* The executable mappings of a process, from /proc/PID/maps. */
#ifndef AGENT_PROC_MAPS_H
#define AGENT_PROC_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct proc_map {
	uint64_t start, end, offset, inode;
	uint32_t major, minor;
	char *path; /* "" for memory without a file */
};

struct proc_maps {
	struct proc_map *v; /* in order of address */
	size_t n;
	size_t bytes; /* of the paths */
};

/* The kind of memory behind a mapping's path: a file, the kernel's vdso, or code made at run time. */
enum map_kind { MAP_KIND_FILE, MAP_KIND_VDSO, MAP_KIND_MEMORY };
enum map_kind map_kind_of(const char *path);

/* Executable mappings only; malformed lines are skipped. */
void proc_maps_parse(struct proc_maps *out, const char *text);

/* May block for as long as the process holds its address space: for workers. */
MUST_CHECK int proc_maps_read(struct proc_maps *out, uint32_t pid, struct err *e);

void proc_maps_release(struct proc_maps *maps);

/* The memory that they take. */
size_t proc_maps_bytes(const struct proc_maps *maps);

/* The mapping that holds the address, or NULL. */
const struct proc_map *proc_maps_find(const struct proc_maps *maps, uint64_t address);

#endif
