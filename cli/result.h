/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture gave, host by host: shared by `capture` and `show`. */
#ifndef CLI_RESULT_H
#define CLI_RESULT_H

#include <stdio.h>

#include <jansson.h>

/* `doc` is a CAPTURE or a MANIFEST of docs/wire.md. */
void result_print(const json_t *doc, FILE *out);

/* An enum exit_code. */
int result_exit_code(const json_t *doc);

#endif
