/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the two HTTP clients. Private to net/. */
#ifndef NET_HTTP_CLIENT_IMPL_H
#define NET_HTTP_CLIENT_IMPL_H

#include <curl/curl.h>

/* Once for the process, before its first transfer. Any thread. */
void http_client_init(void);

/* A proxy from the environment cannot reach this host's loopback. */
void http_client_skip_proxy(CURL *curl, const char *url);

#endif
