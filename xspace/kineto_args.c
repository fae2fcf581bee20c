/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the args of a kineto event as stats. They are read from the file again at this time, so that they
 * need no memory before. */
#include "xspace/kineto_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xspace/text.h"

/* The args of a kernel that stand together in the stat kernel_details. */
struct kernel_args {
	struct scan_text grid, block;
	int64_t registers, shared;
	double occupancy;
};

static bool is(const struct scan_text *t, const char *expected)
{
	return text_equals(t->s, t->len, expected);
}

/* XProf joins a launch with its kernel by the stat "correlation_id", which kineto calls "correlation". Names
 * of stats are plain ASCII. */
static const char *stat_name(const struct scan_text *key, char name[64], struct buf *scratch)
{
	size_t len;

	if (is(key, "correlation"))
		return "correlation_id";
	buf_reset(scratch);
	scan_unescape(key, scratch);
	len = scratch->len < 64 ? scratch->len : 63;
	for (size_t i = 0; i < len; i++) {
		char c = (char)scratch->data[i];

		name[i] = c >= ' ' && c < 0x7f && c != '"' && c != '\\' ? c : '_';
	}
	name[len] = 0;
	return name;
}

static double to_double(const struct scan_text *number)
{
	char text[64];

	snprintf(text, sizeof(text), "%.*s", (int)(number->len < 63 ? number->len : 63), number->s);
	return strtod(text, NULL);
}

static void put_number(struct xs_builder *b, const char *name, const struct scan_text *v)
{
	int64_t i;

	if (memchr(v->s, '.', v->len) || !scan_decimal(v, 0, &i))
		xs_stat_double(b, name, to_double(v));
	else
		xs_stat_int(b, name, i);
}

static void put_text(struct xs_builder *b, const char *name, struct scan_text v, bool is_string,
		     struct buf *scratch)
{
	if (v.len > KINETO_MAX_TEXT)
		v.len = KINETO_MAX_TEXT;
	buf_reset(scratch);
	if (is_string)
		scan_unescape(&v, scratch);
	else
		buf_add(scratch, v.s, v.len);
	xs_stat_str(b, name, buf_str(scratch));
}

static void note_kernel_arg(struct kernel_args *kernel, const struct scan_text *key,
			    const struct scan_text *v)
{
	if (is(key, "grid"))
		kernel->grid = *v;
	else if (is(key, "block"))
		kernel->block = *v;
	else if (is(key, "registers per thread"))
		scan_decimal(v, 0, &kernel->registers);
	else if (is(key, "shared memory"))
		scan_decimal(v, 0, &kernel->shared);
	else if (is(key, "est. achieved occupancy %"))
		kernel->occupancy = to_double(v);
}

/* "[8, 1, 1]" as "8,1,1"; nothing else goes into kernel_details. */
static void add_dimensions(struct buf *out, const char *key, const struct scan_text *v)
{
	buf_addf(out, " %s:", key);
	for (size_t i = 0; i < v->len && i < 64; i++) {
		if ((v->s[i] >= '0' && v->s[i] <= '9') || v->s[i] == ',')
			buf_add_u8(out, (uint8_t)v->s[i]);
	}
}

static void put_kernel_details(struct xs_builder *b, const struct kernel_args *kernel,
			       struct buf *scratch)
{
	buf_reset(scratch);
	buf_addf(scratch, "regs:%" PRId64 " static_shared:%" PRId64 " dynamic_shared:0",
		 kernel->registers, kernel->shared);
	add_dimensions(scratch, "grid", &kernel->grid);
	add_dimensions(scratch, "block", &kernel->block);
	buf_addf(scratch, " occ_pct:%g", kernel->occupancy);
	xs_stat_str(b, "kernel_details", buf_str(scratch));
}

static int put_arg(struct scan *s, const struct scan_text *key, struct xs_builder *b,
		   struct buf *scratch, struct kernel_args *kernel, struct kineto_counts *counts,
		   struct err *e)
{
	char kind = scan_peek(s), name_bytes[64];
	struct scan_text v;
	const char *name;
	int rc = kind == '"' ? scan_string(s, &v, e) : scan_skip(s, &v, e);

	if (rc || kind == 'n')
		return rc;
	name = stat_name(key, name_bytes, scratch);
	if (kind == '"' || kind == '{' || kind == '[')
		put_text(b, name, v, kind == '"', scratch);
	else if (kind == 't' || kind == 'f')
		xs_stat_int(b, name, kind == 't');
	else
		put_number(b, name, &v);
	if (kind != '"')
		note_kernel_arg(kernel, key, &v);
	if (kind == 'f' && is(key, "finished"))
		counts->unfinished++;
	return 0;
}

int kineto_put_args(const struct kineto *k, const struct kineto_event *ev, struct xs_builder *b,
		    struct buf *scratch, struct kineto_counts *counts, struct err *e)
{
	struct kernel_args kernel = { 0 };
	struct scan_text key;
	struct scan s;
	int rc;

	if (!ev->args_len)
		return 0;
	scan_init(&s, k->file + ev->args_at, ev->args_len);
	rc = scan_enter(&s, '{', e);
	while (!rc) {
		rc = scan_member(&s, &key, e);
		if (rc <= 0)
			break;
		rc = put_arg(&s, &key, b, scratch, &kernel, counts, e);
	}
	if (!rc && ev->is_kernel && kernel.grid.len)
		put_kernel_details(b, &kernel, scratch);
	return rc;
}
