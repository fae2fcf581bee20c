/* SPDX-License-Identifier: Apache-2.0 */
/* Answers about a session that is small enough to read with one's own eyes, word by word. */
#include "aggregator/views/queries.h"

#include "base/mem.h"
#include "json/json_text.h"
#include "tests/unit/aggregator/views/session.h"

#define SESSION "2026_11_29_01_00_00_abc123"

static void test_catalogue(const struct view *view)
{
	json_t *doc, *hosts, *files;
	struct buf text = BUF_INIT;
	struct err e;

	buf_add(&text, view_catalogue(view)->data, view_catalogue(view)->len);
	doc = answer_json(&text);
	CHECK_STR(json_get_text(doc, "session"), SESSION);
	CHECK_STR(json_get_text(doc, "state"), "ready");
	CHECK_STR(json_get_text(doc, "build"), view_build(view));
	CHECK_EQ(json_get_int(doc, "t0_ns"), 1790000000000000000);
	CHECK_EQ(json_get_int(doc, "duration_ns"), 2000000000);
	CHECK(json_get_int(doc, "bytes") > 300 &&
	      json_get_int(doc, "done_bytes") == json_get_int(doc, "bytes"));
	CHECK_STR(json_string_value(json_array_get(json_object_get(doc, "warnings"), 0)), "beware");
	hosts = json_object_get(doc, "hosts");
	CHECK_EQ(json_array_size(hosts), 3);
	CHECK_EQ(json_get_int(json_array_get(hosts, 0), "lost"), 7);
	CHECK_EQ(json_get_int(json_array_get(hosts, 1), "clock_bound_ns"), 1200);
	CHECK_STR(json_get_text(json_array_get(hosts, 1), "host"), "host-b");
	files = json_object_get(json_array_get(hosts, 0), "files");
	CHECK_EQ(json_array_size(files), 2);
	CHECK_STR(json_get_text(json_array_get(files, 1), "name"), "host-a~2.xplane.pb");
	CHECK_EQ(json_get_int(json_array_get(json_object_get(json_array_get(hosts, 1), "files"), 0),
			      "file"),
		 2);
	json_append(&text, json_object_get(json_array_get(files, 0), "planes"), 0);
	check_answer(&text, "[{'name': '/host:CPU', 'first_track': 0, 'tracks': [{'name': 'main', "
			    "'events': 7, 'rows': 3, "
			    "'first_ps': '0', 'last_ps': '3000'}]},"
			    "{'name': '/host:CPU metrics', 'first_track': 1, 'tracks': [{'name': "
			    "'loss', 'events': 5, "
			    "'rows': 1, 'first_ps': '0', 'last_ps': '1100', 'counter': true, "
			    "'min': -2.5, 'max': 7.0}]}]");
	json_append(&text, json_array_get(hosts, 2), 0);
	check_answer(&text, "{'host': 'host-z', 'state': 'failed', 'reason': 'lost', 'detail': "
			    "'gone', 'lost': 0, "
			    "'files': []}");
	json_decref(doc);
	CHECK(view_is_complete(view));
	CHECK_EQ(view_write_event(view, &(struct view_place){ 3, 0, 0 }, &text, &e), ERR_NOT_FOUND);
	buf_release(&text);
}

static void test_event(const struct view *view)
{
	struct buf out = BUF_INIT;
	struct err e;

	CHECK_OK(view_write_event(view, &(struct view_place){ 0, 0, 3 }, &out, &e), e);
	check_answer(
		&out,
		"{'row': 2, 'start_ps': '400', 'duration_ps': '100', "
		"'of_name': {'count': 1, 'total_ps': '100', 'min_ps': '100', 'max_ps': '100'}, "
		"'name': 'copy', 'display_name': '', 'args': [['flow', '26']], 'flow': ["
		"{'file': 0, 'track': 0, 'event': 3, 'direction': 2, 'start_ps': '400'}, "
		"{'file': 1, 'track': 0, 'event': 0, 'direction': 1, 'start_ps': '450'}, "
		"{'file': 2, 'track': 0, 'event': 1, 'direction': 1, 'start_ps': '700'}], "
		"'parents': [{'event': 0, 'name': 'step'}, {'event': 2, 'name': 'matmul'}]}");
	CHECK_OK(view_write_event(view, &(struct view_place){ 0, 0, 4 }, &out, &e), e);
	check_answer(
		&out,
		"{'row': 0, 'start_ps': '2000', 'duration_ps': '1000', "
		"'of_name': {'count': 2, 'total_ps': '2000', 'min_ps': '1000', 'max_ps': '1000'}, "
		"'name': 'step', 'display_name': '', 'args': [], 'flow': [], 'parents': []}");
	CHECK_OK(view_write_event(view, &(struct view_place){ 0, 1, 1 }, &out, &e), e);
	check_answer(&out,
		     "{'row': 0, 'start_ps': '300', 'duration_ps': '0', "
		     "'of_name': {'count': 5, 'total_ps': '0', 'min_ps': '0', 'max_ps': '0'}, "
		     "'name': 'loss', 'display_name': '', 'args': [['value', '-2.5']], 'flow': [], "
		     "'parents': []}");
	CHECK_EQ(view_write_event(view, &(struct view_place){ 0, 0, 7 }, &out, &e), ERR_NOT_FOUND);
	CHECK_EQ(view_write_event(view, &(struct view_place){ 0, 2, 0 }, &out, &e), ERR_NOT_FOUND);
	CHECK_EQ(out.len, 0);
	buf_release(&out);
}

static void check_search(const struct view *view, struct view_search s, const char *document)
{
	struct buf out = BUF_INIT;
	struct err e;

	CHECK_OK(view_write_search(view, &s, &out, &e), e);
	check_answer(&out, document);
	buf_release(&out);
}

/* What a counter is called is no event's name. */
static void test_search(const struct view *view)
{
	check_search(view, (struct view_search){ .text = "LOAD" },
		     "{'events': 12, 'matches': 2, 'total_ps': '300', 'different': 2, 'names': ["
		     "{'name': 'load', 'count': 1, 'total_ps': '200', 'max_ps': '200'}, "
		     "{'name': 'Load more', 'count': 1, 'total_ps': '100', 'max_ps': '100'}], "
		     "'tracks': [[0, 0, 2]], 'more_tracks': false}");
	check_search(view, (struct view_search){ .text = "step" },
		     "{'events': 12, 'matches': 4, 'total_ps': '3500', 'different': 1, 'names': ["
		     "{'name': 'step', 'count': 4, 'total_ps': '3500', 'max_ps': '1000'}], "
		     "'tracks': [[0, 0, 2], [2, 0, 2]], 'more_tracks': false}");
	check_search(view, (struct view_search){ .text = "load", .exact_case = true },
		     "{'events': 12, 'matches': 1, 'total_ps': '200', 'different': 1, 'names': ["
		     "{'name': 'load', 'count': 1, 'total_ps': '200', 'max_ps': '200'}], "
		     "'tracks': [[0, 0, 1]], 'more_tracks': false}");
	check_search(view, (struct view_search){ .text = "^(copy|MA.*[ln])$", .is_pattern = true },
		     "{'events': 12, 'matches': 4, 'total_ps': '1010', 'different': 2, 'names': ["
		     "{'name': 'matmul', 'count': 2, 'total_ps': '900', 'max_ps': '600'}, "
		     "{'name': 'copy', 'count': 2, 'total_ps': '110', 'max_ps': '100'}], "
		     "'tracks': [[0, 0, 2], [1, 0, 1], [2, 0, 1]], 'more_tracks': false}");
	check_search(view,
		     (struct view_search){ .text = "MA.*", .is_pattern = true, .exact_case = true },
		     "{'events': 12, 'matches': 0, 'total_ps': '0', 'different': 0, 'names': [], "
		     "'tracks': [], "
		     "'more_tracks': false}");
	check_search(view, (struct view_search){ .text = "loss" },
		     "{'events': 12, 'matches': 0, 'total_ps': '0', 'different': 0, 'names': [], "
		     "'tracks': [], "
		     "'more_tracks': false}");
	check_search(view, (struct view_search){ .text = "step." },
		     "{'events': 12, 'matches': 0, 'total_ps': '0', 'different': 0, 'names': [], "
		     "'tracks': [], "
		     "'more_tracks': false}");
}

/* A text of n bytes. */
static const char *long_text(size_t n)
{
	static char text[VIEW_PATTERN_MAX + 2];

	memset(text, 'a', n);
	text[n] = '\0';
	return text;
}

/* Patterns come from outside: what could take memory or time without a bound is refused before it is compiled. */
static void test_patterns(const struct view *view)
{
	static const struct {
		const char *text, *error; /* NULL = it is taken */
	} rows[] = {
		{ "a{1000}", "repeats too often" },
		{ "a{999}", NULL },
		{ "a{3,1000}", "repeats too often" },
		{ "(a{31}){31}", "repeats too often" },
		{ "(a{30}){30}", NULL },
		{ "(a{9}){9}(b{9})", NULL },
		{ "(((a{9}){9}){9}){9}", "repeats too often" },
		{ "(a)\\1", "has a back reference" },
		{ "(a)\\9", "has a back reference" },
		{ "a\\{9999\\}", NULL },
		{ "a\\0", NULL },
		{ "((((((((((((((((((((((((((((((((a))))))))))))))))))))))))))))))))",
		  NULL }, /* 32 */
		{ "(((((((((((((((((((((((((((((((((a)))))))))))))))))))))))))))))))))",
		  "has too many nested groups" },
		{ "(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)("
		  "a)(a)(a)(a)(a)(a)(a)",
		  NULL },
		{ "(", "is malformed" },
		{ "[a", "is malformed" },
		{ "a{1", "is malformed" },
	};
	struct buf out = BUF_INIT;
	struct err e;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int rc = view_write_search(
			view, &(struct view_search){ .text = rows[i].text, .is_pattern = true },
			&out, &e);

		if (rc != (rows[i].error ? ERR_INVALID : 0) ||
		    (rc && !strstr(e.msg, rows[i].error))) {
			fprintf(stderr, "pattern %s: %s\n", rows[i].text, rc ? e.msg : "is taken");
			exit(1);
		}
		/* as a text each of them is fine */
		CHECK_OK(view_write_search(view, &(struct view_search){ .text = rows[i].text },
					   &out, &e),
			 e);
	}
	for (size_t n = VIEW_PATTERN_MAX; n <= VIEW_PATTERN_MAX + 1; n++)
		CHECK_EQ(view_write_search(view,
					   &(struct view_search){ .text = long_text(n),
								  .is_pattern = true },
					   &out, &e),
			 n > VIEW_PATTERN_MAX ? ERR_INVALID : 0);
	CHECK_EQ(view_write_search(view, &(struct view_search){ .text = "" }, &out, &e),
		 ERR_INVALID);
	CHECK_EQ(view_write_next(view, &(struct view_step){ .search.text = "" }, &out, &e),
		 ERR_INVALID);
	CHECK_EQ(view_write_spread(
			 view, &(struct view_spread){ .search.text = "", .to_ps = 1, .bins = 1 },
			 &out, &e),
		 ERR_INVALID);
	buf_release(&out);
}

static void check_selection(const struct view *view, int64_t from_ps, int64_t to_ps,
			    const char *tracks, const char *document)
{
	struct buf out = BUF_INIT;
	struct err e;

	CHECK_OK(view_write_selection(
			 view, &(struct view_selection){ from_ps, to_ps, tracks, NULL }, &out, &e),
		 e);
	check_answer(&out, document);
	buf_release(&out);
}

static void test_selection(const struct view *view)
{
	/* step has load and matmul in it, one row below; matmul has copy in it, and that takes nothing from step */
	check_selection(
		view, 0, 1000, "0.0",
		"{'count': 4, 'total_ps': '1900', 'self_ps': '1000', 'different': 4, 'names': ["
		"{'name': 'step', 'count': 1, 'total_ps': '1000', 'self_ps': '200', 'min_ps': "
		"'1000', 'max_ps': '1000'}, "
		"{'name': 'matmul', 'count': 1, 'total_ps': '600', 'self_ps': '500', 'min_ps': "
		"'600', 'max_ps': '600'}, "
		"{'name': 'load', 'count': 1, 'total_ps': '200', 'self_ps': '200', 'min_ps': "
		"'200', 'max_ps': '200'}, "
		"{'name': 'copy', 'count': 1, 'total_ps': '100', 'self_ps': '100', 'min_ps': "
		"'100', 'max_ps': '100'}]}");
	/* names of several files are one; what begins where the box ends is outside, and so is what ends where it begins */
	check_selection(
		view, 1000, 2050, "0.0,1.0,2.0",
		"{'count': 4, 'total_ps': '2710', 'self_ps': '2710', 'different': 3, 'names': ["
		"{'name': 'step', 'count': 2, 'total_ps': '2000', 'self_ps': '2000', 'min_ps': "
		"'1000', 'max_ps': '1000'}, "
		"{'name': 'kernel', 'count': 1, 'total_ps': '700', 'self_ps': '700', 'min_ps': "
		"'700', 'max_ps': '700'}, "
		"{'name': 'copy', 'count': 1, 'total_ps': '10', 'self_ps': '10', 'min_ps': '10', "
		"'max_ps': '10'}]}");
	check_selection(
		view, 2500, 4000, "all",
		"{'count': 3, 'total_ps': '1500', 'self_ps': '1500', 'different': 2, 'names': ["
		"{'name': 'step', 'count': 2, 'total_ps': '1500', 'self_ps': '1500', 'min_ps': "
		"'500', 'max_ps': '1000'}, "
		"{'name': 'mark', 'count': 1, 'total_ps': '0', 'self_ps': '0', 'min_ps': '0', "
		"'max_ps': '0'}]}");
	check_selection(
		view, 0, 5000, "0.1",
		"{'count': 0, 'total_ps': '0', 'self_ps': '0', 'different': 0, 'names': []}");
	check_selection(
		view, 0, 5000, "",
		"{'count': 0, 'total_ps': '0', 'self_ps': '0', 'different': 0, 'names': []}");
}

static void test_track_lists(const struct view *view)
{
	static const struct {
		const char *tracks;
		int rc;
	} rows[] = {
		{ "0.0", 0 },
		{ "0.0,0.1,1.0,2.0", 0 },
		{ "0.1,1.0", 0 },
		{ "0.0,", 0 },
		{ "all", 0 },
		{ "0.1,0.0", ERR_INVALID },
		{ "1.0,0.1", ERR_INVALID },
		{ "0.0,0.0", ERR_INVALID },
		{ "All", ERR_INVALID },
		{ "0", ERR_INVALID },
		{ "0.", ERR_INVALID },
		{ ".0", ERR_INVALID },
		{ "0.0;1.0", ERR_INVALID },
		{ "0.0 ", ERR_INVALID },
		{ "-1.0", ERR_INVALID },
		{ "0.-1", ERR_INVALID },
		{ "0.+1", ERR_INVALID },
		{ ",0.0", ERR_INVALID },
		{ "4294967296.0", ERR_INVALID }, /* would be 0.0 in 32 bits */
		{ "0.4294967296", ERR_INVALID },
		{ "0.2", ERR_NOT_FOUND },
		{ "3.0", ERR_NOT_FOUND },
		{ "0.0,4294967295.0", ERR_NOT_FOUND },
	};
	struct buf out = BUF_INIT;
	struct err e;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct view_selection s = { 0, 5000, rows[i].tracks, NULL };
		const struct view_links l = { s, 10 };
		const struct view_flame f = { s, GROUP_NONE };

		if (view_write_selection(view, &s, &out, &e) != rows[i].rc)
			fprintf(stderr, "tracks %s\n", rows[i].tracks);
		buf_reset(&out);
		CHECK_EQ(view_write_selection(view, &s, &out, &e), rows[i].rc);
		CHECK_EQ(!out.len, !!rows[i].rc);
		CHECK_EQ(view_write_links(view, &l, &out, &e), rows[i].rc);
		CHECK_EQ(view_write_flame(view, &f, &out, &e), rows[i].rc);
	}
	buf_release(&out);
}

static void check_links(const struct view *view, struct view_selection of, uint32_t limit,
			const char *document)
{
	struct buf out = BUF_INIT;
	struct err e;

	CHECK_OK(view_write_links(view, &(struct view_links){ of, limit }, &out, &e), e);
	check_answer(&out, document);
	buf_release(&out);
}

/* Of a flow with an end in the box there are all arrows, from each end to the next in time, wherever these are. */
static void test_links(const struct view *view)
{
	static const char five[] = "{'flows': 1, 'links': [[0, 0, 0, 0, '0', 2, 0, 0, 0, '50']]}";
	static const char six[] = "{'flows': 1, 'links': [[0, 0, 3, 2, '400', 1, 0, 0, 0, '450'], "
				  "[1, 0, 0, 0, '450', 2, 0, 1, 1, '700']]}";
	static const char none[] = "{'flows': 0, 'links': []}";

	/* the last one goes from a later file to an earlier one */
	check_links(
		view, (struct view_selection){ 0, 5000, "all", NULL }, 1000,
		"{'flows': 3, 'links': [[0, 0, 0, 0, '0', 2, 0, 0, 0, '50'], "
		"[0, 0, 3, 2, '400', 1, 0, 0, 0, '450'], [1, 0, 0, 0, '450', 2, 0, 1, 1, '700'], "
		"[2, 0, 2, 0, '2050', 0, 0, 5, 1, '2100']]}");
	check_links(view, (struct view_selection){ 0, 5000, "1.0", NULL }, 1000, six);
	check_links(view, (struct view_selection){ 400, 401, "all", NULL }, 1000, six);
	check_links(view, (struct view_selection){ 401, 450, "all", NULL }, 1000, none);
	check_links(view, (struct view_selection){ 401, 451, "all", NULL }, 1000, six);
	/* the event that reaches into the box began before it */
	check_links(view, (struct view_selection){ 51, 400, "all", NULL }, 1000, none);
	check_links(view, (struct view_selection){ 50, 400, "2.0", NULL }, 1000, five);
	/* an end in one of the files is enough, and the other ones of the same flow add nothing */
	check_links(view, (struct view_selection){ 440, 2000, "0.0,1.0,2.0", NULL }, 1000, six);
	/* of more flows than the limit every so many; and no more arrows than it */
	check_links(view, (struct view_selection){ 0, 5000, "all", NULL }, 1,
		    "{'flows': 3, 'links': [[0, 0, 0, 0, '0', 2, 0, 0, 0, '50']]}");
	check_links(view, (struct view_selection){ 400, 2000, "0.0", NULL }, 1,
		    "{'flows': 1, 'links': [[0, 0, 3, 2, '400', 1, 0, 0, 0, '450']]}");
	check_links(view, (struct view_selection){ 0, 5000, "0.1", NULL }, 1, none);
}

static void check_next(const struct view *view, struct view_step s, const char *document)
{
	struct buf out = BUF_INIT;
	struct err e;

	CHECK_OK(view_write_next(view, &s, &out, &e), e);
	check_answer(&out, document);
	buf_release(&out);
}

static void test_next(const struct view *view)
{
	static const char none[] = "{'found': false}";
	struct view_step s = { .search.text = "step" };

	s.start_ps = -1;
	check_next(view, s,
		   "{'found': true, 'file': 0, 'track': 0, 'event': 0, 'row': 0, 'start_ps': '0', "
		   "'duration_ps': '1000'}");
	s.start_ps = 0; /* the match after this one */
	check_next(view, s,
		   "{'found': true, 'file': 2, 'track': 0, 'event': 0, 'row': 0, 'start_ps': '50', "
		   "'duration_ps': '1000'}");
	s.start_ps = 2050;
	check_next(view, s,
		   "{'found': true, 'file': 2, 'track': 0, 'event': 2, 'row': 0, 'start_ps': "
		   "'2050', 'duration_ps': '500'}");
	s.at = (struct view_place){ 2, 0, 2 };
	check_next(view, s, none);
	s.backward = true;
	check_next(view, s,
		   "{'found': true, 'file': 0, 'track': 0, 'event': 4, 'row': 0, 'start_ps': "
		   "'2000', 'duration_ps': '1000'}");
	s.start_ps = 0;
	s.at = (struct view_place){ 0, 0, 0 };
	check_next(view, s, none);
	s.search.text = "loss"; /* a counter's */
	s.start_ps = 5000;
	check_next(view, s, none);
}

/* How many events the trace of a window has. */
static size_t count_traced(const struct view *view, int64_t from_ps, int64_t to_ps)
{
	const struct view_trace t = { .from_ps = from_ps, .to_ps = to_ps, .is_json = true };
	struct buf out = BUF_INIT;
	json_t *doc, *ev;
	size_t i, n = 0;
	struct err e;

	CHECK_OK(view_write_trace(view, &t, &out, &e), e);
	doc = answer_json(&out);
	json_array_foreach(json_object_get(doc, "traceEvents"), i, ev)
		n += !strcmp(json_get_text(ev, "ph"), "X") || !strcmp(json_get_text(ev, "ph"), "i");
	json_decref(doc);
	buf_release(&out);
	return n;
}

static void check_flame(const struct view *view, struct view_flame f, const char *document)
{
	struct buf out = BUF_INIT;
	struct err e;

	CHECK_OK(view_write_flame(view, &f, &out, &e), e);
	check_answer(&out, document);
	buf_release(&out);
}

static void thousandfold(struct truth *t)
{
	for (size_t i = 0; i < t->n; i++) {
		t->events[i].start_ps *= 1000;
		t->events[i].length_ps *= 1000;
	}
}

/* Nanoseconds: [parent, name, total, self, count]. An event counts as far as it lies in the window. */
static void test_flame(const struct view *view)
{
	check_flame(view, (struct view_flame){ { 0, 350000, "0.0", NULL }, GROUP_NONE },
		    "{'total_ns': 350, 'events': 3, 'stacks': 1, 'not_split': 0, "
		    "'nodes': [[-1, 0, 350, 100, 1], [0, 1, 200, 200, 1], [0, 2, 50, 50, 1]], "
		    "'names': ['step', 'load', 'matmul'], 'left_out': 0, "
		    "'top': [{'name': 'load', 'self_ns': 200, 'total_ns': 200, 'count': 1}, "
		    "{'name': 'step', 'self_ns': 100, 'total_ns': 350, 'count': 1}, "
		    "{'name': 'matmul', 'self_ns': 50, 'total_ns': 50, 'count': 1}]}");
	check_flame(view,
		    (struct view_flame){ { 2000000, 2100000, "0.0,0.1,2.0", NULL }, GROUP_NONE },
		    "{'total_ns': 150, 'events': 2, 'stacks': 2, 'not_split': 0, 'nodes': [[-1, 0, "
		    "150, 150, 2]], "
		    "'names': ['step'], 'left_out': 0, 'top': [{'name': 'step', 'self_ns': 150, "
		    "'total_ns': 150, 'count': 2}]}");
	check_flame(view, (struct view_flame){ { 2000000, 2100000, "all", NULL }, GROUP_HOST },
		    "{'total_ns': 150, 'events': 2, 'stacks': 2, 'not_split': 0, "
		    "'nodes': [[-1, 0, 100, 0, 0], [0, 1, 100, 100, 1], [-1, 2, 50, 0, 0], [2, 1, "
		    "50, 50, 1]], "
		    "'names': ['host-a', 'step', 'host-b'], 'left_out': 0, "
		    "'top': [{'name': 'step', 'self_ns': 150, 'total_ns': 150, 'count': 2}]}");
	check_flame(view, (struct view_flame){ { 1500000, 1510000, "all", NULL }, GROUP_PLANE },
		    "{'total_ns': 10, 'events': 1, 'stacks': 1, 'not_split': 0, "
		    "'nodes': [[-1, 0, 10, 0, 0], [0, 1, 10, 0, 0], [1, 2, 10, 10, 1]], "
		    "'names': ['host-a', '/device:GPU:0', 'copy'], 'left_out': 3, "
		    "'top': [{'name': 'copy', 'self_ns': 10, 'total_ns': 10, 'count': 1}]}");
	check_flame(view, (struct view_flame){ { 1500000, 1510000, "1.0", NULL }, GROUP_TRACK },
		    "{'total_ns': 10, 'events': 1, 'stacks': 1, 'not_split': 0, "
		    "'nodes': [[-1, 0, 10, 0, 0], [0, 1, 10, 0, 0], [1, 2, 10, 10, 1]], "
		    "'names': ['host-a', 'stream', 'copy'], 'left_out': 0, "
		    "'top': [{'name': 'copy', 'self_ns': 10, 'total_ns': 10, 'count': 1}]}");
}

/* Of events that overlap, the caller is the latest one that the other lies in as a whole; one that ends later lies in none. */
static void test_overlap(struct stage *s, struct truth *truth)
{
	static const char session[] = "2026_11_29_01_00_00_overla";
	struct view *view;

	*truth = (struct truth){ 0 };
	truth_file(truth, "host-a", "host-a.xplane.pb");
	truth_line(truth, "/host:CPU", "main");
	truth_event(truth, 0, 100000, "a");
	truth_event(truth, 50000, 100000, "b");
	truth_event(truth, 60000, 30000, "c");
	truth_line(truth, "/host:CPU", "before");
	truth_event(truth, -1900, 1800, "early");
	stage_store(s, truth, session, NULL);
	view = stage_open(s, session);
	check_flame(view, (struct view_flame){ { 0, 200000, "0.0", NULL }, GROUP_NONE },
		    "{'total_ns': 200, 'events': 3, 'stacks': 2, 'not_split': 0, "
		    "'nodes': [[-1, 0, 100, 100, 1], [-1, 1, 100, 70, 1], [1, 2, 30, 30, 1]], "
		    "'names': ['a', 'b', 'c'], 'left_out': 0, "
		    "'top': [{'name': 'a', 'self_ns': 100, 'total_ns': 100, 'count': 1}, "
		    "{'name': 'b', 'self_ns': 70, 'total_ns': 100, 'count': 1}, "
		    "{'name': 'c', 'self_ns': 30, 'total_ns': 30, 'count': 1}]}");
	check_selection(
		view, 0, 200000, "0.0",
		"{'count': 3, 'total_ps': '230000', 'self_ps': '200000', 'different': 3, 'names': ["
		"{'name': 'a', 'count': 1, 'total_ps': '100000', 'self_ps': '100000', 'min_ps': "
		"'100000', 'max_ps': '100000'}, "
		"{'name': 'b', 'count': 1, 'total_ps': '100000', 'self_ps': '70000', 'min_ps': "
		"'100000', 'max_ps': '100000'}, "
		"{'name': 'c', 'count': 1, 'total_ps': '30000', 'self_ps': '30000', 'min_ps': "
		"'30000', 'max_ps': '30000'}]}");
	CHECK_EQ(count_traced(view, -600, -599), 1); /* [-1 ns, 0 ns) */
	view_release(view);
}

/* What is longer than a packet is compressed, if that makes it shorter. */
static void test_compress(void)
{
	struct buf text = BUF_INIT;

	for (int i = 0; i < 1399; i++)
		buf_add_u8(&text, 'a');
	CHECK(!view_compress(&text) && text.len == 1399);
	buf_add_u8(&text, 'a');
	CHECK(view_compress(&text) && text.len < 100);
	CHECK(text.data[0] == 0x1f && text.data[1] == 0x8b); /* gzip */
	buf_reset(&text);
	for (int i = 0; i < 5000; i++)
		buf_add_u8(&text, (uint8_t)draw(256));
	CHECK(!view_compress(&text) && text.len == 5000);
	buf_release(&text);
}

int main(void)
{
	struct truth *truth = xcalloc(1, sizeof(*truth));
	struct view *view;
	struct stage s;

	stage_start(&s, 0);
	truth_small(truth);
	stage_store(&s, truth, SESSION, NULL);
	view = stage_open(&s, SESSION);
	test_catalogue(view);
	test_event(view);
	test_search(view);
	test_patterns(view);
	test_selection(view);
	test_track_lists(view);
	test_links(view);
	test_next(view);
	/* the window is widened to [2 ns, 3 ns): three events, and not the mark at 3 ns */
	CHECK_EQ(count_traced(view, 2900, 2901), 3);
	view_release(view);
	thousandfold(truth);
	stage_store(&s, truth, "2026_11_29_01_00_00_flame0", NULL);
	view = stage_open(&s, "2026_11_29_01_00_00_flame0");
	test_flame(view);
	view_release(view);
	test_overlap(&s, truth);
	test_compress();
	stage_stop(&s);
	free(truth);
	return 0;
}
