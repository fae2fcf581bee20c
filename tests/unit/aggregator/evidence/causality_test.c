/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/evidence/causality.h"

#include "json/json_text.h"
#include "aggregator/sessions/sessions.h"
#include "base/now.h"
#include "storage/store.h"
#include "tests/lib/check.h"
#include "tests/lib/store.h"
#include "xspace/causality.h"
#include "xspace/xspace.h"

#define BUDGET_NS (10 * NS_PER_S)

struct session {
	struct store *store;
	json_t *manifest;
};

static struct session session_new(void)
{
	struct session s = { .manifest = json_object() };
	struct err e = { 0 };

	CHECK_OK(store_open(&s.store, "mem://causality", &e), e);
	json_put_text(s.manifest, "session", "s");
	json_put_text(s.manifest, "run", "r");
	json_put(s.manifest, "hosts", json_array());
	json_put(s.manifest, "warnings", json_array());
	return s;
}

static void session_free(struct session *s)
{
	store_free(s->store);
	json_decref(s->manifest);
}

static json_t *add_host(struct session *s, const char *name)
{
	json_t *host = json_object();

	json_put_text(host, "host", name);
	json_put_text(host, "file", "some");
	json_put(host, "files", json_pack("[s]", "some"));
	json_put_int(host, "clock_bound_ns", 1000);
	json_array_append_new(json_object_get(s->manifest, "hosts"), host);
	return host;
}

static void put_file(struct session *s, const char *host, const struct buf *bytes)
{
	char key[SESSION_KEY_BYTES];
	struct err e = { 0 };

	session_file_key("s", "r", host, key);
	CHECK_OK(store_put_bytes(s->store, key, bytes->data, bytes->len, 0, any_time(), &e), e);
}

/* A host whose clock is wrong by so much has been at that many barriers. */
static json_t *add_witness(struct session *s, const char *name, int barriers, int64_t wrong_ns)
{
	struct xs_builder *b = xs_builder_new();
	struct buf bytes = BUF_INIT;

	xs_plane(b, 1, "/host:CPU");
	xs_line(b, 1, "t", NS_PER_S + wrong_ns);
	for (int i = 0; i < barriers; i++) {
		xs_event(b, "allreduce", i * NS_PER_MS * 1000, 10 * NS_PER_US * 1000);
		xs_stat_int(b, "barrier_id", i);
	}
	xs_finish(b, &bytes);
	xs_builder_free(b);
	put_file(s, name, &bytes);
	buf_release(&bytes);
	return add_host(s, name);
}

static const json_t *check(struct session *s, int64_t budget_ns)
{
	causality_check(s->store, s->manifest, NULL, budget_ns);
	return json_object_get(s->manifest, "causality");
}

static size_t n_warnings(const struct session *s)
{
	return json_array_size(json_object_get(s->manifest, "warnings"));
}

static void test_clean(void)
{
	struct session s = session_new();
	const json_t *causality;

	add_witness(&s, "a", 5, 0);
	add_witness(&s, "b", 5, 11 * NS_PER_US);
	causality = check(&s, BUDGET_NS);
	CHECK_EQ(json_get_int(causality, "checked"), 5);
	CHECK_EQ(json_array_size(json_object_get(causality, "violations")), 0);
	CHECK_STR(json_get_text(causality, "guilty"), "");
	CHECK_STR(json_get_text(causality, "skipped"), "");
	CHECK_EQ(n_warnings(&s), 0);
	session_free(&s);
}

static void test_violated(void)
{
	struct session s = session_new();
	const json_t *causality, *first;

	add_witness(&s, "a", 130, 0);
	add_witness(&s, "b", 130, 5 * NS_PER_MS);
	add_witness(&s, "c", 130, 0);
	json_array_append_new(json_object_get(s.manifest, "warnings"), json_string("other"));
	for (int commit = 0; commit < 2; commit++) { /* the second is a retry's */
		causality = check(&s, BUDGET_NS);
		CHECK_EQ(json_get_int(causality, "checked"), 130);
		CHECK_EQ(json_array_size(json_object_get(causality, "violations")), 100);
		CHECK_EQ(json_get_int(causality, "more"), 30);
		CHECK_STR(json_get_text(causality, "guilty"), "b");
		first = json_array_get(json_object_get(causality, "violations"), 0);
		CHECK_STR(json_get_text(first, "early"), "a");
		CHECK_STR(json_get_text(first, "late"), "b");
		CHECK_EQ(json_get_int(first, "by_ns"), 5 * NS_PER_MS - 12 * NS_PER_US);
		CHECK_EQ(n_warnings(&s), 2);
	}
	session_free(&s);
}

static void test_skipped(void)
{
	static const char wanted[] = "not checked, clock uncalibrated: b; "
				     "not checked, recorded in another window: c; "
				     "not checked, file cannot be read: d, e";
	struct session s = session_new();
	struct buf garbage = BUF_INIT;
	const json_t *causality;

	add_witness(&s, "a", 3, 0);
	json_put(add_witness(&s, "b", 3, NS_PER_S), "clock_bound_ns", json_null());
	json_put_int(add_witness(&s, "c", 3, NS_PER_S), "t0_ns", 7);
	buf_add_str(&garbage, "no XSpace at all");
	put_file(&s, "d", &garbage);
	buf_release(&garbage);
	add_host(&s, "d");
	add_host(&s, "e"); /* not in the store */
	json_put_text(add_host(&s, "f"), "file", ""); /* failed */
	add_witness(&s, "g", 2, 0);
	causality = check(&s, BUDGET_NS);
	CHECK_EQ(json_get_int(causality, "checked"), 2);
	CHECK_STR(json_get_text(causality, "skipped"), wanted);
	CHECK_EQ(n_warnings(&s), 0);
	session_free(&s);
}

static void test_budget(void)
{
	struct session s = session_new();
	char name[2] = "a";
	const json_t *causality;

	for (; name[0] <= 'e'; name[0]++)
		add_witness(&s, name, 3, 0);
	causality = check(&s, 0);
	CHECK_EQ(json_get_int(causality, "checked"), 0);
	CHECK_STR(json_get_text(causality, "skipped"),
		  "not checked, switched off: a, b, c and 2 more");
	causality = check(&s, 1);
	CHECK_STR(json_get_text(causality, "skipped"),
		  "not checked, it would take too long: a, b, c and 2 more");
	session_free(&s);
}

/* What a host's clock says, beside its bound. */
static void set_room(json_t *host, int64_t room_ns)
{
	json_put(host, "clock",
		 json_pack("{s:I, s:I}", "earlier_ns", (json_int_t)room_ns, "later_ns",
			   (json_int_t)room_ns));
}

static void test_refined(void)
{
	struct session s = session_new();
	const json_t *refined, *b;
	json_t *host;

	set_room(add_witness(&s, "a", 5, 0), 1000);
	host = add_witness(&s, "b", 5, 10800);
	set_room(host, 1000);
	add_witness(&s, "c", 5, 0); /* its agent is too old to say */
	check(&s, BUDGET_NS);
	CHECK(!json_object_get(s.manifest, "refined")); /* not requested */
	json_put_text(s.manifest, "refine", "events");
	check(&s, BUDGET_NS);
	refined = json_object_get(s.manifest, "refined");
	CHECK_STR(json_get_text(refined, "reason"), "");
	CHECK(json_is_false(json_object_get(refined, "in_files")));
	CHECK_EQ(json_get_int(refined, "hosts"), 2);
	CHECK_EQ(json_get_int(refined, "pairs"), 5);
	CHECK_EQ(json_get_int(refined, "backwards_before"), 5);
	CHECK_EQ(json_get_int(refined, "backwards_after"), 0);
	b = json_object_get(host, "refined");
	CHECK(json_get_int(b, "offset_ns") < 0);
	CHECK(json_get_int(b, "offset_ns") >= -1000);
	CHECK_EQ(json_get_int(b, "hint_ns"), -10800);
	CHECK_EQ(json_get_int(b, "pairs"), 5);
	CHECK(!json_object_get(json_array_get(json_object_get(s.manifest, "hosts"), 2), "refined"));
	set_room(add_witness(&s, "d", 5, NS_PER_MS), 1000); /* a retry brought it */
	check(&s, BUDGET_NS);
	refined = json_object_get(s.manifest, "refined");
	CHECK_STR(json_get_text(refined, "reason"), "contradiction");
	CHECK(!json_object_get(host, "refined"));
	check(&s, 0);
	refined = json_object_get(s.manifest, "refined");
	CHECK_STR(json_get_text(refined, "reason"), "no-pairs");
	session_free(&s);
}

/* By reports alone: no store; a host without one is named. */
static void test_reports(void)
{
	struct causality_report reports[3] = { 0 };
	struct session s = session_new();
	struct buf packed[2] = { BUF_INIT, BUF_INIT };
	const json_t *causality;

	for (int i = 0; i < 2; i++) {
		struct xs_causality *c = xs_causality_new();
		struct xs_builder *b = xs_builder_new();
		struct buf bytes = BUF_INIT;
		struct xs_source in;
		struct err e;

		xs_plane(b, 1, "/host:CPU");
		xs_line(b, 1, "t", NS_PER_S + i * NS_PER_MS);
		xs_event(b, "allreduce", 0, 10 * NS_PER_US * 1000);
		xs_stat_int(b, "barrier_id", 1);
		xs_finish(b, &bytes);
		in = xs_source_memory(bytes.data, bytes.len);
		CHECK_OK(xs_causality_add(c, &in, 0, &e), e);
		xs_causality_pack(c, SIZE_MAX, &packed[i]);
		reports[i] = (struct causality_report){ packed[i].data, packed[i].len };
		xs_builder_free(b);
		xs_causality_free(c);
		buf_release(&bytes);
	}
	add_host(&s, "a");
	add_host(&s, "b");
	add_host(&s, "c");
	causality_check(NULL, s.manifest, reports, BUDGET_NS);
	causality = json_object_get(s.manifest, "causality");
	CHECK_EQ(json_get_int(causality, "checked"), 1);
	CHECK_EQ(json_array_size(json_object_get(causality, "violations")), 1);
	CHECK_STR(json_get_text(causality, "skipped"),
		  "not checked, its observations are not known here: c");
	reports[0].len--;
	causality_check(NULL, s.manifest, reports, BUDGET_NS);
	causality = json_object_get(s.manifest, "causality");
	CHECK_EQ(json_get_int(causality, "checked"), 0);
	CHECK(strstr(json_get_text(causality, "skipped"), "cannot be read: a"));
	for (int i = 0; i < 2; i++)
		buf_release(&packed[i]);
	session_free(&s);
}

int main(void)
{
	test_clean();
	test_violated();
	test_skipped();
	test_budget();
	test_refined();
	test_reports();
	return 0;
}
