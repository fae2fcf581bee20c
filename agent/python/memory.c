/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/memory.h"

#include <assert.h>
#include <string.h>
#include <sys/uio.h>

#define PAGE 4096 /* size of the smallest page: ranges are divided at multiples of it */

int64_t python_memory_of_process(void *arg, const struct python_range *ranges, size_t n)
{
	struct iovec here[PYTHON_RANGES_MAX], there[PYTHON_RANGES_MAX];

	assert(n <= PYTHON_RANGES_MAX);
	for (size_t i = 0; i < n; i++) {
		here[i] = (struct iovec){ ranges[i].out, ranges[i].len };
		there[i] = (struct iovec){ (void *)(uintptr_t)ranges[i].address, ranges[i].len };
	}
	return process_vm_readv((pid_t) * (uint32_t *)arg, here, n, there, n, 0);
}

bool python_memory_get(const struct python_memory *m, uint64_t address, void *out, size_t len)
{
	const struct python_range range = { address, out, len };

	return m->read(m->arg, &range, 1) == (int64_t)len;
}

size_t python_memory_get_up_to(const struct python_memory *m, uint64_t address, void *out,
			       size_t len)
{
	size_t first = PAGE - address % PAGE;
	struct python_range ranges[2] = { { address, out, len } };
	int64_t n;

	if (first >= len) {
		n = m->read(m->arg, ranges, 1);
	} else {
		ranges[0].len = first;
		ranges[1] = (struct python_range){ address + first, (uint8_t *)out + first,
						   len - first };
		n = m->read(m->arg, ranges, 2);
	}
	return n > 0 ? (size_t)n : 0;
}

uint64_t python_u64(const uint8_t *bytes, uint32_t offset)
{
	uint64_t v;

	memcpy(&v, bytes + offset, sizeof(v));
	return v;
}

uint32_t python_u32(const uint8_t *bytes, uint32_t offset)
{
	uint32_t v;

	memcpy(&v, bytes + offset, sizeof(v));
	return v;
}
