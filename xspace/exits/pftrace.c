/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perfetto's own format: a file is packets, one after the other (protos/perfetto/trace/trace_packet.proto). Each plane is a
 * sequence of its own, with names that are written once in it; each lane of a line, and each counter, is a track. Times count
 * on a clock of the sequence, whose zero lies BEFORE_NS before T0; a snapshot of clocks says where that is.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean_text.h"
#include "base/hash.h"
#include "base/mem.h"
#include "xspace/exits/lanes.h"

#define BEFORE_NS   INT64_C(3600000000000) /* events that begin earlier have no place */
#define FLUSH_BYTES ((size_t)1 << 20)

enum {
	CLOCK_REALTIME_ID = 1,
	CLOCK_BOOTTIME_ID = 6,
	CLOCK_OWN = 64, /* of a sequence */
};

/* Numbers of fields. */
enum {
	TRACE_PACKET = 1,
	PACKET_CLOCKS = 6,
	PACKET_TIME = 8,
	PACKET_SEQUENCE = 10,
	PACKET_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_FLAGS = 13,
	PACKET_CLOCK_ID = 58,
	PACKET_DEFAULTS = 59,
	PACKET_TRACK = 60,
	CLOCKS_CLOCK = 1,
	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8,
	TRACK_CHILD_ORDER = 11,
	TRACK_RANK = 12,
	TRACK_DESCRIPTION = 14,
	TRACK_MERGE = 15,
	EVENT_ARG = 4,
	EVENT_TYPE = 9,
	EVENT_NAME_IID = 10,
	EVENT_TRACK = 11,
	EVENT_DOUBLE = 44,
	EVENT_FLOW = 47,
	INTERNED_EVENT_NAME = 2,
	INTERNED_ARG_NAME = 3,
	INTERNED_ARG_TEXT = 29,
	ARG_NAME_IID = 1,
	ARG_UINT = 3,
	ARG_INT = 4,
	ARG_DOUBLE = 5,
	ARG_TEXT = 6,
	ARG_TEXT_IID = 17,
};

enum { SLICE_BEGIN = 1, SLICE_END = 2, INSTANT = 3, COUNTER = 4 };
enum { FLAG_CLEARED = 1, FLAG_NEEDS_STATE = 2 };
enum { ORDER_EXPLICIT = 3 };
enum { MERGE_BY_NAME = 1, MERGE_NONE = 2 };

/* A track that several lines share: a group of tracks, or of the whole. */
struct group {
	uint64_t key; /* the hash of its parent's uuid and its name */
	uint64_t uuid;
};

struct pftrace {
	struct exit_conf conf;
	struct xs_sink out;
	struct exit_counts counts;
	struct buf text; /* packets that the sink has not got */
	struct buf packet, inner, deep; /* of the packet that is made */
	struct buf interned; /* of the next packet */
	uint64_t last_uuid;
	uint32_t sequence;
	struct group *groups;
	size_t n_groups;
	/* the present host and plane */
	const struct exit_host *host;
	uint64_t host_uuid, plane_uuid, parent_uuid; /* parent: of the present line */
	const struct lanes_plane *plane;
	char process[64];
	bool is_begun; /* the sequence is */
	struct lanes_names names, stat_names;
	uint8_t *sent_names, *sent_stats, *sent_texts; /* a flag for each name */
	size_t n_names, n_stats;
	/* the present line */
	char line[1100];
	uint64_t *lane_uuids; /* by lane; 0 = none yet */
	/* counters of the plane: uuids by name's number */
	uint64_t *counter_uuids;
	unsigned int rank;
	struct err *e;
};

/* ---- fields ---- */

/* Where a head of at most HEAD_BYTES goes: a tag and a number. There are several for each event, so it is done in place. */
#define HEAD_BYTES 20
static uint8_t *head_begin(struct buf *b)
{
	if (b->cap - b->len <= HEAD_BYTES)
		buf_reserve(b, HEAD_BYTES);
	return b->data + b->len;
}

static void head_end(struct buf *b, const uint8_t *end)
{
	b->len = (size_t)(end - b->data);
	b->data[b->len] = '\0';
}

static uint8_t *add_varint(uint8_t *at, uint64_t v)
{
	for (; v >= 128; v >>= 7)
		*at++ = (uint8_t)(v | 128);
	*at++ = (uint8_t)v;
	return at;
}

static void put_uint(struct buf *b, uint32_t field, uint64_t v)
{
	head_end(b, add_varint(add_varint(head_begin(b), (uint64_t)field << 3), v));
}

static void put_fixed(struct buf *b, uint32_t field, uint64_t v)
{
	uint8_t *at = add_varint(head_begin(b), (uint64_t)field << 3 | 1);

	for (int i = 0; i < 64; i += 8)
		*at++ = (uint8_t)(v >> i);
	head_end(b, at);
}

static void put_double(struct buf *b, uint32_t field, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	put_fixed(b, field, bits);
}

static void put_bytes(struct buf *b, uint32_t field, const void *data, size_t len)
{
	head_end(b, add_varint(add_varint(head_begin(b), (uint64_t)field << 3 | 2), len));
	buf_add(b, data, len);
}

static void put_text(struct buf *b, uint32_t field, const char *text)
{
	put_bytes(b, field, text, strlen(text));
}

static void put_message(struct buf *b, uint32_t field, struct buf *message)
{
	put_bytes(b, field, message->data, message->len);
	buf_reset(message);
}

/* ---- packets ---- */

static int flush(struct pftrace *p)
{
	int rc = p->text.len ? p->out.write(p->out.arg, p->text.data, p->text.len, p->e) : 0;

	p->counts.bytes += p->text.len;
	buf_reset(&p->text);
	return rc;
}

static int put_packet(struct pftrace *p)
{
	put_message(&p->text, TRACE_PACKET, &p->packet);
	return p->text.len < FLUSH_BYTES ? 0 : flush(p);
}

struct track {
	const char *name, *description;
	uint64_t parent;
	unsigned int merge;
	bool is_counter;
};

static int put_track(struct pftrace *p, const struct track *t, uint64_t *uuid)
{
	char name[EXIT_NAME_MAX + 1];

	clean_text(name, sizeof(name), t->name, strlen(t->name));
	*uuid = ++p->last_uuid;
	put_uint(&p->inner, TRACK_UUID, *uuid);
	put_text(&p->inner, TRACK_NAME, name);
	if (t->parent)
		put_uint(&p->inner, TRACK_PARENT, t->parent);
	if (t->is_counter)
		put_bytes(&p->inner, TRACK_COUNTER, "", 0);
	put_uint(&p->inner, TRACK_CHILD_ORDER, ORDER_EXPLICIT);
	put_uint(&p->inner, TRACK_RANK, ++p->rank);
	if (t->description)
		put_text(&p->inner, TRACK_DESCRIPTION, t->description);
	put_uint(&p->inner, TRACK_MERGE, t->merge);
	put_message(&p->packet, PACKET_TRACK, &p->inner);
	put_uint(&p->packet, PACKET_SEQUENCE, 1);
	return put_packet(p);
}

static void put_clock(struct pftrace *p, uint64_t id, uint64_t ns)
{
	put_uint(&p->deep, 1, id);
	put_uint(&p->deep, 2, ns);
	put_message(&p->inner, CLOCKS_CLOCK, &p->deep);
}

/* The first packet of a plane's sequence. */
static int begin_sequence(struct pftrace *p)
{
	int64_t base_ns = p->conf.t0_unix_ns - BEFORE_NS;
	uint64_t base = base_ns > 0 ? (uint64_t)base_ns : 0;

	p->is_begun = true;
	put_clock(p, CLOCK_BOOTTIME_ID, base);
	put_clock(p, CLOCK_REALTIME_ID, base);
	put_clock(p, CLOCK_OWN, 0);
	put_message(&p->packet, PACKET_CLOCKS, &p->inner);
	put_uint(&p->inner, PACKET_CLOCK_ID, CLOCK_OWN);
	put_message(&p->packet, PACKET_DEFAULTS, &p->inner);
	put_uint(&p->packet, PACKET_SEQUENCE, p->sequence);
	put_uint(&p->packet, PACKET_FLAGS, FLAG_CLEARED | FLAG_NEEDS_STATE);
	return put_packet(p);
}

static int put_event(struct pftrace *p, int64_t ns)
{
	put_uint(&p->packet, PACKET_TIME, (uint64_t)(ns + BEFORE_NS));
	put_uint(&p->packet, PACKET_SEQUENCE, p->sequence);
	put_message(&p->packet, PACKET_EVENT, &p->inner);
	if (p->interned.len)
		put_message(&p->packet, PACKET_INTERNED, &p->interned);
	put_uint(&p->packet, PACKET_FLAGS, FLAG_NEEDS_STATE);
	return put_packet(p);
}

/* ---- names: the number in the plane's table, plus 1 ---- */

static void intern(struct pftrace *p, uint8_t *sent, uint32_t field,
		   const struct lanes_names *names, uint32_t number)
{
	char clean[EXIT_NAME_MAX + 1];
	const char *text;
	size_t len;

	if (sent[number])
		return;
	sent[number] = 1;
	text = lanes_text(names, number, &len);
	len = clean_text(clean, sizeof(clean), text, len);
	put_uint(&p->deep, 1, (uint64_t)number + 1);
	put_bytes(&p->deep, 2, clean, len);
	put_message(&p->interned, field, &p->deep);
}

static void put_arg(struct pftrace *p, const struct xs_stat *s)
{
	uint32_t name = (uint32_t)s->metadata_id;

	if (name == LANES_NO_NAME || (s->kind == XS_REF && s->u == LANES_NO_NAME))
		return;
	intern(p, p->sent_stats, INTERNED_ARG_NAME, &p->stat_names, name);
	if (s->kind == XS_REF)
		intern(p, p->sent_texts, INTERNED_ARG_TEXT, &p->stat_names, (uint32_t)s->u);
	put_uint(&p->deep, ARG_NAME_IID, (uint64_t)name + 1);
	if (s->kind == XS_DOUBLE) {
		put_double(&p->deep, ARG_DOUBLE, s->d);
	} else if (s->kind == XS_UINT) {
		put_uint(&p->deep, ARG_UINT, s->u);
	} else if (s->kind == XS_INT) {
		put_uint(&p->deep, ARG_INT, (uint64_t)s->i);
	} else if (s->kind == XS_REF) {
		put_uint(&p->deep, ARG_TEXT_IID, s->u + 1);
	} else {
		char clean[EXIT_NAME_MAX + 1];
		size_t len = clean_text(clean, sizeof(clean), (const char *)s->bytes, s->len);

		put_bytes(&p->deep, ARG_TEXT, clean, len);
	}
	put_message(&p->inner, EVENT_ARG, &p->deep);
}

/* ---- tracks ---- */

/* A track for all that is grouped under this name; made the first time. */
static int find_group(struct pftrace *p, uint64_t parent, const char *name, const char *description,
		      uint64_t *uuid)
{
	const struct track t = {
		.name = name, .description = description, .parent = parent, .merge = MERGE_NONE
	};
	uint64_t key = hash_text(name) ^ parent * UINT64_C(0x9e3779b97f4a7c15);
	int rc;

	for (size_t i = p->n_groups; i-- > 0;) {
		if (p->groups[i].key == key) {
			*uuid = p->groups[i].uuid;
			return 0;
		}
	}
	rc = put_track(p, &t, uuid);
	p->groups = xrealloc(p->groups, (p->n_groups + 1) * sizeof(*p->groups));
	p->groups[p->n_groups++] = (struct group){ key, *uuid };
	return rc;
}

/* "host-a, 4711": what the line has of the things that `by` names. All of them fit. */
#define GROUP_NAME_BYTES 4096
static void name_group(const struct pftrace *p, unsigned int by, const char *line,
		       char out[GROUP_NAME_BYTES])
{
	const char *plane = p->plane->name;
	const char *const parts[] = { p->host->name, p->process,
				      p->plane->is_device ? plane : "host", plane, line };
	size_t used = 0;

	*out = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (by & 1u << i)
			used += (size_t)snprintf(out + used, GROUP_NAME_BYTES - used, "%s%s",
						 used ? ", " : "", parts[i]);
	}
}

static void name_host(const struct exit_host *host, char name[200], char description[200])
{
	if (host->clock_bound_ns < 0)
		snprintf(name, 200, "%.128s (clock unknown)", host->name);
	else
		snprintf(name, 200, "%.128s (clock within %.1f us)", host->name,
			 (double)host->clock_bound_ns / 1000);
	snprintf(description, 200,
		 host->clock_bound_ns < 0
			 ? "times of this host were not measured against the session's clock"
			 : "no time of this host is wrong by more than %" PRId64 " ns",
		 host->clock_bound_ns);
}

/* The track above the line's. */
static int find_parent(struct pftrace *p, const char *line)
{
	char name[GROUP_NAME_BYTES];
	int rc;

	if (!p->conf.primary && !p->conf.secondary)
		return find_group(p, p->host_uuid, p->plane->title, NULL, &p->parent_uuid);
	name_group(p, p->conf.primary, line, name);
	rc = find_group(p, 0, name, NULL, &p->parent_uuid);
	if (!rc && p->conf.secondary) {
		name_group(p, p->conf.secondary, line, name);
		snprintf(p->line, sizeof(p->line), "%.1000s", name);
	}
	return rc;
}

/* ---- the visitor ---- */

static void begin_names(struct pftrace *p)
{
	size_t n = p->names.texts.n + 1, m = p->stat_names.texts.n + 1;

	free(p->sent_names);
	free(p->sent_stats);
	free(p->sent_texts);
	free(p->counter_uuids);
	p->sent_names = xcalloc(n, 1);
	p->sent_stats = xcalloc(m, 1);
	p->sent_texts = xcalloc(m, 1);
	p->counter_uuids = xcalloc(n, sizeof(*p->counter_uuids));
}

static int on_plane(void *arg, const struct lanes_plane *plane)
{
	struct pftrace *p = arg;

	p->plane = plane;
	snprintf(p->process, sizeof(p->process), "%.60s", plane->name);
	if (plane->has_process)
		snprintf(p->process, sizeof(p->process), "%" PRId64, plane->process_id);
	p->sequence++;
	p->is_begun = false;
	return 0;
}

static int on_line(void *arg, const struct xs_line *line)
{
	struct pftrace *p = arg;
	int rc = 0;

	if (!p->is_begun) {
		begin_names(p);
		rc = begin_sequence(p);
	}
	snprintf(p->line, sizeof(p->line), "%s", line->display_name);
	memset(p->lane_uuids, 0, EXIT_LANES_MAX * sizeof(*p->lane_uuids));
	return rc ? rc : find_parent(p, line->display_name);
}

static int find_lane_track(struct pftrace *p, uint32_t lane)
{
	char name[1200];
	const struct track t = { .name = name,
				 .parent = p->parent_uuid,
				 .merge = p->conf.secondary ? MERGE_BY_NAME : MERGE_NONE };

	if (p->lane_uuids[lane])
		return 0;
	snprintf(name, sizeof(name), lane ? "%s (%u)" : "%s", p->line, lane + 1);
	p->counts.tracks++;
	return put_track(p, &t, &p->lane_uuids[lane]);
}

static int on_begin(void *arg, const struct lane_event *ev)
{
	struct pftrace *p = arg;
	int rc = find_lane_track(p, ev->lane);

	if (rc)
		return rc;
	put_uint(&p->inner, EVENT_TYPE, ev->end_ns > ev->start_ns ? SLICE_BEGIN : INSTANT);
	put_uint(&p->inner, EVENT_TRACK, p->lane_uuids[ev->lane]);
	if (ev->name != LANES_NO_NAME) {
		intern(p, p->sent_names, INTERNED_EVENT_NAME, &p->names, ev->name);
		put_uint(&p->inner, EVENT_NAME_IID, (uint64_t)ev->name + 1);
	}
	for (size_t i = 0; i < ev->n_stats; i++) {
		const struct xs_stat *s = &ev->stats[i];

		if ((s->kind == XS_UINT || s->kind == XS_INT) &&
		    lanes_is_stat(&p->stat_names, s, "flow")) {
			put_fixed(&p->inner, EVENT_FLOW, s->u >> 2);
			p->counts.flow_ends++;
		} else {
			put_arg(p, s);
		}
	}
	p->counts.slices++;
	return put_event(p, ev->start_ns);
}

static int on_end(void *arg, uint32_t lane, int64_t end_ns)
{
	struct pftrace *p = arg;

	put_uint(&p->inner, EVENT_TYPE, SLICE_END);
	put_uint(&p->inner, EVENT_TRACK, p->lane_uuids[lane]);
	return put_event(p, end_ns);
}

static int on_sample(void *arg, const struct lane_event *ev, double value)
{
	struct pftrace *p = arg;
	char text[EXIT_NAME_MAX + 1] = "?";
	struct track t = {
		.name = text, .parent = p->parent_uuid, .merge = MERGE_NONE, .is_counter = true
	};
	const uint32_t name = ev->name;
	size_t len;
	uint64_t *uuid = &p->counter_uuids[name == LANES_NO_NAME ? p->names.texts.n : name];
	int rc = 0;

	if (!*uuid) {
		if (name != LANES_NO_NAME) {
			const char *s = lanes_text(&p->names, name, &len);

			snprintf(text, sizeof(text), "%.*s", (int)len, s);
		}
		p->counts.tracks++;
		rc = put_track(p, &t, uuid);
	}
	if (rc)
		return rc;
	put_uint(&p->inner, EVENT_TYPE, COUNTER);
	put_uint(&p->inner, EVENT_TRACK, *uuid);
	put_double(&p->inner, EVENT_DOUBLE, value);
	p->counts.samples++;
	return put_event(p, ev->start_ns);
}

/* ---- all ---- */

struct pftrace *pftrace_new(const struct exit_conf *conf, const struct xs_sink *out)
{
	struct pftrace *p = xcalloc(1, sizeof(*p));

	p->conf = *conf;
	p->out = *out;
	if (p->conf.filter.from_ns < -BEFORE_NS)
		p->conf.filter.from_ns = -BEFORE_NS;
	p->lane_uuids = xcalloc(EXIT_LANES_MAX, sizeof(*p->lane_uuids));
	p->sequence = 1; /* that of tracks */
	return p;
}

int pftrace_add(struct pftrace *p, const struct exit_host *host, const struct xs_source *in,
		struct err *e)
{
	static const struct lanes_visitor visitor = {
		.plane = on_plane,
		.line = on_line,
		.begin = on_begin,
		.end = on_end,
		.sample = on_sample,
	};
	char name[200], description[200];
	int rc = 0;

	p->e = e;
	p->host = host;
	name_host(host, name, description);
	if (!p->conf.primary && !p->conf.secondary)
		rc = find_group(p, 0, name, description, &p->host_uuid);
	if (!rc)
		rc = lanes_read(in, &p->conf.filter, &visitor, p, &p->names, &p->stat_names,
				&p->counts, e);
	return rc;
}

int pftrace_end(struct pftrace *p, struct exit_counts *counts, struct err *e)
{
	int rc;

	p->e = e;
	rc = flush(p);
	*counts = p->counts;
	return rc;
}

void pftrace_free(struct pftrace *p)
{
	if (!p)
		return;
	buf_release(&p->text);
	buf_release(&p->packet);
	buf_release(&p->inner);
	buf_release(&p->deep);
	buf_release(&p->interned);
	free(p->groups);
	free(p->lane_uuids);
	free(p->counter_uuids);
	free(p->sent_names);
	free(p->sent_stats);
	free(p->sent_texts);
	free(p);
}
