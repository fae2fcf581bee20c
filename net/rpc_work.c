/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the loop each time core's thread has worked for RPC_WORK_NS, and whether core has returned since the
 * last time. Core stays with one connection for as long as that sends faster than core reads, and all others
 * wait.
 *
 * A timer on the CPU time of core's thread sends a signal to a second thread, which waits for it: an idle
 * server wakes nothing up. (The sanitizers know nothing of the threads that SIGEV_THREAD makes.)
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/now.h"
#include "base/thread_cpu.h"
#include "net/rpc_impl.h"

#define SIGNAL (SIGRTMIN + 1) /* only core's threads and this one get it: they block all signals */

/* Without a timer the thread only waits to be ended. */
static void *watch_thread(void *arg)
{
	static const struct itimerspec each = { .it_interval.tv_nsec = RPC_WORK_NS,
						.it_value.tv_nsec = RPC_WORK_NS };
	struct rpc *r = arg;
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGNAL };
	sigset_t set;
	timer_t timer;
	bool has_timer;

	sigemptyset(&set);
	sigaddset(&set, SIGNAL);
	ev._sigev_un._tid = gettid();
	has_timer = !timer_create(r->work.clock, &ev, &timer);
	if (has_timer)
		timer_settime(timer, 0, &each, NULL);
	else
		log_warn("NET-GRPC",
			 "reason=\"no timer (RLIMIT_SIGPENDING?): a flood of one peer is not "
			 "noticed\"");
	while (!atomic_load(&r->work.ending)) {
		if (sigwaitinfo(&set, NULL) == SIGNAL)
			eventfd_write(r->work.fd, 1);
	}
	if (has_timer)
		timer_delete(timer);
	return NULL;
}

static void on_event(void *arg, uint32_t events)
{
	struct rpc *r = arg;
	unsigned int returns = atomic_load(&r->work.returns);
	eventfd_t n;

	(void)events;
	eventfd_read(r->work.fd, &n);
	for (struct rpc_conns *cs = r->conns; cs; cs = rpc_conns_next(cs))
		rpc_conns_worked(cs, returns);
}

int rpc_work_watch(struct rpc *r, struct err *e)
{
	int rc;

	r->work.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->work.fd < 0)
		return err_errno(e, "making an event descriptor");
	rc = loop_watch(r->loop, r->work.fd, EPOLLIN, on_event, r, &r->work.watch, e);
	if (rc)
		close(r->work.fd);
	return rc;
}

void rpc_work_unwatch(struct rpc *r)
{
	loop_unwatch(r->work.watch);
	close(r->work.fd);
}

int64_t rpc_work_ns(const struct rpc *r)
{
	return thread_cpu_ns(r->thread);
}

/* "S": core's thread sleeps. It does not while a socket has something for it. */
static bool sleeps(int tid)
{
	char path[64], line[256];
	const char *state;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	if (!file_first_line(path, line, sizeof(line)))
		return true;
	state = strrchr(line, ')');
	return !state || state[1] != ' ' || state[2] == 'S';
}

bool rpc_is_behind(struct rpc *r)
{
	int tid = atomic_load(&r->work.core_tid);
	bool is_full;

	pthread_mutex_lock(&r->lock);
	is_full = r->taken || r->n_done || (r->n_serving && r->n_requests <= 0);
	pthread_mutex_unlock(&r->lock);
	return is_full || (tid && !sleeps(tid));
}

void rpc_work_begin(struct rpc *r)
{
	atomic_store(&r->work.core_tid, gettid());
	r->work.has_thread = !pthread_getcpuclockid(pthread_self(), &r->work.clock) &&
			     !pthread_create(&r->work.thread, NULL, watch_thread, r);
}

void rpc_work_end(struct rpc *r)
{
	if (!r->work.has_thread)
		return;
	atomic_store(&r->work.ending, true);
	pthread_kill(r->work.thread, SIGNAL);
	pthread_join(r->work.thread, NULL);
}
