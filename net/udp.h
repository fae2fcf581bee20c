/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UDP datagrams with the times of their departure and arrival, for the clock probes.
 *
 * Times are CLOCK_MONOTONIC_RAW. The kernel stamps with its wall clock; each stamp is converted
 * through a pair of both clocks that is read right after it, and moved to the safe side by the largest
 * error of the conversion: an arrival is never early, a departure never late. A stamp that a step of
 * the wall clock made invalid is ignored.
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
	const void *addr; /* for udp_send_to(); valid during the callback */
	size_t addr_len;
	bool kernel; /* the time is the kernel's stamp, not when the datagram was read */
};

/* A datagram that arrived at `raw_ns`: the kernel's stamp where there is one, else when it was read. */
typedef void (*udp_fn)(void *arg, const void *data, size_t len, int64_t raw_ns,
		       const struct udp_from *from);

/* The datagram of this number (see udp_next_id()) left at `raw_ns`. */
typedef void (*udp_sent_fn)(void *arg, uint32_t id, int64_t raw_ns);

/* Listens at "127.0.0.1:7403" or "[::]:0"; `*port` (may be NULL) gets the port. */
MUST_CHECK int udp_listen(struct udp **out, struct loop *loop, const char *address, udp_fn fn,
			  void *arg, int *port, struct err *e);

/* Connects to one peer; the kernel drops datagrams from others. A host name is resolved in this call,
 * which may block. */
MUST_CHECK int udp_dial(struct udp **out, struct loop *loop, const char *host, int port, udp_fn fn,
			void *arg, struct err *e);
void udp_free(struct udp *u); /* NULL is fine; also from inside its callbacks */

/* Calls fn (with the same arg) for each departure that the kernel stamped; set before the first send.
 * Never called where the kernel or the network driver does not stamp departures. Departures are
 * reported before any datagram that is read after them. */
void udp_on_sent(struct udp *u, udp_sent_fn fn);

/* The number under which the departure of the next datagram will be reported. */
uint32_t udp_next_id(const struct udp *u);

/* Best effort: a datagram that cannot be sent now is lost. */
void udp_send(struct udp *u, const void *data, size_t len);
void udp_send_to(struct udp *u, const struct udp_from *to, const void *data, size_t len);

#endif
