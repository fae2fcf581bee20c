/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the system profile of AWS's Neuron Profiler (system_profile.json) into tables. */
#include <string.h>

#include "xspace/entries/tables.h"
#include "xspace/json_stat.h"
#include "xspace/text.h"

#define MAX_NS	    INT64_C(4000000000000000000) /* year 2096 */
#define MAX_SPAN_NS INT64_C(1000000000000000) /* 11 days */

/* What the document's lists have. */
enum list { LIST_NONE, LIST_EVENTS, LIST_MEMORY, LIST_CPU };

/* One event or sample, before it is decoded. */
struct raw {
	struct scan_text object, name, group, instance, process, thread, cpu, value;
	int64_t at_ns, duration_ns;
	bool has_time;
};

/* A reading; `each` gets the events one by one. */
struct reading {
	int (*each)(void *arg, enum list list, const struct raw *raw, struct err *e);
	void *arg;
};

static bool is(const struct scan_text *t, const char *expected)
{
	return text_equals(t->s, t->len, expected);
}

static enum list list_of(const struct scan_text *key)
{
	return is(key, "trace_events") ? LIST_EVENTS
	       : is(key, "mem_usage")  ? LIST_MEMORY
	       : is(key, "cpu_util")   ? LIST_CPU
				       : LIST_NONE;
}

/* ---- one event ---- */

/* Whole nanoseconds. */
static int read_time(struct scan *s, int64_t max_ns, int64_t *ns, struct err *e)
{
	struct scan_text t;
	int rc = scan_number(s, &t, e);

	if (!rc && (!scan_decimal(&t, 0, ns) || *ns > max_ns || *ns < 0))
		return err_set(e, ERR_INVALID, "offset %zu: \"%.*s\" is no time",
			       (size_t)(t.s - s->begin), (int)(t.len < 40 ? t.len : 40), t.s);
	return rc;
}

static int read_text(struct scan *s, struct scan_text *out, struct err *e)
{
	char kind;

	return json_stat_read(s, &kind, out, e);
}

static int read_member(struct scan *s, const struct scan_text *key, enum list list, struct raw *raw,
		       struct err *e)
{
	if (is(key, "timestamp")) {
		raw->has_time = true;
		return read_time(s, MAX_NS, &raw->at_ns, e);
	}
	if (is(key, "duration"))
		return read_time(s, MAX_SPAN_NS, &raw->duration_ns, e);
	if (is(key, "name"))
		return read_text(s, &raw->name, e);
	if (is(key, "group"))
		return read_text(s, &raw->group, e);
	if (is(key, "instance_id"))
		return read_text(s, &raw->instance, e);
	if (is(key, "process_id"))
		return read_text(s, &raw->process, e);
	if (is(key, "thread_id"))
		return read_text(s, &raw->thread, e);
	if (is(key, "cpu_id"))
		return read_text(s, &raw->cpu, e);
	if (is(key, list == LIST_MEMORY ? "usage" : "util"))
		return read_text(s, &raw->value, e);
	return scan_skip(s, NULL, e);
}

static int read_object(const struct reading *r, const struct scan_text *object, size_t offset,
		       enum list list, struct err *e)
{
	struct raw raw = { .object = *object };
	struct scan_text key;
	struct scan s;
	int rc;

	scan_init(&s, object->s, object->len);
	rc = scan_enter(&s, '{', e);
	while (!rc) {
		rc = scan_member(&s, &key, e);
		if (rc <= 0)
			break;
		rc = read_member(&s, &key, list, &raw, e);
	}
	if (rc)
		return err_prefix(e, "the event at offset %zu", offset);
	return r->each(r->arg, list, &raw, e);
}

/* Whether the object is an event itself; else it is one of events by name. */
static bool is_event(const struct scan_text *object)
{
	struct scan_text key;
	struct scan s;

	scan_init(&s, object->s, object->len);
	if (scan_enter(&s, '{', NULL))
		return true;
	while (scan_member(&s, &key, NULL) > 0) {
		if (scan_peek(&s) != '{')
			return true;
		if (scan_skip(&s, NULL, NULL))
			break;
	}
	return false;
}

static int read_one(const struct reading *r, struct scan *s, enum list list, struct err *e)
{
	struct scan_text object;
	int rc = scan_peek(s) == '{' ? scan_skip(s, &object, e)
				     : err_set(e, ERR_INVALID, "offset %zu: an event is no object",
					       (size_t)(s->at - s->begin));

	return rc ? rc : read_object(r, &object, (size_t)(object.s - s->begin), list, e);
}

static int read_array(const struct reading *r, struct scan *s, enum list list, struct err *e)
{
	int rc = scan_enter(s, '[', e);

	while (!rc) {
		rc = scan_element(s, e);
		if (rc <= 0)
			break;
		rc = read_one(r, s, list, e);
	}
	return rc;
}

static int read_by_name(const struct reading *r, struct scan *s, enum list list, struct err *e)
{
	struct scan_text key;
	int rc = scan_enter(s, '{', e);

	while (!rc) {
		rc = scan_member(s, &key, e);
		if (rc <= 0)
			break;
		rc = read_one(r, s, list, e);
	}
	return rc;
}

static int read_list(const struct reading *r, struct scan *s, enum list list, struct err *e)
{
	struct scan ahead = *s;
	struct scan_text whole;
	int rc;

	if (scan_peek(s) != '{')
		return read_array(r, s, list, e);
	rc = scan_skip(&ahead, &whole, e);
	if (rc)
		return rc;
	return is_event(&whole) ? read_one(r, s, list, e) : read_by_name(r, s, list, e);
}

static int read_document(const struct reading *r, const void *data, size_t len, struct err *e)
{
	struct scan_text key;
	struct scan s;
	int rc;

	if (len > ENTRY_MAX_BYTES)
		return err_set(e, ERR_LIMIT, "%zu bytes, more than %llu", len,
			       (unsigned long long)ENTRY_MAX_BYTES);
	scan_init(&s, data, len);
	rc = scan_enter(&s, '{', e);
	while (!rc) {
		rc = scan_member(&s, &key, e);
		if (rc <= 0)
			break;
		rc = list_of(&key) && scan_peek(&s) != 'n' ? read_list(r, &s, list_of(&key), e)
							   : scan_skip(&s, NULL, e);
	}
	return rc ? rc : scan_end(&s, e);
}

/* ---- rows ---- */

/* What has its place elsewhere: times, names, and who it was; of a sample its value, but not its duration. */
static bool is_placed(const struct scan_text *key, bool is_sample)
{
	if (is(key, "timestamp") || is(key, "instance_id"))
		return true;
	if (is_sample)
		return is(key, "usage") || is(key, "util");
	return is(key, "duration") || is(key, "name") || is(key, "group") || is(key, "process_id");
}

/* Of one instance. */
struct adding {
	struct tables *tables;
	const char *instance;
};

/* "GROUP" for each group and thread; threads of one group are lines of one name. */
static int line_of(struct tables *t, const struct raw *raw, uint32_t process, struct track **out,
		   struct err *e)
{
	struct buf key = BUF_INIT;
	uint32_t text;
	int rc;

	buf_add(&key, raw->group.s, raw->group.len);
	buf_add_u8(&key, 0);
	buf_add(&key, raw->thread.s, raw->thread.len);
	rc = names_add(&t->texts, key.data, key.len, &text, e);
	buf_release(&key);
	if (!rc)
		rc = tables_track(t, process, TRACK_THREAD, text, out, e);
	if (!rc && (*out)->name == NO_TEXT)
		rc = tables_text(t, raw->group.len ? &raw->group : &raw->thread, &(*out)->name, e);
	return rc;
}

static int add_event(struct tables *t, const struct raw *raw, struct err *e)
{
	struct row row = { .kind = ROW_SPAN,
			   .at_ns = raw->at_ns,
			   .duration_ns = raw->duration_ns,
			   .args = tables_piece(t, &raw->object),
			   .category = NO_TEXT };
	struct track *track;
	uint32_t process;
	int rc = tables_process(t, &raw->process, &process, e);

	if (!rc)
		rc = line_of(t, raw, process, &track, e);
	if (!rc)
		rc = tables_text(t, &raw->name, &row.name, e);
	if (rc)
		return rc;
	row.track = track->index;
	return tables_add(t, &row, e);
}

static int add_sample(struct tables *t, enum list list, const struct raw *raw, struct err *e)
{
	struct row row = { .kind = ROW_SAMPLE,
			   .at_ns = raw->at_ns,
			   .value = json_stat_double(&raw->value),
			   .args = tables_piece(t, &raw->object),
			   .category = NO_TEXT };
	const struct scan_text system = { .s = "system", .len = 6 };
	struct buf name = BUF_INIT;
	struct track *track;
	uint32_t process, none;
	int rc = tables_process(t, &system, &process, e);

	buf_add_str(&name, list == LIST_MEMORY ? "mem_usage" : "cpu_util");
	if (list == LIST_CPU && raw->cpu.len) {
		buf_add_u8(&name, ' ');
		scan_unescape(&raw->cpu, &name);
	}
	if (!rc)
		rc = names_add(&t->texts, name.data, name.len, &row.name, e);
	if (!rc)
		rc = tables_text_of(t, "", &none, e);
	if (!rc)
		rc = tables_track(t, process, TRACK_COUNTERS, none, &track, e);
	buf_release(&name);
	if (rc)
		return rc;
	t->processes[process].name = t->processes[process].text;
	row.track = track->index;
	return tables_add(t, &row, e);
}

static int add(void *arg, enum list list, const struct raw *raw, struct err *e)
{
	const struct adding *a = arg;

	if (!text_equals(raw->instance.s ? raw->instance.s : "", raw->instance.len, a->instance))
		return 0;
	if (!raw->has_time || (list != LIST_EVENTS && !raw->value.len)) {
		a->tables->counts.left_out++;
		return 0;
	}
	return list == LIST_EVENTS ? add_event(a->tables, raw, e)
				   : add_sample(a->tables, list, raw, e);
}

int neuron_read(const void *data, size_t len, const char *instance, size_t max_memory,
		struct xs_builder *b, struct entry_counts *counts, struct err *e)
{
	struct tables t = {
		.file = data, .max_memory = max_memory, .skip = is_placed, .value_name = "value"
	};
	struct adding a = { &t, instance };
	const struct reading r = { add, &a };
	int rc = read_document(&r, data, len, e);

	if (!rc)
		rc = tables_build(&t, b, e);
	*counts = t.counts;
	tables_release(&t);
	return rc;
}

/* ---- instances ---- */

struct hosts {
	char **items;
	size_t n;
};

static int add_host(void *arg, enum list list, const struct raw *raw, struct err *e)
{
	struct hosts *h = arg;
	const char *s = raw->instance.len ? raw->instance.s : "";

	(void)list;
	for (size_t i = h->n; i > 0; i--) {
		if (text_equals(s, raw->instance.len, h->items[i - 1]))
			return 0;
	}
	if (h->n == ENTRY_HOSTS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d instances", ENTRY_HOSTS_MAX);
	h->items = xrealloc(h->items, (h->n + 1) * sizeof(*h->items));
	h->items[h->n++] = xstrndup(s, raw->instance.len);
	return 0;
}

int neuron_hosts(const void *data, size_t len, char ***hosts, size_t *n, struct err *e)
{
	struct hosts h = { 0 };
	const struct reading r = { add_host, &h };
	int rc = read_document(&r, data, len, e);

	if (rc)
		neuron_hosts_free(h.items, h.n);
	*hosts = rc ? NULL : h.items;
	*n = rc ? 0 : h.n;
	return rc;
}

void neuron_hosts_free(char **hosts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(hosts[i]);
	free(hosts);
}
