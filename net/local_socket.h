/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local socket: request and reply over nng ipc://, between an agent and processes on its host.
 * No nng header is included outside net/local_socket.c.
 */
#ifndef NET_LOCAL_SOCKET_H
#define NET_LOCAL_SOCKET_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct loop;
struct local_socket; /* the agent's side */
struct local_request; /* one request; yours to answer exactly once, then dead */

/* Called on the loop's thread; data is borrowed until the answer, and never empty: an empty message
 * is a question whether anybody is there, and the socket itself answers it with an empty one. Messages beyond LIMIT_LOCAL_BYTES
 * never get here: nng drops the connection. */
typedef void (*local_handler)(struct local_request *req, const void *data, size_t len, void *arg);

/* `url` is "ipc:///run/tutti/agent.ipc"; a stale socket file is replaced, a live one is ERR_BUSY.
 * The directory is made (0755) if it is missing; the socket is 0660: for root and the group of the
 * agent's process. Yours: local_socket_free(). */
MUST_CHECK int local_socket_open(struct local_socket **out, struct loop *loop, const char *url,
				 local_handler handler, void *arg, struct err *e);
void local_socket_free(
	struct local_socket
		*d); /* NULL is fine; open requests stay yours to answer, into nothing */

/* Any later time, on the loop's thread; after local_socket_free() it does nothing but free. */
void local_answer(struct local_request *req, const void *data, size_t len);

/* ---- the other side: blocking, for the command line and for programs ---- */

struct local_client;

/* ERR_CLOSED if no agent listens at `url`; the message says how to start one. */
MUST_CHECK int local_dial(struct local_client **out, const char *url, struct err *e);
void local_hang_up(struct local_client *c); /* NULL is fine */

/* Sends one request, once, and waits for its reply. `*reply` is yours: free(). ERR_TIMEOUT,
 * ERR_CLOSED if the agent went away meanwhile, ERR_LIMIT beyond LIMIT_LOCAL_BYTES. */
MUST_CHECK int local_ask(struct local_client *c, const void *data, size_t len, int64_t timeout_ns,
			 uint8_t **reply, size_t *reply_len, struct err *e);

#endif
