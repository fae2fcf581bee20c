/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU samples as a profile of pprof (profile.proto). A sampler's plane has an event for each function of a stack, nested
 * in its caller's (docs/tracers.md): the own time of an event is that of its stack. Stacks are kept as a tree whose roots
 * are the threads; each node becomes a sample with a location, which is a function, for each level above it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean_text.h"
#include "base/mem.h"
#include "xspace/exits/lanes.h"
#include "xspace/exits/self_time.h"

#define FLUSH_BYTES ((size_t)1 << 20)

/* Fields of profile.proto. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_TIME_NS = 9,
	PROFILE_DURATION_NS = 10,
	PROFILE_PERIOD_TYPE = 11,
	TYPE_NAME = 1,
	TYPE_UNIT = 2,
	SAMPLE_LOCATIONS = 1,
	SAMPLE_VALUES = 2,
	SAMPLE_LABEL = 3,
	LABEL_KEY = 1,
	LABEL_TEXT = 2,
	LOCATION_ID = 1,
	LOCATION_LINE = 4,
	LINE_FUNCTION = 1,
	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_SYSTEM_NAME = 3,
	FUNCTION_FILE = 4,
	FUNCTION_FIRST_LINE = 5,
};

/* A thread, or a function called by the stack above it. */
struct node {
	uint32_t parent; /* 0 = it is a thread */
	uint32_t id; /* a number in `threads` or in `functions` */
	int64_t ns; /* own time */
};

struct pprof {
	struct exit_conf conf;
	struct xs_sink out;
	struct exit_counts counts;
	struct names threads; /* HOST, NUL, line */
	struct names functions; /* name, NUL, file, NUL, number of its first line */
	struct names strings; /* of the profile */
	struct node *nodes; /* from 1 on */
	uint32_t n_nodes, cap_nodes;
	uint32_t *slots; /* of nodes, by parent and id; 0 = free */
	size_t n_slots;
	struct buf text, message, inner, deep;
	/* the present plane and line */
	const struct exit_host *host;
	const struct lanes_plane *plane;
	uint32_t thread; /* its node */
	struct self_stack *stacks; /* ids are nodes */
	struct lanes_names names, stat_names;
	struct err *e;
};

/* ---- stacks ---- */

static uint32_t *find_slot(struct pprof *p, uint32_t parent, uint32_t id)
{
	uint64_t key = ((uint64_t)parent << 32 | id) * UINT64_C(0x9e3779b97f4a7c15);
	size_t at = (size_t)(key >> 32) & (p->n_slots - 1);

	for (; p->slots[at]; at = (at + 1) & (p->n_slots - 1)) {
		const struct node *n = &p->nodes[p->slots[at]];

		if (n->parent == parent && n->id == id)
			break;
	}
	return &p->slots[at];
}

static void grow_nodes(struct pprof *p)
{
	p->cap_nodes = 2 * p->cap_nodes;
	p->nodes = xrealloc(p->nodes, p->cap_nodes * sizeof(*p->nodes));
	free(p->slots);
	p->n_slots = 2 * (size_t)p->cap_nodes;
	p->slots = xcalloc(p->n_slots, sizeof(*p->slots));
	for (uint32_t i = 1; i < p->n_nodes; i++)
		*find_slot(p, p->nodes[i].parent, p->nodes[i].id) = i;
}

/* The node, which is made if there is none; where there are EXIT_STACKS_MAX, the node of the caller. */
static uint32_t find_node(struct pprof *p, uint32_t parent, uint32_t id)
{
	uint32_t *slot;

	if (p->n_nodes == p->cap_nodes)
		grow_nodes(p);
	slot = find_slot(p, parent, id);
	if (*slot)
		return *slot;
	if (parent && p->n_nodes > EXIT_STACKS_MAX) {
		p->counts.left_out++;
		return parent;
	}
	p->nodes[p->n_nodes] = (struct node){ .parent = parent, .id = id };
	return *slot = p->n_nodes++;
}

/* ---- the visitor ---- */

static int on_plane(void *arg, const struct lanes_plane *plane)
{
	struct pprof *p = arg;

	p->plane = plane;
	return 0;
}

/* Lines of threads are named "THREAD/TID". */
static bool is_thread(const char *line)
{
	const char *tid = strrchr(line, '/');

	return tid && tid[1] && !tid[1 + strspn(tid + 1, "0123456789")];
}

static bool wants(void *arg, const char *plane, const char *line)
{
	const struct pprof *p = arg;
	const struct exit_filter *f = &p->conf.filter;

	return p->plane->is_sampled && is_thread(line) &&
	       (!f->wants || f->wants(f->arg, plane, line));
}

static int on_line(void *arg, const struct xs_line *line)
{
	struct pprof *p = arg;
	uint32_t thread;
	int rc;

	buf_reset(&p->inner);
	buf_add(&p->inner, p->host->name, strlen(p->host->name) + 1);
	buf_add_str(&p->inner, line->display_name);
	rc = names_add(&p->threads, p->inner.data, p->inner.len, &thread, p->e);
	p->thread = rc ? 0 : find_node(p, 0, thread);
	self_clear(p->stacks);
	p->counts.tracks++;
	return rc;
}

/* Appends a text without the NULs that divide a key. */
static void add_clean(struct buf *b, const char *text, size_t len)
{
	char clean[EXIT_NAME_MAX + 1];

	buf_add(b, clean, clean_text(clean, sizeof(clean), text, len));
}

static int find_function(struct pprof *p, const struct lane_event *ev, uint32_t *out)
{
	const char *name = "?", *file = "";
	size_t len = 1, file_len = 0;
	uint64_t first_line = 0;

	if (ev->name != LANES_NO_NAME)
		name = lanes_text(&p->names, ev->name, &len);
	for (size_t i = 0; i < ev->n_stats; i++) {
		const struct xs_stat *s = &ev->stats[i];

		if (lanes_is_stat(&p->stat_names, s, "file"))
			file = lanes_stat_text(&p->stat_names, s, &file_len);
		else if (lanes_is_stat(&p->stat_names, s, "first_line") && s->kind == XS_UINT)
			first_line = s->u;
	}
	buf_reset(&p->inner);
	add_clean(&p->inner, name, len);
	buf_add_u8(&p->inner, 0);
	add_clean(&p->inner, file, file_len);
	buf_add_u8(&p->inner, 0);
	buf_addf(&p->inner, "%" PRIu64, first_line);
	return names_add(&p->functions, p->inner.data, p->inner.len, out, p->e);
}

static int on_begin(void *arg, const struct lane_event *ev)
{
	struct pprof *p = arg;
	struct self_stack *s = &p->stacks[ev->lane];
	uint32_t function;
	int rc = find_function(p, ev, &function);

	p->counts.slices++;
	if (!rc && ev->end_ns > ev->start_ns)
		self_push(s, find_node(p, s->n ? s->open[s->n - 1].id : p->thread, function),
			  self_clip(&p->conf.filter, ev->start_ns, ev->end_ns));
	return rc;
}

static int on_end(void *arg, uint32_t lane, int64_t end_ns)
{
	struct pprof *p = arg;
	uint32_t node;
	int64_t ns = self_pop(&p->stacks[lane], &node);

	(void)end_ns;
	if (__builtin_add_overflow(p->nodes[node].ns, ns, &p->nodes[node].ns))
		p->nodes[node].ns = INT64_MAX;
	return 0;
}

/* ---- the profile ---- */

static void put_uint(struct buf *b, uint32_t field, uint64_t v)
{
	buf_add_varint(b, (uint64_t)field << 3);
	buf_add_varint(b, v);
}

static void put_bytes(struct buf *b, uint32_t field, const void *data, size_t len)
{
	buf_add_varint(b, (uint64_t)field << 3 | 2);
	buf_add_varint(b, len);
	buf_add(b, data, len);
}

static void put_message(struct buf *b, uint32_t field, struct buf *message)
{
	put_bytes(b, field, message->data, message->len);
	buf_reset(message);
}

static int flush(struct pprof *p, size_t from)
{
	int rc = 0;

	if (p->text.len <= from)
		return 0;
	rc = p->out.write(p->out.arg, p->text.data, p->text.len, p->e);
	p->counts.bytes += p->text.len;
	buf_reset(&p->text);
	return rc;
}

/* The field's value is the number of this string. */
static int put_string(struct pprof *p, struct buf *b, uint32_t field, const char *text)
{
	uint32_t number;
	int rc = names_add(&p->strings, text, strlen(text), &number, p->e);

	if (!rc)
		put_uint(b, field, number);
	return rc;
}

static int put_type(struct pprof *p, uint32_t field)
{
	int rc = put_string(p, &p->message, TYPE_NAME, "cpu");

	if (!rc)
		rc = put_string(p, &p->message, TYPE_UNIT, "nanoseconds");
	put_message(&p->text, field, &p->message);
	return rc;
}

static int put_label(struct pprof *p, const char *key, const char *text)
{
	char clean[EXIT_NAME_MAX + 1];
	int rc = put_string(p, &p->inner, LABEL_KEY, key);

	clean_text(clean, sizeof(clean), text, strlen(text));
	if (!rc)
		rc = put_string(p, &p->inner, LABEL_TEXT, clean);
	put_message(&p->message, SAMPLE_LABEL, &p->inner);
	return rc;
}

/* A copy of the text, which strings that are added later move. */
static char *copy_text(const struct names *n, uint32_t number)
{
	uint64_t begin = number ? n->ends[number - 1] : 0;
	size_t len = (size_t)(n->ends[number] - begin);
	char *text = xmalloc(len + 1);

	memcpy(text, n->text.data + begin, len);
	text[len] = '\0';
	return text;
}

static int put_sample(struct pprof *p, uint32_t node)
{
	uint32_t at = node;
	char *host;
	int rc;

	for (; p->nodes[at].parent; at = p->nodes[at].parent)
		buf_add_varint(&p->deep, (uint64_t)p->nodes[at].id + 1);
	put_message(&p->message, SAMPLE_LOCATIONS, &p->deep);
	buf_add_varint(&p->deep, (uint64_t)p->nodes[node].ns);
	put_message(&p->message, SAMPLE_VALUES, &p->deep);
	host = copy_text(&p->threads, p->nodes[at].id);
	rc = put_label(p, "host", host);
	if (!rc)
		rc = put_label(p, "thread", host + strlen(host) + 1);
	free(host);
	put_message(&p->text, PROFILE_SAMPLE, &p->message);
	p->counts.samples++;
	return rc ? rc : flush(p, FLUSH_BYTES);
}

/* The function, and the location that is the function: their numbers are the same. */
static int put_function(struct pprof *p, uint32_t number)
{
	uint64_t id = (uint64_t)number + 1;
	char *name = copy_text(&p->functions, number);
	const char *file = name + strlen(name) + 1;
	uint64_t first_line = strtoull(file + strlen(file) + 1, NULL, 10);
	int rc;

	put_uint(&p->message, FUNCTION_ID, id);
	rc = put_string(p, &p->message, FUNCTION_NAME, name);
	if (!rc)
		rc = put_string(p, &p->message, FUNCTION_SYSTEM_NAME, name);
	if (!rc)
		rc = put_string(p, &p->message, FUNCTION_FILE, file);
	put_uint(&p->message, FUNCTION_FIRST_LINE, first_line & INT64_MAX);
	put_message(&p->text, PROFILE_FUNCTION, &p->message);
	free(name);
	put_uint(&p->inner, LINE_FUNCTION, id);
	put_uint(&p->message, LOCATION_ID, id);
	put_message(&p->message, LOCATION_LINE, &p->inner);
	put_message(&p->text, PROFILE_LOCATION, &p->message);
	return rc ? rc : flush(p, FLUSH_BYTES);
}

static int put_strings(struct pprof *p)
{
	int rc = 0;

	for (uint32_t i = 0; i < p->strings.n && !rc; i++) {
		uint64_t begin = i ? p->strings.ends[i - 1] : 0;

		put_bytes(&p->text, PROFILE_STRING, p->strings.text.data + begin,
			  (size_t)(p->strings.ends[i] - begin));
		rc = flush(p, FLUSH_BYTES);
	}
	return rc;
}

static void put_times(struct pprof *p)
{
	const struct exit_filter *f = &p->conf.filter;

	put_uint(&p->text, PROFILE_TIME_NS, (uint64_t)(p->conf.t0_unix_ns + f->from_ns));
	put_uint(&p->text, PROFILE_DURATION_NS, (uint64_t)self_clip(f, 0, p->conf.duration_ns));
}

/* ---- all ---- */

struct pprof *pprof_new(const struct exit_conf *conf, const struct xs_sink *out)
{
	struct pprof *p = xcalloc(1, sizeof(*p));

	p->conf = *conf;
	p->out = *out;
	p->cap_nodes = 1024;
	p->n_nodes = 1;
	grow_nodes(p);
	p->nodes[0] = (struct node){ 0 };
	p->stacks = xcalloc(EXIT_LANES_MAX, sizeof(*p->stacks));
	return p;
}

int pprof_add(struct pprof *p, const struct exit_host *host, const struct xs_source *in,
	      struct err *e)
{
	static const struct lanes_visitor visitor = {
		.plane = on_plane,
		.line = on_line,
		.begin = on_begin,
		.end = on_end,
	};
	struct exit_filter filter = p->conf.filter;

	filter.wants = wants;
	filter.arg = p;
	p->e = e;
	p->host = host;
	return lanes_read(in, &filter, &visitor, p, &p->names, &p->stat_names, &p->counts, e);
}

int pprof_end(struct pprof *p, struct exit_counts *counts, struct err *e)
{
	uint32_t empty;
	int rc;

	p->e = e;
	buf_reset(&p->inner);
	rc = names_add(&p->strings, "", 0, &empty, e); /* the format wants it to be the first */
	if (!rc)
		rc = put_type(p, PROFILE_SAMPLE_TYPE);
	if (!rc)
		rc = put_type(p, PROFILE_PERIOD_TYPE);
	for (uint32_t i = 1; i < p->n_nodes && !rc; i++) {
		if (p->nodes[i].parent && p->nodes[i].ns > 0)
			rc = put_sample(p, i);
	}
	for (uint32_t i = 0; i < p->functions.n && !rc; i++)
		rc = put_function(p, i);
	if (!rc)
		rc = put_strings(p);
	put_times(p);
	if (!rc)
		rc = flush(p, 0);
	*counts = p->counts;
	return rc;
}

void pprof_free(struct pprof *p)
{
	if (!p)
		return;
	names_release(&p->threads);
	names_release(&p->functions);
	names_release(&p->strings);
	self_release(p->stacks);
	buf_release(&p->text);
	buf_release(&p->message);
	buf_release(&p->inner);
	buf_release(&p->deep);
	free(p->nodes);
	free(p->slots);
	free(p);
}
