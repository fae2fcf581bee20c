/* SPDX-License-Identifier: Apache-2.0 */
#include "base/write_behind.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

#define PIECE_BYTES ((size_t)1 << 20)

struct write_behind {
	int fd;
	const char *name;
	struct buf filling; /* the caller's */
	pthread_t thread;
	bool has_thread; /* if it could not be started, the caller writes */
	pthread_mutex_t lock;
	pthread_cond_t on_change;
	/* under the lock; while `writing` is not empty it is the thread's: */
	struct buf writing;
	bool is_ended;
	int rc; /* of the first write that failed: nothing is written after it */
	struct err why;
};

static void *run(void *arg)
{
	struct write_behind *w = arg;
	struct err e;
	int rc;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		while (!w->writing.len && !w->is_ended)
			pthread_cond_wait(&w->on_change, &w->lock);
		if (!w->writing.len || w->is_ended)
			break;
		pthread_mutex_unlock(&w->lock);
		rc = file_write_all(w->fd, w->writing.data, w->writing.len, w->name, &e);
		pthread_mutex_lock(&w->lock);
		if (rc) {
			w->rc = rc;
			w->why = e;
		}
		buf_reset(&w->writing);
		pthread_cond_signal(&w->on_change);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

struct write_behind *write_behind_new(int fd, const char *name)
{
	struct write_behind *w = xcalloc(1, sizeof(*w));
	sigset_t all, old;

	w->fd = fd;
	w->name = name;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->on_change, NULL);
	/* signals are for the threads that expect them */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	w->has_thread = !pthread_create(&w->thread, NULL, run, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return w;
}

/* Waits for the thread, then gives it what was filled. */
static int hand_over(struct write_behind *w, struct err *e)
{
	struct buf filled = w->filling;
	int rc;

	pthread_mutex_lock(&w->lock);
	while (w->writing.len)
		pthread_cond_wait(&w->on_change, &w->lock);
	rc = w->rc;
	if (rc && e)
		*e = w->why;
	if (!rc) {
		w->filling = w->writing;
		w->writing = filled;
		pthread_cond_signal(&w->on_change);
	}
	pthread_mutex_unlock(&w->lock);
	return rc;
}

static int write_here(struct write_behind *w, struct err *e)
{
	int rc = file_write_all(w->fd, w->filling.data, w->filling.len, w->name, e);

	buf_reset(&w->filling);
	return rc;
}

int write_behind_add(struct write_behind *w, const void *data, size_t len, struct err *e)
{
	if (len >= PIECE_BYTES) {
		int rc = write_behind_flush(w, e);

		return rc ? rc : file_write_all(w->fd, data, len, w->name, e);
	}
	buf_add(&w->filling, data, len);
	if (w->filling.len < PIECE_BYTES)
		return 0;
	return w->has_thread ? hand_over(w, e) : write_here(w, e);
}

int write_behind_flush(struct write_behind *w, struct err *e)
{
	/* the first time waits for what was written before, the second for what was filled: now both are empty */
	int rc = w->has_thread ? hand_over(w, e) : write_here(w, e);

	return rc || !w->has_thread ? rc : hand_over(w, e);
}

void write_behind_free(struct write_behind *w)
{
	if (!w)
		return;
	if (w->has_thread) {
		pthread_mutex_lock(&w->lock);
		w->is_ended = true;
		pthread_cond_signal(&w->on_change);
		pthread_mutex_unlock(&w->lock);
		pthread_join(w->thread, NULL);
	}
	pthread_cond_destroy(&w->on_change);
	pthread_mutex_destroy(&w->lock);
	buf_release(&w->filling);
	buf_release(&w->writing);
	free(w);
}
