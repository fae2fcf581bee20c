/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf_field.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct unit {
	const char *name;
	double scale;
};

static const struct unit time_units[] = {
	{ "ns", 1 },   { "us", 1e3 },	{ "ms", 1e6 },	  { "s", 1e9 },
	{ "m", 60e9 }, { "h", 3600e9 }, { "d", 86400e9 }, { 0 },
};
static const struct unit size_units[] = {
	{ "", 1 },
	{ "B", 1 },
	{ "K", 1024.0 },
	{ "M", 1048576.0 },
	{ "G", 1073741824.0 },
	{ "T", 1099511627776.0 },
	{ 0 },
};

static int parse_unit(const char *text, const struct unit *units, const char *example, double *out,
		      struct err *e)
{
	char *end;
	double v = strtod(text, &end);

	if (end != text && isfinite(v)) {
		for (const struct unit *u = units; u->name; u++) {
			if (!strcmp(end, u->name) && fabs(v * u->scale) < 9e18) {
				*out = v * u->scale;
				return 0;
			}
		}
	}
	return err_set(e, ERR_INVALID, "'%s': expected a number with a unit, like %s", text,
		       example);
}

int conf_parse_time(const char *text, int64_t *out_ns, struct err *e)
{
	double v;
	int rc;

	if (!strcmp(text, "0")) {
		*out_ns = 0;
		return 0;
	}
	rc = parse_unit(text, time_units, "250ms, 2s or 5m", &v, e);
	if (!rc)
		*out_ns = llround(v);
	return rc;
}

int conf_parse_size(const char *text, uint64_t *out_bytes, struct err *e)
{
	double v;
	int rc = parse_unit(text, size_units, "4096, 64M or 2G", &v, e);

	if (!rc && v < 0)
		rc = err_set(e, ERR_INVALID, "'%s': a size is not negative", text);
	if (!rc)
		*out_bytes = (uint64_t)v;
	return rc;
}

static int parse_bool(const char *text, bool *out, struct err *e)
{
	if (!strcmp(text, "true") || !strcmp(text, "1"))
		*out = true;
	else if (!strcmp(text, "false") || !strcmp(text, "0"))
		*out = false;
	else
		return err_set(e, ERR_INVALID, "'%s': expected true or false", text);
	return 0;
}

static int parse_int(const char *text, int *out, struct err *e)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	if (errno || end == text || *end || v < INT32_MIN || v > INT32_MAX)
		return err_set(e, ERR_INVALID, "'%s': expected a whole number", text);
	*out = (int)v;
	return 0;
}

static int parse_real(const char *text, double *out, struct err *e)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !isfinite(v))
		return err_set(e, ERR_INVALID, "'%s': expected a number", text);
	*out = v;
	return 0;
}

static void list_clear(struct conf_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct conf_list){ 0 };
}

static void list_add(struct conf_list *list, const char *text)
{
	list->items = xrealloc(list->items, (list->n + 1) * sizeof(*list->items));
	list->items[list->n++] = xstrdup(text);
}

static double field_number(const struct conf_field *f, const void *p)
{
	switch (f->kind) {
	case CONF_INT:
		return *(const int *)p;
	case CONF_TIME:
		return (double)*(const int64_t *)p;
	case CONF_SIZE:
		return (double)*(const uint64_t *)p;
	case CONF_REAL:
		return *(const double *)p;
	default:
		return 0;
	}
}

/* Writes a limit as a user would: 10ms, 64K, 99, 2000000000. */
static void write_bound(const struct conf_field *f, double v, char out[32])
{
	const struct unit *best = f->kind == CONF_TIME ? time_units : size_units;

	for (const struct unit *u = best; u->name && (f->kind == CONF_TIME || f->kind == CONF_SIZE);
	     u++) {
		if (v != 0 && u->scale > best->scale && fmod(v, u->scale) == 0 &&
		    fabs(v / u->scale) < 10000)
			best = u;
	}
	snprintf(out, 32, "%.15g%s", v / best->scale, best->name);
}

static bool has_range(const struct conf_field *f)
{
	return f->min < f->max;
}

static void write_range(const struct conf_field *f, char out[80])
{
	char min[32], max[32];

	write_bound(f, f->min, min);
	write_bound(f, f->max, max);
	snprintf(out, 80, "%s to %s", min, max);
}

static int check_range(const struct conf_field *f, const void *p, const char *text, struct err *e)
{
	double v = field_number(f, p);
	char range[80];

	if (!has_range(f) || (v >= f->min && v <= f->max))
		return 0;
	write_range(f, range);
	return err_set(e, ERR_INVALID, "'%s': use %s", text, range);
}

static int parse_field(void *p, const struct conf_field *f, const char *text, struct err *e)
{
	switch (f->kind) {
	case CONF_STR:
		free(*(char **)p);
		*(char **)p = xstrdup(text);
		return 0;
	case CONF_BOOL:
		return parse_bool(text, p, e);
	case CONF_INT:
		return parse_int(text, p, e);
	case CONF_TIME:
		return conf_parse_time(text, p, e);
	case CONF_SIZE:
		return conf_parse_size(text, p, e);
	case CONF_REAL:
		return parse_real(text, p, e);
	case CONF_LIST:
		list_add(p, text);
		return 0;
	}
	return 0;
}

int conf_field_set(void *conf, const struct conf_field *f, const char *text, struct err *e)
{
	void *p = (char *)conf + f->offset;
	int rc = parse_field(p, f, text, e);

	return rc ? rc : check_range(f, p, text, e);
}

void conf_field_name(const struct conf_field *f, char sep, char out[CONF_NAME_SIZE])
{
	const char *dot = strrchr(f->member, '.');
	const char *member = dot ? dot + 1 : f->member;
	size_t n = strlen(member);
	const char *const suffixes[] = { "_ns", "_bytes" };

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		size_t len = strlen(suffixes[i]);

		if (n > len && !strcmp(member + n - len, suffixes[i])) {
			n -= len;
			break;
		}
	}
	if (n >= CONF_NAME_SIZE)
		n = CONF_NAME_SIZE - 1;
	for (size_t i = 0; i < n; i++)
		out[i] = member[i] == '_' ? sep : member[i];
	out[n] = '\0';
}

void conf_field_clear(void *conf, const struct conf_field *f)
{
	void *p = (char *)conf + f->offset;

	if (f->kind == CONF_STR) {
		free(*(char **)p);
		*(char **)p = NULL;
	} else if (f->kind == CONF_LIST) {
		list_clear(p);
	}
}

static const char *kind_hint(enum conf_kind kind)
{
	static const char *const hints[] = {
		[CONF_STR] = " TEXT",  [CONF_BOOL] = "",      [CONF_INT] = " N",
		[CONF_TIME] = " TIME", [CONF_SIZE] = " SIZE", [CONF_REAL] = " X",
		[CONF_LIST] = " TEXT",
	};

	return hints[kind];
}

void conf_field_help(const struct conf_field *f, FILE *out)
{
	char name[CONF_NAME_SIZE], left[CONF_NAME_SIZE + 16], range[80];

	conf_field_name(f, '-', name);
	snprintf(left, sizeof(left), "--%s%s", name, kind_hint(f->kind));
	fprintf(out, "  %-30s %s", left, f->help);
	if (f->kind == CONF_LIST)
		fputs(" (repeatable)", out);
	if (has_range(f)) {
		write_range(f, range);
		fprintf(out, " (%s)", range);
	}
	if (f->kind == CONF_BOOL && f->value && !strcmp(f->value, "true"))
		fprintf(out, " [on; --%s=false switches it off]", name);
	else if (f->value && *f->value && strcmp(f->value, "false"))
		fprintf(out, " [%s]", f->value);
	if (f->once)
		fputs(" (flag only)", out);
	fputc('\n', out);
}

void conf_field_print(const void *conf, const struct conf_field *f, FILE *out)
{
	const void *p = (const char *)conf + f->offset;
	const struct conf_list *list = p;
	char name[CONF_NAME_SIZE];

	conf_field_name(f, '-', name);
	switch (f->kind) {
	case CONF_STR:
		if (*(char *const *)p)
			fprintf(out, "%s = %s\n", name, *(char *const *)p);
		else
			fprintf(out, "# %s is not set\n", name);
		break;
	case CONF_BOOL:
		fprintf(out, "%s = %s\n", name, *(const bool *)p ? "true" : "false");
		break;
	case CONF_INT:
		fprintf(out, "%s = %d\n", name, *(const int *)p);
		break;
	case CONF_TIME:
		fprintf(out, "%s = %" PRId64 "ns\n", name, *(const int64_t *)p);
		break;
	case CONF_SIZE:
		fprintf(out, "%s = %" PRIu64 "\n", name, *(const uint64_t *)p);
		break;
	case CONF_REAL:
		fprintf(out, "%s = %.15g\n", name, *(const double *)p);
		break;
	case CONF_LIST:
		for (size_t i = 0; i < list->n; i++)
			fprintf(out, "%s = %s\n", name, list->items[i]);
		break;
	}
}
