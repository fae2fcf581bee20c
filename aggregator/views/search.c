/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Search over all of a session. Totals by name and track answer how often and how long; events are read only to find
 * the next match.
 */
#include <stdlib.h>
#include <string.h>

#include "aggregator/views/view.h"
#include "base/mem.h"
#include "json/json_text.h"

#define SHOWN_NAMES  200 /* of a search's answer; all are counted */
#define SHOWN_TRACKS 4096
#define NAME_BYTES   400
#define CHECK_EVENTS 4096 /* between two looks at `stop` */
#define FOUND	     (-1000) /* ends a query: no error code */

/* ---- totals ---- */

struct name_sum {
	const char *text; /* in the index */
	size_t len;
	uint32_t file, name;
	uint64_t count, max_ps;
	ps_sum total_ps;
};

struct sums {
	struct name_sum *names;
	size_t n, cap;
	uint64_t matches;
	ps_sum total_ps;
	json_t *tracks;
	bool more_tracks;
};

static void add_track(struct sums *s, size_t file, uint32_t track, uint64_t count)
{
	if (json_array_size(s->tracks) == SHOWN_TRACKS) {
		s->more_tracks = true;
		return;
	}
	json_array_append_new(s->tracks, json_pack("[I,I,I]", (json_int_t)file, (json_int_t)track,
						   (json_int_t)count));
}

static void add_name(struct sums *s, const struct tvx *x, uint32_t file, const struct tvx_total *t)
{
	struct name_sum *sum;

	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 256;
		s->names = xrealloc(s->names, s->cap * sizeof(*s->names));
	}
	sum = &s->names[s->n++];
	*sum = (struct name_sum){ .file = file,
				  .name = t->name,
				  .count = t->count,
				  .total_ps = t->total_ps,
				  .max_ps = t->max_ps };
	sum->text = tvx_name(x, t->name, &sum->len);
}

static int add_file(struct sums *s, const struct view *view, uint32_t file,
		    const struct view_search *what, struct err *e)
{
	const struct tvx *x = view->files[file].x;
	const struct tvx_total *totals;
	const struct tvx_track *tracks;
	size_t n = tvx_totals(x, &totals);
	uint64_t on_track = 0;
	bool *found;
	int rc = view_match_names(x, what, &found, e);

	if (rc)
		return rc;
	tvx_tracks(x, &tracks);
	for (size_t i = 0; i < n; i++) {
		const struct tvx_total *t = &totals[i];

		if (found[t->name] && tracks[t->track].kind == TVX_EVENTS) {
			on_track += t->count;
			s->matches += t->count;
			s->total_ps += t->total_ps;
			add_name(s, x, file, t);
		}
		if (on_track && (i + 1 == n || totals[i + 1].track != t->track)) {
			add_track(s, file, t->track, on_track);
			on_track = 0;
		}
	}
	free(found);
	return 0;
}

static int by_text(const void *a, const void *b)
{
	const struct name_sum *x = a, *y = b;
	int order = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);

	return order ? order : x->len < y->len ? -1 : x->len > y->len;
}

static int by_total(const void *a, const void *b)
{
	const struct name_sum *x = a, *y = b;

	if (x->total_ps != y->total_ps)
		return x->total_ps > y->total_ps ? -1 : 1;
	return x->count > y->count ? -1 : x->count < y->count;
}

/* One sum a name, over all files; the longest in total first. */
static void join_names(struct sums *s)
{
	size_t out = 0;

	sort_array(s->names, s->n, sizeof(*s->names), by_text);
	for (size_t i = 0; i < s->n; i++) {
		struct name_sum *last = out ? &s->names[out - 1] : NULL;

		if (!last || by_text(last, &s->names[i])) {
			s->names[out++] = s->names[i];
			continue;
		}
		last->count += s->names[i].count;
		last->total_ps += s->names[i].total_ps;
		if (s->names[i].max_ps > last->max_ps)
			last->max_ps = s->names[i].max_ps;
	}
	s->n = out;
	sort_array(s->names, s->n, sizeof(*s->names), by_total);
}

static json_t *names_json(const struct view *view, const struct sums *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->n && i < SHOWN_NAMES; i++) {
		const struct name_sum *sum = &s->names[i];
		json_t *doc = json_object();

		json_put(doc, "name",
			 view_name_json(view->files[sum->file].x, sum->name, NAME_BYTES));
		json_put_int(doc, "count", (int64_t)sum->count);
		view_put_sum(doc, "total_ps", sum->total_ps);
		view_put_ps(doc, "max_ps", (int64_t)sum->max_ps);
		json_array_append_new(list, doc);
	}
	return list;
}

static int check_search(const struct view_search *s, struct err *e)
{
	if (!*s->text)
		return err_set(e, ERR_INVALID, "the search has no text");
	return 0;
}

int view_write_search(const struct view *view, const struct view_search *what, struct buf *out,
		      struct err *e)
{
	struct sums s = { 0 };
	uint64_t events = 0;
	json_t *doc;
	int rc = check_search(what, e);

	if (rc)
		return rc;
	s.tracks = json_array();
	for (uint32_t i = 0; !rc && i < view->n_files; i++) {
		const struct tvx_track *tracks;
		size_t n = tvx_tracks(view->files[i].x, &tracks);

		rc = add_file(&s, view, i, what, e);
		for (size_t t = 0; t < n; t++)
			events += tracks[t].kind == TVX_EVENTS ? tracks[t].events : 0;
	}
	if (rc) {
		json_decref(s.tracks);
		goto out;
	}
	join_names(&s);
	doc = json_object();
	json_put_int(doc, "events", (int64_t)events);
	json_put_int(doc, "matches", (int64_t)s.matches);
	view_put_sum(doc, "total_ps", s.total_ps);
	json_put_int(doc, "different", (int64_t)s.n);
	json_put(doc, "names", names_json(view, &s));
	json_put(doc, "tracks", s.tracks);
	json_put_bool(doc, "more_tracks", s.more_tracks);
	json_write(out, doc, 0);
out:
	free(s.names);
	return rc;
}

/* ---- the next match ---- */

struct stepping {
	const struct view_step *s;
	const bool *found;
	struct view_place here; /* file and track that are read */
	bool has_best;
	struct tvx_entry best;
	struct view_place best_at;
	uint64_t n_seen;
	struct err *e;
};

/* The order of matches: by start, then by place. */
static int compare(int64_t a_ps, const struct view_place *a, int64_t b_ps,
		   const struct view_place *b)
{
	if (a_ps != b_ps)
		return a_ps < b_ps ? -1 : 1;
	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	if (a->track != b->track)
		return a->track < b->track ? -1 : 1;
	return a->event < b->event ? -1 : a->event > b->event;
}

static int on_event(void *arg, const struct tvx_entry *en)
{
	struct stepping *st = arg;
	struct view_place at = st->here;
	int sign = st->s->backward ? -1 : 1, rc;

	if (!(++st->n_seen % CHECK_EVENTS) && (rc = view_check_stop(st->s->search.stop, st->e)))
		return rc;
	at.event = en->event;
	if (!st->found[en->name] ||
	    sign * compare(en->start_ps, &at, st->s->start_ps, &st->s->at) <= 0)
		return 0;
	if (st->has_best && sign * compare(en->start_ps, &at, st->best.start_ps, &st->best_at) >= 0)
		return 0;
	st->has_best = true;
	st->best = *en;
	st->best_at = at;
	return st->s->backward ? 0 : FOUND; /* later events of the track begin later */
}

/* Whether the track has a match that may be better than the best one so far. */
static bool is_worth_reading(const struct stepping *st, const struct tvx *x,
			     const struct tvx_track *t)
{
	const struct tvx_total *totals;

	tvx_totals(x, &totals);
	for (uint32_t i = 0; i < t->n_totals; i++) {
		const struct tvx_total *total = &totals[t->total0 + i];

		if (!st->found[total->name])
			continue;
		if (st->s->backward
			    ? total->first_ps <= st->s->start_ps &&
				      (!st->has_best || total->last_ps >= st->best.start_ps)
			    : total->last_ps >= st->s->start_ps &&
				      (!st->has_best || total->first_ps <= st->best.start_ps))
			return true;
	}
	return false;
}

/* Backward: windows that grow, since events can be read forward only. */
static int step_back(struct stepping *st, const struct tvx *x, const struct tvx_track *t,
		     struct err *e)
{
	int64_t to = st->s->start_ps, length = (t->last_ps - t->first_ps) / 4096 + 1;
	int rc = 0;

	to = to > t->last_ps ? t->last_ps : to;
	while (!rc && to >= t->first_ps) {
		int64_t from = to - t->first_ps < length ? t->first_ps : to - length;
		const struct tvx_window w = { .from_ps = from, .to_ps = to + 1 };

		if (st->has_best && to < st->best.start_ps)
			break;
		rc = tvx_query(x, st->here.track, &w, on_event, st, e);
		to = from - 1;
		length *= 2;
	}
	return rc;
}

static int step_on_track(struct stepping *st, const struct tvx *x, const struct tvx_track *t,
			 struct err *e)
{
	struct tvx_window w = { .from_ps = st->s->start_ps, .to_ps = t->last_ps + 1 };
	int rc;

	if (st->s->backward)
		return step_back(st, x, t, e);
	if (w.from_ps < t->first_ps)
		w.from_ps = t->first_ps;
	if (st->has_best && st->best.start_ps + 1 < w.to_ps)
		w.to_ps = st->best.start_ps + 1;
	if (w.from_ps >= w.to_ps)
		return 0;
	rc = tvx_query(x, st->here.track, &w, on_event, st, e);
	return rc == FOUND ? 0 : rc;
}

static int step_in_file(struct stepping *st, const struct view *view, uint32_t file, struct err *e)
{
	const struct tvx *x = view->files[file].x;
	const struct tvx_track *tracks;
	size_t n = tvx_tracks(x, &tracks);
	bool *found;
	int rc = view_match_names(x, &st->s->search, &found, e);

	if (rc)
		return rc;
	st->found = found;
	st->e = e;
	st->here.file = file;
	for (uint32_t t = 0; !rc && t < n; t++) {
		st->here.track = t;
		if (tracks[t].kind == TVX_EVENTS && is_worth_reading(st, x, &tracks[t]))
			rc = step_on_track(st, x, &tracks[t], e);
	}
	free(found);
	return rc;
}

int view_write_next(const struct view *view, const struct view_step *s, struct buf *out,
		    struct err *e)
{
	struct stepping st = { .s = s };
	json_t *doc;
	int rc = check_search(&s->search, e);

	for (uint32_t i = 0; !rc && i < view->n_files; i++)
		rc = step_in_file(&st, view, i, e);
	if (rc)
		return rc;
	doc = json_object();
	json_put_bool(doc, "found", st.has_best);
	if (st.has_best) {
		json_put_int(doc, "file", st.best_at.file);
		json_put_int(doc, "track", st.best_at.track);
		json_put_int(doc, "event", (int64_t)st.best_at.event);
		json_put_int(doc, "row", st.best.row);
		view_put_ps(doc, "start_ps", st.best.start_ps);
		view_put_ps(doc, "duration_ps", (int64_t)st.best.length_ps);
	}
	json_write(out, doc, 0);
	return 0;
}
