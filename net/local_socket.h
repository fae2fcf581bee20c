/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local door: request and reply over nng ipc://, between an agent and processes on its host.
 * No nng header is included outside net/local_socket.c.
 */
#ifndef NET_LOCAL_SOCKET_H
#define NET_LOCAL_SOCKET_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct loop;
struct door; /* the agent's side */
struct door_req; /* one request; yours to answer exactly once, then dead */

/* Called on the loop's thread; data is borrowed until the answer, and never empty: an empty message
 * is a question whether anybody is there, and the door itself answers it with an empty one. Messages beyond LIMIT_DOOR_BYTES
 * never get here: nng drops the connection. */
typedef void (*door_handler)(struct door_req *req, const void *data, size_t len, void *arg);

/* `url` is "ipc:///run/tutti/agent.ipc"; a stale socket file is replaced, a live one is ERR_BUSY.
 * The directory is made (0755) if it is missing; the socket is 0660: for root and the group of the
 * agent's process. Yours: door_free(). */
MUST_CHECK int door_open(struct door **out, struct loop *loop, const char *url,
			 door_handler handler, void *arg, struct err *e);
void door_free(struct door *d); /* NULL is fine; open requests stay yours to answer, into nothing */

/* Any later time, on the loop's thread; after door_free() it does nothing but free. */
void door_answer(struct door_req *req, const void *data, size_t len);

/* ---- the other side: blocking, for the command line and for programs ---- */

struct door_client;

/* ERR_CLOSED if no agent listens at `url`; the message says how to start one. */
MUST_CHECK int door_dial(struct door_client **out, const char *url, struct err *e);
void door_hang_up(struct door_client *c); /* NULL is fine */

/* Sends one request, once, and waits for its reply. `*reply` is yours: free(). ERR_TIMEOUT,
 * ERR_CLOSED if the agent went away meanwhile, ERR_LIMIT beyond LIMIT_DOOR_BYTES. */
MUST_CHECK int door_ask(struct door_client *c, const void *data, size_t len, int64_t timeout_ns,
			uint8_t **reply, size_t *reply_len, struct err *e);

#endif
