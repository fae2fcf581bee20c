/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings that a capture may give to a tracer: each driver of an agent lists its settings, the aggregator
 * checks the values against the lists of the selected hosts, and each agent checks them again. In a request a
 * setting is called "TRACER.NAME". Pure functions, any thread.
 */
#ifndef PROTO_SETTING_H
#define PROTO_SETTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum setting_kind { SETTING_BOOL, SETTING_INT, SETTING_TEXT };

struct setting {
	const char *name; /* [a-z0-9_]+ */
	enum setting_kind kind;
	int64_t min,
		max; /* both included; 0 and 1 of a SETTING_BOOL; the length of a SETTING_TEXT, in bytes */
	int64_t value; /* the default; 0 of a SETTING_TEXT, whose default is "" */
	const char *help; /* one line, no full stop */
};

/* "bool", "int", "text": as messages and documents have it. */
const char *setting_kind_name(enum setting_kind kind);
bool setting_kind_parse(const char *word, enum setting_kind *out); /* false if unknown */

/* "true", "false", or a decimal number in the range; of a SETTING_TEXT `*out` is its length. The error names the value
 * and the range. */
MUST_CHECK int setting_parse(const struct setting *s, const char *text, int64_t *out,
			     struct err *e);

/* Whether KEY has the form "TRACER.NAME". "advanced.NAME" is an option of frameworks: no tracer is called
 * "advanced". */
bool setting_is_of_tracer(const char *key);

/* The part of KEY after "TRACER."; NULL if KEY is not a setting of this tracer. */
const char *setting_of_tracer(const char *key, const char *tracer);

#endif
