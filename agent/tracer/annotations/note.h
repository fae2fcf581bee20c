/* SPDX-License-Identifier: Apache-2.0 */
/* An annotation as the agent keeps it, decoded from a ring's records. In the agent's ring an annotation is
 * stamped with its end time. */
#ifndef AGENT_TRACER_ANNOTATIONS_NOTE_H
#define AGENT_TRACER_ANNOTATIONS_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define TUTTI_FORMAT_ONLY
#include "include/tutti/tutti.h"

#define NOTE_THREAD_BYTES 16

enum note_kind {
	NOTE_SCOPE,
	NOTE_STEP, /* a scope whose value is the step's number */
	NOTE_RANGE, /* overlaps others */
	NOTE_INSTANT,
	NOTE_COUNTER,
	NOTE_STEP_BEGIN, /* a step has begun; not an event of the timeline */
};

struct note {
	int64_t begin_raw_ns, end_raw_ns; /* equal for what has no duration */
	uint64_t value;
	int32_t pid, tid; /* in the agent's PID namespace, if known */
	uint8_t kind; /* enum note_kind */
	uint8_t type; /* enum tutti_type */
	uint8_t unfinished; /* its real end is unknown: the process ended, or records were lost */
	uint8_t text_len;
	char thread[NOTE_THREAD_BYTES]; /* name; ends with NUL */
	/* ends with NUL; a stored note is cut behind that: NOTE_BYTES */
	char text[TUTTI_TEXT_MAX + 1];
};

#define NOTE_BYTES(n) (offsetof(struct note, text) + (n)->text_len + 1)

/* What has a duration. */
static inline bool note_has_span(const struct note *n)
{
	return n->kind <= NOTE_RANGE;
}

typedef void (*note_fn)(void *arg, const struct note *n);

/* Notes in a row: each has NOTE_BYTES, rounded up to 8. */
static inline size_t note_row_bytes(const struct note *n)
{
	return (NOTE_BYTES(n) + 7) / 8 * 8;
}

static inline void note_row_add(struct buf *row, const struct note *n)
{
	static const uint8_t zeros[8];

	buf_add(row, n, NOTE_BYTES(n));
	buf_add(row, zeros, note_row_bytes(n) - NOTE_BYTES(n));
}

static inline void note_row_each(const struct buf *row, note_fn fn, void *arg)
{
	for (size_t at = 0; at < row->len;) {
		const struct note *n = (const struct note *)(row->data + at);

		at += note_row_bytes(n);
		fn(arg, n);
	}
}

#endif
