/* SPDX-License-Identifier: Apache-2.0 */
/* What the events of a selection add up to, name by name. */
#include <stdlib.h>
#include <string.h>

#include "aggregator/views/view.h"
#include "base/mem.h"
#include "json/json_text.h"

#define SHOWN_NAMES  1000
#define NAME_BYTES   400
#define CHECK_EVENTS 4096 /* between two looks at `stop` */

struct sum {
	ps_sum total_ps, self_ps;
	uint64_t count, min_ps, max_ps;
	uint32_t name, file;
	const char *text; /* in the index */
	size_t len;
};

struct sums {
	struct sum *items;
	size_t n, cap;
};

/* The open event of a row, whose children are still to come. */
struct open_row {
	uint32_t name;
	int64_t end_ps;
	bool is_open;
};

struct adding {
	const struct view *view;
	const struct view_selection *s;
	struct sums *sums;
	struct sum *by_name; /* of `file` */
	uint32_t file;
	struct open_row *rows;
	uint64_t n_seen;
	struct err *e;
};

/* A child takes its time from the event it lies in, one row above. */
static int add_event(void *arg, const struct tvx_entry *en)
{
	struct adding *a = arg;
	struct sum *sum = &a->by_name[en->name];
	int64_t end = en->start_ps + (int64_t)en->length_ps;
	struct open_row *above = en->row ? &a->rows[en->row - 1] : NULL;

	if (!(++a->n_seen % CHECK_EVENTS) && view_check_stop(a->s->stop, a->e))
		return ERR_CANCELLED;
	sum->count++;
	sum->total_ps += en->length_ps;
	sum->self_ps += en->length_ps;
	if (sum->count == 1 || en->length_ps < sum->min_ps)
		sum->min_ps = en->length_ps;
	if (en->length_ps > sum->max_ps)
		sum->max_ps = en->length_ps;
	if (above && above->is_open && above->end_ps >= end)
		a->by_name[above->name].self_ps -= en->length_ps;
	a->rows[en->row] = (struct open_row){ en->name, end, true };
	return 0;
}

static int by_text(const void *a, const void *b)
{
	const struct sum *x = a, *y = b;
	int order = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);

	return order ? order : x->len < y->len ? -1 : x->len > y->len;
}

static int by_total(const void *a, const void *b)
{
	const struct sum *x = a, *y = b;

	if (x->total_ps != y->total_ps)
		return x->total_ps > y->total_ps ? -1 : 1;
	return by_text(a, b);
}

static void keep(struct sums *s, const struct view *view, uint32_t file, const struct sum *by_name)
{
	const struct tvx *x = view->files[file].x;
	size_t n = tvx_names(x);

	for (uint32_t i = 0; i < n; i++) {
		struct sum *sum;

		if (!by_name[i].count)
			continue;
		if (s->n == s->cap) {
			s->cap = s->cap ? 2 * s->cap : 256;
			s->items = xrealloc(s->items, s->cap * sizeof(*s->items));
		}
		sum = &s->items[s->n++];
		*sum = by_name[i];
		sum->name = i;
		sum->file = file;
		sum->text = tvx_name(x, i, &sum->len);
	}
}

/* The same name of several files becomes one. */
static void join(struct sums *s)
{
	size_t out = 0;

	sort_array(s->items, s->n, sizeof(*s->items), by_text);
	for (size_t i = 0; i < s->n; i++) {
		struct sum *last = out ? &s->items[out - 1] : NULL, *one = &s->items[i];

		if (!last || by_text(last, one)) {
			s->items[out++] = *one;
			continue;
		}
		last->count += one->count;
		last->total_ps += one->total_ps;
		last->self_ps += one->self_ps;
		last->min_ps = one->min_ps < last->min_ps ? one->min_ps : last->min_ps;
		last->max_ps = one->max_ps > last->max_ps ? one->max_ps : last->max_ps;
	}
	s->n = out;
	sort_array(s->items, s->n, sizeof(*s->items), by_total);
}

static void write(const struct sums *s, const struct view *view, struct buf *out)
{
	json_t *doc = json_object(), *list = json_array();
	ps_sum total = 0, self = 0;
	uint64_t count = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct sum *sum = &s->items[i];
		json_t *row;

		count += sum->count;
		total += sum->total_ps;
		self += sum->self_ps;
		if (i >= SHOWN_NAMES)
			continue;
		row = json_object();
		json_put(row, "name",
			 view_name_json(view->files[sum->file].x, sum->name, NAME_BYTES));
		json_put_int(row, "count", (int64_t)sum->count);
		view_put_sum(row, "total_ps", sum->total_ps);
		view_put_sum(row, "self_ps", sum->self_ps);
		view_put_ps(row, "min_ps", (int64_t)sum->min_ps);
		view_put_ps(row, "max_ps", (int64_t)sum->max_ps);
		json_array_append_new(list, row);
	}
	json_put_int(doc, "count", (int64_t)count);
	view_put_sum(doc, "total_ps", total);
	view_put_sum(doc, "self_ps", self);
	json_put_int(doc, "different", (int64_t)s->n);
	json_put(doc, "names", list);
	json_write(out, doc, 0);
}

static void keep_file(struct adding *a)
{
	if (a->by_name)
		keep(a->sums, a->view, a->file, a->by_name);
	free(a->by_name);
	a->by_name = NULL;
}

static int add_track(void *arg, const struct view_place *at, const struct tvx_track *t,
		     struct err *e)
{
	struct adding *a = arg;
	const struct tvx *x = a->view->files[at->file].x;
	const struct tvx_window w = { .from_ps = a->s->from_ps, .to_ps = a->s->to_ps };
	int rc;

	if (a->by_name && a->file != at->file)
		keep_file(a);
	if (!a->by_name)
		a->by_name = xcalloc(tvx_names(x) + 1, sizeof(*a->by_name));
	a->file = at->file;
	if (t->kind != TVX_EVENTS)
		return 0;
	a->rows = xcalloc(t->rows + (size_t)1, sizeof(*a->rows));
	rc = tvx_query(x, at->track, &w, add_event, a, e);
	free(a->rows);
	return rc;
}

int view_write_selection(const struct view *view, const struct view_selection *s, struct buf *out,
			 struct err *e)
{
	struct sums sums = { 0 };
	struct adding a = { .view = view, .s = s, .sums = &sums, .e = e };
	int rc = view_each_track(view, s->tracks, add_track, &a, e);

	keep_file(&a);
	if (!rc) {
		join(&sums);
		write(&sums, view, out);
	}
	free(sums.items);
	return rc;
}
