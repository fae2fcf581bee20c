/* SPDX-License-Identifier: Apache-2.0 */
/* The only source of random numbers. Any thread. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Fills `out` from the kernel's generator; never fails on Linux >= 3.17, aborts otherwise. */
void random_bytes(void *out, size_t len);

/* A random pause before another attempt, 0.5 to 1.5 times `pause_ns`, so that hosts that failed together do
 * not all try again together. */
int64_t random_pause_ns(int64_t pause_ns);

#endif
