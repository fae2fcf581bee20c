/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/symbols/elf_file.h"

#include <string.h>

#include "base/mem.h"

#define NAMES_BYTES_MAX (1U << 20) /* largest table of section names */
#define NOTE_BYTES_MAX	4096

bool elf_source_has(const struct elf_source *src, uint64_t offset, uint64_t size)
{
	return offset <= src->size && size <= src->size - offset;
}

int elf_source_read(const struct elf_source *src, uint64_t offset, void *out, size_t len,
		    struct err *e)
{
	if (!elf_source_has(src, offset, len))
		return err_set(e, ERR_INVALID, "ELF: %zu bytes at %llu are beyond the end", len,
			       (unsigned long long)offset);
	return src->read(src->arg, offset, out, len, e);
}

static int read_head(struct elf_file *f, struct err *e)
{
	const Elf64_Ehdr *h = &f->head;
	int rc = elf_source_read(f->src, 0, &f->head, sizeof(f->head), e);

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

static int read_sections(struct elf_file *f, struct err *e)
{
	size_t bytes = f->head.e_shnum * sizeof(*f->sections);

	if (!bytes)
		return 0;
	if (!elf_source_has(f->src, f->head.e_shoff, bytes))
		return err_set(e, ERR_INVALID, "ELF: section headers are beyond the end");
	f->sections = xmalloc(bytes);
	return elf_source_read(f->src, f->head.e_shoff, f->sections, bytes, e);
}

/* Names of sections are optional: without them a file may still have functions. */
static void read_names(struct elf_file *f)
{
	const Elf64_Shdr *s;

	if (f->head.e_shstrndx >= f->head.e_shnum)
		return;
	s = &f->sections[f->head.e_shstrndx];
	if (s->sh_type != SHT_STRTAB || s->sh_size > NAMES_BYTES_MAX ||
	    !elf_source_has(f->src, s->sh_offset, s->sh_size))
		return;
	f->names = xcalloc(1, (size_t)s->sh_size + 1);
	if (!elf_source_read(f->src, s->sh_offset, f->names, (size_t)s->sh_size, NULL))
		f->names_size = (size_t)s->sh_size;
}

int elf_file_open(struct elf_file *f, const struct elf_source *src, struct err *e)
{
	int rc;

	*f = (struct elf_file){ .src = src };
	rc = read_head(f, e);
	if (!rc)
		rc = read_sections(f, e);
	if (!rc)
		read_names(f);
	return rc;
}

void elf_file_close(struct elf_file *f)
{
	free(f->sections);
	free(f->names);
	*f = (struct elf_file){ 0 };
}

const char *elf_section_name(const struct elf_file *f, const Elf64_Shdr *section)
{
	return section->sh_name < f->names_size ? f->names + section->sh_name : "";
}

const Elf64_Shdr *elf_file_section(const struct elf_file *f, const char *name)
{
	for (unsigned int i = 0; i < f->head.e_shnum; i++) {
		const Elf64_Shdr *s = &f->sections[i];

		if (s->sh_type != SHT_NOBITS && !strcmp(elf_section_name(f, s), name) &&
		    elf_source_has(f->src, s->sh_offset, s->sh_size))
			return s;
	}
	return NULL;
}

/* The notes of one section, which are padded to 4 bytes each. */
static bool find_build_id(const uint8_t *notes, size_t len, struct build_id *out)
{
	Elf64_Nhdr h;

	while (len >= sizeof(h)) {
		uint64_t name, desc;

		memcpy(&h, notes, sizeof(h));
		name = ((uint64_t)h.n_namesz + 3) & ~UINT64_C(3);
		desc = ((uint64_t)h.n_descsz + 3) & ~UINT64_C(3);
		if (name > len - sizeof(h) || desc > len - sizeof(h) - name)
			return false;
		if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 &&
		    !memcmp(notes + sizeof(h), "GNU", 4) && h.n_descsz &&
		    h.n_descsz <= BUILD_ID_BYTES_MAX) {
			memcpy(out->bytes, notes + sizeof(h) + name, h.n_descsz);
			out->len = h.n_descsz;
			return true;
		}
		notes += sizeof(h) + name + desc;
		len -= sizeof(h) + (size_t)(name + desc);
	}
	return false;
}

struct build_id elf_file_build_id(const struct elf_file *f)
{
	uint8_t notes[NOTE_BYTES_MAX];
	struct build_id id = { .len = 0 };

	for (unsigned int i = 0; i < f->head.e_shnum; i++) {
		const Elf64_Shdr *s = &f->sections[i];

		if (s->sh_type != SHT_NOTE || s->sh_size > sizeof(notes) ||
		    elf_source_read(f->src, s->sh_offset, notes, (size_t)s->sh_size, NULL))
			continue;
		if (find_build_id(notes, (size_t)s->sh_size, &id))
			break;
	}
	return id;
}
