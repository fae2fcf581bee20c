/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store that sessions are in, and whether it takes writes: tried at the start and, as long as it takes
 * none, every 5 s. Loop thread.
 */
#ifndef AGGREGATOR_SESSIONS_SESSION_STORE_H
#define AGGREGATOR_SESSIONS_SESSION_STORE_H

#include <stdbool.h>

#include <jansson.h>

#include "base/err.h"
#include "base/loop.h"

struct jobs;
struct store;

struct session_store {
	struct store *store;
	bool ready; /* it takes writes */
	struct err not_ready; /* why not */
	struct jobs *jobs;
	struct loop_timer timer; /* until the next try */
	bool stopping;
};

/*
 * Opens and claims the store of this URL, and sweeps it; `recoverable` as for session_sweep(). A store that fails now
 * may be back later: that is no error. Blocks: nothing is listening yet.
 */
MUST_CHECK int session_store_open(struct session_store *s, struct jobs *jobs, const char *url,
				  json_t *recoverable, struct err *e);

void session_store_stop(struct session_store *s); /* ends the tries */
void session_store_close(struct session_store *s); /* stopped, and all jobs are done */

#endif
