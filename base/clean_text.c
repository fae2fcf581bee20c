/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clean_text.h"

#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"

#define BYTES(v) (UINT64_C(0x0101010101010101) * (v))

/* Whether all eight bytes are ' ' to '~'. */
static bool are_plain(uint64_t bytes)
{
	uint64_t low = (bytes - BYTES(' ')) & ~bytes, del = (bytes ^ BYTES(0x7f)) - BYTES(1);

	return !((bytes | low | del) & BYTES(0x80));
}

size_t clean_text(char *dst, size_t size, const char *src, size_t len)
{
	const uint8_t *p = (const uint8_t *)src;
	size_t out = 0;
	uint64_t eight;

	for (; len - out >= sizeof(eight) && size - out > sizeof(eight); out += sizeof(eight)) {
		memcpy(&eight, src + out, sizeof(eight));
		if (!are_plain(eight))
			break;
		memcpy(dst + out, &eight, sizeof(eight));
	}
	while (out < len && out + 1 < size && p[out] >= ' ' && p[out] < 0x7f) { /* most of it */
		dst[out] = src[out];
		out++;
	}
	for (size_t i = out; i < len && p[i];) {
		size_t n = utf8_len(p + i, len - i);
		bool control = n && (utf8_is_control(p + i, n) || utf8_is_bidi_control(p + i, n));
		size_t put = n && !control ? n : 1;

		if (out + put >= size)
			break;
		if (n && !control)
			memcpy(dst + out, p + i, n);
		else
			dst[out] = control ? ' ' : '?';
		out += put;
		i += n ? n : 1;
	}
	dst[out] = '\0';
	return out;
}

size_t clean_sentence(char *dst, size_t size, const char *src, size_t len)
{
	clean_text(dst, size, src, len);
	/* A result that fills dst may have been cut. */
	if (strnlen(src, len) >= size) {
		memset(dst + strlen(dst), ' ', size - 1 - strlen(dst));
		end_cut_sentence(dst, size);
	}
	return strlen(dst);
}
