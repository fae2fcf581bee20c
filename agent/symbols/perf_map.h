/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for code made at run time, from the file that JIT compilers write for perf: lines of
 * "START SIZE name", hexadecimal, appended as code appears.
 * Other programs write the file: it may contain anything.
 */
#ifndef AGENT_SYMBOLS_PERF_MAP_H
#define AGENT_SYMBOLS_PERF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct perf_map {
	struct jit_symbol {
		uint64_t start;
		uint32_t size;
		uint32_t name; /* offset into `names`; a later line has a larger one */
	} * v;
	size_t n, cap;
	bool sorted;
	struct buf names;
	uint64_t parsed; /* bytes of the file that were read */
};

/* The memory that it takes. */
size_t perf_map_bytes(const struct perf_map *pm);

/* A zeroed struct is empty. */
void perf_map_release(struct perf_map *pm);

/* Parses the whole lines of `text`, the file's next bytes; returns their length. Malformed lines are
 * skipped, and all lines once the map takes more than `max_bytes` of memory. */
size_t perf_map_parse(struct perf_map *pm, const char *text, size_t len, size_t max_bytes);

/* The newest code at the address, or NULL. */
const char *perf_map_find(struct perf_map *pm, uint64_t address);

#endif
