/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/logs/reading.h"

/* What was not used is kept, up to the allowance of one second. */
static int64_t refill(int64_t left, int64_t per_s, int64_t passed_ns)
{
	int64_t more = passed_ns < NS_PER_S ? per_s * passed_ns / NS_PER_S : per_s;

	return left + more < per_s ? left + more : per_s;
}

void reading_begin(struct reading *r, int64_t lines_s)
{
	struct clock_pair before = r->pair;
	int64_t passed_ns;

	r->pair = now_pair();
	r->mono_ns = now_mono_ns();
	passed_ns = r->pair.raw_ns - before.raw_ns;
	r->stepped = before.raw_ns && clock_pair_has_step(&before, &r->pair);
	r->lines_left = refill(r->lines_left, lines_s, passed_ns);
	r->bytes_left = refill(r->bytes_left, READING_BYTES_S, passed_ns);
	buf_reset(&r->rows);
	r->lost = 0;
}

/* False: it is not the line's time. */
static bool find_raw(const struct reading *r, const struct log_time *time, int64_t *raw_ns)
{
	int64_t ago_ns;

	if (time->clock == LOG_CLOCK_NONE || (time->clock != LOG_CLOCK_MONO && r->stepped))
		return false;
	if (time->clock == LOG_CLOCK_MONO)
		ago_ns = r->mono_ns - time->ns;
	else
		ago_ns = r->pair.real_ns - log_time_unix(time, r->pair.real_ns);
	*raw_ns = r->pair.raw_ns - ago_ns;
	return ago_ns >= -READING_AHEAD_NS && ago_ns <= READING_BEHIND_NS;
}

void reading_add(struct reading *r, const struct log_origin *from, const struct log_line *line,
		 const struct log_time *time, enum log_stamp stamp)
{
	struct log_record record = { .severity = line->severity,
				     .stamp = STAMP_TEXT,
				     .kind = from->kind,
				     .name = from->name,
				     .namespace = from->namespace,
				     .pod = from->pod,
				     .container = from->container,
				     .text = line->text };
	int64_t raw_ns;

	if (!*line->text)
		return;
	if (r->lines_left <= 0) {
		r->lost++;
		return;
	}
	r->lines_left--;
	if (!find_raw(r, &line->time, &raw_ns)) {
		record.stamp = stamp;
		if (!find_raw(r, time, &raw_ns)) {
			record.stamp = STAMP_READ;
			raw_ns = r->pair.raw_ns;
		}
	}
	record_row_add(&r->rows, raw_ns, &record);
}

void reading_release(struct reading *r)
{
	buf_release(&r->rows);
}
