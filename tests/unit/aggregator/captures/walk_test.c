/* SPDX-License-Identifier: Apache-2.0 */
/* Work on all hosts of a large capture is bounded in each turn of the loop. */
#include "aggregator/captures/capture_impl.h"

#include "base/mem.h"
#include "proto/reasons.h"
#include "tests/lib/check.h"

#define HOSTS (2 * CAPTURE_TURN_HOSTS + 500)

static size_t asked, asked_second;

static bool wants(const struct capture_host *h)
{
	CHECK_STR(h->name, "");
	asked++;
	return true;
}

/* Begins only when the first walk is at its end. */
static bool wants_second(const struct capture_host *h)
{
	(void)h;
	CHECK_EQ(asked, HOSTS);
	asked_second++;
	return false;
}

static struct capture *capture_of(struct captures *cs, size_t hosts)
{
	struct capture *c = capture_new(cs);

	capture_new_hosts(c, hosts);
	c->settings = json_object();
	asked = asked_second = 0;
	return c;
}

static void send(struct capture *c, bool (*fn)(const struct capture_host *h))
{
	struct buf message = BUF_INIT;

	buf_add_str(&message, "message");
	capture_send(c, &message, fn);
	CHECK(!message.data);
}

static void test_slices(struct captures *cs)
{
	struct capture *c = capture_of(cs, HOSTS);
	size_t before = 0;

	send(c, wants);
	send(c, wants_second);
	CHECK_EQ(asked, 0); /* what begins a walk may have done much for all hosts itself */
	for (int turns = 0; asked_second < HOSTS; turns++) {
		size_t n;

		loop_turn(cs->env.loop, 1000);
		n = asked + asked_second;
		CHECK(turns < 10);
		CHECK(n > before && n - before <= CAPTURE_TURN_HOSTS);
		before = n;
	}
	CHECK_EQ(asked, HOSTS);
	capture_end_walks(c);
	capture_free(c);
}

/* Of few hosts before it returns. */
static void test_at_once(struct captures *cs)
{
	struct capture *c = capture_of(cs, 3);

	send(c, wants);
	CHECK_EQ(asked, 3);
	CHECK(!loop_timer_armed(&c->walk_timer));
	capture_free(c);
}

/* A capture that is freed leaves nothing behind. */
static void test_end(struct captures *cs)
{
	struct capture *c = capture_of(cs, HOSTS);

	send(c, wants);
	send(c, wants_second);
	capture_end_walks(c);
	CHECK_EQ(asked_second, HOSTS);
	CHECK(!loop_timer_armed(&c->walk_timer));
	capture_free(c);
}

static bool is_not_first(const struct capture_host *h)
{
	return h != h->capture->hosts;
}

/* All at once, and nothing is sent or kept for each of them. */
static void test_fail(struct captures *cs)
{
	struct capture *c = capture_of(cs, HOSTS);

	c->state = CAP_RUNNING;
	c->hosts[1].stored = true;
	capture_fail_hosts(c, is_not_first, REASON_STORE, "the store is away");
	CHECK_EQ(c->n_ended, HOSTS - 1);
	CHECK_EQ(c->hosts[0].state, HOST_ARMING);
	CHECK_EQ(c->hosts[1].state, HOST_PARTIAL);
	CHECK_EQ(c->hosts[HOSTS - 1].state, HOST_FAILED);
	CHECK(c->hosts[2].detail == c->hosts[HOSTS - 1].detail);
	CHECK(TAILQ_EMPTY(&c->walks));
	capture_fail_hosts(c, is_not_first, REASON_LOST, "too late");
	CHECK_STR(c->hosts[2].reason, REASON_STORE);
	capture_free(c);
}

/* A copy for a worker has to stay cheap: it is made on the loop. */
static void test_size(void)
{
	CHECK(sizeof(struct capture_host) <= 512);
}

int main(void)
{
	struct captures cs = { 0 };
	struct jobs jobs = { 0 };
	struct err e = { 0 };

	CHECK_OK(loop_new(&cs.env.loop, 1, &e), e);
	cs.env.registry = registry_new(cs.env.loop);
	cs.env.jobs = &jobs;
	jobs.loop = cs.env.loop;
	test_slices(&cs);
	test_at_once(&cs);
	test_end(&cs);
	test_fail(&cs);
	test_size();
	jobs_drain(&jobs);
	registry_free(cs.env.registry);
	loop_free(cs.env.loop);
	return 0;
}
