/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clean_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Length of the well-formed UTF-8 sequence at p, or 0. */
static size_t sequence(const uint8_t *p, size_t left)
{
	/* Per length: the lead byte under its mask, and the first code point that needs that length. */
	static const struct {
		uint8_t mask, lead;
		uint32_t least;
	} forms[] = { { 0x80, 0x00, 0 },
		      { 0xe0, 0xc0, 0x80 },
		      { 0xf0, 0xe0, 0x800 },
		      { 0xf8, 0xf0, 0x10000 } };
	uint32_t c;

	for (size_t n = 1; n <= 4 && n <= left; n++) {
		if ((p[0] & forms[n - 1].mask) != forms[n - 1].lead)
			continue;
		c = p[0] & (uint8_t)~forms[n - 1].mask;
		for (size_t i = 1; i < n; i++) {
			if ((p[i] & 0xc0) != 0x80)
				return 0;
			c = c << 6 | (p[i] & 0x3f);
		}
		if (c < forms[n - 1].least || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
			return 0;
		return n;
	}
	return 0;
}

size_t clean_text(char *dst, size_t size, const char *src, size_t len)
{
	const uint8_t *p = (const uint8_t *)src;
	size_t out = 0;

	for (size_t i = 0; i < len && p[i];) {
		size_t n = sequence(p + i, len - i);
		size_t put = n ? n : 1;

		if (out + put >= size)
			break;
		if (n > 1)
			memcpy(dst + out, p + i, n);
		else if (!n)
			dst[out] = '?';
		else
			dst[out] = p[i] < 0x20 || p[i] == 0x7f ? ' ' : (char)p[i];
		out += put;
		i += put;
	}
	dst[out] = '\0';
	return out;
}
