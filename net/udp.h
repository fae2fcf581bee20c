/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UDP datagrams with the time of their arrival, for the clock probes.
 */
#ifndef NET_UDP_H
#define NET_UDP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct loop;
struct udp;

struct udp_from {
	const void *addr; /* give to udp_send_to(); borrowed for the callback */
	size_t addr_len;
};

/* A datagram. `raw_ns` is when it arrived on CLOCK_MONOTONIC_RAW, never early: the kernel's receive
 * stamp where there is one (converted through a fresh clock pair), else when we read it. */
typedef void (*udp_fn)(void *arg, const void *data, size_t len, int64_t raw_ns,
		       const struct udp_from *from);

/* Listens at "127.0.0.1:7403" or "[::]:0"; `*port` (may be NULL) gets the port. */
MUST_CHECK int udp_listen(struct udp **out, struct loop *loop, const char *address, udp_fn fn,
			  void *arg, int *port, struct err *e);

/* Talks to one peer; datagrams from others are dropped by the kernel. A host that is a name is looked
 * up here and now, which may block. */
MUST_CHECK int udp_dial(struct udp **out, struct loop *loop, const char *host, int port, udp_fn fn,
			void *arg, struct err *e);
void udp_free(struct udp *u); /* NULL is fine; also from inside its callback */

/* Best effort: a datagram that cannot be sent now is lost. */
void udp_send(struct udp *u, const void *data, size_t len);
void udp_send_to(struct udp *u, const struct udp_from *to, const void *data, size_t len);

#endif
