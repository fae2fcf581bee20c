/* SPDX-License-Identifier: Apache-2.0 */
/* net/udp.h: datagrams that are late, lost, doubled and out of order, with stamps of both kinds. */
#include "net/udp.h"

#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "base/mem.h"
#include "net/address.h"
#include "tests/sim/sim.h"

#define LEAVE_MEAN_NS (5 * NS_PER_US) /* from the call to the wire */
#define LEAN_MAX_NS   400 /* that a kernel's stamp is off, to the safe side */
#define FIRST_PORT    20000
#define BUCKETS	      4096

struct address {
	const struct sim_host *host;
	int port;
};

/* On its way, or waiting to be read. */
struct datagram {
	struct udp *to;
	struct sim_host *from_host;
	struct address from;
	struct sim_event ev;
	int64_t stamp_ns;
	size_t len;
	uint8_t data[512];
	TAILQ_ENTRY(datagram) entry;
};

/* The kernel stamp of a departure. */
struct departure {
	struct udp *udp;
	struct sim_event ev;
	uint32_t id;
	int64_t raw_ns;
	TAILQ_ENTRY(departure) entry;
};

struct udp {
	struct loop *loop;
	struct sim_host *host;
	struct address own, peer; /* peer.port 0 = anybody */
	udp_fn fn;
	udp_sent_fn sent_fn;
	void *arg;
	uint32_t next_id;
	TAILQ_HEAD(, datagram) flying, in;
	TAILQ_HEAD(, departure) leaving, left;
	unsigned int posts; /* that name it */
	bool dead;
	LIST_ENTRY(udp) entry;
};

static LIST_HEAD(sockets, udp) buckets[BUCKETS];

static struct sockets *bucket_of(const struct address *a)
{
	return &buckets[((uintptr_t)a->host / 64 + (uintptr_t)a->port) % BUCKETS];
}

static bool is_same(const struct address *a, const struct address *b)
{
	return a->host == b->host && a->port == b->port;
}

static struct udp *find(const struct address *a)
{
	struct udp *u;

	LIST_FOREACH(u, bucket_of(a), entry)
	{
		if (is_same(&u->own, a))
			return u;
	}
	return NULL;
}

static bool takes_from(const struct udp *u, const struct address *from)
{
	return !u->peer.port || is_same(&u->peer, from);
}

/* ---- reading ---- */

static void maybe_free(struct udp *u)
{
	if (u->dead && !u->posts)
		free(u);
}

static void deliver_departures(struct udp *u)
{
	struct departure *d;

	while ((d = TAILQ_FIRST(&u->left))) {
		TAILQ_REMOVE(&u->left, d, entry);
		if (u->sent_fn)
			u->sent_fn(u->arg, d->id, d->raw_ns);
		free(d);
	}
}

static void on_readable(void *arg)
{
	struct udp *u = arg;
	struct datagram *d = TAILQ_FIRST(&u->in);

	if (!u->dead)
		deliver_departures(u);
	if (!u->dead && d) {
		const struct udp_from from = { &d->from, sizeof(d->from), u->host->kernel_stamps };

		TAILQ_REMOVE(&u->in, d, entry);
		u->fn(u->arg, d->data, d->len, from.kernel ? d->stamp_ns : now_raw_ns(), &from);
		free(d);
	}
	u->posts--;
	maybe_free(u);
}

static void on_arrival(void *arg)
{
	struct datagram *d = arg;
	struct udp *u = d->to;

	TAILQ_REMOVE(&u->flying, d, entry);
	if (!takes_from(u, &d->from) || net_cut_until_ns(d->from_host, u->host)) {
		free(d);
		return;
	}
	d->stamp_ns = host_raw_ns(u->host, sim.now_ns) + rng_range(&sim.rng, 0, LEAN_MAX_NS);
	TAILQ_INSERT_TAIL(&u->in, d, entry);
	sim_hash(d->data, d->len);
	u->posts++;
	loop_post(u->loop, on_readable, u);
}

/* ---- sending ---- */

static void launch(struct udp *u, struct udp *to, const void *data, size_t len, int64_t left_ns)
{
	struct datagram *d = xcalloc(1, sizeof(*d));

	d->to = to;
	d->from_host = u->host;
	d->from = u->own;
	d->len = len < sizeof(d->data) ? len : sizeof(d->data);
	memcpy(d->data, data, d->len);
	TAILQ_INSERT_TAIL(&to->flying, d, entry);
	sim_at(&d->ev, left_ns + net_delay_ns(u->host, to->host), on_arrival, d);
}

static void on_left(void *arg)
{
	struct departure *d = arg;
	struct udp *u = d->udp;

	d->raw_ns = host_raw_ns(u->host, sim.now_ns) - rng_range(&sim.rng, 0, LEAN_MAX_NS);
	TAILQ_REMOVE(&u->leaving, d, entry);
	TAILQ_INSERT_TAIL(&u->left, d, entry);
	u->posts++;
	loop_post(u->loop, on_readable, u);
}

static void stamp_departure(struct udp *u, uint32_t id, int64_t left_ns)
{
	struct departure *d;

	if (!u->sent_fn || !u->host->kernel_stamps || rng_chance(&sim.rng, 0.05))
		return;
	d = xcalloc(1, sizeof(*d));
	d->udp = u;
	d->id = id;
	TAILQ_INSERT_TAIL(&u->leaving, d, entry);
	sim_at(&d->ev, left_ns, on_left, d);
}

static void send_to(struct udp *u, const struct address *a, const void *data, size_t len)
{
	struct udp *to = find(a);
	int64_t left_ns = sim_here_ns() + rng_wait(&sim.rng, LEAVE_MEAN_NS);
	const struct sim_path *p;

	stamp_departure(u, u->next_id++, left_ns);
	if (!to || u->host->cleaning_up || net_cut_until_ns(u->host, to->host))
		return;
	p = net_path(u->host, to->host);
	if (!rng_chance(&sim.rng, p->loss))
		launch(u, to, data, len, left_ns);
	if (rng_chance(&sim.rng, p->twice))
		launch(u, to, data, len, left_ns);
}

void udp_send(struct udp *u, const void *data, size_t len)
{
	send_to(u, &u->peer, data, len);
}

void udp_send_to(struct udp *u, const struct udp_from *to, const void *data, size_t len)
{
	send_to(u, to->addr, data, len);
}

void udp_on_sent(struct udp *u, udp_sent_fn fn)
{
	u->sent_fn = fn;
}

uint32_t udp_next_id(const struct udp *u)
{
	return u->next_id;
}

/* ---- life ---- */

static struct udp *new_socket(struct loop *loop, int port, udp_fn fn, void *arg)
{
	struct udp *u = xcalloc(1, sizeof(*u));

	u->loop = loop;
	u->host = sim.host;
	u->fn = fn;
	u->arg = arg;
	TAILQ_INIT(&u->flying);
	TAILQ_INIT(&u->in);
	TAILQ_INIT(&u->leaving);
	TAILQ_INIT(&u->left);
	u->own = (struct address){ sim.host, port ? port : FIRST_PORT };
	while (find(&u->own))
		u->own.port++;
	LIST_INSERT_HEAD(bucket_of(&u->own), u, entry);
	return u;
}

int udp_listen(struct udp **out, struct loop *loop, const char *address, udp_fn fn, void *arg,
	       int *port, struct err *e)
{
	char host[ADDRESS_HOST_BYTES];
	int want, rc = address_split(address, host, &want, e);

	if (rc)
		return rc;
	*out = new_socket(loop, want, fn, arg);
	if (port)
		*port = (*out)->own.port;
	return 0;
}

int udp_dial(struct udp **out, struct loop *loop, const char *host, int port, udp_fn fn, void *arg,
	     struct err *e)
{
	const struct sim_host *peer = host_find(host);

	if (!peer)
		return err_set(e, ERR_NOT_FOUND, "%s: no such host", host);
	*out = new_socket(loop, 0, fn, arg);
	(*out)->peer = (struct address){ peer, port };
	return 0;
}

void udp_free(struct udp *u)
{
	struct datagram *d;
	struct departure *left;

	if (!u)
		return;
	TAILQ_CONCAT(&u->in, &u->flying, entry);
	TAILQ_CONCAT(&u->left, &u->leaving, entry);
	while ((d = TAILQ_FIRST(&u->in))) {
		TAILQ_REMOVE(&u->in, d, entry);
		sim_cancel(&d->ev);
		free(d);
	}
	while ((left = TAILQ_FIRST(&u->left))) {
		TAILQ_REMOVE(&u->left, left, entry);
		sim_cancel(&left->ev);
		free(left);
	}
	LIST_REMOVE(u, entry);
	u->dead = true;
	maybe_free(u);
}
