/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives freed memory back to the kernel, within 10 s. A capture takes some 100 MiB of an agent for a moment,
 * and a hostile peer some dozens of an aggregator. malloc() keeps freed memory, so without this the process
 * would stay as large as it ever was.
 */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdint.h>

#include "base/loop.h"

struct memory;

/* Before any thread starts: few heaps, and large blocks apart from them. */
void memory_set_up(void);

/* Reads the size of the process every few seconds; if it grew, a worker returns what is free. */
struct memory *memory_new(struct loop *loop);
void memory_free(struct memory *m);

/* Resident bytes of this process, 0 if unknown. */
uint64_t memory_resident_bytes(void);

#endif
