/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/logs/plane.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/tracer/logs/record.h"
#include "base/buf.h"
#include "base/mem.h"
#include "logs/log_event.h"

struct entry {
	int64_t raw_ns;
	size_t at; /* of its record: in the order in which they were read */
	struct log_record record;
};

struct entries {
	/* copies of the records: one in the ring's file is valid only during its callback */
	struct buf bytes;
	struct entry *v;
	size_t n, cap;
};

static bool add(void *arg, const struct ring_record *record)
{
	struct entries *all = arg;

	if (all->n == all->cap) {
		all->cap = all->cap ? 2 * all->cap : 256;
		all->v = xrealloc(all->v, all->cap * sizeof(*all->v));
	}
	all->v[all->n++] = (struct entry){ .raw_ns = record->raw_ns, .at = all->bytes.len };
	buf_add(&all->bytes, record->data, record->len);
	return true;
}

static int by_source(const struct log_record *x, const struct log_record *y)
{
	int c = strcmp(x->kind, y->kind);

	c = c ? c : strcmp(x->namespace, y->namespace);
	return c ? c : strcmp(x->name, y->name);
}

static int by_source_and_time(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int c = by_source(&x->record, &y->record);

	if (c)
		return c;
	if (x->raw_ns != y->raw_ns)
		return x->raw_ns < y->raw_ns ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

static void add_event(struct xs_builder *b, const struct log_record *r, int64_t offset_ps)
{
	const struct log_event event = { .severity = r->severity,
					 .source = r->kind,
					 .namespace = r->namespace,
					 .pod = r->pod,
					 .container = r->container,
					 .node = "",
					 .time = stamp_name(r->stamp),
					 .text = r->text };

	log_event_add(b, &event, offset_ps);
}

uint64_t plane_build(const struct ring_cut *cut, int64_t t0_raw_ns, struct xs_builder *b)
{
	struct entries all = { 0 };
	uint64_t unread = ring_cut_each(cut, add, &all);
	int64_t id = 0;

	for (size_t i = 0; i < all.n; i++)
		all.v[i].record = record_unpack(all.bytes.data + all.v[i].at);
	sort_array(all.v, all.n, sizeof(*all.v), by_source_and_time);
	xs_plane(b, 0, "/host:CPU logs");
	for (size_t i = 0; i < all.n; i++) {
		const struct entry *e = &all.v[i];

		if (!i || by_source(&e->record, &e[-1].record))
			xs_line(b, ++id, e->record.name, t0_raw_ns);
		add_event(b, &e->record, (e->raw_ns - t0_raw_ns) * 1000);
	}
	free(all.v);
	buf_release(&all.bytes);
	return unread;
}
