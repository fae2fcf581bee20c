/* SPDX-License-Identifier: Apache-2.0 */
/* What one caller may have at a time: how starts come back, whose captures count, and which names are remembered. */
#include "aggregator/api/limits.h"

#include "aggregator/api/api_impl.h"
#include "base/mem.h"
#include "tests/unit/aggregator/fleet.h"

static struct fake agent = { .auto_arm = true };

static struct limits *limits_of(struct fleet *f, const struct limits_conf *conf)
{
	return limits_new(conf, f->agg.captures, f->agg.api->events);
}

/* Whether he may start something now; it is over at once. */
static bool starts(struct limits *l, const char *name)
{
	int retry_s = 0;
	int rc = limits_start(l, name, &retry_s, NULL);

	if (!rc)
		limits_end_start(l, name);
	else
		CHECK(rc == ERR_LIMIT && retry_s >= 1 && retry_s <= 60);
	return !rc;
}

/* ---- starts a minute ---- */

/* So many at once, then one each sixth of a minute, for as long as he tries. */
static void test_rate(struct fleet *f)
{
	const struct limits_conf conf = { .starts = 6 };
	struct limits *l = limits_of(f, &conf);
	int n = 0, retry_s;
	struct err e;

	for (int i = 0; i < 6; i++)
		CHECK(starts(l, "ada"));
	CHECK_EQ(limits_start(l, "ada", &retry_s, &e), ERR_LIMIT);
	CHECK(strstr(e.msg, "limit-starts") && strstr(e.msg, "ada"));
	CHECK(retry_s == 10 || retry_s == 11);
	for (int i = 0; i < 6; i++)
		CHECK(starts(l, "bob")); /* his own */
	run_for(f->loop, 9 * NS_PER_S);
	CHECK(!starts(l, "ada"));
	run_for(f->loop, 1100 * NS_PER_MS);
	CHECK(starts(l, "ada"));
	CHECK(!starts(l, "ada"));
	for (int i = 0; i < 600; i++) { /* ten minutes, a try a second */
		run_for(f->loop, NS_PER_S);
		n += starts(l, "ada");
	}
	CHECK(n >= 59 && n <= 61);
	run_for(f->loop, 3600 * NS_PER_S); /* no more than a minute's are saved up */
	for (int i = 0; i < 6; i++)
		CHECK(starts(l, "ada"));
	CHECK(!starts(l, "ada"));
	limits_free(l);
}

/* When he is told to come again, he may. */
static void test_retry_after(struct fleet *f)
{
	for (int per_minute = 1; per_minute <= 120; per_minute = 2 * per_minute + 1) {
		const struct limits_conf conf = { .starts = per_minute };
		struct limits *l = limits_of(f, &conf);
		int retry_s;

		for (int i = 0; i < per_minute; i++)
			CHECK(starts(l, ""));
		CHECK_EQ(limits_start(l, "", &retry_s, NULL), ERR_LIMIT);
		run_for(f->loop, retry_s * NS_PER_S);
		CHECK(starts(l, ""));
		limits_free(l);
	}
}

/* ---- captures under way ---- */

static struct capture *begin_by(struct fleet *f, const char *owner)
{
	const struct capture_request req = { .duration_ns = 10 * NS_PER_MS,
					     .origin = "test",
					     .owner = owner };
	struct err e = { 0 };
	struct capture *c;

	CHECK_OK(capture_begin(f->agg.captures, &req, &c, &e), e);
	return c;
}

static void cancel(struct fleet *f, struct capture *c)
{
	CHECK(capture_cancel(c));
	fleet_wait_over(f, c->session);
}

/* A start counts from its admission on, and the capture that it is from then until its end. */
static void test_captures(struct fleet *f)
{
	const struct limits_conf conf = { .captures = 2 };
	struct limits *l = limits_of(f, &conf);
	struct capture *c;
	int retry_s;
	struct err e;

	CHECK_EQ(limits_start(l, "ada", &retry_s, NULL), 0);
	CHECK_EQ(limits_start(l, "ada", &retry_s, NULL), 0);
	CHECK_EQ(limits_start(l, "ada", &retry_s, &e), ERR_LIMIT);
	CHECK(strstr(e.msg, "limit-captures") && strstr(e.msg, "2 captures"));
	CHECK(starts(l, "bob") && starts(l, ""));
	c = begin_by(f, "ada");
	limits_end_start(l, "ada");
	CHECK(!starts(l, "ada"));
	limits_end_start(l, "ada"); /* the other one came to nothing */
	CHECK(starts(l, "ada"));
	limits_end_start(l, "ada"); /* one end too many takes nothing away */
	CHECK_EQ(limits_start(l, "ada", &retry_s, NULL), 0);
	CHECK(!starts(l, "ada"));
	c->retried_by = xstrdup(
		"bob"); /* it is a retry now: whoever began the session, it counts for him */
	CHECK(starts(l, "ada"));
	CHECK_EQ(limits_start(l, "bob", &retry_s, NULL), 0);
	CHECK(!starts(l, "bob"));
	cancel(f, c);
	CHECK(starts(l, "bob"));
	limits_free(l);
}

/* Hosts' announcements count, of his captures. */
static void test_bytes(struct fleet *f)
{
	const struct limits_conf conf = { .bytes = 100 };
	struct limits *l = limits_of(f, &conf);
	struct capture *c;
	int retry_s;
	struct err e;

	c = begin_by(f, "ada");
	WAIT(f, fleet_host_is(c, 0, "armed"));
	fake_progress(&agent, "uploading", 99);
	WAIT(f, fleet_host_is(c, 0, "uploading"));
	CHECK(starts(l, "ada"));
	fake_progress(&agent, "uploading", 100);
	WAIT(f, c->hosts[0].bytes == 100);
	CHECK_EQ(limits_start(l, "ada", &retry_s, &e), ERR_LIMIT);
	CHECK(strstr(e.msg, "limit-bytes"));
	CHECK(starts(l, "bob"));
	cancel(f, c);
	CHECK(starts(l, "ada"));
	limits_free(l);
}

/* ---- names ---- */

/* A name more than are remembered takes the place of the one that started longest ago, and none that starts something. */
static void test_names(struct fleet *f)
{
	const struct limits_conf conf = { .starts = 1, .captures = 1 };
	struct limits *l = limits_of(f, &conf);
	char name[32];
	int retry_s;

	CHECK_EQ(limits_start(l, "busy", &retry_s, NULL), 0);
	for (int i = 0; i < LIMITS_NAMES - 1; i++) {
		run_for(f->loop, NS_PER_MS);
		snprintf(name, sizeof(name), "name-%d", i);
		CHECK(starts(l, name));
	}
	CHECK(starts(l, "one-more")); /* instead of name-0 */
	CHECK(!starts(l, "busy"));
	CHECK(!starts(l, "name-1"));
	CHECK(!starts(l, "one-more"));
	CHECK(starts(l, "name-0"));
	limits_free(l);
}

static void test_none(struct fleet *f)
{
	const struct limits_conf conf = { 0 };
	struct limits *l = limits_of(f, &conf);
	int retry_s;

	for (int i = 0; i < 1000; i++)
		CHECK_EQ(limits_start(l, "ada", &retry_s, NULL), 0);
	CHECK_EQ(limits_stream(l, "ada", &retry_s, NULL), 0);
	limits_free(l);
}

int main(void)
{
	struct fleet f;

	fleet_start(&f, 0, 0);
	fake_connect(&agent, &f, "a");
	test_rate(&f);
	test_retry_after(&f);
	test_bytes(&f);
	test_captures(&f);
	test_names(&f);
	test_none(&f);
	fleet_stop(&f);
	return 0;
}
