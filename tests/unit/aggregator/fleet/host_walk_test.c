/* SPDX-License-Identifier: Apache-2.0 */
/* Work on all hosts of a large fleet, over several turns, while hosts come and go. */
#include "aggregator/fleet/host_walk.h"

#include <stdio.h>
#include <string.h>

#include "aggregator/fleet/registry.h"
#include "base/mem.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"

#define HOSTS 450

struct bed {
	struct loop *loop;
	struct registry *registry;
	struct host_walk walk;
	size_t visited, done;
	char last[16];
};

static void visit(void *arg, struct host *h)
{
	struct bed *b = arg;

	CHECK(strcmp(b->last, h->name) < 0);
	snprintf(b->last, sizeof(b->last), "%s", h->name);
	b->visited++;
}

static void on_done(void *arg)
{
	((struct bed *)arg)->done++;
}

static void add_hosts(struct bed *b, size_t n)
{
	char name[32];

	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "h%03zu", i);
		registry_add(b->registry, name);
	}
}

static void bed_new(struct bed *b, size_t hosts)
{
	struct err e;

	*b = (struct bed){ 0 };
	CHECK_OK(loop_new(&b->loop, 1, &e), e);
	b->registry = registry_new(b->loop);
	add_hosts(b, hosts);
	b->walk = (struct host_walk){
		.loop = b->loop, .registry = b->registry, .visit = visit, .done = on_done, .arg = b
	};
}

static void bed_free(struct bed *b)
{
	host_walk_cancel(&b->walk);
	registry_free(b->registry);
	loop_free(b->loop);
}

/* The host at which the walk stopped is removed, and one is added behind it. */
static void test_slices(void)
{
	struct bed b;
	size_t first;

	bed_new(&b, HOSTS);
	host_walk_begin(&b.walk);
	first = b.visited;
	CHECK(first > 0 && first < HOSTS / 2 && !b.done);
	registry_remove(b.registry, registry_find(b.registry, b.last));
	registry_add(b.registry, "x");
	RUN_UNTIL(b.loop, b.done);
	CHECK_EQ(b.visited, HOSTS + 1);
	CHECK_EQ(b.done, 1);
	CHECK_STR(b.last, "x");
	bed_free(&b);
}

static void test_few(void)
{
	struct bed b;

	bed_new(&b, 3);
	host_walk_begin(&b.walk);
	CHECK(b.visited == 3 && b.done == 1);
	b.last[0] = '\0';
	host_walk_begin(&b.walk);
	CHECK(b.visited == 6 && b.done == 2);
	bed_free(&b);
	bed_new(&b, 0);
	host_walk_begin(&b.walk);
	CHECK(!b.visited && b.done == 1);
	bed_free(&b);
}

/* Begun again, it begins with the first host; cancelled, it visits none any more. */
static void test_again(void)
{
	struct bed b;
	size_t first;

	bed_new(&b, HOSTS);
	host_walk_begin(&b.walk);
	first = b.visited;
	b.last[0] = '\0';
	host_walk_begin(&b.walk);
	CHECK_EQ(b.visited, 2 * first);
	host_walk_cancel(&b.walk);
	CHECK(!loop_timer_armed(&b.walk.timer) && !b.walk.last);
	bed_free(&b);
}

int main(void)
{
	test_slices();
	test_few();
	test_again();
	return 0;
}
