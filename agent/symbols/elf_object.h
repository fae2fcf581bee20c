/* SPDX-License-Identifier: Apache-2.0 */
/* Data of an ELF file by name, and where a file's bytes are loaded. The bytes are foreign and every offset in
 * them is checked. */
#ifndef AGENT_SYMBOLS_ELF_OBJECT_H
#define AGENT_SYMBOLS_ELF_OBJECT_H

#include "agent/symbols/elf_file.h"

/* The addresses of the objects (not functions) with these names, from .dynsym, else .symtab; 0 = there is none.
 * ERR_INVALID, ERR_UNSUPPORTED, ERR_LIMIT as elf_symbols_load(). */
MUST_CHECK int elf_objects_find(const struct elf_source *src, const char *const *names, size_t n,
				uint64_t *addresses, struct err *e);

/* Where the byte at `offset` is loaded. ERR_NOT_FOUND if it is not. */
MUST_CHECK int elf_load_address(const struct elf_source *src, uint64_t offset, uint64_t *out,
				struct err *e);

#endif
