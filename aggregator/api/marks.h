/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The marks of sessions that were asked for lately: whose a session is, and of which namespaces. They never change, so
 * callers who may see only a part of the fleet cost one read of the store a session. Loop thread.
 */
#ifndef AGGREGATOR_API_MARKS_H
#define AGGREGATOR_API_MARKS_H

#include <jansson.h>

#include "aggregator/access/verbs.h"

struct marks_cache;

struct marks_cache *marks_new(void);
void marks_free(struct marks_cache *m); /* NULL is fine */

/* Borrowed until the next call; NULL = not known here. */
const struct session_marks *marks_find(const struct marks_cache *m, const char *session);

/* As session_load_marks() gives them. Borrowed until the next call. */
const struct session_marks *marks_put(struct marks_cache *m, const char *session,
				      const json_t *marks);
void marks_forget(struct marks_cache *m, const char *session);

#endif
