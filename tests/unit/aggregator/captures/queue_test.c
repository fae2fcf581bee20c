/* SPDX-License-Identifier: Apache-2.0 */
/* Captures that are the same, and captures that have to wait for each other. */
#include "aggregator/captures/capture.h"
#include "aggregator/captures/options.h"
#include "json/json_text.h"
#include "base/mem.h"
#include "proto/tensorflow/profiler_options.pb-c.h"
#include "tests/unit/aggregator/fleet.h"

#define WINDOW_NS (10 * NS_PER_MS)

static struct capture *begin(struct fleet *f, const char *hosts, int64_t duration_ns)
{
	const struct capture_request req = { .hosts = hosts,
					     .duration_ns = duration_ns,
					     .origin = "test" };
	struct err e = { 0 };
	struct capture *c;

	CHECK_OK(capture_begin(f->agg.captures, &req, &c, &e), e);
	return c;
}

static void parse(void *arg, struct buf *text_taken)
{
	*(json_t **)arg = json_loadb(buf_str(text_taken), text_taken->len, 0, NULL);
	buf_release(text_taken);
}

static void test_same_request(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c, *other;

	fleet_start(&f, NS_PER_S, 0); /* to ask again before T0 */
	fake_connect(&a, &f, "a");
	c = begin(&f, NULL, WINDOW_NS);
	CHECK(begin(&f, "all", WINDOW_NS) == c);
	CHECK(begin(&f, "a", WINDOW_NS) == c);
	CHECK_EQ(c->callers, 3);
	other = begin(&f, NULL, WINDOW_NS + 1);
	CHECK(other != c && !capture_is_queued(other)); /* nothing they both need */
	WAIT(&f, a.arms == 2 && c->state >= CAP_RUNNING);
	CHECK_EQ(captures_stats(f.agg.captures)->shared, 2);
	/* What has begun is no answer to a new request. */
	CHECK(begin(&f, NULL, WINDOW_NS) != c);
	fleet_stop(&f);
}

/* Who is answered by another caller's capture waits for its hosts as long as asked, or longer. */
static void test_grace_of_what_is_shared(void)
{
	struct capture_request req = { .duration_ns = WINDOW_NS, .grace_ns = 10 * NS_PER_S };
	struct fake a = { .auto_arm = true };
	struct capture *first, *c;
	struct err e = { 0 };
	struct fleet f;

	fleet_start(&f, NS_PER_S, 0);
	fake_connect(&a, &f, "a");
	CHECK_OK(capture_begin(f.agg.captures, &req, &first, &e), e);
	req.grace_ns = 5 * NS_PER_S;
	CHECK_OK(capture_begin(f.agg.captures, &req, &c, &e), e);
	CHECK(c == first);
	req.grace_ns = 10 * NS_PER_S + 1;
	CHECK_OK(capture_begin(f.agg.captures, &req, &c, &e), e);
	CHECK(c != first);
	CHECK_EQ(c->grace_ns, req.grace_ns);
	fleet_stop(&f);
}

static void test_different_requests(void)
{
	json_t *settings = json_pack("{s:i}", "host_tracer_level", 1);
	json_t *tracers = json_pack("[s]", "cpu");
	const struct capture_request reqs[] = {
		{ .duration_ns = WINDOW_NS },
		{ .duration_ns = WINDOW_NS, .run = "x" },
		{ .duration_ns = WINDOW_NS, .refine = "events" },
		{ .duration_ns = WINDOW_NS, .settings = settings },
		{ .duration_ns = WINDOW_NS, .tracers = tracers },
		{ .duration_ns = WINDOW_NS, .hosts = "a" },
		{ .duration_ns = WINDOW_NS, .open_ended = true },
		{ .duration_ns = WINDOW_NS, .open_ended = true },
	};
	struct fleet f;
	struct fake a = { .auto_arm = true }, b = { .auto_arm = true };
	struct capture *c;
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	for (size_t i = 0; i < ARRAY_SIZE(reqs); i++)
		CHECK_OK(capture_begin(f.agg.captures, &reqs[i], &c, &e), e);
	CHECK_EQ(captures_count(f.agg.captures).active, ARRAY_SIZE(reqs));
	CHECK_EQ(captures_stats(f.agg.captures)->shared, 0);
	json_decref(settings);
	json_decref(tracers);
	fleet_stop(&f);
}

/* ---- what makes two requests different: each setting that can be made ---- */

/* Of an option's row in GET /api/v1/settings: a value that is not the default. */
static json_t *other_value(const json_t *row)
{
	const char *type = json_get_text(row, "type");
	const json_t *preset = json_object_get(row, "default"), *value;
	size_t i;

	if (!strcmp(type, "bool"))
		return json_boolean(!json_is_true(preset));
	if (!strcmp(type, "int"))
		return json_integer(json_integer_value(preset) + 1);
	if (!strcmp(type, "choice")) {
		json_array_foreach(json_object_get(row, "values"), i, value)
		{
			if (!json_equal(value, preset))
				return json_incref((json_t *)value);
		}
	}
	return json_text(strcmp(type, "mask") ? "other" : "0xff");
}

static json_t *settings_of(const char *name, json_t *value_taken)
{
	json_t *settings = json_object();

	json_put_int(settings, "host_tracer_level", 1);
	json_put_int(settings, "cpu.depth", 5);
	json_put(settings, name, value_taken);
	return settings;
}

/* Begins the same capture with both; whether they share one. */
static bool share(struct fleet *f, const struct capture_request *one,
		  const struct capture_request *two)
{
	struct capture *a, *b;
	struct err e = { 0 };

	CHECK_OK(capture_begin(f->agg.captures, one, &a, &e), e);
	CHECK_OK(capture_begin(f->agg.captures, two, &b, &e), e);
	CHECK(a != b || a->callers == 2);
	CHECK(capture_cancel(a));
	if (a != b)
		CHECK(capture_cancel(b));
	WAIT(f, !captures_count(f->agg.captures).active);
	return a == b;
}

/* Takes the settings. */
static bool share_settings(struct fleet *f, json_t *one, json_t *two)
{
	const struct capture_request a = { .duration_ns = WINDOW_NS, .settings = one };
	const struct capture_request b = { .duration_ns = WINDOW_NS, .settings = two };
	bool is_shared = share(f, &a, &b);

	json_decref(one);
	json_decref(two);
	return is_shared;
}

/* Every row of the options, the one of any other name, and a tracer's. The same settings in another order are the same. */
static void test_each_setting(void)
{
	json_t *rows = options_list_json(), *row;
	struct fake a = { .auto_arm = true };
	size_t i, n = 0;
	struct fleet f;

	fleet_start(&f, NS_PER_S, 0);
	fake_connect(&a, &f, "a");
	json_array_append_new(rows, json_pack("{s:s, s:s, s:i}", "name", "cpu.depth", "type", "int",
					      "default", 7));
	json_array_foreach(rows, i, row)
	{
		const char *name = json_get_text(row, "name");
		bool is_any = !strcmp(name, "advanced.NAME");
		json_t *value = other_value(row);
		json_t *with = settings_of(name, value);

		if (json_is_null(json_object_get(row, "default")))
			CHECK(!share_settings(&f, settings_of("cpu.depth", json_integer(5)),
					      json_incref(with)));
		else
			CHECK(!share_settings(
				&f, settings_of(name, json_incref(json_object_get(row, "default"))),
				json_incref(with)));
		if (is_any)
			CHECK(!share_settings(&f, settings_of("advanced.NAMES", json_incref(value)),
					      json_incref(with)));
		CHECK(share_settings(&f, json_incref(with), settings_of(name, json_incref(value))));
		json_decref(with);
		n++;
	}
	CHECK(n >= 10);
	json_decref(rows);
	fleet_stop(&f);
}

/* What a stock client sends, packed. */
static size_t pack(const Tensorflow__ProfileOptions *m, uint8_t out[256])
{
	CHECK(tensorflow__profile_options__get_packed_size(m) <= 256);
	return tensorflow__profile_options__pack(m, out);
}

static bool share_options(struct fleet *f, const Tensorflow__ProfileOptions *one,
			  const Tensorflow__ProfileOptions *two)
{
	uint8_t bytes[2][256];
	const struct capture_request a = { .duration_ns = WINDOW_NS,
					   .options = bytes[0],
					   .options_len = pack(one, bytes[0]) };
	const struct capture_request b = { .duration_ns = WINDOW_NS,
					   .options = bytes[1],
					   .options_len = pack(two, bytes[1]) };

	return share(f, &a, &b);
}

/* Every field of a client's own options, also those that no setting describes, and those of the same length. */
static void test_each_option_of_a_client(void)
{
	Tensorflow__ProfileOptions usual = TENSORFLOW__PROFILE_OPTIONS__INIT, other;
	const ProtobufCMessageDescriptor *d = &tensorflow__profile_options__descriptor;
	struct fake a = { .auto_arm = true };
	struct fleet f;
	unsigned int n = 0;

	usual.version = 1;
	usual.host_tracer_level = usual.device_tracer_level = usual.python_tracer_level = 1;
	fleet_start(&f, NS_PER_S, 0);
	fake_connect(&a, &f, "a");
	for (unsigned int i = 0; i < d->n_fields; i++) {
		void *field = (char *)&other + d->fields[i].offset;

		other = usual;
		switch (d->fields[i].type) {
		case PROTOBUF_C_TYPE_BOOL:
			*(protobuf_c_boolean *)field ^= 1;
			break;
		case PROTOBUF_C_TYPE_UINT32:
		case PROTOBUF_C_TYPE_ENUM:
			*(uint32_t *)field += 1;
			break;
		case PROTOBUF_C_TYPE_UINT64:
			*(uint64_t *)field += 1;
			break;
		default:
			continue;
		}
		CHECK(!share_options(&f, &usual, &other));
		CHECK(share_options(&f, &other, &other));
		n++;
	}
	CHECK(n >= 9);
	fleet_stop(&f);
}

/* a's profilers are taken: who wants them waits its turn, others do not. */
static void test_first_come(void)
{
	json_t *cpu = json_pack("[s]", "cpu"), *doc;
	const struct capture_request rings = { .duration_ns = WINDOW_NS, .tracers = cpu };
	struct fleet f;
	struct fake a = { .auto_arm = true, .has_profiler = true };
	struct fake b = { .auto_arm = true, .has_profiler = true };
	struct capture *first, *second, *third, *c;
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	first = begin(&f, "a", WINDOW_NS);
	second = begin(&f, "a,b", WINDOW_NS + 1);
	third = begin(&f, "b", WINDOW_NS + 2);
	CHECK(!capture_is_queued(first));
	CHECK_EQ(second->state, CAP_QUEUED);
	CHECK_EQ(third->state, CAP_QUEUED); /* b is free, but not for who came later */
	CHECK_EQ(third->position, 2);
	CHECK(strstr(second->waits_for, first->session) && strstr(second->waits_for, " a"));
	CHECK(strstr(third->waits_for, second->session) && strstr(third->waits_for, " b"));
	capture_make_text(third, false, parse, &doc);
	CHECK_STR(json_get_text(doc, "state"), "queued");
	CHECK_EQ(json_get_int(doc, "position"), 2);
	json_decref(doc);
	CHECK_OK(capture_begin(f.agg.captures, &rings, &c, &e), e);
	CHECK(!capture_is_queued(c));
	CHECK_EQ(captures_count(f.agg.captures).queued, 2);
	CHECK_EQ(captures_count(f.agg.captures).active, 2);

	WAIT(&f, a.arms == 2 && b.arms == 1 && fleet_host_is(first, 0, "armed"));
	WAIT(&f, first->state >= CAP_UPLOADING); /* its window is over */
	snprintf(a.session, sizeof(a.session), "%s", first->session);
	fake_progress(&a, "uploading", 100);
	WAIT(&f, second->state >= CAP_RUNNING);
	CHECK(second->t0_ns > first->t0_ns + first->duration_ns);
	CHECK_EQ(third->position, 1);
	WAIT(&f, strstr(third->waits_for, " b") && a.arms == 3 && b.arms == 2);
	CHECK_EQ(third->state, CAP_QUEUED);
	WAIT(&f, fleet_host_is(second, 1, "armed"));
	fake_progress(&b, "uploading", 100);
	WAIT(&f, third->state >= CAP_RUNNING && b.arms == 3);
	json_decref(cpu);
	fleet_stop(&f);
}

/* Identical requests may meet in the queue; stopping what waits is cancelling it. */
static void test_cancelled(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true, .has_profiler = true };
	struct capture *first, *second, *third;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	first = begin(&f, NULL, LIMIT_DURATION_NS);
	second = begin(&f, NULL, WINDOW_NS);
	third = begin(&f, NULL, WINDOW_NS + 1);
	CHECK(begin(&f, NULL, WINDOW_NS) == second);
	CHECK(capture_cancel(second)); /* its plan is still on its way to the store */
	WAIT(&f, capture_has_ended(second));
	CHECK(!fleet_wait_durable(&f, third));
	CHECK_EQ(third->position, 1);
	capture_stop(third);
	WAIT(&f, capture_has_ended(third));
	CHECK_STR(third->error.msg, "cancelled");
	CHECK_STR(fleet_result(third, 0).reason, "cancelled");
	CHECK_EQ(captures_count(f.agg.captures).queued, 0);
	WAIT(&f, first->state == CAP_RUNNING && a.arms == 1);
	CHECK_EQ(fleet_keys(&f), 3); /* the plan of the first, and what became of the others */
	fleet_stop(&f);
}

/* Whoever is gone when the turn comes is unreachable then, not before. */
static void test_hosts_gone(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true, .has_profiler = true };
	struct capture *first, *second;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	first = begin(&f, NULL, LIMIT_DURATION_NS);
	second = begin(&f, NULL, WINDOW_NS);
	WAIT(&f, fleet_host_is(first, 0, "armed"));
	fake_hang_up(&a);
	CHECK(!capture_has_ended(second));
	fleet_wait_over(&f, second->session);
	WAIT(&f, capture_has_ended(first)); /* its commit may take longer */
	CHECK_STR(fleet_result(first, 0).reason, "lost");
	CHECK_STR(fleet_result(second, 0).reason, "unreachable");
	WAIT(&f, !f.agg.jobs.n);
	CHECK_EQ(fleet_keys(&f), 2); /* what is known of either */
	fleet_stop(&f);
}

static void test_patience(void)
{
	struct capture_request req = { .duration_ns = WINDOW_NS, .wait_ns = 30 * NS_PER_MS };
	struct fleet f;
	struct fake a = { .auto_arm = true, .has_profiler = true };
	struct capture *c, *shared;
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	begin(&f, NULL, LIMIT_DURATION_NS);
	CHECK_OK(capture_begin(f.agg.captures, &req, &c, &e), e);
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->error.code, ERR_TIMEOUT);
	CHECK(strstr(c->error.msg, "waited without success for capture"));
	CHECK_STR(fleet_result(c, 0).reason, "queued");
	/* Of two that share it, the longer patience counts; who has none gets nothing. */
	req.commit_by_ns = session_clock_now(&f.agg.clock) + 5 * NS_PER_S;
	req.wait_ns = NS_PER_S;
	CHECK_OK(capture_begin(f.agg.captures, &req, &c, &e), e);
	CHECK_EQ(c->commit_by_ns, req.commit_by_ns);
	req.commit_by_ns = 0;
	req.wait_ns = 100 * NS_PER_S;
	CHECK_OK(capture_begin(f.agg.captures, &req, &shared, &e), e);
	CHECK(shared == c && !c->commit_by_ns);
	CHECK(c->queued_until_ns > session_clock_now(&f.agg.clock) + 90 * NS_PER_S);
	req.wait_ns = -1;
	CHECK_EQ(capture_begin(f.agg.captures, &req, &c, &e), ERR_BUSY);
	CHECK(strstr(e.msg, "framework profilers of a"));
	fleet_stop(&f);
}

/* A capture that begins later leaves room for a short one before it. */
static void test_fits_before(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true, .has_profiler = true };
	struct capture_request late = { .duration_ns = NS_PER_S };
	struct capture *c;
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	late.not_before_ns = session_clock_now(&f.agg.clock) + 9 * NS_PER_S;
	CHECK_OK(capture_begin(f.agg.captures, &late, &c, &e), e);
	CHECK_EQ(begin(&f, NULL, WINDOW_NS)->state, CAP_PLANNING);
	CHECK_EQ(begin(&f, NULL, 20 * NS_PER_S)->state, CAP_QUEUED);
	fleet_stop(&f);
}

/* Who wants a later begin is not answered with an earlier window. */
static void test_later_begin(void)
{
	struct capture_request late = { .duration_ns = WINDOW_NS };
	struct capture *first, *second, *same;
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	late.not_before_ns = session_clock_now(&f.agg.clock) + 60 * NS_PER_S;
	CHECK_OK(capture_begin(f.agg.captures, &late, &first, &e), e);
	CHECK_OK(capture_begin(f.agg.captures, &late, &same, &e), e);
	late.not_before_ns += 60 * NS_PER_S;
	CHECK_OK(capture_begin(f.agg.captures, &late, &second, &e), e);
	CHECK(same == first && second != first);
	fleet_stop(&f);
}

/* A window that is over does not free the profilers: they are still gathering. */
static void test_still_gathering(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true, .has_profiler = true };
	struct capture *first, *second;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	first = begin(&f, NULL, WINDOW_NS);
	WAIT(&f, first->state >= CAP_UPLOADING);
	CHECK(fleet_host_is(first, 0, "armed"));
	second = begin(&f, NULL, WINDOW_NS);
	CHECK(second != first && second->state == CAP_QUEUED);
	snprintf(a.session, sizeof(a.session), "%s", first->session);
	fake_progress(&a, "uploading", 100);
	WAIT(&f, second->state >= CAP_RUNNING);
	fleet_stop(&f);
}

/* Two that wait, as their ledgers say; their hosts come back, and they take their turns. */
static void test_restart(void)
{
	int64_t connected_ns;
	json_t *left, *of_second;
	struct fleet f;
	struct fake a = { .auto_arm = true, .has_profiler = true };
	struct capture_request req = { .duration_ns = WINDOW_NS,
				       .origin = "test",
				       .refine = "events" };
	struct capture *second, *third, *c;
	char names[2][64];
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	begin(&f, NULL, LIMIT_DURATION_NS);
	CHECK_OK(capture_begin(f.agg.captures, &req, &second, &e), e);
	third = begin(&f, NULL, WINDOW_NS + 1);
	CHECK(!fleet_wait_durable(&f, second) && !fleet_wait_durable(&f, third));
	snprintf(names[0], sizeof(names[0]), "%s", second->session);
	snprintf(names[1], sizeof(names[1]), "%s", third->session);
	left = fleet_left(&f, third->session);
	of_second = fleet_left(&f, second->session);
	json_array_extend(left, of_second);
	json_decref(of_second);
	fleet_stop(&f);

	fleet_start(&f, 0, 0);
	fleet_recover(&f, left);
	json_decref(left);
	c = capture_find(f.agg.captures, names[0]);
	CHECK(c && c->state == CAP_QUEUED && c->refine);
	CHECK(!capture_find(f.agg.captures, names[1])->refine);
	WAIT(&f, strstr(c->waits_for, "to connect after"));
	a = (struct fake){ .auto_arm = true, .has_profiler = true };
	fake_connect(&a, &f, "a");
	connected_ns = now_mono_ns();
	WAIT(&f, a.arms == 1);
	CHECK(now_mono_ns() - connected_ns < NS_PER_S);
	CHECK_EQ(captures_count(f.agg.captures).queued, 1);
	CHECK(capture_cancel(capture_find(f.agg.captures, a.session)));
	WAIT(&f, a.arms == 2);
	fleet_stop(&f);
}

/* A step comes while others have the profilers: that one is lost, a later one is not. */
static void test_steps(void)
{
	struct capture_request req = { .duration_ns = WINDOW_NS, .by_step = true, .at_step = 110 };
	struct fleet f;
	struct fake a = { .auto_arm = true, .has_profiler = true };
	struct capture *first, *number, *next;
	struct err e = { 0 };
	int64_t at_ns;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	first = begin(&f, NULL, LIMIT_DURATION_NS);
	CHECK_OK(capture_begin(f.agg.captures, &req, &number, &e), e);
	req.at_step = STEP_NEXT;
	req.n_steps = 4;
	CHECK_OK(capture_begin(f.agg.captures, &req, &next, &e), e);
	CHECK_EQ(number->state, CAP_ASKING); /* whether the step can be reached is not known yet */
	WAIT(&f, a.step_watches == 2);
	at_ns = session_clock_now(&f.agg.clock);
	fake_steps(&a, 100, at_ns, 100 * NS_PER_MS);
	WAIT(&f, number->state == CAP_QUEUED && next->state == CAP_QUEUED);
	CHECK_EQ(number->step_plan.begins_ns, at_ns + NS_PER_S);
	fleet_wait_over(&f, number->session);
	CHECK_EQ(number->error.code, ERR_BUSY);
	CHECK(strstr(number->error.msg,
		     "step 110 begins soon, but the capture has to wait for capture"));
	CHECK_STR(fleet_result(number, 0).reason, "step");
	CHECK_EQ(next->state, CAP_QUEUED);
	at_ns = session_clock_now(&f.agg.clock);
	fake_steps(&a, 111, at_ns, 500 * NS_PER_MS); /* slower now: time to look at it */
	snprintf(a.session, sizeof(a.session), "%s", first->session);
	fake_progress(&a, "uploading", 100);
	WAIT(&f, next->state == CAP_RUNNING && a.arms == 2);
	CHECK_EQ(a.t0_ns, next->step_plan.t0_ns);
	CHECK_EQ(next->step_plan.begins_ns, at_ns + (next->step_plan.step - 111) * 500 * NS_PER_MS);
	/* The marks show the end: 5 ms later than expected, and long before the window's. */
	at_ns = next->step_plan.ends_ns + 5 * NS_PER_MS;
	fake_steps(&a, next->step_plan.step + 4, at_ns, 500 * NS_PER_MS);
	WAIT(&f, a.stops);
	CHECK(a.t1_ns > at_ns && a.t1_ns < at_ns + 100 * NS_PER_MS);
	CHECK_EQ(next->t0_ns + next->duration_ns, a.t1_ns);
	fleet_stop(&f);
}

int main(void)
{
	test_same_request();
	test_different_requests();
	test_grace_of_what_is_shared();
	test_each_setting();
	test_each_option_of_a_client();
	test_first_come();
	test_cancelled();
	test_hosts_gone();
	test_patience();
	test_fits_before();
	test_later_begin();
	test_still_gathering();
	test_restart();
	test_steps();
	return 0;
}
