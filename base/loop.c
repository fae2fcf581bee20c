/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop_impl.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/now.h"

/* One struct for work and posts: a post is a task whose `run` has nothing to do any more. */
struct task {
	loop_fn run;
	loop_fn done;
	void *arg;
	struct loop_account *account;
	int64_t run_cpu_ns; /* of `run`, if it has an account */
	struct task *next;
};

struct queue {
	struct task *head;
	struct task **tail;
};

struct loop_watch {
	struct loop *loop;
	int fd;
	loop_fd_fn fn;
	void *arg;
	struct loop_account *account;
	struct loop_watch *next_dead;
};

struct loop {
	int epoll_fd;
	int event_fd; /* something was posted */
	int timer_fd; /* the earliest timer */
	int signal_fd; /* -1 until loop_on_stop_signal() */
	int64_t now_ns;
	atomic_bool stopping;
	struct loop_watch wake, tick, signal;
	loop_fn on_stop;
	void *on_stop_arg;
	/* what epoll reported last, in its order; a turn that is over leaves the rest to the next one */
	struct epoll_event ready[64];
	int n_ready, next_ready;
	struct loop_watch *dead; /* unwatched, freed when `ready` cannot refer to them any more */
	int depth; /* depth of nested turns: a callback may turn the loop to wait */
	struct loop_turn turn; /* this one */
	struct loop_turns turns;
	struct loop_accounts accounts;

	struct loop_timer **heap;
	size_t n_timers, heap_cap;
	int64_t armed_ns; /* the timer fd's time; 0 = none; -1 = it has expired and is still readable */

	pthread_mutex_t lock; /* guards the four below */
	struct queue posted, work;
	size_t n_posted;
	bool closing;
	pthread_cond_t work_ready;
	pthread_t *workers;
	int n_workers;
};

static void queue_init(struct queue *q)
{
	q->head = NULL;
	q->tail = &q->head;
}

static void queue_add(struct queue *q, struct task *t)
{
	t->next = NULL;
	*q->tail = t;
	q->tail = &t->next;
}

static struct task *queue_take(struct queue *q)
{
	struct task *t = q->head;

	if (t) {
		q->head = t->next;
		if (!q->head)
			q->tail = &q->head;
	}
	return t;
}

static void wake(struct loop *l)
{
	uint64_t one = 1;

	while (write(l->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* The event fd is readable, or soon will be, whenever a task is posted. */
static void post_task(struct loop *l, struct task *t)
{
	bool first;

	pthread_mutex_lock(&l->lock);
	first = !l->posted.head;
	queue_add(&l->posted, t);
	l->n_posted++;
	pthread_mutex_unlock(&l->lock);
	if (first)
		wake(l);
}

/* ---- accounts ---- */

struct loop_account *loop_account_new(struct loop *l)
{
	return loop_accounts_add(&l->accounts);
}

struct loop_account *loop_account_enter(struct loop *l, struct loop_account *a)
{
	return loop_accounts_enter(&l->accounts, a);
}

void loop_account_add(struct loop *l, int64_t cpu_ns)
{
	loop_charge_add(l->accounts.entered, cpu_ns);
}

/* ---- posts and work ---- */

static struct task *task_new(loop_fn run, loop_fn done, void *arg)
{
	struct task *t = xmalloc(sizeof(*t));

	*t = (struct task){ .run = run, .done = done, .arg = arg };
	return t;
}

void loop_post(struct loop *l, loop_fn fn, void *arg)
{
	post_task(l, task_new(NULL, fn, arg));
}

void loop_work(struct loop *l, loop_fn run, loop_fn done, void *arg)
{
	struct task *t = task_new(run, done, arg);

	t->account = l->accounts.entered;
	pthread_mutex_lock(&l->lock);
	queue_add(&l->work, t);
	pthread_cond_signal(&l->work_ready);
	pthread_mutex_unlock(&l->lock);
}

/* On a worker. Only measures the CPU time: the loop's thread owns the account, and adds the time later. */
static void run_task(struct task *t)
{
	int64_t began_cpu_ns = t->account ? now_thread_cpu_ns() : 0;

	t->run(t->arg);
	if (t->account)
		t->run_cpu_ns = now_thread_cpu_ns() - began_cpu_ns;
}

static void *worker(void *arg)
{
	struct loop *l = arg;
	struct task *t;

	for (;;) {
		pthread_mutex_lock(&l->lock);
		while (!(t = queue_take(&l->work)) && !l->closing)
			pthread_cond_wait(&l->work_ready, &l->lock);
		pthread_mutex_unlock(&l->lock);
		if (!t)
			return NULL;
		run_task(t);
		post_task(l, t);
	}
}

/* Taking the last task clears the event fd. The lock is held, so a post after that sets it again. */
static void clear_event_if_empty(struct loop *l)
{
	uint64_t count;

	if (!l->posted.head)
		(void)!read(l->event_fd, &count, sizeof(count));
}

static struct task *take_posted(struct loop *l)
{
	struct task *t;

	pthread_mutex_lock(&l->lock);
	t = queue_take(&l->posted);
	if (t)
		l->n_posted--;
	clear_event_if_empty(l);
	pthread_mutex_unlock(&l->lock);
	return t;
}

/* ---- the cost of turns ---- */

const struct loop_turns *loop_turns(const struct loop *l)
{
	return &l->turns;
}

/* CPU time: on a busy machine a turn may last long without doing much. */
static bool is_turn_over(const struct loop *l)
{
	return l->turn.last_cpu_ns - l->turn.began_cpu_ns >= LOOP_TURN_NS;
}

/* The clock of CPU time takes a system call, and does not run faster than the other one. */
bool loop_turn_is_over(struct loop *l)
{
	if (now_mono_ns() - l->turn.last_mono_ns >= LOOP_TURN_NS / 20)
		loop_turn_add(&l->turn, 0);
	return is_turn_over(l);
}

void loop_turn_name(struct loop *l, uintptr_t fn)
{
	l->turn.named = fn;
}

/* Around each callback. The CPU clock is read once for both, since that takes a system call: a callback is charged
 * from the end of the one before. */
static struct loop_charge begin_callback(struct loop *l, struct loop_account *a)
{
	return loop_charge_begin(&l->accounts, a, l->turn.last_cpu_ns);
}

static void end_callback(struct loop *l, const struct loop_charge *charge, uintptr_t fn)
{
	loop_turn_add(&l->turn, fn);
	loop_charge_end(&l->accounts, charge, l->turn.last_cpu_ns);
}

/* ---- tasks ---- */

/* Delivers the tasks that are queued now, at least one; tasks that their callbacks post wait for the next turn. A
 * callback may turn the loop itself, so undelivered tasks stay in the queue. */
static bool deliver(struct loop *l)
{
	struct loop_charge charge;
	struct task *t;
	size_t n;

	pthread_mutex_lock(&l->lock);
	n = l->n_posted;
	clear_event_if_empty(l);
	pthread_mutex_unlock(&l->lock);
	for (size_t i = 0; i < n; i++) {
		t = take_posted(l);
		if (!t)
			break;
		charge = begin_callback(l, t->account);
		loop_charge_add(t->account, t->run_cpu_ns);
		t->done(t->arg);
		end_callback(l, &charge, (uintptr_t)t->done);
		free(t);
		if (is_turn_over(l))
			break; /* the event fd stays set */
	}
	return n > 0;
}

static void on_wake(void *arg, uint32_t events)
{
	(void)events;
	deliver(arg);
}

/* ---- timers: a binary heap on at_mono_ns ---- */

static void heap_put(struct loop *l, size_t i, struct loop_timer *t)
{
	l->heap[i] = t;
	t->slot = i + 1;
}

static void heap_up(struct loop *l, size_t i, struct loop_timer *t)
{
	while (i && l->heap[(i - 1) / 2]->at_mono_ns > t->at_mono_ns) {
		heap_put(l, i, l->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	heap_put(l, i, t);
}

static void heap_down(struct loop *l, size_t i, struct loop_timer *t)
{
	for (;;) {
		size_t child = 2 * i + 1;

		if (child + 1 < l->n_timers &&
		    l->heap[child + 1]->at_mono_ns < l->heap[child]->at_mono_ns)
			child++;
		if (child >= l->n_timers || l->heap[child]->at_mono_ns >= t->at_mono_ns)
			break;
		heap_put(l, i, l->heap[child]);
		i = child;
	}
	heap_put(l, i, t);
}

/* Called once before each wait, since callbacks set and move many timers. Setting the fd also makes it unreadable. */
static void arm_timer_fd(struct loop *l)
{
	struct itimerspec when = { 0 };
	int64_t at = 0;

	if (l->n_timers)
		at = l->heap[0]->at_mono_ns > 0 ? l->heap[0]->at_mono_ns : 1;
	if (at == l->armed_ns)
		return;
	when.it_value.tv_sec = (time_t)(at / NS_PER_S);
	when.it_value.tv_nsec = at % NS_PER_S;
	timerfd_settime(l->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
	l->armed_ns = at;
}

void loop_timer_cancel(struct loop *l, struct loop_timer *t)
{
	size_t i = t->slot - 1;
	struct loop_timer *last;

	if (!t->slot)
		return;
	t->slot = 0;
	last = l->heap[--l->n_timers];
	if (last != t) {
		if (i && l->heap[(i - 1) / 2]->at_mono_ns > last->at_mono_ns)
			heap_up(l, i, last);
		else
			heap_down(l, i, last);
	}
}

void loop_timer_at(struct loop *l, struct loop_timer *t, int64_t at_mono_ns, loop_fn fn, void *arg)
{
	loop_timer_cancel(l, t);
	t->at_mono_ns = at_mono_ns;
	t->fn = fn;
	t->arg = arg;
	if (l->accounts.entered)
		t->account = l->accounts.entered;
	if (l->n_timers == l->heap_cap) {
		l->heap_cap = l->heap_cap ? 2 * l->heap_cap : 64;
		l->heap = xrealloc(l->heap, l->heap_cap * sizeof(*l->heap));
	}
	heap_up(l, l->n_timers++, t);
}

static void on_tick(void *arg, uint32_t events)
{
	struct loop *l = arg;

	(void)events;
	l->armed_ns = -1;
	/* Runs at most as many timers as were armed at the begin, so that a timer that is always due does not
	 * block other events. */
	for (size_t n = l->n_timers; n && l->n_timers && l->heap[0]->at_mono_ns <= l->now_ns; n--) {
		struct loop_timer *t = l->heap[0];
		struct loop_charge charge = begin_callback(l, t->account);
		loop_fn fn = t->fn;

		loop_timer_cancel(l, t);
		fn(t->arg); /* may free it */
		end_callback(l, &charge, (uintptr_t)fn);
		if (is_turn_over(l))
			break;
	}
}

/* ---- file descriptors ---- */

static int epoll_add(struct loop *l, struct loop_watch *w, uint32_t events, struct err *e)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, w->fd, &ev))
		return err_errno(e, "watching fd %d", w->fd);
	return 0;
}

int loop_watch(struct loop *l, int fd, uint32_t events, loop_fd_fn fn, void *arg,
	       struct loop_watch **out, struct err *e)
{
	struct loop_watch *w = xmalloc(sizeof(*w));
	int rc;

	*w = (struct loop_watch){
		.loop = l, .fd = fd, .fn = fn, .arg = arg, .account = l->accounts.entered
	};
	rc = epoll_add(l, w, events, e);
	if (rc) {
		free(w);
		return rc;
	}
	*out = w;
	return 0;
}

void loop_unwatch(struct loop_watch *w)
{
	if (!w)
		return;
	epoll_ctl(w->loop->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
	w->fn = NULL; /* an event of this turn may still refer to it */
	w->next_dead = w->loop->dead;
	w->loop->dead = w;
}

static void free_unwatched(struct loop *l)
{
	while (l->dead) {
		struct loop_watch *w = l->dead;

		l->dead = w->next_dead;
		free(w);
	}
}

static void on_signal(void *arg, uint32_t events)
{
	struct loop *l = arg;
	struct signalfd_siginfo info;

	(void)events;
	while (read(l->signal_fd, &info, sizeof(info)) == sizeof(info))
		l->on_stop(l->on_stop_arg);
}

int loop_on_stop_signal(struct loop *l, loop_fn fn, void *arg, struct err *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	if (pthread_sigmask(SIG_BLOCK, &set, NULL))
		return err_set(e, ERR_IO, "blocking signals failed");
	l->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (l->signal_fd < 0)
		return err_errno(e, "signalfd");
	l->on_stop = fn;
	l->on_stop_arg = arg;
	l->signal = (struct loop_watch){ .loop = l, .fd = l->signal_fd, .fn = on_signal, .arg = l };
	return epoll_add(l, &l->signal, EPOLLIN, e);
}

/* ---- life ---- */

int64_t loop_now_ns(const struct loop *l)
{
	return l->now_ns;
}

static void call_watch(struct loop *l, struct loop_watch *w, uint32_t events)
{
	struct loop_charge charge;
	loop_fd_fn fn = w->fn;

	if (w == &l->wake || w == &l->tick) { /* charges what it calls */
		fn(w->arg, events);
		return;
	}
	charge = begin_callback(l, w->account);
	fn(w->arg, events);
	end_callback(l, &charge, (uintptr_t)fn);
}

/* Asks epoll again only when all that it reported last is done: else a descriptor that is always ready could come
 * first each time. */
static void await_ready(struct loop *l, int wait_ms)
{
	int n;

	if (l->next_ready < l->n_ready)
		return;
	arm_timer_fd(l);
	n = epoll_wait(l->epoll_fd, l->ready, ARRAY_SIZE(l->ready), wait_ms);
	l->next_ready = 0;
	l->n_ready = n > 0 ? n : 0;
}

void loop_turn(struct loop *l, int wait_ms)
{
	await_ready(l, wait_ms);
	l->now_ns = now_mono_ns();
	if (l->depth++ == 0)
		loop_turn_begin(&l->turn);
	else
		l->turn.last_cpu_ns = now_thread_cpu_ns();
	while (l->next_ready < l->n_ready) {
		struct epoll_event ready = l->ready[l->next_ready++];
		struct loop_watch *w = ready.data.ptr;

		if (w->fn)
			call_watch(l, w, ready.events);
		if (is_turn_over(l))
			break;
	}
	/* Outer turns may still refer to watches that were unwatched in this one, and so may `ready`. */
	if (--l->depth)
		return;
	if (l->next_ready == l->n_ready)
		free_unwatched(l);
	loop_turn_end(&l->turn, &l->turns, now_mono_ns() - l->now_ns);
}

void loop_run(struct loop *l)
{
	while (!atomic_load(&l->stopping))
		loop_turn(l, -1);
}

void loop_stop(struct loop *l)
{
	atomic_store(&l->stopping, true);
	wake(l);
}

static int start_workers(struct loop *l, int workers, struct err *e)
{
	sigset_t all, old;
	int rc = 0;

	assert(workers >= 1 && workers <= 64);
	l->workers = xcalloc((size_t)workers, sizeof(*l->workers));
	/* The loop handles signals; workers block them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (; l->n_workers < workers && !rc; l->n_workers++) {
		if (pthread_create(&l->workers[l->n_workers], NULL, worker, l)) {
			rc = err_set(e, ERR_IO, "starting worker %d failed", l->n_workers);
			break;
		}
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

int loop_new(struct loop **out, int workers, struct err *e)
{
	struct loop *l = xcalloc(1, sizeof(*l));
	int rc;

	queue_init(&l->posted);
	queue_init(&l->work);
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->work_ready, NULL);
	l->signal_fd = -1;
	l->now_ns = now_mono_ns();
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	l->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	l->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (l->epoll_fd < 0 || l->event_fd < 0 || l->timer_fd < 0) {
		rc = err_errno(e, "event loop");
		goto out;
	}
	l->wake = (struct loop_watch){ .loop = l, .fd = l->event_fd, .fn = on_wake, .arg = l };
	l->tick = (struct loop_watch){ .loop = l, .fd = l->timer_fd, .fn = on_tick, .arg = l };
	rc = epoll_add(l, &l->wake, EPOLLIN, e);
	if (!rc)
		rc = epoll_add(l, &l->tick, EPOLLIN, e);
	if (!rc)
		rc = start_workers(l, workers, e);
out:
	if (rc)
		loop_free(l);
	else
		*out = l;
	return rc;
}

static bool run_left_work(struct loop *l)
{
	struct task *t = queue_take(&l->work);

	if (!t)
		return false;
	run_task(t);
	post_task(l, t);
	return true;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	l->closing = true;
	pthread_cond_broadcast(&l->work_ready);
	pthread_mutex_unlock(&l->lock);
	for (int i = 0; i < l->n_workers; i++)
		pthread_join(l->workers[i], NULL);
	/* Callbacks may add work. The workers have ended, so it runs here. */
	while (deliver(l) || run_left_work(l))
		;
	free_unwatched(l);
	pthread_cond_destroy(&l->work_ready);
	pthread_mutex_destroy(&l->lock);
	close_fd(l->signal_fd);
	close_fd(l->timer_fd);
	close_fd(l->event_fd);
	close_fd(l->epoll_fd);
	loop_accounts_free(&l->accounts);
	free(l->workers);
	free(l->heap);
	free(l);
}
