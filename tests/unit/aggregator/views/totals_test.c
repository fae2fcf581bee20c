/* SPDX-License-Identifier: Apache-2.0 */
/* What thousands of events add up to, against another computation of the same from what is true. */
#include "aggregator/views/queries.h"

#include <math.h>

#include "base/mem.h"
#include "json/json_text.h"
#include "tests/unit/aggregator/views/session.h"

static bool is_match(const struct truth *t, const struct true_event *ev, const char *name)
{
	return !line_of(t, ev)->is_counter && !strcmp(ev->name, name);
}

static int by_place(const void *a, const void *b)
{
	const struct true_event *x = *(const struct true_event *const *)a,
				*y = *(const struct true_event *const *)b;

	if (x->start_ps != y->start_ps)
		return x->start_ps < y->start_ps ? -1 : 1;
	return x->line < y->line ? -1
				 : x->line > y->line; /* lines are in order of file and track */
}

/* From match to match, there and back. */
static void test_steps(const struct view *view, const struct truth *truth)
{
	const struct true_event **want = xcalloc(truth->n, sizeof(*want));
	struct buf out = BUF_INIT;
	size_t n = 0;
	struct err e;

	for (size_t i = 0; i < truth->n; i++)
		if (is_match(truth, &truth->events[i], "f 7"))
			want[n++] = &truth->events[i];
	qsort(want, n, sizeof(*want), by_place);
	CHECK(n > 100);
	for (int backward = 0; backward < 2; backward++) {
		struct view_step s = { .search.text = "F 7",
				       .start_ps = backward ? INT64_C(1) << 60
							    : -(INT64_C(1) << 60),
				       .backward = backward };

		for (size_t i = 0; i <= n; i++) {
			const struct true_event *ev = i < n ? want[backward ? n - 1 - i : i] : NULL;
			json_t *doc;

			CHECK_OK(view_write_next(view, &s, &out, &e), e);
			doc = answer_json(&out);
			CHECK_EQ(json_get_bool(doc, "found"), i < n);
			if (ev) {
				CHECK_EQ(json_get_int(doc, "file"), line_of(truth, ev)->file);
				CHECK_EQ(json_get_int(doc, "track"), line_of(truth, ev)->track);
				CHECK_EQ(json_get_int(doc, "event"), ev->number);
				CHECK_EQ(get_ps(doc, "start_ps"), ev->start_ps);
				CHECK_EQ(get_ps(doc, "duration_ps"), ev->length_ps);
				s.start_ps = ev->start_ps;
				s.at = (struct view_place){ line_of(truth, ev)->file,
							    line_of(truth, ev)->track, ev->number };
			}
			json_decref(doc);
		}
	}
	buf_release(&out);
	free(want);
}

static void test_spread(const struct view *view, const struct truth *truth)
{
	static const struct {
		int64_t from_ps, to_ps;
		uint32_t bins;
	} cases[] = { { -10000000, 4000000000, 97 },
		      { 1000000, 1001000, 3 },
		      { 0, 800000000, 1 },
		      { 0, 800000000, 4096 } };
	struct buf out = BUF_INIT;
	struct err e;

	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		const struct view_spread s = {
			{ .text = "f 3" }, cases[c].from_ps, cases[c].to_ps, cases[c].bins
		};
		uint64_t *want = xcalloc(s.bins, sizeof(*want));
		json_t *doc, *bins;

		for (size_t i = 0; i < truth->n; i++) {
			const struct true_event *ev = &truth->events[i];

			if (is_match(truth, ev, "f 3") && ev->start_ps >= s.from_ps &&
			    ev->start_ps < s.to_ps)
				want[(ev->start_ps - s.from_ps) * s.bins / (s.to_ps - s.from_ps)]++;
		}
		CHECK_OK(view_write_spread(view, &s, &out, &e), e);
		doc = answer_json(&out);
		bins = json_object_get(doc, "bins");
		CHECK_EQ(json_array_size(bins), s.bins);
		for (uint32_t i = 0; i < s.bins; i++)
			CHECK_EQ(json_integer_value(json_array_get(bins, i)), want[i]);
		json_decref(doc);
		free(want);
	}
	CHECK_EQ(view_write_spread(view, &(struct view_spread){ { .text = "f" }, 5, 5, 1 }, &out,
				   &e),
		 ERR_INVALID);
	CHECK_EQ(view_write_spread(view, &(struct view_spread){ { .text = "f" }, 6, 5, 1 }, &out,
				   &e),
		 ERR_INVALID);
	CHECK_OK(view_write_spread(view, &(struct view_spread){ { .text = "f" }, 5, 6, 1 }, &out,
				   &e),
		 e);
	buf_release(&out);
}

/* What one name adds up to in a window; the innermost event around another one is its caller. */
struct name_sum {
	uint64_t count, total_ps, self_ps, min_ps, max_ps;
};

static const struct true_event *callers[TRUE_EVENTS];

static void find_callers(const struct truth *t)
{
	for (size_t k = 0; k < t->n; k++) {
		const struct true_event *of = &t->events[k];

		callers[k] = NULL;
		for (size_t i = 0; i < t->n; i++) {
			const struct true_event *ev = &t->events[i];

			if (ev->line == of->line && ev->start_ps < of->start_ps &&
			    ev->start_ps + ev->length_ps >= of->start_ps + of->length_ps &&
			    (!callers[k] || ev->start_ps > callers[k]->start_ps))
				callers[k] = ev;
		}
	}
}

static const struct true_event *caller_of(const struct truth *t, const struct true_event *of)
{
	return callers[of - t->events];
}

static struct name_sum sum_of(const struct truth *t, const char *name, int64_t from_ps,
			      int64_t to_ps)
{
	struct name_sum s = { .min_ps = UINT64_MAX };

	for (size_t i = 0; i < t->n; i++) {
		const struct true_event *ev = &t->events[i], *caller;

		if (line_of(t, ev)->is_counter || !true_overlap(ev, from_ps, to_ps))
			continue;
		caller = caller_of(t, ev);
		if (caller && !strcmp(caller->name, name))
			s.self_ps -= (uint64_t)ev->length_ps;
		if (strcmp(ev->name, name) != 0)
			continue;
		s.count++;
		s.total_ps += (uint64_t)ev->length_ps;
		s.self_ps += (uint64_t)ev->length_ps;
		s.min_ps = (uint64_t)ev->length_ps < s.min_ps ? (uint64_t)ev->length_ps : s.min_ps;
		s.max_ps = (uint64_t)ev->length_ps > s.max_ps ? (uint64_t)ev->length_ps : s.max_ps;
	}
	return s;
}

static void test_sums(const struct view *view, const struct truth *truth)
{
	const struct view_selection s = { 30000000, 900000000, "all", NULL };
	struct buf out = BUF_INIT;
	json_t *doc, *one;
	int64_t before = INT64_MAX;
	size_t i;
	struct err e;

	CHECK_OK(view_write_selection(view, &s, &out, &e), e);
	doc = answer_json(&out);
	CHECK_EQ(json_get_int(doc, "different"), 10);
	CHECK_EQ(json_array_size(json_object_get(doc, "names")), 10);
	json_array_foreach(json_object_get(doc, "names"), i, one)
	{
		struct name_sum want = sum_of(truth, json_get_text(one, "name"), s.from_ps,
					      s.to_ps);

		CHECK_EQ(json_get_int(one, "count"), want.count);
		CHECK_EQ(get_ps(one, "total_ps"), want.total_ps);
		CHECK_EQ(get_ps(one, "self_ps"), want.self_ps);
		CHECK_EQ(get_ps(one, "min_ps"), want.min_ps);
		CHECK_EQ(get_ps(one, "max_ps"), want.max_ps);
		CHECK(get_ps(one, "total_ps") <= before);
		before = get_ps(one, "total_ps");
	}
	json_decref(doc);
	buf_release(&out);
}

/* ---- a tree of calls against all events by their paths ---- */

static int64_t in_window(const struct true_event *ev, int64_t from_ps, int64_t to_ps)
{
	int64_t from = ev->start_ps > from_ps ? ev->start_ps : from_ps;
	int64_t end = ev->start_ps + ev->length_ps, to = end < to_ps ? end : to_ps;

	return to > from ? to - from : 0;
}

/* "f 1>f 3>f 1" */
static void path_of(const struct truth *t, const struct true_event *ev, char *out, size_t size)
{
	char above[400] = "";
	const struct true_event *caller = caller_of(t, ev);

	if (caller)
		path_of(t, caller, above, sizeof(above));
	snprintf(out, size, "%s%s%s", above, caller ? ">" : "", ev->name);
}

static void path_of_node(const json_t *nodes, const json_t *names, int64_t i, char *out,
			 size_t size)
{
	const json_t *node = json_array_get(nodes, (size_t)i);
	int64_t parent = json_integer_value(json_array_get(node, 0));
	char above[400] = "";

	if (parent >= 0)
		path_of_node(nodes, names, parent, above, sizeof(above));
	snprintf(out, size, "%s%s%s", above, parent >= 0 ? ">" : "",
		 json_string_value(json_array_get(
			 names, (size_t)json_integer_value(json_array_get(node, 1)))));
}

static void test_tree(const struct view *view, const struct truth *truth)
{
	const struct view_flame f = { { 30000000, 900000000, "all", NULL }, GROUP_NONE };
	char(*paths)[400] = xcalloc(truth->n, sizeof(*paths)), path[400];
	int64_t roots_ps = 0, from = f.of.from_ps, to = f.of.to_ps;
	struct buf out = BUF_INIT;
	json_t *doc, *nodes, *node;
	uint64_t n = 0, counted = 0;
	size_t i;
	struct err e;

	for (size_t k = 0; k < truth->n; k++) {
		const struct true_event *ev = &truth->events[k];

		if (line_of(truth, ev)->is_counter || !true_overlap(ev, from, to))
			continue;
		n++;
		path_of(truth, ev, paths[k], sizeof(paths[k]));
		if (!strchr(paths[k], '>'))
			roots_ps += in_window(ev, from, to);
	}
	CHECK_OK(view_write_flame(view, &f, &out, &e), e);
	doc = answer_json(&out);
	CHECK_EQ(json_get_int(doc, "events"), n);
	CHECK_EQ(json_get_int(doc, "total_ns"), roots_ps / 1000);
	nodes = json_object_get(doc, "nodes");
	json_array_foreach(nodes, i, node)
	{
		int64_t count = 0, total = 0, below = 0;
		size_t len;

		path_of_node(nodes, json_object_get(doc, "names"), (int64_t)i, path, sizeof(path));
		len = strlen(path);
		for (size_t k = 0; k < truth->n; k++) {
			const char *rest = paths[k] + len;

			if (strncmp(paths[k], path, len) != 0)
				continue;
			count += !*rest;
			total += *rest ? 0 : in_window(&truth->events[k], from, to);
			below += *rest == '>' && !strchr(rest + 1, '>')
					 ? in_window(&truth->events[k], from, to)
					 : 0;
		}
		CHECK_EQ(json_integer_value(json_array_get(node, 2)), total / 1000);
		CHECK_EQ(json_integer_value(json_array_get(node, 3)), (total - below) / 1000);
		CHECK_EQ(json_integer_value(json_array_get(node, 4)), count);
		CHECK(total >= roots_ps / 2000);
		counted += (uint64_t)count;
	}
	CHECK(counted <= n && json_get_int(doc, "left_out") > 0);
	json_array_foreach(json_object_get(doc, "top"), i, node)
	{
		struct name_sum want = { 0 };

		for (size_t k = 0; k < truth->n; k++) {
			const char *last = strrchr(paths[k], '>');
			char first[8];
			int64_t ps = in_window(&truth->events[k], from, to);

			if (!*paths[k] ||
			    strcmp(last ? last + 1 : paths[k], json_get_text(node, "name")))
				continue;
			want.count++;
			want.self_ps += (uint64_t)ps;
			for (size_t c = 0; c < truth->n; c++)
				if (*paths[c] &&
				    caller_of(truth, &truth->events[c]) == &truth->events[k])
					want.self_ps -= (uint64_t)in_window(&truth->events[c], from,
									    to);
			snprintf(first, sizeof(first), "%s>", json_get_text(node, "name"));
			want.total_ps += strstr(paths[k], first)
						 ? 0
						 : (uint64_t)ps; /* in one of its own name */
		}
		CHECK_EQ(json_get_int(node, "count"), want.count);
		CHECK_EQ(json_get_int(node, "self_ns"), want.self_ps / 1000);
		CHECK_EQ(json_get_int(node, "total_ns"), want.total_ps / 1000);
	}
	json_decref(doc);
	buf_release(&out);
	free(paths);
}

/* ---- durations ---- */

static int by_length(const void *a, const void *b)
{
	const struct true_event *x = *(const struct true_event *const *)a,
				*y = *(const struct true_event *const *)b;

	return x->length_ps < y->length_ps ? -1 : x->length_ps > y->length_ps;
}

static void check_host(const json_t *doc, const struct truth *truth, const struct view_durations *d,
		       const char *name)
{
	uint64_t count = 0, total = 0, max = 0;
	const struct true_event *first = NULL;
	const json_t *starts = json_object_get(doc, "starts_ps");

	for (size_t i = 0; i < truth->n; i++) {
		const struct true_event *ev = &truth->events[i];

		if (!is_match(truth, ev, name) || ev->start_ps < d->from_ps ||
		    ev->start_ps >= d->to_ps ||
		    strcmp(host_of(truth, ev), json_get_text(doc, "host")) != 0)
			continue;
		count++;
		total += (uint64_t)ev->length_ps;
		max = (uint64_t)ev->length_ps > max ? (uint64_t)ev->length_ps : max;
		if (!first || ev->start_ps < first->start_ps)
			first = ev;
	}
	CHECK(first);
	CHECK_EQ(json_get_int(doc, "count"), count);
	CHECK_EQ(get_ps(doc, "total_ps"), total);
	CHECK_EQ(get_ps(doc, "max_ps"), max);
	CHECK_EQ(get_ps(json_object_get(doc, "first"), "start_ps"), first->start_ps);
	CHECK_EQ(json_get_int(json_object_get(doc, "first"), "event"), first->number);
	CHECK_EQ(json_array_size(starts), count < 256 ? count : 256);
	for (size_t k = 0; k < json_array_size(starts); k++) { /* the earliest ones, in order */
		int64_t start = json_integer_value(json_array_get(starts, k));
		size_t earlier = 0;

		for (size_t i = 0; i < truth->n; i++) {
			const struct true_event *ev = &truth->events[i];

			earlier += is_match(truth, ev, name) && ev->start_ps >= d->from_ps &&
				   ev->start_ps < start &&
				   !strcmp(host_of(truth, ev), json_get_text(doc, "host"));
		}
		CHECK_EQ(earlier, k);
	}
}

static void check_durations(const struct view *view, const struct truth *truth,
			    const struct view_durations *d, const char *name)
{
	static const struct {
		const char *key;
		double share;
	} quantiles[] = { { "p50_ps", 0.5 }, { "p90_ps", 0.9 }, { "p99_ps", 0.99 } };
	const struct true_event **want = xcalloc(truth->n, sizeof(*want));
	struct buf out = BUF_INIT;
	uint64_t total = 0, binned = 0;
	json_t *doc, *one;
	size_t n = 0, i;
	struct err e;

	for (i = 0; i < truth->n; i++) {
		const struct true_event *ev = &truth->events[i];

		if (!is_match(truth, ev, name) || ev->start_ps < d->from_ps ||
		    ev->start_ps >= d->to_ps)
			continue;
		want[n++] = ev;
		total += (uint64_t)ev->length_ps;
	}
	qsort(want, n, sizeof(*want), by_length);
	CHECK_OK(view_write_durations(view, d, &out, &e), e);
	doc = answer_json(&out);
	CHECK_STR(json_get_text(doc, "name"), name);
	CHECK_EQ(json_get_int(doc, "count"), n);
	CHECK_EQ(get_ps(doc, "total_ps"), total);
	CHECK_EQ(get_ps(doc, "min_ps"), want[0]->length_ps);
	CHECK_EQ(get_ps(doc, "max_ps"), want[n - 1]->length_ps);
	for (i = 0; i < ARRAY_SIZE(quantiles); i++) {
		double exact = (double)want[(size_t)(quantiles[i].share * (double)n)]->length_ps;

		CHECK(fabs((double)get_ps(doc, quantiles[i].key) - exact) <= 0.01 * exact);
	}
	CHECK_EQ(json_array_size(json_object_get(doc, "longest")), n < 8 ? n : 8);
	json_array_foreach(json_object_get(doc, "longest"), i, one)
		CHECK_EQ(get_ps(one, "duration_ps"), want[n - 1 - i]->length_ps);
	json_array_foreach(json_object_get(doc, "bins"), i, one)
	{
		int64_t low = json_integer_value(json_array_get(one, 0)),
			high = json_integer_value(json_array_get(one, 1));
		int64_t in = 0;

		for (size_t k = 0; k < n; k++)
			in += want[k]->length_ps >= low && want[k]->length_ps < high;
		CHECK_EQ(json_integer_value(json_array_get(one, 2)), in);
		CHECK(in > 0);
		binned += (uint64_t)in;
	}
	CHECK_EQ(binned, n);
	CHECK_EQ(json_array_size(json_object_get(doc, "hosts")), 2);
	json_array_foreach(json_object_get(doc, "hosts"), i, one) check_host(one, truth, d, name);
	json_decref(doc);
	buf_release(&out);
	free(want);
}

static void test_durations(const struct view *view, const struct truth *truth)
{
	struct view_durations d = { .from_ps = -(INT64_C(1) << 60), .to_ps = INT64_C(1) << 60 };
	const struct true_event *of = &truth->events[truth->n - 1];
	struct buf out = BUF_INIT;
	struct err e;

	d.of = (struct view_place){ line_of(truth, of)->file, line_of(truth, of)->track,
				    of->number };
	check_durations(view, truth, &d, of->name);
	/* an event that reaches into the window has begun before it */
	d.to_ps = 0;
	for (size_t i = 0; i < truth->n && !d.to_ps; i++)
		if (is_match(truth, &truth->events[i], of->name) &&
		    truth->events[i].start_ps > 30000000)
			d.to_ps = truth->events[i].start_ps + 900000000;
	d.from_ps = d.to_ps - 900000000 + 1;
	CHECK(d.from_ps > 30000000);
	check_durations(view, truth, &d, of->name);
	d.from_ps = 30000000;
	d.to_ps = 400000000;
	check_durations(view, truth, &d, of->name);
	d.of.event = LARGE_CALLS;
	CHECK_EQ(view_write_durations(view, &d, &out, &e), ERR_NOT_FOUND);
	d.of.track = 9;
	CHECK_EQ(view_write_durations(view, &d, &out, &e), ERR_NOT_FOUND);
	CHECK_EQ(out.len, 0);
	buf_release(&out);
}

/* ---- a window as a file for another viewer ---- */

static void test_trace(const struct view *view, const struct truth *truth)
{
	struct view_trace t = { .from_ps = 30000000, .to_ps = 60000000, .is_json = true };
	struct buf out = BUF_INIT;
	size_t want = 0, got = 0, before, i;
	json_t *doc, *ev;
	struct err e;

	for (i = 0; i < truth->n; i++)
		want += !line_of(truth, &truth->events[i])->is_counter &&
			true_overlap(&truth->events[i], t.from_ps, t.to_ps);
	CHECK_OK(view_write_trace(view, &t, &out, &e), e);
	doc = answer_json(&out);
	json_array_foreach(json_object_get(doc, "traceEvents"), i, ev)
		got += !strcmp(json_get_text(ev, "ph"), "X");
	CHECK_EQ(got, want);
	CHECK(want > 50);
	json_decref(doc);
	buf_add_str(&out, "before"); /* an answer is appended */
	before = out.len;
	t.is_json = false;
	CHECK_OK(view_write_trace(view, &t, &out, &e), e);
	CHECK(out.len > before + 1000 && !memcmp(out.data, "before", before));
	CHECK_EQ(out.data[before], 0x0a); /* a packet of Perfetto's */
	buf_release(&out);
}

/* ---- whose reader is gone ---- */

static void test_stopped(const struct view *view)
{
	const atomic_bool gone = true, there = false;
	const struct view_search search = { .text = "f", .stop = &gone };
	const struct view_selection of = { -(INT64_C(1) << 60), INT64_C(1) << 60, "all", &gone };
	struct buf out = BUF_INIT;
	struct err e;

	CHECK_EQ(view_write_search(view, &search, &out, &e), ERR_CANCELLED);
	CHECK_EQ(view_write_next(view, &(struct view_step){ .search = search }, &out, &e),
		 ERR_CANCELLED);
	CHECK_EQ(view_write_spread(view, &(struct view_spread){ search, of.from_ps, of.to_ps, 1 },
				   &out, &e),
		 ERR_CANCELLED);
	CHECK_EQ(view_write_selection(view, &of, &out, &e), ERR_CANCELLED);
	CHECK_EQ(view_write_links(view, &(struct view_links){ of, 9 }, &out, &e), ERR_CANCELLED);
	CHECK_EQ(view_write_flame(view, &(struct view_flame){ of, GROUP_NONE }, &out, &e),
		 ERR_CANCELLED);
	CHECK_EQ(view_write_durations(
			 view, &(struct view_durations){ { 0, 0, 0 }, of.from_ps, of.to_ps, &gone },
			 &out, &e),
		 ERR_CANCELLED);
	CHECK_EQ(view_write_trace(view, &(struct view_trace){ of.from_ps, of.to_ps, true, &gone },
				  &out, &e),
		 ERR_CANCELLED);
	CHECK_STR(e.msg, "the client is gone");
	CHECK_OK(view_write_search(view, &(struct view_search){ .text = "f", .stop = &there }, &out,
				   &e),
		 e);
	CHECK_OK(view_check_stop(NULL, &e), e);
	buf_release(&out);
}

/* ---- matches that are near each other, and together ---- */

#define DENSE 3000 /* events of 1 ps, one after the other; each seventh is a match */

static void check_before(const struct view *view, int64_t start_ps, struct view_place at,
			 int64_t want_ps, uint32_t want_track)
{
	const struct view_step s = {
		.search.text = "match", .start_ps = start_ps, .at = at, .backward = true
	};
	struct buf out = BUF_INIT;
	json_t *doc;
	struct err e;

	CHECK_OK(view_write_next(view, &s, &out, &e), e);
	doc = answer_json(&out);
	CHECK(json_get_bool(doc, "found"));
	CHECK_EQ(get_ps(doc, "start_ps"), want_ps);
	CHECK_EQ(json_get_int(doc, "track"), want_track);
	json_decref(doc);
	buf_release(&out);
}

static void test_dense(struct stage *s, struct truth *truth)
{
	static const char session[] = "2026_11_29_01_00_00_dense0";
	struct view *view;

	*truth = (struct truth){ 0 };
	truth_file(truth, "host-a", "host-a.xplane.pb");
	for (int line = 0; line < 2; line++) {
		truth_line(truth, "/host:CPU", line ? "two" : "one");
		for (int i = 0; i < DENSE; i++)
			truth_event(truth, i, 1, i % 7 ? "other" : "match");
	}
	stage_store(s, truth, session, NULL);
	view = stage_open(s, session);
	check_before(view, INT64_C(1) << 60, (struct view_place){ 0 }, (DENSE - 1) / 7 * 7, 1);
	for (int64_t at = 1000; at < 1100; at++) {
		int64_t before = (at - 1) / 7 * 7;

		check_before(view, at, (struct view_place){ 0 }, before, 1);
		check_before(view, before, (struct view_place){ 0, 1, (uint64_t)before }, before,
			     0);
	}
	view_release(view);
}

int main(void)
{
	struct truth *truth = xcalloc(1, sizeof(*truth));
	struct view *view;
	struct stage s;

	stage_start(&s, 0);
	truth_large(truth);
	stage_store(&s, truth, "2026_11_29_01_00_00_large0", NULL);
	view = stage_open(&s, "2026_11_29_01_00_00_large0");
	find_callers(truth);
	test_steps(view, truth);
	test_spread(view, truth);
	test_sums(view, truth);
	test_tree(view, truth);
	test_durations(view, truth);
	test_trace(view, truth);
	test_stopped(view);
	view_release(view);
	test_dense(&s, truth);
	stage_stop(&s);
	free(truth);
	return 0;
}
