/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/symbols/debug_file.h"

#include <lzma.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/hex.h"
#include "base/mem.h"

#define DEBUG_ROOT	"/usr/lib/debug"
#define FILE_BYTES_MAX	((uint64_t)8 << 30)
#define PACKED_MAX	((uint64_t)32 << 20) /* bytes of .gnu_debugdata */
#define UNPACKED_MAX	((size_t)64 << 20)
#define LZMA_MEMORY_MAX ((uint64_t)128 << 20)
#define CHECKED_MAX	((uint64_t)256 << 20) /* largest file whose checksum is computed */
#define CHUNK_BYTES	((size_t)64 << 10)

/* The stripped file. */
struct stripped {
	struct far_files *files;
	struct far_place place;
	const char *path;
	const struct elf_source *src;
	struct elf_file file;
	struct build_id id;
	char link[256]; /* name in .gnu_debuglink, or "" */
	uint32_t link_crc;
};

static int read_memory(void *arg, uint64_t offset, void *out, size_t len, struct err *e)
{
	const struct buf *b = arg;

	(void)e;
	memcpy(out, b->data + offset, len); /* elf_source_read() checks it against the size */
	return 0;
}

static struct elf_source source_of(struct debug_file *d)
{
	if (!d->path)
		return (struct elf_source){ .read = read_memory,
					    .arg = &d->memory,
					    .size = d->memory.len };
	return (struct elf_source){ .read = far_file_read,
				    .arg = &d->file,
				    .size = (uint64_t)d->st.st_size };
}

void debug_file_close(struct debug_file *d)
{
	far_file_close(&d->file);
}

void debug_file_release(struct debug_file *d)
{
	debug_file_close(d);
	elf_symbols_release(&d->elf);
	buf_release(&d->memory);
	free(d->path);
	*d = (struct debug_file){ .file = FAR_FILE_CLOSED };
}

size_t debug_file_bytes(const struct debug_file *d)
{
	return elf_symbols_bytes(&d->elf) + d->memory.cap;
}

static int open_debug(struct debug_file *d, struct stat *st)
{
	return d->is_here ? far_open_here(d->files, &d->place, d->path, &d->file, st, NULL)
			  : far_open(d->files, &d->place, d->path, &d->file, st, NULL);
}

/* ---- whether a file is the right one ---- */

static bool has_checksum(const struct elf_source *src, uint32_t want)
{
	uint8_t *chunk = xmalloc(CHUNK_BYTES);
	uLong crc = crc32(0, NULL, 0);
	uint64_t at = 0;
	int rc = src->size > CHECKED_MAX;

	while (!rc && at < src->size) {
		size_t n = src->size - at < CHUNK_BYTES ? (size_t)(src->size - at) : CHUNK_BYTES;

		rc = elf_source_read(src, at, chunk, n, NULL);
		if (!rc)
			crc = crc32(crc, chunk, (uInt)n);
		at += n;
	}
	free(chunk);
	return !rc && (uint32_t)crc == want;
}

static bool is_debug_file_of(const struct stripped *s, const struct elf_source *src)
{
	struct elf_file f;
	struct build_id id = { .len = 0 };

	if (!elf_file_open(&f, src, NULL))
		id = elf_file_build_id(&f);
	elf_file_close(&f);
	if (s->id.len)
		return id.len == s->id.len && !memcmp(id.bytes, s->id.bytes, id.len);
	return has_checksum(src, s->link_crc);
}

/* Takes the file at `path` if it is the right one. */
static bool try_file(struct debug_file *d, const struct stripped *s, bool is_here, const char *path)
{
	struct elf_source src;
	int rc;

	d->files = s->files;
	d->place = s->place;
	d->is_here = is_here;
	d->path = xstrdup(path);
	rc = open_debug(d, &d->st);
	src = source_of(d);
	if (!rc && src.size <= FILE_BYTES_MAX && is_debug_file_of(s, &src) &&
	    !elf_symbols_load(&d->elf, &src, NULL) && d->elf.has_symtab && d->elf.n)
		return true;
	debug_file_release(d);
	return false;
}

static bool try_both(struct debug_file *d, const struct stripped *s, const char *path)
{
	return try_file(d, s, false, path) || try_file(d, s, true, path);
}

/* ---- where it may be ---- */

static bool find_by_build_id(struct debug_file *d, const struct stripped *s)
{
	char hex[2 * BUILD_ID_BYTES_MAX + 1], path[2 * BUILD_ID_BYTES_MAX + 64];

	if (s->id.len < 2)
		return false;
	hex_text(hex, s->id.bytes, s->id.len);
	snprintf(path, sizeof(path), DEBUG_ROOT "/.build-id/%.2s/%s.debug", hex, hex + 2);
	return try_both(d, s, path);
}

/* The name, padded to 4 bytes, and the checksum behind it. */
static void read_link(struct stripped *s)
{
	const Elf64_Shdr *section = elf_file_section(&s->file, ".gnu_debuglink");
	uint8_t bytes[sizeof(s->link) + 8] = { 0 };
	size_t len;

	if (!section || section->sh_size < 8 || section->sh_size > sizeof(bytes) ||
	    elf_source_read(s->src, section->sh_offset, bytes, (size_t)section->sh_size, NULL))
		return;
	len = strnlen((char *)bytes, (size_t)section->sh_size);
	if (len >= sizeof(s->link) || (len & ~(size_t)3) + 8 > section->sh_size)
		return;
	memcpy(&s->link_crc, bytes + (len & ~(size_t)3) + 4, 4);
	if (!memchr(bytes, '/', len))
		memcpy(s->link, bytes, len);
}

static bool find_by_link(struct debug_file *d, const struct stripped *s)
{
	static const char *const places[][2] = { { "", "" },
						 { "", "/.debug" },
						 { DEBUG_ROOT, "" } };
	const char *slash = strrchr(s->path, '/');
	bool found = false;

	for (size_t i = 0; s->link[0] && slash && !found && i < ARRAY_SIZE(places); i++) {
		char *path = xasprintf("%s%.*s%s/%s", places[i][0], (int)(slash - s->path), s->path,
				       places[i][1], s->link);

		found = strcmp(path, s->path) && try_both(d, s, path);
		free(path);
	}
	return found;
}

static bool unpack(const uint8_t *packed, size_t len, struct buf *out)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	lzma_ret rc = lzma_stream_decoder(&stream, LZMA_MEMORY_MAX, 0);

	stream.next_in = packed;
	stream.avail_in = len;
	while (rc == LZMA_OK && out->len < UNPACKED_MAX) {
		buf_reserve(out, CHUNK_BYTES);
		stream.next_out = out->data + out->len;
		stream.avail_out = CHUNK_BYTES;
		rc = lzma_code(&stream, LZMA_FINISH);
		out->len += CHUNK_BYTES - stream.avail_out;
	}
	lzma_end(&stream);
	return rc == LZMA_STREAM_END;
}

/* .gnu_debugdata (Fedora): a compressed ELF file with the functions that are not exported. */
static bool find_inside(struct debug_file *d, const struct stripped *s)
{
	const Elf64_Shdr *section = elf_file_section(&s->file, ".gnu_debugdata");
	struct elf_source src;
	uint8_t *packed;
	bool found;

	if (!section || section->sh_size > PACKED_MAX)
		return false;
	packed = xmalloc((size_t)section->sh_size + 1);
	found = !elf_source_read(s->src, section->sh_offset, packed, (size_t)section->sh_size,
				 NULL) &&
		unpack(packed, (size_t)section->sh_size, &d->memory);
	free(packed);
	src = source_of(d);
	if (found && !elf_symbols_load(&d->elf, &src, NULL) && d->elf.n)
		return true;
	debug_file_release(d);
	return false;
}

void debug_file_find(struct debug_file *out, struct far_files *files, const struct far_place *place,
		     const char *path, const struct elf_source *src)
{
	struct stripped s = { .files = files, .place = *place, .path = path, .src = src };

	*out = (struct debug_file){ .file = FAR_FILE_CLOSED };
	if (!elf_file_open(&s.file, src, NULL)) {
		s.id = elf_file_build_id(&s.file);
		read_link(&s);
		if (!find_by_build_id(out, &s) && !find_by_link(out, &s))
			(void)find_inside(out, &s);
	}
	elf_file_close(&s.file);
}

/* ---- names ---- */

/* Opens the debug file again; refuses another file that is at the path by now. */
static bool open_again(struct debug_file *d)
{
	struct stat st;
	int rc;

	if (!d->path || far_file_is_open(&d->file))
		return true;
	rc = open_debug(d, &st);
	if (rc && !d->is_here) /* the process may have ended */
		rc = far_open_here(d->files, &d->place, d->path, &d->file, &st, NULL);
	if (!rc && st.st_ino == d->st.st_ino && st.st_dev == d->st.st_dev &&
	    st.st_size == d->st.st_size && st.st_mtim.tv_sec == d->st.st_mtim.tv_sec)
		return true;
	debug_file_close(d);
	return false;
}

int debug_file_name(struct debug_file *d, uint64_t address, char *out, size_t size)
{
	struct elf_source src;

	if (!d->elf.n || !open_again(d))
		return ERR_NOT_FOUND;
	src = source_of(d);
	return elf_symbols_name(&d->elf, &src, address, out, size, NULL);
}
