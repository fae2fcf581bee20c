/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of a capture <-> tensorflow.ProfileOptions. Settings are written by people (docs/wire.md): a
 * JSON object whose values are strings, integers or booleans. Settings of tracers are in it as well
 * (tracer_settings.h); the functions here pass over them.
 */
#ifndef AGGREGATOR_CAPTURES_OPTIONS_H
#define AGGREGATOR_CAPTURES_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"

/*
 * `*out` (the caller frees it with free()) is the serialized ProfileOptions: the stock defaults, changed by
 * the settings (object or NULL; borrowed), for a capture of duration_ns. ERR_INVALID names the unknown
 * key or the value that does not fit.
 */
MUST_CHECK int options_from_settings(const json_t *settings, int64_t duration_ns, uint8_t **out,
				     size_t *len, struct err *e);

/*
 * Takes over a client's ProfileOptions: a `version` of 0 is replaced, and fields that name a place, an
 * instant or a session on the client's side are cleared. `*settings` has the same options as a JSON object, a new
 * reference.
 */
MUST_CHECK int options_adopt(const void *options, size_t options_len, int64_t duration_ns,
			     uint8_t **out, size_t *len, json_t **settings, struct err *e);

/* The rows of the options for GET /api/v1/settings; a new reference. */
json_t *options_list_json(void);

/* A setting's value as text; `number` is the buffer for one that is not a string. NULL for other types. */
const char *setting_text(const json_t *value, char number[24]);

#endif
