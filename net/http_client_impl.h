/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the two HTTP clients. Private to net/. */
#ifndef NET_HTTP_CLIENT_IMPL_H
#define NET_HTTP_CLIENT_IMPL_H

#include <curl/curl.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* Once for the process, before its first transfer. Any thread. */
void http_client_init(void);

/* The status of the answer; 0 before there is one. */
int http_client_status(CURL *curl);
bool http_client_is_success(int status); /* 2xx */

/* Adds a piece of the body of a 2xx answer; ERR_LIMIT beyond `max` bytes in all. */
MUST_CHECK int http_client_collect(struct buf *answer, const void *data, size_t len, size_t max,
				   struct err *e);

/* Adds a piece of an error's text; what is beyond `max` bytes in all is dropped. */
void http_client_collect_error(struct buf *answer, const void *data, size_t len, size_t max);

/* A proxy from the environment cannot reach this host's loopback. */
void http_client_skip_proxy(CURL *curl, const char *url);

#endif
