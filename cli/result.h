/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture gave, host by host: shared by `capture` and `show`. */
#ifndef CLI_RESULT_H
#define CLI_RESULT_H

#include <jansson.h>

#include "cli/api.h"

/* On stdout: a CAPTURE or a MANIFEST of docs/wire.md, in words or as it is. */
void result_tell(const struct api_conf *api, const json_t *doc);

/* An enum exit_code. */
int result_exit_code(const json_t *doc);

#endif
