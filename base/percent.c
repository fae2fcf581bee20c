/* SPDX-License-Identifier: Apache-2.0 */
#include "base/percent.h"

#include <string.h>

#include "base/hex.h"

/* Two hex digits to 1..255; -1 for anything else: a NUL would hide the text after it. */
static int decode_escape(const char *text, size_t left)
{
	int high, low;

	if (left < 2)
		return -1;
	high = hex_digit(text[0]);
	low = hex_digit(text[1]);
	if (high < 0 || low < 0 || !(high | low))
		return -1;
	return high << 4 | low;
}

int percent_decode(const char *text, size_t len, bool plus_is_space, char *out, struct err *e)
{
	for (size_t i = 0; i < len; i++) {
		int c = (unsigned char)text[i];

		if (c == '%') {
			c = decode_escape(text + i + 1, len - i - 1);
			i += 2;
		} else if (c == '+' && plus_is_space) {
			c = ' ';
		}
		if (c <= 0)
			return err_set(e, ERR_INVALID, "a bad escape or a NUL in the address");
		*out++ = (char)c;
	}
	*out = '\0';
	return 0;
}

void percent_encode(struct buf *out, const char *text, const char *keep)
{
	static const char digits[] = "0123456789ABCDEF";

	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c >= '0' && c <= '9') || strchr("-_.~", c) || strchr(keep, c);

		if (plain) {
			buf_add_u8(out, c);
			continue;
		}
		buf_add_u8(out, '%');
		buf_add_u8(out, (uint8_t)digits[c >> 4]);
		buf_add_u8(out, (uint8_t)digits[c & 15]);
	}
}
