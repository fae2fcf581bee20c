/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "json/json_text.h"

#define BETWEEN 2 /* blanks */

struct row {
	char **cells;
	char **notes;
	size_t n_cells, n_notes;
};

struct table {
	const char *const *heads;
	size_t n_columns;
	struct row *rows;
	size_t n_rows;
};

int list_form_parse(const char *output, bool json, enum list_form *out, struct err *e)
{
	static const char *const names[] = { "table", "wide", "name", "json" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(output, names[i]) != 0)
			continue;
		*out = json ? LIST_JSON : (enum list_form)i;
		return 0;
	}
	return err_set(e, ERR_INVALID, "--output is '%s': use table, wide, name or json", output);
}

struct table *table_new(const char *const *heads)
{
	struct table *t = xcalloc(1, sizeof(*t));

	t->heads = heads;
	while (heads[t->n_columns])
		t->n_columns++;
	return t;
}

void table_free(struct table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n_rows; i++) {
		for (size_t k = 0; k < t->rows[i].n_cells; k++)
			free(t->rows[i].cells[k]);
		for (size_t k = 0; k < t->rows[i].n_notes; k++)
			free(t->rows[i].notes[k]);
		free(t->rows[i].cells);
		free(t->rows[i].notes);
	}
	free(t->rows);
	free(t);
}

void table_cell(struct table *t, const char *format, ...)
{
	struct row *row = t->n_rows ? &t->rows[t->n_rows - 1] : NULL;
	va_list args;

	if (!row || row->n_cells == t->n_columns) {
		t->rows = xrealloc(t->rows, (t->n_rows + 1) * sizeof(*t->rows));
		row = &t->rows[t->n_rows++];
		*row = (struct row){ .cells = xcalloc(t->n_columns, sizeof(char *)) };
	}
	va_start(args, format);
	row->cells[row->n_cells++] = xvasprintf(format, args);
	va_end(args);
}

void table_note(struct table *t, const char *format, ...)
{
	struct row *row = &t->rows[t->n_rows - 1];
	va_list args;

	row->notes = xrealloc(row->notes, (row->n_notes + 1) * sizeof(char *));
	va_start(args, format);
	row->notes[row->n_notes++] = xvasprintf(format, args);
	va_end(args);
}

/* In characters. */
static size_t width_of(const char *text)
{
	size_t left = strlen(text), width = 0;

	while (left) {
		size_t len = utf8_len((const uint8_t *)text, left);

		len = len ? len : 1;
		text += len;
		left -= len;
		width++;
	}
	return width;
}

static const char *cell_text(const struct row *row, size_t column)
{
	const char *text = column < row->n_cells ? row->cells[column] : "";

	return *text ? text : "-";
}

static size_t width_of_column(const struct table *t, size_t column)
{
	size_t widest = width_of(t->heads[column]);

	for (size_t i = 0; i < t->n_rows; i++) {
		size_t width = width_of(cell_text(&t->rows[i], column));

		widest = width > widest ? width : widest;
	}
	return widest;
}

static void print_cell(const char *text, size_t width, bool is_last, FILE *out)
{
	int blanks = is_last ? 0 : (int)(width - width_of(text)) + BETWEEN;

	fprintf(out, "%s%*s", text, blanks, "");
}

void table_print(const struct table *t, FILE *out)
{
	size_t *widths = xcalloc(t->n_columns, sizeof(*widths));

	for (size_t k = 0; k < t->n_columns; k++)
		widths[k] = width_of_column(t, k);
	for (size_t k = 0; t->n_rows && k < t->n_columns; k++)
		print_cell(t->heads[k], widths[k], k + 1 == t->n_columns, out);
	if (t->n_rows)
		fputc('\n', out);
	for (size_t i = 0; i < t->n_rows; i++) {
		for (size_t k = 0; k < t->n_columns; k++)
			print_cell(cell_text(&t->rows[i], k), widths[k], k + 1 == t->n_columns,
				   out);
		fputc('\n', out);
		for (size_t k = 0; k < t->rows[i].n_notes; k++)
			fprintf(out, "    %s\n", t->rows[i].notes[k]);
	}
	free(widths);
}

void list_print(const struct list *l, const json_t *rows, enum list_form form)
{
	struct table *t = table_new(l->heads);
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		if (form == LIST_NAME)
			puts(json_get_text(row, l->name));
		else
			l->add(l->arg, t, row, form);
	}
	table_print(t, stdout);
	table_free(t);
}
