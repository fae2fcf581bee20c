/* SPDX-License-Identifier: Apache-2.0 */
/* From tables to planes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "xspace/entries/tables.h"
#include "xspace/json_stat.h"

#define MAX_SPAN_NS INT64_C(1000000000000000) /* 11 days */
#define NESTING_MAX 64 /* how many events back the one around a flow's end is looked for */
#define FREE_IDS    (INT64_C(1) << 40) /* of lines without a number of their own */

static int compare(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

/* ---- begins and ends ---- */

/* As the file has them, where their times are equal. */
static int by_track(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->track != y->track)
		return x->track < y->track ? -1 : 1;
	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	return compare(x->order, y->order);
}

static int64_t last_time(const struct tables *t)
{
	int64_t last = INT64_MIN;

	for (size_t i = 0; i < t->n_rows; i++) {
		int64_t end = t->rows[i].at_ns + t->rows[i].duration_ns;

		last = end > last ? end : last;
	}
	return last;
}

static void end_row(struct row *begin, const struct row *end)
{
	begin->kind = ROW_SPAN;
	begin->duration_ns = end->at_ns - begin->at_ns;
	begin->more = end->args;
}

static void leave_open(struct tables *t, struct row *begin, int64_t last_ns)
{
	begin->kind = ROW_SPAN;
	begin->duration_ns = last_ns - begin->at_ns;
	begin->is_unfinished = true;
	t->counts.unfinished++;
}

/* An end is that of the last begin of its track which is open. */
static int match(struct tables *t, struct err *e)
{
	int64_t last_ns = last_time(t);
	size_t depth = 0;
	uint32_t *open;
	int rc = tables_check_memory(t, t->n_rows * sizeof(*open), e);

	if (rc)
		return rc;
	open = xcalloc(t->n_rows + 1, sizeof(*open));
	for (size_t i = 0; i < t->n_rows; i++) {
		struct row *row = &t->rows[i];

		while (depth && t->rows[open[depth - 1]].track != row->track)
			leave_open(t, &t->rows[open[--depth]], last_ns);
		if (row->kind == ROW_BEGIN)
			open[depth++] = (uint32_t)i;
		else if (row->kind == ROW_END && depth)
			end_row(&t->rows[open[--depth]], row);
		else if (row->kind == ROW_END)
			t->counts.left_out++;
	}
	while (depth)
		leave_open(t, &t->rows[open[--depth]], last_ns);
	free(open);
	return 0;
}

static void remove_ends(struct tables *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n_rows; i++) {
		if (t->rows[i].kind != ROW_END)
			t->rows[n++] = t->rows[i];
	}
	t->n_rows = n;
}

/* ---- order ---- */

static int by_place(const void *a, const void *b)
{
	const struct track *x = *(struct track *const *)a, *y = *(struct track *const *)b;

	if (x->key.process != y->key.process)
		return x->key.process < y->key.process ? -1 : 1;
	if (x->key.kind != y->key.kind)
		return x->key.kind < y->key.kind ? -1 : 1;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return compare(x->index, y->index);
}

/* An event that contains others comes before them. */
static int by_time(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->track != y->track)
		return x->track < y->track ? -1 : 1;
	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	if (x->duration_ns != y->duration_ns)
		return x->duration_ns > y->duration_ns ? -1 : 1;
	return compare(x->order, y->order);
}

/* Tracks in the order of planes and lines; rows and flows with the places of the tracks that show them. */
static void sort_tables(struct tables *t)
{
	uint32_t *place = xcalloc(t->n_tracks + 1, sizeof(*place));
	uint32_t *shown = xcalloc(t->n_tracks + 1, sizeof(*shown));

	for (size_t i = 0; i < t->n_tracks; i++)
		shown[i] = t->tracks[i]->shown;
	sort_array(t->tracks, t->n_tracks, sizeof(*t->tracks), by_place);
	for (size_t i = 0; i < t->n_tracks; i++)
		place[t->tracks[i]->index] = (uint32_t)i;
	for (size_t i = 0; i < t->n_rows; i++)
		t->rows[i].track = place[shown[t->rows[i].track]];
	for (size_t i = 0; i < t->n_flows; i++)
		t->flows[i].track = place[shown[t->flows[i].track]];
	free(place);
	free(shown);
	sort_array(t->rows, t->n_rows, sizeof(*t->rows), by_time);
}

/* ---- flows ---- */

/* How many of the sorted rows are before this instant of the track, or, with `at_too`, at it. */
static size_t count_before(const struct tables *t, uint32_t track, int64_t at_ns, bool at_too)
{
	size_t low = 0, high = t->n_rows;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct row *row = &t->rows[middle];
		bool is_before = row->track != track
					 ? row->track < track
					 : row->at_ns < at_ns || (at_too && row->at_ns == at_ns);

		if (is_before)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct row *next_row(struct tables *t, const struct flow_end *flow)
{
	size_t at = count_before(t, flow->track, flow->at_ns, false);

	return at < t->n_rows && t->rows[at].track == flow->track ? &t->rows[at] : NULL;
}

static struct row *row_around(struct tables *t, const struct flow_end *flow)
{
	size_t at = count_before(t, flow->track, flow->at_ns, true);

	for (size_t back = 0; at && back < NESTING_MAX; back++) {
		struct row *row = &t->rows[--at];

		if (row->track != flow->track)
			break;
		if (row->at_ns + row->duration_ns >= flow->at_ns)
			return row;
	}
	return NULL;
}

/* An event has at most one. */
static void place_flows(struct tables *t)
{
	for (size_t i = 0; i < t->n_flows; i++) {
		const struct flow_end *flow = &t->flows[i];
		struct row *row = flow->is_next ? next_row(t, flow) : NULL;

		if (!row)
			row = row_around(t, flow);
		if (row && row->kind != ROW_SAMPLE && !row->flow)
			row->flow = flow->value;
	}
}

/* ---- output ---- */

static void begin_plane(struct tables *t, struct xs_builder *b, uint32_t process, bool is_first)
{
	const struct process *p = &t->processes[process];
	struct buf name = BUF_INIT;
	struct scan_text number;
	int64_t id;
	char plane[300];

	tables_copy_text(t, p->name == NO_TEXT ? p->text : p->name, &name);
	snprintf(plane, sizeof(plane),
		 p->name == NO_TEXT ? "/host:CPU [%.200s]" : "/host:CPU %.200s", buf_str(&name));
	xs_plane(b, 0, is_first ? "/host:CPU" : plane);
	if (p->name != NO_TEXT)
		xs_stat_str(b, "process_name", buf_str(&name));
	tables_copy_text(t, p->text, &name);
	number = (struct scan_text){ .s = buf_str(&name), .len = name.len };
	if (number.len && scan_decimal(&number, 0, &id) && id >= 0)
		xs_stat_int(b, "process_id", id);
	buf_release(&name);
}

static void begin_line(struct tables *t, struct xs_builder *b, const struct track *track)
{
	bool is_named = track->name != NO_TEXT || track->key.kind == TRACK_ASYNC;
	char *name;

	if (track->key.kind == TRACK_COUNTERS) {
		xs_line(b, FREE_IDS + track->index, "_counters_", 0);
		return;
	}
	tables_copy_text(t, track->name != NO_TEXT ? track->name : track->key.text, &t->scratch);
	name = xasprintf("%s%s", is_named ? "" : "thread ", buf_str(&t->scratch));
	xs_line(b, track->id >= 0 ? track->id : FREE_IDS + track->index, name, 0);
	free(name);
}

static int put_args(struct tables *t, struct xs_builder *b, const struct piece *args,
		    bool is_sample, struct err *e)
{
	char name[JSON_STAT_NAME_BYTES], kind;
	struct scan_text key, value;
	struct scan s;
	int rc;

	if (!args->len)
		return 0;
	scan_init(&s, t->file + args->at, args->len);
	rc = scan_enter(&s, '{', e);
	while (!rc) {
		rc = scan_member(&s, &key, e);
		if (rc <= 0)
			break;
		rc = json_stat_read(&s, &kind, &value, e);
		if (rc || (t->skip && t->skip(&key, is_sample)))
			continue;
		json_stat_name(&key, name, &t->scratch);
		json_stat_put(b, name, kind, &value, &t->scratch);
	}
	return rc;
}

static int put_row(struct tables *t, struct xs_builder *b, const struct row *row, int64_t zero_ns,
		   struct err *e)
{
	bool is_sample = row->kind == ROW_SAMPLE;
	int rc;

	tables_copy_text(t, row->name, &t->scratch);
	xs_event(b, buf_str(&t->scratch), (row->at_ns - zero_ns) * 1000, row->duration_ns * 1000);
	if (is_sample)
		xs_stat_double(b, t->value_name, row->value);
	rc = put_args(t, b, &row->args, is_sample, e);
	if (!rc)
		rc = put_args(t, b, &row->more, is_sample, e);
	if (row->category != NO_TEXT) {
		tables_copy_text(t, row->category, &t->scratch);
		xs_stat_str(b, "category", buf_str(&t->scratch));
	}
	if (row->is_unfinished)
		xs_stat_int(b, "unfinished", 1);
	if (!is_sample && row->flow)
		xs_stat_uint(b, "flow", row->flow);
	return rc ? rc : tables_check_memory(t, xs_builder_bytes(b), e);
}

static int put_rows(struct tables *t, struct xs_builder *b, int64_t zero_ns, struct err *e)
{
	const struct track *before = NULL;
	int rc = 0;

	for (size_t i = 0; i < t->n_rows && !rc; i++) {
		const struct track *track = t->tracks[t->rows[i].track];

		if (!before || track->key.process != before->key.process)
			begin_plane(t, b, track->key.process, !before);
		if (track != before)
			begin_line(t, b, track);
		before = track;
		rc = put_row(t, b, &t->rows[i], zero_ns, e);
	}
	return rc;
}

/* The first event's time, in the file's. */
static int measure(struct tables *t, int64_t *zero_ns, struct err *e)
{
	*zero_ns = INT64_MAX;
	for (size_t i = 0; i < t->n_rows; i++)
		*zero_ns = t->rows[i].at_ns < *zero_ns ? t->rows[i].at_ns : *zero_ns;
	if (t->n_rows && last_time(t) - *zero_ns > MAX_SPAN_NS)
		return err_set(e, ERR_INVALID, "its events are %" PRId64 " s apart",
			       (last_time(t) - *zero_ns) / 1000000000);
	return 0;
}

int tables_build(struct tables *t, struct xs_builder *b, struct err *e)
{
	int64_t zero_ns;
	int rc;

	sort_array(t->rows, t->n_rows, sizeof(*t->rows), by_track);
	rc = match(t, e);
	remove_ends(t);
	if (!rc)
		rc = measure(t, &zero_ns, e);
	if (rc || !t->n_rows)
		return rc;
	sort_tables(t);
	place_flows(t);
	t->counts.events = t->n_rows;
	t->counts.start_unix_ns = zero_ns + t->base_ns;
	return put_rows(t, b, zero_ns, e);
}
