/* SPDX-License-Identifier: Apache-2.0 */
/* One event, with all that its XSpace has of it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "aggregator/views/view.h"
#include "base/clean_text.h"
#include "base/hex.h"
#include "base/mem.h"
#include "json/json_text.h"

#define VALUE_BYTES ((size_t)64 << 10) /* shown of one value */
#define HEX_BYTES   256 /* shown of bytes that are no text */
#define FLOW_ENDS   200 /* shown of one flow */

static json_t *text_json(const void *data, size_t len)
{
	size_t size = (len < VALUE_BYTES ? len : VALUE_BYTES) + 1;
	char *text = xmalloc(size);
	json_t *out;

	clean_text(text, size, data, len);
	out = json_text(text);
	free(text);
	return out;
}

static json_t *hex_json(const uint8_t *data, size_t len)
{
	char text[2 * HEX_BYTES + 1];

	hex_text(text, data, len < HEX_BYTES ? len : HEX_BYTES);
	return json_text(text);
}

static json_t *value_json(const struct xs_stat *s)
{
	char text[32] = "";

	switch (s->kind) {
	case XS_STR:
		return text_json(s->bytes, s->len);
	case XS_BYTES:
		return hex_json(s->bytes, s->len);
	case XS_DOUBLE:
		snprintf(text, sizeof(text), "%.17g", s->d);
		break;
	case XS_INT:
		snprintf(text, sizeof(text), "%" PRId64, s->i);
		break;
	case XS_UINT:
	case XS_REF:
		snprintf(text, sizeof(text), "%" PRIu64, s->u);
		break;
	default:
		break;
	}
	return json_text(text);
}

struct args {
	json_t *list;
	uint64_t flow;
};

static void add_arg(void *arg, const char *key, size_t len, const struct xs_stat *s)
{
	struct args *args = arg;
	json_t *pair = json_array();

	json_array_append_new(pair, text_json(key, len));
	json_array_append_new(pair, value_json(s));
	json_array_append_new(args->list, pair);
	if (len == strlen("flow") && !memcmp(key, "flow", len) && s->kind != XS_STR)
		args->flow = s->u;
}

/* ---- beside the event ---- */

/* All events of the same name on the track. */
static json_t *name_json(const struct tvx *x, const struct tvx_track *t, uint32_t name)
{
	const struct tvx_total *totals;
	json_t *doc = json_object();

	tvx_totals(x, &totals);
	for (uint32_t i = 0; i < t->n_totals; i++) {
		const struct tvx_total *total = &totals[t->total0 + i];

		if (total->name != name)
			continue;
		json_put_int(doc, "count", (int64_t)total->count);
		view_put_sum(doc, "total_ps", total->total_ps);
		view_put_ps(doc, "min_ps", (int64_t)total->min_ps);
		view_put_ps(doc, "max_ps", (int64_t)total->max_ps);
	}
	return doc;
}

static json_t *end_json(size_t file, const struct tvx_flow *f, int64_t start_ps)
{
	json_t *doc = json_object();

	json_put_int(doc, "file", (int64_t)file);
	json_put_int(doc, "track", f->track);
	json_put_int(doc, "event", (int64_t)f->event);
	json_put_int(doc, "direction", f->direction);
	view_put_ps(doc, "start_ps", start_ps);
	return doc;
}

/* All ends of the flow, of all hosts. */
static int write_flow(const struct view *view, uint64_t id, json_t *doc, struct err *e)
{
	json_t *list = json_array();
	int rc = 0;

	for (size_t i = 0; id && i < view->n_files; i++) {
		const struct tvx *x = view->files[i].x;
		const struct tvx_flow *ends;
		size_t n = tvx_flow_ends(x, id, &ends);

		for (size_t k = 0; !rc && k < n && json_array_size(list) < FLOW_ENDS; k++) {
			struct tvx_entry en;

			rc = tvx_event(x, ends[k].track, ends[k].event, &en, e);
			if (!rc)
				json_array_append_new(list, end_json(i, &ends[k], en.start_ps));
		}
	}
	json_put(doc, "flow", list);
	return rc;
}

struct parents {
	const struct tvx *x;
	const struct tvx_entry *en;
	json_t *list;
};

static int add_parent(void *arg, const struct tvx_entry *en)
{
	struct parents *p = arg;
	json_t *doc;

	if (en->row >= p->en->row ||
	    en->start_ps + (int64_t)en->length_ps < p->en->start_ps + (int64_t)p->en->length_ps)
		return 0;
	doc = json_object();
	json_put_int(doc, "event", (int64_t)en->event);
	json_put(doc, "name", view_name_json(p->x, en->name, VALUE_BYTES));
	json_array_append_new(p->list, doc);
	return 0;
}

/* The events of the track that this one lies in, the outermost first. */
static int write_parents(const struct tvx *x, uint32_t track, const struct tvx_entry *en,
			 json_t *doc, struct err *e)
{
	const struct tvx_window w = { .from_ps = en->start_ps,
				      .to_ps = en->start_ps + 1,
				      .rows = en->row };
	struct parents p = { .x = x, .en = en, .list = json_array() };
	int rc = en->row ? tvx_query(x, track, &w, add_parent, &p, e) : 0;

	json_put(doc, "parents", p.list);
	return rc;
}

static int write_stats(const struct view *view, const struct view_place *at,
		       const struct tvx_entry *en, json_t *doc, struct err *e)
{
	const struct view_file *f = &view->files[at->file];
	struct tvx_detail d = { BUF_INIT, BUF_INIT };
	struct args args = { .list = json_array() };
	struct xs_source in = view_source(f);
	int rc = tvx_detail(f->x, &in, at->track, en, &d, add_arg, &args, e);

	json_put(doc, "name", text_json(buf_str(&d.name), d.name.len));
	json_put(doc, "display_name", text_json(buf_str(&d.display_name), d.display_name.len));
	json_put(doc, "args", args.list);
	if (!rc)
		rc = write_flow(view, args.flow >> 2, doc, e);
	buf_release(&d.name);
	buf_release(&d.display_name);
	return rc;
}

int view_write_event(const struct view *view, const struct view_place *at, struct buf *out,
		     struct err *e)
{
	const struct tvx_track *track;
	struct tvx_entry en;
	const struct tvx *x;
	json_t *doc;
	int rc = view_check_track(view, at->file, at->track, &track, e);

	if (rc)
		return rc;
	x = view->files[at->file].x;
	rc = tvx_event(x, at->track, at->event, &en, e);
	if (rc)
		return rc;
	doc = json_object();
	json_put_int(doc, "row", en.row);
	view_put_ps(doc, "start_ps", en.start_ps);
	view_put_ps(doc, "duration_ps", (int64_t)en.length_ps);
	json_put(doc, "of_name", name_json(x, track, en.name));
	rc = write_stats(view, at, &en, doc, e);
	if (!rc)
		rc = write_parents(x, at->track, &en, doc, e);
	if (rc)
		json_decref(doc);
	else
		json_write(out, doc, 0);
	return rc;
}
