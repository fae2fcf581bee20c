/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/captures/tracer_settings.h"

#include <stdio.h>
#include <string.h>

#include "aggregator/captures/options.h"
#include "aggregator/fleet/registry.h"
#include "json/json_text.h"
#include "proto/setting.h"

#define NAMES_MAX 8 /* hosts that a warning names */

static bool is_selected(const char *key, char *const *tracers)
{
	for (size_t i = 0; tracers[i]; i++) {
		if (setting_of_tracer(key, tracers[i]))
			return true;
	}
	return false;
}

/* ---- one setting against all hosts ---- */

static void add_warning(json_t *warnings, const char *key, struct host *const *hosts, size_t n,
			size_t without)
{
	char names[512] = "";
	size_t named = 0;

	for (size_t i = 0; i < n && named < NAMES_MAX; i++) {
		size_t used = strlen(names);

		if (settings_list_find(hosts[i]->settings, key))
			continue;
		snprintf(names + used, sizeof(names) - used, "%s%.48s", named++ ? ", " : "",
			 hosts[i]->name);
	}
	json_array_append_new(warnings,
			      json_sprintf("setting '%.80s': %zu of %zu hosts do not have it and "
					   "record without it: %s%s",
					   key, without, n, names, without > named ? ", ..." : ""));
}

static int check_setting(const char *key, const json_t *value, char *const *tracers,
			 struct host *const *hosts, size_t n, json_t *warnings, struct err *e)
{
	const struct setting *s = NULL;
	size_t without = 0;
	char number[24];
	const char *text = setting_text(value, number);
	int64_t ignored;

	if (!text)
		return err_set(e, ERR_INVALID, "setting '%.80s': the value is not a text", key);
	for (size_t i = 0; i < n; i++) {
		bool is_same = i && hosts[i]->settings == hosts[i - 1]->settings;

		if (!is_same)
			s = settings_list_find(hosts[i]->settings, key);
		if (!s)
			without++;
		else if (!is_same && setting_parse(s, text, &ignored, e))
			return err_prefix(e, "setting '%.80s'", key);
	}
	if (without == n)
		return err_set(e, ERR_INVALID,
			       "no selected host has a setting '%.80s'; tutti capture "
			       "--help-settings lists them",
			       key);
	if (tracers && !is_selected(key, tracers))
		return err_set(e, ERR_INVALID,
			       "setting '%.80s': its tracer is not among the tracers of this "
			       "capture",
			       key);
	if (without)
		add_warning(warnings, key, hosts, n, without);
	return 0;
}

int tracer_settings_check(const json_t *settings, char *const *tracers, struct host *const *hosts,
			  size_t n, json_t *warnings, struct err *e)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)settings, key, value)
	{
		int rc = 0;

		if (setting_is_of_tracer(key))
			rc = check_setting(key, value, tracers, hosts, n, warnings, e);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- the list ---- */

/* Hosts of different versions may have different settings of one name: each is listed. */
static bool is_same(const json_t *row, const char *name, const struct setting *s)
{
	return !strcmp(json_string_value(json_object_get(row, "name")), name) &&
	       !strcmp(json_string_value(json_object_get(row, "type")),
		       setting_kind_name(s->kind)) &&
	       !strcmp(json_string_value(json_object_get(row, "help")), s->help) &&
	       json_integer_value(json_object_get(row, "min")) == s->min &&
	       json_integer_value(json_object_get(row, "max")) == s->max;
}

static json_t *find_row(json_t *rows, const char *name, const struct setting *s)
{
	size_t i;
	json_t *row;

	json_array_foreach(rows, i, row)
	{
		if (is_same(row, name, s))
			return row;
	}
	return NULL;
}

static json_t *default_json(const struct setting *s)
{
	if (s->kind == SETTING_TEXT)
		return json_string("");
	return s->kind == SETTING_BOOL ? json_boolean(s->value) : json_integer(s->value);
}

static void add_setting(json_t *rows, const struct host_setting *hs, size_t hosts)
{
	const struct setting *s = &hs->setting;
	char name[160];
	json_t *row;

	snprintf(name, sizeof(name), "%s.%s", hs->tracer, s->name);
	row = find_row(rows, name, s);
	if (!row) {
		row = json_object();
		json_put_text(row, "name", name);
		json_put_text(row, "tracer", hs->tracer);
		json_put_text(row, "type", setting_kind_name(s->kind));
		json_put_int(row, "min", s->min);
		json_put_int(row, "max", s->max);
		json_put(row, "default", default_json(s));
		json_put_text(row, "help", s->help);
		json_put_int(row, "hosts", 0);
		json_array_append_new(rows, row);
	}
	json_put_int(row, "hosts", json_get_int(row, "hosts") + (int64_t)hosts);
}

json_t *tracer_settings_json(const struct settings_lists *lists)
{
	json_t *o = json_object(), *all = options_list_json(), *rows = json_array();
	const struct settings_list *l;

	TAILQ_FOREACH_REVERSE(l, lists, settings_lists, entry)
	{
		for (size_t i = 0; i < l->n; i++)
			add_setting(rows, &l->items[i], l->refs);
	}
	json_array_extend(all, rows);
	json_decref(rows);
	json_put(o, "settings", all);
	return o;
}
