/* SPDX-License-Identifier: Apache-2.0 */
/* "host:port" and "[v6]:port". */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <stdbool.h>

#include "base/err.h"

#define ADDRESS_HOST_BYTES 256

/* Splits an address; the host is without its brackets. The text of ERR_INVALID has the expected form. */
MUST_CHECK int address_split(const char *address, char host[ADDRESS_HOST_BYTES], int *port,
			     struct err *e);

/* 127.0.0.0/8, ::1 or "localhost". */
bool address_is_loopback(const char *host);

/* Whether no one on the way can change what is read from this URL: https, or http on loopback. ERR_INVALID names `what`. */
MUST_CHECK int address_check_url(const char *url, const char *what, struct err *e);

/* A listener beyond loopback needs TLS, or an explicit `insecure`; ERR_DENIED names both. */
MUST_CHECK int address_check_listener(const char *address, bool has_tls, bool insecure,
				      struct err *e);

#endif
