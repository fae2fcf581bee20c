/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the verbs that list things print: a header, columns as wide as their widest cell, and lines below a row.
 *
 *   struct table *t = table_new((const char *const[]){ "HOST", "STATE", NULL });
 *   table_cell(t, "%s", host), table_cell(t, "%s", state);
 *   table_note(t, "tracer %s is off", tracer);
 *   table_print(t, stdout);
 *   table_free(t);
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>

#include "base/conf.h"
#include "base/err.h"

/* How a list is printed: --output of verbs that list things. */
enum list_form {
	LIST_TABLE,
	LIST_WIDE, /* the table, and below each row all that is known of it */
	LIST_NAME, /* a name a line, for scripts */
	LIST_JSON, /* the same as --json */
};

#define LIST_OUTPUT_FIELD(T) \
	CONF_ONCE(T, output, "table", "table, wide, name (a name a line) or json (also -o)")

MUST_CHECK int list_form_parse(const char *output, bool json, enum list_form *out, struct err *e);

struct table;

struct table *table_new(const char *const *heads); /* the last one is NULL; borrowed */
void table_free(struct table *t); /* NULL is fine */

/* The next cell; a row is full when it has a cell for each head, and the next cell begins another. "" is printed as "-". */
void table_cell(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line below the last full row. */
void table_note(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Nothing if there is no row. */
void table_print(const struct table *t, FILE *out);

struct list {
	const char *const *heads;
	const char *name; /* the member of a row that has its name */
	/* the row's cells and notes: LIST_TABLE or LIST_WIDE */
	void (*add)(void *arg, struct table *t, const json_t *row, enum list_form form);
	void *arg;
};

/* Prints the rows, an array, in any form but LIST_JSON. */
void list_print(const struct list *l, const json_t *rows, enum list_form form);

#endif
