/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the args of a kineto event as stats. They are read from the file again at this time, so that they
 * need no memory before. */
#include "xspace/kineto_impl.h"

#include <inttypes.h>
#include <string.h>

#include "xspace/json_stat.h"
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

/* XProf joins a launch with its kernel by the stat "correlation_id", which kineto calls "correlation". */
static const char *stat_name(const struct scan_text *key, char name[JSON_STAT_NAME_BYTES],
			     struct buf *scratch)
{
	if (is(key, "correlation"))
		return "correlation_id";
	json_stat_name(key, name, scratch);
	return name;
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
		kernel->occupancy = json_stat_double(v);
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
	char kind, name_bytes[JSON_STAT_NAME_BYTES];
	struct scan_text v;
	int rc = json_stat_read(s, &kind, &v, e);

	if (rc || kind == 'n')
		return rc;
	json_stat_put(b, stat_name(key, name_bytes, scratch), kind, &v, scratch);
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
