/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of a session's files with refined times. */
#ifndef CLI_REFINED_H
#define CLI_REFINED_H

#include <jansson.h>

#include "base/err.h"

/* ERR_INVALID, with the reason, if the session has no refined times. */
MUST_CHECK int refined_check(const json_t *manifest, struct err *e);

/*
 * Moves all times of a downloaded file by the host's offset in the manifest, cuts the file to the window
 * again and adds a warning to it. The file of a host that was not refined stays unchanged. The file is
 * replaced in one step.
 */
MUST_CHECK int refined_move(const char *path, const json_t *manifest, const json_t *host,
			    struct err *e);

#endif
