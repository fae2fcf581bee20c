/* SPDX-License-Identifier: Apache-2.0 */
/* From an XSpace to its index: planes, lines, events, one after the other. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "base/reader.h"
#include "xspace/text.h"
#include "xspace/tvx/track.h"
#include "xspace/wire.h"

#define PLANE_NAME_BYTES 1024
#define GO_ON_EVENTS	 65536 /* between two calls of go_on() */
#define PS_PER_NS	 1000

struct building {
	struct wire w;
	const struct tvx_build *how;
	struct tvx_writer out;
	struct number_map event_names; /* of the plane: metadata id -> name */
	struct line_event *events; /* of the line */
	size_t n_events, cap_events;
	struct tvx_track line; /* the head of the line's tracks */
	int64_t line_ns, flow_stat; /* flow_stat: the metadata id of the stat `flow`, or 0 */
	uint32_t unnamed;
	bool is_counters;
	struct err *e;
};

static int check_go_on(const struct building *b, uint64_t done)
{
	if (!b->how || !b->how->go_on || b->how->go_on(b->how->arg, done))
		return 0;
	return err_set(b->e, ERR_CANCELLED, "building the index was stopped");
}

/* ---- an event ---- */

static int malformed(const struct building *b, const struct wire_field *f)
{
	return err_set(b->e, ERR_INVALID, "at byte %" PRIu64 ": malformed event", f->at);
}

/* The next field's number and, unless it is bytes, its value; of bytes *r stands on them and *value is their length. */
static bool next_field(struct reader *r, uint32_t *number, uint32_t *type, uint64_t *value)
{
	uint64_t tag;

	if (!reader_varint(r, &tag) || !(tag >> 3) || tag > UINT32_MAX)
		return false;
	*number = (uint32_t)(tag >> 3);
	*type = tag & 7;
	switch (*type) {
	case WIRE_VARINT:
		return reader_varint(r, value);
	case WIRE_I64:
		return reader_le(r, 8, value);
	case WIRE_I32:
		return reader_le(r, 4, value);
	case WIRE_LEN:
		return reader_varint(r, value) && *value <= reader_left(r);
	default:
		return false;
	}
}

/* A number as a double: the value of a counter's sample. */
static uint64_t double_bits(double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

/* Sets `extra` if the stat is the one that the line's events are read for. */
static bool read_stat(const struct building *b, struct reader r, struct line_event *ev)
{
	uint64_t value, extra = 0;
	uint32_t number, type;
	int64_t id = 0;
	bool is_number = false;

	while (reader_left(&r)) {
		if (!next_field(&r, &number, &type, &value))
			return false;
		if (type == WIRE_LEN)
			r.p += value;
		if (number == XSTAT_METADATA_ID && type == WIRE_VARINT)
			id = (int64_t)value;
		if (number < XSTAT_DOUBLE || number > XSTAT_INT || type == WIRE_LEN)
			continue;
		is_number = true;
		extra = value;
		if (b->is_counters && number == XSTAT_UINT)
			extra = double_bits((double)value);
		if (b->is_counters && number == XSTAT_INT)
			extra = double_bits((double)(int64_t)value);
	}
	if (is_number && (b->is_counters || (b->flow_stat && id == b->flow_stat)))
		ev->extra = extra;
	return true;
}

struct event_times {
	int64_t metadata_id, offset_ps, duration_ps;
	bool is_aggregate;
};

static bool read_event(const struct building *b, struct reader r, struct event_times *t,
		       struct line_event *ev)
{
	bool want_stats = b->is_counters || b->flow_stat;
	uint32_t number, type;
	uint64_t value;

	while (reader_left(&r)) {
		if (!next_field(&r, &number, &type, &value) ||
		    !wire_type_fits(schema_xevent, number, type))
			return false;
		if (number == XEVENT_METADATA_ID)
			t->metadata_id = (int64_t)value;
		else if (number == XEVENT_DURATION_PS)
			t->duration_ps = (int64_t)value;
		else if (number == XEVENT_OFFSET_PS || number == XEVENT_NUM_OCCURRENCES) {
			t->is_aggregate = number == XEVENT_NUM_OCCURRENCES;
			t->offset_ps = t->is_aggregate ? 0 : (int64_t)value;
		} else if (number == XEVENT_STATS && want_stats &&
			   !read_stat(b, (struct reader){ r.p, r.p + value }, ev)) {
			return false;
		}
		if (type == WIRE_LEN)
			r.p += value;
	}
	return true;
}

/* False: the event's time is out of range. */
static bool place(const struct building *b, const struct event_times *t, struct line_event *ev)
{
	int64_t start, length = t->duration_ps > 0 ? t->duration_ps : 0;

	if (__builtin_mul_overflow(b->line_ns, PS_PER_NS, &start) ||
	    __builtin_add_overflow(start, t->offset_ps, &start))
		return false;
	if (start < -TIME_MAX || start > TIME_MAX || length > TIME_MAX)
		return false;
	ev->start_ps = start;
	ev->length_ps = (uint64_t)length;
	return true;
}

static void keep_event(struct building *b, const struct line_event *ev)
{
	if (b->n_events == b->cap_events) {
		b->cap_events = b->cap_events ? 2 * b->cap_events : 1024;
		b->events = xrealloc(b->events, b->cap_events * sizeof(*b->events));
	}
	b->events[b->n_events++] = *ev;
}

static int add_event(struct building *b, const struct wire_field *f)
{
	struct line_event ev = { .source = f->at };
	struct event_times times = { 0 };
	const uint32_t *name;
	const uint8_t *bytes;
	int rc = wire_peek(&b->w, f->body, f->value, &bytes, b->e);

	if (rc)
		return rc;
	if (!read_event(b, reader_of(bytes, (size_t)f->value), &times, &ev))
		return malformed(b, f);
	if (times.is_aggregate) {
		b->line.untimed++;
		return 0;
	}
	if (!place(b, &times, &ev)) {
		b->line.unplaced++;
		return 0;
	}
	name = number_map_at(&b->event_names, times.metadata_id, false, 0);
	ev.name = name ? *name : b->unnamed;
	keep_event(b, &ev);
	return b->n_events % GO_ON_EVENTS ? 0 : check_go_on(b, f->at);
}

/* ---- a line ---- */

static int by_name(const void *a, const void *b)
{
	const struct line_event *x = a, *y = b;

	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	if (x->start_ps != y->start_ps)
		return x->start_ps < y->start_ps ? -1 : 1;
	return x->source < y->source ? -1 : x->source > y->source;
}

/* A track for each counter. */
static int write_counters(struct building *b)
{
	size_t begin = 0;
	int rc = 0;

	sort_array(b->events, b->n_events, sizeof(*b->events), by_name);
	for (size_t i = 0; !rc && i < b->n_events; i++) {
		if (i + 1 < b->n_events && b->events[i + 1].name == b->events[i].name)
			continue;
		b->line.name = b->events[i].name;
		rc = track_write(&b->out, &b->line, b->events + begin, i + 1 - begin, b->e);
		begin = i + 1;
	}
	return rc;
}

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

	b->n_events = 0;
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

static int add_line(struct building *b, const struct wire_field *line)
{
	struct wire_walk walk = wire_walk(&b->w, line, schema_xline);
	struct wire_field f;
	int rc = read_line_head(b, line);

	if (!rc && b->out.tracks.n >= XS_MAX_LINES)
		rc = err_set(b->e, ERR_LIMIT, "more than %d lines", XS_MAX_LINES);
	while (!rc && (rc = wire_next(&walk, &f, b->e)) > 0)
		rc = f.number == XLINE_EVENTS ? add_event(b, &f) : 0;
	if (!rc)
		rc = check_go_on(b, line->end);
	if (rc)
		return rc;
	if (b->is_counters) {
		b->line.kind = TVX_COUNTER;
		return write_counters(b);
	}
	line_events_sort(b->events, b->n_events);
	return track_write(&b->out, &b->line, b->events, b->n_events, b->e);
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
		*number_map_at(&b->event_names, m.key, true, number) = number;
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

/* ---- the tables ---- */

static int by_flow(const void *a, const void *b)
{
	const struct tvx_flow *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	if (x->start_ps != y->start_ps)
		return x->start_ps < y->start_ps ? -1 : 1;
	if (x->track != y->track)
		return x->track < y->track ? -1 : 1;
	return x->event < y->event ? -1 : x->event > y->event;
}

static int write_tables(struct building *b, uint64_t source_bytes)
{
	static const uint8_t zeros[8];
	struct tvx_writer *w = &b->out;
	const struct {
		const void *data;
		size_t len;
	} parts[] = {
		{ w->planes.items, w->planes.n * sizeof(struct tvx_plane) },
		{ w->tracks.items, w->tracks.n * sizeof(struct tvx_track) },
		{ w->totals.items, w->totals.n * sizeof(struct tvx_total) },
		{ w->flows.items, w->flows.n * sizeof(struct tvx_flow) },
		{ w->levels.items, w->levels.n * sizeof(struct level) },
		{ w->blocks.items, w->blocks.n * sizeof(struct block) },
		{ w->names.ends, w->names.n * sizeof(uint64_t) },
		{ w->names.text.data, w->names.text.len },
		{ zeros, -w->names.text.len & 7 },
	};
	struct footer foot = { .source_bytes = source_bytes,
			       .string_bytes = w->names.text.len,
			       .flows_left_out = w->flows_left_out,
			       .n_planes = (uint32_t)w->planes.n,
			       .n_tracks = (uint32_t)w->tracks.n,
			       .n_totals = (uint32_t)w->totals.n,
			       .n_flows = (uint32_t)w->flows.n,
			       .n_levels = (uint32_t)w->levels.n,
			       .n_blocks = (uint32_t)w->blocks.n,
			       .n_names = w->names.n,
			       .version = TVX_VERSION,
			       .magic = TVX_MAGIC };
	int rc = tvx_write(w, zeros, -w->at & 7, b->e);

	foot.tables_at = w->at;
	for (size_t i = 0; !rc && i < ARRAY_SIZE(parts); i++) {
		if (parts[i].len)
			foot.tables_crc = crc32c(foot.tables_crc, parts[i].data, parts[i].len);
		rc = tvx_write(w, parts[i].data, parts[i].len, b->e);
	}
	foot.crc = crc32c(0, &foot, offsetof(struct footer, crc));
	return rc ? rc : tvx_write(w, &foot, sizeof(foot), b->e);
}

int tvx_build(const struct xs_source *in, const struct tvx_build *how, const struct xs_sink *out,
	      struct err *e)
{
	struct building b = { .how = how, .out = { .sink = out }, .e = e };
	struct wire_field root = wire_root(in), f;
	struct wire_walk walk;
	int rc;

	wire_open(&b.w, in);
	walk = wire_walk(&b.w, &root, schema_xspace);
	rc = names_add(&b.out.names, NULL, 0, &b.unnamed, e);
	while (!rc && (rc = wire_next(&walk, &f, e)) > 0)
		rc = f.number == XSPACE_PLANES ? add_plane(&b, &f) : 0;
	if (!rc) {
		sort_array(b.out.flows.items, b.out.flows.n, sizeof(struct tvx_flow), by_flow);
		rc = write_tables(&b, in->size);
	}
	wire_close(&b.w);
	number_map_release(&b.event_names);
	free(b.events);
	tvx_writer_release(&b.out);
	return rc;
}
