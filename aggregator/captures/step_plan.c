/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/captures/step_plan.h"

#include <inttypes.h>
#include <math.h>

#include "base/now.h"

/* Hosts whose steps are further apart than this disagree: they do not wait for each other after each step. */
#define DISAGREE 1.5

/* The guard has SIGMAS standard deviations, plus 1/SHARE of a period because marks arrive late. */
#define SIGMAS	 3
#define SHARE	 8
#define MEASURED 15 /* how many steps an agent averages over: agent/marks/steps.c */

#define TRIES 10000

/* Limit of numbers in reports, which are not trusted: sums with a time do not overflow. */
static int64_t bounded_ns(double ns)
{
	const double most_ns = 1e18;

	return (int64_t)(ns > most_ns ? most_ns : ns < -most_ns ? -most_ns : ns);
}

static int64_t expected_ns(const struct step_report *r, int64_t step)
{
	return r->at_ns + bounded_ns((double)(step - r->step) * (double)r->period_ns);
}

/* Independent steps: the deviation of a sum of n steps grows with sqrt(n). The error of the average, which is of
 * MEASURED steps, adds n / sqrt(MEASURED). */
static int64_t guard_ns(const struct step_report *r, int64_t step)
{
	double ahead = step > r->step ? (double)(step - r->step) : 1;

	return bounded_ns((double)r->period_ns / SHARE +
			  SIGMAS * (double)r->jitter_ns * sqrt(ahead + ahead * ahead / MEASURED));
}

/* The step and the fraction of it that has passed. */
static double position(const struct step_report *r, int64_t now_ns)
{
	return (double)r->step + (double)(now_ns - r->at_ns) / (double)r->period_ns;
}

static int check_agreement(const struct step_report *reports, size_t n, int64_t now_ns,
			   struct err *e)
{
	const struct step_report *low = reports, *high = reports;

	for (size_t i = 1; i < n; i++) {
		if (position(&reports[i], now_ns) < position(low, now_ns))
			low = &reports[i];
		if (position(&reports[i], now_ns) > position(high, now_ns))
			high = &reports[i];
	}
	if (position(high, now_ns) - position(low, now_ns) <= DISAGREE)
		return 0;
	return err_set(e, ERR_INVALID,
		       "the hosts disagree: %.60s is at step %" PRId64 ", %.60s at step %" PRId64,
		       low->host, (int64_t)position(low, now_ns), high->host,
		       (int64_t)position(high, now_ns));
}

static void set_window(struct step_plan *p, const struct step_report *reports, size_t n,
		       int64_t n_steps)
{
	int64_t end = p->step + n_steps;

	p->begins_ns = p->t0_ns = INT64_MAX;
	p->ends_ns = p->t1_ns = 0;
	for (size_t i = 0; i < n; i++) {
		const struct step_report *r = &reports[i];
		int64_t begin_ns = expected_ns(r, p->step), end_ns = expected_ns(r, end);
		int64_t late_ns = end_ns + guard_ns(r, end) +
				  bounded_ns((double)n_steps * (double)r->period_ns / 2);

		p->begins_ns = begin_ns < p->begins_ns ? begin_ns : p->begins_ns;
		p->ends_ns = end_ns > p->ends_ns ? end_ns : p->ends_ns;
		if (begin_ns - guard_ns(r, p->step) < p->t0_ns)
			p->t0_ns = begin_ns - guard_ns(r, p->step);
		p->t1_ns = late_ns > p->t1_ns ? late_ns : p->t1_ns;
	}
}

/* Sets the window of the first step that begins late enough for the hosts. */
static int choose_next(struct step_plan *p, const struct step_report *reports, size_t n,
		       int64_t n_steps, int64_t earliest_ns, struct err *e)
{
	int64_t step = (int64_t)position(&reports[0], earliest_ns);

	for (int i = 1; i <= TRIES; i++) {
		p->step = step + i;
		set_window(p, reports, n, n_steps);
		if (p->t0_ns >= earliest_ns)
			return 0;
	}
	return err_set(e, ERR_INVALID, "%.60s marks its steps too unevenly to predict the next one",
		       reports[0].host);
}

static int check_step(const struct step_plan *p, const struct step_report *reports, size_t n,
		      int64_t now_ns, int64_t earliest_ns, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		if (reports[i].step >= p->step)
			return err_set(e, ERR_INVALID,
				       "step %" PRId64 " has passed: %.60s is at step %" PRId64,
				       p->step, reports[i].host, reports[i].step);
	}
	if (p->t0_ns < earliest_ns)
		return err_set(e, ERR_INVALID,
			       "step %" PRId64 " is expected in %" PRId64 " ms, or up to %" PRId64
			       " ms earlier: too soon for hosts that take %" PRId64
			       " ms to get ready",
			       p->step, (p->begins_ns - now_ns) / NS_PER_MS,
			       (p->begins_ns - p->t0_ns) / NS_PER_MS,
			       (earliest_ns - now_ns) / NS_PER_MS);
	return 0;
}

int step_plan_make(struct step_plan *out, const struct step_report *reports, size_t n, int64_t step,
		   int64_t n_steps, int64_t now_ns, int64_t earliest_ns, struct err *e)
{
	int rc;

	if (!n)
		return err_set(e, ERR_INVALID,
			       "no host reports a training step: let the job mark its steps, "
			       "by `tutti mark --step N` or the local socket");
	rc = check_agreement(reports, n, now_ns, e);
	if (rc)
		return rc;
	if (step == STEP_NEXT)
		return choose_next(out, reports, n, n_steps, earliest_ns, e);
	out->step = step;
	set_window(out, reports, n, n_steps);
	return check_step(out, reports, n, now_ns, earliest_ns, e);
}

bool step_plan_reached(const struct step_report *reports, size_t n, int64_t step, int64_t *at_ns)
{
	*at_ns = 0;
	for (size_t i = 0; i < n; i++) {
		if (reports[i].step < step)
			return false;
		if (expected_ns(&reports[i], step) > *at_ns)
			*at_ns = expected_ns(&reports[i], step);
	}
	return n > 0;
}
