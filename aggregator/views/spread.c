/* SPDX-License-Identifier: Apache-2.0 */
/* Where in the session the matches of a search are. */
#include <stdlib.h>

#include "aggregator/views/view.h"
#include "base/mem.h"
#include "json/json_text.h"

#define CHECK_EVENTS 4096 /* between two looks at `stop` */

struct spreading {
	const struct view_spread *s;
	const bool *found; /* by name of the file */
	uint64_t *bins;
	uint64_t n_seen;
	struct err *e;
};

static int count_event(void *arg, const struct tvx_entry *en)
{
	struct spreading *sp = arg;
	const struct view_spread *s = sp->s;
	double at;

	if (!(++sp->n_seen % CHECK_EVENTS) && view_check_stop(s->search.stop, sp->e))
		return ERR_CANCELLED;
	if (!sp->found[en->name] || en->start_ps < s->from_ps || en->start_ps >= s->to_ps)
		return 0;
	at = (double)(en->start_ps - s->from_ps) / (double)(s->to_ps - s->from_ps) * s->bins;
	sp->bins[at < s->bins ? (uint32_t)at : s->bins - 1]++;
	return 0;
}

/* The time in which a track has matches; false if it has none. */
static bool window_of(const struct spreading *sp, const struct tvx *x, const struct tvx_track *t,
		      struct tvx_window *w)
{
	const struct tvx_total *totals;
	bool is_any = false;

	tvx_totals(x, &totals);
	for (uint32_t i = 0; i < t->n_totals; i++) {
		const struct tvx_total *total = &totals[t->total0 + i];

		if (!sp->found[total->name])
			continue;
		if (!is_any || total->first_ps < w->from_ps)
			w->from_ps = total->first_ps;
		if (!is_any || total->last_ps >= w->to_ps)
			w->to_ps = total->last_ps + 1;
		is_any = true;
	}
	if (w->from_ps < sp->s->from_ps)
		w->from_ps = sp->s->from_ps;
	if (w->to_ps > sp->s->to_ps)
		w->to_ps = sp->s->to_ps;
	return is_any && w->from_ps < w->to_ps;
}

static int spread_file(struct spreading *sp, const struct tvx *x, struct err *e)
{
	const struct tvx_track *tracks;
	size_t n = tvx_tracks(x, &tracks);
	bool *found;
	int rc = view_match_names(x, &sp->s->search, &found, e);

	if (rc)
		return rc;
	sp->found = found;
	for (uint32_t t = 0; !rc && t < n; t++) {
		struct tvx_window w = { 0 };

		if (tracks[t].kind == TVX_EVENTS && window_of(sp, x, &tracks[t], &w))
			rc = tvx_query(x, t, &w, count_event, sp, e);
	}
	free(found);
	return rc;
}

int view_write_spread(const struct view *view, const struct view_spread *s, struct buf *out,
		      struct err *e)
{
	struct spreading sp = { .s = s, .e = e };
	json_t *doc, *list;
	int rc = 0;

	if (!*s->search.text)
		return err_set(e, ERR_INVALID, "the search has no text");
	if (s->from_ps >= s->to_ps)
		return err_set(e, ERR_INVALID, "to_ps: use more than from_ps");
	sp.bins = xcalloc(s->bins, sizeof(*sp.bins));
	for (size_t i = 0; !rc && i < view->n_files; i++)
		rc = spread_file(&sp, view->files[i].x, e);
	if (rc)
		goto out;
	doc = json_object();
	list = json_array();
	for (uint32_t i = 0; i < s->bins; i++)
		json_array_append_new(list, json_integer((json_int_t)sp.bins[i]));
	json_put(doc, "bins", list);
	json_write(out, doc, 0);
out:
	free(sp.bins);
	return rc;
}
