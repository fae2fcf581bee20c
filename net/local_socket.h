/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local socket: request and reply over nng ipc://, between an agent and processes on its host.
 * Only net/local_*.c include nng's headers.
 */
#ifndef NET_LOCAL_SOCKET_H
#define NET_LOCAL_SOCKET_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct loop;
struct local_socket; /* the agent's side */
struct local_request; /* one request; the handler answers it exactly once, which frees it */

/* Called on the loop's thread; `data` is borrowed until the answer, and never empty: an empty message
 * asks whether an agent is there, and the socket itself answers it with an empty one. A message of more
 * than LIMIT_LOCAL_BYTES is not delivered: nng drops the connection. */
typedef void (*local_handler)(struct local_request *req, const void *data, size_t len, void *arg);

/* `url` is "ipc:///run/tutti/agent.ipc"; a stale socket file is replaced, a live one is ERR_BUSY.
 * The folder is made (0755) if it is missing; the socket is 0660: for root and the group of the
 * agent's process. The caller frees it with local_socket_free(). */
MUST_CHECK int local_socket_open(struct local_socket **out, struct loop *loop, const char *url,
				 local_handler handler, void *arg, struct err *e);

/* NULL is fine. The handler still answers open requests, which only frees them. */
void local_socket_free(struct local_socket *ls);

/* The process that opened the connection, as the kernel has it; 0 = unknown, also in another pid namespace
 * that this process cannot see. */
int32_t local_request_pid(const struct local_request *req);

/* At any later time, on the loop's thread. After local_socket_free() it only frees the request. */
void local_request_answer(struct local_request *req, const void *data, size_t len);

/* ---- the other side: blocking, for the command line and for programs ---- */

struct local_client;

/* ERR_CLOSED if no agent listens at `url`; the message says how to start one. */
MUST_CHECK int local_client_open(struct local_client **out, const char *url, struct err *e);
void local_client_close(struct local_client *c); /* NULL is fine */

/* Sends one request, once, and waits for its reply. The caller frees
 * `*reply`. ERR_TIMEOUT; ERR_CLOSED if the agent ended meanwhile; ERR_LIMIT beyond LIMIT_LOCAL_BYTES. */
MUST_CHECK int local_client_call(struct local_client *c, const void *data, size_t len,
				 int64_t timeout_ns, uint8_t **reply, size_t *reply_len,
				 struct err *e);

#endif
