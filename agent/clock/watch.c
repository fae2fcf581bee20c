/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/clock/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"

#define CALM_GAP_NS  NS_PER_S
#define DENSE_GAP_NS (50 * NS_PER_MS)
#define FAR_AWAY_S   (10LL * 365 * 86400) /* the timerfd never fires: it only gets cancelled */

struct clock_watch {
	struct loop *loop;
	struct clock_ledger ledger;
	clock_watch_fn fn;
	void *arg;
	struct loop_timer timer;
	int64_t dense_until_ns;
	bool steered; /* the wall clock is steered by chrony, ntpd, ... */
	int fd; /* readable when the wall clock was set; -1 = not supported, snapshots show it later */
	struct loop_watch *watch;
};

static struct ledger_point take_point(void)
{
	struct ledger_point p = {
		.suspended_ns = now_suspended_ns(),
		.source = now_source(),
		.disruption = now_disruption(),
	};

	p.pair = now_pair();
	return p;
}

static void check_steering(struct clock_watch *w)
{
	bool steered = now_wall_error_ns() >= 0;

	if (steered != w->steered)
		log_info("AGT-CLOCK", "state=%s", steered ? "steered" : "not-steered");
	w->steered = steered;
}

void clock_watch_take_snapshot(struct clock_watch *w)
{
	static const char *const states[] = {
		[LEDGER_STEPPED] = "stepped",
		[LEDGER_SLEPT] = "slept",
		[LEDGER_SWITCHED] = "switched",
		[LEDGER_DISRUPTED] = "disrupted",
	};
	struct ledger_point p = take_point();
	enum ledger_change change = ledger_add(&w->ledger, &p);
	const struct ledger_step *step;

	check_steering(w);
	if (change == LEDGER_NO_CHANGE)
		return;
	step = &w->ledger.steps[w->ledger.n_steps - 1];
	log_warn("AGT-CLOCK", "state=%s delta_s=%.6f within_s=%.3f", states[change],
		 (double)step->delta_ns / (double)NS_PER_S,
		 (double)(step->to_raw_ns - step->from_raw_ns) / (double)NS_PER_S);
	w->fn(w->arg, change);
}

static void on_timer(void *arg)
{
	struct clock_watch *w = arg;
	bool dense = now_mono_ns() < w->dense_until_ns;

	clock_watch_take_snapshot(w);
	loop_timer_each(w->loop, &w->timer, dense ? DENSE_GAP_NS : CALM_GAP_NS, on_timer, w);
}

/* ---- the kernel's notice that the wall clock was set ---- */

static int arm_timerfd(int fd)
{
	struct itimerspec far = { .it_value.tv_sec = now_real_ns() / NS_PER_S + FAR_AWAY_S };

	return timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far, NULL);
}

static void on_wall_clock_set(void *arg, uint32_t events)
{
	struct clock_watch *w = arg;
	uint64_t times;

	(void)events;
	if (read(w->fd, &times, sizeof(times)) < 0 && errno == EAGAIN)
		return;
	clock_watch_take_snapshot(w);
	(void)arm_timerfd(w->fd);
}

/* Some sandboxes do not have it: then steps are noticed at the next snapshot. */
static int watch_kernel(struct clock_watch *w, struct err *e)
{
	w->fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
	if (w->fd >= 0 && arm_timerfd(w->fd)) {
		close(w->fd);
		w->fd = -1;
	}
	return w->fd < 0 ? 0
			 : loop_watch(w->loop, w->fd, EPOLLIN, on_wall_clock_set, w, &w->watch, e);
}

/* ---- life ---- */

int clock_watch_new(struct clock_watch **out, struct loop *loop, clock_watch_fn fn, void *arg,
		    struct err *e)
{
	struct clock_watch *w = xcalloc(1, sizeof(*w));
	int rc;

	w->loop = loop;
	w->fn = fn;
	w->arg = arg;
	rc = watch_kernel(w, e);
	if (rc) {
		clock_watch_free(w);
		return rc;
	}
	on_timer(w);
	*out = w;
	return 0;
}

void clock_watch_free(struct clock_watch *w)
{
	if (!w)
		return;
	loop_timer_cancel(w->loop, &w->timer);
	loop_unwatch(w->watch);
	if (w->fd >= 0)
		close(w->fd);
	free(w);
}

void clock_watch_densely(struct clock_watch *w, int64_t until_mono_ns)
{
	if (until_mono_ns > w->dense_until_ns)
		w->dense_until_ns = until_mono_ns;
	loop_timer_in(w->loop, &w->timer, 0, on_timer, w);
}

struct clock_ledger clock_watch_ledger(const struct clock_watch *w)
{
	struct clock_ledger l = w->ledger;
	struct ledger_point p = take_point();

	(void)ledger_add(&l, &p);
	return l;
}
