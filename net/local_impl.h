/* SPDX-License-Identifier: Apache-2.0 */
/* What both sides of the local socket share; not a front door. */
#ifndef NET_LOCAL_IMPL_H
#define NET_LOCAL_IMPL_H

#include "base/err.h"
#include "proto/limits.h"

#define DOOR_SCHEME "ipc://"

/* nng counts its own routing words into a message's size. */
#define DOOR_WIRE_BYTES (LIMIT_LOCAL_BYTES + 64)

/* Says what an nng error means for the socket at `url`. */
int local_error(struct err *e, int rv, const char *url);

/*
 * Runs fn(arg), which closes a socket, on a thread of its own, and waits for it, but not for long: nng 1.5.2
 * may close for ever when a message of another process is just about to be received (nng's issue 1813). What is
 * not closed by then is left to that thread, and lost.
 */
void local_close_apart(void (*fn)(void *arg), void *arg);

#endif
