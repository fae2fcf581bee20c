/* SPDX-License-Identifier: Apache-2.0 */
/* The page: web/index.html, embedded by the build. */
#ifndef AGGREGATOR_API_PAGE_H
#define AGGREGATOR_API_PAGE_H

struct http_req;

/* Answers with the page. Its policy lets the browser run and show only the page's own script and style,
 * by a random word of this answer, and connect only to this aggregator; no other page may frame it. */
void page_answer(struct http_req *req);

#endif
