/* SPDX-License-Identifier: Apache-2.0 */
#include "base/helper.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"

struct helper {
	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock;
	pthread_cond_t on_change;
	/* under the lock: */
	helper_fn fn; /* what is under way, or NULL */
	void *arg;
	bool is_ended;
};

static void *run(void *arg)
{
	struct helper *h = arg;

	pthread_mutex_lock(&h->lock);
	for (;;) {
		while (!h->fn && !h->is_ended)
			pthread_cond_wait(&h->on_change, &h->lock);
		if (!h->fn)
			break;
		pthread_mutex_unlock(&h->lock);
		h->fn(h->arg); /* the owner changes them only when fn is NULL */
		pthread_mutex_lock(&h->lock);
		h->fn = NULL;
		pthread_cond_signal(&h->on_change);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

struct helper *helper_new(void)
{
	struct helper *h = xcalloc(1, sizeof(*h));
	sigset_t all, old;

	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->on_change, NULL);
	/* signals are for the threads that expect them */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	h->has_thread = !pthread_create(&h->thread, NULL, run, h);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return h;
}

static void wait_locked(struct helper *h)
{
	while (h->fn)
		pthread_cond_wait(&h->on_change, &h->lock);
}

void helper_start(struct helper *h, helper_fn fn, void *arg)
{
	if (!h || !h->has_thread) {
		fn(arg);
		return;
	}
	pthread_mutex_lock(&h->lock);
	wait_locked(h);
	h->fn = fn;
	h->arg = arg;
	pthread_cond_signal(&h->on_change);
	pthread_mutex_unlock(&h->lock);
}

void helper_wait(struct helper *h)
{
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	wait_locked(h);
	pthread_mutex_unlock(&h->lock);
}

void helper_free(struct helper *h)
{
	if (!h)
		return;
	if (h->has_thread) {
		pthread_mutex_lock(&h->lock);
		wait_locked(h);
		h->is_ended = true;
		pthread_cond_signal(&h->on_change);
		pthread_mutex_unlock(&h->lock);
		pthread_join(h->thread, NULL);
	}
	pthread_cond_destroy(&h->on_change);
	pthread_mutex_destroy(&h->lock);
	free(h);
}
