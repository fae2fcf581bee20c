/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/numbers.h"

#include <stdint.h>
#include <string.h>

static const char *parse_number(const char *text, double *out)
{
	double unit = 1;
	uint64_t v = 0;

	for (; *text >= '0' && *text <= '9'; text++)
		v = v * 10 + (uint64_t)(*text - '0');
	*out = (double)v;
	if (*text != '.')
		return text;
	for (text++; *text >= '0' && *text <= '9'; text++) {
		unit /= 10;
		*out += unit * (*text - '0');
	}
	return text;
}

size_t numbers_parse(const char *text, double *out, size_t n)
{
	size_t got = 0;

	while (got < n) {
		while (*text == ' ' || *text == '\t')
			text++;
		if (*text < '0' || *text > '9')
			break;
		text = parse_number(text, &out[got++]);
	}
	return got;
}

const char *text_after(const char *line, const char *key)
{
	size_t len = strlen(key);

	return strncmp(line, key, len) ? NULL : line + len;
}
