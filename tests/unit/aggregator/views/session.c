/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/aggregator/views/session.h"

#include "aggregator/sessions/sessions.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "tests/lib/temp_dir.h"
#include "xspace/xspace.h"

#define T0_NS INT64_C(1790000000000000000)

uint64_t draw(uint64_t below)
{
	static uint64_t rng = 0x9e3779b97f4a7c15;

	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (rng >> 16) % below;
}

/* ---- what is true ---- */

void truth_file(struct truth *t, const char *host, const char *name)
{
	CHECK(t->n_files < TRUE_FILES);
	t->hosts[t->n_files] = host;
	t->files[t->n_files++] = name;
}

static void add_line(struct truth *t, const char *plane, const char *name, bool is_counter)
{
	struct true_line *l = &t->lines[t->n_lines];
	bool is_first = !t->n_lines || l[-1].file != t->n_files - 1;

	CHECK(t->n_lines < TRUE_LINES);
	*l = (struct true_line){ .file = t->n_files - 1,
				 .track = is_first ? 0 : l[-1].track + 1,
				 .plane = plane,
				 .name = name,
				 .is_counter = is_counter };
	t->n_lines++;
}

void truth_line(struct truth *t, const char *plane, const char *name)
{
	add_line(t, plane, name, false);
}

void truth_counter(struct truth *t, const char *name)
{
	add_line(t, "/host:CPU metrics", name, true);
}

struct true_event *truth_event(struct truth *t, int64_t start_ps, int64_t length_ps,
			       const char *name)
{
	struct true_event *ev = &t->events[t->n];

	CHECK(t->n < TRUE_EVENTS && t->n_lines);
	*ev = (struct true_event){
		.line = t->n_lines - 1, .start_ps = start_ps, .length_ps = length_ps, .name = name
	};
	t->n++;
	return ev;
}

void truth_sample(struct truth *t, int64_t at_ps, double value)
{
	truth_event(t, at_ps, 0, t->lines[t->n_lines - 1].name)->value = value;
}

const struct true_line *line_of(const struct truth *t, const struct true_event *ev)
{
	return &t->lines[ev->line];
}

const char *host_of(const struct truth *t, const struct true_event *ev)
{
	return t->hosts[line_of(t, ev)->file];
}

bool true_overlap(const struct true_event *ev, int64_t from_ps, int64_t to_ps)
{
	return ev->start_ps < to_ps &&
	       (ev->length_ps ? ev->start_ps + ev->length_ps > from_ps : ev->start_ps >= from_ps);
}

static int64_t add_call(struct truth *t, size_t *left, int64_t at, int depth)
{
	static const char *const names[] = { "f 0", "f 1", "f 2", "f 3", "f 4",
					     "f 5", "f 6", "f 7", "f 8", "f 9" };
	struct true_event *ev = truth_event(t, at, 0, names[draw(ARRAY_SIZE(names))]);

	--*left;
	at += 1000 * (1 + (int64_t)draw(2000));
	for (uint64_t i = depth ? draw(4) : 0; i && *left; i--)
		at = add_call(t, left, at + 1000 * (int64_t)draw(300), depth - 1);
	at += draw(4) ? 1000 * (int64_t)draw(2000) : 0; /* now and then both end together */
	ev->length_ps = at - ev->start_ps;
	return at;
}

void truth_calls(struct truth *t, size_t n, int64_t from_ps)
{
	while (n)
		from_ps = add_call(t, &n, from_ps + 1000 * (int64_t)draw(9000), 5);
}

/* The number of an event is how many of its line come before it: by start, the longer one first. */
static void number_events(struct truth *t)
{
	for (size_t i = 0; i < t->n; i++)
		t->events[i].number = 0;
	for (size_t i = 0; i < t->n; i++) {
		for (size_t k = 0; k < i; k++) {
			struct true_event *a = &t->events[k], *b = &t->events[i];

			if (a->line != b->line)
				continue;
			if (a->start_ps < b->start_ps ||
			    (a->start_ps == b->start_ps && a->length_ps > b->length_ps))
				b->number++;
			else
				a->number++;
		}
	}
}

void truth_small(struct truth *t)
{
	*t = (struct truth){ 0 };
	truth_file(t, "host-a", "host-a.xplane.pb");
	truth_line(t, "/host:CPU", "main");
	truth_event(t, 0, 1000, "step")->flow = 5;
	truth_event(t, 100, 200, "load");
	truth_event(t, 300, 600, "matmul");
	truth_event(t, 400, 100, "copy")->flow = 6;
	truth_event(t, 2000, 1000, "step");
	truth_event(t, 2100, 100, "Load more")->flow = 7;
	truth_event(t, 3000, 0, "mark");
	truth_counter(t, "loss");
	truth_sample(t, 0, 1.5);
	truth_sample(t, 300, -2.5);
	truth_sample(t, 900, 7);
	truth_sample(t, 1000, 4);
	truth_sample(t, 1100, 3);
	truth_file(t, "host-a", "host-a~2.xplane.pb");
	truth_line(t, "/device:GPU:0", "stream");
	truth_event(t, 450, 700, "kernel")->flow = 6;
	truth_event(t, 1500, 10, "copy");
	truth_file(t, "host-b", "host-b.xplane.pb");
	truth_line(t, "/host:CPU", "main");
	truth_event(t, 50, 1000, "step")->flow = 5;
	truth_event(t, 700, 300, "matmul")->flow = 6;
	truth_event(t, 2050, 500, "step")->flow = 7;
	for (size_t i = 0; i < t->n; i++)
		t->events[i].direction = t->events[i].start_ps == 400 || !t->events[i].start_ps ? 2
												: 1;
}

void truth_large(struct truth *t)
{
	static const char *const hosts[] = { "host-a", "host-a", "host-b" };
	static const char *const files[] = { "host-a.xplane.pb", "host-a~2.xplane.pb",
					     "host-b.xplane.pb" };

	*t = (struct truth){ 0 };
	for (int i = 0; i < 3; i++) {
		truth_file(t, hosts[i], files[i]);
		truth_line(t, "/host:CPU", "one");
		truth_calls(t, LARGE_CALLS, -5000000 + i);
		truth_counter(t, "load");
		for (int k = 0; k < LARGE_SAMPLES; k++)
			truth_sample(t, 997000 * k + (int64_t)draw(900000),
				     (double)draw(1000) - 500);
		t->events[t->n - LARGE_SAMPLES - 1].flow = 9;
		truth_line(t, "/host:threads", "two");
		truth_calls(t, LARGE_CALLS, 10000 * i);
	}
}

/* ---- what is stored ---- */

static void write_event(struct xs_builder *b, const struct true_line *l,
			const struct true_event *ev)
{
	xs_event(b, ev->name, ev->start_ps, ev->length_ps);
	if (l->is_counter)
		xs_stat_double(b, "value", ev->value);
	if (ev->flow)
		xs_stat_uint(b, "flow", ev->flow << 2 | ev->direction);
}

void truth_write_file(const struct truth *t, uint32_t file, struct buf *out)
{
	struct xs_builder *b = xs_builder_new();
	const char *plane = "";

	for (uint32_t i = 0; i < t->n_lines; i++) {
		const struct true_line *l = &t->lines[i];

		if (l->file != file)
			continue;
		if (strcmp(l->plane, plane))
			xs_plane(b, i, l->plane);
		plane = l->plane;
		xs_line(b, i, l->is_counter ? "_counters_" : l->name, 0);
		for (size_t k = 0; k < t->n; k++)
			if (t->events[k].line == i)
				write_event(b, l, &t->events[k]);
	}
	xs_finish(b, out);
	xs_builder_free(b);
}

struct putting {
	struct stage *s;
	const struct truth *t;
	const char *session;
	const struct buf *bytes;
};

static int put_files(void *arg, struct err *e)
{
	const struct putting *p = arg;
	int rc = 0;

	for (uint32_t i = 0; i < p->t->n_files && !rc; i++) {
		char folder[SESSION_KEY_BYTES], key[SESSION_KEY_BYTES + 64];
		struct buf made = BUF_INIT;

		session_directory(p->session, "", folder);
		snprintf(key, sizeof(key), "%s%s", folder, p->t->files[i]);
		truth_write_file(p->t, i, &made);
		if (p->bytes) {
			buf_reset(&made);
			buf_add(&made, p->bytes->data, p->bytes->len);
		}
		rc = store_put_bytes(p->s->sessions.store, key, made.data, made.len, 0, any_time(),
				     e);
		buf_release(&made);
	}
	return rc;
}

/* A host with its files; `*i` is the next host's first file then. */
static json_t *host_json(const struct truth *t, uint32_t *i)
{
	const char *host = t->hosts[*i];
	json_t *files = json_array();

	for (; *i < t->n_files && !strcmp(t->hosts[*i], host); ++*i)
		json_array_append_new(files, json_string(t->files[*i]));
	return json_pack("{s:s, s:s, s:s, s:s, s:o, s:I, s:I, s:[{s:s, s:I}, {s:s, s:I}]}", "host",
			 host, "state", "complete", "reason", "", "detail", "", "files", files,
			 "bytes", (json_int_t)1, "clock_bound_ns", (json_int_t)1200, "tracers",
			 "name", "cpu", "lost", (json_int_t)3, "name", "marks", "lost",
			 (json_int_t)4);
}

static json_t *manifest_json(const struct truth *t, const char *session)
{
	json_t *hosts = json_array();

	for (uint32_t i = 0; i < t->n_files;)
		json_array_append_new(hosts, host_json(t, &i));
	json_array_append_new(hosts, json_pack("{s:s, s:s, s:s, s:s, s:[], s:[]}", "host", "host-z",
					       "state", "failed", "reason", "lost", "detail",
					       "gone", "files", "tracers"));
	return json_pack("{s:i, s:i, s:s, s:s, s:s, s:I, s:I, s:[s], s:o}", "version", 1,
			 "revision", 1, "session", session, "run", "", "state", "committed",
			 "t0_ns", (json_int_t)T0_NS, "duration_ns", (json_int_t)2000000000,
			 "warnings", "beware", "hosts", hosts);
}

void stage_store(struct stage *s, struct truth *t, const char *session, const struct buf *bytes)
{
	struct putting p = { s, t, session, bytes };
	struct session_whole whole = { .nonce = "test", .put_files = put_files, .arg = &p };
	bool begun = false;
	struct err e;

	number_events(t);
	whole.manifest = manifest_json(t, session);
	CHECK_OK(session_put_whole(s->sessions.store, &whole, &begun, &e), e);
	buf_reset(&s->manifest);
	json_append(&s->manifest, whole.manifest, 0);
	json_decref(whole.manifest);
}

/* ---- the room ---- */

void stage_start(struct stage *s, uint64_t kept_bytes)
{
	const struct views_env env = { .jobs = &s->jobs,
				       .store = &s->sessions,
				       .folder = s->folder,
				       .kept_bytes = kept_bytes ? kept_bytes : UINT64_MAX };
	struct err e;

	*s = (struct stage){ .manifest = BUF_INIT };
	CHECK_OK(loop_new(&s->jobs.loop, 2, &e), e);
	s->sessions.store = store_open_faulty();
	s->sessions.jobs = &s->jobs;
	s->sessions.ready = true;
	snprintf(s->folder, sizeof(s->folder), "%s/views", temp_dir());
	s->views = views_new(&env);
}

void stage_stop(struct stage *s)
{
	views_stop(s->views);
	jobs_drain(&s->jobs);
	views_free(s->views);
	loop_free(s->jobs.loop);
	store_free(s->sessions.store);
	buf_release(&s->manifest);
}

struct view *stage_ask(struct stage *s, const char *session, const char *known_build,
		       struct view_progress *p)
{
	struct view *view;

	*p = (struct view_progress){ 0 };
	views_open(s->views, session, buf_str(&s->manifest), s->manifest.len, known_build, &view,
		   p);
	return view;
}

struct view *stage_open(struct stage *s, const char *session)
{
	struct view_progress p;
	struct view *view;

	RUN_UNTIL(s->jobs.loop, (view = stage_ask(s, session, NULL, &p),
				 p.state == VIEW_READY || (view_release(view), false)));
	CHECK(view && view_is_complete(view));
	return view;
}

/* ---- answers ---- */

json_t *answer_json(struct buf *answer)
{
	json_t *doc = NULL;
	struct err e;

	CHECK_OK(json_parse(&doc, answer->data, answer->len, &e), e);
	buf_reset(answer);
	return doc;
}

void check_answer(struct buf *answer, const char *document)
{
	char *text = xstrdup(document);
	json_t *want = NULL, *got;
	struct err e;

	for (char *p = text; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	CHECK_OK(json_parse(&want, text, strlen(text), &e), e);
	free(text);
	text = xstrdup(buf_str(answer));
	got = answer_json(answer);
	if (!json_equal(got, want)) {
		fprintf(stderr, "the answer is   %s\nand should be   %s\n", text, document);
		exit(1);
	}
	free(text);
	json_decref(got);
	json_decref(want);
}

int64_t get_ps(const json_t *o, const char *key)
{
	const char *text = json_get_text(o, key);

	CHECK(*text);
	return strtoll(text, NULL, 10);
}
