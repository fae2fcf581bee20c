/* SPDX-License-Identifier: Apache-2.0 */
/* What a profiler is asked for: the window in its words, and never a sleep that blocks its process. */
#include "proto/profiler_request.h"

#include "base/mem.h"
#include "base/now.h"
#include "proto/tensorflow/profiler_options.pb-c.h"
#include "proto/tensorflow/profiler_service.pb-c.h"
#include "tests/lib/check.h"

#define NOW	  (INT64_C(1800000000) * NS_PER_S)
#define WINDOW_NS (2 * NS_PER_S)

/* A request at NOW for a window that begins `ahead_ns` later. */
static Tensorflow__ProfileRequest *ask(int64_t ahead_ns, const void *options, size_t len)
{
	struct profiler_request r = {
		.options = options,
		.options_len = len,
		.t0_real_ns = NOW + ahead_ns,
		.t1_real_ns = NOW + ahead_ns + WINDOW_NS,
		.now_real_ns = NOW,
		.session = "s",
		.repository = "/r",
		.host = "h",
	};
	Tensorflow__ProfileRequest *m;
	struct buf out = BUF_INIT;
	struct err e;

	CHECK_OK(profiler_request_pack(&out, &r, &e), e);
	m = tensorflow__profile_request__unpack(NULL, out.len, out.data);
	CHECK(m);
	buf_release(&out);
	return m;
}

static void test_window(void)
{
	static const struct {
		int64_t ahead_ns, start_ns; /* start 0: at once */
	} cases[] = {
		{ NS_PER_S, NOW + NS_PER_S - PROFILER_LEAD_NS },
		{ PROFILER_LEAD_NS, 0 }, /* too late to sleep */
		{ 0, 0 },
		{ -NS_PER_S, 0 }, /* half over */
		{ -300, 0 }, /* its end is within a millisecond */
		{ 3600 * NS_PER_S, NOW + PROFILER_MAX_SLEEP_NS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Tensorflow__ProfileRequest *m = ask(cases[i].ahead_ns, NULL, 0);
		int64_t start = cases[i].start_ns ? cases[i].start_ns : NOW;
		int64_t stop = start + (int64_t)m->opts->duration_ms * NS_PER_MS;
		int64_t want = NOW + cases[i].ahead_ns + WINDOW_NS;

		CHECK_EQ(m->opts->start_timestamp_ns, cases[i].start_ns);
		CHECK(stop >= want + PROFILER_GUARD_NS);
		CHECK(stop <= want + PROFILER_GUARD_NS + NS_PER_MS);
		tensorflow__profile_request__free_unpacked(m, NULL);
	}
}

static void test_fields(void)
{
	Tensorflow__ProfileRequest *m = ask(0, NULL, 0);

	CHECK(m->emit_xspace);
	CHECK_STR(m->session_id, "s");
	CHECK_STR(m->repository_root, "/r");
	CHECK_STR(m->host_name, "h");
	tensorflow__profile_request__free_unpacked(m, NULL);
}

/* No options, or options that a stock server would ignore, are its defaults. */
static void test_default_options(void)
{
	static const uint8_t version0[] = { 4 << 3, 1 }; /* python_tracer_level 1 */

	for (size_t len = 0; len <= sizeof(version0); len += sizeof(version0)) {
		Tensorflow__ProfileRequest *m = ask(0, version0, len);

		CHECK_EQ(m->opts->version, 1);
		CHECK_EQ(m->opts->host_tracer_level, 2);
		CHECK_EQ(m->opts->python_tracer_level, 0);
		tensorflow__profile_request__free_unpacked(m, NULL);
	}
}

static void test_own_options(void)
{
	Tensorflow__ProfileOptions o = TENSORFLOW__PROFILE_OPTIONS__INIT;
	Tensorflow__ProfileRequest *m;
	uint8_t bytes[64];

	o.version = 1;
	o.python_tracer_level = 1;
	o.duration_ms = 77777; /* these two are ours to say */
	o.start_timestamp_ns = 1;
	m = ask(0, bytes, tensorflow__profile_options__pack(&o, bytes));
	CHECK_EQ(m->opts->python_tracer_level, 1);
	CHECK_EQ(m->opts->host_tracer_level, 0);
	CHECK(m->opts->duration_ms < 3000);
	CHECK_EQ(m->opts->start_timestamp_ns, 0);
	tensorflow__profile_request__free_unpacked(m, NULL);
}

static void test_bad_options(void)
{
	struct profiler_request r = { .options = "\xff", .options_len = 1 };
	struct buf out = BUF_INIT;
	struct err e;

	CHECK_EQ(profiler_request_pack(&out, &r, &e), ERR_INVALID);
	buf_release(&out);
}

static void test_session_names(void)
{
	char a[PROFILER_SESSION_BYTES], b[PROFILER_SESSION_BYTES];

	profiler_session_name("tutti_x", a);
	profiler_session_name("tutti_x", b);
	CHECK(!strncmp(a, "tutti_x_", 8));
	CHECK_EQ(strlen(a), 24);
	CHECK(strcmp(a, b));
}

int main(void)
{
	test_window();
	test_fields();
	test_default_options();
	test_own_options();
	test_bad_options();
	test_session_names();
	return 0;
}
