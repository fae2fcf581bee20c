/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UDP datagrams with the times of their departure and arrival, for the clock probes.
 *
 * Times are CLOCK_MONOTONIC_RAW. The kernel stamps with its wall clock; each stamp is converted
 * through a pair of both clocks that is read right after it, and leans to the safe side by all that
 * the conversion can be wrong: an arrival is never early, a departure never late. A stamp that the
 * wall clock's own steps made worthless is not believed.
 */
#ifndef NET_UDP_H
#define NET_UDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct loop;
struct udp;

struct udp_from {
	const void *addr; /* give to udp_send_to(); borrowed for the callback */
	size_t addr_len;
	bool kernel; /* the time is the kernel's stamp, not when we read the datagram */
};

/* A datagram that arrived at `raw_ns`: the kernel's stamp where there is one, else when we read it. */
typedef void (*udp_fn)(void *arg, const void *data, size_t len, int64_t raw_ns,
		       const struct udp_from *from);

/* The datagram of this number (see udp_next_id()) left at `raw_ns`. */
typedef void (*udp_sent_fn)(void *arg, uint32_t id, int64_t raw_ns);

/* Listens at "127.0.0.1:7403" or "[::]:0"; `*port` (may be NULL) gets the port. */
MUST_CHECK int udp_listen(struct udp **out, struct loop *loop, const char *address, udp_fn fn,
			  void *arg, int *port, struct err *e);

/* Talks to one peer; datagrams from others are dropped by the kernel. A host that is a name is looked
 * up here and now, which may block. */
MUST_CHECK int udp_dial(struct udp **out, struct loop *loop, const char *host, int port, udp_fn fn,
			void *arg, struct err *e);
void udp_free(struct udp *u); /* NULL is fine; also from inside its callbacks */

/* Tell fn (with the same arg) when the kernel sent what; before the first send. Where the kernel or
 * the network's driver stamps no departures fn is never called. Departures are told before any
 * datagram that is read after them. */
void udp_on_sent(struct udp *u, udp_sent_fn fn);

/* What the departure of the next datagram will be told under. */
uint32_t udp_next_id(const struct udp *u);

/* Best effort: a datagram that cannot be sent now is lost. */
void udp_send(struct udp *u, const void *data, size_t len);
void udp_send_to(struct udp *u, const struct udp_from *to, const void *data, size_t len);

#endif
