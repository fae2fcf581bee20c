/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of a capture <-> tensorflow.ProfileOptions. Settings are what people write
 * (docs/wire.md): a JSON object whose values are strings, integers or booleans.
 */
#ifndef AGGREGATOR_CAPTURES_OPTIONS_H
#define AGGREGATOR_CAPTURES_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"

/*
 * `*out` (yours: free()) gets the serialized ProfileOptions: the stock defaults, changed by the
 * settings (object or NULL; borrowed), for a capture of duration_ns. ERR_INVALID names the unknown
 * key or the value that does not fit.
 */
MUST_CHECK int options_from_settings(const json_t *settings, int64_t duration_ns, uint8_t **out,
				     size_t *len, struct err *e);

/*
 * Takes over a client's ProfileOptions: `version` is forced non-zero, what names a place, an instant
 * or a session on the client's side is removed. `*settings` gets them as settings, a new reference.
 */
MUST_CHECK int options_adopt(const void *options, size_t options_len, int64_t duration_ns,
			     uint8_t **out, size_t *len, json_t **settings, struct err *e);

/* A setting's value as text; `number` is room for one that is not a string. NULL for other types. */
const char *setting_text(const json_t *value, char number[24]);

#endif
