/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of an ELF file: .symtab if there is one, else .dynsym, sorted by address. 64-bit
 * little-endian files; the bytes are foreign and every offset in them is checked.
 *
 * Names stay in the file and are read one by one: an index costs 16 bytes per function, whatever the
 * length of C++ names.
 */
#ifndef AGENT_SYMBOLS_ELF_SYMBOLS_H
#define AGENT_SYMBOLS_ELF_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The file's bytes: `read` reads exactly len bytes or fails. */
struct elf_source {
	int (*read)(void *arg, uint64_t offset, void *out, size_t len, struct err *e);
	void *arg;
	uint64_t size;
};

struct elf_symbol {
	uint64_t address;
	uint32_t size; /* 0 = up to the next one */
	uint32_t name; /* offset in the string table */
};

/* A part of the file that is loaded as code at this address. */
struct elf_segment {
	uint64_t offset, size, address;
};

struct elf_symbols {
	struct elf_symbol *v;
	size_t n;
	struct elf_segment *segments;
	size_t n_segments;
	uint64_t names_offset, names_size;
};

/* ERR_INVALID: not an ELF file, or a broken one; ERR_UNSUPPORTED: not 64-bit little-endian; ERR_LIMIT:
 * too many symbols. A file without symbols gives an empty list. The caller frees it with
 * elf_symbols_release(). */
MUST_CHECK int elf_symbols_load(struct elf_symbols *out, const struct elf_source *src,
				struct err *e);
void elf_symbols_release(struct elf_symbols *es);
size_t elf_symbols_bytes(const struct elf_symbols *es);

/* The function that holds a byte of the file, or NULL. */
const struct elf_symbol *elf_symbols_find(const struct elf_symbols *es, uint64_t file_offset);

/* Its name, NUL-terminated and cut to `size`; raw bytes. */
MUST_CHECK int elf_symbols_name(const struct elf_symbols *es, const struct elf_source *src,
				const struct elf_symbol *sym, char *out, size_t size,
				struct err *e);

#endif
