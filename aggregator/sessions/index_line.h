/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's line in the index: all that listings show of it is in the name of an object, so a listing of the store's
 * keys is a listing of sessions, and no object is read.
 *
 *   DAY/HOUR/TIME-SESSION~1~T0.DURATION.HOSTS.COMPLETE.PARTIAL.FAILED.BYTES~RUN
 *
 * DAY, HOUR and TIME are the digits of SESSION (YYYYMMDD, HH, MMSS), each subtracted from 9: in byte order the newest
 * session is first. Times are in ns. RUN has '~' for '/'. 1 is the version of the line. Private to sessions/.
 */
#ifndef AGGREGATOR_SESSIONS_INDEX_LINE_H
#define AGGREGATOR_SESSIONS_INDEX_LINE_H

#include <stdbool.h>

#include <jansson.h>

#include "aggregator/sessions/sessions.h"

#define INDEX_PLACE_BYTES 64
#define INDEX_LINE_BYTES  320

/* "DAY/HOUR/TIME-SESSION": what the lines of a session begin with. `session` is the name of a session. */
void index_place(const char *session, char out[INDEX_PLACE_BYTES]);

/* Numbers that no manifest of ours has become the nearest ones that a line can have. */
void index_line_of(const json_t *manifest, struct session_line *out);

void index_line_write(const struct session_line *line, char out[INDEX_LINE_BYTES]);

/* The session that a key below the index is of: false if it is no such key. */
bool index_line_session(const char *key, char session[SESSION_NAME_BYTES]);

/* Reads the line in a key. False if the key is of a session, but has no line of this version. */
bool index_line_read(const char *key, struct session_line *out);

#endif
