/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives freed memory back to the kernel, within 10 s. An agent needs about 100 MiB for a moment in each
 * capture, and a hostile peer can make an aggregator allocate some dozens of MiB. malloc() keeps freed
 * memory, so without this the process would stay as large as it ever was.
 */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdint.h>

#include "base/loop.h"

struct memory;

/* To be called before any thread starts. Makes malloc() use few heaps, map blocks of `large_bytes` and more separately,
 * and keep up to `kept_bytes` that are free at a heap's end: work that is done again and again should find its memory
 * there, because a page that was given back costs a page fault. */
void memory_set_up(int large_bytes, int kept_bytes);

/* Every few seconds, if the process is larger than it was, a worker returns what has been freed since. */
struct memory *memory_new(struct loop *loop);
void memory_free(struct memory *m);

/* Resident bytes of this process, 0 if unknown. */
uint64_t memory_resident_bytes(void);

#endif
