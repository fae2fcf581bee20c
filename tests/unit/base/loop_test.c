/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"

static struct loop *new_loop(int workers)
{
	struct loop *l = NULL;
	struct err e;

	CHECK_OK(loop_new(&l, workers, &e), e);
	return l;
}

static void turn_until(struct loop *l, const int *n, int want)
{
	RUN_UNTIL(l, *n >= want);
	CHECK_EQ(*n, want);
}

/* ---- timers ---- */

#define N_TIMERS 500

struct timers;

struct tick {
	struct loop_timer timer;
	struct timers *all;
};

struct timers {
	struct loop *loop;
	struct tick tick[N_TIMERS];
	int64_t last_ns;
	int n;
};

static void on_ordered(void *arg)
{
	struct tick *tick = arg;

	CHECK(!loop_timer_armed(&tick->timer));
	CHECK(tick->timer.at_mono_ns >= tick->all->last_ns);
	tick->all->last_ns = tick->timer.at_mono_ns;
	tick->all->n++;
}

/* Random times in the past, some cancelled, some moved: they fire by time. */
static void test_timer_order(unsigned int seed)
{
	struct timers *t = xcalloc(1, sizeof(*t));
	struct loop *l = new_loop(1);
	int64_t base_ns = now_mono_ns() - NS_PER_S;
	int armed = N_TIMERS;

	for (int i = 0; i < N_TIMERS; i++) {
		t->tick[i].all = t;
		loop_timer_at(l, &t->tick[i].timer, base_ns + rand_r(&seed) % 1000, on_ordered,
			      &t->tick[i]);
	}
	for (int i = 0; i < N_TIMERS; i += 3) {
		loop_timer_cancel(l, &t->tick[i].timer);
		CHECK(!loop_timer_armed(&t->tick[i].timer));
		loop_timer_cancel(l, &t->tick[i].timer);
		armed--;
	}
	for (int i = 1; i < N_TIMERS; i += 3)
		loop_timer_at(l, &t->tick[i].timer, base_ns + rand_r(&seed) % 1000, on_ordered,
			      &t->tick[i]);
	turn_until(l, &t->n, armed);
	loop_free(l);
	free(t);
}

static void on_again(void *arg)
{
	struct timers *t = arg;

	CHECK(!loop_timer_armed(&t->tick[0].timer));
	if (++t->n < 5)
		loop_timer_at(t->loop, &t->tick[0].timer, 0, on_again, t);
}

static void on_cancel_other(void *arg)
{
	struct timers *t = arg;

	t->n++;
	loop_timer_cancel(t->loop, &t->tick[1].timer);
}

static void never(void *arg)
{
	(void)arg;
	CHECK(!"cancelled");
}

static void test_timer_in_callback(void)
{
	struct timers t = { .loop = new_loop(1) };

	loop_timer_at(t.loop, &t.tick[0].timer, 0, on_again, &t);
	turn_until(t.loop, &t.n, 5);
	t.n = 0;
	loop_timer_at(t.loop, &t.tick[0].timer, 1, on_cancel_other, &t);
	loop_timer_at(t.loop, &t.tick[1].timer, 2, never, NULL);
	turn_until(t.loop, &t.n, 1);
	loop_turn(t.loop, 0);
	loop_free(t.loop);
}

static void count(void *arg)
{
	++*(int *)arg;
}

static void on_always_due(void *arg)
{
	struct timers *t = arg;

	loop_timer_at(t->loop, &t->tick[0].timer, 0, on_always_due, t);
}

/* One timer that is always due does not keep the others from their turn. */
static void test_timer_does_not_starve(void)
{
	struct timers t = { .loop = new_loop(1) };
	int posted = 0;

	loop_timer_at(t.loop, &t.tick[0].timer, 0, on_always_due, &t);
	loop_post(t.loop, count, &posted);
	turn_until(t.loop, &posted, 1);
	loop_free(t.loop);
}

/* Not before its time, whatever else happens; the time itself is the machine's affair. */
static void test_timer_not_early(void)
{
	struct loop *l = new_loop(1);
	struct loop_timer timer = { 0 };
	int fired = 0;
	int64_t at_ns = now_mono_ns() + 3 * NS_PER_MS;

	loop_timer_at(l, &timer, at_ns, count, &fired);
	while (!fired) {
		loop_post(l, count, &(int){ 0 });
		loop_turn(l, 1);
	}
	CHECK(loop_now_ns(l) >= at_ns);
	loop_free(l);
}

/* Timers of periods that are multiples of each other come in one turn. */
static void test_timer_each(void)
{
	struct loop *l = new_loop(1);
	struct loop_timer timers[3] = { 0 };
	int n = 0;

	for (int i = 0; i < 3; i++) {
		loop_timer_each(l, &timers[i], (3 - i) * 20 * NS_PER_MS, count, &n);
		CHECK(timers[i].at_mono_ns > now_mono_ns() - RUN_LIMIT_NS);
		CHECK_EQ(timers[i].at_mono_ns % ((3 - i) * 20 * NS_PER_MS), 0);
	}
	turn_until(l, &n, 3);
	CHECK(loop_now_ns(l) >= timers[0].at_mono_ns);
	loop_timer_each(l, &timers[0], 20 * NS_PER_MS, count, &n);
	CHECK(timers[0].at_mono_ns > loop_now_ns(l));
	loop_timer_cancel(l, &timers[0]);
	loop_free(l);
}

/* ---- posts and work ---- */

#define N_THREADS 4
#define N_POSTS	  2000

struct poster {
	struct loop *loop;
	int sent, received, *total;
	bool in_order;
};

struct post {
	struct poster *from;
	int number;
};

static void on_post(void *arg)
{
	struct post *p = arg;

	p->from->in_order = p->from->in_order && p->number == p->from->received;
	p->from->received++;
	++*p->from->total;
	free(p);
}

static void *post_many(void *arg)
{
	struct poster *from = arg;

	for (int i = 0; i < N_POSTS; i++) {
		struct post *p = xmalloc(sizeof(*p));

		*p = (struct post){ from, i };
		loop_post(from->loop, on_post, p);
	}
	return NULL;
}

static void test_posts(void)
{
	struct poster posters[N_THREADS];
	pthread_t threads[N_THREADS];
	struct loop *l = new_loop(1);
	int total = 0;

	for (int i = 0; i < N_THREADS; i++) {
		posters[i] = (struct poster){ .loop = l, .total = &total, .in_order = true };
		CHECK(!pthread_create(&threads[i], NULL, post_many, &posters[i]));
	}
	turn_until(l, &total, N_THREADS * N_POSTS);
	for (int i = 0; i < N_THREADS; i++) {
		pthread_join(threads[i], NULL);
		CHECK(posters[i].in_order);
	}
	loop_free(l);
}

struct job {
	pthread_t loop_thread;
	int value, *done;
};

static void run_job(void *arg)
{
	struct job *j = arg;

	CHECK(!pthread_equal(pthread_self(), j->loop_thread));
	j->value *= 2;
}

static void end_job(void *arg)
{
	struct job *j = arg;

	CHECK(pthread_equal(pthread_self(), j->loop_thread));
	++*j->done;
}

static void test_work(void)
{
	struct job jobs[100];
	struct loop *l = new_loop(4);
	int done = 0;

	for (int i = 0; i < 100; i++) {
		jobs[i] = (struct job){ pthread_self(), i, &done };
		loop_work(l, run_job, end_job, &jobs[i]);
	}
	turn_until(l, &done, 100);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(jobs[i].value, 2 * i);
	loop_free(l);
}

struct chain {
	struct loop *loop;
	int runs, dones, posts;
};

static void chain_run(void *arg)
{
	struct chain *c = arg;

	c->runs++;
}

static void chain_post(void *arg)
{
	struct chain *c = arg;

	c->posts++;
}

static void chain_done(void *arg)
{
	struct chain *c = arg;

	loop_post(c->loop, chain_post, c);
	if (++c->dones < 3)
		loop_work(c->loop, chain_run, chain_done, c);
}

/* Whatever was handed in is run and delivered, also what that hands in. */
static void test_free_delivers(void)
{
	struct chain c = { .loop = new_loop(2) };

	loop_work(c.loop, chain_run, chain_done, &c);
	loop_free(c.loop);
	CHECK_EQ(c.runs, 3);
	CHECK_EQ(c.dones, 3);
	CHECK_EQ(c.posts, 3);
}

struct nest {
	struct loop *loop;
	int first, second;
};

static void nest_second(void *arg)
{
	struct nest *n = arg;

	n->second++;
}

static void nest_first(void *arg)
{
	struct nest *n = arg;

	/* Was posted with us, before this turn began: waiting for it here ends. */
	turn_until(n->loop, &n->second, 1);
	n->first++;
}

static void test_turn_in_turn(void)
{
	struct nest n = { .loop = new_loop(1) };

	loop_post(n.loop, nest_first, &n);
	loop_post(n.loop, nest_second, &n);
	turn_until(n.loop, &n.first, 1);
	loop_free(n.loop);
}

static void stop_loop(void *arg)
{
	loop_stop(arg);
}

static void *run_loop(void *arg)
{
	loop_run(arg);
	return NULL;
}

static void test_run_and_stop(void)
{
	struct loop *l = new_loop(1);
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, run_loop, l));
	loop_post(l, stop_loop, l);
	pthread_join(thread, NULL);
	loop_free(l);
	loop_free(NULL);
}

/* ---- file descriptors ---- */

struct pipes {
	struct loop *loop;
	int fd[2][2];
	struct loop_watch *watch[2];
	int n;
};

static void open_pipes(struct pipes *p)
{
	*p = (struct pipes){ .loop = new_loop(1) };
	for (int i = 0; i < 2; i++)
		CHECK(!pipe(p->fd[i]));
}

static void close_pipes(struct pipes *p)
{
	for (int i = 0; i < 2; i++) {
		loop_unwatch(p->watch[i]);
		close(p->fd[i][0]);
		close(p->fd[i][1]);
	}
	loop_free(p->loop);
}

/* Both are ready: the first to be called ends both, and the other is not called any more. */
static void on_first_of_two(void *arg, uint32_t events)
{
	struct pipes *p = arg;

	CHECK(events & EPOLLIN);
	p->n++;
	for (int i = 0; i < 2; i++) {
		loop_unwatch(p->watch[i]);
		p->watch[i] = NULL;
	}
}

static void test_unwatch_in_callback(void)
{
	struct pipes p;
	struct err e;

	open_pipes(&p);
	for (int i = 0; i < 2; i++) {
		CHECK_OK(loop_watch(p.loop, p.fd[i][0], EPOLLIN, on_first_of_two, &p, &p.watch[i],
				    &e),
			 e);
		CHECK_EQ(write(p.fd[i][1], "x", 1), 1);
	}
	turn_until(p.loop, &p.n, 1);
	loop_turn(p.loop, 0);
	loop_turn(p.loop, 0);
	CHECK_EQ(p.n, 1);
	close_pipes(&p);
}

static void on_readable(void *arg, uint32_t events)
{
	struct pipes *p = arg;

	(void)events;
	p->n++;
}

static void test_level_triggered(void)
{
	struct pipes p;
	struct err e;

	open_pipes(&p);
	CHECK_OK(loop_watch(p.loop, p.fd[0][0], 0, on_readable, &p, &p.watch[0], &e), e);
	CHECK_EQ(write(p.fd[0][1], "x", 1), 1);
	loop_turn(p.loop, 0);
	CHECK_EQ(p.n, 0); /* it is not watched for that */
	loop_unwatch(p.watch[0]);
	CHECK_OK(loop_watch(p.loop, p.fd[0][0], EPOLLIN, on_readable, &p, &p.watch[0], &e), e);
	loop_turn(p.loop, 0);
	loop_turn(p.loop, 0);
	CHECK_EQ(p.n, 2);
	CHECK(loop_watch(p.loop, -1, EPOLLIN, on_readable, &p, &p.watch[1], &e) < 0);
	close_pipes(&p);
}

static void test_signal(void)
{
	struct loop *l = new_loop(1);
	struct err e;
	int n = 0;

	CHECK_OK(loop_on_stop_signal(l, count, &n, &e), e);
	CHECK(!kill(getpid(), SIGTERM));
	turn_until(l, &n, 1);
	CHECK(!kill(getpid(), SIGINT));
	turn_until(l, &n, 2);
	loop_free(l);
}

/* ---- long turns ---- */

static void use_cpu(void *arg)
{
	int64_t until_ns = now_thread_cpu_ns() + LOOP_TURN_NS;

	while (now_thread_cpu_ns() < until_ns)
		;
	++*(int *)arg;
}

/* ---- accounts ---- */

struct accounted {
	struct loop *loop;
	struct loop_timer again;
	int n; /* the loop's */
	int worked; /* the worker's */
};

static void work_accounted(void *arg)
{
	use_cpu(&((struct accounted *)arg)->worked);
}

static void on_accounted(void *arg)
{
	use_cpu(&((struct accounted *)arg)->n);
}

/* Sets work from a timer: both belong to the timer's account. */
static void on_accounted_timer(void *arg)
{
	struct accounted *a = arg;

	on_accounted(a);
	loop_work(a->loop, work_accounted, on_accounted, a);
}

static void do_nothing(void *arg)
{
	(void)arg;
}

static void test_accounts(void)
{
	struct loop *l = new_loop(1);
	struct loop_account *mine = loop_account_new(l), *other = loop_account_new(l);
	struct accounted a = { .loop = l };
	int n = 0;

	CHECK(!loop_account_enter(l, mine));
	loop_timer_in(l, &a.again, 60 * NS_PER_S, on_accounted_timer, &a);
	CHECK(loop_account_enter(l, other) == mine);
	CHECK(loop_account_enter(l, NULL) == other);
	loop_timer_in(l, &a.again, 0, on_accounted_timer, &a); /* stays in its account */
	loop_work(l, do_nothing, use_cpu, &n); /* of none */
	turn_until(l, &a.n, 2);
	turn_until(l, &n, 1);
	CHECK(loop_account_cpu_ns(mine) >= 3 * LOOP_TURN_NS);
	CHECK_EQ(loop_account_cpu_ns(other), 0);
	CHECK(!loop_account_enter(l, NULL));
	loop_free(l);
}

/* A turn that has used its time leaves the rest to the next one, and other events come between. */
static void test_long_turn(void)
{
	struct loop *l = new_loop(1);
	struct loop_timer timers[2] = { 0 };
	uint64_t above = 0;
	int n = 0;

	for (int i = 0; i < 3; i++)
		loop_post(l, use_cpu, &n);
	for (int i = 1; i <= 3; i++) {
		loop_turn(l, 0);
		CHECK_EQ(n, i);
	}
	for (int i = 0; i < 2; i++)
		loop_timer_at(l, &timers[i], 1, use_cpu, &n);
	for (int i = 4; i <= 5; i++) {
		loop_turn(l, 1000);
		CHECK_EQ(n, i);
	}
	CHECK(loop_turns(l)->longest_ns >= LOOP_TURN_NS);
	CHECK(loop_turns(l)->total_ns >= 5 * (int64_t)LOOP_TURN_NS);
	for (size_t i = 0; i <= LOOP_TURN_CLASSES; i++)
		above += i && loop_turn_limits_ns[i - 1] >= LOOP_TURN_NS ? loop_turns(l)->n[i] : 0;
	CHECK_EQ(above, 5);
	loop_free(l);
}

static void on_use_cpu(void *arg, uint32_t events)
{
	(void)events;
	use_cpu(arg);
}

/* Of descriptors that are always ready, each turn takes up one, and no one twice before the others had theirs. One
 * that is unwatched meanwhile is not called any more. */
static void test_long_watches(void)
{
	struct pipes p;
	struct err e;
	int n[2] = { 0 };

	open_pipes(&p);
	for (int i = 0; i < 2; i++) {
		CHECK_OK(loop_watch(p.loop, p.fd[i][0], EPOLLIN, on_use_cpu, &n[i], &p.watch[i],
				    &e),
			 e);
		CHECK_EQ(write(p.fd[i][1], "x", 1), 1);
	}
	for (int turns = 1; turns <= 6; turns++) {
		loop_turn(p.loop, 1000);
		CHECK_EQ(n[0] + n[1], turns);
		CHECK(n[0] - n[1] <= 1 && n[1] - n[0] <= 1);
	}
	loop_turn(p.loop, 1000);
	for (int i = 0; i < 2; i++) {
		loop_unwatch(p.watch[i]);
		p.watch[i] = NULL;
	}
	loop_turn(p.loop, 0);
	CHECK_EQ(n[0] + n[1], 7);
	close_pipes(&p);
}

struct parts {
	struct loop *loop;
	int n;
	bool was_over, is_over;
};

static void do_parts(void *arg)
{
	struct parts *parts = arg;

	parts->was_over = loop_turn_is_over(parts->loop);
	loop_turn_name(parts->loop, (uintptr_t)use_cpu);
	use_cpu(&parts->n);
	parts->is_over = loop_turn_is_over(parts->loop);
}

static void test_parts(void)
{
	struct parts parts = { .loop = new_loop(1) };

	loop_post(parts.loop, do_parts, &parts);
	turn_until(parts.loop, &parts.n, 1);
	CHECK(!parts.was_over && parts.is_over);
	loop_free(parts.loop);
}

static void test_turns_count(void)
{
	struct loop_turns t = { 0 };

	loop_turns_count(&t, 0, 7);
	loop_turns_count(&t, NS_PER_MS, 9);
	loop_turns_count(&t, NS_PER_MS + 1, 8);
	CHECK_EQ(t.longest_wall_ns, 9);
	loop_turns_count(&t, 3600 * NS_PER_S, 3600 * NS_PER_S);
	CHECK_EQ(t.n[0], 2);
	CHECK_EQ(t.n[1], 1);
	CHECK_EQ(t.n[LOOP_TURN_CLASSES], 1);
	CHECK_EQ(t.longest_ns, 3600 * NS_PER_S);
}

int main(void)
{
	unsigned int seed = (unsigned int)now_real_ns();

	printf("seed %u\n", seed);
	test_timer_order(seed);
	test_timer_in_callback();
	test_timer_does_not_starve();
	test_timer_not_early();
	test_timer_each();
	test_posts();
	test_work();
	test_free_delivers();
	test_turn_in_turn();
	test_run_and_stop();
	test_unwatch_in_callback();
	test_level_triggered();
	test_signal();
	test_long_turn();
	test_long_watches();
	test_parts();
	test_accounts();
	test_turns_count();
	return 0;
}
