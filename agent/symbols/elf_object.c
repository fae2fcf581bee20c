/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/symbols/elf_object.h"

#include <string.h>

#include "base/mem.h"

#define NAMES_BYTES_MAX	  (64U << 20)
#define SYMBOLS_BYTES_MAX (128U << 20)
#define CHUNK		  2048 /* symbols read at once */

/* The names of a table, with a NUL behind the last one; NULL if they are not in the file. */
static char *load_names(const struct elf_file *f, const Elf64_Shdr *table, size_t *size)
{
	const Elf64_Shdr *s;
	char *names;

	if (table->sh_link >= f->head.e_shnum)
		return NULL;
	s = &f->sections[table->sh_link];
	if (s->sh_type != SHT_STRTAB || s->sh_size > NAMES_BYTES_MAX ||
	    !elf_source_has(f->src, s->sh_offset, s->sh_size))
		return NULL;
	*size = (size_t)s->sh_size;
	names = xcalloc(1, *size + 1);
	if (!elf_source_read(f->src, s->sh_offset, names, *size, NULL))
		return names;
	free(names);
	return NULL;
}

struct search {
	const char *const *names;
	size_t n;
	uint64_t *addresses;
	size_t left; /* names that are not found yet */
};

static void match_symbol(struct search *q, const Elf64_Sym *symbol, const char *name)
{
	if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || symbol->st_shndx == SHN_UNDEF)
		return;
	for (size_t i = 0; i < q->n; i++) {
		if (q->addresses[i] || strcmp(name, q->names[i]))
			continue;
		q->addresses[i] = symbol->st_value;
		q->left -= symbol->st_value != 0;
	}
}

static int search_table(const struct elf_file *f, const Elf64_Shdr *table, struct search *q,
			struct err *e)
{
	size_t size = 0, n = (size_t)(table->sh_size / sizeof(Elf64_Sym));
	char *names = load_names(f, table, &size);
	Elf64_Sym *symbols = xmalloc(CHUNK * sizeof(*symbols));
	int rc = 0;

	for (size_t i = 0; names && !rc && q->left && i < n; i += CHUNK) {
		size_t some = n - i < CHUNK ? n - i : CHUNK;

		rc = elf_source_read(f->src, table->sh_offset + i * sizeof(*symbols), symbols,
				     some * sizeof(*symbols), e);
		for (size_t k = 0; !rc && k < some; k++)
			if (symbols[k].st_name < size)
				match_symbol(q, &symbols[k], names + symbols[k].st_name);
	}
	free(symbols);
	free(names);
	return rc;
}

static int search_tables(const struct elf_file *f, uint32_t type, struct search *q, struct err *e)
{
	int rc = 0;

	for (unsigned int i = 0; !rc && q->left && i < f->head.e_shnum; i++) {
		const Elf64_Shdr *s = &f->sections[i];

		if (s->sh_type != type || s->sh_entsize != sizeof(Elf64_Sym))
			continue;
		if (s->sh_size > SYMBOLS_BYTES_MAX)
			return err_set(e, ERR_LIMIT, "ELF: %llu bytes of symbols, limit %u",
				       (unsigned long long)s->sh_size, SYMBOLS_BYTES_MAX);
		rc = search_table(f, s, q, e);
	}
	return rc;
}

int elf_objects_find(const struct elf_source *src, const char *const *names, size_t n,
		     uint64_t *addresses, struct err *e)
{
	struct search q = { .names = names, .n = n, .addresses = addresses, .left = n };
	struct elf_file f;
	int rc;

	memset(addresses, 0, n * sizeof(*addresses));
	rc = elf_file_open(&f, src, e);
	if (!rc)
		rc = search_tables(&f, SHT_DYNSYM, &q, e);
	if (!rc)
		rc = search_tables(&f, SHT_SYMTAB, &q, e);
	elf_file_close(&f);
	return rc;
}

int elf_load_address(const struct elf_source *src, uint64_t offset, uint64_t *out, struct err *e)
{
	struct elf_file f;
	int rc = elf_file_open(&f, src, e);

	for (unsigned int i = 0; !rc && i < f.head.e_phnum; i++) {
		Elf64_Phdr ph;

		rc = elf_source_read(src, f.head.e_phoff + i * sizeof(ph), &ph, sizeof(ph), e);
		/* A mapping begins at the page of its segment's first byte. */
		if (!rc && ph.p_type == PT_LOAD && offset >= (ph.p_offset & ~UINT64_C(0xfff)) &&
		    (offset < ph.p_offset || offset - ph.p_offset < ph.p_filesz)) {
			*out = ph.p_vaddr + (offset - ph.p_offset);
			goto out;
		}
	}
	if (!rc)
		rc = err_set(e, ERR_NOT_FOUND, "ELF: the byte at %llu is not loaded",
			     (unsigned long long)offset);
out:
	elf_file_close(&f);
	return rc;
}
