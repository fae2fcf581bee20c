/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/local_impl.h"

#define WAIT_S 1

/* Shared by the thread that closes the socket and the thread that waits for it. */
struct closing {
	void (*fn)(void *arg);
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t on_end;
	bool ended;
	atomic_int refs;
};

static void unref(struct closing *c)
{
	if (atomic_fetch_sub(&c->refs, 1) > 1)
		return;
	pthread_cond_destroy(&c->on_end);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static struct closing *closing_new(void (*fn)(void *arg), void *arg)
{
	struct closing *c = xcalloc(1, sizeof(*c));
	pthread_condattr_t attr;

	c->fn = fn;
	c->arg = arg;
	atomic_init(&c->refs, 2);
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->on_end, &attr);
	pthread_condattr_destroy(&attr);
	return c;
}

static void *run(void *arg)
{
	struct closing *c = arg;

	c->fn(c->arg);
	pthread_mutex_lock(&c->lock);
	c->ended = true;
	pthread_cond_signal(&c->on_end);
	pthread_mutex_unlock(&c->lock);
	unref(c);
	return NULL;
}

static void wait_for_end(struct closing *c)
{
	int64_t until_ns = now_mono_ns() + WAIT_S * NS_PER_S;
	const struct timespec until = { until_ns / NS_PER_S, until_ns % NS_PER_S };
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	while (!c->ended && !rc)
		rc = pthread_cond_timedwait(&c->on_end, &c->lock, &until);
	if (!c->ended)
		log_warn("LOCAL-STUCK", "reason=\"an nng socket does not close; it is leaked\"");
	pthread_mutex_unlock(&c->lock);
}

void local_close_on_thread(void (*fn)(void *arg), void *arg)
{
	struct closing *c = closing_new(fn, arg);
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, c)) {
		run(c);
	} else {
		pthread_detach(thread);
		wait_for_end(c);
	}
	unref(c);
}
