/* SPDX-License-Identifier: Apache-2.0 */
/* From an XSpace to its index: planes, lines, events, one after the other. batch.h has the rest. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xspace/text.h"
#include "xspace/tvx/batch.h"
#include "xspace/wire.h"

#define PLANE_NAME_BYTES 1024

struct building {
	struct wire w;
	struct tvx_writer out;
	struct number_map event_names; /* of the plane: metadata id -> name */
	struct line_reader reader;
	struct batches batches;
	struct tvx_track line; /* the head of the line's tracks */
	int64_t line_ns, flow_stat; /* flow_stat: the metadata id of the stat `flow`, or 0 */
	uint32_t unnamed;
	bool is_counters;
	struct err *e;
};

/* ---- a line ---- */

/* Where the line's name is; without a name, the event count that is its id stands for it. */
static int name_line(struct building *b, const struct wire_field *name)
{
	size_t len = name->value < TVX_NAME_MAX ? (size_t)name->value : TVX_NAME_MAX;
	const uint8_t *text;
	char number[32];
	int rc;

	if (!name->value) {
		snprintf(number, sizeof(number), "line %" PRId64, b->line.line_id);
		return names_add(&b->out.names, number, strlen(number), &b->line.name, b->e);
	}
	rc = wire_peek(&b->w, name->body, len, &text, b->e);
	if (rc)
		return rc;
	b->is_counters = text_equals((const char *)text, len, "_counters_");
	return names_add(&b->out.names, text, len, &b->line.name, b->e);
}

static int read_line_head(struct building *b, const struct wire_field *line)
{
	struct wire_walk walk = wire_walk(&b->w, line, schema_xline);
	struct wire_field f, name = { 0 }, display = { 0 };
	int rc;

	b->line_ns = 0;
	b->is_counters = false;
	b->line = (struct tvx_track){ .plane = (uint32_t)b->out.planes.n - 1 };
	while ((rc = wire_next(&walk, &f, b->e)) > 0) {
		if (f.number == XLINE_ID)
			b->line.line_id = (int64_t)f.value;
		else if (f.number == XLINE_TIMESTAMP_NS)
			b->line_ns = (int64_t)f.value;
		else if (f.number == XLINE_NAME)
			name = f;
		else if (f.number == XLINE_DISPLAY_NAME)
			display = f;
	}
	return rc ? rc : name_line(b, display.value ? &display : &name);
}

static int add_events(struct building *b)
{
	struct batch_run run = { .is_first = true };
	int rc = 0;

	for (; !rc && !run.is_last; run.is_first = false) {
		rc = line_next(&b->reader, &b->batches.filling.events, &run.n, b->e);
		if (rc)
			return rc;
		b->line.untimed = b->reader.untimed;
		b->line.unplaced = b->reader.unplaced;
		run.head = b->line;
		run.is_last = !line_has_more(&b->reader);
		rc = batches_add(&b->batches, &run, b->e);
	}
	return rc;
}

static int add_line(struct building *b, const struct wire_field *line)
{
	struct line_head head = { .field = line, .names = &b->event_names, .unnamed = b->unnamed };
	int rc = read_line_head(b, line);

	if (rc)
		return rc;
	b->line.kind = b->is_counters ? TVX_COUNTER : TVX_EVENTS;
	head.line_ns = b->line_ns;
	head.wants = (struct event_wants){ .stat = b->flow_stat, .is_counter = b->is_counters };
	line_begin(&b->reader, &head);
	return add_events(b);
}

/* ---- a plane ---- */

struct metadata {
	int64_t key;
	struct wire_field name, display_name;
};

static int read_metadata(struct building *b, const struct wire_field *entry, struct metadata *m)
{
	struct wire_walk outer = wire_walk(&b->w, entry, schema_entry);
	struct wire_field value, f;
	int rc;

	*m = (struct metadata){ 0 };
	while ((rc = wire_next(&outer, &value, b->e)) > 0) {
		struct wire_walk inner = wire_walk(&b->w, &value, schema_metadata);

		if (value.number == ENTRY_KEY)
			m->key = (int64_t)value.value;
		if (value.number != ENTRY_VALUE)
			continue;
		while ((rc = wire_next(&inner, &f, b->e)) > 0) {
			if (f.number == METADATA_NAME)
				m->name = f;
			else if (f.number == METADATA_DISPLAY_NAME && f.type == WIRE_LEN)
				m->display_name = f;
		}
		if (rc)
			break;
	}
	return rc;
}

/* As XProf does: the display name wins. */
static int add_event_name(struct building *b, const struct wire_field *entry)
{
	const struct wire_field *name;
	const uint8_t *text = NULL;
	struct metadata m;
	uint32_t number = 0;
	size_t len;
	int rc = read_metadata(b, entry, &m);

	name = m.display_name.value ? &m.display_name : &m.name;
	len = name->value < TVX_NAME_MAX ? (size_t)name->value : TVX_NAME_MAX;
	if (!rc && len)
		rc = wire_peek(&b->w, name->body, len, &text, b->e);
	if (!rc)
		rc = names_add(&b->out.names, text, len, &number, b->e);
	if (!rc)
		number_map_set(&b->event_names, m.key, number);
	return rc;
}

static int add_stat_name(struct building *b, const struct wire_field *entry)
{
	const uint8_t *text;
	struct metadata m;
	int rc = read_metadata(b, entry, &m);

	if (rc || m.name.value != strlen("flow"))
		return rc;
	rc = wire_peek(&b->w, m.name.body, m.name.value, &text, b->e);
	if (!rc && text_equals((const char *)text, m.name.value, "flow"))
		b->flow_stat = m.key;
	return rc;
}

static int begin_plane(struct building *b, const struct wire_field *plane)
{
	struct wire_walk walk = wire_walk(&b->w, plane, schema_xplane);
	struct tvx_plane *p;
	struct wire_field f, name = { 0 };
	const uint8_t *text = NULL;
	size_t len;
	int rc;

	if (b->out.planes.n == XS_MAX_PLANES)
		return err_set(b->e, ERR_LIMIT, "more than %d planes", XS_MAX_PLANES);
	number_map_release(&b->event_names);
	b->flow_stat = 0;
	p = table_add(&b->out.planes, sizeof(*p));
	p->body = plane->body;
	p->end = plane->end;
	while ((rc = wire_next(&walk, &f, b->e)) > 0) {
		if (f.number == XPLANE_ID)
			p->id = (int64_t)f.value;
		else if (f.number == XPLANE_NAME)
			name = f;
	}
	len = name.value < PLANE_NAME_BYTES ? (size_t)name.value : PLANE_NAME_BYTES;
	if (!rc && len)
		rc = wire_peek(&b->w, name.body, len, &text, b->e);
	return rc ? rc : names_add(&b->out.names, text, len, &p->name, b->e);
}

static int add_plane(struct building *b, const struct wire_field *plane)
{
	static const struct {
		uint32_t number;
		int (*fn)(struct building *b, const struct wire_field *f);
	} kinds[] = { { XPLANE_STAT_METADATA, add_stat_name },
		      { XPLANE_EVENT_METADATA, add_event_name },
		      { XPLANE_LINES, add_line } };
	int rc = begin_plane(b, plane);

	for (size_t i = 0; !rc && i < ARRAY_SIZE(kinds); i++) {
		struct wire_walk walk = wire_walk(&b->w, plane, schema_xplane);
		struct wire_field f;

		while (!rc && (rc = wire_next(&walk, &f, b->e)) > 0)
			rc = f.number == kinds[i].number ? kinds[i].fn(b, &f) : 0;
	}
	return rc;
}

int tvx_build(const struct xs_source *in, const struct tvx_build *how, const struct xs_sink *out,
	      struct err *e)
{
	struct building b = { .out = { .sink = out, .source_bytes = in->size }, .e = e };
	struct wire_field root = wire_root(in), f;
	struct wire_walk walk;
	int rc, made = 0;

	wire_open(&b.w, in);
	b.reader = (struct line_reader){ .w = &b.w, .how = how };
	batches_open(&b.batches, &b.out, how);
	walk = wire_walk(&b.w, &root, schema_xspace);
	rc = names_add(&b.out.names, NULL, 0, &b.unnamed, e);
	while (!rc && (rc = wire_next(&walk, &f, e)) > 0)
		rc = f.number == XSPACE_PLANES ? add_plane(&b, &f) : 0;
	/* a line that was read before what failed is the first to fail */
	if (rc != ERR_CANCELLED)
		made = batches_flush(&b.batches, e);
	if (made)
		rc = made;
	if (!rc)
		rc = tvx_write_tables(&b.out, e);
	batches_close(&b.batches);
	wire_close(&b.w);
	number_map_release(&b.event_names);
	line_release(&b.reader);
	tvx_writer_release(&b.out);
	return rc;
}
