/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree of calls from events that lie in each other: of CPU samples, of Python functions, of anything nested. Each
 * node is a path of names; an event counts as far as it lies in the window.
 */
#include <stdlib.h>
#include <string.h>

#include "aggregator/views/view.h"
#include "base/mem.h"
#include "json/json_text.h"

#define NODES_MAX 200000 /* deeper calls then count as their caller's own */
#define SHOWN_SHARE \
	2000 /* a node below 1/SHOWN_SHARE of all is left out of the answer, with what lies in it */
#define SHOWN_TOP    300
#define CHECK_EVENTS 4096 /* between two looks at `stop` */
#define DROP_EVENTS  256 /* between two looks at all that are open */
#define LOOKS_MAX    1024 /* for an event's caller */
#define PS_PER_NS    1000

struct text {
	const char *p; /* in an index, or in the manifest */
	size_t len;
};

struct node {
	uint32_t parent, text;
	ps_sum total_ps, self_ps;
	uint64_t count;
};

/* 1 + number by hash. */
struct slots {
	uint32_t *at;
	size_t n; /* a power of two */
};

/* An event that later ones may lie in. */
struct call {
	uint32_t node;
	int64_t end_ps;
};

struct flame {
	const struct view *view;
	const struct view_flame *f;
	struct node *nodes; /* 0 is the root */
	struct text *texts;
	size_t n_nodes, nodes_cap, n_texts, texts_cap;
	struct slots by_path, by_text;
	uint32_t *known; /* of `file`: 1 + text, by name */
	uint32_t file, base; /* base: the node that the track's tree hangs on */
	const struct tvx *x;
	struct call *open; /* of the track, by start; some have ended */
	size_t n_open, open_cap;
	uint64_t n_seen, stacks, not_split;
	struct err *e;
};

static uint64_t mix(uint64_t h)
{
	h ^= h >> 32;
	h *= UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 29;
}

static uint64_t hash_text(const struct text *t)
{
	uint64_t h = t->len;

	for (size_t i = 0; i < t->len; i++)
		h = (h ^ (uint8_t)t->p[i]) * UINT64_C(0x100000001b3);
	return mix(h);
}

static uint64_t hash_node(const struct node *n)
{
	return mix((uint64_t)n->parent << 32 | n->text);
}

/* Empties the slots; there are at least twice as many as `n`. */
static void slots_grow(struct slots *s, size_t n)
{
	free(s->at);
	s->n = 1024;
	while (s->n < 4 * n)
		s->n *= 2;
	s->at = xcalloc(s->n, sizeof(*s->at));
}

static uint32_t *text_slot(struct flame *f, const struct text *t)
{
	size_t at = (size_t)hash_text(t) & (f->by_text.n - 1);

	for (; f->by_text.at[at]; at = (at + 1) & (f->by_text.n - 1)) {
		const struct text *have = &f->texts[f->by_text.at[at] - 1];

		if (have->len == t->len && !memcmp(have->p, t->p, t->len))
			break;
	}
	return &f->by_text.at[at];
}

static uint32_t add_text(struct flame *f, const char *p, size_t len)
{
	struct text t = { p, len };
	uint32_t *slot;

	if (2 * f->n_texts >= f->by_text.n) {
		slots_grow(&f->by_text, f->n_texts);
		for (size_t i = 0; i < f->n_texts; i++)
			*text_slot(f, &f->texts[i]) = (uint32_t)i + 1;
	}
	slot = text_slot(f, &t);
	if (!*slot) {
		if (f->n_texts == f->texts_cap) {
			f->texts_cap = f->texts_cap ? 2 * f->texts_cap : 256;
			f->texts = xrealloc(f->texts, f->texts_cap * sizeof(*f->texts));
		}
		f->texts[f->n_texts] = t;
		*slot = (uint32_t)++f->n_texts;
	}
	return *slot - 1;
}

static uint32_t *node_slot(struct flame *f, const struct node *n)
{
	size_t at = (size_t)hash_node(n) & (f->by_path.n - 1);

	for (; f->by_path.at[at]; at = (at + 1) & (f->by_path.n - 1)) {
		const struct node *have = &f->nodes[f->by_path.at[at] - 1];

		if (have->parent == n->parent && have->text == n->text)
			break;
	}
	return &f->by_path.at[at];
}

/* The node of this path; of its parent's path if there are too many. */
static uint32_t add_node(struct flame *f, uint32_t parent, uint32_t text)
{
	struct node n = { .parent = parent, .text = text };
	uint32_t *slot;

	if (2 * f->n_nodes >= f->by_path.n) {
		slots_grow(&f->by_path, f->n_nodes);
		for (size_t i = 1; i < f->n_nodes; i++)
			*node_slot(f, &f->nodes[i]) = (uint32_t)i + 1;
	}
	slot = node_slot(f, &n);
	if (*slot)
		return *slot - 1;
	if (f->n_nodes == NODES_MAX) {
		f->not_split++;
		return parent;
	}
	if (f->n_nodes == f->nodes_cap) {
		f->nodes_cap *= 2;
		f->nodes = xrealloc(f->nodes, f->nodes_cap * sizeof(*f->nodes));
	}
	f->nodes[f->n_nodes] = n;
	*slot = (uint32_t)++f->n_nodes;
	return *slot - 1;
}

static uint32_t text_of(struct flame *f, uint32_t name)
{
	size_t len;

	if (!f->known[name]) {
		const char *p = tvx_name(f->x, name, &len);

		f->known[name] = 1 + add_text(f, p, len);
	}
	return f->known[name] - 1;
}

/* Whoever has ended at this time goes, so that few are looked at. */
static void drop_ended(struct flame *f, int64_t now_ps)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_open; i++) {
		if (f->open[i].end_ps > now_ps)
			f->open[n++] = f->open[i];
	}
	f->n_open = n;
}

/* The node of the latest event that this one lies in as a whole. */
static uint32_t caller_of(const struct flame *f, const struct tvx_entry *en, int64_t end)
{
	for (size_t i = f->n_open, looks = 0; i && looks < LOOKS_MAX; i--, looks++) {
		const struct call *c = &f->open[i - 1];

		if (c->end_ps > en->start_ps && c->end_ps >= end)
			return c->node;
	}
	return f->base;
}

static void open_call(struct flame *f, uint32_t node, int64_t end_ps)
{
	if (f->n_open == f->open_cap) {
		f->open_cap = f->open_cap ? 2 * f->open_cap : 64;
		f->open = xrealloc(f->open, f->open_cap * sizeof(*f->open));
	}
	f->open[f->n_open++] = (struct call){ node, end_ps };
}

static int add_event(void *arg, const struct tvx_entry *en)
{
	struct flame *f = arg;
	const struct view_selection *of = &f->f->of;
	int64_t end = en->start_ps + (int64_t)en->length_ps;
	int64_t from = en->start_ps > of->from_ps ? en->start_ps : of->from_ps;
	int64_t to = end < of->to_ps ? end : of->to_ps;
	uint64_t ps = to > from ? (uint64_t)(to - from) : 0;
	uint32_t parent, node;

	if (!(++f->n_seen % CHECK_EVENTS) && view_check_stop(of->stop, f->e))
		return ERR_CANCELLED;
	while (f->n_open && f->open[f->n_open - 1].end_ps <= en->start_ps)
		f->n_open--;
	if (!(f->n_seen % DROP_EVENTS))
		drop_ended(f, en->start_ps);
	parent = caller_of(f, en, end);
	node = add_node(f, parent, text_of(f, en->name));
	open_call(f, node, end);
	if (node == parent) /* it is not split off */
		return 0;
	f->nodes[node].total_ps += ps;
	f->nodes[node].self_ps += ps;
	f->nodes[node].count++;
	if (parent != f->base) {
		f->nodes[parent].self_ps -= ps < f->nodes[parent].self_ps
						    ? ps
						    : f->nodes[parent].self_ps;
		return 0;
	}
	for (node = f->base; node; node = f->nodes[node].parent)
		f->nodes[node].total_ps += ps;
	f->nodes[0].total_ps += ps;
	f->stacks++;
	return 0;
}

static uint32_t base_of(struct flame *f, const struct view_place *at, const struct tvx_track *t)
{
	const char *host = f->view->files[at->file].host;
	const struct tvx_plane *planes;
	uint32_t node, name;
	const char *text;
	size_t len;

	if (f->f->group == GROUP_NONE)
		return 0;
	node = add_node(f, 0, add_text(f, host, strlen(host)));
	if (f->f->group == GROUP_HOST)
		return node;
	tvx_planes(f->x, &planes);
	name = f->f->group == GROUP_PLANE ? planes[t->plane].name : t->name;
	text = tvx_name(f->x, name, &len);
	return add_node(f, node, add_text(f, text, len));
}

static int add_track(void *arg, const struct view_place *at, const struct tvx_track *t,
		     struct err *e)
{
	struct flame *f = arg;
	const struct tvx_window w = { .from_ps = f->f->of.from_ps, .to_ps = f->f->of.to_ps };

	if (t->kind != TVX_EVENTS)
		return 0;
	if (!f->known || f->file != at->file) {
		f->x = f->view->files[at->file].x;
		free(f->known);
		f->known = xcalloc(tvx_names(f->x) + 1, sizeof(*f->known));
		f->file = at->file;
	}
	f->base = base_of(f, at, t);
	f->n_open = 0;
	return tvx_query(f->x, at->track, &w, add_event, f, e);
}

/* ---- the answer ---- */

struct top {
	uint32_t text;
	ps_sum self_ps, total_ps;
	uint64_t count;
};

static int by_self(const void *a, const void *b)
{
	const struct top *x = a, *y = b;

	if (x->self_ps != y->self_ps)
		return x->self_ps > y->self_ps ? -1 : 1;
	return x->text < y->text ? -1 : x->text > y->text;
}

/* Whether a caller of the node has its name: then its time is in that one's total already. */
static bool is_recursive(const struct flame *f, uint32_t node)
{
	uint32_t text = f->nodes[node].text;

	while ((node = f->nodes[node].parent)) {
		if (f->nodes[node].text == text)
			return true;
	}
	return false;
}

static json_t *text_json(const struct text *t)
{
	return view_text_json(t->p, t->len, VIEW_NAME_BYTES);
}

static json_t *top_json(const struct flame *f)
{
	struct top *top = xcalloc(f->n_texts + 1, sizeof(*top));
	json_t *list = json_array();

	for (uint32_t i = 0; i < f->n_texts; i++)
		top[i].text = i;
	for (uint32_t i = 1; i < f->n_nodes; i++) {
		const struct node *n = &f->nodes[i];

		top[n->text].self_ps += n->self_ps;
		top[n->text].count += n->count;
		if (!is_recursive(f, i))
			top[n->text].total_ps += n->count ? n->total_ps : 0;
	}
	sort_array(top, f->n_texts, sizeof(*top), by_self);
	for (size_t i = 0; i < f->n_texts && json_array_size(list) < SHOWN_TOP; i++) {
		json_t *doc;

		if (!top[i].count) /* a group's name */
			continue;
		doc = json_object();
		json_put(doc, "name", text_json(&f->texts[top[i].text]));
		json_put_int(doc, "self_ns", (int64_t)(top[i].self_ps / PS_PER_NS));
		json_put_int(doc, "total_ns", (int64_t)(top[i].total_ps / PS_PER_NS));
		json_put_int(doc, "count", (int64_t)top[i].count);
		json_array_append_new(list, doc);
	}
	free(top);
	return list;
}

/* Parents precede their children, and a child is not larger: what is left out has no child that is shown. */
static void write_nodes(const struct flame *f, json_t *doc)
{
	json_t *nodes = json_array(), *names = json_array();
	uint32_t *place = xcalloc(f->n_nodes + 1, sizeof(*place));
	uint32_t *name = xcalloc(f->n_texts + 1, sizeof(*name));
	uint64_t left_out = 0;

	for (uint32_t i = 1; i < f->n_nodes; i++) {
		const struct node *n = &f->nodes[i];

		if (n->total_ps < f->nodes[0].total_ps / SHOWN_SHARE || !n->total_ps ||
		    (n->parent && !place[n->parent])) {
			left_out++;
			continue;
		}
		if (!name[n->text]) {
			json_array_append_new(names, text_json(&f->texts[n->text]));
			name[n->text] = (uint32_t)json_array_size(names);
		}
		json_array_append_new(nodes,
				      json_pack("[I,I,I,I,I]", (json_int_t)place[n->parent] - 1,
						(json_int_t)name[n->text] - 1,
						(json_int_t)(n->total_ps / PS_PER_NS),
						(json_int_t)(n->self_ps / PS_PER_NS),
						(json_int_t)n->count));
		place[i] = (uint32_t)json_array_size(nodes);
	}
	json_put(doc, "nodes", nodes);
	json_put(doc, "names", names);
	json_put_int(doc, "left_out", (int64_t)left_out);
	free(place);
	free(name);
}

int view_write_flame(const struct view *view, const struct view_flame *what, struct buf *out,
		     struct err *e)
{
	struct flame f = { .view = view, .f = what, .nodes_cap = 1024, .n_nodes = 1, .e = e };
	json_t *doc;
	int rc;

	f.nodes = xcalloc(f.nodes_cap, sizeof(*f.nodes));
	rc = view_each_track(view, what->of.tracks, add_track, &f, e);
	if (!rc) {
		doc = json_object();
		json_put_int(doc, "total_ns", (int64_t)(f.nodes[0].total_ps / PS_PER_NS));
		json_put_int(doc, "events", (int64_t)f.n_seen);
		json_put_int(doc, "stacks", (int64_t)f.stacks);
		json_put_int(doc, "not_split", (int64_t)f.not_split);
		write_nodes(&f, doc);
		json_put(doc, "top", top_json(&f));
		json_write(out, doc, 0);
	}
	free(f.nodes);
	free(f.open);
	free(f.texts);
	free(f.by_path.at);
	free(f.by_text.at);
	free(f.known);
	return rc;
}
