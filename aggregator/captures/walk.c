/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk sends a message to all hosts of a capture, to some of them in each turn of the loop: 10,000 at once
 * would block the loop for 15 ms. The walks of a capture follow one another, so the messages of a host keep
 * their order.
 */
#include "aggregator/captures/capture_impl.h"

#include <stdlib.h>

#include "base/mem.h"

struct walk {
	/* for the hosts that wants() selects; empty if visit() is called instead */
	struct buf message;
	bool (*wants)(const struct capture_host *h);
	void (*visit)(struct capture_host *h, struct host *host);
	size_t next; /* the host that it goes on with */
	TAILQ_ENTRY(walk) entry;
};

static void walk_end(struct capture *c)
{
	struct walk *w = TAILQ_FIRST(&c->walks);

	TAILQ_REMOVE(&c->walks, w, entry);
	buf_release(&w->message);
	free(w);
}

/* Hosts connect and disconnect between two turns, so the place in the registry is searched again. */
static void walk_on(struct capture *c, struct walk *w, size_t end)
{
	size_t at = 0;

	for (; w->next < end; w->next++) {
		struct capture_host *h = &c->hosts[w->next];
		bool is_wanted = w->visit || w->wants(h);
		struct host *host = is_wanted ? capture_host_next_own_agent(h, &at) : NULL;

		if (host && w->visit)
			w->visit(h, host);
		else if (host)
			host_send(host, &w->message);
	}
}

static void on_turn(void *arg)
{
	struct capture *c = arg;
	size_t left = CAPTURE_TURN_HOSTS;
	struct walk *w;

	while (left && (w = TAILQ_FIRST(&c->walks))) {
		size_t n = c->n_hosts - w->next < left ? c->n_hosts - w->next : left;

		walk_on(c, w, w->next + n);
		left -= n;
		if (w->next == c->n_hosts)
			walk_end(c);
	}
	if (!TAILQ_EMPTY(&c->walks))
		loop_timer_in(c->captures->env.loop, &c->walk_timer, 0, on_turn, c);
}

static void begin(struct capture *c, const struct walk *walk)
{
	bool is_first = TAILQ_EMPTY(&c->walks);
	struct walk *w = xmalloc(sizeof(*w));

	*w = *walk;
	TAILQ_INSERT_TAIL(&c->walks, w, entry);
	if (is_first && c->n_hosts <= CAPTURE_TURN_HOSTS)
		on_turn(c);
	else if (is_first)
		loop_timer_in(c->captures->env.loop, &c->walk_timer, 0, on_turn, c);
}

void capture_send(struct capture *c, struct buf *message_taken,
		  bool (*wants)(const struct capture_host *h))
{
	begin(c, &(struct walk){ .message = *message_taken, .wants = wants });
	*message_taken = (struct buf)BUF_INIT;
}

void capture_visit(struct capture *c, void (*visit)(struct capture_host *h, struct host *host))
{
	begin(c, &(struct walk){ .message = BUF_INIT, .visit = visit });
}

void capture_end_walks(struct capture *c)
{
	struct walk *w;

	loop_timer_cancel(c->captures->env.loop, &c->walk_timer);
	while ((w = TAILQ_FIRST(&c->walks))) {
		if (!w->visit)
			walk_on(c, w, c->n_hosts);
		walk_end(c);
	}
}
