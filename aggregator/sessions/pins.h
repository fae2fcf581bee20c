/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pins: a pinned session stays until it is unpinned. Neither a rule nor a request removes it.
 *
 *   tutti/pins/<session>      {}
 *
 * All functions block.
 */
#ifndef AGGREGATOR_SESSIONS_PINS_H
#define AGGREGATOR_SESSIONS_PINS_H

#include <stdbool.h>

#include "aggregator/sessions/sessions.h"
#include "base/err.h"

struct store;

/* ERR_NOT_FOUND if there is no such session. A session that is pinned already stays so. */
MUST_CHECK int session_pin(struct store *s, const char *session, struct err *e);

/* Succeeds also for a session that is not pinned. ERR_NOT_FOUND as above. */
MUST_CHECK int session_unpin(struct store *s, const char *session, struct err *e);

MUST_CHECK int session_is_pinned(struct store *s, const char *session, bool *is_pinned,
				 struct err *e);

/* The names of all pinned sessions, sorted. */
MUST_CHECK int session_list_pins(struct store *s, struct session_keys *names, struct err *e);

/* Whether the sorted names have this one. */
bool session_keys_have(const struct session_keys *names, const char *session);

#endif
