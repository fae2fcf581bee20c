/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of an event as numbers: the innermost loop of a building. Private to xspace/tvx/. */
#ifndef XSPACE_TVX_DECODE_H
#define XSPACE_TVX_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which number among the stats becomes `extra`: the last one of this stat or, of a counter's sample, of any. */
struct event_wants {
	int64_t stat; /* the metadata id; 0 = none */
	bool is_counter;
};

struct raw_event {
	int64_t metadata_id, offset_ps, duration_ps;
	uint64_t extra; /* 0 = there is none; of a counter's sample: the bits of a double */
	bool is_aggregate; /* it has a number of occurrences and no time */
};

/* False if the bytes are no event. Stats that are not wanted are passed over unread. */
bool event_decode(const uint8_t *data, size_t len, const struct event_wants *wants,
		  struct raw_event *out);

#endif
