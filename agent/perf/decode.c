/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/perf/decode.h"

#include <linux/perf_event.h>

/* What sample_id_all appends to every record that is not a sample; in the short layout the time alone. */
struct trailer {
	uint32_t pid, tid;
	uint64_t time;
};

/* The kernel writes in this machine's byte order. */
static bool get(struct reader *r, void *out, size_t size)
{
	const uint8_t *p;

	if (!reader_take(r, size, &p))
		return false;
	memcpy(out, p, size);
	return true;
}

static bool get_text(struct reader *r, const char **out)
{
	if (!reader_left(r) || !memchr(r->p, '\0', reader_left(r)))
		return false;
	*out = (const char *)r->p;
	return true;
}

static bool decode_sample(struct reader *r, struct perf_record *out)
{
	uint64_t time;
	uint32_t raw_len;

	out->kind = PERF_KIND_SAMPLE;
	if (!get(r, &out->pid, 4) || !get(r, &out->tid, 4) || !get(r, &time, 8) ||
	    !get(r, &out->n_ips, 8) || out->n_ips > reader_left(r) / 8)
		return false;
	out->time_ns = (int64_t)time;
	if (!reader_take(r, (size_t)out->n_ips * 8, &out->ips))
		return false;
	if (!get(r, &raw_len, sizeof(raw_len))) /* no tracepoint */
		return true;
	out->raw_len = raw_len;
	return reader_take(r, raw_len, &out->raw);
}

static bool decode_map(struct reader *r, struct perf_record *out)
{
	uint64_t generation;
	uint32_t prot, flags;

	out->kind = PERF_KIND_MAP;
	return get(r, &out->pid, 4) && get(r, &out->tid, 4) && get(r, &out->address, 8) &&
	       get(r, &out->length, 8) && get(r, &out->offset, 8) && get(r, &out->major, 4) &&
	       get(r, &out->minor, 4) && get(r, &out->inode, 8) && get(r, &generation, 8) &&
	       get(r, &prot, 4) && get(r, &flags, 4) && get_text(r, &out->text);
}

static bool decode_comm(struct reader *r, uint16_t misc, struct perf_record *out)
{
	out->kind = PERF_KIND_COMM;
	out->exec = misc & PERF_RECORD_MISC_COMM_EXEC;
	return get(r, &out->pid, 4) && get(r, &out->tid, 4) && get_text(r, &out->text);
}

static bool decode_task(struct reader *r, enum perf_kind kind, struct perf_record *out)
{
	out->kind = kind;
	return get(r, &out->pid, 4) && get(r, &out->ppid, 4) && get(r, &out->tid, 4) &&
	       get(r, &out->ptid, 4);
}

static bool decode_lost(struct reader *r, struct perf_record *out)
{
	uint64_t id;

	out->kind = PERF_KIND_LOST;
	return get(r, &id, 8) && get(r, &out->count, 8);
}

static bool decode_switch(struct reader *r, uint16_t misc, const struct trailer *trailer,
			  struct perf_record *out)
{
	out->kind = PERF_KIND_SWITCH;
	out->pid = trailer->pid;
	out->tid = trailer->tid;
	out->out = misc & PERF_RECORD_MISC_SWITCH_OUT;
	out->preempted = misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
	return get(r, &out->ppid, 4) && get(r, &out->ptid, 4);
}

static bool decode_body(struct reader *r, const struct perf_event_header *h,
			const struct trailer *trailer, struct perf_record *out)
{
	switch (h->type) {
	case PERF_RECORD_SAMPLE:
		return decode_sample(r, out);
	case PERF_RECORD_MMAP2:
		return decode_map(r, out);
	case PERF_RECORD_COMM:
		return decode_comm(r, h->misc, out);
	case PERF_RECORD_FORK:
		return decode_task(r, PERF_KIND_FORK, out);
	case PERF_RECORD_EXIT:
		return decode_task(r, PERF_KIND_EXIT, out);
	case PERF_RECORD_LOST:
		return decode_lost(r, out);
	case PERF_RECORD_SWITCH_CPU_WIDE:
		return decode_switch(r, h->misc, trailer, out);
	case PERF_RECORD_THROTTLE:
		out->kind = PERF_KIND_THROTTLE;
		return true;
	default:
		out->kind = PERF_KIND_OTHER;
		return true;
	}
}

static bool take_trailer(struct reader *body, enum perf_layout layout, struct trailer *out)
{
	size_t len = layout == PERF_LAYOUT_SHORT ? sizeof(out->time) : sizeof(*out);

	if (reader_left(body) < len)
		return false;
	body->end -= len;
	memcpy((uint8_t *)out + sizeof(*out) - len, body->end, len);
	return true;
}

bool perf_decode(struct reader *r, enum perf_layout layout, struct perf_record *out)
{
	struct reader whole = *r, body;
	struct perf_event_header h;
	struct trailer trailer = { 0 };
	const uint8_t *p;

	*out = (struct perf_record){ .kind = PERF_KIND_OTHER };
	if (!get(&whole, &h, sizeof(h)) || h.size < sizeof(h) ||
	    !reader_take(&whole, h.size - sizeof(h), &p))
		return false;
	body = reader_of(p, h.size - sizeof(h));
	if (h.type != PERF_RECORD_SAMPLE) {
		if (!take_trailer(&body, layout, &trailer))
			return false;
		out->time_ns = (int64_t)trailer.time;
	}
	if (!decode_body(&body, &h, &trailer, out))
		return false;
	*r = whole;
	return true;
}
