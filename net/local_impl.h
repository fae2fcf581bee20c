/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by both sides of the local socket. Private to net/. */
#ifndef NET_LOCAL_IMPL_H
#define NET_LOCAL_IMPL_H

#include "base/err.h"
#include "proto/limits.h"

#define LOCAL_SCHEME "ipc://"

/* nng's size of a message includes its routing words. */
#define LOCAL_WIRE_BYTES (LIMIT_LOCAL_BYTES + 64)

/* Sets the error for nng's code `rv` at the socket `url`. */
int local_error(struct err *e, int rv, const char *url);

/*
 * Runs fn(arg), which closes a socket, on a thread of its own, and waits at most a second for it: in
 * nng 1.5.2 closing may hang for ever when a message of another process is about to be received (nng's
 * issue 1813). A socket that is not closed by then is leaked to that thread.
 */
void local_close_on_thread(void (*fn)(void *arg), void *arg);

#endif
