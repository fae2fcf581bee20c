/* SPDX-License-Identifier: Apache-2.0 */
/* What the URLs of stores behind HTTP have in common: PLACE[/PREFIX][?SETTING=VALUE&...]. Private to storage/. */
#ifndef STORAGE_CLOUD_SETTINGS_H
#define STORAGE_CLOUD_SETTINGS_H

#include <stddef.h>

#include "base/err.h"

/* Reads "name=value&...", percent-encoded, into values[], in the order of names[]; the caller frees those, also after an
 * error. What is not given stays NULL. ERR_INVALID names the setting that is unknown, empty or given twice. */
MUST_CHECK int cloud_read_settings(const char *query, const char *const names[], size_t n,
				   char *values[], struct err *e);

/* "some/prefix" or "some/prefix/" of `len` characters to "some/prefix/"; "" stays "". The caller frees it, also after
 * an error. */
MUST_CHECK int cloud_take_prefix(char **out, const char *text, size_t len, struct err *e);

/* "http://HOST[:PORT]" or https://; a '/' at the end is cut off. */
MUST_CHECK int cloud_check_endpoint(char *endpoint, struct err *e);

#endif
