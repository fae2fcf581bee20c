/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which Host headers the HTTP API accepts. In an attack by DNS rebinding, another site's name
 * resolves to this aggregator; the browser then sends that site's name. */
#ifndef AGGREGATOR_API_HOST_HEADER_H
#define AGGREGATOR_API_HOST_HEADER_H

#include <stdbool.h>

struct conf_list;

/* `header` is "name", "name:port", "1.2.3.4", "[v6]:port" or NULL. Accepted are NULL (no browser sent the
 * request), localhost, loopback addresses, the listener's own address or name, this machine's name, and
 * `names`; with a listener at all addresses, every address. The port may be any. */
bool host_header_allowed(const char *header, const char *listener, const struct conf_list *names);

#endif
