/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the loop each time core's thread has worked for RPC_WORK_NS, and whether it came back meanwhile: core goes on
 * with one connection for as long as that sends faster than core reads, and all others wait.
 *
 * A timer on that thread's CPU time: nothing wakes up while nothing happens. It writes to an event descriptor of the
 * process, which is never closed: a notification may still be on its way when its timer is deleted.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/now.h"
#include "net/rpc_impl.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int event_fd = -1;

static void open_event(void)
{
	event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

/* A thread of the C library's own. */
static void on_timer(union sigval arg)
{
	(void)arg;
	eventfd_write(event_fd, 1);
}

static void on_event(void *arg, uint32_t events)
{
	struct rpc *r = arg;
	unsigned int returns = atomic_load(&r->work.returns);

	(void)events;
	for (struct rpc_conns *cs = r->conns; cs; cs = rpc_conns_next(cs))
		rpc_conns_worked(cs, returns);
}

/* The process's other servers write there, too: edges, so that none of them has to read. */
int rpc_work_watch(struct rpc *r, struct err *e)
{
	int rc;

	pthread_once(&once, open_event);
	r->work.fd = fcntl(event_fd, F_DUPFD_CLOEXEC, 0); /* a loop may serve several */
	if (r->work.fd < 0)
		return err_errno(e, "making an event descriptor");
	rc = loop_watch(r->loop, r->work.fd, EPOLLIN | EPOLLET, on_event, r, &r->work.watch, e);
	if (rc)
		close(r->work.fd);
	return rc;
}

void rpc_work_unwatch(struct rpc *r)
{
	loop_unwatch(r->work.watch);
	close(r->work.fd);
}

void rpc_work_begin(struct rpc *r)
{
	static const struct itimerspec each = { .it_interval.tv_nsec = RPC_WORK_NS,
						.it_value.tv_nsec = RPC_WORK_NS };
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_timer };

	r->work.has_timer = !timer_create(CLOCK_THREAD_CPUTIME_ID, &ev, &r->work.timer);
	if (r->work.has_timer)
		timer_settime(r->work.timer, 0, &each, NULL);
}

void rpc_work_end(struct rpc *r)
{
	if (r->work.has_timer)
		timer_delete(r->work.timer);
}
