/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/symbols/elf_symbols.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

#define SYMBOLS_MAX  (4U << 20)
#define SEGMENTS_MAX 64
#define CHUNK	     2048 /* symbols read at once */

struct file {
	const struct elf_source *src;
	Elf64_Ehdr head;
	Elf64_Shdr *sections;
};

static bool inside(const struct elf_source *src, uint64_t offset, uint64_t size)
{
	return offset <= src->size && size <= src->size - offset;
}

static int read_at(const struct elf_source *src, uint64_t offset, void *out, size_t len,
		   struct err *e)
{
	if (!inside(src, offset, len))
		return err_set(e, ERR_INVALID, "ELF: %zu bytes at %llu are beyond the end", len,
			       (unsigned long long)offset);
	return src->read(src->arg, offset, out, len, e);
}

static int read_head(struct file *f, struct err *e)
{
	const Elf64_Ehdr *h = &f->head;
	int rc = read_at(f->src, 0, &f->head, sizeof(f->head), e);

	if (rc)
		return rc;
	if (memcmp(h->e_ident, ELFMAG, SELFMAG))
		return err_set(e, ERR_INVALID, "not an ELF file");
	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB)
		return err_set(e, ERR_UNSUPPORTED, "ELF: not 64-bit little-endian");
	if (h->e_shnum && h->e_shentsize != sizeof(Elf64_Shdr))
		return err_set(e, ERR_INVALID, "ELF: section headers of %u bytes", h->e_shentsize);
	if (h->e_phnum && h->e_phentsize != sizeof(Elf64_Phdr))
		return err_set(e, ERR_INVALID, "ELF: program headers of %u bytes", h->e_phentsize);
	return 0;
}

static int read_segments(const struct file *f, struct elf_symbols *out, struct err *e)
{
	Elf64_Phdr ph;

	for (unsigned int i = 0; i < f->head.e_phnum && out->n_segments < SEGMENTS_MAX; i++) {
		int rc = read_at(f->src, f->head.e_phoff + i * sizeof(ph), &ph, sizeof(ph), e);

		if (rc)
			return rc;
		if (ph.p_type != PT_LOAD || !(ph.p_flags & PF_X))
			continue;
		if (!out->segments)
			out->segments = xcalloc(SEGMENTS_MAX, sizeof(*out->segments));
		out->segments[out->n_segments++] = (struct elf_segment){ .offset = ph.p_offset,
									 .size = ph.p_filesz,
									 .address = ph.p_vaddr };
	}
	return 0;
}

static int read_sections(struct file *f, struct err *e)
{
	size_t bytes = f->head.e_shnum * sizeof(*f->sections);

	if (!bytes)
		return 0;
	if (!inside(f->src, f->head.e_shoff, bytes))
		return err_set(e, ERR_INVALID, "ELF: section headers are beyond the end");
	f->sections = xmalloc(bytes);
	return read_at(f->src, f->head.e_shoff, f->sections, bytes, e);
}

static const Elf64_Shdr *find_section(const struct file *f, uint32_t type)
{
	for (unsigned int i = 0; i < f->head.e_shnum; i++)
		if (f->sections[i].sh_type == type)
			return &f->sections[i];
	return NULL;
}

/* A table can be used if it and its names lie in the file (a debug file keeps only the header). */
static const Elf64_Shdr *symbol_table(const struct file *f, const Elf64_Shdr **names)
{
	static const uint32_t types[] = { SHT_SYMTAB, SHT_DYNSYM };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		const Elf64_Shdr *t = find_section(f, types[i]);

		if (!t || t->sh_entsize != sizeof(Elf64_Sym) || t->sh_link >= f->head.e_shnum)
			continue;
		*names = &f->sections[t->sh_link];
		if (inside(f->src, t->sh_offset, t->sh_size) && (*names)->sh_type == SHT_STRTAB &&
		    inside(f->src, (*names)->sh_offset, (*names)->sh_size))
			return t;
	}
	return NULL;
}

static bool is_function(const Elf64_Sym *s)
{
	unsigned int type = ELF64_ST_TYPE(s->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC) && s->st_value && s->st_name &&
	       s->st_shndx != SHN_UNDEF;
}

static void add_functions(struct elf_symbols *out, size_t *cap, const Elf64_Sym *syms, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!is_function(&syms[i]))
			continue;
		if (out->n == *cap) {
			*cap = *cap ? 2 * *cap : 256;
			out->v = xrealloc(out->v, *cap * sizeof(*out->v));
		}
		out->v[out->n++] = (struct elf_symbol){
			.address = syms[i].st_value,
			.size = syms[i].st_size < UINT32_MAX ? (uint32_t)syms[i].st_size
							     : UINT32_MAX,
			.name = syms[i].st_name,
		};
	}
}

static int by_address(const void *a, const void *b)
{
	const struct elf_symbol *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	if (x->size != y->size)
		return x->size > y->size ? -1 : 1; /* one with a size first */
	return (x->name > y->name) - (x->name < y->name);
}

/* Of several names for one place the first stays. */
static void sort_and_thin(struct elf_symbols *es)
{
	size_t n = 0;

	if (!es->n)
		return;
	sort_array(es->v, es->n, sizeof(*es->v), by_address);
	for (size_t i = 0; i < es->n; i++)
		if (!n || es->v[i].address != es->v[n - 1].address)
			es->v[n++] = es->v[i];
	es->n = n;
	es->v = xrealloc(es->v, n * sizeof(*es->v));
}

static int read_symbols(const struct file *f, struct elf_symbols *out, struct err *e)
{
	const Elf64_Shdr *names, *table = symbol_table(f, &names);
	size_t n, cap = 0;
	Elf64_Sym *syms;
	int rc = 0;

	if (!table)
		return 0;
	n = (size_t)(table->sh_size / sizeof(*syms));
	if (n > SYMBOLS_MAX)
		return err_set(e, ERR_LIMIT, "ELF: %zu symbols, limit %u", n, SYMBOLS_MAX);
	syms = xmalloc(CHUNK * sizeof(*syms));
	for (size_t i = 0; i < n && !rc; i += CHUNK) {
		size_t some = n - i < CHUNK ? n - i : CHUNK;

		rc = read_at(f->src, table->sh_offset + i * sizeof(*syms), syms,
			     some * sizeof(*syms), e);
		if (!rc)
			add_functions(out, &cap, syms, some);
	}
	free(syms);
	out->names_offset = names->sh_offset;
	out->names_size = names->sh_size;
	sort_and_thin(out);
	return rc;
}

int elf_symbols_load(struct elf_symbols *out, const struct elf_source *src, struct err *e)
{
	struct file f = { .src = src };
	int rc;

	*out = (struct elf_symbols){ 0 };
	rc = read_head(&f, e);
	if (!rc)
		rc = read_segments(&f, out, e);
	if (!rc)
		rc = read_sections(&f, e);
	if (!rc)
		rc = read_symbols(&f, out, e);
	free(f.sections);
	if (rc)
		elf_symbols_release(out);
	return rc;
}

void elf_symbols_release(struct elf_symbols *es)
{
	free(es->v);
	free(es->segments);
	*es = (struct elf_symbols){ 0 };
}

size_t elf_symbols_bytes(const struct elf_symbols *es)
{
	return es->n * sizeof(*es->v) + (es->n_segments ? SEGMENTS_MAX * sizeof(*es->segments) : 0);
}

static bool address_of(const struct elf_symbols *es, uint64_t file_offset, uint64_t *out)
{
	for (size_t i = 0; i < es->n_segments; i++) {
		const struct elf_segment *s = &es->segments[i];

		if (file_offset < s->offset || file_offset - s->offset >= s->size)
			continue;
		*out = file_offset - s->offset + s->address;
		return true;
	}
	return false;
}

const struct elf_symbol *elf_symbols_find(const struct elf_symbols *es, uint64_t file_offset)
{
	size_t low = 0, high = es->n;
	uint64_t address;

	if (!address_of(es, file_offset, &address))
		return NULL;
	while (low < high) {
		size_t mid = (low + high) / 2;

		if (es->v[mid].address <= address)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return NULL;
	if (es->v[low - 1].size && address - es->v[low - 1].address >= es->v[low - 1].size)
		return NULL;
	return &es->v[low - 1];
}

int elf_symbols_name(const struct elf_symbols *es, const struct elf_source *src,
		     const struct elf_symbol *sym, char *out, size_t size, struct err *e)
{
	uint64_t left = sym->name < es->names_size ? es->names_size - sym->name : 0;
	size_t len = left < size - 1 ? (size_t)left : size - 1;
	int rc = read_at(src, es->names_offset + sym->name, out, len, e);

	out[rc ? 0 : len] = '\0';
	return rc;
}
