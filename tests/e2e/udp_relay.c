/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bad network in a program: relays UDP between clients and one server, each way with its own delay,
 * exponential jitter (packets overtake each other, unless told not to; or wait in a queue), and loss. It also attacks: of some packets it
 * sends a copy with a bit turned over, and a replay of an old one.
 *
 *   udp_relay --listen 127.0.0.2:7403 --server 127.0.0.1:7403 [--there-delay 1ms] [--there-jitter 200us]
 *             [--back-delay ...] [--back-jitter ...] [--in-order | --queue] [--prompt] [--loss 20] [--evil 20] [--seed 1]
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/socket.h"
#include "tests/lib/queue.h"

#define CLIENTS	 512
#define QUEUE	 4096
#define PACKET	 2048
#define AWAKE_NS (60 * NS_PER_US) /* what waking up may take */

struct conf {
	char *listen, *server;
	int64_t there_delay_ns, there_jitter_ns, back_delay_ns, back_jitter_ns;
	bool in_order, queue, prompt;
	int loss, evil; /* percent */
	int seed;
};

static const struct conf_field fields[] = {
	CONF(struct conf, listen, "127.0.0.2:0", "where clients send to"),
	CONF(struct conf, server, NULL, "where it goes"),
	CONF(struct conf, there_delay_ns, "0s", "delay of requests"),
	CONF(struct conf, there_jitter_ns, "0s", "mean of what comes on top"),
	CONF(struct conf, back_delay_ns, "0s", "delay of answers"),
	CONF(struct conf, back_jitter_ns, "0s", "mean of what comes on top"),
	CONF(struct conf, in_order, NULL, "packets do not overtake each other"),
	CONF(struct conf, queue, NULL, "the jitter is that of a queue, in order"),
	CONF(struct conf, prompt, NULL, "before all others, and awake when a packet is due"),
	CONF(struct conf, loss, "0", "percent that is lost, each way"),
	CONF(struct conf, evil, "0", "percent that is followed by a forged or an old packet"),
	CONF(struct conf, seed, "1", "of the dice"),
	{ 0 }
};

static const struct conf_table table = {
	.prog = "udp_relay",
	.summary = "A bad network in a program.",
	.fields = fields,
};

struct client {
	struct sockaddr_storage addr;
	socklen_t len;
	int fd; /* towards the server */
};

struct packet {
	int64_t at_ns; /* CLOCK_MONOTONIC: came, in the queue: goes on */
	int client;
	bool back;
	size_t len;
	uint8_t data[PACKET];
};

struct way {
	struct queue queue;
	int64_t last_ns; /* when its last packet comes out */
};

static struct conf conf;
static struct way ways[2]; /* there, back */
static int listener;
static struct client clients[CLIENTS];
static int n_clients;
static struct packet *queue[QUEUE];
static size_t n_queue;
static struct packet old; /* for replays */
static uint64_t dice;

static double roll(void)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return ((double)(dice >> 11) + 0.5) / 9007199254740992.0;
}

static int64_t jitter_at(struct way *way, double mean_ns, int64_t now_ns)
{
	if (conf.queue)
		return (int64_t)queue_wait(&way->queue, mean_ns, now_ns, roll);
	return (int64_t)(-mean_ns * log(roll()));
}

static void enqueue(const struct packet *p)
{
	int64_t delay_ns = p->back ? conf.back_delay_ns : conf.there_delay_ns;
	int64_t jitter_ns = p->back ? conf.back_jitter_ns : conf.there_jitter_ns;
	struct way *way = &ways[p->back];

	if (n_queue == QUEUE || roll() * 100 < conf.loss)
		return;
	queue[n_queue] = xmalloc(sizeof(*p));
	*queue[n_queue] = *p;
	queue[n_queue]->at_ns = p->at_ns + delay_ns + jitter_at(way, (double)jitter_ns, p->at_ns);
	if (conf.in_order || conf.queue) {
		if (queue[n_queue]->at_ns < way->last_ns)
			queue[n_queue]->at_ns = way->last_ns;
		way->last_ns = queue[n_queue]->at_ns;
	}
	n_queue++;
}

static void take(struct packet *p)
{
	enqueue(p);
	if (roll() * 100 >= conf.evil)
		return;
	if (old.len) {
		old.at_ns = p->at_ns;
		enqueue(&old);
	}
	if (roll() < 0.1)
		old = *p;
	p->data[(size_t)(roll() * (double)p->len)] ^= (uint8_t)(1 << (int)(roll() * 8));
	enqueue(p);
}

static void ask_for_stamps(int fd)
{
	(void)setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &(int){ 1 }, sizeof(int));
}

static int client_of(const struct sockaddr_storage *addr, socklen_t len)
{
	char host[64];
	const char *colon = strrchr(conf.server, ':');
	struct err e;
	struct client *c = &clients[n_clients];

	for (int i = 0; i < n_clients; i++) {
		if (clients[i].len == len && !memcmp(&clients[i].addr, addr, len))
			return i;
	}
	snprintf(host, sizeof(host), "%.*s", (int)(colon - conf.server), conf.server);
	if (n_clients == CLIENTS ||
	    socket_connect(host, (int)strtol(colon + 1, NULL, 10), SOCK_DGRAM, &c->fd, &e))
		return -1;
	ask_for_stamps(c->fd);
	c->addr = *addr;
	c->len = len;
	return n_clients++;
}

/* When the kernel had it: what this program needed to wake up is no delay of the path. */
static int64_t arrival_ns(struct msghdr *msg)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	struct timespec t;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
		return now_mono_ns();
	memcpy(&t, CMSG_DATA(c), sizeof(t));
	return now_mono_ns() - (now_real_ns() - (t.tv_sec * NS_PER_S + t.tv_nsec));
}

static void read_all(int fd, int client)
{
	struct packet p = { .client = client, .back = client >= 0 };
	struct sockaddr_storage addr;
	struct iovec room = { p.data, PACKET };
	char control[64];

	for (;;) {
		struct msghdr msg = { .msg_name = &addr,
				      .msg_namelen = sizeof(addr),
				      .msg_iov = &room,
				      .msg_iovlen = 1,
				      .msg_control = control,
				      .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT);

		if (n < 0)
			return;
		p.len = (size_t)n;
		p.at_ns = arrival_ns(&msg);
		if (!p.back)
			p.client = client_of(&addr, msg.msg_namelen);
		if (p.client >= 0 && n > 0)
			take(&p);
	}
}

static struct packet *take_first(int64_t now_ns, int64_t *next_ns)
{
	size_t first = 0;
	struct packet *p;

	for (size_t i = 1; i < n_queue; i++) {
		if (queue[i]->at_ns < queue[first]->at_ns)
			first = i;
	}
	*next_ns = n_queue ? queue[first]->at_ns : INT64_MAX;
	if (*next_ns > now_ns)
		return NULL;
	p = queue[first];
	queue[first] = queue[--n_queue];
	return p;
}

/* Sends what is due, in order; when the next is. */
static int64_t flush(void)
{
	struct packet *p;
	int64_t next_ns;

	while ((p = take_first(now_mono_ns(), &next_ns))) {
		const struct client *c = &clients[p->client];

		if (p->back)
			(void)!sendto(listener, p->data, p->len, 0, (const void *)&c->addr, c->len);
		else
			(void)!send(c->fd, p->data, p->len, 0);
		free(p);
	}
	return next_ns;
}

static void turn(void)
{
	struct pollfd fds[CLIENTS + 1];
	int64_t next_ns = flush(), wait_ns = next_ns - now_mono_ns();
	struct timespec wait = { 0 };

	fds[0] = (struct pollfd){ .fd = listener, .events = POLLIN };
	for (int i = 0; i < n_clients; i++)
		fds[i + 1] = (struct pollfd){ .fd = clients[i].fd, .events = POLLIN };
	if (next_ns == INT64_MAX)
		wait_ns = NS_PER_S;
	if (conf.prompt)
		wait_ns -= AWAKE_NS;
	if (wait_ns > 0)
		wait = (struct timespec){ wait_ns / NS_PER_S, wait_ns % NS_PER_S };
	if (ppoll(fds, (nfds_t)n_clients + 1, &wait, NULL) <= 0)
		return;
	for (int i = 0, n = n_clients; i <= n; i++) {
		if (fds[i].revents)
			read_all(fds[i].fd, i - 1);
	}
}

/* What this program adds of its own is as good as always the same: waiting for a CPU would be an asymmetry of the path,
 * and no clock can tell that. */
static void be_prompt(void)
{
	const struct sched_param first = { .sched_priority = 20 };

	prctl(PR_SET_TIMERSLACK, 1);
	if (conf.prompt && sched_setscheduler(0, SCHED_FIFO, &first))
		fprintf(stderr, "udp_relay: no real-time priority: %s\n", strerror(errno));
}

int main(int argc, char **argv)
{
	enum conf_action action;
	struct err e;
	int port;

	argc--;
	if (conf_load(&conf, &table, &argc, argv + 1, &action, &e) || !conf.server ||
	    !strrchr(conf.server, ':') ||
	    socket_bind(conf.listen, SOCK_DGRAM, &listener, &port, &e)) {
		fprintf(stderr, "udp_relay: wrong flags or address\n");
		return 2;
	}
	be_prompt();
	ask_for_stamps(listener);
	dice = (uint64_t)conf.seed * UINT64_C(0x9e3779b97f4a7c15);
	for (;;)
		turn();
}
