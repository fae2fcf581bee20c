/* SPDX-License-Identifier: Apache-2.0 */
/* Instants as users write them: "now", "now-20s", "14:02:11.5" of this day's local time, "2026-11-22T14:02:11.5Z". */
#ifndef CLI_INSTANT_H
#define CLI_INSTANT_H

#include <stdint.h>

#include "base/err.h"

struct instant {
	int64_t unix_ns; /* 0: the instant is relative to now */
	int64_t ago_ns; /* relative: this long before now */
};

/* `now_ns` (Unix time) tells which day a time without a date is of. */
MUST_CHECK int instant_parse(const char *text, int64_t now_ns, struct instant *out, struct err *e);

#endif
