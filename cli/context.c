/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/nearest.h"
#include "cli/private_file.h"
#include "json/json_text.h"

#define NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

static const char *const members[] = { "server", "ca", "cert", "key", "token_file" };
static const char *const variables[] = { "TUTTI_SERVER", "TUTTI_CA", "TUTTI_CERT", "TUTTI_KEY",
					 "TUTTI_TOKEN_FILE" };

char *contexts_path(void)
{
	const char *given = getenv("TUTTI_CONTEXTS"), *config = getenv("XDG_CONFIG_HOME");
	const char *home = getenv("HOME");

	if (given && *given)
		return xstrdup(given);
	if (config && *config)
		return xasprintf("%s/tutti/contexts.json", config);
	return xasprintf("%s/.config/tutti/contexts.json", home ? home : "");
}

bool context_name_is_good(const char *name)
{
	size_t len = strlen(name);

	return len && len < CONTEXT_NAME_BYTES && strspn(name, NAME_CHARS) == len;
}

/* ---- the file ---- */

int contexts_load(json_t **out, struct err *e)
{
	char *path = contexts_path();
	int rc = private_file_load(out, path, e);

	if (!rc && !*out) {
		*out = json_object();
		json_put_text(*out, "current", "");
		json_put(*out, "contexts", json_object());
	} else if (!rc && !json_is_object(json_object_get(*out, "contexts"))) {
		json_decref(*out);
		rc = err_set(e, ERR_INVALID, "%s: it has no contexts", path);
	}
	free(path);
	return rc;
}

int contexts_store(const json_t *doc, struct err *e)
{
	char *path = contexts_path();
	int rc = private_file_store(doc, path, e);

	free(path);
	return rc;
}

/* ---- its use ---- */

static int no_such(const json_t *contexts, const char *name, struct err *e)
{
	struct nearest n = nearest_to(name);
	const char *known;
	json_t *value;

	json_object_foreach((json_t *)contexts, known, value) nearest_try(&n, known);
	if (*n.word)
		return err_set(e, ERR_NOT_FOUND, "there is no context '%.63s': did you mean '%s'?",
			       name, n.word);
	return err_set(e, ERR_NOT_FOUND, "there is no context '%.63s'; see tutti context list",
		       name);
}

int context_apply(const char *name, char used[CONTEXT_NAME_BYTES], struct err *e)
{
	const json_t *contexts, *context;
	json_t *doc;
	int rc;

	*used = '\0';
	if (getenv("TUTTI_SERVER") && !name)
		return 0;
	rc = contexts_load(&doc, e);
	if (rc)
		return rc;
	if (!name)
		name = json_get_text(doc, "current");
	contexts = json_object_get(doc, "contexts");
	context = json_object_get(contexts, name);
	if (*name && !context)
		rc = no_such(contexts, name, e);
	if (context)
		snprintf(used, CONTEXT_NAME_BYTES, "%s", name);
	for (size_t i = 0; context && i < ARRAY_SIZE(members); i++) {
		const char *value = json_get_text(context, members[i]);

		if (*value)
			setenv(variables[i], value, 1);
		else
			unsetenv(variables[i]);
	}
	json_decref(doc);
	return rc;
}
