/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/text.h"

#include <stdint.h>

#include "base/buf.h"
#include "base/utf8.h"

size_t text_valid(const uint8_t *p, size_t len)
{
	size_t at = 0;

	while (at < len) {
		size_t n = p[at] < 0x80 ? 1 : utf8_len(p + at, len - at);

		if (!n)
			break;
		at += n;
	}
	return at;
}

const char *text_clean(const char *s, size_t len, struct buf *scratch)
{
	const uint8_t *p = (const uint8_t *)s;
	size_t good = text_valid(p, len);

	if (good == len)
		return s;
	buf_reset(scratch);
	for (; len; good = text_valid(p, len)) {
		buf_add(scratch, p, good);
		if (good < len)
			buf_add_u8(scratch, '?');
		good += good < len;
		p += good;
		len -= good;
	}
	return buf_str(scratch);
}
