/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of places in images: indexes of ELF files, the kernel's symbols, the maps that JIT compilers
 * write. Reads files and may block: it is lent to one worker at a time and used by nobody else.
 */
#ifndef AGENT_SYMBOLS_SYMBOLS_H
#define AGENT_SYMBOLS_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/symbols/images.h"
#include "agent/proc/maps.h"

struct symbols;

struct symbols *symbols_new(void);
void symbols_free(struct symbols *sy);

/* Around the work of one job. After symbols_begin() the epoch may be a new one: names of earlier
 * epochs are gone, their numbers mean nothing. */
void symbols_begin(struct symbols *sy);
void symbols_end(struct symbols *sy);
uint32_t symbols_epoch(const struct symbols *sy); /* never 0 */

/*
 * The name's number, never 0: equal names are one number. What has no name of its own is called
 * "[libfoo.so+0x1234]", "[jit]", "[kernel]" or "[unknown]"; the kernel's functions "[k] name".
 */
uint32_t symbols_resolve(struct symbols *sy, const struct image *image, uint64_t offset);

/* UTF-8 without control characters; borrowed until the next resolve. */
const char *symbols_text(const struct symbols *sy, uint32_t name);

/* The mappings of an IMAGE_KIND_PROCESS as read from /proc; NULL if they could not be read. */
const struct proc_maps *symbols_maps(struct symbols *sy, const struct image *image);

#endif
