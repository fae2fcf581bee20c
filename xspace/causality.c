/* SPDX-License-Identifier: Apache-2.0 */
/* Collects flows, barriers, collectives and steps from the hosts' files. */
#include "xspace/causality.h"

#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xspace/causality_impl.h"
#include "xspace/collectives.h"
#include "xspace/schema.h"
#include "xspace/text.h"

#define MARKS_PLANE   "/host:CPU marks"
#define NAMES_MAX     65536 /* names that are kept of one plane */
#define BARRIER	      "barrier "
#define BARRIER_BYTES 96 /* "barrier ID" with its NUL */

__extension__ typedef __int128 ps_wide;

enum { FLOW_IN = 1, FLOW_OUT = 2 };

/* Whether an observation has a start, an end or both. */
struct span {
	bool has_start, has_end;
	int64_t start_ns, end_ns;
};

/* A name of the plane's metadata, with its id; kept while the plane is read. */
struct named {
	int64_t id;
	bool begin; /* of a mark */
	char text[];
};

struct names {
	void *tree;
	size_t n;
};

struct collecting {
	struct xs_causality *c;
	uint32_t host;
	uint32_t line; /* lines so far, in the whole file */
	int64_t line_ns;
	bool marks; /* in the plane of marks */
	bool host_plane; /* in a process's plane of threads */
	struct collectives *collectives;
	struct xs_steps steps;
	int64_t flow_id, barrier_id, step_id; /* stat metadata of the plane; 0 = none */
	struct names texts; /* texts of the stat metadata, for stats that refer to them */
	struct names barriers; /* event metadata of marks */
};

/* ---- names of a plane ---- */

static int by_id(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* The last of several entries with one id counts. */
static bool names_add(struct names *names, int64_t id, bool begin, const char *text, size_t len)
{
	struct named *n = xmalloc(sizeof(*n) + len + 1);
	struct named **place;

	*n = (struct named){ .id = id, .begin = begin };
	memcpy(n->text, text, len);
	n->text[len] = '\0';
	place = tfind(n, &names->tree, by_id);
	if (place) {
		free(*place);
		*place = n;
		return true;
	}
	if (names->n == NAMES_MAX || !tsearch(n, &names->tree, by_id)) {
		free(n);
		return false;
	}
	names->n++;
	return true;
}

static const struct named *names_find(const struct names *names, int64_t id)
{
	const struct named wanted = { .id = id };
	struct named *const *place = tfind(&wanted, &names->tree, by_id);

	return place ? *place : NULL;
}

static void names_release(struct names *names)
{
	tdestroy(names->tree, free);
	*names = (struct names){ 0 };
}

/* ---- observations ---- */

static int by_text(const void *a, const void *b)
{
	const struct causal_key *x = a, *y = b;

	return strcmp(x->text, y->text);
}

static struct causal_key *key_new(struct xs_causality *c, const char *text)
{
	size_t len = strlen(text);
	struct causal_key *key = xcalloc(1, sizeof(*key) + len + 1);

	memcpy(key->text, text, len);
	key->index = (uint32_t)c->n_keys;
	key->last = UINT32_MAX;
	return key;
}

struct causal_key *causality_key(struct xs_causality *c, const char *text)
{
	struct causal_key *key = key_new(c, text);
	struct causal_key **place = tfind(key, &c->tree, by_text);

	if (place || c->n_keys == XS_CAUSALITY_KEYS || !tsearch(key, &c->tree, by_text)) {
		free(key);
		return place ? *place : NULL;
	}
	if (c->n_keys == c->keys_cap) {
		c->keys_cap = c->keys_cap ? 2 * c->keys_cap : 64;
		c->keys = xrealloc(c->keys, c->keys_cap * sizeof(*c->keys));
	}
	c->keys[c->n_keys++] = key;
	return key;
}

struct causal_seen *causality_seen(struct xs_causality *c, struct causal_key *key, uint32_t host)
{
	struct causal_seen *s = key->last < c->n_seen ? &c->seen[key->last] : NULL;

	if (s && s->key == key->index && s->host == host)
		return s;
	if (c->n_seen == XS_CAUSALITY_SEEN)
		return NULL;
	if (c->n_seen == c->seen_cap) {
		c->seen_cap = c->seen_cap ? 2 * c->seen_cap : 64;
		c->seen = xrealloc(c->seen, c->seen_cap * sizeof(*c->seen));
	}
	key->last = (uint32_t)c->n_seen++;
	s = &c->seen[key->last];
	*s = (struct causal_seen){ .key = key->index, .host = host };
	return s;
}

static void widen(struct causal_key *key, struct causal_seen *s, const struct span *span,
		  uint32_t line)
{
	if (span->has_start) {
		key->ambiguous |= s->has_start && s->start_line == line;
		if (!s->has_start || span->start_ns > s->start_ns)
			s->start_ns = span->start_ns;
		s->has_start = true;
		s->start_line = line;
	}
	if (span->has_end) {
		key->ambiguous |= s->has_end && s->end_line == line;
		if (!s->has_end || span->end_ns < s->end_ns)
			s->end_ns = span->end_ns;
		s->has_end = true;
		s->end_line = line;
	}
}

static struct causal_key *add_observation(struct collecting *g, const char *text,
					  const struct span *span)
{
	struct causal_key *key = causality_key(g->c, text);
	struct causal_seen *s = key ? causality_seen(g->c, key, g->host) : NULL;

	if (!s) {
		g->c->left_out++;
		return NULL;
	}
	widen(key, s, span, g->line);
	return key;
}

/* The out of a flow is a start, its in is an end: no host may have the end before another has the start. */
static void note_flow(struct collecting *g, uint64_t flow, struct span span)
{
	uint64_t id = flow >> 2 & ((UINT64_C(1) << 56) - 1), category = flow >> 58;
	struct causal_key *key;
	char text[XS_CAUSALITY_KEY_BYTES];

	span.has_start = flow & FLOW_OUT;
	span.has_end = flow & FLOW_IN;
	if (!span.has_start && !span.has_end)
		return;
	if (category)
		snprintf(text, sizeof(text), "flow %" PRIu64 " (category %" PRIu64 ")", id,
			 category);
	else
		snprintf(text, sizeof(text), "flow %" PRIu64, id);
	key = add_observation(g, text, &span);
	if (!key)
		return;
	key->ambiguous |= span.has_start && key->has_out;
	key->ambiguous |= g->c->seen[key->last].has_start && g->c->seen[key->last].has_end;
	key->has_out |= span.has_start;
}

/* An end before the begin belongs to an earlier barrier of that name. */
static void note_barrier(struct collecting *g, const char *id, size_t len, const struct span *span)
{
	char text[BARRIER_BYTES] = BARRIER;
	size_t used = strlen(BARRIER);
	struct causal_key *key;
	struct causal_seen *s;

	if (!len || len >= sizeof(text) - used) {
		g->c->left_out += len > 0;
		return;
	}
	for (size_t i = 0; i < len; i++) {
		unsigned char ch = (unsigned char)id[i];

		text[used + i] = (char)(ch < ' ' || ch == 0x7f ? ' ' : ch);
	}
	key = add_observation(g, text, span);
	if (!key)
		return;
	s = &g->c->seen[key->last];
	key->ambiguous |= s->has_start && s->has_end && s->start_line == s->end_line &&
			  s->end_ns < s->start_ns;
}

void causality_add_collective(struct xs_causality *c, uint32_t host, const char *text,
			      int64_t start_ns, int64_t end_ns, bool has_end)
{
	struct causal_key *key = causality_key(c, text);
	struct causal_seen *s = key ? causality_seen(c, key, host) : NULL;

	if (!s) {
		c->left_out++;
		return;
	}
	if (!s->has_start || start_ns > s->start_ns)
		s->start_ns = start_ns;
	s->has_start = true;
	if (has_end && (!s->has_end || end_ns < s->end_ns))
		s->end_ns = end_ns;
	s->has_end |= has_end;
	s->n++;
}

/* A step at an edge of the window was cut. */
static void add_step(struct collecting *g, int64_t step, const struct span *span)
{
	struct xs_steps *s = &g->steps;

	if (span->start_ns <= 0 || span->end_ns >= g->c->window_ns)
		return;
	if (!s->known || step < s->first || (step == s->first && span->start_ns < s->first_at_ns)) {
		s->first = step;
		s->first_at_ns = span->start_ns;
	}
	if (!s->known || step > s->last || (step == s->last && span->end_ns > s->end_at_ns)) {
		s->last = step;
		s->end_at_ns = span->end_ns;
	}
	s->known = true;
}

/* ---- the visitor ---- */

static int on_plane(void *arg, const struct xs_plane *p)
{
	struct collecting *g = arg;

	g->marks = !strncmp(p->name, MARKS_PLANE, strlen(MARKS_PLANE));
	g->host_plane = !strncmp(p->name, HOST_PLANE, strlen(HOST_PLANE));
	g->flow_id = g->barrier_id = g->step_id = 0;
	collectives_begin_plane(g->collectives);
	return 0;
}

static int on_plane_end(void *arg)
{
	struct collecting *g = arg;

	collectives_end_plane(g->collectives);
	names_release(&g->texts);
	names_release(&g->barriers);
	return 0;
}

static int on_stat_metadata(void *arg, int64_t id, const char *name, size_t len)
{
	struct collecting *g = arg;

	collectives_add_stat_name(g->collectives, id, name, len);
	if (text_equals(name, len, "flow"))
		g->flow_id = id;
	else if (g->host_plane && text_equals(name, len, "step_num"))
		g->step_id = id;
	else if (text_equals(name, len, "barrier_id"))
		g->barrier_id = id;
	else if (len < BARRIER_BYTES && !names_add(&g->texts, id, false, name, len))
		g->c->left_out++;
	return 0;
}

/* "barrier ID begin", "barrier ID end" */
static int on_event_metadata(void *arg, int64_t id, const char *name, size_t len)
{
	static const char *const ends[] = { " end", " begin" };
	struct collecting *g = arg;
	size_t head = strlen(BARRIER);

	collectives_add_event_name(g->collectives, id, name, len);
	if (!g->marks || len <= head || memcmp(name, BARRIER, head))
		return 0;
	name += head;
	len -= head;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		size_t tail = strlen(ends[i]);

		if (len > tail && text_equals(name + len - tail, tail, ends[i]) &&
		    !names_add(&g->barriers, id, i == 1, name, len - tail))
			g->c->left_out++;
	}
	return 0;
}

/* Skips the lines of planes without such names: most planes have none. */
static int on_lines(void *arg)
{
	const struct collecting *g = arg;

	return !g->flow_id && !g->barrier_id && !g->step_id && !g->barriers.n &&
	       !collectives_needs_lines(g->collectives);
}

static int on_line(void *arg, const struct xs_line *l)
{
	struct collecting *g = arg;

	g->line++;
	g->line_ns = l->timestamp_ns;
	return 0;
}

/* Rounds starts down and ends up, so that rounding never makes a violation. */
static bool get_span(const struct collecting *g, const struct xs_event *ev, struct span *span)
{
	ps_wide start = (ps_wide)g->line_ns * 1000 + ev->offset_ps;
	ps_wide end = start + (ev->duration_ps > 0 ? ev->duration_ps : 0);
	ps_wide max = (ps_wide)CAUSALITY_TIME_MAX_NS * 1000;

	if (ev->is_aggregate || start < -max || end > max)
		return false;
	*span = (struct span){
		.has_start = true,
		.has_end = true,
		.start_ns = (int64_t)(start / 1000 - (start % 1000 < 0)),
		.end_ns = (int64_t)(end / 1000 + (end % 1000 > 0)),
	};
	return true;
}

static void on_barrier_stat(struct collecting *g, const struct xs_stat *stat,
			    const struct span *span)
{
	const struct named *text;
	char number[32];

	switch (stat->kind) {
	case XS_INT:
		snprintf(number, sizeof(number), "%" PRId64, stat->i);
		note_barrier(g, number, strlen(number), span);
		break;
	case XS_UINT:
		snprintf(number, sizeof(number), "%" PRIu64, stat->u);
		note_barrier(g, number, strlen(number), span);
		break;
	case XS_STR:
		note_barrier(g, (const char *)stat->bytes, stat->len, span);
		break;
	case XS_REF:
		text = names_find(&g->texts, (int64_t)stat->u);
		if (text)
			note_barrier(g, text->text, strlen(text->text), span);
		break;
	default:
		break;
	}
}

static void on_mark(struct collecting *g, const struct named *mark, struct span span)
{
	span.has_start = mark->begin;
	span.has_end = !mark->begin;
	note_barrier(g, mark->text, strlen(mark->text), &span);
}

static int on_event(void *arg, const struct xs_event *ev)
{
	struct collecting *g = arg;
	const struct named *mark = names_find(&g->barriers, ev->metadata_id);
	struct span span;

	if (!get_span(g, ev, &span))
		return 0;
	if (mark)
		on_mark(g, mark, span);
	if (collectives_needs_lines(g->collectives))
		collectives_add_event(g->collectives, ev, span.start_ns, span.end_ns);
	for (size_t i = 0; i < ev->n_stats; i++) {
		const struct xs_stat *s = &ev->stats[i];

		if (g->flow_id && s->metadata_id == g->flow_id &&
		    (s->kind == XS_UINT || s->kind == XS_INT))
			note_flow(g, s->u, span);
		else if (g->barrier_id && s->metadata_id == g->barrier_id && ev->duration_ps > 0)
			on_barrier_stat(g, s, &span);
		else if (g->step_id && s->metadata_id == g->step_id && ev->duration_ps > 0 &&
			 (s->kind == XS_INT || s->kind == XS_UINT))
			add_step(g, s->i, &span);
	}
	return 0;
}

/* ---- all hosts ---- */

struct xs_causality *xs_causality_new(void)
{
	return xcalloc(1, sizeof(struct xs_causality));
}

void xs_causality_free(struct xs_causality *c)
{
	if (!c)
		return;
	tdestroy(c->tree, free);
	free(c->keys);
	free(c->seen);
	free(c->bounds_ns);
	free(c->steps);
	free(c->violations);
	free(c->shared);
	free(c);
}

void xs_causality_set_window(struct xs_causality *c, int64_t window_ns)
{
	c->window_ns = window_ns;
}

uint32_t causality_add_host(struct xs_causality *c, int64_t bound_ns)
{
	c->steps = xrealloc(c->steps, (c->n_hosts + 1) * sizeof(*c->steps));
	c->steps[c->n_hosts] = (struct xs_steps){ 0 };
	c->bounds_ns = xrealloc(c->bounds_ns, (c->n_hosts + 1) * sizeof(int64_t));
	c->bounds_ns[c->n_hosts] = bound_ns < CAUSALITY_TIME_MAX_NS ? bound_ns
								    : CAUSALITY_TIME_MAX_NS;
	return (uint32_t)c->n_hosts++;
}

int xs_causality_add(struct xs_causality *c, const struct xs_source *in, int64_t bound_ns,
		     struct err *e)
{
	static const struct xs_visitor visitor = {
		.plane_begin = on_plane,
		.stat_metadata = on_stat_metadata,
		.event_metadata = on_event_metadata,
		.lines = on_lines,
		.line_begin = on_line,
		.event = on_event,
		.plane_end = on_plane_end,
		.want_stats = true,
	};
	struct collecting g = { .c = c, .host = causality_add_host(c, bound_ns) };
	size_t before = c->n_seen;
	int rc;

	g.collectives = collectives_new();
	rc = xs_read(in, &visitor, &g, e);
	if (rc)
		c->n_seen = before;
	else
		collectives_finish(g.collectives, c, g.host, in);
	c->steps[g.host] = rc ? (struct xs_steps){ 0 } : g.steps;
	collectives_free(g.collectives);
	names_release(&g.texts);
	names_release(&g.barriers);
	return rc;
}
