/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/logs/split.h"

#include "logs/log_line.h"

static const char *find_end(const char *p, const char *end)
{
	while (p < end && *p != '\n' && *p != '\r')
		p++;
	return p;
}

/* Adds to the line that has begun, up to the limit. */
static void extend(struct split *s, const char *p, size_t len)
{
	size_t room = LOG_LINE_BYTES - s->begun.len;

	if (!s->skips)
		buf_add(&s->begun, p, len < room ? len : room);
}

void split_flush(struct split *s, split_fn fn, void *arg)
{
	if (s->begun.len)
		fn(arg, (const char *)s->begun.data, s->begun.len);
	buf_reset(&s->begun);
}

void split_add(struct split *s, const void *data, size_t len, split_fn fn, void *arg)
{
	const char *p = data, *end = p + len;

	while (p < end) {
		const char *stop = find_end(p, end);
		size_t n = (size_t)(stop - p);

		if (stop == end) {
			extend(s, p, n);
			return;
		}
		if (s->begun.len || s->skips) {
			extend(s, p, n);
			split_flush(s, fn, arg);
		} else if (n) {
			fn(arg, p, n < LOG_LINE_BYTES ? n : LOG_LINE_BYTES);
		}
		s->skips = false;
		p = stop + 1;
	}
}

void split_release(struct split *s)
{
	buf_release(&s->begun);
}
