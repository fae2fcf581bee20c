/* SPDX-License-Identifier: Apache-2.0 */
/* Walks a file to the end of each message in it, whether a reading visits it or not. */
#include "xspace/wire.h"

/* A message: the wire types of its fields, and which of its fields are messages. The table ends with the number 0. */
struct shape {
	const uint8_t *schema;
	struct {
		uint32_t number;
		const struct shape *shape;
	} inside[5];
};

static const struct shape shape_stat = { schema_xstat, { { 0 } } };
static const struct shape shape_event = { schema_xevent, { { XEVENT_STATS, &shape_stat } } };
static const struct shape shape_line = { schema_xline, { { XLINE_EVENTS, &shape_event } } };
static const struct shape shape_event_metadata = { schema_metadata,
						   { { METADATA_STATS, &shape_stat } } };
static const struct shape shape_stat_metadata = { schema_metadata, { { 0 } } };
static const struct shape shape_event_entry = { schema_entry,
						{ { ENTRY_VALUE, &shape_event_metadata } } };
static const struct shape shape_stat_entry = { schema_entry,
					       { { ENTRY_VALUE, &shape_stat_metadata } } };
static const struct shape shape_plane = { schema_xplane,
					  { { XPLANE_LINES, &shape_line },
					    { XPLANE_EVENT_METADATA, &shape_event_entry },
					    { XPLANE_STAT_METADATA, &shape_stat_entry },
					    { XPLANE_STATS, &shape_stat } } };
static const struct shape shape_space = { schema_xspace, { { XSPACE_PLANES, &shape_plane } } };

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

/* As deep as the shapes are: five messages. */
static int check_message(struct wire *w, const struct wire_field *message,
			 const struct shape *shape, struct err *e)
{
	struct wire_walk walk = wire_walk(w, message, shape->schema);
	struct wire_field f;
	int rc;

	while ((rc = wire_next(&walk, &f, e)) > 0) {
		const struct shape *inner = shape_of(shape, &f);

		rc = inner ? check_message(w, &f, inner, e) : 0;
		if (rc)
			break;
	}
	return rc;
}

int xs_check(const struct xs_source *in, struct err *e)
{
	struct wire_field root = wire_root(in);
	struct wire w;
	int rc;

	wire_open(&w, in);
	rc = check_message(&w, &root, &shape_space, e);
	wire_close(&w);
	return rc;
}
