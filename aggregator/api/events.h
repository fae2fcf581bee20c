/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events: of one capture, and of everything for pages. Loop thread. */
#ifndef AGGREGATOR_API_EVENTS_H
#define AGGREGATOR_API_EVENTS_H

#include <stddef.h>

struct capture;
struct captures;
struct events;
struct http_req;
struct jobs;
struct registry;

struct events *events_new(struct registry *r, struct captures *cs, struct jobs *jobs);
void events_free(struct events *ev); /* the HTTP server is gone; NULL is fine */

/* Answer the request with a stream: of everything, or of one capture. */
void events_open(struct events *ev, struct http_req *req);
void events_open_capture(struct events *ev, struct http_req *req, struct capture *c);

/* How many streams of everything are open. */
size_t events_pages(const struct events *ev);

/* Sends pages the event for a session that was committed or deleted. */
void events_send_session(struct events *ev, const char *session);

#endif
