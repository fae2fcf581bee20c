/* SPDX-License-Identifier: Apache-2.0 */
/* What `tutti capture` and `tutti retry` do while they wait. */
#ifndef CLI_FOLLOW_H
#define CLI_FOLLOW_H

#include "cli/api.h"

/*
 * Follows a capture to its end, with progress on stderr, and tells on stdout what it gave. Returns an
 * enum exit_code, or a negative enum err_code.
 */
MUST_CHECK int follow_capture(const struct api_conf *api, const char *session, struct err *e);

#endif
