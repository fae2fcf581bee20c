/* SPDX-License-Identifier: Apache-2.0 */
/* The completion queue, the thread that waits on it, and the return of tags to the loop. */
#include <assert.h>
#include <signal.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc_impl.h"

#define TAGS_PER_TURN 64 /* most tags delivered in one turn of the loop */
/* while this many tags wait to be taken by the loop, core is not asked for more: it reads no socket */
#define DONE_MAX 64
/* after core has returned all requests, it is asked for more when it has so many again */
#define REQUESTS_LEAST 256
#define FREE_LIMIT_NS  (10 * NS_PER_S)
#define END_LIMIT_NS   NS_PER_S
/* see next_event() */
#define CROWD	     512 /* calls of a fleet */
#define PAUSE_NS     (5 * NS_PER_MS)
#define EMPTY_ROUNDS 2

void rpc_tag_arm(struct rpc_tag *tag)
{
	assert(!atomic_load_explicit(&tag->armed, memory_order_relaxed));
	atomic_store_explicit(&tag->armed, true, memory_order_release);
}

void rpc_request_armed(struct rpc *r)
{
	pthread_mutex_lock(&r->lock);
	if (++r->n_requests == REQUESTS_LEAST)
		pthread_cond_signal(&r->room);
	pthread_mutex_unlock(&r->lock);
}

void rpc_set_serving(struct rpc *r, bool is_serving)
{
	pthread_mutex_lock(&r->lock);
	r->n_serving += is_serving ? 1 : -1;
	pthread_cond_signal(&r->room);
	pthread_mutex_unlock(&r->lock);
}

/* All at once: to wake core's thread for each would cost as much as most tags do. */
static void take_done(struct rpc *r)
{
	pthread_mutex_lock(&r->lock);
	r->taken = r->done;
	r->done = NULL;
	r->done_tail = &r->done;
	if (r->n_done >= DONE_MAX)
		pthread_cond_signal(&r->room);
	r->n_done = 0;
	pthread_mutex_unlock(&r->lock);
}

static struct rpc_tag *pop(struct rpc *r)
{
	struct rpc_tag *tag;

	if (!r->taken)
		take_done(r);
	tag = r->taken;
	if (tag)
		r->taken = tag->next;
	return tag;
}

static bool deliver_one(struct rpc *r)
{
	struct rpc_tag *tag = pop(r);

	if (!tag)
		return false;
	loop_turn_name(r->loop, (uintptr_t)tag->fn);
	tag->fn(tag->arg, tag->ok);
	return true;
}

static void on_posted(void *arg)
{
	struct rpc *r = arg;
	bool more;

	if (r->freed) {
		free(r);
		return;
	}
	for (int i = 0; i < TAGS_PER_TURN && deliver_one(r); i++) {
		if (loop_turn_is_over(r->loop))
			break;
	}
	pthread_mutex_lock(&r->lock);
	more = r->taken || r->done;
	r->posted = more;
	pthread_mutex_unlock(&r->lock);
	if (more)
		loop_post(r->loop, on_posted, r);
}

static void push(struct rpc *r, struct rpc_tag *tag, bool ok)
{
	bool post;

	tag->ok = ok;
	tag->next = NULL;
	atomic_store_explicit(&tag->armed, false, memory_order_relaxed);
	pthread_mutex_lock(&r->lock);
	*r->done_tail = tag;
	r->done_tail = &tag->next;
	r->n_done++;
	r->n_requests -= tag->is_request;
	post = !r->posted;
	r->posted = true;
	pthread_mutex_unlock(&r->lock);
	if (post)
		loop_post(r->loop, on_posted, r);
}

void rpc_tag_fail(struct rpc *r, struct rpc_tag *tag)
{
	push(r, tag, false);
}

/*
 * Core reads sockets only inside grpc_completion_queue_next(), and only when it has nothing to return. It keeps any number
 * of calls that were not requested yet, and each takes 11 kB. So that function is called no faster than the loop processes
 * its results; and not while core has no request, because one more read may bring a thousand calls.
 */
static void await_room(struct rpc *r)
{
	bool is_short;

	pthread_mutex_lock(&r->lock);
	is_short = r->n_requests <= 0;
	while (!r->ending && (r->n_done >= DONE_MAX ||
			      (is_short && r->n_serving && r->n_requests < REQUESTS_LEAST)))
		pthread_cond_wait(&r->room, &r->lock);
	pthread_mutex_unlock(&r->lock);
}

static grpc_event ask_core(struct rpc *r, gpr_timespec until)
{
	grpc_event ev = grpc_completion_queue_next(r->cq, until, NULL);

	atomic_fetch_add(&r->work.returns, 1);
	return ev;
}

static bool is_crowded(struct rpc *r)
{
	return atomic_load(&r->n_served) >= CROWD && !atomic_load(&r->n_hurried);
}

/*
 * Hosts of a fleet answer within seconds, each by itself: results come some 0.1 ms apart. Each would wake this thread and
 * then the loop, and what the loop sends would wake this thread: with 10,000 hosts that was a third of a capture's CPU
 * time. So where results come that fast, this thread does not wait in core for the next one, but first lets some come,
 * and need not be woken meanwhile. One that comes alone is not delayed.
 */
static grpc_event next_event(struct rpc *r, int64_t *last_ns)
{
	const int64_t before_ns = *last_ns;
	grpc_event ev = { .type = GRPC_QUEUE_TIMEOUT };

	*last_ns = now_mono_ns();
	if (is_crowded(r) && *last_ns - before_ns < 2 * PAUSE_NS) {
		/* A round of core may do something that has no result: read what only says that the peer reads. */
		for (int i = 0; i < EMPTY_ROUNDS && ev.type == GRPC_QUEUE_TIMEOUT; i++)
			ev = ask_core(r, gpr_inf_past(GPR_CLOCK_MONOTONIC));
		if (ev.type == GRPC_QUEUE_TIMEOUT)
			now_sleep_until_mono(now_mono_ns() + PAUSE_NS);
	}
	if (ev.type == GRPC_QUEUE_TIMEOUT)
		ev = ask_core(r, gpr_inf_future(GPR_CLOCK_MONOTONIC));
	return ev;
}

static void *queue_thread(void *arg)
{
	struct rpc *r = arg;
	int64_t last_ns = 0;

	rpc_work_begin(r);
	for (;;) {
		grpc_event ev = next_event(r, &last_ns);
		struct rpc_tag *tag = ev.tag;
		bool armed;

		if (ev.type == GRPC_QUEUE_SHUTDOWN)
			break;
		armed = atomic_load_explicit(&tag->armed, memory_order_acquire);
		assert(armed);
		push(r, tag, ev.success);
		await_room(r);
	}
	rpc_work_end(r);
	return NULL;
}

bool rpc_wait(struct rpc *r, bool (*until)(void *arg), void *arg, int64_t limit_ns)
{
	int64_t end = now_mono_ns() + limit_ns;

	while (!until(arg)) {
		if (now_mono_ns() > end)
			return false;
		/* Also delivers here: this may run inside the post that would otherwise deliver. */
		for (int i = 0; i < TAGS_PER_TURN && deliver_one(r); i++)
			;
		if (!until(arg))
			loop_turn(r->loop, 10);
	}
	return true;
}

int rpc_new(struct rpc **out, struct loop *loop, struct err *e)
{
	struct rpc *r = xcalloc(1, sizeof(*r));
	sigset_t all, old;
	int rc;

	r->loop = loop;
	rc = rpc_work_watch(r, e);
	if (rc) {
		free(r);
		return rc;
	}
	r->done_tail = &r->done;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->room, NULL);
	rpc_log_hook();
	rpc_unidentified_trace();
	rpc_locks_stop_checks();
	/* Core 1.51 would keep 8 KiB for each connection to read into, whatever GRPC_ARG_TCP_READ_CHUNK_SIZE says. */
	setenv("GRPC_EXPERIMENTS", "-tcp_read_chunks", 0);
	/* The loop handles signals; core's threads and this one block them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	grpc_init();
	r->cq = grpc_completion_queue_create_for_next(NULL);
	rc = pthread_create(&r->thread, NULL, queue_thread, r);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc) {
		grpc_completion_queue_shutdown(r->cq);
		grpc_completion_queue_destroy(r->cq);
		grpc_shutdown_blocking();
		pthread_cond_destroy(&r->room);
		pthread_mutex_destroy(&r->lock);
		rpc_work_unwatch(r);
		free(r);
		return err_set(e, ERR_IO, "starting the gRPC thread failed");
	}
	*out = r;
	return 0;
}

static bool no_calls(void *arg)
{
	struct rpc *r = arg;

	return r->n_calls == 0;
}

/* A channel that is freed while it connects keeps core's threads for a moment. One of them in OpenSSL while the process ends
 * uses what OpenSSL has freed. */
static void await_end_of_core(void)
{
	int64_t limit_ns = now_mono_ns() + END_LIMIT_NS;

	while (grpc_is_initialized() && now_mono_ns() < limit_ns)
		now_sleep_until_mono(now_mono_ns() + NS_PER_MS);
}

void rpc_free(struct rpc *r)
{
	if (!r)
		return;
	if (!rpc_wait(r, no_calls, r, FREE_LIMIT_NS)) {
		/* Core still has their tags and may write to them: they cannot be freed. */
		log_error("NET-GRPC", "calls=%zu reason=\"still open, not freed\"", r->n_calls);
		return;
	}
	pthread_mutex_lock(&r->lock);
	r->ending = true;
	pthread_cond_signal(&r->room);
	pthread_mutex_unlock(&r->lock);
	grpc_completion_queue_shutdown(r->cq);
	pthread_join(r->thread, NULL);
	rpc_work_unwatch(r);
	grpc_completion_queue_destroy(r->cq);
	grpc_shutdown_blocking();
	await_end_of_core();
	pthread_cond_destroy(&r->room);
	pthread_mutex_destroy(&r->lock);
	if (r->posted)
		r->freed = true; /* on_posted() frees */
	else
		free(r);
}
