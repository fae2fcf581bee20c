/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events: of one capture, and of everything for pages. Loop thread. */
#ifndef AGGREGATOR_API_EVENTS_H
#define AGGREGATOR_API_EVENTS_H

#include <stddef.h>
#include <stdint.h>

struct browsers;
struct capture;
struct captures;
struct events;
struct http_req;
struct jobs;
struct pods;
struct principal;
struct registry;
struct session_marks;

struct events *events_new(struct registry *r, const struct pods *pods, struct captures *cs,
			  const struct browsers *browsers, struct jobs *jobs);
void events_free(struct events *ev); /* the HTTP server is gone; NULL is fine */

/* Answer the request with a stream: of everything that `who` may see, or of one capture, which he may see. It ends when
 * what he shows does not hold any more; `browser` is the number of the one that sent its cookie, 0 = none. */
void events_open(struct events *ev, struct http_req *req, struct principal *who, uint64_t browser);
void events_open_capture(struct events *ev, struct http_req *req, struct principal *who,
			 uint64_t browser, struct capture *c);

/* Ends those of which that is so, at once; without it with the next change. */
void events_end_expired(struct events *ev);

/* How many streams the caller of this name has open. */
size_t events_streams_of(const struct events *ev, const char *name);

/* How many streams of everything are open. */
size_t events_pages(const struct events *ev);

/* Sends pages the event for a session that was committed or deleted. `marks` NULL = not known: then only to those that see
 * the whole fleet. */
void events_send_session(struct events *ev, const char *session, const struct session_marks *marks);

#endif
