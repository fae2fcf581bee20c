/* SPDX-License-Identifier: Apache-2.0 */
/* A filter in front of a listening socket: the kernel drops what some addresses send to it. Private to net/. */
#ifndef NET_LISTEN_FILTER_H
#define NET_LISTEN_FILTER_H

#include <stddef.h>
#include <stdint.h>

#include "net/peers.h"

#define LISTEN_FILTER_MAX 64

/* Drops new connections of these addresses, at most LISTEN_FILTER_MAX, and of no others: a former list is
 * replaced. Connections that exist already stay. Best effort: a kernel may not allow it. */
void listen_filter_set(int fd, const uint8_t (*keys)[PEER_KEY_BYTES], size_t n);

#endif
