/* SPDX-License-Identifier: Apache-2.0 */
/* Which Host headers the HTTP API accepts. A page of another site whose name is made to resolve to this
 * aggregator (DNS rebinding) sends the name of that site. */
#ifndef AGGREGATOR_API_HOST_HEADER_H
#define AGGREGATOR_API_HOST_HEADER_H

#include <stdbool.h>

struct conf_list;

/* `header` is "name", "name:port", "1.2.3.4", "[v6]:port", or NULL: then no browser sent it, and it is accepted.
 * Accepted are localhost, loopback addresses, the listener's own address or name, with a listener at all
 * addresses every address, this machine's name, and `names`. The port may be any. */
bool host_header_allowed(const char *header, const char *listener, const struct conf_list *names);

#endif
