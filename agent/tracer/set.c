/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "base/mem.h"

static size_t count_drivers(const struct tracer_ops *const *all)
{
	size_t n = 0;

	while (all[n])
		n++;
	return n;
}

/* ---- configuration ---- */

struct conf_part *tracer_confs_new(const struct tracer_ops *const *all)
{
	static const struct conf_field none[] = { { 0 } };
	size_t n = count_drivers(all);
	struct conf_part *confs = xcalloc(n + 1, sizeof(*confs));

	for (size_t i = 0; i < n; i++) {
		confs[i].fields = all[i]->conf ? all[i]->conf : none;
		confs[i].conf = all[i]->conf_size ? xcalloc(1, all[i]->conf_size) : NULL;
	}
	return confs;
}

void tracer_confs_free(struct conf_part *confs)
{
	for (size_t i = 0; confs && confs[i].fields; i++)
		free(confs[i].conf);
	free(confs);
}

/* ---- names ---- */

static const struct tracer_ops *find_driver(const struct tracer_ops *const *all, const char *name,
					    size_t len)
{
	for (size_t i = 0; all[i]; i++) {
		if (strlen(all[i]->name) == len && !strncmp(all[i]->name, name, len))
			return all[i];
	}
	return NULL;
}

static int refuse_name(const char *name, size_t len, const struct tracer_ops *const *all,
		       struct err *e)
{
	char known[160] = "";

	for (size_t i = 0; all[i]; i++) {
		size_t used = strlen(known);

		snprintf(known + used, sizeof(known) - used, "%s%s", used ? ", " : "",
			 all[i]->name);
	}
	return err_set(e, ERR_INVALID, "unknown tracer '%.*s': use %s", len < 40 ? (int)len : 40,
		       name, known);
}

int tracer_names_check(const char *names, const struct tracer_ops *const *all, struct err *e)
{
	const char *at = names ? names : "";

	while (*at) {
		size_t n = strcspn(at, ",");

		if (!find_driver(all, at, n))
			return refuse_name(at, n, all, e);
		at += n;
		at += *at == ',';
	}
	return 0;
}

bool tracer_names_has(const char *names, const char *name)
{
	const char *at = names ? names : "";
	size_t len = strlen(name);

	if (!*at)
		return true;
	for (;;) {
		size_t n = strcspn(at, ",");

		if (n == len && !strncmp(at, name, n))
			return true;
		if (!at[n])
			return false;
		at += n + 1;
	}
}

/* ---- tracers ---- */

int tracer_set_open(struct tracer ***out, const struct tracer_ops *const *all, const char *names,
		    const struct conf_part *confs, const struct tracer_env *env, struct err *e)
{
	size_t max = count_drivers(all), n = 0;
	struct tracer **set = xcalloc(max + 1, sizeof(*set));

	for (size_t i = 0; i < max; i++) {
		struct loop_account *account, *before;
		struct tracer_env own = *env;
		int rc;

		if (!tracer_names_has(names, all[i]->name))
			continue;
		own.conf = confs[i].conf;
		account = loop_account_new(env->loop);
		before = loop_account_enter(env->loop, account);
		rc = all[i]->open(&set[n], &own, e);
		loop_account_enter(env->loop, before);
		if (rc) {
			err_prefix(e, "tracer %s", all[i]->name);
			set[n] = NULL;
			tracer_set_close(set);
			return rc;
		}
		set[n++]->account = account;
	}
	*out = set;
	return 0;
}

void tracer_set_close(struct tracer **set)
{
	for (size_t i = 0; set && set[i]; i++)
		set[i]->ops->free(set[i]);
	free(set);
}

/* ---- settings of a capture ---- */

static const struct setting *find_setting(const struct tracer_ops *ops, const char *key)
{
	const char *name = setting_of_tracer(key, ops->name);

	for (const struct setting *s = ops->settings; name && s->name; s++) {
		if (!strcmp(s->name, name))
			return s;
	}
	return NULL;
}

static size_t count_settings(const struct tracer_ops *ops)
{
	size_t n = 0;

	while (ops->settings && ops->settings[n].name)
		n++;
	return n;
}

int tracer_values(const struct tracer_ops *ops, const struct tracer_setting *given, size_t n,
		  int64_t **out, struct err *e)
{
	size_t count = count_settings(ops);
	int rc = 0;

	*out = NULL;
	if (!count)
		return 0;
	*out = xcalloc(count + 1, sizeof(**out));
	for (size_t i = 0; i < count; i++)
		(*out)[i] = ops->settings[i].value;
	for (size_t i = 0; i < n && !rc; i++) {
		const struct setting *s = find_setting(ops, given[i].key);

		if (!s)
			continue;
		rc = setting_parse(s, given[i].value, &(*out)[s - ops->settings], e);
		if (rc)
			err_prefix(e, "setting '%.80s'", given[i].key);
	}
	if (rc) {
		free(*out);
		*out = NULL;
	}
	return rc;
}

/* One block: the pointers, then the texts. */
char **tracer_texts(const struct tracer_ops *ops, const struct tracer_setting *given, size_t n)
{
	size_t count = count_settings(ops), bytes = count * sizeof(char *);
	char **texts, *at;

	if (!count)
		return NULL;
	for (size_t i = 0; i < n; i++)
		bytes += strlen(given[i].value) + 1;
	texts = xcalloc(1, bytes);
	at = (char *)(texts + count);
	for (size_t i = 0; i < n; i++) {
		const struct setting *s = find_setting(ops, given[i].key);

		if (!s || s->kind != SETTING_TEXT)
			continue;
		texts[s - ops->settings] = memcpy(at, given[i].value, strlen(given[i].value) + 1);
		at += strlen(given[i].value) + 1;
	}
	return texts;
}
