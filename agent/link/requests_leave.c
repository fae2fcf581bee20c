/* SPDX-License-Identifier: Apache-2.0 */
/* The last requests of an agent that stops. */
#include "agent/capture/capture.h"
#include "agent/link/requests_impl.h"
#include "base/log.h"
#include "base/now.h"
#include "proto/reasons.h"

int64_t request_mono_of_model(const struct clock_model *m, int64_t session_ns)
{
	const int64_t most_ns = 4 * 3600 * NS_PER_S;
	int64_t away_ns = now_mono_of_raw(clock_model_raw_of_session(m, session_ns)) -
			  now_mono_ns();

	if (away_ns > most_ns)
		away_ns = most_ns;
	if (away_ns < -most_ns)
		away_ns = -most_ns;
	return now_mono_ns() + away_ns;
}

int64_t request_mono_of_session(const struct request *rq, int64_t session_ns)
{
	struct clock_model m = clock_model(rq->requests->env->clock);

	return request_mono_of_model(&m, session_ns);
}

void request_cut(struct request *rq, const struct clock_model *m)
{
	const struct requests *rs = rq->requests;
	int64_t now_ns = clock_model_session_of_raw(m, now_raw_ns());
	int64_t until_ns = now_ns + rs->record_until_mono_ns - now_mono_ns();
	int64_t t0_ns = capture_t0_ns(rq->capture), t1_ns = capture_t1_ns(rq->capture);

	if (t0_ns >= until_ns) {
		if (rs->env->back_within_ns)
			log_info("AGT-CAPTURE", "session=%s state=left", rq->session);
		else
			requests_report_refused(rs, rq->session, REASON_REFUSED,
						"the agent stops before the window begins");
		request_free(rq, false);
		return;
	}
	if (t1_ns > until_ns)
		t1_ns = t0_ns > now_ns ? until_ns : now_ns;
	capture_cut(rq->capture, t1_ns, rs->gather_until_mono_ns);
}

void requests_leave(struct requests *rs, int64_t limit_mono_ns)
{
	const struct clock_model m = clock_model(rs->env->clock);
	int64_t left_ns = limit_mono_ns - now_mono_ns();

	rs->record_until_mono_ns = limit_mono_ns - left_ns / 2;
	rs->gather_until_mono_ns = limit_mono_ns - left_ns / 4;
	for (struct request *rq = rs->head, *next; rq; rq = next) {
		next = rq->next;
		if (rq->capture && rq->state < REQUEST_READY)
			request_cut(rq, &m);
	}
}

/* A file whose deadline is over is asked for only by a retry. */
static bool is_wanted(const struct request *rq)
{
	return rq->upload || (!rq->reported_not_stored &&
			      request_mono_of_session(rq, rq->deadline_ns) > now_mono_ns());
}

bool requests_have_settled(const struct requests *rs)
{
	for (const struct request *rq = rs->head; rq; rq = rq->next) {
		if (rq->state < REQUEST_READY || rq->entry_write)
			return false;
		if (rq->state == REQUEST_READY && rs->link_up && is_wanted(rq))
			return false;
	}
	return true;
}
