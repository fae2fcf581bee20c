/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/loop.h on virtual time. A loop wakes when its host's clock reaches its next timer, or a little
 * after something was posted; a paused host wakes later. A worker begins at a random instant, may wait on
 * its way, and its end is delivered at a later one.
 */
#include "base/loop.h"

#include <assert.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/sim/fiber.h"
#include "tests/sim/sim.h"

#define BUSY_STORE_MEAN_NS (2 * NS_PER_MS)

struct post {
	loop_fn fn;
	void *arg;
	STAILQ_ENTRY(post) next;
};

struct work {
	struct loop *loop;
	struct fiber *run; /* NULL once it has ended */
	bool has_worker;
	loop_fn done;
	void *arg;
	const bool *go; /* its end is delivered once this is true; NULL = at once */
	struct sim_event ev;
	TAILQ_ENTRY(work) entry;
};

struct loop_watch {
	struct loop *loop;
	int fd;
	loop_fd_fn fn;
	void *arg;
	bool posted; /* a post names it */
	bool dead;
	TAILQ_ENTRY(loop_watch) entry;
};

struct loop {
	struct sim_host *host;
	struct loop_timer **timers; /* a heap */
	size_t n, cap;
	STAILQ_HEAD(, post) posts;
	uint64_t n_posted, n_run; /* ever */
	TAILQ_HEAD(, work) works; /* oldest first */
	int workers, n_working;
	TAILQ_HEAD(, loop_watch) watches;
	int64_t now_ns;
	uint64_t turns;
	struct sim_event wake;
	TAILQ_ENTRY(loop) entry;
};

/* ---- when it wakes ---- */

static int64_t not_before(const struct sim_host *h, int64_t at_ns)
{
	int64_t from_ns = h->paused_until_ns > h->busy_until_ns ? h->paused_until_ns
								: h->busy_until_ns;

	return at_ns > from_ns ? at_ns : from_ns;
}

static void on_wake(void *arg);

static void plan(struct loop *l)
{
	int64_t at = INT64_MAX;

	if (l->host->cleaning_up)
		return;
	if (l->n)
		at = host_true_of_mono(l->host, l->timers[0]->at_mono_ns);
	if (!STAILQ_EMPTY(&l->posts) && at > sim.now_ns)
		at = sim.now_ns;
	if (at == INT64_MAX) {
		sim_cancel(&l->wake);
		return;
	}
	at = not_before(l->host, at > sim.now_ns ? at : sim.now_ns);
	if (l->wake.slot && l->wake.at_ns <= at)
		return;
	sim_at(&l->wake, at + rng_wait(&sim.rng, (double)l->host->slow_ns), on_wake, l);
}

void loop_replan(struct sim_host *h)
{
	struct loop *l;

	TAILQ_FOREACH (l, &h->loops, entry) {
		sim_cancel(&l->wake);
		plan(l);
	}
}

/* ---- accounts: nothing takes CPU time here ---- */

struct loop_account {
	int unused;
};

static struct loop_account the_account;

struct loop_account *loop_account_new(struct loop *l)
{
	(void)l;
	return &the_account;
}

struct loop_account *loop_account_enter(struct loop *l, struct loop_account *a)
{
	(void)l;
	(void)a;
	return NULL;
}

int64_t loop_account_cpu_ns(const struct loop_account *a)
{
	(void)a;
	return 0;
}

void loop_account_add(struct loop *l, int64_t cpu_ns)
{
	(void)l;
	(void)cpu_ns;
}

/* ---- timers ---- */

static void timer_put(struct loop *l, struct loop_timer *t, size_t i)
{
	l->timers[i] = t;
	t->slot = i + 1;
}

static void timer_rise(struct loop *l, struct loop_timer *t, size_t i)
{
	for (; i && t->at_mono_ns < l->timers[(i - 1) / 2]->at_mono_ns; i = (i - 1) / 2)
		timer_put(l, l->timers[(i - 1) / 2], i);
	timer_put(l, t, i);
}

static void timer_sink(struct loop *l, struct loop_timer *t, size_t i)
{
	for (;;) {
		size_t kid = 2 * i + 1;

		if (kid + 1 < l->n && l->timers[kid + 1]->at_mono_ns < l->timers[kid]->at_mono_ns)
			kid++;
		if (kid >= l->n || l->timers[kid]->at_mono_ns >= t->at_mono_ns)
			break;
		timer_put(l, l->timers[kid], i);
		i = kid;
	}
	timer_put(l, t, i);
}

void loop_timer_cancel(struct loop *l, struct loop_timer *t)
{
	size_t i = t->slot - 1;
	struct loop_timer *last;

	if (!t->slot)
		return;
	t->slot = 0;
	last = l->timers[--l->n];
	if (last == t)
		return;
	timer_sink(l, last, i);
	timer_rise(l, last, last->slot - 1);
}

void loop_timer_at(struct loop *l, struct loop_timer *t, int64_t at_mono_ns, loop_fn fn, void *arg)
{
	assert(sim.host == l->host);
	loop_timer_cancel(l, t);
	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 16;
		l->timers = xrealloc(l->timers, l->cap * sizeof(struct loop_timer *));
	}
	*t = (struct loop_timer){ .at_mono_ns = at_mono_ns, .fn = fn, .arg = arg };
	l->n++;
	timer_rise(l, t, l->n - 1);
	plan(l);
}

static bool run_timer(struct loop *l)
{
	struct loop_timer *t = l->n ? l->timers[0] : NULL;

	if (!t || t->at_mono_ns > l->now_ns)
		return false;
	loop_timer_cancel(l, t);
	t->fn(t->arg);
	return true;
}

/* ---- posts ---- */

void loop_post(struct loop *l, loop_fn fn, void *arg)
{
	struct post *p = xmalloc(sizeof(*p));

	*p = (struct post){ .fn = fn, .arg = arg };
	STAILQ_INSERT_TAIL(&l->posts, p, next);
	l->n_posted++;
	plan(l);
}

static bool run_post(struct loop *l)
{
	struct post *p = STAILQ_FIRST(&l->posts);
	struct post own;

	if (!p)
		return false;
	own = *p;
	STAILQ_REMOVE_HEAD(&l->posts, next);
	l->n_run++;
	free(p);
	own.fn(own.arg);
	return true;
}

/* ---- workers ---- */

static int64_t work_takes_ns(void)
{
	return rng_wait(&sim.rng,
			rng_chance(&sim.rng, 0.02) ? 50 * BUSY_STORE_MEAN_NS : BUSY_STORE_MEAN_NS);
}

static void work_done(void *arg)
{
	struct work *w = arg;
	struct work own = *w;

	TAILQ_REMOVE(&w->loop->works, w, entry);
	free(w);
	own.done(own.arg);
}

static void work_ended(void *arg)
{
	struct work *w = arg;

	if (w->go && !*w->go)
		sim_at(&w->ev, sim.now_ns + BUSY_STORE_MEAN_NS, work_ended, w);
	else
		loop_post(w->loop, work_done, w);
}

static struct work *running;

static void on_work(void *arg);

/* A worker is free: for the oldest work that has none. */
static void give_worker(struct loop *l)
{
	struct work *w;

	TAILQ_FOREACH (w, &l->works, entry) {
		if (!w->has_worker && w->run && !w->ev.slot) {
			sim_at(&w->ev, sim.now_ns, on_work, w);
			return;
		}
	}
}

/* Runs it until it waits or ends. Workers of another host may run while it waits. */
static void work_run(struct work *w)
{
	struct sim_host *was = sim.host;
	struct work *outer = running;

	sim.host = w->loop->host;
	running = w;
	if (!w->has_worker)
		w->loop->n_working++;
	w->has_worker = true;
	if (fiber_run(w->run)) {
		w->run = NULL;
		w->loop->n_working--;
	}
	running = outer;
	sim.host = was;
}

void loop_hold_worker(const bool *go)
{
	assert(running);
	running->go = go;
}

static void on_work(void *arg)
{
	struct work *w = arg;
	struct sim_host *h = w->loop->host;

	if (h->paused_until_ns > sim.now_ns) {
		sim_at(&w->ev, h->paused_until_ns, on_work, w);
		return;
	}
	if (!w->has_worker && w->loop->n_working >= w->loop->workers)
		return;
	work_run(w);
	if (w->run)
		return;
	sim_at(&w->ev, not_before(h, sim.now_ns + work_takes_ns()), work_ended, w);
	give_worker(w->loop);
}

bool loop_worker_wait(int64_t until_ns)
{
	struct work *w = running;

	if (!w)
		return false;
	if (!w->loop->host->cleaning_up) {
		sim_at(&w->ev, until_ns, on_work, w);
		fiber_stop();
	}
	return true;
}

void loop_work(struct loop *l, loop_fn run, loop_fn done, void *arg)
{
	struct work *w = xcalloc(1, sizeof(*w));

	*w = (struct work){ .loop = l, .run = fiber_new(run, arg), .done = done, .arg = arg };
	TAILQ_INSERT_TAIL(&l->works, w, entry);
	if (!l->host->cleaning_up)
		sim_at(&w->ev, sim.now_ns + work_takes_ns(), on_work, w);
}

/* The oldest one at once, as if its time had come. One that waits for the world all the same lets it go on. */
static bool hurry_work(struct loop *l)
{
	struct work *w = TAILQ_FIRST(&l->works);

	while (w && !w->ev.slot && !w->run)
		w = TAILQ_NEXT(w, entry); /* its `done` is posted already */
	if (!w)
		return false;
	sim_cancel(&w->ev);
	if (w->run)
		work_run(w);
	if (w->run)
		sim_step();
	else
		work_done(w);
	return true;
}

/* ---- turns ---- */

static void turn(struct loop *l)
{
	struct sim_host *was = sim.host;
	uint64_t until = l->n_posted;

	sim.host = l->host;
	l->turns++;
	l->now_ns = now_mono_ns();
	while (run_timer(l))
		;
	while (l->n_run < until && run_post(l))
		;
	sim.host = was;
	plan(l);
}

static void on_wake(void *arg)
{
	struct loop *l = arg;

	if (l->host->paused_until_ns > sim.now_ns)
		plan(l);
	else
		turn(l);
}

/* A process that was killed is alone with its own callbacks; time passes for it only when it waits. */
static void cleanup_turn(struct loop *l, int wait_ms)
{
	bool did = false;

	l->now_ns = now_mono_ns();
	while (run_timer(l) || run_post(l) || hurry_work(l))
		did = true;
	if (!did)
		l->host->cleanup_ns += wait_ms * NS_PER_MS;
}

static void on_waited(void *arg)
{
	bool *waited = arg;

	*waited = true;
}

void loop_turn(struct loop *l, int wait_ms)
{
	struct sim_event ev = { 0 };
	uint64_t before = l->turns;
	bool waited = false;

	if (l->host->cleaning_up) {
		cleanup_turn(l, wait_ms);
		return;
	}
	sim_at(&ev, sim.now_ns + wait_ms * NS_PER_MS, on_waited, &waited);
	while (l->turns == before && !waited)
		sim_step();
	sim_cancel(&ev);
	l->now_ns = now_mono_ns();
}

int64_t loop_now_ns(const struct loop *l)
{
	return l->now_ns;
}

/* Turns take no time here. */
const struct loop_turns *loop_turns(const struct loop *l)
{
	static const struct loop_turns none;

	(void)l;
	return &none;
}

bool loop_turn_is_over(struct loop *l)
{
	(void)l;
	return false;
}

void loop_turn_name(struct loop *l, uintptr_t fn)
{
	(void)l;
	(void)fn;
}

/* ---- watches: only those of the wall clock ever fire ---- */

int loop_watch(struct loop *l, int fd, uint32_t events, loop_fd_fn fn, void *arg,
	       struct loop_watch **out, struct err *e)
{
	struct loop_watch *w = xcalloc(1, sizeof(*w));

	(void)events;
	(void)e;
	*w = (struct loop_watch){ .loop = l, .fd = fd, .fn = fn, .arg = arg };
	TAILQ_INSERT_TAIL(&l->watches, w, entry);
	*out = w;
	return 0;
}

void loop_unwatch(struct loop_watch *w)
{
	if (!w)
		return;
	TAILQ_REMOVE(&w->loop->watches, w, entry);
	w->dead = true;
	if (!w->posted)
		free(w);
}

static void on_posted_watch(void *arg)
{
	struct loop_watch *w = arg;

	w->posted = false;
	if (w->dead)
		free(w);
	else
		w->fn(w->arg, EPOLLIN);
}

void loop_clock_set(struct sim_host *h)
{
	struct loop *l;
	struct loop_watch *w;

	TAILQ_FOREACH (l, &h->loops, entry) {
		TAILQ_FOREACH (w, &l->watches, entry) {
			uint64_t one = 1;

			if (w->posted || write(w->fd, &one, sizeof(one)) < 0)
				continue;
			w->posted = true;
			loop_post(l, on_posted_watch, w);
		}
	}
}

/* Stands before the C library's: a descriptor that becomes readable when we say so. */
int timerfd_create(clockid_t id, int flags)
{
	(void)id;
	(void)flags;
	return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *to, struct itimerspec *old)
{
	(void)fd;
	(void)flags;
	(void)to;
	(void)old;
	return 0;
}

/* ---- life ---- */

int loop_new(struct loop **out, int workers, struct err *e)
{
	struct loop *l = xcalloc(1, sizeof(*l));

	(void)e;
	assert(sim.host && workers > 0);
	l->host = sim.host;
	l->workers = workers;
	STAILQ_INIT(&l->posts);
	TAILQ_INIT(&l->works);
	TAILQ_INIT(&l->watches);
	TAILQ_INSERT_TAIL(&l->host->loops, l, entry);
	l->now_ns = now_mono_ns();
	*out = l;
	return 0;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	while (run_post(l) || hurry_work(l))
		;
	if (l->n || !TAILQ_EMPTY(&l->watches))
		sim_fail("%s leaves %zu timers%s behind", l->host->name, l->n,
			 TAILQ_EMPTY(&l->watches) ? "" : " and watches");
	sim_cancel(&l->wake);
	TAILQ_REMOVE(&l->host->loops, l, entry);
	free(l->timers);
	free(l);
}
