/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP API v1 (docs/wire.md) and the page. Loop thread. */
#ifndef AGGREGATOR_API_API_H
#define AGGREGATOR_API_API_H

struct http_req;

/* An http_handler; `arg` is the struct aggregator. */
void api_handle(struct http_req *req, void *arg);

#endif
