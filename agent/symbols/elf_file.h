/* SPDX-License-Identifier: Apache-2.0 */
/* The headers of an ELF file: 64-bit little-endian. The bytes are foreign and every offset in them is
 * checked. */
#ifndef AGENT_SYMBOLS_ELF_FILE_H
#define AGENT_SYMBOLS_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define BUILD_ID_BYTES_MAX 64

/* The file's bytes: `read` reads exactly len bytes or fails. */
struct elf_source {
	int (*read)(void *arg, uint64_t offset, void *out, size_t len, struct err *e);
	void *arg;
	uint64_t size;
};

struct elf_file {
	const struct elf_source *src;
	Elf64_Ehdr head;
	Elf64_Shdr *sections; /* head.e_shnum of them */
	char *names; /* of sections; NUL behind the last one */
	size_t names_size;
};

struct build_id {
	uint8_t bytes[BUILD_ID_BYTES_MAX];
	size_t len; /* 0: the file has none */
};

/* ERR_INVALID: not an ELF file, or a broken one; ERR_UNSUPPORTED: not 64-bit little-endian. The caller
 * calls elf_file_close() also after a failure. */
MUST_CHECK int elf_file_open(struct elf_file *f, const struct elf_source *src, struct err *e);
void elf_file_close(struct elf_file *f);

bool elf_source_has(const struct elf_source *src, uint64_t offset, uint64_t size);
MUST_CHECK int elf_source_read(const struct elf_source *src, uint64_t offset, void *out, size_t len,
			       struct err *e);

/* "" if it has no name. */
const char *elf_section_name(const struct elf_file *f, const Elf64_Shdr *section);

/* The section with that name whose bytes lie in the file, or NULL. */
const Elf64_Shdr *elf_file_section(const struct elf_file *f, const char *name);

struct build_id elf_file_build_id(const struct elf_file *f);

#endif
