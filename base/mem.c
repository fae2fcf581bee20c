/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *abort_if_null(void *p)
{
	if (!p) {
		fputs("E BASE-MEM out of memory\n", stderr);
		abort();
	}
	return p;
}

void *xmalloc(size_t size)
{
	return abort_if_null(malloc(size ? size : 1));
}

void *xcalloc(size_t count, size_t size)
{
	return abort_if_null(calloc(count ? count : 1, size ? size : 1));
}

void *xrealloc(void *p, size_t size)
{
	return abort_if_null(realloc(p, size ? size : 1));
}

char *xstrdup(const char *s)
{
	return abort_if_null(strdup(s));
}

char *xstrndup(const char *s, size_t max)
{
	return abort_if_null(strndup(s, max));
}

char *xvasprintf(const char *fmt, va_list args)
{
	char *out;

	return abort_if_null(vasprintf(&out, fmt, args) < 0 ? NULL : out);
}

char *xasprintf(const char *fmt, ...)
{
	va_list args;
	char *out;

	va_start(args, fmt);
	out = xvasprintf(fmt, args);
	va_end(args);
	return out;
}
