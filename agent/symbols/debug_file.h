/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of a stripped file that are kept elsewhere, in this order: the file that its build id
 * names in /usr/lib/debug/.build-id, in the process's root and then in the agent's; the file that its
 * .gnu_debuglink names, beside it or below /usr/lib/debug; its own .gnu_debugdata. A file with another
 * build id, or another checksum where there is no build id, is not taken.
 */
#ifndef AGENT_SYMBOLS_DEBUG_FILE_H
#define AGENT_SYMBOLS_DEBUG_FILE_H

#include <sys/stat.h>

#include "agent/proc/far_file.h"
#include "agent/symbols/elf_symbols.h"
#include "base/buf.h"

struct debug_file {
	struct elf_symbols elf; /* n == 0: nothing was found */
	char *path; /* NULL: the bytes are in `memory` */
	struct far_files *files;
	struct far_place place; /* of the process's other files */
	bool is_here; /* in the agent's root, not in the process's */
	struct stat st;
	struct far_file file;
	struct buf memory;
};

/* Searches for the functions of the stripped file at `path` in the root of the process that `place` names; `src` reads that
 * file. The caller frees `out` with debug_file_release(). */
void debug_file_find(struct debug_file *out, struct far_files *files, const struct far_place *place,
		     const char *path, const struct elf_source *src);
void debug_file_release(struct debug_file *d);
void debug_file_close(struct debug_file *d); /* debug_file_name() opens it again */
size_t debug_file_bytes(const struct debug_file *d);

/* As elf_symbols_name(). */
MUST_CHECK int debug_file_name(struct debug_file *d, uint64_t address, char *out, size_t size);

#endif
