/* SPDX-License-Identifier: Apache-2.0 */
/* The arrows of a window: flows with an end in it, and where their other ends are. */
#include <stdio.h>
#include <stdlib.h>

#include "aggregator/views/view.h"
#include "base/mem.h"
#include "json/json_text.h"

#define CHECK_ENDS 65536 /* between two looks at `stop` */
#define FLOW_ENDS  64 /* of one flow that are looked at: a collective's of more hosts is cut */

/* The events of a track that the window may have, by number. */
struct range {
	uint64_t from, to;
};

struct ids {
	uint64_t *items;
	size_t n, cap;
};

struct linking {
	const struct view *view;
	const struct view_links *l;
	struct ids ids;
	struct range *ranges; /* by track of `file` */
	uint32_t file;
};

static void add_id(struct ids *ids, uint64_t id)
{
	if (ids->n == ids->cap) {
		ids->cap = ids->cap ? 2 * ids->cap : 256;
		ids->items = xrealloc(ids->items, ids->cap * sizeof(*ids->items));
	}
	ids->items[ids->n++] = id;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The number of the first event that begins at `ps` or later: events are numbered by their starts. */
static int first_from(const struct tvx *x, uint32_t track, uint64_t n, int64_t ps, uint64_t *out,
		      struct err *e)
{
	uint64_t low = 0, high = n;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		struct tvx_entry en;
		int rc = tvx_event(x, track, middle, &en, e);

		if (rc)
			return rc;
		if (en.start_ps < ps)
			low = middle + 1;
		else
			high = middle;
	}
	*out = low;
	return 0;
}

/* All ends of the file's flows that are in the ranges of its tracks. */
static int take_file(struct linking *k, struct err *e)
{
	const struct tvx_flow *flows;
	size_t n;
	int rc = 0;

	if (!k->ranges)
		return 0;
	n = tvx_flows(k->view->files[k->file].x, &flows);
	for (size_t i = 0; !rc && i < n; i++) {
		const struct range *r = &k->ranges[flows[i].track];

		if (!(i % CHECK_ENDS))
			rc = view_check_stop(k->l->of.stop, e);
		if (flows[i].event >= r->from && flows[i].event < r->to)
			add_id(&k->ids, flows[i].id);
	}
	free(k->ranges);
	k->ranges = NULL;
	return rc;
}

static int add_track(void *arg, const struct view_place *at, const struct tvx_track *t,
		     struct err *e)
{
	struct linking *k = arg;
	const struct tvx *x = k->view->files[at->file].x;
	struct range *r;
	int rc;

	if (k->ranges && k->file != at->file && (rc = take_file(k, e)))
		return rc;
	if (!k->ranges) {
		const struct tvx_track *tracks;

		k->ranges = xcalloc(tvx_tracks(x, &tracks) + 1, sizeof(*k->ranges));
	}
	k->file = at->file;
	if (t->kind != TVX_EVENTS)
		return 0;
	r = &k->ranges[at->track];
	rc = first_from(x, at->track, t->events, k->l->of.from_ps, &r->from, e);
	return rc ? rc : first_from(x, at->track, t->events, k->l->of.to_ps, &r->to, e);
}

/* Each flow once. */
static void sort_ids(struct ids *ids)
{
	size_t n = 0;

	sort_array(ids->items, ids->n, sizeof(*ids->items), by_value);
	for (size_t i = 0; i < ids->n; i++) {
		if (!n || ids->items[n - 1] != ids->items[i])
			ids->items[n++] = ids->items[i];
	}
	ids->n = n;
}

/* ---- the ends of one flow ---- */

struct end {
	int64_t start_ps;
	uint64_t event;
	uint32_t file, track, row;
};

static int by_start(const void *a, const void *b)
{
	const struct end *x = a, *y = b;

	return x->start_ps < y->start_ps ? -1 : x->start_ps > y->start_ps;
}

static int find_ends(const struct view *view, uint64_t id, struct end *ends, size_t *n,
		     struct err *e)
{
	*n = 0;
	for (uint32_t f = 0; f < view->n_files; f++) {
		const struct tvx_flow *flows;
		size_t here = tvx_flow_ends(view->files[f].x, id, &flows);

		for (size_t i = 0; i < here && *n < FLOW_ENDS; i++) {
			struct tvx_entry en;
			int rc = tvx_event(view->files[f].x, flows[i].track, flows[i].event, &en,
					   e);

			if (rc)
				return rc;
			ends[(*n)++] = (struct end){ .start_ps = en.start_ps,
						     .event = flows[i].event,
						     .file = f,
						     .track = flows[i].track,
						     .row = en.row };
		}
	}
	sort_array(ends, *n, sizeof(*ends), by_start);
	return 0;
}

static void add_end(json_t *list, const struct end *end)
{
	char text[24];

	json_array_append_new(list, json_integer(end->file));
	json_array_append_new(list, json_integer(end->track));
	json_array_append_new(list, json_integer((json_int_t)end->event));
	json_array_append_new(list, json_integer(end->row));
	snprintf(text, sizeof(text), "%lld", (long long)end->start_ps);
	json_array_append_new(list, json_string(text));
}

static int write_links(const struct linking *k, json_t *list, struct err *e)
{
	size_t limit = k->l->limit, step = k->ids.n > limit ? (k->ids.n + limit - 1) / limit : 1;

	for (size_t i = 0; i < k->ids.n && json_array_size(list) < limit; i += step) {
		struct end ends[FLOW_ENDS];
		size_t n;
		int rc = find_ends(k->view, k->ids.items[i], ends, &n, e);

		if (rc)
			return rc;
		for (size_t j = 1; j < n && json_array_size(list) < limit; j++) {
			json_t *link = json_array();

			add_end(link, &ends[j - 1]);
			add_end(link, &ends[j]);
			json_array_append_new(list, link);
		}
	}
	return 0;
}

int view_write_links(const struct view *view, const struct view_links *l, struct buf *out,
		     struct err *e)
{
	struct linking k = { .view = view, .l = l };
	json_t *list = json_array(), *doc;
	int rc = view_each_track(view, l->of.tracks, add_track, &k, e);

	if (!rc)
		rc = take_file(&k, e);
	if (!rc) {
		sort_ids(&k.ids);
		rc = write_links(&k, list, e);
	}
	if (rc) {
		json_decref(list);
		goto out;
	}
	doc = json_object();
	json_put_int(doc, "flows", (int64_t)k.ids.n);
	json_put(doc, "links", list);
	json_write(out, doc, 0);
out:
	free(k.ranges);
	free(k.ids.items);
	return rc;
}
