/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growable array of bytes. `data` always has a NUL after `len`, so text can be read as a string once
 * anything was added. BUF_INIT or zeroing makes an empty one; buf_release() frees it.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct buf {
	uint8_t *data;
	size_t len;
	size_t cap;
};

#define BUF_INIT \
	{ \
		NULL, 0, 0 \
	}

void buf_release(struct buf *b); /* frees; the struct is empty afterwards */
void buf_reset(struct buf *b); /* len = 0, memory kept */
void buf_cut(struct buf *b, size_t len); /* keeps the first `len` bytes; no more than there are */
void buf_reserve(struct buf *b, size_t extra); /* memory for `extra` more bytes */
/* Memory for exactly `extra` more bytes; many of them are in huge pages where the system has any. */
void buf_reserve_all(struct buf *b, size_t extra);
void buf_add(struct buf *b, const void *data, size_t len);
void buf_add_str(struct buf *b, const char *s);
void buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_add_u8(struct buf *b, uint8_t v);
void buf_add_varint(struct buf *b, uint64_t v); /* protobuf base-128, 1 to 10 bytes */

/* The text so far; "" for an empty buffer. Borrowed until the next change. */
const char *buf_str(const struct buf *b);

/* Gives the memory to the caller, who frees it with free(); never NULL. The buffer is empty then. */
uint8_t *buf_detach(struct buf *b, size_t *len);

/* Writes v as a varint to `out`, of 10 bytes; returns how many were written. */
size_t varint_put(uint8_t *out, uint64_t v);
size_t varint_size(uint64_t v);

#endif
