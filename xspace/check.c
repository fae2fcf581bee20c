/* SPDX-License-Identifier: Apache-2.0 */
/* Walks a file to the end of each message in it, whether a reading visits it or not. */
#include <inttypes.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "xspace/text.h"
#include "xspace/wire.h"

#define PIECE 4096 /* bytes of a text that are looked at in one step */

/* A message: the wire types of its fields, which of its fields are texts (bit N: number N), and which are messages.
 * The table ends with the number 0. */
struct shape {
	const char *name;
	const uint8_t *schema;
	uint32_t texts;
	struct {
		uint32_t number;
		const struct shape *shape;
	} inside[5];
};

#define BIT(number) (1u << (number))

static const struct shape shape_stat = { "XStat", schema_xstat, BIT(XSTAT_STR), { { 0 } } };
static const struct shape shape_event = {
	"XEvent", schema_xevent, 0, { { XEVENT_STATS, &shape_stat } }
};
static const struct shape shape_line = { "XLine",
					 schema_xline,
					 BIT(XLINE_NAME) | BIT(XLINE_DISPLAY_NAME),
					 { { XLINE_EVENTS, &shape_event } } };
static const struct shape shape_event_metadata = { "XEventMetadata",
						   schema_metadata,
						   BIT(METADATA_NAME) | BIT(METADATA_DISPLAY_NAME),
						   { { METADATA_STATS, &shape_stat } } };
static const struct shape shape_stat_metadata = {
	"XStatMetadata", schema_metadata, BIT(METADATA_NAME) | BIT(METADATA_DESCRIPTION), { { 0 } }
};
static const struct shape shape_event_entry = {
	"the map of XEventMetadata", schema_entry, 0, { { ENTRY_VALUE, &shape_event_metadata } }
};
static const struct shape shape_stat_entry = {
	"the map of XStatMetadata", schema_entry, 0, { { ENTRY_VALUE, &shape_stat_metadata } }
};
static const struct shape shape_plane = { "XPlane",
					  schema_xplane,
					  BIT(XPLANE_NAME),
					  { { XPLANE_LINES, &shape_line },
					    { XPLANE_EVENT_METADATA, &shape_event_entry },
					    { XPLANE_STAT_METADATA, &shape_stat_entry },
					    { XPLANE_STATS, &shape_stat } } };
static const struct shape shape_space = { "XSpace",
					  schema_xspace,
					  BIT(XSPACE_ERRORS) | BIT(XSPACE_WARNINGS) |
						  BIT(XSPACE_HOSTNAMES),
					  { { XSPACE_PLANES, &shape_plane } } };

struct check {
	struct wire w;
	xs_bad_text_fn bad; /* NULL: texts are not looked at */
	void *arg;
};

static const struct shape *shape_of(const struct shape *outer, const struct wire_field *f)
{
	if (f->type != WIRE_LEN)
		return NULL;
	for (size_t i = 0; outer->inside[i].number; i++) {
		if (outer->inside[i].number == f->number)
			return outer->inside[i].shape;
	}
	return NULL;
}

static bool is_text(const struct shape *shape, const struct wire_field *f)
{
	return f->type == WIRE_LEN && f->number < SCHEMA_FIELDS && shape->texts & BIT(f->number);
}

/* Piece by piece: a text may be longer than any window. A character that a piece cuts begins the next one. */
static int check_text(struct check *c, const struct shape *shape, const struct wire_field *f,
		      struct err *e)
{
	const struct xs_bad_text where = { .message = shape->name, .field = f->number };
	int rc = 0;

	for (uint64_t at = f->body; at < f->end && !rc;) {
		size_t len = f->end - at < PIECE ? (size_t)(f->end - at) : PIECE, good;
		const uint8_t *p;

		rc = wire_peek(&c->w, at, len, &p, e);
		if (rc)
			break;
		good = text_valid(p, len);
		at += good;
		if (good == len || (len - good < 4 && at + len - good < f->end))
			continue;
		rc = c->bad(c->arg, &where, at, e);
		at++;
	}
	return rc;
}

/* As deep as the shapes are: five messages. */
static int check_message(struct check *c, const struct wire_field *message,
			 const struct shape *shape, struct err *e)
{
	struct wire_walk walk = wire_walk(&c->w, message, shape->schema);
	struct wire_field f;
	int rc;

	while ((rc = wire_next(&walk, &f, e)) > 0) {
		const struct shape *inner = shape_of(shape, &f);

		if (inner)
			rc = check_message(c, &f, inner, e);
		else
			rc = c->bad && is_text(shape, &f) ? check_text(c, shape, &f, e) : 0;
		if (rc)
			break;
	}
	return rc;
}

int xs_check_texts(const struct xs_source *in, xs_bad_text_fn bad, void *arg, struct err *e)
{
	struct wire_field root = wire_root(in);
	struct check c = { .bad = bad, .arg = arg };
	int rc;

	wire_open(&c.w, in);
	rc = check_message(&c, &root, &shape_space, e);
	wire_close(&c.w);
	return rc;
}

int xs_check(const struct xs_source *in, struct err *e)
{
	return xs_check_texts(in, NULL, NULL, e);
}

int xs_refuse_bad_text(void *arg, const struct xs_bad_text *where, uint64_t at, struct err *e)
{
	(void)arg;
	return err_set(e, ERR_INVALID,
		       "a text is not UTF-8 (field %" PRIu32 " of %s) at byte %" PRIu64,
		       where->field, where->message, at);
}
