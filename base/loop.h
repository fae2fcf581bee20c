/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: one per daemon, one thread, owner of all the daemon's state.
 *
 * Other threads (gRPC's, nng's, libmicrohttpd's, the workers) may only call loop_post(). Slow work goes to
 * loop_work(); its `run` may use only its own argument. Functions not marked "any thread" are called on the
 * loop's thread, or before loop_run().
 */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct loop;
struct loop_watch;

typedef void (*loop_fn)(void *arg);
typedef void (*loop_fd_fn)(void *arg, uint32_t events); /* EPOLLIN | EPOLLOUT | EPOLLERR */

/* Starts `workers` threads for loop_work(), 1 to 64. The caller frees the loop with loop_free(). */
MUST_CHECK int loop_new(struct loop **out, int workers, struct err *e);

/* Runs all posts and work that are not delivered yet, and those that they add; joins the workers,
 * frees. Timers and watches do not run. NULL is fine. */
void loop_free(struct loop *l);

/* Runs until loop_stop(). */
void loop_run(struct loop *l);
void loop_stop(struct loop *l); /* any thread */

/* Waits at most `wait_ms` until something is ready, then runs what is ready, for about LOOP_TURN_NS; for
 * tests and shutdown. May be called inside a callback that waits for another callback: posts keep their
 * order. */
void loop_turn(struct loop *l, int wait_ms);

/*
 * The cost of turns, in CPU time of the loop's thread; everything else waits while a turn lasts. After
 * LOOP_TURN_NS a turn starts no further callback, so a much longer turn means that one callback takes too
 * long. With --log-level debug a turn of more than LOOP_TURN_LONG_NS is logged with that callback, as its
 * place in the program: `addr2line -f -e tutti-aggregator PLACE` names it.
 */
#define LOOP_TURN_NS	  (5 * 1000000)
#define LOOP_TURN_LONG_NS (8 * 1000000)
#define LOOP_TURN_CLASSES 9
extern const int64_t loop_turn_limits_ns[LOOP_TURN_CLASSES]; /* ascending */

struct loop_turns {
	/* turns by duration: n[i] counts those above limit i - 1 and up to limit i, the last one those above all */
	uint64_t n[LOOP_TURN_CLASSES + 1];
	int64_t total_ns, longest_ns;
	/* of the slowest turn, with the time that its thread waited for a CPU */
	int64_t longest_wall_ns;
};
const struct loop_turns *loop_turns(const struct loop *l);
void loop_turns_count(struct loop_turns *t, int64_t took_ns, int64_t wall_ns); /* adds a turn */

/* For a callback that does many things and can leave some to the next turn, after each of them: whether this
 * turn has used LOOP_TURN_NS. Never in the simulation, where turns take no time. */
bool loop_turn_is_over(struct loop *l);

/* Called by a callback before it calls the function that does the work: the log line of a long turn then
 * names that one. */
void loop_turn_name(struct loop *l, uintptr_t fn);

/*
 * Accounts of CPU time. A timer, watch or work belongs to the account that is current when it is set. While
 * its function runs, that account is current, so what the function sets belongs to it, too. The CPU time of
 * these functions is added to their account. A timer that is moved while none is current stays in its
 * account. Posts belong to none.
 */
struct loop_account;
struct loop_account *loop_account_new(struct loop *l); /* freed with the loop */

/* Makes `a` the current account (NULL = none) and returns the previous one. When a function that the loop
 * calls returns, the loop restores the account that was current before the call. */
struct loop_account *loop_account_enter(struct loop *l, struct loop_account *a);

int64_t loop_account_cpu_ns(const struct loop_account *a);

/* Adds what another process used for it to the current account. */
void loop_account_add(struct loop *l, int64_t cpu_ns);

/* CLOCK_MONOTONIC ns at the start of this turn: cheap, the same for all callbacks of the turn. */
int64_t loop_now_ns(const struct loop *l);

/* Calls fn(arg) on the loop's thread, in the order posted. Any thread. */
void loop_post(struct loop *l, loop_fn fn, void *arg);

/* run(arg) on a worker, then done(arg) on the loop's thread. `done` is always called. */
void loop_work(struct loop *l, loop_fn run, loop_fn done, void *arg);

/* Calls fn for EPOLLIN or EPOLLOUT of fd until loop_unwatch(); level-triggered unless EPOLLET is added. The
 * fd stays the caller's. */
MUST_CHECK int loop_watch(struct loop *l, int fd, uint32_t events, loop_fd_fn fn, void *arg,
			  struct loop_watch **out, struct err *e);
void loop_unwatch(struct loop_watch *w); /* before close(fd); NULL is fine; also from inside fn */

/* SIGINT and SIGTERM call fn(arg) on the loop's thread instead of ending the process. To be called
 * before any library starts a thread, which must inherit the blocked signals. */
MUST_CHECK int loop_on_stop_signal(struct loop *l, loop_fn fn, void *arg, struct err *e);

/*
 * A one-shot timer, embedded in its owner; zeroed means idle. Setting an armed timer moves it. It is
 * idle again before fn runs, so fn may set it again. The owner cancels it before it frees.
 */
struct loop_timer {
	int64_t at_mono_ns;
	loop_fn fn;
	void *arg;
	struct loop_account *account;
	size_t slot; /* 1 + place in the heap; 0 = idle */
};

void loop_timer_at(struct loop *l, struct loop_timer *t, int64_t at_mono_ns, loop_fn fn, void *arg);
void loop_timer_in(struct loop *l, struct loop_timer *t, int64_t delay_ns, loop_fn fn, void *arg);
void loop_timer_cancel(struct loop *l, struct loop_timer *t);

/* For periodic work: at the next multiple of `period_ns` on CLOCK_MONOTONIC. So periods that are multiples of each other
 * share their wake-ups, which cost more than most work. */
void loop_timer_each(struct loop *l, struct loop_timer *t, int64_t period_ns, loop_fn fn,
		     void *arg);

static inline bool loop_timer_armed(const struct loop_timer *t)
{
	return t->slot != 0;
}

#endif
