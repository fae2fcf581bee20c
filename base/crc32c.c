/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32c.h"

#include <string.h>

/* Four bits at once: slow, but only where the processor has no instruction for it. */
static uint32_t crc32c_by_table(uint32_t crc, const uint8_t *data, size_t len)
{
	/* the reflected polynomial 0x82f63b78 applied to each value of four bits */
	static const uint32_t table[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
		0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
		0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
	};

	for (size_t i = 0; i < len; i++) {
		crc ^= data[i];
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t crc32c_by_instruction(uint32_t crc,
									const uint8_t *data,
									size_t len)
{
	uint64_t wide = crc, word;

	for (; len >= sizeof(word); data += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, data, sizeof(word));
		wide = __builtin_ia32_crc32di(wide, word);
	}
	crc = (uint32_t)wide;
	while (len--)
		crc = __builtin_ia32_crc32qi(crc, *data++);
	return crc;
}
#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("sse4.2"))
		return ~crc32c_by_instruction(~crc, data, len);
#endif
	return ~crc32c_by_table(~crc, data, len);
}
