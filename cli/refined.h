/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of a session's files with the times that refining found. */
#ifndef CLI_REFINED_H
#define CLI_REFINED_H

#include <jansson.h>

#include "base/err.h"

/* ERR_INVALID, with the reason, if the session has no such times. */
MUST_CHECK int refined_check(const json_t *manifest, struct err *e);

/*
 * Moves all times of a downloaded file as the manifest has it for this host, cuts the file to the window anew and
 * says so in its warnings; one of a host that was not refined stays as it is. The file is replaced in one step.
 */
MUST_CHECK int refined_move(const char *path, const json_t *manifest, const json_t *host,
			    struct err *e);

#endif
