/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Visitors are called in an order that may differ from that of the file. So each message is walked once per
 * kind of field; skipping the other fields costs almost nothing.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xspace/wire.h"

#define NAME_BYTES 1024

struct reading {
	struct wire w;
	const struct xs_visitor *v;
	void *arg;
	uint64_t plane, line, event; /* index of each in its parent */
	struct xs_stat *stats; /* of the current event */
	size_t n_stats, stats_cap;
	struct err *e;
};

typedef int (*field_fn)(struct reading *r, const struct wire_field *f);

/* Calls fn for each field of that number. */
static int for_each_field(struct reading *r, const struct wire_field *message,
			  const uint8_t *schema, uint32_t number, field_fn fn)
{
	struct wire_walk walk = wire_walk(&r->w, message, schema);
	struct wire_field f;
	int rc;

	while ((rc = wire_next(&walk, &f, r->e)) > 0) {
		if (f.number != number)
			continue;
		rc = fn(r, &f);
		if (rc < 0)
			break;
	}
	return rc;
}

static int check_visitor(struct reading *r, int rc)
{
	return rc < 0 ? err_set(r->e, rc, "reading stopped by its visitor") : 0;
}

/* The bytes of a string or bytes field, borrowed until the next step. */
static int text_of(struct reading *r, const struct wire_field *f, const char **s)
{
	const uint8_t *p;
	int rc = wire_peek(&r->w, f->body, f->value, &p, r->e);

	*s = (const char *)p;
	return rc;
}

static int copy_name(struct reading *r, const struct wire_field *f, char out[NAME_BYTES])
{
	size_t len = f->value < NAME_BYTES ? (size_t)f->value : NAME_BYTES - 1;
	const uint8_t *p;
	int rc = wire_peek(&r->w, f->body, len, &p, r->e);

	if (rc)
		return rc;
	memcpy(out, p, len);
	out[len] = '\0';
	return 0;
}

/* ---- stats ---- */

/* The texts of *out point into the bytes of `held`, which do not move. */
static int decode_stat(struct wire *held, const struct wire_field *message, struct xs_stat *out,
		       struct err *e)
{
	static const enum xs_stat_kind kinds[SCHEMA_FIELDS] = {
		[XSTAT_DOUBLE] = XS_DOUBLE, [XSTAT_UINT] = XS_UINT,   [XSTAT_INT] = XS_INT,
		[XSTAT_STR] = XS_STR,	    [XSTAT_BYTES] = XS_BYTES, [XSTAT_REF] = XS_REF,
	};
	struct wire_walk walk = wire_walk(held, message, schema_xstat);
	struct wire_field f;
	int rc;

	*out = (struct xs_stat){ 0 };
	while ((rc = wire_next(&walk, &f, e)) > 0) {
		if (f.number == XSTAT_METADATA_ID)
			out->metadata_id = (int64_t)f.value;
		if (f.number >= SCHEMA_FIELDS || !kinds[f.number])
			continue;
		out->kind = kinds[f.number];
		out->bytes = NULL;
		out->len = 0;
		out->u = f.value; /* the bits of any number */
		if (f.type != WIRE_LEN)
			continue;
		out->len = (size_t)f.value;
		rc = wire_peek(held, f.body, f.value, &out->bytes, e);
		if (rc)
			break;
	}
	return rc;
}

/* Loads the whole message, and makes a wire over it whose pointers stay valid. */
static int load_message(struct reading *r, const struct wire_field *message, struct wire *held)
{
	const uint8_t *p;
	int rc = wire_peek(&r->w, message->body, message->value, &p, r->e);

	*held = wire_hold(&r->w);
	return rc;
}

static int visit_plane_stat(struct reading *r, const struct wire_field *f)
{
	struct xs_stat s;
	struct wire held;
	int rc = load_message(r, f, &held);

	if (!rc)
		rc = decode_stat(&held, f, &s, r->e);
	if (rc)
		return err_prefix(r->e, "plane stat"), rc;
	return check_visitor(r, r->v->plane_stat(r->arg, &s));
}

static int add_stat(struct reading *r, struct wire *held, const struct wire_field *f)
{
	if (r->n_stats == XS_MAX_STATS)
		return err_set(r->e, ERR_LIMIT, "at byte %" PRIu64 ": more than %d stats", f->at,
			       XS_MAX_STATS);
	if (r->n_stats == r->stats_cap) {
		r->stats_cap = r->stats_cap ? 2 * r->stats_cap : 16;
		r->stats = xrealloc(r->stats, r->stats_cap * sizeof(*r->stats));
	}
	return decode_stat(held, f, &r->stats[r->n_stats++], r->e);
}

/* ---- lines ---- */

/* Sets a numeric field. Of the members of the oneof, the last one in the file counts. */
static void set_number(struct xs_event *ev, const struct wire_field *f)
{
	switch (f->number) {
	case XEVENT_METADATA_ID:
		ev->metadata_id = (int64_t)f->value;
		break;
	case XEVENT_DURATION_PS:
		ev->duration_ps = (int64_t)f->value;
		break;
	case XEVENT_OFFSET_PS:
	case XEVENT_NUM_OCCURRENCES:
		ev->is_aggregate = f->number == XEVENT_NUM_OCCURRENCES;
		ev->num_occurrences = ev->is_aggregate ? (int64_t)f->value : 0;
		ev->offset_ps = ev->is_aggregate ? 0 : (int64_t)f->value;
		break;
	default:
		break;
	}
}

static int decode_event(struct reading *r, const struct wire_field *message, struct xs_event *ev)
{
	struct wire held;
	struct wire_walk walk;
	struct wire_field f;
	int rc = load_message(r, message, &held);

	*ev = (struct xs_event){ 0 };
	r->n_stats = 0;
	if (rc)
		return rc;
	walk = wire_walk(&held, message, schema_xevent);
	while ((rc = wire_next(&walk, &f, r->e)) > 0) {
		if (f.number != XEVENT_STATS)
			set_number(ev, &f);
		else if (r->v->want_stats && (rc = add_stat(r, &held, &f)) < 0)
			break;
	}
	ev->stats = r->stats;
	ev->n_stats = r->n_stats;
	return rc;
}

static int visit_event(struct reading *r, const struct wire_field *f)
{
	struct xs_event ev;
	int rc = decode_event(r, f, &ev);

	if (!rc)
		rc = check_visitor(r, r->v->event(r->arg, &ev));
	if (rc)
		err_prefix(r->e, "event %" PRIu64, r->event);
	r->event++;
	return rc;
}

static int line_head(struct reading *r, const struct wire_field *message, struct xs_line *l,
		     char name[NAME_BYTES], char display_name[NAME_BYTES])
{
	struct wire_walk walk = wire_walk(&r->w, message, schema_xline);
	struct wire_field f;
	int rc;

	name[0] = display_name[0] = '\0';
	*l = (struct xs_line){ .name = name, .display_name = display_name };
	while ((rc = wire_next(&walk, &f, r->e)) > 0) {
		if (f.number == XLINE_ID)
			l->id = (int64_t)f.value;
		else if (f.number == XLINE_DISPLAY_ID)
			l->display_id = (int64_t)f.value;
		else if (f.number == XLINE_TIMESTAMP_NS)
			l->timestamp_ns = (int64_t)f.value;
		else if (f.number == XLINE_NAME)
			rc = copy_name(r, &f, name);
		else if (f.number == XLINE_DISPLAY_NAME)
			rc = copy_name(r, &f, display_name);
		if (rc < 0)
			break;
	}
	return rc;
}

static int read_line(struct reading *r, const struct wire_field *message)
{
	char name[NAME_BYTES], display_name[NAME_BYTES];
	const struct xs_visitor *v = r->v;
	struct xs_line l;
	bool hop = false;
	int rc = line_head(r, message, &l, name, display_name);

	r->event = 0;
	if (!rc && v->line_begin) {
		rc = v->line_begin(r->arg, &l);
		hop = rc > 0;
		rc = check_visitor(r, rc);
	}
	if (!rc && v->event && !hop)
		rc = for_each_field(r, message, schema_xline, XLINE_EVENTS, visit_event);
	if (!rc && v->line_end)
		rc = check_visitor(r, v->line_end(r->arg));
	return rc;
}

static int visit_line(struct reading *r, const struct wire_field *f)
{
	int rc = read_line(r, f);

	if (rc)
		err_prefix(r->e, "line %" PRIu64, r->line);
	r->line++;
	return rc;
}

/* ---- planes ---- */

struct metadata {
	int64_t key;
	const char *name;
	size_t len;
};

/* Reads the key of an entry and a name of its value only: the rest may be megabytes. `shown`: its display name, if any. */
static int decode_entry(struct reading *r, const struct wire_field *entry, bool shown,
			struct metadata *m)
{
	struct wire_walk outer = wire_walk(&r->w, entry, schema_entry);
	struct wire_field name = { 0 }, display = { 0 }, value, f;
	int rc;

	*m = (struct metadata){ .name = "" };
	while ((rc = wire_next(&outer, &value, r->e)) > 0) {
		struct wire_walk inner = wire_walk(&r->w, &value, schema_metadata);

		if (value.number == ENTRY_KEY)
			m->key = (int64_t)value.value;
		if (value.number != ENTRY_VALUE)
			continue;
		while ((rc = wire_next(&inner, &f, r->e)) > 0) {
			if (f.number == METADATA_NAME)
				name = f;
			else if (f.number == METADATA_DISPLAY_NAME && f.type == WIRE_LEN && shown)
				display = f;
		}
		if (rc)
			break;
	}
	if (display.value)
		name = display;
	if (!rc && name.value)
		rc = text_of(r, &name, &m->name);
	m->len = (size_t)name.value;
	return rc;
}

static int visit_stat_metadata(struct reading *r, const struct wire_field *f)
{
	struct metadata m;
	int rc = decode_entry(r, f, false, &m);

	if (rc)
		return err_prefix(r->e, "stat metadata"), rc;
	return check_visitor(r, r->v->stat_metadata(r->arg, m.key, m.name, m.len));
}

static int visit_event_metadata(struct reading *r, const struct wire_field *f)
{
	struct metadata m;
	int rc = decode_entry(r, f, r->v->want_shown_names, &m);

	if (rc)
		return err_prefix(r->e, "event metadata"), rc;
	return check_visitor(r, r->v->event_metadata(r->arg, m.key, m.name, m.len));
}

static int plane_head(struct reading *r, const struct wire_field *message, struct xs_plane *p,
		      char name[NAME_BYTES])
{
	struct wire_walk walk = wire_walk(&r->w, message, schema_xplane);
	struct wire_field f;
	int rc;

	name[0] = '\0';
	*p = (struct xs_plane){ .index = r->plane, .name = name };
	while ((rc = wire_next(&walk, &f, r->e)) > 0) {
		if (f.number == XPLANE_ID)
			p->id = (int64_t)f.value;
		else if (f.number == XPLANE_NAME)
			rc = copy_name(r, &f, name);
		if (rc < 0)
			break;
	}
	return rc;
}

static int read_plane(struct reading *r, const struct wire_field *message)
{
	const struct xs_visitor *v = r->v;
	bool lines = v->line_begin || v->event || v->line_end;
	const struct {
		uint32_t number;
		field_fn fn;
	} kinds[] = {
		{ XPLANE_STAT_METADATA, v->stat_metadata ? visit_stat_metadata : NULL },
		{ XPLANE_EVENT_METADATA, v->event_metadata ? visit_event_metadata : NULL },
		{ XPLANE_STATS, v->plane_stat ? visit_plane_stat : NULL },
	};
	char name[NAME_BYTES];
	struct xs_plane p;
	int rc = plane_head(r, message, &p, name);
	bool hop = false;

	r->line = 0;
	if (!rc && v->plane_begin)
		rc = check_visitor(r, v->plane_begin(r->arg, &p));
	for (size_t i = 0; !rc && i < ARRAY_SIZE(kinds); i++) {
		if (kinds[i].fn)
			rc = for_each_field(r, message, schema_xplane, kinds[i].number,
					    kinds[i].fn);
	}
	if (!rc && lines && v->lines) {
		rc = v->lines(r->arg);
		hop = rc > 0;
		rc = check_visitor(r, rc);
	}
	if (!rc && lines && !hop)
		rc = for_each_field(r, message, schema_xplane, XPLANE_LINES, visit_line);
	if (!rc && v->plane_end)
		rc = check_visitor(r, v->plane_end(r->arg));
	return rc;
}

static int visit_plane(struct reading *r, const struct wire_field *f)
{
	int rc = read_plane(r, f);

	if (rc)
		err_prefix(r->e, "plane %" PRIu64, r->plane);
	r->plane++;
	return rc;
}

static int read_texts(struct reading *r, const struct wire_field *root)
{
	struct wire_walk walk = wire_walk(&r->w, root, schema_xspace);
	struct wire_field f;
	const char *s;
	int rc;

	while ((rc = wire_next(&walk, &f, r->e)) > 0) {
		if (f.number < XSPACE_ERRORS || f.number > XSPACE_HOSTNAMES)
			continue;
		rc = text_of(r, &f, &s);
		if (!rc)
			rc = check_visitor(r,
					   r->v->text(r->arg, (int)f.number, s, (size_t)f.value));
		if (rc)
			break;
	}
	return rc;
}

int xs_read(const struct xs_source *in, const struct xs_visitor *v, void *arg, struct err *e)
{
	struct reading r = { .v = v, .arg = arg, .e = e };
	struct wire_field root = wire_root(in);
	int rc;

	wire_open(&r.w, in);
	rc = for_each_field(&r, &root, schema_xspace, XSPACE_PLANES, visit_plane);
	if (!rc && v->text)
		rc = read_texts(&r, &root);
	free(r.stats);
	wire_close(&r.w);
	return rc;
}
