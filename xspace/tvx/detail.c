/* SPDX-License-Identifier: Apache-2.0 */
/* What only the XSpace has of an event: its stats, and its metadata, which are looked up in its plane. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/reader.h"
#include "xspace/tvx/index.h"
#include "xspace/wire.h"

#define STATS_MAX 4096 /* of one event; further ones are left out */

/* A stat that was read, with the place of its name in `text` once that is found. */
struct read_stat {
	struct xs_stat stat; /* bytes: unset until all are read */
	size_t bytes_at, key_at, key_len;
	bool is_done;
};

struct detailing {
	struct wire w;
	struct wire_field plane;
	struct read_stat *stats;
	size_t n_stats, n_own; /* the event's own come first, then those of its metadata */
	int64_t metadata_id;
	struct buf text; /* the bytes of all stats and names */
	struct tvx_detail *out;
	struct err *e;
};

static size_t text_len(const struct wire_field *f)
{
	return f->value < TVX_TEXT_MAX ? (size_t)f->value : TVX_TEXT_MAX;
}

static int add_bytes(struct detailing *d, const struct wire_field *f, size_t *at)
{
	const uint8_t *p;
	int rc = wire_peek(&d->w, f->body, text_len(f), &p, d->e);

	*at = d->text.len;
	if (!rc)
		buf_add(&d->text, p, text_len(f));
	return rc;
}

static int add_stat(struct detailing *d, const struct wire_field *message)
{
	static const enum xs_stat_kind kinds[SCHEMA_FIELDS] = {
		[XSTAT_DOUBLE] = XS_DOUBLE, [XSTAT_UINT] = XS_UINT,   [XSTAT_INT] = XS_INT,
		[XSTAT_STR] = XS_STR,	    [XSTAT_BYTES] = XS_BYTES, [XSTAT_REF] = XS_REF,
	};
	struct wire_walk walk = wire_walk(&d->w, message, schema_xstat);
	struct read_stat s = { 0 };
	struct wire_field f;
	int rc;

	if (d->n_stats == STATS_MAX)
		return 0;
	while ((rc = wire_next(&walk, &f, d->e)) > 0) {
		if (f.number == XSTAT_METADATA_ID)
			s.stat.metadata_id = (int64_t)f.value;
		if (f.number >= SCHEMA_FIELDS || !kinds[f.number])
			continue;
		s.stat.kind = kinds[f.number];
		s.stat.u = f.value;
		s.stat.len = f.type == WIRE_LEN ? text_len(&f) : 0;
		if (f.type == WIRE_LEN && (rc = add_bytes(d, &f, &s.bytes_at)))
			return rc;
	}
	if (rc)
		return rc;
	d->stats = xrealloc(d->stats, (d->n_stats + 1) * sizeof(*d->stats));
	d->stats[d->n_stats++] = s;
	return 0;
}

static int read_event(struct detailing *d, const struct wire_field *event)
{
	struct wire_walk walk = wire_walk(&d->w, event, schema_xevent);
	struct wire_field f;
	int rc;

	while ((rc = wire_next(&walk, &f, d->e)) > 0) {
		if (f.number == XEVENT_METADATA_ID)
			d->metadata_id = (int64_t)f.value;
		else if (f.number == XEVENT_STATS && (rc = add_stat(d, &f)))
			break;
	}
	return rc;
}

/* The event that stands at this offset of the XSpace. */
static int find_event(struct detailing *d, uint64_t at)
{
	const struct wire_field rest = { .body = at, .end = d->plane.end };
	struct wire_walk walk = wire_walk(&d->w, &rest, schema_xline);
	struct wire_field f;
	int rc;

	if (at < d->plane.body || at >= d->plane.end)
		return err_set(d->e, ERR_IO, "the index is damaged: the place of an event");
	rc = wire_next(&walk, &f, d->e);
	if (rc >= 0 && (!rc || f.number != XLINE_EVENTS))
		return err_set(d->e, ERR_INVALID, "the index does not belong to this file");
	return rc < 0 ? rc : read_event(d, &f);
}

static int copy_text(struct detailing *d, const struct wire_field *f, struct buf *out)
{
	const uint8_t *p;
	int rc = wire_peek(&d->w, f->body, text_len(f), &p, d->e);

	buf_reset(out);
	if (!rc)
		buf_add(out, p, text_len(f));
	return rc;
}

/* An entry of a metadata map: its key, and where its value is. */
static int read_entry(struct detailing *d, const struct wire_field *entry, int64_t *key,
		      struct wire_field *value)
{
	struct wire_walk walk = wire_walk(&d->w, entry, schema_entry);
	struct wire_field f;
	int rc;

	*key = 0;
	*value = (struct wire_field){ 0 };
	while ((rc = wire_next(&walk, &f, d->e)) > 0) {
		if (f.number == ENTRY_KEY)
			*key = (int64_t)f.value;
		else if (f.number == ENTRY_VALUE)
			*value = f;
	}
	return rc;
}

static int read_metadata(struct detailing *d, const struct wire_field *entry)
{
	struct wire_field value, f;
	struct wire_walk walk;
	int64_t key;
	int rc = read_entry(d, entry, &key, &value);

	if (rc || key != d->metadata_id)
		return rc;
	/* of entries with the same key the last one counts, as a whole */
	buf_reset(&d->out->name);
	buf_reset(&d->out->display_name);
	d->n_stats = d->n_own;
	walk = wire_walk(&d->w, &value, schema_metadata);
	while ((rc = wire_next(&walk, &f, d->e)) > 0) {
		if (f.number == METADATA_NAME)
			rc = copy_text(d, &f, &d->out->name);
		else if (f.number == METADATA_DISPLAY_NAME && f.type == WIRE_LEN)
			rc = copy_text(d, &f, &d->out->display_name);
		else if (f.number == METADATA_STATS && f.type == WIRE_LEN)
			rc = add_stat(d, &f);
		if (rc < 0)
			break;
	}
	return rc;
}

/* Gives each stat of this key its name, and each reference to it its text. */
static int read_stat_name(struct detailing *d, const struct wire_field *entry)
{
	struct wire_field value, f, name = { 0 };
	struct wire_walk walk;
	bool is_used = false;
	size_t at = 0;
	int64_t key;
	int rc = read_entry(d, entry, &key, &value);

	for (size_t i = 0; !rc && i < d->n_stats; i++)
		is_used |= d->stats[i].stat.metadata_id == key ||
			   (d->stats[i].stat.kind == XS_REF && d->stats[i].stat.i == key);
	if (rc || !is_used)
		return rc;
	walk = wire_walk(&d->w, &value, schema_metadata);
	while ((rc = wire_next(&walk, &f, d->e)) > 0) {
		if (f.number == METADATA_NAME)
			name = f;
	}
	if (!rc)
		rc = add_bytes(d, &name, &at);
	for (size_t i = 0; !rc && i < d->n_stats; i++) {
		struct read_stat *s = &d->stats[i];

		if (s->stat.metadata_id == key) {
			s->key_at = at;
			s->key_len = text_len(&name);
		}
		if (s->stat.kind == XS_REF && s->stat.i == key && !s->is_done) {
			s->bytes_at = at;
			s->stat.len = text_len(&name);
			s->is_done = true;
		}
	}
	return rc;
}

static int walk_plane(struct detailing *d, uint32_t number,
		      int (*fn)(struct detailing *d, const struct wire_field *f))
{
	struct wire_walk walk = wire_walk(&d->w, &d->plane, schema_xplane);
	struct wire_field f;
	int rc = 0;

	while (!rc && (rc = wire_next(&walk, &f, d->e)) > 0)
		rc = f.number == number ? fn(d, &f) : 0;
	return rc;
}

static void give_stats(struct detailing *d, tvx_stat_fn each, void *arg)
{
	for (size_t i = 0; i < d->n_stats; i++) {
		struct read_stat *s = &d->stats[i];

		s->stat.bytes = d->text.data + s->bytes_at;
		if (s->is_done)
			s->stat.kind = XS_STR;
		each(arg, (const char *)d->text.data + s->key_at, s->key_len, &s->stat);
	}
}

int tvx_detail(const struct tvx *x, const struct xs_source *in, uint32_t track,
	       const struct tvx_entry *en, struct tvx_detail *out, tvx_stat_fn each, void *arg,
	       struct err *e)
{
	const struct tvx_plane *plane = &x->planes[x->tracks[track].plane];
	struct detailing d = { .plane = { .body = plane->body, .end = plane->end },
			       .out = out,
			       .e = e };
	int rc;

	if (plane->body > plane->end || plane->end > in->size)
		return err_set(e, ERR_IO, "the index is damaged: the place of a plane");
	buf_add_str(&d.text, "");
	wire_open(&d.w, in);
	rc = find_event(&d, en->source);
	d.n_own = d.n_stats;
	if (!rc)
		rc = walk_plane(&d, XPLANE_EVENT_METADATA, read_metadata);
	if (!rc)
		rc = walk_plane(&d, XPLANE_STAT_METADATA, read_stat_name);
	if (!rc)
		give_stats(&d, each, arg);
	wire_close(&d.w);
	free(d.stats);
	buf_release(&d.text);
	return rc;
}
