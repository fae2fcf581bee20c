/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of an ELF file: .symtab if there is one, else .dynsym, sorted by address. 64-bit
 * little-endian files; the bytes are foreign and every offset in them is checked.
 *
 * Names stay in the file and are read one by one: an index costs 16 bytes per function, whatever the
 * length of C++ names. A function without a size ends where the next one or its section does. Entries of a
 * procedure linkage table have the name of what they call, with "@plt" behind it, else "[plt]".
 */
#ifndef AGENT_SYMBOLS_ELF_SYMBOLS_H
#define AGENT_SYMBOLS_ELF_SYMBOLS_H

#include "agent/symbols/elf_file.h"

struct elf_symbol {
	uint64_t address;
	uint32_t size : 30; /* 0 = up to the next one */
	/* of several symbols at one address, the exported one has the lowest rank */
	uint32_t rank : 2;
	uint32_t name; /* offset in the string table */
};

/* A part of the file that is loaded as code at this address. */
struct elf_segment {
	uint64_t offset, size, address;
};

/* A section with code. */
struct elf_code {
	uint64_t address, end;
	bool plt; /* of linkage entries */
	bool named; /* its entries are in the order of .rela.plt, which has their names */
};

/* A table in the file. */
struct elf_table {
	uint64_t offset, size;
};

struct elf_symbols {
	struct elf_symbol *v;
	size_t n;
	uint32_t *numbers; /* the owner's, one for each of v; NULL: all are 0 */
	bool has_symtab; /* else the functions are the exported ones */
	struct elf_segment *segments;
	size_t n_segments;
	struct elf_code *code; /* in the file's order */
	size_t n_code;
	struct elf_table names;
	struct elf_table plt_relocations, plt_symbols, plt_names; /* size 0: there is none */
};

/* ERR_INVALID: not an ELF file, or a broken one; ERR_UNSUPPORTED: not 64-bit little-endian; ERR_LIMIT:
 * too many symbols. A file without symbols gives an empty list. The caller frees it with
 * elf_symbols_release(). */
MUST_CHECK int elf_symbols_load(struct elf_symbols *out, const struct elf_source *src,
				struct err *e);
void elf_symbols_release(struct elf_symbols *es);
size_t elf_symbols_bytes(const struct elf_symbols *es);

/* Where a byte of the file is loaded; false if it is not loaded as code. */
bool elf_symbols_address(const struct elf_symbols *es, uint64_t file_offset, uint64_t *out);

/* The name of the function at the address, NUL-terminated and cut to `size`; raw bytes. ERR_NOT_FOUND if
 * there is none, or none with a name. */
MUST_CHECK int elf_symbols_name(const struct elf_symbols *es, const struct elf_source *src,
				uint64_t address, char *out, size_t size, struct err *e);

/* A number that the owner keeps with the function at the address, so that its name need not be read again. NULL if
 * there is no function. All are 0 at first, and after elf_symbols_clear_numbers(). */
uint32_t *elf_symbols_number(struct elf_symbols *es, uint64_t address);
void elf_symbols_clear_numbers(struct elf_symbols *es);

#endif
