/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture gave, host by host: shared by `capture` and `show`. */
#ifndef CLI_RESULT_H
#define CLI_RESULT_H

#include <jansson.h>

#include "cli/api.h"

/* Prints a capture or a manifest (docs/schema/) on stdout, in words or as JSON. */
void result_tell(const struct api_conf *api, const json_t *doc);

/* An enum exit_code. */
int result_exit_code(const json_t *doc);

#endif
