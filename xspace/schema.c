/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/schema.h"

#include "xspace/wire.h"

#define VARINT (1 + WIRE_VARINT)
#define I64    (1 + WIRE_I64)
#define LEN    (1 + WIRE_LEN)

const uint8_t schema_xspace[SCHEMA_FIELDS] = {
	[XSPACE_PLANES] = LEN,
	[XSPACE_ERRORS] = LEN,
	[XSPACE_WARNINGS] = LEN,
	[XSPACE_HOSTNAMES] = LEN,
};

const uint8_t schema_xplane[SCHEMA_FIELDS] = {
	[XPLANE_ID] = VARINT,	       [XPLANE_NAME] = LEN,	     [XPLANE_LINES] = LEN,
	[XPLANE_EVENT_METADATA] = LEN, [XPLANE_STAT_METADATA] = LEN, [XPLANE_STATS] = LEN,
};

const uint8_t schema_xline[SCHEMA_FIELDS] = {
	[XLINE_ID] = VARINT,	    [XLINE_NAME] = LEN,		  [XLINE_TIMESTAMP_NS] = VARINT,
	[XLINE_EVENTS] = LEN,	    [XLINE_DURATION_PS] = VARINT, [XLINE_DISPLAY_ID] = VARINT,
	[XLINE_DISPLAY_NAME] = LEN,
};

const uint8_t schema_xevent[SCHEMA_FIELDS] = {
	[XEVENT_METADATA_ID] = VARINT,	   [XEVENT_OFFSET_PS] = VARINT,
	[XEVENT_DURATION_PS] = VARINT,	   [XEVENT_STATS] = LEN,
	[XEVENT_NUM_OCCURRENCES] = VARINT,
};

const uint8_t schema_xstat[SCHEMA_FIELDS] = {
	[XSTAT_METADATA_ID] = VARINT, [XSTAT_DOUBLE] = I64, [XSTAT_UINT] = VARINT,
	[XSTAT_INT] = VARINT,	      [XSTAT_STR] = LEN,    [XSTAT_BYTES] = LEN,
	[XSTAT_REF] = VARINT,
};

const uint8_t schema_entry[SCHEMA_FIELDS] = {
	[ENTRY_KEY] = VARINT,
	[ENTRY_VALUE] = LEN,
};

const uint8_t schema_metadata[SCHEMA_FIELDS] = {
	[METADATA_ID] = VARINT,
	[METADATA_NAME] = LEN,
};
