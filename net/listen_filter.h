/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a listening socket deaf to some addresses: the kernel drops what they send to it. Private to net/. */
#ifndef NET_LISTEN_FILTER_H
#define NET_LISTEN_FILTER_H

#include <stddef.h>
#include <stdint.h>

#include "net/peers.h"

#define LISTEN_FILTER_MAX 64

/* Replaces what was set before; at most LISTEN_FILTER_MAX addresses, none = all are heard. Connections that exist already go on. Best
 * effort: a kernel may not allow it. */
void listen_filter_set(int fd, const uint8_t (*keys)[PEER_KEY_BYTES], size_t n);

#endif
