/* SPDX-License-Identifier: Apache-2.0 */
/* What `tutti capture` and `tutti retry` do while they wait. */
#ifndef CLI_FOLLOW_H
#define CLI_FOLLOW_H

#include "cli/api.h"

/*
 * Follows a capture to its end, with progress on stderr; `*out` is its last state, or the manifest if
 * it was committed: a new reference.
 */
MUST_CHECK int follow_capture(const struct api_conf *api, const char *session, json_t **out,
			      struct err *e);

#endif
