/* SPDX-License-Identifier: Apache-2.0 */
/* The page: web/dist/index.html, embedded by the build. */
#ifndef AGGREGATOR_API_PAGE_H
#define AGGREGATOR_API_PAGE_H

struct http_req;

/* Answers with the page. Its policy lets the browser use only the page's own script and style, which a random
 * word (nonce) in this answer marks, and connect only to this aggregator. No other page may show it in a
 * frame. */
void page_answer(struct http_req *req);

#endif
