/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Upload credits: UPLOAD_CREDITS hosts may upload at once (UPLOAD_CREDITS_GRANTS where no byte comes
 * through the aggregator), the others wait, first come first served. A host
 * with a credit that sends nothing for a while loses it to a waiting host and is the last in the queue again.
 * An upload that has begun may go on without a credit.
 */
#include "aggregator/captures/capture_impl.h"

#include <string.h>

#include "aggregator/fleet/messages.h"
#include "base/log.h"
#include "base/now.h"

static void on_credit_timeout(void *arg);

static void set_credit_timer(struct captures *cs)
{
	const struct capture_host *first = TAILQ_FIRST(&cs->granted);

	if (first)
		loop_timer_at(cs->env.loop, &cs->credit_timer, first->credit_until_ns,
			      on_credit_timeout, cs);
	else
		loop_timer_cancel(cs->env.loop, &cs->credit_timer);
}

/* Appending keeps captures.granted sorted: all credits last equally long. */
static void start_credit(struct capture_host *h)
{
	struct captures *cs = h->capture->captures;

	h->credit_until_ns = now_mono_ns() + cs->env.patience->credit_ns;
	TAILQ_INSERT_TAIL(&cs->granted, h, credits);
}

void capture_host_send_credit(const struct capture_host *h, const Tutti__V1__Grant *grant)
{
	struct buf message = BUF_INIT;

	message_upload(&message, h->capture->session, h->capture->last_ns,
		       !h->capture->captures->many_credits, grant);
	capture_host_send(h, &message);
	if (grant)
		explicit_bzero(message.data, message.len);
	buf_release(&message);
}

static void send_credit(struct capture_host *h)
{
	const struct captures *cs = h->capture->captures;

	if (cs->many_credits && h->takes_grant && cs->granter.grant)
		cs->granter.grant(cs->granter.arg, h);
	else
		capture_host_send_credit(h, NULL);
}

void captures_set_granter(struct captures *cs, const struct capture_granter *granter)
{
	cs->granter = *granter;
}

static void grant_credits(struct captures *cs)
{
	unsigned int most = cs->many_credits ? UPLOAD_CREDITS_GRANTS : UPLOAD_CREDITS;

	while (cs->n_granted < most && !TAILQ_EMPTY(&cs->waiting)) {
		struct capture_host *h = TAILQ_FIRST(&cs->waiting);

		TAILQ_REMOVE(&cs->waiting, h, credits);
		h->credit = CREDIT_GRANTED;
		cs->n_granted++;
		start_credit(h);
		send_credit(h);
	}
	set_credit_timer(cs);
}

void captures_set_grants(struct captures *cs, bool are_made)
{
	cs->many_credits = are_made;
	grant_credits(cs);
}

static void enqueue(struct capture_host *h)
{
	h->credit = CREDIT_WAITING;
	TAILQ_INSERT_TAIL(&h->capture->captures->waiting, h, credits);
}

static void revoke(struct capture_host *h)
{
	struct captures *cs = h->capture->captures;

	TAILQ_REMOVE(&cs->granted, h, credits);
	cs->n_granted--;
	h->credit = CREDIT_NONE;
}

static void on_credit_timeout(void *arg)
{
	struct captures *cs = arg;
	struct capture_host *h = TAILQ_FIRST(&cs->granted);

	if (h && TAILQ_EMPTY(&cs->waiting)) {
		capture_host_renew_credit(h); /* no other host waits */
	} else if (h) {
		log_warn("AGG-CREDIT", "session=%s host=%s state=taken reason=\"it sends nothing\"",
			 h->capture->session, h->name);
		revoke(h);
		enqueue(h);
	}
	grant_credits(cs);
}

void capture_host_request_credit(struct capture_host *h)
{
	/* Also for a stored file: if the agent was killed before it got the reply, its successor uploads
	 * again. */
	if (h->credit != CREDIT_NONE)
		return;
	enqueue(h);
	grant_credits(h->capture->captures);
}

void capture_host_renew_credit(struct capture_host *h)
{
	struct captures *cs = h->capture->captures;

	if (h->credit != CREDIT_GRANTED)
		return;
	TAILQ_REMOVE(&cs->granted, h, credits);
	start_credit(h);
	set_credit_timer(cs);
}

static void drop(struct capture_host *h)
{
	if (h->credit == CREDIT_WAITING)
		TAILQ_REMOVE(&h->capture->captures->waiting, h, credits);
	if (h->credit == CREDIT_GRANTED)
		revoke(h);
	h->credit = CREDIT_NONE;
}

void capture_host_drop_credit(struct capture_host *h)
{
	drop(h);
	grant_credits(h->capture->captures);
}

void capture_drop_credits(struct capture *c)
{
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (capture_host_has_ended(&c->hosts[i]))
			drop(&c->hosts[i]);
	}
	grant_credits(c->captures);
}
