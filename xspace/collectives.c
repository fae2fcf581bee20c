/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/collectives.h"

#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xspace/hlo.h"

#define NAMES_MAX 65536 /* of one plane */
/* begin of the name of XLA's event at the end of an asynchronous operation */
#define END "end: "

/* Names of collectives. A collective with another name is found by its HLO, and missed only without HLO. */
static const char *const kinds[] = { "all-reduce",     "all-gather",  "all-to-all",
				     "reduce-scatter", "collective-", "ragged-all-to-all" };

enum role {
	ROLE_NONE,
	ROLE_OP,
	ROLE_MODULE,
	ROLE_PROGRAM,
	ROLE_RUN,
	ROLE_DEVICE,
	ROLE_STARTS,
	ROLE_ENDS,
	ROLES
};

static const char *const role_names[ROLES] = {
	[ROLE_OP] = "hlo_op",  [ROLE_MODULE] = "hlo_module",	 [ROLE_PROGRAM] = "program_id",
	[ROLE_RUN] = "run_id", [ROLE_DEVICE] = "device_ordinal", [ROLE_STARTS] = "_p",
	[ROLE_ENDS] = "_c",
};

/* A text of a plane by its id. */
struct name {
	int64_t id;
	char text[];
};

/* An operation of a module as one device runs it. */
struct site {
	int64_t device;
	size_t index;
	enum hlo_answer answer;
	struct hlo_group group;
	size_t op; /* where its name begins in text */
	char text[]; /* the module's name, NUL, the operation's name */
};

struct seen {
	const struct site *site;
	bool has_run, has_end;
	uint32_t plane;
	int64_t run, start_ns, end_ns;
	int64_t starts; /* the id that its end has; 0: none */
};

struct end {
	int64_t id, at_ns;
};

/* The first and the last run of a plane, which the window may have cut. */
struct edge {
	bool any;
	int64_t first_ns, last_ns, first_run, last_run;
};

struct collectives {
	int64_t ids[ROLES]; /* stat metadata of the plane that is being read */
	void *names; /* struct name: stat metadata of the plane that is being read */
	void *end_names; /* struct name: its event metadata that begin with END */
	size_t n_names;
	void *sites; /* struct site, owned by site_list */
	struct site **site_list;
	size_t n_sites, sites_cap;
	struct seen *seen;
	size_t n_seen, seen_cap, plane_first; /* the first of the plane that is being read */
	struct end *ends; /* of the plane that is being read */
	size_t n_ends, ends_cap;
	struct edge *edges; /* by plane */
	size_t n_planes, planes_cap;
	uint64_t left_out;
};

struct collectives *collectives_new(void)
{
	return xcalloc(1, sizeof(struct collectives));
}

static void release_plane(struct collectives *l)
{
	tdestroy(l->names, free);
	tdestroy(l->end_names, free);
	l->names = l->end_names = NULL;
	l->n_names = l->n_ends = 0;
}

static void keep(void *node)
{
	(void)node;
}

void collectives_free(struct collectives *l)
{
	if (!l)
		return;
	release_plane(l);
	tdestroy(l->sites, keep);
	for (size_t i = 0; i < l->n_sites; i++)
		free(l->site_list[i]);
	free(l->site_list);
	free(l->seen);
	free(l->ends);
	free(l->edges);
	free(l);
}

/* ---- names ---- */

static int by_id(const void *a, const void *b)
{
	const struct name *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static void add_name(struct collectives *l, void **tree, int64_t id, const char *text, size_t len)
{
	struct name *n, **place;

	if (l->n_names == NAMES_MAX || len >= HLO_NAME_BYTES)
		return;
	n = xmalloc(sizeof(*n) + len + 1);
	n->id = id;
	memcpy(n->text, text, len);
	n->text[len] = '\0';
	place = tsearch(n, tree, by_id);
	if (!place || *place != n)
		free(n);
	else
		l->n_names++;
}

static const char *find_name(void *const *tree, int64_t id)
{
	const struct name wanted = { .id = id };
	struct name *const *place = tfind(&wanted, tree, by_id);

	return place ? (*place)->text : NULL;
}

void collectives_begin_plane(struct collectives *l)
{
	memset(l->ids, 0, sizeof(l->ids));
	l->plane_first = l->n_seen;
	if (l->n_planes == l->planes_cap) {
		l->planes_cap = l->planes_cap ? 2 * l->planes_cap : 16;
		l->edges = xrealloc(l->edges, l->planes_cap * sizeof(*l->edges));
	}
	l->edges[l->n_planes++] = (struct edge){ 0 };
}

void collectives_add_stat_name(struct collectives *l, int64_t id, const char *name, size_t len)
{
	for (size_t i = ROLE_OP; i < ROLES; i++) {
		if (len == strlen(role_names[i]) && !memcmp(name, role_names[i], len)) {
			l->ids[i] = id;
			return;
		}
	}
	add_name(l, &l->names, id, name, len);
}

static bool is_collective(const char *op)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (!strncmp(op, kinds[i], strlen(kinds[i])))
			return true;
	}
	return false;
}

void collectives_add_event_name(struct collectives *l, int64_t id, const char *name, size_t len)
{
	if (l->ids[ROLE_OP] && len > strlen(END) && !memcmp(name, END, strlen(END)))
		add_name(l, &l->end_names, id, name, len);
}

bool collectives_needs_lines(const struct collectives *l)
{
	return l->ids[ROLE_OP] && l->ids[ROLE_MODULE];
}

/* ---- events ---- */

static int by_site(const void *a, const void *b)
{
	const struct site *x = a, *y = b;
	int order = strcmp(x->text + x->op, y->text + y->op);

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return order ? order : strcmp(x->text, y->text);
}

/* XLA names a program's HLO "module(program)". */
static const struct site *get_site(struct collectives *l, const char *module, int64_t program,
				   const char *op, int64_t device)
{
	char text[2 * HLO_NAME_BYTES + 32];
	int len = snprintf(text, HLO_NAME_BYTES + 32, "%s(%" PRId64 ")", module, program);
	size_t begin = (size_t)len + 1, bytes = begin + strlen(op) + 1;
	struct site *s = xcalloc(1, sizeof(*s) + bytes), **place;

	memcpy(text + begin, op, strlen(op) + 1);
	memcpy(s->text, text, bytes);
	s->op = begin;
	s->device = device;
	s->index = l->n_sites;
	s->answer = HLO_UNKNOWN;
	place = tsearch(s, &l->sites, by_site);
	if (!place || *place != s) {
		free(s);
		return place ? *place : NULL;
	}
	if (l->n_sites == l->sites_cap) {
		l->sites_cap = l->sites_cap ? 2 * l->sites_cap : 64;
		l->site_list = xrealloc(l->site_list, l->sites_cap * sizeof(struct site *));
	}
	l->site_list[l->n_sites++] = s;
	return s;
}

static bool get_number(const struct xs_stat *s, int64_t *out)
{
	if (!s || (s->kind != XS_INT && s->kind != XS_UINT))
		return false;
	*out = s->i;
	return true;
}

/* `space` gets the text if the stat holds it itself, not by reference. */
static const char *get_text(const struct collectives *l, const struct xs_stat *s,
			    char space[HLO_NAME_BYTES])
{
	if (s && s->kind == XS_REF)
		return find_name(&l->names, (int64_t)s->u);
	if (!s || s->kind != XS_STR || s->len >= HLO_NAME_BYTES || memchr(s->bytes, '\0', s->len))
		return NULL;
	memcpy(space, s->bytes, s->len);
	space[s->len] = '\0';
	return space;
}

static void add_end(struct collectives *l, int64_t id, int64_t at_ns)
{
	if (l->n_ends == XS_CAUSALITY_SEEN)
		return;
	if (l->n_ends == l->ends_cap) {
		l->ends_cap = l->ends_cap ? 2 * l->ends_cap : 64;
		l->ends = xrealloc(l->ends, l->ends_cap * sizeof(*l->ends));
	}
	l->ends[l->n_ends++] = (struct end){ id, at_ns };
}

static void update_edge(struct collectives *l, const struct seen *s)
{
	struct edge *edge = &l->edges[s->plane];

	if (!edge->any || s->start_ns < edge->first_ns) {
		edge->first_ns = s->start_ns;
		edge->first_run = s->run;
	}
	if (!edge->any || s->end_ns > edge->last_ns) {
		edge->last_ns = s->end_ns;
		edge->last_run = s->run;
	}
	edge->any = true;
}

static void add_seen(struct collectives *l, const struct seen *s)
{
	if (l->n_seen == XS_CAUSALITY_SEEN) {
		l->left_out++;
		return;
	}
	if (l->n_seen == l->seen_cap) {
		l->seen_cap = l->seen_cap ? 2 * l->seen_cap : 64;
		l->seen = xrealloc(l->seen, l->seen_cap * sizeof(*l->seen));
	}
	l->seen[l->n_seen++] = *s;
	update_edge(l, s);
}

void collectives_add_event(struct collectives *l, const struct xs_event *ev, int64_t start_ns,
			   int64_t end_ns)
{
	const struct xs_stat *stats[ROLES] = { 0 };
	char module_space[HLO_NAME_BYTES], op_space[HLO_NAME_BYTES];
	struct seen s = { .start_ns = start_ns, .end_ns = end_ns, .has_end = true };
	int64_t program = 0, device = 0, id;
	const char *module, *op;

	for (size_t i = 0; i < ev->n_stats; i++) {
		for (size_t role = ROLE_OP; role < ROLES; role++) {
			if (l->ids[role] && l->ids[role] == ev->stats[i].metadata_id)
				stats[role] = &ev->stats[i];
		}
	}
	if (get_number(stats[ROLE_ENDS], &id) && find_name(&l->end_names, ev->metadata_id))
		add_end(l, id, end_ns);
	module = get_text(l, stats[ROLE_MODULE], module_space);
	op = get_text(l, stats[ROLE_OP], op_space);
	if (!module || !op || !ev->duration_ps || !is_collective(op))
		return;
	(void)get_number(stats[ROLE_PROGRAM], &program);
	(void)get_number(stats[ROLE_DEVICE], &device);
	(void)get_number(stats[ROLE_STARTS], &s.starts);
	s.has_run = get_number(stats[ROLE_RUN], &s.run);
	s.plane = (uint32_t)l->n_planes - 1;
	s.site = get_site(l, module, program, op, device);
	if (s.site)
		add_seen(l, &s);
}

static int by_end_id(const void *a, const void *b)
{
	const struct end *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

/* The first end event of that id at `at_ns` or later. */
static const struct end *find_end(const struct collectives *l, int64_t id, int64_t at_ns)
{
	const struct end wanted = { id, at_ns };
	size_t low = 0, high = l->n_ends;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (by_end_id(&l->ends[middle], &wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < l->n_ends && l->ends[low].id == id ? &l->ends[low] : NULL;
}

/* An asynchronous operation goes on after the event that started it, until an end event that names it. */
void collectives_end_plane(struct collectives *l)
{
	sort_array(l->ends, l->n_ends, sizeof(*l->ends), by_end_id);
	for (size_t i = l->plane_first; i < l->n_seen; i++) {
		struct seen *s = &l->seen[i];
		const struct end *end = s->starts ? find_end(l, s->starts, s->start_ns) : NULL;

		s->has_end = !s->starts || end;
		if (end && end->at_ns > s->end_ns)
			s->end_ns = end->at_ns;
	}
	release_plane(l);
}

/* ---- keys ---- */

static int by_use(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	if (x->site->index != y->site->index)
		return x->site->index < y->site->index ? -1 : 1;
	if (x->has_run != y->has_run)
		return x->has_run ? 1 : -1;
	if (x->run != y->run)
		return x->run < y->run ? -1 : 1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static bool is_same_use(const struct seen *a, const struct seen *b)
{
	return a->site == b->site && a->has_run && b->has_run && a->run == b->run;
}

/* An operation in a loop has several events in one run: they are numbered. In a run that the window has cut,
 * the numbers would be wrong. */
static bool is_countable(const struct collectives *l, const struct seen *s, size_t n)
{
	const struct edge *edge = &l->edges[s->plane];

	if (n > 1)
		return s->run != edge->first_run && s->run != edge->last_run;
	return edge->first_run != edge->last_run;
}

static uint64_t hash_text(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return hash;
}

/* A program's name ends with a number that differs between processes: it is cut off. */
static void set_key(const struct seen *s, size_t at, size_t n, char key[XS_CAUSALITY_KEY_BYTES])
{
	const char *op = s->site->text + s->site->op;
	char module[HLO_NAME_BYTES + 32];
	uint64_t id;
	int len;

	snprintf(module, sizeof(module), "%s", s->site->text);
	*strrchr(module, '(') = '\0';
	id = s->site->group.id + 3 * hash_text(op) + hash_text(module);
	len = snprintf(key, XS_CAUSALITY_KEY_BYTES, "%.20s of %.20s run %" PRId64, op, module,
		       s->run);
	if (n > 1)
		len += snprintf(key + len, XS_CAUSALITY_KEY_BYTES - (size_t)len, " %zu/%zu", at + 1,
				n);
	snprintf(key + len, XS_CAUSALITY_KEY_BYTES - (size_t)len, " (%" PRIx64 ")", id);
}

static void finish_use(struct collectives *l, struct xs_causality *c, uint32_t host,
		       const struct seen *seen, size_t n)
{
	char key[XS_CAUSALITY_KEY_BYTES];

	if (seen->site->answer == HLO_NO_COLLECTIVE)
		return;
	c->collectives += n;
	if (seen->site->answer == HLO_BARRIER && seen->site->group.n < 2)
		return;
	if (!seen->has_run || seen->site->answer != HLO_BARRIER || !is_countable(l, seen, n)) {
		c->ambiguous_collectives += n;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		set_key(&seen[i], i, n, key);
		causality_add_collective(c, host, key, seen[i].start_ns, seen[i].end_ns,
					 seen[i].has_end);
	}
}

void collectives_finish(struct collectives *l, struct xs_causality *c, uint32_t host,
			const struct xs_source *in)
{
	struct hlo *hlo = l->n_seen ? hlo_read(in, NULL) : NULL;
	size_t first = 0;

	for (size_t i = 0; hlo && i < l->n_sites; i++) {
		struct site *s = l->site_list[i];

		s->answer = hlo_find_group(hlo, s->text, s->text + s->op, s->device, &s->group);
	}
	sort_array(l->seen, l->n_seen, sizeof(*l->seen), by_use);
	for (size_t i = 1; i <= l->n_seen; i++) {
		if (i < l->n_seen && is_same_use(&l->seen[i], &l->seen[first]))
			continue;
		finish_use(l, c, host, &l->seen[first], i - first);
		first = i;
	}
	c->collectives += l->left_out;
	c->left_out += l->left_out;
	hlo_free(hlo);
}
