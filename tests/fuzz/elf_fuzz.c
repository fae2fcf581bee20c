/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other processes: the bytes as an ELF file. */
#include "agent/symbols/elf_symbols.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_memory(void *arg, uint64_t offset, void *out, size_t len, struct err *e)
{
	(void)e;
	memcpy(out, (const uint8_t *)arg + offset, len);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_source src = { .read = read_memory, .arg = (void *)data, .size = size };
	struct elf_symbols es;
	uint64_t address;
	char name[64];

	if (elf_symbols_load(&es, &src, NULL))
		return 0;
	for (size_t i = 0; i < es.n; i++)
		if (!elf_symbols_name(&es, &src, es.v[i].address, name, sizeof(name), NULL))
			(void)strlen(name);
	for (size_t i = 0; i < es.n_code; i++)
		if (!elf_symbols_name(&es, &src, es.code[i].address + 16, name, sizeof(name), NULL))
			(void)strlen(name);
	for (uint64_t offset = 0; offset < size; offset += 7)
		if (elf_symbols_address(&es, offset, &address))
			(void)!elf_symbols_name(&es, &src, address, name, sizeof(name), NULL);
	elf_symbols_release(&es);
	return 0;
}
