/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/nearest.h"
#include "base/now.h"

#define NAME_MAX_LEN 64

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

static int set_field(void *conf, const struct conf_field *f, const char *text, struct err *e)
{
	void *p = (char *)conf + f->offset;
	int rc = parse_field(p, f, text, e);

	return rc ? rc : check_range(f, p, text, e);
}

/* The name of member api.spool_bytes is "spool": the struct's name and the unit are dropped. */
static void field_name(const struct conf_field *f, char sep, char out[NAME_MAX_LEN])
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
	if (n >= NAME_MAX_LEN)
		n = NAME_MAX_LEN - 1;
	for (size_t i = 0; i < n; i++)
		out[i] = member[i] == '_' ? sep : member[i];
	out[n] = '\0';
}

/* A field and its struct. */
struct slot {
	const struct conf_field *f;
	void *conf; /* NULL: names only, no values */
	bool seen; /* whether the current source has set the field */
};

/* All fields of a table and its parts, in order. */
struct slots {
	const struct conf_table *table;
	struct slot *v;
	size_t n;
};

static void slots_add(struct slots *s, const struct conf_field *fields, void *conf)
{
	for (const struct conf_field *f = fields; f->member; f++) {
		s->v = xrealloc(s->v, (s->n + 1) * sizeof(*s->v));
		s->v[s->n++] = (struct slot){ f, conf, false };
	}
}

static struct slots slots_of(const struct conf_table *t, const void *conf)
{
	struct slots s = { .table = t };

	slots_add(&s, t->fields, (void *)conf);
	for (const struct conf_part *part = t->more; part && part->fields; part++)
		slots_add(&s, part->fields, part->conf);
	return s;
}

static struct slot *find_slot(const struct slots *s, const char *name, size_t len, char sep)
{
	char have[NAME_MAX_LEN];

	for (size_t i = 0; i < s->n; i++) {
		field_name(s->v[i].f, sep, have);
		if (strlen(have) == len && !memcmp(have, name, len))
			return &s->v[i];
	}
	return NULL;
}

/* The next source begins; each is stronger than the one before: file, environment, flags. */
static void begin_source(struct slots *s)
{
	for (size_t i = 0; i < s->n; i++)
		s->v[i].seen = false;
}

/* The first value of a source replaces the list of a weaker one; further values are appended. */
static int slot_set(struct slot *slot, const char *text, struct err *e)
{
	if (slot->f->kind == CONF_LIST && !slot->seen)
		list_clear((struct conf_list *)((char *)slot->conf + slot->f->offset));
	slot->seen = true;
	return set_field(slot->conf, slot->f, text, e);
}

static int load_defaults(struct slots *s, struct err *e)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct conf_field *f = s->v[i].f;

		if (f->value && set_field(s->v[i].conf, f, f->value, e))
			return err_prefix(e, "default of %s", f->member);
	}
	return 0;
}

static char *trim(char *s)
{
	char *end;

	while (isspace((unsigned char)*s))
		s++;
	end = s + strlen(s);
	while (end > s && isspace((unsigned char)end[-1]))
		*--end = '\0';
	return s;
}

static int load_line(struct slots *s, char *line, struct err *e)
{
	struct slot *slot;
	char *key = trim(line);
	char *value;
	int rc;

	if (!*key || *key == '#')
		return 0;
	value = strchr(key, '=');
	if (!value)
		return err_set(e, ERR_INVALID, "'%s': expected NAME = VALUE", key);
	*value++ = '\0';
	key = trim(key);
	slot = find_slot(s, key, strlen(key), '-');
	if (!slot || slot->f->once)
		return err_set(e, ERR_INVALID, "unknown setting '%s'", key);
	rc = slot_set(slot, trim(value), e);
	if (rc)
		err_prefix(e, "%s", key);
	return rc;
}

static int load_file(struct slots *s, const char *path, struct err *e)
{
	char *line = NULL;
	size_t cap = 0;
	int number = 0;
	int rc = 0;
	FILE *f = fopen(path, "re");

	if (!f)
		return err_errno(e, "configuration file %s", path);
	begin_source(s);
	while (!rc && getline(&line, &cap, f) >= 0) {
		number++;
		rc = load_line(s, line, e);
	}
	if (rc)
		err_prefix(e, "%s:%d", path, number);
	free(line);
	fclose(f);
	return rc;
}

static int load_env(struct slots *s, struct err *e)
{
	char name[NAME_MAX_LEN];
	char env[NAME_MAX_LEN + 8];
	int rc = 0;

	begin_source(s);
	for (size_t i = 0; i < s->n && !rc; i++) {
		const char *value;

		field_name(s->v[i].f, '_', name);
		for (char *p = name; *p; p++)
			*p = (char)toupper((unsigned char)*p);
		snprintf(env, sizeof(env), "TUTTI_%s", name);
		value = s->v[i].f->once ? NULL : getenv(env);
		if (value)
			rc = slot_set(&s->v[i], value, e);
		if (rc)
			err_prefix(e, "environment %s", env);
	}
	return rc;
}

static int unknown_flag(const struct slots *s, const char *flag, struct err *e)
{
	char name[NAME_MAX_LEN], have[NAME_MAX_LEN];
	struct nearest n = nearest_to(name);

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(flag + 2, "="), flag + 2);
	for (size_t i = 0; i < s->n; i++) {
		field_name(s->v[i].f, '-', have);
		nearest_try(&n, have);
	}
	if (*n.word)
		return err_set(e, ERR_INVALID,
			       "unknown flag '%s': did you mean --%s? See %s --help", flag, n.word,
			       s->table->prog);
	return err_set(e, ERR_INVALID, "unknown flag '%s'; see %s --help", flag, s->table->prog);
}

/* One flag at argv[*i]; moves *i past a separate value. */
static int load_flag(struct slots *s, int argc, char **argv, int *i, struct err *e)
{
	const char *flag = argv[*i];
	const char *name = flag + 2;
	const char *eq = strchr(name, '=');
	size_t len = eq ? (size_t)(eq - name) : strlen(name);
	struct slot *slot = find_slot(s, name, len, '-');
	const char *value = eq ? eq + 1 : NULL;
	int rc;

	if (!slot)
		return unknown_flag(s, flag, e);
	if (!value && slot->f->kind == CONF_BOOL)
		value = "true";
	if (!value && *i + 1 < argc)
		value = argv[++*i];
	if (!value)
		return err_set(e, ERR_INVALID, "flag '%s' needs a value", flag);
	rc = slot_set(slot, value, e);
	if (rc)
		err_prefix(e, "--%.*s", (int)len, name);
	return rc;
}

static int load_flags(struct slots *s, int *argc, char **argv, struct err *e)
{
	bool flags_end = false;
	int kept = 0;
	int rc = 0;

	begin_source(s);
	for (int i = 0; i < *argc && !rc; i++) {
		if (!flags_end && !strcmp(argv[i], "--"))
			flags_end = true;
		else if (!flags_end && !strncmp(argv[i], "--", 2))
			rc = load_flag(s, *argc, argv, &i, e);
		else
			argv[kept++] = argv[i];
	}
	*argc = kept;
	return rc;
}

/* Takes --help, --print-config and --config FILE out of argv, up to a "--"; returns the file or
 * NULL. A --config without a file stays, and is refused as a flag without its value. */
static const char *take_common(int *argc, char **argv, enum conf_action *action)
{
	const char *file = getenv("TUTTI_CONFIG");
	bool flags_end = false;
	int kept = 0;

	for (int i = 0; i < *argc; i++) {
		flags_end = flags_end || !strcmp(argv[i], "--");
		if (flags_end)
			argv[kept++] = argv[i];
		else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			*action = CONF_HELP;
		else if (!strcmp(argv[i], "--print-config"))
			*action = CONF_PRINT;
		else if (!strcmp(argv[i], "--config") && i + 1 < *argc)
			file = argv[++i];
		else if (!strncmp(argv[i], "--config=", 9))
			file = argv[i] + 9;
		else
			argv[kept++] = argv[i];
	}
	*argc = kept;
	return file;
}

int conf_load(void *conf, const struct conf_table *table, int *argc, char **argv,
	      enum conf_action *action, struct err *e)
{
	struct slots slots;
	const char *file;
	int rc;

	*action = CONF_RUN;
	file = take_common(argc, argv, action);
	if (*action == CONF_HELP)
		return 0;
	slots = slots_of(table, conf);
	rc = load_defaults(&slots, e);
	if (!rc && file)
		rc = load_file(&slots, file, e);
	if (!rc)
		rc = load_env(&slots, e);
	if (!rc)
		rc = load_flags(&slots, argc, argv, e);
	free(slots.v);
	return rc;
}

void conf_release(void *conf, const struct conf_table *table)
{
	struct slots slots = slots_of(table, conf);

	for (size_t i = 0; i < slots.n; i++) {
		const struct conf_field *f = slots.v[i].f;
		void *p = (char *)slots.v[i].conf + f->offset;

		if (f->kind == CONF_STR) {
			free(*(char **)p);
			*(char **)p = NULL;
		} else if (f->kind == CONF_LIST) {
			list_clear(p);
		}
	}
	free(slots.v);
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

static void help_field(const struct conf_field *f, FILE *out)
{
	char name[NAME_MAX_LEN], left[NAME_MAX_LEN + 16], range[80];

	field_name(f, '-', name);
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

void conf_help(const struct conf_table *table, FILE *out)
{
	struct slots slots = slots_of(table, NULL);

	fprintf(out, "usage: %s [flags]%s%s\n\n%s\n\n", table->prog, table->args ? " " : "",
		table->args ? table->args : "", table->summary);
	for (size_t i = 0; i < slots.n; i++)
		help_field(slots.v[i].f, out);
	fputs("  --config FILE                  read NAME = VALUE lines first\n"
	      "  --print-config                 show every setting as it would be used\n"
	      "  --help                         this text\n"
	      "Each flag can also be set as TUTTI_<NAME> in the environment.\n",
	      out);
	free(slots.v);
}

static void print_field(const struct conf_field *f, const void *p, FILE *out)
{
	const struct conf_list *list = p;
	char name[NAME_MAX_LEN];

	field_name(f, '-', name);
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

void conf_print(const void *conf, const struct conf_table *table, FILE *out)
{
	struct slots slots = slots_of(table, conf);

	for (size_t i = 0; i < slots.n; i++)
		print_field(slots.v[i].f, (char *)slots.v[i].conf + slots.v[i].f->offset, out);
	free(slots.v);
}
