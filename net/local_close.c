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

/* Held by who closes and by who waits. */
struct closing {
	void (*fn)(void *arg);
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool is_over;
	atomic_int refs;
};

static void unref(struct closing *c)
{
	if (atomic_fetch_sub(&c->refs, 1) > 1)
		return;
	pthread_cond_destroy(&c->ended);
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
	pthread_cond_init(&c->ended, &attr);
	pthread_condattr_destroy(&attr);
	return c;
}

static void *run(void *arg)
{
	struct closing *c = arg;

	c->fn(c->arg);
	pthread_mutex_lock(&c->lock);
	c->is_over = true;
	pthread_cond_signal(&c->ended);
	pthread_mutex_unlock(&c->lock);
	unref(c);
	return NULL;
}

static void await(struct closing *c)
{
	int64_t until_ns = now_mono_ns() + WAIT_S * NS_PER_S;
	const struct timespec until = { until_ns / NS_PER_S, until_ns % NS_PER_S };
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	while (!c->is_over && !rc)
		rc = pthread_cond_timedwait(&c->ended, &c->lock, &until);
	if (!c->is_over)
		log_warn("DOOR-STUCK", "reason=\"a socket of nng's does not close; left behind\"");
	pthread_mutex_unlock(&c->lock);
}

void local_close_apart(void (*fn)(void *arg), void *arg)
{
	struct closing *c = closing_new(fn, arg);
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, c)) {
		run(c);
	} else {
		pthread_detach(thread);
		await(c);
	}
	unref(c);
}
