/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the memory of another process, which goes on meanwhile. Tests have memory of their own. For workers. */
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
	/* Copies ranges in their order up to the first byte that cannot be read. Returns how many bytes; -1 and
	 * errno if there were none. */
	int64_t (*read)(void *arg, const struct python_range *ranges, size_t n);
	void *arg;
};

/* That of process *arg, a uint32_t, by process_vm_readv(2). */
int64_t python_memory_of_process(void *arg, const struct python_range *ranges, size_t n);

/* All of one range. */
bool python_memory_get(const struct python_memory *m, uint64_t address, void *out, size_t len);

/* The bytes of one range that can be read, up to `len`: an object may end before, and its page too. Returns how
 * many. */
size_t python_memory_get_up_to(const struct python_memory *m, uint64_t address, void *out,
			       size_t len);

/* Fields of bytes that were copied: in bounds by the layout's limits. */
uint64_t python_u64(const uint8_t *bytes, uint32_t offset);
uint32_t python_u32(const uint8_t *bytes, uint32_t offset);

#endif
