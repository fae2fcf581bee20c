/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The field numbers of tensorflow.profiler.XSpace, the names of its special planes, and for each
 * message a table of the wire types of its known fields. Private to xspace/.
 */
#ifndef XSPACE_SCHEMA_H
#define XSPACE_SCHEMA_H

#include <stdint.h>

enum { XSPACE_PLANES = 1, XSPACE_ERRORS = 2, XSPACE_WARNINGS = 3, XSPACE_HOSTNAMES = 4 };

enum {
	XPLANE_ID = 1,
	XPLANE_NAME = 2,
	XPLANE_LINES = 3,
	XPLANE_EVENT_METADATA = 4,
	XPLANE_STAT_METADATA = 5,
	XPLANE_STATS = 6,
};

enum {
	XLINE_ID = 1,
	XLINE_NAME = 2,
	XLINE_TIMESTAMP_NS = 3,
	XLINE_EVENTS = 4,
	XLINE_DURATION_PS = 9,
	XLINE_DISPLAY_ID = 10,
	XLINE_DISPLAY_NAME = 11,
};

enum {
	XEVENT_METADATA_ID = 1,
	XEVENT_OFFSET_PS = 2,
	XEVENT_DURATION_PS = 3,
	XEVENT_STATS = 4,
	XEVENT_NUM_OCCURRENCES = 5,
};

enum {
	XSTAT_METADATA_ID = 1,
	XSTAT_DOUBLE = 2,
	XSTAT_UINT = 3,
	XSTAT_INT = 4,
	XSTAT_STR = 5,
	XSTAT_BYTES = 6,
	XSTAT_REF = 7,
};

/* An entry of a metadata map, and the common fields of XEventMetadata and XStatMetadata. */
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { METADATA_ID = 1, METADATA_NAME = 2 };
/* Of XEventMetadata only. */
enum { METADATA_DISPLAY_NAME = 4, METADATA_STATS = 5 };
/* Of XStatMetadata only. */
enum { METADATA_DESCRIPTION = 3 };

/* Planes with a special meaning. */
#define HOST_PLANE	  "/host:CPU"
#define ENVIRONMENT_PLANE "Task Environment"
#define METADATA_PLANE	  "/host:metadata"

/* Indexed by field number: 1 + enum wire_type, or 0 for an unknown field. */
#define SCHEMA_FIELDS 16
extern const uint8_t schema_xspace[SCHEMA_FIELDS];
extern const uint8_t schema_xplane[SCHEMA_FIELDS];
extern const uint8_t schema_xline[SCHEMA_FIELDS];
extern const uint8_t schema_xevent[SCHEMA_FIELDS];
extern const uint8_t schema_xstat[SCHEMA_FIELDS];
extern const uint8_t schema_entry[SCHEMA_FIELDS];
extern const uint8_t schema_metadata[SCHEMA_FIELDS];

#endif
