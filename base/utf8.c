/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include "base/mem.h"

size_t utf8_len(const uint8_t *p, size_t left)
{
	static const struct {
		uint8_t first, last; /* range of the lead byte */
		uint8_t low, high; /* range of the second byte */
		uint8_t len;
	} forms[] = {
		{ 0x00, 0x7f, 0, 0, 1 },       { 0xc2, 0xdf, 0x80, 0xbf, 2 },
		{ 0xe0, 0xe0, 0xa0, 0xbf, 3 }, { 0xe1, 0xec, 0x80, 0xbf, 3 },
		{ 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 },
		{ 0xf0, 0xf0, 0x90, 0xbf, 4 }, { 0xf1, 0xf3, 0x80, 0xbf, 4 },
		{ 0xf4, 0xf4, 0x80, 0x8f, 4 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		size_t len = forms[i].len;

		if (*p < forms[i].first || *p > forms[i].last)
			continue;
		if (len > left || (len > 1 && (p[1] < forms[i].low || p[1] > forms[i].high)))
			return 0;
		for (size_t k = 2; k < len; k++) {
			if ((p[k] & 0xc0) != 0x80)
				return 0;
		}
		return len;
	}
	return 0;
}

bool utf8_is_control(const uint8_t *p, size_t len)
{
	return len == 1 ? *p < 0x20 || *p == 0x7f : len == 2 && *p == 0xc2 && p[1] < 0xa0;
}

bool utf8_is_bidi_control(const uint8_t *p, size_t len)
{
	return len == 3 && *p == 0xe2 &&
	       ((p[1] == 0x80 && p[2] >= 0xaa && p[2] <= 0xae) ||
		(p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9));
}
