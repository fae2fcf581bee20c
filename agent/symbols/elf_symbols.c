/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/symbols/elf_symbols.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define SYMBOLS_MAX   (4U << 20)
#define SEGMENTS_MAX  64
#define SIZE_MAX_BITS ((1U << 30) - 1)
#define NESTED_MAX    8
#define CODE_MAX      1024
#define CHUNK	      2048 /* symbols read at once */
#define PLT_ENTRY     16 /* bytes, on all machines with 64 bits that Tutti runs on */

static int read_segments(const struct elf_file *f, struct elf_symbols *out, struct err *e)
{
	Elf64_Phdr ph;

	for (unsigned int i = 0; i < f->head.e_phnum && out->n_segments < SEGMENTS_MAX; i++) {
		int rc = elf_source_read(f->src, f->head.e_phoff + i * sizeof(ph), &ph, sizeof(ph),
					 e);

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

static const Elf64_Shdr *find_section(const struct elf_file *f, uint32_t type)
{
	for (unsigned int i = 0; i < f->head.e_shnum; i++)
		if (f->sections[i].sh_type == type)
			return &f->sections[i];
	return NULL;
}

/* A table can be used if it and its names lie in the file (a debug file keeps only the header). */
static const Elf64_Shdr *symbol_table(const struct elf_file *f, const Elf64_Shdr **names)
{
	static const uint32_t types[] = { SHT_SYMTAB, SHT_DYNSYM };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		const Elf64_Shdr *t = find_section(f, types[i]);

		if (!t || t->sh_entsize != sizeof(Elf64_Sym) || t->sh_link >= f->head.e_shnum)
			continue;
		*names = &f->sections[t->sh_link];
		if (elf_source_has(f->src, t->sh_offset, t->sh_size) &&
		    (*names)->sh_type == SHT_STRTAB &&
		    elf_source_has(f->src, (*names)->sh_offset, (*names)->sh_size))
			return t;
	}
	return NULL;
}

static struct elf_table table_of(const Elf64_Shdr *s)
{
	return (struct elf_table){ .offset = s->sh_offset, .size = s->sh_size };
}

static bool is_function(const Elf64_Sym *s)
{
	unsigned int type = ELF64_ST_TYPE(s->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC) && s->st_value && s->st_name &&
	       s->st_shndx != SHN_UNDEF;
}

static uint32_t rank_of(const Elf64_Sym *s)
{
	switch (ELF64_ST_BIND(s->st_info)) {
	case STB_GLOBAL:
		return 0;
	case STB_WEAK:
		return 1;
	default:
		return 2;
	}
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
			.size = syms[i].st_size < SIZE_MAX_BITS ? (uint32_t)syms[i].st_size
								: SIZE_MAX_BITS,
			.rank = rank_of(&syms[i]),
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
		/* the largest first; size 0 (unknown) comes last */
		return x->size > y->size ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1; /* "malloc" rather than "__GI___libc_malloc" */
	return (x->name > y->name) - (x->name < y->name);
}

/* Sorts by address and keeps only the first of several names for one place. */
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

static int read_symbols(const struct elf_file *f, struct elf_symbols *out, struct err *e)
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

		rc = elf_source_read(f->src, table->sh_offset + i * sizeof(*syms), syms,
				     some * sizeof(*syms), e);
		if (!rc)
			add_functions(out, &cap, syms, some);
	}
	free(syms);
	out->has_symtab = table->sh_type == SHT_SYMTAB;
	out->names = table_of(names);
	sort_and_thin(out);
	return rc;
}

static void read_code(const struct elf_file *f, struct elf_symbols *out)
{
	for (unsigned int i = 0; i < f->head.e_shnum && out->n_code < CODE_MAX; i++) {
		const Elf64_Shdr *s = &f->sections[i];

		if (!(s->sh_flags & SHF_EXECINSTR) || s->sh_size > UINT64_MAX - s->sh_addr)
			continue;
		if (!(out->n_code & (out->n_code - 1)))
			out->code = xrealloc(out->code, (out->n_code ? 2 * out->n_code : 1) *
								sizeof(*out->code));
		out->code[out->n_code++] = (struct elf_code){
			.address = s->sh_addr,
			.end = s->sh_addr + s->sh_size,
			.plt = !strncmp(elf_section_name(f, s), ".plt", 4),
			.named = !strcmp(elf_section_name(f, s), ".plt") ||
				 !strcmp(elf_section_name(f, s), ".plt.sec"),
		};
	}
}

/* Loads the names of linkage entries; without them an entry is called "[plt]". */
static void find_plt_names(const struct elf_file *f, struct elf_symbols *out)
{
	const Elf64_Shdr *relocations = elf_file_section(f, ".rela.plt"), *symbols, *names;

	if (!relocations || relocations->sh_link >= f->head.e_shnum)
		return;
	symbols = &f->sections[relocations->sh_link];
	if (symbols->sh_type != SHT_DYNSYM || symbols->sh_link >= f->head.e_shnum)
		return;
	names = &f->sections[symbols->sh_link];
	if (names->sh_type != SHT_STRTAB)
		return;
	out->plt_relocations = table_of(relocations);
	out->plt_symbols = table_of(symbols);
	out->plt_names = table_of(names);
}

int elf_symbols_load(struct elf_symbols *out, const struct elf_source *src, struct err *e)
{
	struct elf_file f;
	int rc = elf_file_open(&f, src, e);

	*out = (struct elf_symbols){ 0 };
	if (!rc)
		rc = read_segments(&f, out, e);
	if (!rc) {
		read_code(&f, out);
		find_plt_names(&f, out);
		rc = read_symbols(&f, out, e);
	}
	elf_file_close(&f);
	if (rc)
		elf_symbols_release(out);
	return rc;
}

void elf_symbols_release(struct elf_symbols *es)
{
	free(es->v);
	free(es->numbers);
	free(es->segments);
	free(es->code);
	*es = (struct elf_symbols){ 0 };
}

size_t elf_symbols_bytes(const struct elf_symbols *es)
{
	return es->n * (sizeof(*es->v) + (es->numbers ? sizeof(*es->numbers) : 0)) +
	       2 * es->n_code * sizeof(*es->code) +
	       (es->n_segments ? SEGMENTS_MAX * sizeof(*es->segments) : 0);
}

bool elf_symbols_address(const struct elf_symbols *es, uint64_t file_offset, uint64_t *out)
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

static const struct elf_code *find_code(const struct elf_symbols *es, uint64_t address)
{
	for (size_t i = 0; i < es->n_code; i++)
		if (address >= es->code[i].address && address < es->code[i].end)
			return &es->code[i];
	return NULL;
}

static const struct elf_symbol *find_symbol(const struct elf_symbols *es,
					    const struct elf_code *code, uint64_t address)
{
	size_t low = 0, high = es->n;
	const struct elf_symbol *s;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (es->v[mid].address <= address)
			low = mid + 1;
		else
			high = mid;
	}
	/* Searches backwards, since a function may have others inside it. */
	for (size_t i = low; i > 0 && low - i < NESTED_MAX; i--) {
		s = &es->v[i - 1];
		if (s->size && address - s->address < s->size)
			return s;
		/* Without a size it ends where its section does. */
		if (!s->size && i == low && (!code || s->address >= code->address))
			return s;
	}
	return NULL;
}

static int read_name(const struct elf_source *src, const struct elf_table *names, uint64_t at,
		     char *out, size_t size, struct err *e)
{
	uint64_t left = at < names->size ? names->size - at : 0;
	size_t len = left < size - 1 ? (size_t)left : size - 1;
	int rc = elf_source_read(src, names->offset + at, out, len, e);

	out[rc ? 0 : len] = '\0';
	if (!rc && !out[0])
		rc = err_set(e, ERR_NOT_FOUND, "ELF: a function without a name");
	return rc;
}

/* The i-th entry calls what the i-th relocation names; a section of the lazy kind begins with one or
 * two entries for the linker's own use. */
static int plt_callee(const struct elf_symbols *es, const struct elf_source *src,
		      const struct elf_code *code, uint64_t address, char *out, size_t size)
{
	uint64_t n = es->plt_relocations.size / sizeof(Elf64_Rela), symbol;
	uint64_t entries = (code->end - code->address) / PLT_ENTRY;
	uint64_t i = (address - code->address) / PLT_ENTRY;
	Elf64_Rela relocation;
	Elf64_Sym sym;

	if (!code->named || entries < n || entries - n > 2 || i < entries - n || i >= entries)
		return ERR_NOT_FOUND;
	i -= entries - n;
	if (elf_source_read(src, es->plt_relocations.offset + i * sizeof(relocation), &relocation,
			    sizeof(relocation), NULL))
		return ERR_NOT_FOUND;
	symbol = ELF64_R_SYM(relocation.r_info);
	if (!symbol || symbol >= es->plt_symbols.size / sizeof(sym) ||
	    elf_source_read(src, es->plt_symbols.offset + symbol * sizeof(sym), &sym, sizeof(sym),
			    NULL))
		return ERR_NOT_FOUND;
	return read_name(src, &es->plt_names, sym.st_name, out, size, NULL);
}

static void plt_name(const struct elf_symbols *es, const struct elf_source *src,
		     const struct elf_code *code, uint64_t address, char *out, size_t size)
{
	static const char suffix[] = "@plt";
	size_t len;

	if (size <= sizeof(suffix) ||
	    plt_callee(es, src, code, address, out, size - strlen(suffix))) {
		snprintf(out, size, "[plt]");
		return;
	}
	len = strlen(out);
	memcpy(out + len, suffix, sizeof(suffix));
}

int elf_symbols_name(const struct elf_symbols *es, const struct elf_source *src, uint64_t address,
		     char *out, size_t size, struct err *e)
{
	const struct elf_code *code = find_code(es, address);
	const struct elf_symbol *s = find_symbol(es, code, address);

	if (s)
		return read_name(src, &es->names, s->name, out, size, e);
	if (!code || !code->plt)
		return err_set(e, ERR_NOT_FOUND, "ELF: no function there");
	plt_name(es, src, code, address, out, size);
	return 0;
}

uint32_t *elf_symbols_number(struct elf_symbols *es, uint64_t address)
{
	const struct elf_symbol *s = find_symbol(es, find_code(es, address), address);

	if (!s)
		return NULL;
	if (!es->numbers)
		es->numbers = xcalloc(es->n, sizeof(*es->numbers));
	return &es->numbers[s - es->v];
}

void elf_symbols_clear_numbers(struct elf_symbols *es)
{
	free(es->numbers);
	es->numbers = NULL;
}
