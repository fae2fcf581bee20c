/* SPDX-License-Identifier: Apache-2.0 */
/* Reads Chrome's trace events into tables. */
#include <math.h>
#include <string.h>

#include "xspace/entries/tables.h"
#include "xspace/json_stat.h"
#include "xspace/text.h"

#define MAX_NS	    INT64_C(4000000000000000000) /* year 2096 */
#define MAX_SPAN_NS INT64_C(1000000000000000) /* 11 days */

/* One object of the trace, before it is decoded. */
struct raw {
	char phase; /* 0 = none */
	bool has_ts, binds_around; /* "bp": "e" */
	int64_t at_ns, duration_ns;
	struct scan_text category, name, args, pid, tid, id;
};

static bool is(const struct scan_text *t, const char *expected)
{
	return text_equals(t->s, t->len, expected);
}

/* ---- one object ---- */

/* Microseconds as nanoseconds; some programs write exponents. */
static int read_time(struct scan *s, int64_t max_ns, int64_t *ns, struct err *e)
{
	struct scan_text t;
	double rough;
	int rc = scan_number(s, &t, e);

	if (rc)
		return rc;
	if (!scan_decimal(&t, 3, ns)) {
		rough = json_stat_double(&t) * 1000;
		*ns = fabs(rough) <= (double)MAX_NS ? (int64_t)llround(rough) : INT64_MAX;
	}
	if (*ns > max_ns || *ns < -max_ns)
		return err_set(e, ERR_INVALID, "offset %zu: \"%.*s\" is no time",
			       (size_t)(t.s - s->begin), (int)(t.len < 40 ? t.len : 40), t.s);
	return 0;
}

/* A string, or a number as its text. */
static int read_text(struct scan *s, struct scan_text *out, struct err *e)
{
	char kind;

	return json_stat_read(s, &kind, out, e);
}

static int read_phase(struct scan *s, char *phase, struct err *e)
{
	struct scan_text t;
	int rc = read_text(s, &t, e);

	if (!rc && t.len == 1)
		*phase = t.s[0];
	return rc;
}

static int read_binding(struct scan *s, bool *binds_around, struct err *e)
{
	struct scan_text t;
	int rc = read_text(s, &t, e);

	*binds_around = !rc && is(&t, "e");
	return rc;
}

static int read_ts(struct scan *s, struct raw *raw, struct err *e)
{
	raw->has_ts = true;
	return read_time(s, MAX_NS, &raw->at_ns, e);
}

static int read_member(struct scan *s, const struct scan_text *key, struct raw *raw, struct err *e)
{
	if (is(key, "ph"))
		return read_phase(s, &raw->phase, e);
	if (is(key, "cat"))
		return read_text(s, &raw->category, e);
	if (is(key, "name"))
		return read_text(s, &raw->name, e);
	if (is(key, "ts") && scan_peek(s) != 'n')
		return read_ts(s, raw, e);
	if (is(key, "dur") && scan_peek(s) != 'n')
		return read_time(s, MAX_SPAN_NS, &raw->duration_ns, e);
	if (is(key, "pid"))
		return read_text(s, &raw->pid, e);
	if (is(key, "tid"))
		return read_text(s, &raw->tid, e);
	if (is(key, "id") || is(key, "id2"))
		return read_text(s, &raw->id, e);
	if (is(key, "bp"))
		return read_binding(s, &raw->binds_around, e);
	if (is(key, "args") && scan_peek(s) == '{')
		return scan_skip(s, &raw->args, e);
	return scan_skip(s, NULL, e);
}

/* ---- what it means ---- */

static int row_of(struct tables *t, const struct raw *raw, struct row *row, struct err *e)
{
	int rc = tables_text(t, &raw->name, &row->name, e);

	row->at_ns = raw->at_ns;
	row->args = tables_piece(t, &raw->args);
	row->category = NO_TEXT;
	if (!rc && raw->category.len)
		rc = tables_text(t, &raw->category, &row->category, e);
	return rc;
}

static int thread_of(struct tables *t, const struct raw *raw, struct track **out, struct err *e)
{
	uint32_t process, id;
	int rc = tables_process(t, &raw->pid, &process, e);

	if (!rc)
		rc = tables_text(t, &raw->tid, &id, e);
	return rc ? rc : tables_track(t, process, TRACK_THREAD, id, out, e);
}

static int add_event(struct tables *t, const struct raw *raw, enum row_kind kind, struct err *e)
{
	struct row row = { .kind = (uint8_t)kind };
	struct track *track;
	int rc = thread_of(t, raw, &track, e);

	if (!rc)
		rc = row_of(t, raw, &row, e);
	if (rc)
		return rc;
	if (raw->phase == 'X')
		row.duration_ns = raw->duration_ns;
	row.track = track->index;
	return tables_add(t, &row, e);
}

/* Category and id, which may each be empty, as one text; flows have the name, too. */
static int key_of(struct tables *t, const struct raw *raw, bool with_name, uint32_t *out,
		  struct err *e)
{
	const struct scan_text *const parts[] = { &raw->category, &raw->id, &raw->name };
	struct buf key = BUF_INIT;
	int rc;

	for (size_t i = 0; i < (with_name ? 3 : 2); i++) {
		buf_add(&key, parts[i]->s, parts[i]->len);
		buf_add_u8(&key, 0);
	}
	rc = names_add(&t->texts, key.data, key.len, out, e);
	buf_release(&key);
	return rc;
}

/* Begins and ends belong together by category and id; all of a category are shown on one track of the first one's process. */
static int add_async(struct tables *t, const struct raw *raw, enum row_kind kind, struct err *e)
{
	static const struct scan_text none = { .s = "asynchronous", .len = 12 };
	struct row row = { .kind = (uint8_t)kind };
	struct track *calls, *shown;
	uint32_t process, key, category;
	size_t before = t->n_tracks;
	int rc = tables_process(t, &raw->pid, &process, e);

	if (!rc)
		rc = key_of(t, raw, false, &key, e);
	if (!rc)
		rc = tables_track(t, UINT32_MAX, TRACK_CALLS, key, &calls, e);
	if (!rc && t->n_tracks > before) {
		rc = tables_text(t, raw->category.len ? &raw->category : &none, &category, e);
		if (!rc)
			rc = tables_track(t, process, TRACK_ASYNC, category, &shown, e);
		if (!rc)
			calls->shown = shown->index;
	}
	if (!rc)
		rc = row_of(t, raw, &row, e);
	if (rc)
		return rc;
	row.track = calls->index;
	return tables_add(t, &row, e);
}

/* Several series of one counter are counters "NAME SERIES". */
static int sample_name(struct tables *t, const struct raw *raw, const struct scan_text *series,
		       uint32_t *out, struct err *e)
{
	struct buf name = BUF_INIT;
	int rc;

	if (is(series, "value") && !raw->id.len)
		return tables_text(t, &raw->name, out, e);
	scan_unescape(&raw->name, &name);
	if (raw->id.len) {
		buf_add_u8(&name, ' ');
		scan_unescape(&raw->id, &name);
	}
	buf_add_u8(&name, ' ');
	scan_unescape(series, &name);
	rc = names_add(&t->texts, name.data, name.len < ENTRY_TEXT_MAX ? name.len : ENTRY_TEXT_MAX,
		       out, e);
	buf_release(&name);
	return rc;
}

static int add_sample(struct tables *t, const struct raw *raw, uint32_t track,
		      const struct scan_text *series, const struct scan_text *number, struct err *e)
{
	struct row row = { .kind = ROW_SAMPLE,
			   .at_ns = raw->at_ns,
			   .value = json_stat_double(number),
			   .category = NO_TEXT,
			   .track = track };
	int rc = sample_name(t, raw, series, &row.name, e);

	return rc ? rc : tables_add(t, &row, e);
}

/* "args" are numbers by series; some programs write them as texts. */
static int add_counter(struct tables *t, const struct raw *raw, struct err *e)
{
	struct scan_text key, value;
	struct track *track;
	uint32_t process, none;
	struct scan s;
	char kind;
	int rc = tables_process(t, &raw->pid, &process, e);

	if (!rc)
		rc = tables_text_of(t, "", &none, e);
	if (!rc)
		rc = tables_track(t, process, TRACK_COUNTERS, none, &track, e);
	if (rc || !raw->args.len)
		return rc;
	scan_init(&s, raw->args.s, raw->args.len);
	rc = scan_enter(&s, '{', e);
	while (!rc) {
		rc = scan_member(&s, &key, e);
		if (rc <= 0)
			break;
		rc = json_stat_read(&s, &kind, &value, e);
		if (!rc && value.len && strchr("-0123456789\"", kind))
			rc = add_sample(t, raw, track->index, &key, &value, e);
	}
	return rc;
}

/* A mixing function with a good spread: the finalizer of SplitMix64. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static int add_flow(struct tables *t, const struct raw *raw, struct err *e)
{
	/* the two lowest bits: 1 the flow comes in, 2 it goes out, 3 both */
	const uint64_t direction = raw->phase == 's' ? 2 : raw->phase == 'f' ? 1 : 3;
	struct flow_end flow = { .at_ns = raw->at_ns,
				 .is_next = raw->phase == 'f' && !raw->binds_around };
	struct track *track;
	uint32_t key;
	int rc = thread_of(t, raw, &track, e);

	if (!rc)
		rc = key_of(t, raw, true, &key, e);
	if (rc)
		return rc;
	flow.track = track->index;
	flow.value = (mix((uint64_t)key + 1) >> 8) << 2 | direction;
	return tables_add_flow(t, &flow, e);
}

/* {"name": "thread_name", "args": {"name": TEXT}}, and the same of a process. */
static int find_name(const struct raw *raw, struct scan_text *out, struct err *e)
{
	struct scan_text key;
	struct scan s;
	int rc;

	scan_init(&s, raw->args.s, raw->args.len);
	rc = scan_enter(&s, '{', e);
	while (!rc) {
		rc = scan_member(&s, &key, e);
		if (rc <= 0)
			break;
		rc = is(&key, "name") ? read_text(&s, out, e) : scan_skip(&s, NULL, e);
	}
	return rc;
}

static int add_metadata(struct tables *t, const struct raw *raw, struct err *e)
{
	bool of_process = is(&raw->name, "process_name");
	struct scan_text name = { 0 };
	struct track *track;
	uint32_t process, text;
	int rc = 0;

	if (!raw->args.len || (!of_process && !is(&raw->name, "thread_name")))
		return 0;
	rc = find_name(raw, &name, e);
	if (rc || !name.len)
		return rc;
	rc = tables_text(t, &name, &text, e);
	if (!rc && of_process)
		rc = tables_process(t, &raw->pid, &process, e);
	else if (!rc)
		rc = thread_of(t, raw, &track, e);
	if (!rc && of_process)
		t->processes[process].name = text;
	else if (!rc)
		track->name = text;
	return rc;
}

static int take(struct tables *t, const struct raw *raw, struct err *e)
{
	if (raw->phase == 'M')
		return add_metadata(t, raw, e);
	if (!raw->has_ts || raw->duration_ns < 0) {
		t->counts.left_out++;
		return 0;
	}
	switch (raw->phase) {
	case 'X':
	case 'i':
	case 'I':
	case 'R':
		return add_event(t, raw, ROW_SPAN, e);
	case 'B':
		return add_event(t, raw, ROW_BEGIN, e);
	case 'E':
		return add_event(t, raw, ROW_END, e);
	case 'b':
	case 'S':
		return add_async(t, raw, ROW_BEGIN, e);
	case 'e':
	case 'F':
		return add_async(t, raw, ROW_END, e);
	case 'n':
	case 'T':
	case 'p':
		return add_async(t, raw, ROW_SPAN, e);
	case 'C':
		return add_counter(t, raw, e);
	case 's':
	case 't':
	case 'f':
		return add_flow(t, raw, e);
	default:
		t->counts.left_out++;
		return 0;
	}
}

/* ---- the document ---- */

static int read_event(struct tables *t, struct scan *s, struct err *e)
{
	struct raw raw = { 0 };
	struct scan_text key;
	int rc = scan_enter(s, '{', e);

	while (!rc) {
		rc = scan_member(s, &key, e);
		if (rc <= 0)
			break;
		rc = read_member(s, &key, &raw, e);
	}
	return rc ? rc : take(t, &raw, e);
}

/* With `may_break_off` the array may end with the text, also behind a comma: Chrome writes the array alone so that a program
 * that is killed leaves a readable file. */
static int read_events(struct tables *t, struct scan *s, bool may_break_off, struct err *e)
{
	int rc = scan_enter(s, '[', e);

	while (!rc) {
		if (may_break_off && !scan_peek(s))
			break;
		rc = scan_element(s, e);
		if (rc <= 0 || (may_break_off && !scan_peek(s)))
			break;
		rc = read_event(t, s, e);
	}
	return rc > 0 ? 0 : rc;
}

/* What `tutti export` knows: a number, also as a text. */
static int read_other(struct tables *t, struct scan *s, struct err *e)
{
	struct scan_text key, value;
	int64_t t0_ns;
	int rc = scan_enter(s, '{', e);

	while (!rc) {
		rc = scan_member(s, &key, e);
		if (rc <= 0)
			break;
		rc = read_text(s, &value, e);
		if (!rc && is(&key, "t0_unix_ns") && value.len && scan_decimal(&value, 0, &t0_ns) &&
		    t0_ns > 0 && t0_ns <= MAX_NS)
			t->base_ns = t0_ns;
	}
	return rc;
}

static int read_document(struct tables *t, struct scan *s, struct err *e)
{
	struct scan_text key;
	bool found = false;
	int rc;

	if (scan_peek(s) == '[')
		return read_events(t, s, true, e);
	rc = scan_enter(s, '{', e);
	while (!rc) {
		rc = scan_member(s, &key, e);
		if (rc <= 0)
			break;
		found |= is(&key, "traceEvents");
		if (is(&key, "traceEvents"))
			rc = read_events(t, s, false, e);
		else if (is(&key, "otherData") && scan_peek(s) == '{')
			rc = read_other(t, s, e);
		else
			rc = scan_skip(s, NULL, e);
	}
	if (!rc && !found)
		return err_set(e, ERR_INVALID, "a JSON document without \"traceEvents\"");
	return rc ? rc : scan_end(s, e);
}

int chrome_read(const void *data, size_t len, size_t max_memory, struct xs_builder *b,
		struct entry_counts *counts, struct err *e)
{
	struct tables t = { .file = data, .max_memory = max_memory, .value_name = "value" };
	struct scan s;
	int rc = 0;

	if (len > ENTRY_MAX_BYTES)
		rc = err_set(e, ERR_LIMIT, "%zu bytes, more than %llu", len,
			     (unsigned long long)ENTRY_MAX_BYTES);
	scan_init(&s, data, len);
	if (!rc)
		rc = read_document(&t, &s, e);
	if (!rc)
		rc = tables_build(&t, b, e);
	*counts = t.counts;
	tables_release(&t);
	return rc;
}
