/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/snapshot_requests.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "agent/clock/clock.h"
#include "agent/link/control.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/names.h"

#define TRIES_MAX  12
#define AGAIN_NS   (5 * NS_PER_S)
#define PER_MINUTE 10

struct request {
	struct snapshot_requests *owner; /* NULL once that is freed */
	LIST_ENTRY(request) entry;
	struct loop_timer timer;
	int64_t from_real_ns, to_real_ns;
	char run[LIMIT_RUN_NAME + 1]; /* "" = none */
	int tries;
};

struct snapshot_requests {
	struct loop *loop;
	const struct clock *clock;
	struct control *control;
	LIST_HEAD(, request) list;
	int64_t recent_mono_ns[PER_MINUTE]; /* when the last ones were made */
	size_t n;
};

struct snapshot_requests *snapshot_requests_new(struct loop *loop, const struct clock *clock,
						struct control *control)
{
	struct snapshot_requests *ps = xcalloc(1, sizeof(*ps));

	ps->loop = loop;
	ps->clock = clock;
	ps->control = control;
	return ps;
}

static void drop(struct request *r)
{
	loop_timer_cancel(r->owner->loop, &r->timer);
	LIST_REMOVE(r, entry);
	free(r);
}

void snapshot_requests_free(struct snapshot_requests *ps)
{
	struct request *r, *next;

	if (!ps)
		return;
	for (r = LIST_FIRST(&ps->list); r; r = next) {
		next = LIST_NEXT(r, entry);
		if (loop_timer_armed(&r->timer))
			drop(r);
		else
			r->owner = NULL; /* the answer frees it */
	}
	free(ps);
}

static void ask(void *arg);

static void on_answer(void *arg, bool ok, const char *session, const char *detail)
{
	struct request *r = arg;

	if (!r->owner) {
		free(r);
	} else if (ok) {
		log_info("AGT-SNAPSHOT", "run=%s session=%s state=requested", r->run, session);
		drop(r);
	} else if (++r->tries < TRIES_MAX) {
		loop_timer_in(r->owner->loop, &r->timer, AGAIN_NS, ask, r);
	} else {
		log_warn("AGT-SNAPSHOT", "run=%s state=given-up reason=\"%s\"", r->run, detail);
		drop(r);
	}
}

static int64_t session_of_real(const struct clock_model *m, int64_t real_ns)
{
	return clock_model_session_of_raw(m, clock_model_raw_of_real(m, real_ns));
}

/* Without a measured clock nothing can be said about the session clock. */
static void ask(void *arg)
{
	struct request *r = arg;
	struct clock_model m = clock_model(r->owner->clock);
	struct control_question q = { .verb = "snapshot", .session = "", .hosts = "", .token = "" };

	if (!m.calibrated) {
		on_answer(r, false, "", "the clock is not measured yet");
		return;
	}
	q.run = r->run;
	q.ending_at_ns = session_of_real(&m, r->to_real_ns);
	q.duration_ns = q.ending_at_ns - session_of_real(&m, r->from_real_ns);
	control_ask(r->owner->control, &q, on_answer, r);
}

static bool may_request(struct snapshot_requests *ps)
{
	int64_t now_ns = loop_now_ns(ps->loop), *oldest = &ps->recent_mono_ns[ps->n % PER_MINUTE];

	if (ps->n >= PER_MINUTE && now_ns - *oldest < 60 * NS_PER_S)
		return false;
	*oldest = now_ns;
	ps->n++;
	return true;
}

void snapshot_request(struct snapshot_requests *ps, int64_t from_real_ns, int64_t to_real_ns,
		      const char *run)
{
	struct request *r;

	if (!may_request(ps)) {
		log_warn("AGT-SNAPSHOT",
			 "run=%s state=given-up reason=\"more than %d in a minute\"", run,
			 PER_MINUTE);
		return;
	}
	r = xcalloc(1, sizeof(*r));
	r->owner = ps;
	r->from_real_ns = from_real_ns;
	r->to_real_ns = to_real_ns;
	if (!name_check_run(run, NULL))
		snprintf(r->run, sizeof(r->run), "%s", run);
	LIST_INSERT_HEAD(&ps->list, r, entry);
	ask(r);
}
