/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as an XSpace: read, moved, trimmed, merged and held together with themselves. A window and memory must
 * agree, and what we write must be as good as what we read.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xspace/causality.h"
#include "xspace/xspace.h"

#define CHECK(cond) \
	do { \
		if (!(cond)) \
			abort(); \
	} while (0)

#define WINDOW_NS 1000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_memory(void *arg, uint64_t offset, void *out, size_t len, struct err *e)
{
	const struct xs_source *memory = arg;

	CHECK(offset <= memory->size && len <= memory->size - offset);
	if (len)
		memcpy(out, memory->memory + offset, len);
	(void)e;
	return 0;
}

static struct xs_source windowed(const struct xs_source *memory)
{
	return (struct xs_source){
		.read = read_memory, .arg = (void *)memory, .size = memory->size, .window_bytes = 1
	};
}

/* ---- reading ---- */

struct sums {
	uint64_t sum;
	int64_t line_ns;
	bool inside; /* all events with a time are inside the window */
};

static void add(struct sums *s, const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++)
		s->sum = s->sum * 31 + p[i];
}

static int on_plane(void *arg, const struct xs_plane *p)
{
	add(arg, p->name, strlen(p->name));
	return 0;
}

static int on_metadata(void *arg, int64_t id, const char *name, size_t len)
{
	add(arg, &id, sizeof(id));
	add(arg, name, len);
	return 0;
}

static int on_stat(void *arg, const struct xs_stat *s)
{
	add(arg, &s->u, sizeof(s->u));
	add(arg, s->bytes, s->len);
	return 0;
}

static int on_line(void *arg, const struct xs_line *l)
{
	struct sums *s = arg;

	s->line_ns = l->timestamp_ns;
	add(s, l->name, strlen(l->name));
	add(s, l->display_name, strlen(l->display_name));
	return 0;
}

static int on_event(void *arg, const struct xs_event *ev)
{
	__extension__ typedef __int128 wide;
	struct sums *s = arg;
	wide begin = (wide)s->line_ns * 1000 + ev->offset_ps;
	wide end = begin + (ev->duration_ps > 0 ? ev->duration_ps : 0);

	add(s, &ev->metadata_id, sizeof(ev->metadata_id));
	for (size_t i = 0; i < ev->n_stats; i++)
		on_stat(arg, &ev->stats[i]);
	if (!ev->is_aggregate && (begin < 0 || end > (wide)WINDOW_NS * 1000))
		s->inside = false;
	return 0;
}

static int on_text(void *arg, int field, const char *text, size_t len)
{
	add(arg, &field, sizeof(field));
	add(arg, text, len);
	return 0;
}

static int read_all(const struct xs_source *in, struct sums *s)
{
	static const struct xs_visitor visitor = {
		.plane_begin = on_plane,
		.stat_metadata = on_metadata,
		.event_metadata = on_metadata,
		.plane_stat = on_stat,
		.line_begin = on_line,
		.event = on_event,
		.text = on_text,
		.want_stats = true,
	};

	*s = (struct sums){ .inside = true };
	return xs_read(in, &visitor, s, NULL);
}

/* ---- writing ---- */

static int64_t shift(void *arg, int64_t ns)
{
	(void)arg;
	return (int64_t)((uint64_t)ns - 100);
}

static const struct xs_knot bends[] = { { -200, 0 }, { 0, 0 }, { 1, 1000 }, { 1000, 1500 } };

static int rebase(const struct xs_source *in, int64_t window_ns, bool bent, struct buf *out)
{
	struct xs_rebase how = {
		.map = shift,
		.window_ns = window_ns,
		.knots = bends,
		.n_knots = bent ? ARRAY_SIZE(bends) : 0,
	};
	struct xs_sink sink = xs_sink_buf(out);
	struct xs_counts counts;
	int rc = xs_rebase(in, &how, &sink, &counts, NULL);

	CHECK(rc ? !out->len : counts.bytes == out->len);
	return rc;
}

static int merge(const struct xs_source *in, struct buf *out)
{
	const struct xs_input inputs[] = {
		{ .source = *in, .pid = 1, .label = "one", .rebase = { .window_ns = WINDOW_NS } },
		{ .source = *in, .pid = 2, .label = "two" },
		{ .source = *in, .label = "own" },
	};
	struct xs_host host = { .hostname = "host", .profile_start_ns = 1 };
	struct xs_sink sink = xs_sink_buf(out);

	return xs_merge(inputs, 3, &host, &sink, NULL, NULL);
}

static void check_output(const struct buf *out, bool readable, bool trimmed)
{
	struct xs_source in = xs_source_memory(out->data, out->len);
	struct buf again = BUF_INIT;
	struct sums s;

	CHECK(!rebase(&in, 0, false, &again));
	CHECK(!readable || !read_all(&in, &s));
	CHECK(!readable || !trimmed || s.inside);
	buf_release(&again);
}

static void check_rebase(const struct xs_source *memory, int64_t window_ns, bool bent,
			 bool readable)
{
	struct xs_source window = windowed(memory);
	struct buf out = BUF_INIT, again = BUF_INIT;
	int rc = rebase(memory, window_ns, bent, &out);

	CHECK(rebase(&window, window_ns, bent, &again) == rc);
	CHECK(out.len == again.len && (!out.len || !memcmp(out.data, again.data, out.len)));
	CHECK(rc == 0 || !readable);
	if (!rc)
		check_output(&out, readable, window_ns > 0);
	buf_release(&out);
	buf_release(&again);
}

/* Two hosts with the same file: none can be more wrong than the other. */
static void check_causality(const struct xs_source *memory, const struct xs_source *window)
{
	struct xs_causality *c = xs_causality_new();
	struct xs_verdict v;
	int rc = xs_causality_add(c, memory, 0, NULL);

	CHECK(xs_causality_add(c, window, 0, NULL) == rc);
	xs_causality_judge(c, &v);
	CHECK(v.suspect == XS_NO_HOST);
	CHECK(!rc || !v.checked);
	CHECK(v.n_seen >= 2 * v.checked);
	for (size_t i = 0; i < v.n_seen; i++)
		CHECK(v.seen[i].host < 2 && (!i || v.seen[i - 1].key <= v.seen[i].key));
	xs_causality_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xs_source memory = xs_source_memory(data, size), window = windowed(&memory);
	struct buf out = BUF_INIT;
	struct sums sums, window_sums;
	struct xs_summary summary;
	int rc = read_all(&memory, &sums);

	CHECK(read_all(&window, &window_sums) == rc);
	CHECK(sums.sum == window_sums.sum);
	CHECK(rc || !xs_summarize(&memory, &summary, NULL));
	check_causality(&memory, &window);
	check_rebase(&memory, 0, false, rc == 0);
	check_rebase(&memory, WINDOW_NS, false, rc == 0);
	check_rebase(&memory, 0, true, rc == 0);
	check_rebase(&memory, WINDOW_NS, true, rc == 0);
	if (!merge(&memory, &out))
		check_output(&out, rc == 0, false);
	else
		CHECK(rc);
	buf_release(&out);
	return 0;
}
