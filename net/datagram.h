/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unix datagrams between programs of one host, with the sender's process as the kernel knows it. Loop thread.
 */
#ifndef NET_DATAGRAM_H
#define NET_DATAGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define DATAGRAM_MAX_BYTES 4096 /* longer ones are dropped */

struct loop;
struct datagram;

struct datagram_from {
	const void *addr; /* its bytes may be copied */
	size_t addr_len;
	int64_t pid; /* in this process's PID namespace; 0 = not visible from here */
	uint32_t uid;
	int64_t waited_ns; /* in the socket's queue, until it was read; 0 = not known */
	int fd; /* a descriptor that came with it, the callback's from now on; -1 = none */
};

typedef void (*datagram_fn)(void *arg, const void *data, size_t len,
			    const struct datagram_from *from);

/*
 * Listens at a path. A `path` that begins with '@' is an abstract name instead: the text after the '@' and
 * one NUL (the NUL is a part of the name; dynolog's name has it). Everybody on the host may send. A socket's
 * file without a listener is replaced, and removed by datagram_free(). ERR_BUSY if another program listens
 * there.
 */
MUST_CHECK int datagram_listen(struct datagram **out, struct loop *loop, const char *path,
			       datagram_fn fn, void *arg, struct err *e);
void datagram_free(struct datagram *d); /* NULL is fine; not from inside fn */

/* A datagram may bring a descriptor from now on. Without this call the kernel drops descriptors that come
 * with datagrams. A sender chooses what kind of file the descriptor is, and close() of some kinds blocks:
 * let only trusted processes reach the socket. */
void datagram_accept_files(struct datagram *d);

/* Best effort: a sender whose queue is full, or that is gone, gets nothing. One whose address is a path is looked for in the folder of the
 * socket that listens, and nowhere else. */
void datagram_reply(struct datagram *d, const struct datagram_from *from, const void *data,
		    size_t len);

/* The same from a socket of its own, which is returned, so that datagram_is_read() tells whether the receiver has taken the
 * answer. The caller closes it; that takes nothing back. It is named as the socket that listens, abstract or in the same
 * folder. -1: there is none, and datagram_reply() was called. */
int datagram_answer(struct datagram *d, const struct datagram_from *from, const void *data,
		    size_t len);
bool datagram_is_read(int fd);

#endif
