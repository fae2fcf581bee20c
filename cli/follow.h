/* SPDX-License-Identifier: Apache-2.0 */
/* How `tutti capture` and `tutti retry` wait. */
#ifndef CLI_FOLLOW_H
#define CLI_FOLLOW_H

#include "cli/api.h"

/*
 * Waits for the end of a capture, with progress on stderr, and prints its result on stdout. Returns an
 * enum exit_code, or a negative enum err_code.
 */
MUST_CHECK int follow_capture(const struct api_conf *api, const char *session, struct err *e);

/* The same without the printing on stdout: `*out` is the manifest, or the capture if it failed; a new reference. */
MUST_CHECK int follow_to_end(const struct api_conf *api, const char *session, json_t **out,
			     struct err *e);

#endif
