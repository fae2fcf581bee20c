/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row of a configuration table: its value in `conf`, the struct of the row's member. Private to conf.c, which knows
 * tables and where values come from.
 */
#ifndef BASE_CONF_FIELD_H
#define BASE_CONF_FIELD_H

#include "base/conf.h"

#define CONF_NAME_SIZE 64

/* The name of member api.spool_bytes is "spool": the struct's name and the unit are dropped. `sep` stands for '_'. */
void conf_field_name(const struct conf_field *f, char sep, char out[CONF_NAME_SIZE]);

/* Takes the value of a text; a list gets one more item. ERR_INVALID says what is wrong, without the field's name. */
MUST_CHECK int conf_field_set(void *conf, const struct conf_field *f, const char *text,
			      struct err *e);
void conf_field_clear(void *conf, const struct conf_field *f); /* frees what the value holds */

void conf_field_help(const struct conf_field *f, FILE *out); /* its line of --help */
void conf_field_print(const void *conf, const struct conf_field *f,
		      FILE *out); /* as a line of a file */

#endif
