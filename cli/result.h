/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the result of a capture, host by host; for `capture`, `retry` and `show`. */
#ifndef CLI_RESULT_H
#define CLI_RESULT_H

#include <stdio.h>

#include <jansson.h>

#include "cli/api.h"

/* Prints a capture or a manifest (docs/schema/) on stdout, in words or as JSON. */
void result_print_text(const struct api_conf *api, const json_t *doc);

/* The same in words, to `out`. */
void result_print(const json_t *doc, FILE *out);

/* Returns an enum exit_code. */
int result_exit_code(const json_t *doc);

#endif
