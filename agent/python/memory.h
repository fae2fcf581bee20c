/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the memory of another process, which keeps running. Tests replace `read`. For workers. */
#ifndef AGENT_PYTHON_MEMORY_H
#define AGENT_PYTHON_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PYTHON_RANGES_MAX 512 /* of one call */

struct python_range {
	uint64_t address;
	void *out;
	size_t len;
};

struct python_memory {
	/* Copies ranges in order, up to the first byte that cannot be read. Returns how many bytes were
	 * copied; -1 and errno if none. */
	int64_t (*read)(void *arg, const struct python_range *ranges, size_t n);
	void *arg;
};

/* A `read` for the process with the pid *arg (uint32_t), by process_vm_readv(2). */
int64_t python_memory_of_process(void *arg, const struct python_range *ranges, size_t n);

/* Copies a whole range, or returns false. */
bool python_memory_get(const struct python_memory *m, uint64_t address, void *out, size_t len);

/* Copies the readable begin of a range, at most `len` bytes, since an object may be shorter and end with its
 * page. Returns how many. */
size_t python_memory_get_up_to(const struct python_memory *m, uint64_t address, void *out,
			       size_t len);

/* Read a field of copied bytes; the layout's limits keep offsets in bounds. */
uint64_t python_u64(const uint8_t *bytes, uint32_t offset);
uint32_t python_u32(const uint8_t *bytes, uint32_t offset);

#endif
