/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_conns.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/peers.h"

#define SWEEP_NS NS_PER_S

struct http_conn {
	struct http_conns *conns;
	struct peer_share *share;
	int fd;
	void *request;
	int64_t until_ns; /* 0 = the connection has no time limit now */
	size_t body, answer; /* body and answer bytes beyond the free ones */
	TAILQ_ENTRY(http_conn) entry, sending;
};

struct http_conns {
	struct peers *peers;
	struct loop *loop;
	struct loop_timer sweep;

	pthread_mutex_t lock; /* guards all below, and the members of connections */
	TAILQ_HEAD(http_conn_list, http_conn) all;
	TAILQ_HEAD(, http_conn) answering; /* connections with answer > 0, the oldest first */
	size_t bodies, answers, largest;
};

static size_t beyond(size_t bytes, size_t free_bytes)
{
	return bytes > free_bytes ? bytes - free_bytes : 0;
}

/* Shuts the socket down. The library then sees the end of the connection and closes it. */
static void cut(const struct http_conn *c)
{
	shutdown(c->fd, SHUT_RDWR);
}

static void on_sweep(void *arg)
{
	struct http_conns *s = arg;
	int64_t now_ns = now_mono_ns();
	struct http_conn *c;
	int slow = 0;

	pthread_mutex_lock(&s->lock);
	TAILQ_FOREACH (c, &s->all, entry) {
		if (!c->until_ns || now_ns < c->until_ns)
			continue;
		cut(c);
		c->until_ns = 0;
		slow++;
	}
	pthread_mutex_unlock(&s->lock);
	if (slow)
		log_info("HTTP-SLOW", "connections=%d reason=\"no whole request came in time\"",
			 slow);
	loop_timer_in(s->loop, &s->sweep, SWEEP_NS, on_sweep, s);
}

struct http_conns *http_conns_new(struct loop *loop, size_t max)
{
	struct http_conns *s = xcalloc(1, sizeof(*s));

	s->peers = peers_new(max);
	s->loop = loop;
	pthread_mutex_init(&s->lock, NULL);
	TAILQ_INIT(&s->all);
	TAILQ_INIT(&s->answering);
	loop_timer_in(loop, &s->sweep, SWEEP_NS, on_sweep, s);
	return s;
}

void http_conns_stop(struct http_conns *s)
{
	loop_timer_cancel(s->loop, &s->sweep);
}

void http_conns_free(struct http_conns *s)
{
	if (!s)
		return;
	peers_free(s->peers);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

bool http_conns_admit(struct http_conns *s, const struct sockaddr *address)
{
	return peers_admit(s->peers, address);
}

struct http_conn *http_conn_begin(struct http_conns *s, const struct sockaddr *address, int fd)
{
	struct http_conn *c = xcalloc(1, sizeof(*c));

	c->conns = s;
	c->share = peers_join(s->peers, address);
	c->fd = fd;
	c->until_ns = now_mono_ns() + HTTP_HEAD_NS;
	pthread_mutex_lock(&s->lock);
	TAILQ_INSERT_TAIL(&s->all, c, entry);
	pthread_mutex_unlock(&s->lock);
	return c;
}

void http_conn_set_request(struct http_conn *c, void *request)
{
	c->request = request;
}

void *http_conn_request(const struct http_conn *c)
{
	return c->request;
}

void http_conn_expect(struct http_conn *c, int64_t limit_ns)
{
	pthread_mutex_lock(&c->conns->lock);
	c->until_ns = limit_ns ? now_mono_ns() + limit_ns : 0;
	pthread_mutex_unlock(&c->conns->lock);
}

bool http_conn_body(struct http_conn *c, size_t bytes)
{
	struct http_conns *s = c->conns;
	size_t more = beyond(bytes, HTTP_BODY_FREE_BYTES) - c->body;
	bool fits;

	pthread_mutex_lock(&s->lock);
	fits = s->bodies + more <= HTTP_BODIES_MAX_BYTES;
	if (fits) {
		s->bodies += more;
		c->body += more;
	}
	pthread_mutex_unlock(&s->lock);
	return fits;
}

/* The lock is held. */
static void end_answer(struct http_conn *c)
{
	if (!c->answer)
		return;
	TAILQ_REMOVE(&c->conns->answering, c, sending);
	c->conns->answers -= c->answer;
	c->answer = 0;
}

void http_conn_answer(struct http_conn *c, size_t bytes)
{
	struct http_conns *s = c->conns;
	size_t counted = beyond(bytes, HTTP_ANSWER_FREE_BYTES), max;
	struct http_conn *old;

	pthread_mutex_lock(&s->lock);
	s->largest = bytes > s->largest ? bytes : s->largest;
	max = HTTP_ANSWERS_LARGEST * s->largest;
	max = max > HTTP_ANSWERS_MAX_BYTES ? max : HTTP_ANSWERS_MAX_BYTES;
	while (s->answers + counted > max && (old = TAILQ_FIRST(&s->answering))) {
		cut(old);
		end_answer(old);
	}
	if (counted && !c->answer) {
		s->answers += counted;
		c->answer = counted;
		TAILQ_INSERT_TAIL(&s->answering, c, sending);
	}
	pthread_mutex_unlock(&s->lock);
}

void http_conn_done(struct http_conn *c, int64_t idle_ns)
{
	struct http_conns *s = c->conns;

	pthread_mutex_lock(&s->lock);
	s->bodies -= c->body;
	c->body = 0;
	end_answer(c);
	c->until_ns = now_mono_ns() + idle_ns + HTTP_HEAD_NS;
	pthread_mutex_unlock(&s->lock);
}

void http_conn_end(struct http_conn *c)
{
	struct http_conns *s = c->conns;

	pthread_mutex_lock(&s->lock);
	s->bodies -= c->body;
	end_answer(c);
	TAILQ_REMOVE(&s->all, c, entry);
	pthread_mutex_unlock(&s->lock);
	peers_leave(s->peers, c->share);
	free(c);
}
