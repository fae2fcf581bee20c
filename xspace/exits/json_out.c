/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/exits/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean_text.h"
#include "base/mem.h"

void json_out_string(struct buf *out, const char *s, size_t len)
{
	char clean[EXIT_NAME_MAX + 1];
	size_t n = clean_text(clean, sizeof(clean), s, len);

	buf_add_u8(out, '"');
	for (size_t i = 0; i < n;) {
		size_t plain = i;

		while (plain < n && clean[plain] != '"' && clean[plain] != '\\')
			plain++;
		buf_add(out, clean + i, plain - i);
		if (plain < n) {
			buf_add_u8(out, '\\');
			buf_add_u8(out, (uint8_t)clean[plain++]);
		}
		i = plain;
	}
	buf_add_u8(out, '"');
}

#define KEPT_BYTES ((size_t)4 << 20)
#define KEPT_NAMES 200000

void json_out_names_reset(struct json_out_names *k)
{
	buf_reset(&k->text);
	if (k->n)
		memset(k->places, 0, k->n * sizeof(*k->places));
}

void json_out_names_release(struct json_out_names *k)
{
	buf_release(&k->text);
	free(k->places);
}

static struct json_out_place *place_of(struct json_out_names *k, uint32_t number)
{
	if (number >= k->n) {
		size_t n = 2 * (size_t)number + 64;

		k->places = xrealloc(k->places, n * sizeof(*k->places));
		memset(k->places + k->n, 0, (n - k->n) * sizeof(*k->places));
		k->n = n;
	}
	return &k->places[number];
}

void json_out_name(struct buf *out, struct json_out_names *k, const struct lanes_names *names,
		   uint32_t number)
{
	struct json_out_place *place = number < KEPT_NAMES ? place_of(k, number) : NULL;
	const char *text;
	size_t len;

	if (!place || !place->len) {
		text = lanes_text(names, number, &len);
		if (!place || k->text.len > KEPT_BYTES) {
			json_out_string(out, text, len);
			return;
		}
		place->at = (uint32_t)k->text.len;
		json_out_string(&k->text, text, len);
		place->len = (uint32_t)k->text.len - place->at;
	}
	buf_add(out, k->text.data + place->at, place->len);
}

/* With printf() it would be half of the time. A time has three digits behind a dot. */
static void put_number(struct buf *out, uint64_t v, bool is_time)
{
	char digits[24];
	size_t at = sizeof(digits), n = 0;

	do {
		if (is_time && n == 3)
			digits[--at] = '.';
		digits[--at] = (char)('0' + v % 10);
		v /= 10;
		n++;
	} while (v || (is_time && n < 4));
	buf_add(out, digits + at, sizeof(digits) - at);
}

void json_out_uint(struct buf *out, uint64_t v)
{
	put_number(out, v, false);
}

void json_out_us(struct buf *out, int64_t ns)
{
	if (ns < 0)
		buf_add_u8(out, '-');
	put_number(out, ns < 0 ? (uint64_t)-ns : (uint64_t)ns, true);
}

void json_out_double(struct buf *out, double v)
{
	char text[32];

	if (!isfinite(v)) {
		buf_add_str(out, "null");
		return;
	}
	snprintf(text, sizeof(text), "%.15g", v);
	if (strtod(text, NULL) != v)
		snprintf(text, sizeof(text), "%.16g", v);
	if (strtod(text, NULL) != v)
		snprintf(text, sizeof(text), "%.17g", v);
	buf_add_str(out, text);
}

void json_out_stat(struct buf *out, const struct lanes_names *names, const struct xs_stat *s)
{
	const char *text;
	size_t len;

	switch (s->kind) {
	case XS_DOUBLE:
		json_out_double(out, s->d);
		return;
	case XS_UINT:
		json_out_uint(out, s->u);
		return;
	case XS_INT:
		buf_addf(out, "%" PRId64, s->i);
		return;
	case XS_REF:
		text = lanes_text(names, (uint32_t)s->u, &len);
		json_out_string(out, text, len);
		return;
	default:
		json_out_string(out, (const char *)s->bytes, s->len);
	}
}

bool json_out_is_member(const struct lane_event *ev, size_t i)
{
	const struct xs_stat *s = &ev->stats[i];

	if (s->metadata_id == LANES_NO_NAME || (s->kind == XS_REF && s->u == LANES_NO_NAME))
		return false;
	for (size_t k = i + 1; k < ev->n_stats; k++) {
		if (ev->stats[k].metadata_id == s->metadata_id)
			return false;
	}
	return true;
}
