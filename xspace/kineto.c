/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a kineto file into tables: events, their lines, their stats, flows. */
#include "xspace/kineto_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xspace/text.h"

#define MAX_NS	    INT64_C(4000000000000000000) /* year 2096 */
#define MAX_SPAN_NS INT64_C(1000000000000000) /* 11 days */
#define MAX_ID	    (INT64_C(1) << 52)

/* One object of traceEvents, as it stands in the file. */
struct raw_event {
	char phase; /* 'X' span, 's' and 'f' ends of a flow, 'M' metadata; 0 = none of them */
	struct scan_text category, name, args;
	int64_t at_ns, duration_ns, pid, tid, flow_id;
	bool has_pid, has_tid; /* they are numbers */
};

/* The args of a kernel that stand together in the stat kernel_details. */
struct kernel_args {
	struct scan_text grid, block;
	int64_t registers, shared;
	double occupancy;
};

static bool is(const struct scan_text *t, const char *expected)
{
	return text_equals(t->s, t->len, expected);
}

/* ---- tables ---- */

static void *grow(void *array, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return array;
	*cap = *cap ? 2 * *cap : 256;
	return xrealloc(array, *cap * size);
}

static int intern(struct kineto_names *names, const char *s, size_t len, uint32_t *id,
		  struct err *e)
{
	struct kineto_name *n;

	HASH_FIND(hh, names->table, s, len, n);
	if (!n) {
		if (names->n == KINETO_MAX_NAMES)
			return err_set(e, ERR_LIMIT, "more than %d different names",
				       KINETO_MAX_NAMES);
		n = xmalloc(sizeof(*n) + len + 1);
		memcpy(n->text, s, len);
		n->text[len] = 0;
		n->id = (uint32_t)names->n;
		HASH_ADD_KEYPTR(hh, names->table, n->text, len, n);
		names->texts = grow(names->texts, names->n, &names->cap, sizeof(*names->texts));
		names->texts[names->n++] = n->text;
	}
	*id = n->id;
	return 0;
}

static int intern_text(struct kineto_names *names, const struct scan_text *text, uint32_t *id,
		       struct err *e)
{
	struct scan_text t = *text;

	if (t.len > KINETO_MAX_TEXT)
		t.len = KINETO_MAX_TEXT;
	if (!t.has_escapes && !memchr(t.s, 0, t.len))
		return intern(names, t.s, t.len, id, e);
	buf_reset(&names->scratch);
	scan_unescape(&t, &names->scratch);
	return intern(names, buf_str(&names->scratch), strlen(buf_str(&names->scratch)), id, e);
}

static int find_line(struct kineto *k, enum kineto_kind kind, int64_t device, int64_t id,
		     struct kineto_line **out, struct err *e)
{
	struct kineto_key key = { kind, kind == KINETO_HOST ? 0 : device, id };

	HASH_FIND(hh, k->table, &key, sizeof(key), *out);
	if (*out)
		return 0;
	if (k->n_lines == KINETO_MAX_LINES)
		return err_set(e, ERR_LIMIT, "more than %d threads and streams", KINETO_MAX_LINES);
	*out = xcalloc(1, sizeof(**out));
	(*out)->key = key;
	(*out)->index = (uint32_t)k->n_lines;
	HASH_ADD(hh, k->table, key, sizeof(key), *out);
	k->lines = grow(k->lines, k->n_lines, &k->cap_lines, sizeof(struct kineto_line *));
	k->lines[k->n_lines++] = *out;
	return 0;
}

static void kineto_free(struct kineto *k)
{
	struct kineto_name *n, *next_name;
	struct kineto_line *l, *next_line;

	HASH_ITER (hh, k->names.table, n, next_name) {
		HASH_DEL(k->names.table, n);
		free(n);
	}
	HASH_ITER (hh, k->table, l, next_line) {
		HASH_DEL(k->table, l);
		free(l);
	}
	free(k->names.texts);
	buf_release(&k->names.scratch);
	free(k->lines);
	free(k->events);
	free(k->flows);
	buf_release(&k->stats);
	buf_release(&k->scratch);
}

/* ---- args ---- */

static void add_stat(struct kineto *k, struct kineto_stat head, const char *text)
{
	head.len = text ? (uint32_t)strlen(text) + 1 : 0;
	buf_add(&k->stats, &head, sizeof(head));
	if (text)
		buf_add(&k->stats, text, head.len);
}

/* XProf joins a launch with its kernel by a stat of its own name. Names of stats are plain ASCII. */
static int stat_name(struct kineto *k, const struct scan_text *key, uint32_t *id, struct err *e)
{
	char name[64];
	size_t len;

	if (is(key, "correlation"))
		return intern(&k->names, "correlation_id", strlen("correlation_id"), id, e);
	buf_reset(&k->scratch);
	scan_unescape(key, &k->scratch);
	len = k->scratch.len < sizeof(name) ? k->scratch.len : sizeof(name) - 1;
	for (size_t i = 0; i < len; i++) {
		char c = (char)k->scratch.data[i];

		name[i] = c >= ' ' && c < 0x7f && c != '"' && c != '\\' ? c : '_';
	}
	return intern(&k->names, name, len, id, e);
}

static double to_double(const struct scan_text *number)
{
	char text[64];

	snprintf(text, sizeof(text), "%.*s", (int)(number->len < 63 ? number->len : 63), number->s);
	return strtod(text, NULL);
}

static void add_number(struct kineto *k, uint32_t name, const struct scan_text *v)
{
	struct kineto_stat stat = { .kind = XS_INT, .name = name };

	if (memchr(v->s, '.', v->len) || !scan_decimal(v, 0, &stat.i)) {
		stat.kind = XS_DOUBLE;
		stat.d = to_double(v);
	}
	add_stat(k, stat, NULL);
}

static void add_text(struct kineto *k, uint32_t name, struct scan_text v, bool is_string)
{
	if (v.len > KINETO_MAX_TEXT)
		v.len = KINETO_MAX_TEXT;
	buf_reset(&k->scratch);
	if (is_string)
		scan_unescape(&v, &k->scratch);
	else
		buf_add(&k->scratch, v.s, v.len);
	add_stat(k, (struct kineto_stat){ .kind = XS_STR, .name = name }, buf_str(&k->scratch));
}

static void note_kernel_arg(struct kernel_args *kernel, const struct scan_text *key,
			    const struct scan_text *v)
{
	if (is(key, "grid"))
		kernel->grid = *v;
	else if (is(key, "block"))
		kernel->block = *v;
	else if (is(key, "registers per thread"))
		scan_decimal(v, 0, &kernel->registers);
	else if (is(key, "shared memory"))
		scan_decimal(v, 0, &kernel->shared);
	else if (is(key, "est. achieved occupancy %"))
		kernel->occupancy = to_double(v);
}

static int read_arg(struct kineto *k, struct scan *s, const struct scan_text *key,
		    struct kernel_args *kernel, struct err *e)
{
	struct scan_text v;
	char kind = scan_peek(s);
	uint32_t name;
	int rc = kind == '"' ? scan_string(s, &v, e) : scan_skip(s, &v, e);

	if (rc || kind == 'n')
		return rc;
	rc = stat_name(k, key, &name, e);
	if (rc)
		return rc;
	if (kind == '"' || kind == '{' || kind == '[')
		add_text(k, name, v, kind == '"');
	else if (kind == 't' || kind == 'f')
		add_stat(k, (struct kineto_stat){ .kind = XS_INT, .name = name, .i = kind == 't' },
			 NULL);
	else
		add_number(k, name, &v);
	if (kind != '"')
		note_kernel_arg(kernel, key, &v);
	if (kind == 'f' && is(key, "finished"))
		k->counts.unfinished++;
	return 0;
}

/* "[8, 1, 1]" as "8,1,1"; nothing else goes into kernel_details. */
static void add_dimensions(struct buf *out, const char *key, const struct scan_text *v)
{
	buf_addf(out, " %s:", key);
	for (size_t i = 0; i < v->len && i < 64; i++) {
		if ((v->s[i] >= '0' && v->s[i] <= '9') || v->s[i] == ',')
			buf_add_u8(out, (uint8_t)v->s[i]);
	}
}

static int add_kernel_details(struct kineto *k, const struct kernel_args *kernel, struct err *e)
{
	uint32_t name;
	int rc = intern(&k->names, "kernel_details", strlen("kernel_details"), &name, e);

	if (rc)
		return rc;
	buf_reset(&k->scratch);
	buf_addf(&k->scratch, "regs:%" PRId64 " static_shared:%" PRId64 " dynamic_shared:0",
		 kernel->registers, kernel->shared);
	add_dimensions(&k->scratch, "grid", &kernel->grid);
	add_dimensions(&k->scratch, "block", &kernel->block);
	buf_addf(&k->scratch, " occ_pct:%g", kernel->occupancy);
	add_stat(k, (struct kineto_stat){ .kind = XS_STR, .name = name }, buf_str(&k->scratch));
	return 0;
}

static int read_args(struct kineto *k, const struct raw_event *raw, uint32_t *n, struct err *e)
{
	struct kernel_args kernel = { 0 };
	struct scan_text key;
	struct scan s;
	int rc;

	*n = 0;
	if (!raw->args.len)
		return 0;
	scan_init(&s, raw->args.s, raw->args.len);
	rc = scan_enter(&s, '{', e);
	while (!rc) {
		size_t before = k->stats.len;

		rc = scan_member(&s, &key, e);
		if (rc <= 0)
			break;
		rc = read_arg(k, &s, &key, &kernel, e);
		*n += k->stats.len > before;
	}
	if (!rc && kernel.grid.len && is(&raw->category, "kernel")) {
		rc = add_kernel_details(k, &kernel, e);
		*n += 1;
	}
	return rc;
}

/* ---- events ---- */

static int read_id(struct scan *s, int64_t *v, bool *is_number, struct err *e)
{
	struct scan_text t;
	int rc = scan_skip(s, &t, e);

	*is_number = !rc && t.len && t.s[0] != '"' && scan_decimal(&t, 0, v) && *v <= MAX_ID &&
		     *v >= -MAX_ID;
	return rc;
}

/* Microseconds as nanoseconds. */
static int read_time(struct scan *s, int64_t max_ns, int64_t *ns, struct err *e)
{
	struct scan_text t;
	int rc = scan_number(s, &t, e);

	if (rc)
		return rc;
	if (!scan_decimal(&t, 3, ns) || *ns > max_ns || *ns < -max_ns)
		return err_set(e, ERR_INVALID, "offset %zu: \"%.*s\" is no time",
			       (size_t)(t.s - s->begin), (int)(t.len < 40 ? t.len : 40), t.s);
	return 0;
}

static int read_phase(struct scan *s, char *phase, struct err *e)
{
	struct scan_text t;
	int rc = scan_string(s, &t, e);

	if (!rc && t.len == 1)
		*phase = t.s[0];
	return rc;
}

static int read_member(struct scan *s, const struct scan_text *key, struct raw_event *raw,
		       struct err *e)
{
	bool ignored;

	if (is(key, "ph"))
		return read_phase(s, &raw->phase, e);
	if (is(key, "cat"))
		return scan_string(s, &raw->category, e);
	if (is(key, "name"))
		return scan_string(s, &raw->name, e);
	if (is(key, "ts"))
		return read_time(s, MAX_NS, &raw->at_ns, e);
	if (is(key, "dur"))
		return read_time(s, MAX_SPAN_NS, &raw->duration_ns, e);
	if (is(key, "pid"))
		return read_id(s, &raw->pid, &raw->has_pid, e);
	if (is(key, "tid"))
		return read_id(s, &raw->tid, &raw->has_tid, e);
	if (is(key, "id"))
		return read_id(s, &raw->flow_id, &ignored, e);
	if (is(key, "args") && scan_peek(s) == '{')
		return scan_skip(s, &raw->args, e);
	return scan_skip(s, NULL, e);
}

static int line_of(struct kineto *k, const struct raw_event *raw, struct kineto_line **line,
		   struct err *e)
{
	const struct scan_text *c = &raw->category;
	enum kineto_kind kind = KINETO_HOST;

	if (is(c, "kernel") || is(c, "gpu_memcpy") || is(c, "gpu_memset"))
		kind = KINETO_STREAM;
	else if (is(c, "gpu_user_annotation"))
		kind = KINETO_STREAM_ANNOTATIONS;
	return find_line(k, kind, raw->pid, raw->tid, line, e);
}

/* "ProfilerStep#7" is a step: the event's name without the number, and the number as a stat. */
static int name_event(struct kineto *k, const struct raw_event *raw, struct kineto_event *event,
		      struct err *e)
{
	static const char prefix[] = "ProfilerStep#";
	struct kineto_stat step = { .kind = XS_INT };
	struct scan_text name = raw->name, number;
	size_t len = sizeof(prefix) - 1;
	int rc;

	if (name.len <= len || memcmp(name.s, prefix, len) != 0)
		return intern_text(&k->names, &name, &event->name, e);
	number = (struct scan_text){ .s = name.s + len, .len = name.len - len };
	if (!scan_decimal(&number, 0, &step.i))
		return intern_text(&k->names, &name, &event->name, e);
	rc = intern(&k->names, "step_num", strlen("step_num"), &step.name, e);
	if (rc)
		return rc;
	add_stat(k, step, NULL);
	event->n_stats++;
	return intern(&k->names, prefix, len - 1, &event->name, e);
}

static int add_event(struct kineto *k, const struct raw_event *raw, struct err *e)
{
	struct kineto_event event = { .start_ns = raw->at_ns, .duration_ns = raw->duration_ns };
	struct kineto_line *line;
	int rc;

	if (!raw->has_pid || !raw->has_tid || is(&raw->category, "Trace") || raw->duration_ns < 0) {
		k->counts.left_out++;
		return 0;
	}
	if (k->n_events == KINETO_MAX_EVENTS)
		return err_set(e, ERR_LIMIT, "more than %d events", KINETO_MAX_EVENTS);
	rc = line_of(k, raw, &line, e);
	if (rc)
		return rc;
	event.line = line->index;
	event.number = (uint32_t)k->n_events;
	event.stats_at = k->stats.len;
	rc = read_args(k, raw, &event.n_stats, e);
	if (rc)
		return rc;
	rc = name_event(k, raw, &event, e);
	if (rc)
		return rc;
	k->events = grow(k->events, k->n_events, &k->cap_events, sizeof(event));
	k->events[k->n_events++] = event;
	return 0;
}

/* A mixing function with a good spread: the finalizer of SplitMix64. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static int add_flow(struct kineto *k, const struct raw_event *raw, struct err *e)
{
	uint64_t id = mix(k->salt ^ (uint64_t)raw->flow_id ^ (uint64_t)raw->category.len << 56);
	struct kineto_flow flow = { .at_ns = raw->at_ns };
	struct kineto_line *line;
	int rc;

	if (!raw->has_pid || !raw->has_tid || k->n_flows == KINETO_MAX_EVENTS)
		return 0;
	/* From a launch on the host to what it launched: only such an arrow ends on a stream. */
	rc = find_line(
		k, raw->phase == 'f' && is(&raw->category, "ac2g") ? KINETO_STREAM : KINETO_HOST,
		raw->pid, raw->tid, &line, e);
	if (rc)
		return rc;
	flow.line = line->index;
	flow.value = (id >> 8) << 2 | (raw->phase == 's' ? 2 : 1);
	k->flows = grow(k->flows, k->n_flows, &k->cap_flows, sizeof(flow));
	k->flows[k->n_flows++] = flow;
	return 0;
}

/* The name of a thread: {"name": "thread_name", "args": {"name": TEXT}}. */
static int add_thread_name(struct kineto *k, const struct raw_event *raw, struct err *e)
{
	struct kineto_line *line;
	struct scan_text key, text;
	struct scan s;
	uint32_t name;
	int rc;

	if (!is(&raw->name, "thread_name") || !raw->has_pid || !raw->has_tid || !raw->args.len)
		return 0;
	scan_init(&s, raw->args.s, raw->args.len);
	rc = scan_enter(&s, '{', e);
	while (!rc) {
		rc = scan_member(&s, &key, e);
		if (rc <= 0)
			break;
		if (!is(&key, "name") || scan_peek(&s) != '"') {
			rc = scan_skip(&s, NULL, e);
			continue;
		}
		rc = scan_string(&s, &text, e);
		if (!rc)
			rc = intern_text(&k->names, &text, &name, e);
		if (!rc)
			rc = find_line(k, KINETO_HOST, 0, raw->tid, &line, e);
		if (!rc)
			line->name = k->names.texts[name];
	}
	return rc;
}

static int read_event(struct kineto *k, struct scan *s, struct err *e)
{
	struct raw_event raw = { 0 };
	struct scan_text key;
	int rc = scan_enter(s, '{', e);

	while (!rc) {
		rc = scan_member(s, &key, e);
		if (rc <= 0)
			break;
		rc = read_member(s, &key, &raw, e);
	}
	if (rc)
		return rc;
	switch (raw.phase) {
	case 'X':
		return add_event(k, &raw, e);
	case 's':
	case 'f':
		return add_flow(k, &raw, e);
	case 'M':
		return add_thread_name(k, &raw, e);
	default:
		return 0;
	}
}

static int read_events(struct kineto *k, struct scan *s, struct err *e)
{
	int rc = scan_enter(s, '[', e);

	while (!rc) {
		rc = scan_element(s, e);
		if (rc <= 0)
			break;
		rc = read_event(k, s, e);
	}
	return rc;
}

static int read_base(struct kineto *k, struct scan *s, struct err *e)
{
	struct scan_text t;
	int rc = scan_number(s, &t, e);

	if (!rc && (!scan_decimal(&t, 0, &k->base_ns) || k->base_ns < 0 || k->base_ns > MAX_NS))
		return err_set(e, ERR_INVALID, "baseTimeNanoseconds is no time");
	return rc;
}

static int read_file(struct kineto *k, struct scan *s, struct err *e)
{
	struct scan_text key;
	int rc = scan_enter(s, '{', e);

	while (!rc) {
		rc = scan_member(s, &key, e);
		if (rc <= 0)
			break;
		if (is(&key, "traceEvents"))
			rc = read_events(k, s, e);
		else if (is(&key, "baseTimeNanoseconds"))
			rc = read_base(k, s, e);
		else
			rc = scan_skip(s, NULL, e);
	}
	return rc ? rc : scan_end(s, e);
}

static int kineto_measure(struct kineto *k, struct err *e)
{
	int64_t first = INT64_MAX, last = INT64_MIN;

	for (size_t i = 0; i < k->n_events; i++) {
		const struct kineto_event *ev = &k->events[i];
		int64_t end_ns = ev->start_ns + ev->duration_ns;

		first = ev->start_ns < first ? ev->start_ns : first;
		last = end_ns > last ? end_ns : last;
	}
	k->counts.events = k->n_events;
	if (!k->n_events)
		return 0;
	if (last - first > MAX_SPAN_NS)
		return err_set(e, ERR_INVALID, "its events are %" PRId64 " s apart",
			       (last - first) / 1000000000);
	k->first_ns = first;
	k->counts.start_unix_ns = first + k->base_ns;
	k->counts.end_unix_ns = last + k->base_ns;
	return 0;
}

int kineto_read(const void *data, size_t len, uint64_t salt, struct xs_builder *b,
		struct kineto_counts *counts, struct err *e)
{
	struct kineto k = { .salt = salt };
	struct scan s;
	int rc;

	if (len > KINETO_MAX_BYTES)
		return err_set(e, ERR_LIMIT, "%zu bytes, more than %" PRIu64, len,
			       KINETO_MAX_BYTES);
	scan_init(&s, data, len);
	rc = read_file(&k, &s, e);
	if (!rc)
		rc = kineto_measure(&k, e);
	if (!rc && k.n_events)
		kineto_build(&k, b);
	*counts = k.counts;
	kineto_free(&k);
	return rc;
}
