/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a kineto file into tables: events, their lines, flows. */
#include "xspace/kineto_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xspace/text.h"

#define MAX_NS	    INT64_C(4000000000000000000) /* year 2096 */
#define MAX_SPAN_NS INT64_C(1000000000000000) /* 11 days */
#define MAX_ID	    (INT64_C(1) << 52)

/* What the hash tables and malloc() need beside each entry. */
#define NAME_OVERHEAD 48
#define LINE_OVERHEAD 48

/* One object of traceEvents, before it is decoded. */
struct raw_event {
	char phase; /* 'X' span, 's' and 'f' ends of a flow, 'M' metadata; 0 = none of them */
	struct scan_text category, name, args;
	int64_t at_ns, duration_ns, pid, tid, flow_id;
	bool has_pid, has_tid; /* pid and tid are numbers */
	const char *end;
};

static bool is(const struct scan_text *t, const char *expected)
{
	return text_equals(t->s, t->len, expected);
}

/* ---- tables ---- */

int kineto_check_memory(const struct kineto *k, size_t more, struct err *e)
{
	size_t sort = k->n_events * 2 * sizeof(void *); /* qsort() copies the array */
	size_t used = k->names.bytes + k->cap_lines * (sizeof(struct kineto_line) + LINE_OVERHEAD) +
		      k->cap_events * sizeof(struct kineto_event) +
		      k->cap_flows * sizeof(struct kineto_flow) + sort;

	if (used + more <= k->conf->max_memory)
		return 0;
	return err_set(e, ERR_LIMIT,
		       "%zu of its events need more than %zu MiB of memory: make the window "
		       "shorter",
		       k->n_events, k->conf->max_memory >> 20);
}

/* Makes room for one more in the array that the pointer at `array` points to. */
static int grow(struct kineto *k, void *array, size_t n, size_t *cap, size_t size, struct err *e)
{
	size_t more = *cap ? *cap : 256;
	void *v;
	int rc;

	if (n < *cap)
		return 0;
	rc = kineto_check_memory(k, more * size, e);
	if (rc)
		return rc;
	*cap += more;
	memcpy(&v, array, sizeof(v));
	v = xrealloc(v, *cap * size);
	memcpy(array, &v, sizeof(v));
	return 0;
}

static int intern(struct kineto *k, const char *s, size_t len, uint32_t *id, struct err *e)
{
	struct kineto_names *names = &k->names;
	size_t bytes = sizeof(struct kineto_name) + NAME_OVERHEAD + len + 1;
	struct kineto_name *n;
	int rc;

	HASH_FIND(hh, names->table, s, len, n);
	if (n) {
		*id = n->id;
		return 0;
	}
	rc = kineto_check_memory(k, bytes, e);
	if (!rc)
		rc = grow(k, &names->texts, names->n, &names->cap, sizeof(*names->texts), e);
	if (rc)
		return rc;
	n = xmalloc(sizeof(*n) + len + 1);
	memcpy(n->text, s, len);
	n->text[len] = 0;
	n->id = (uint32_t)names->n;
	HASH_ADD_KEYPTR(hh, names->table, n->text, len, n);
	names->texts[names->n++] = n->text;
	names->bytes += bytes;
	*id = n->id;
	return 0;
}

static int intern_text(struct kineto *k, const struct scan_text *text, uint32_t *id, struct err *e)
{
	struct kineto_names *names = &k->names;
	struct scan_text t = *text;

	if (!t.len)
		/* an empty text, or the value is a number or an object */
		return intern(k, "", 0, id, e);
	if (t.len > KINETO_MAX_TEXT)
		t.len = KINETO_MAX_TEXT;
	if (!t.has_escapes && !memchr(t.s, 0, t.len))
		return intern(k, t.s, t.len, id, e);
	buf_reset(&names->scratch);
	scan_unescape(&t, &names->scratch);
	return intern(k, buf_str(&names->scratch), strlen(buf_str(&names->scratch)), id, e);
}

static int find_line(struct kineto *k, enum kineto_kind kind, int64_t device, int64_t id,
		     struct kineto_line **out, struct err *e)
{
	struct kineto_key key = { kind, kind == KINETO_HOST ? 0 : device, id };
	int rc;

	HASH_FIND(hh, k->table, &key, sizeof(key), *out);
	if (*out)
		return 0;
	if (k->n_lines == KINETO_MAX_LINES)
		return err_set(e, ERR_LIMIT, "more than %d threads and streams", KINETO_MAX_LINES);
	rc = grow(k, &k->lines, k->n_lines, &k->cap_lines, sizeof(struct kineto_line *), e);
	if (rc)
		return rc;
	*out = xcalloc(1, sizeof(**out));
	(*out)->key = key;
	(*out)->index = (uint32_t)k->n_lines;
	HASH_ADD(hh, k->table, key, sizeof(key), *out);
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

static int add_event(struct kineto *k, const struct raw_event *raw, struct err *e)
{
	struct kineto_event event = { .start_ns = raw->at_ns, .duration_ns = raw->duration_ns };
	struct kineto_line *line;
	int rc;

	if (is(&raw->category, "Trace") && raw->duration_ns > 0) {
		k->counts.from_unix_ns = raw->at_ns;
		k->counts.to_unix_ns = raw->at_ns + raw->duration_ns;
	}
	if (!raw->has_pid || !raw->has_tid || is(&raw->category, "Trace") || raw->duration_ns < 0) {
		k->counts.left_out++;
		return 0;
	}
	rc = line_of(k, raw, &line, e);
	if (!rc)
		rc = intern_text(k, &raw->name, &event.name, e);
	if (!rc)
		rc = grow(k, &k->events, k->n_events, &k->cap_events, sizeof(event), e);
	if (rc)
		return rc;
	event.line = line->index;
	event.is_kernel = is(&raw->category, "kernel");
	event.args_at = (uint32_t)((raw->args.len ? raw->args.s : raw->end) - k->file);
	event.args_len = (uint32_t)raw->args.len;
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
	uint64_t id = mix(k->conf->salt ^ (uint64_t)raw->flow_id ^
			  (uint64_t)raw->category.len << 56);
	struct kineto_flow flow = { .at_ns = raw->at_ns };
	struct kineto_line *line;
	int rc;

	if (!raw->has_pid || !raw->has_tid)
		return 0;
	/* A flow that ends on a stream leads from a launch on the host to what it launched. */
	rc = find_line(
		k, raw->phase == 'f' && is(&raw->category, "ac2g") ? KINETO_STREAM : KINETO_HOST,
		raw->pid, raw->tid, &line, e);
	if (!rc)
		rc = grow(k, &k->flows, k->n_flows, &k->cap_flows, sizeof(flow), e);
	if (rc)
		return rc;
	flow.line = line->index;
	flow.value = (id >> 8) << 2 | (raw->phase == 's' ? 2 : 1);
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
			rc = intern_text(k, &text, &name, e);
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
	raw.end = s->at;
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

static int by_time(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Ends of the calls of optimizer.step() in the recording, to `ends` if it is not NULL; returns how many. */
static size_t step_ends(const struct kineto *k, int64_t *ends)
{
	static const char call[] = "Optimizer.step#"; /* PyTorch's own annotation of each */
	size_t n = 0;

	for (size_t i = 0; i < k->n_events; i++) {
		const struct kineto_event *ev = &k->events[i];

		if (ev->start_ns < k->counts.from_unix_ns ||
		    strncmp(k->names.texts[ev->name], call, sizeof(call) - 1))
			continue;
		if (ends)
			ends[n] = ev->start_ns + ev->duration_ns;
		n++;
	}
	return n;
}

/* Ends the recording with the last call that it was to have. */
static int end_with_last_step(struct kineto *k, struct err *e)
{
	size_t n = k->conf->steps && k->counts.to_unix_ns ? step_ends(k, NULL) : 0;
	int64_t *ends;
	int rc;

	if (n <= k->conf->steps)
		return 0;
	rc = kineto_check_memory(k, n * sizeof(*ends), e);
	if (rc)
		return rc;
	ends = xmalloc(n * sizeof(*ends));
	step_ends(k, ends);
	sort_array(ends, n, sizeof(*ends), by_time);
	if (ends[k->conf->steps - 1] < k->counts.to_unix_ns)
		k->counts.to_unix_ns = ends[k->conf->steps - 1];
	free(ends);
	return 0;
}

static int kineto_measure(struct kineto *k, struct err *e)
{
	int64_t first = INT64_MAX, last = INT64_MIN;
	int rc = end_with_last_step(k, e);

	if (rc)
		return rc;
	for (size_t i = 0; i < k->n_events; i++) {
		const struct kineto_event *ev = &k->events[i];
		int64_t end_ns = ev->start_ns + ev->duration_ns;

		first = ev->start_ns < first ? ev->start_ns : first;
		last = end_ns > last ? end_ns : last;
	}
	k->counts.events = k->n_events;
	if (k->counts.to_unix_ns) { /* the file may have its base time after the events */
		k->counts.from_unix_ns += k->base_ns;
		k->counts.to_unix_ns += k->base_ns;
	}
	if (!k->n_events)
		return 0;
	if (last - first > MAX_SPAN_NS)
		return err_set(e, ERR_INVALID, "its events are %" PRId64 " s apart",
			       (last - first) / 1000000000);
	k->first_ns = first;
	k->counts.start_unix_ns = k->conf->start_unix_ns ? k->conf->start_unix_ns
							 : first + k->base_ns;
	k->line_ns = first + k->base_ns - k->counts.start_unix_ns;
	k->counts.end_unix_ns = last + k->base_ns;
	return 0;
}

int kineto_read(const void *data, size_t len, const struct kineto_conf *conf, struct xs_builder *b,
		struct kineto_counts *counts, struct err *e)
{
	struct kineto k = { .conf = conf, .file = data };
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
		rc = kineto_build(&k, b, e);
	*counts = k.counts;
	kineto_free(&k);
	return rc;
}
