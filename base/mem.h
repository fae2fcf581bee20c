/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small allocations that cannot fail: out of memory ends the process.
 *
 * For sizes that come from outside, check against proto/limits.h first.
 * Everything returned is freed with free().
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/err.h"

void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size); /* zeroed; aborts on overflow of the product */
void *xrealloc(void *p, size_t size);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t max);
char *xasprintf(const char *fmt, ...) PRINTF_LIKE(1, 2);
char *xvasprintf(const char *fmt, va_list args) PRINTF_LIKE(1, 0);

/* qsort() for arrays that may be empty: qsort() with a NULL base is undefined even then. */
static inline void sort_array(void *base, size_t n, size_t size,
			      int (*order)(const void *, const void *))
{
	if (n)
		qsort(base, n, size, order);
}

/* The enclosing struct of an embedded member. */
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define ARRAY_SIZE(a)			(sizeof(a) / sizeof((a)[0]))

#endif
