/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of tracers ("cpu.max_depth"), as the selected hosts list them; options.h has the framework's. */
#ifndef AGGREGATOR_CAPTURES_TRACER_SETTINGS_H
#define AGGREGATOR_CAPTURES_TRACER_SETTINGS_H

#include <stddef.h>

#include <jansson.h>

#include "base/err.h"

struct host;
struct settings_lists;

/*
 * Checks the tracer settings of a request (object or NULL) against the hosts it selects. ERR_INVALID names
 * the setting: no host lists it, a host refuses the value, or the capture leaves its tracer out (`tracers`
 * are the names in the capture, NULL = all). For a setting that only some hosts have, a sentence that
 * names the others is added to `warnings`.
 */
MUST_CHECK int tracer_settings_check(const json_t *settings, char *const *tracers,
				     struct host *const *hosts, size_t n, json_t *warnings,
				     struct err *e);

/* {"settings": [...]}: the framework's options, then what hosts list; a new reference. */
json_t *tracer_settings_json(const struct settings_lists *lists);

#endif
