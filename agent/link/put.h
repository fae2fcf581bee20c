/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts files into the store by grants: the store is reached directly, and this agent has no keys. A worker sends
 * the file, 64 kB in memory at a time; two at once, the others wait, so that workers stay free for captures.
 * Loop thread.
 */
#ifndef AGENT_LINK_PUT_H
#define AGENT_LINK_PUT_H

#include <stdint.h>

#include "base/err.h"
#include "proto/tutti/v1/ingest.pb-c.h"

struct loop;
struct put;
struct puts;

/* `ca_file`: authorities that sign the store's certificate; NULL = the system's. */
struct puts *puts_new(struct loop *loop, const char *ca_file);
void puts_free(struct puts *ps); /* all puts are cancelled or done; NULL is fine */

/* ERR_INVALID unless it is a request that a grant may be: PUT, http or https, headers on one line each. */
MUST_CHECK int put_check_grant(const Tutti__V1__Grant *grant, struct err *e);

struct put_request {
	int fd; /* stays open until `done` */
	uint64_t offset, bytes; /* of the file in it */
	const Tutti__V1__Grant *grant; /* borrowed for the call */
	int64_t deadline_mono_ns;
	void (*progress)(void *arg, uint64_t bytes_sent); /* every second */

	/* Called once, also after put_cancel(). 0: the file is in the store; ERR_EXISTS: the key was there; ERR_CLOSED:
	 * cancelled; any other: it failed, and another attempt with another grant may succeed. */
	void (*done)(void *arg, int rc, const struct err *e);
	void *arg;
};

/* Calls nothing back before it returns. */
struct put *put_start(struct puts *ps, const struct put_request *req);
void put_cancel(
	struct put *p); /* `done` follows within seconds; `progress` does not; NULL is fine */

#endif
