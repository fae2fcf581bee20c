/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/conf_field.h"
#include "base/mem.h"
#include "base/nearest.h"

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

static struct slot *find_present(const struct slots *s, const char *name, size_t len)
{
	char have[CONF_NAME_SIZE];

	for (size_t i = 0; i < s->n; i++) {
		conf_field_name(s->v[i].f, '-', have);
		if (strlen(have) == len && !memcmp(have, name, len))
			return &s->v[i];
	}
	return NULL;
}

static struct slot *find_slot(const struct slots *s, const char *name, size_t len)
{
	for (const struct conf_former *f = s->table->former; f && f->was; f++)
		if (strlen(f->was) == len && !memcmp(f->was, name, len))
			return find_present(s, f->is, strlen(f->is));
	return find_present(s, name, len);
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
		conf_field_clear(slot->conf, slot->f);
	slot->seen = true;
	return conf_field_set(slot->conf, slot->f, text, e);
}

static int load_defaults(struct slots *s, struct err *e)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct conf_field *f = s->v[i].f;

		if (f->value && conf_field_set(s->v[i].conf, f, f->value, e))
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
	slot = find_slot(s, key, strlen(key));
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

static int load_variable(struct slot *slot, const char *name, struct err *e)
{
	char env[CONF_NAME_SIZE + 8];
	const char *value;
	int rc;

	assert(slot); /* else a row of `former` leads to no setting */
	if (slot->f->once)
		return 0;
	snprintf(env, sizeof(env), "TUTTI_%s", name);
	for (char *p = env; *p; p++)
		*p = (char)(*p == '-' ? '_' : toupper((unsigned char)*p));
	value = getenv(env);
	rc = value ? slot_set(slot, value, e) : 0;
	if (rc)
		err_prefix(e, "environment %s", env);
	return rc;
}

static int load_env(struct slots *s, struct err *e)
{
	char name[CONF_NAME_SIZE];
	int rc = 0;

	begin_source(s);
	for (const struct conf_former *f = s->table->former; f && f->was && !rc; f++)
		rc = load_variable(find_present(s, f->is, strlen(f->is)), f->was, e);
	for (size_t i = 0; i < s->n && !rc; i++) {
		conf_field_name(s->v[i].f, '-', name);
		rc = load_variable(&s->v[i], name, e);
	}
	return rc;
}

static int unknown_flag(const struct slots *s, const char *flag, struct err *e)
{
	char name[CONF_NAME_SIZE], have[CONF_NAME_SIZE];
	struct nearest n = nearest_to(name);

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(flag + 2, "="), flag + 2);
	for (size_t i = 0; i < s->n; i++) {
		conf_field_name(s->v[i].f, '-', have);
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
	struct slot *slot = find_slot(s, name, len);
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

static int unknown_short_flag(const struct slots *s, const char *flag, struct err *e)
{
	return err_set(e, ERR_INVALID,
		       "unknown flag '%s'; an argument that begins with - goes behind --; see %s "
		       "--help",
		       flag, s->table->prog);
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
		else if (!flags_end && argv[i][0] == '-' && argv[i][1])
			rc = unknown_short_flag(s, argv[i], e);
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

	for (size_t i = 0; i < slots.n; i++)
		conf_field_clear(slots.v[i].conf, slots.v[i].f);
	free(slots.v);
}

void conf_help(const struct conf_table *table, FILE *out)
{
	struct slots slots = slots_of(table, NULL);

	fprintf(out, "usage: %s [flags]%s%s\n\n%s\n\n", table->prog, table->args ? " " : "",
		table->args ? table->args : "", table->summary);
	for (size_t i = 0; i < slots.n; i++)
		conf_field_help(slots.v[i].f, out);
	fputs("  --config FILE                  read NAME = VALUE lines first\n"
	      "  --print-config                 show every setting as it would be used\n"
	      "  --help                         this text\n"
	      "Each flag can also be set as TUTTI_<NAME> in the environment.\n",
	      out);
	free(slots.v);
}

void conf_print(const void *conf, const struct conf_table *table, FILE *out)
{
	struct slots slots = slots_of(table, conf);

	for (size_t i = 0; i < slots.n; i++)
		conf_field_print(slots.v[i].conf, slots.v[i].f, out);
	free(slots.v);
}
