/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"

/* From this size on page faults cost more than the bytes themselves. */
#define HUGE_BYTES ((size_t)8 << 20)
#define HUGE_PAGE  ((size_t)2 << 20)

void buf_release(struct buf *b)
{
	free(b->data);
	*b = (struct buf)BUF_INIT;
}

void buf_reset(struct buf *b)
{
	b->len = 0;
	if (b->data)
		b->data[0] = '\0';
}

void buf_cut(struct buf *b, size_t len)
{
	assert(len <= b->len);
	b->len = len;
	if (b->data)
		b->data[len] = '\0';
}

void buf_reserve(struct buf *b, size_t extra)
{
	size_t need = b->len + extra + 1;
	size_t cap = b->cap ? b->cap : 64;

	assert(extra < SIZE_MAX / 2 - b->len);
	if (need <= b->cap)
		return;
	while (cap < need)
		cap *= 2;
	b->data = xrealloc(b->data, cap);
	b->cap = cap;
}

/* A hint; where the system has no huge pages all stays as it is. */
static void prefer_huge_pages(const uint8_t *data, size_t size)
{
	uintptr_t from = ((uintptr_t)data + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
	uintptr_t until = ((uintptr_t)data + size) & ~(HUGE_PAGE - 1);

	if (from < until)
		(void)madvise((void *)from, until - from, MADV_HUGEPAGE);
}

void buf_reserve_all(struct buf *b, size_t extra)
{
	size_t need = b->len + extra + 1;

	assert(extra < SIZE_MAX / 2 - b->len);
	if (need <= b->cap)
		return;
	b->data = xrealloc(b->data, need);
	b->cap = need;
	if (need >= HUGE_BYTES)
		prefer_huge_pages(b->data, need);
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	buf_reserve(b, len);
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buf_add_str(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	buf_reserve(b, (size_t)n);
	va_start(ap, fmt);
	vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

void buf_add_u8(struct buf *b, uint8_t v)
{
	buf_add(b, &v, 1);
}

void buf_add_varint(struct buf *b, uint64_t v)
{
	uint8_t tmp[10];

	buf_add(b, tmp, varint_put(tmp, v));
}

const char *buf_str(const struct buf *b)
{
	return b->data ? (const char *)b->data : "";
}

uint8_t *buf_detach(struct buf *b, size_t *len)
{
	uint8_t *data;

	buf_reserve(b, 0);
	data = b->data;
	data[b->len] = '\0';
	if (len)
		*len = b->len;
	*b = (struct buf)BUF_INIT;
	return data;
}

size_t varint_put(uint8_t *out, uint64_t v)
{
	size_t n = 0;

	while (v >= 0x80) {
		out[n++] = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	out[n++] = (uint8_t)v;
	return n;
}

size_t varint_size(uint64_t v)
{
	size_t n = 1;

	while (v >= 0x80) {
		v >>= 7;
		n++;
	}
	return n;
}
