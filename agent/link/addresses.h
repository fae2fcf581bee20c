/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses of the aggregators, "HOST:PORT[,HOST:PORT]...", of which one is dialled at a time. */
#ifndef AGENT_LINK_ADDRESSES_H
#define AGENT_LINK_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "net/address.h"

#define ADDRESSES_MAX 8

struct addresses;

/* ERR_INVALID if one is not HOST:PORT, or if there are more than ADDRESSES_MAX. The caller frees it with
 * addresses_free(). */
MUST_CHECK int addresses_new(struct addresses **out, const char *list, struct err *e);
void addresses_free(struct addresses *a); /* NULL is fine */

size_t addresses_n(const struct addresses *a); /* 1 at least */

/* The present one, borrowed, and its host. */
const char *addresses_now(const struct addresses *a, char host[ADDRESS_HOST_BYTES]);

/* Goes on to the next one; true if that is the first again. */
bool addresses_next(struct addresses *a);

#endif
