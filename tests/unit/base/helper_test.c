/* SPDX-License-Identifier: Apache-2.0 */
#include "base/helper.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "tests/lib/check.h"

#define TURNS 20000

struct work {
	pthread_t by;
	uint64_t sum, last;
	bool blocks_signals;
};

static void add_one(void *arg)
{
	struct work *w = arg;
	sigset_t blocked;

	w->by = pthread_self();
	w->sum += ++w->last;
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	w->blocks_signals = sigismember(&blocked, SIGTERM) == 1;
}

/* One thing after the other, each of them once, on another thread; what it did is seen when it was waited for. */
static void test_order(void)
{
	struct helper *h = helper_new();
	struct work w = { 0 };

	helper_wait(h);
	for (uint64_t i = 1; i <= TURNS; i++) {
		helper_start(h, add_one, &w);
		if (i % 3)
			continue;
		helper_wait(h);
		helper_wait(h);
		CHECK_EQ(w.sum, i * (i + 1) / 2);
	}
	helper_free(h);
	CHECK_EQ(w.last, TURNS);
	CHECK(!pthread_equal(w.by, pthread_self()));
	CHECK(w.blocks_signals);
}

/* Without a helper it is done at once. */
static void test_none(void)
{
	struct work w = { 0 };

	helper_start(NULL, add_one, &w);
	CHECK_EQ(w.last, 1);
	CHECK(pthread_equal(w.by, pthread_self()));
	helper_wait(NULL);
	helper_free(NULL);
}

static void test_unused(void)
{
	helper_free(helper_new());
}

int main(void)
{
	test_order();
	test_none();
	test_unused();
	return 0;
}
