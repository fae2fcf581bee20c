/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/token_life.h"

#include <string.h>

#include "base/buf.h"
#include "json/json_text.h"

bool token_is_word(const char *token)
{
	size_t len = 0;

	for (; token[len]; len++)
		if (token[len] <= ' ' || token[len] > '~' || len == TOKEN_MOST_BYTES)
			return false;
	return len;
}

static int digit_of(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* base64url without padding; false for any other character. */
static bool decode(const char *text, size_t len, struct buf *out)
{
	uint32_t bits = 0;
	int n = 0;

	for (size_t i = 0; i < len; i++) {
		int digit = digit_of(text[i]);

		if (digit < 0)
			return false;
		bits = (bits << 6 | (uint32_t)digit) & 0xffffff;
		n += 6;
		if (n >= 8) {
			n -= 8;
			buf_add_u8(out, (uint8_t)(bits >> n));
		}
	}
	return true;
}

int64_t token_life_s(const char *token)
{
	const char *claims = strchr(token, '.'), *end = claims ? strchr(claims + 1, '.') : NULL;
	struct buf text = BUF_INIT;
	json_t *doc = NULL;
	double life = 0;

	if (!end || (size_t)(end - claims) > TOKEN_MOST_BYTES ||
	    !decode(claims + 1, (size_t)(end - claims - 1), &text))
		goto out;
	if (json_parse(&doc, buf_str(&text), text.len, NULL))
		goto out;
	life = json_number_value(json_object_get(doc, "exp")) -
	       json_number_value(json_object_get(doc, "iat"));
	json_decref(doc);
out:
	buf_release(&text);
	return life >= 1 && life <= TOKEN_MOST_LIFE_S ? (int64_t)life : 0;
}
