/* SPDX-License-Identifier: Apache-2.0 */
/* How `tutti capture` and `tutti retry` wait. */
#ifndef CLI_FOLLOW_H
#define CLI_FOLLOW_H

#include "cli/api.h"

/* Flag of every verb that waits: a member of its struct beside `api`. */
#define FOLLOW_FIELD(T) \
	CONF(T, patience_ns, "5m", \
	     "give up waiting if nothing changes for so long beyond the window and the grace; " \
	     "the " \
	     "capture goes on")
#define FOLLOW_PATIENCE_NS (300 * NS_PER_S) /* for verbs without that flag */

/*
 * Waits for the end of a capture, with progress on stderr, and prints its result on stdout. Returns an
 * enum exit_code, or a negative enum err_code: ERR_TIMEOUT if nothing changes for `patience_ns` longer than the capture
 * may wait for its hosts; the error names what it waits for. A stream of events that breaks is opened again, for up to
 * 10 s without an answer. ERR_CANCELLED after SIGINT: the capture goes on, and the error says how to reach it.
 */
MUST_CHECK int follow_capture(const struct api_conf *api, const char *session, int64_t patience_ns,
			      struct err *e);

/* The same without the printing on stdout: `*out` is the manifest, or the capture if it failed or
 * its session was deleted at once; a new reference. SIGINT counts between interrupt_catch() and interrupt_release(). */
MUST_CHECK int follow_to_end(const struct api_conf *api, const char *session, int64_t patience_ns,
			     json_t **out, struct err *e);

#endif
