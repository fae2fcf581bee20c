/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds names of places in images: from indexes of ELF files, the kernel's symbols and the maps that JIT
 * compilers write. The functions read files and may block: only one worker at a time calls them.
 */
#ifndef AGENT_SYMBOLS_SYMBOLS_H
#define AGENT_SYMBOLS_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/symbols/images.h"
#include "agent/proc/maps.h"

struct file_keeper;
struct symbols;

/* `keeper` has readers for the files of programs, which may hang (agent/proc/far_file.h); borrowed. NULL: the callers
 * themselves read, and may hang. */
struct symbols *symbols_new(const struct file_keeper *keeper);
void symbols_free(struct symbols *sy);

/* Any thread. From now on everything resolves to "[unknown]" without reading files, so that a job under way
 * ends soon. */
void symbols_stop(struct symbols *sy);

/* Before and after the work of one job. symbols_begin() may start a new epoch: names of earlier epochs are
 * gone and their numbers void. */
void symbols_begin(struct symbols *sy);
void symbols_end(struct symbols *sy);
uint32_t symbols_epoch(const struct symbols *sy); /* never 0 */

/*
 * The name's number, never 0; equal names have one number. Code without a name is "[libfoo.so+0x1234]",
 * "[jit]", "[kernel]" or "[unknown]"; the kernel's functions are "[k] name".
 */
uint32_t symbols_resolve(struct symbols *sy, const struct image *image, uint64_t offset);

/* Why names are missing, for the last job: ERR_TIMEOUT, a file system does not answer; ERR_DENIED, a permission is missing, with
 * what to grant; 0 and "", none are. */
int symbols_missing(const struct symbols *sy, struct err *e);

/* The name without its offset: "[libfoo.so]" for "[libfoo.so+0x1234]"; any other name stays. */
uint32_t symbols_group(struct symbols *sy, uint32_t name);

/* UTF-8 without control characters; borrowed until the next resolve. */
const char *symbols_text(const struct symbols *sy, uint32_t name);

/* The mappings of an IMAGE_KIND_PROCESS as read from /proc; NULL if they could not be read. */
const struct proc_maps *symbols_maps(struct symbols *sy, const struct image *image);

#endif
