/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cmd.h"

static int text_json(json_t **out, const char *flag, const char *text, struct err *e)
{
	*out = json_string(text);
	return *out ? 0 : err_set(e, ERR_INVALID, "%s: the value is not UTF-8 text", flag);
}

int request_put_text(json_t *o, const char *key, const char *flag, const char *text, struct err *e)
{
	json_t *value;
	int rc = text_json(&value, flag, text, e);

	if (!rc && json_object_set_new(o, key, value))
		rc = err_set(e, ERR_INVALID, "%s: the name is not UTF-8 text", flag);
	return rc;
}

static int put_setting(json_t *settings, const char *text, struct err *e)
{
	const char *eq = strchr(text, '=');
	char *key;
	int rc;

	if (!eq || eq == text)
		return err_set(e, ERR_INVALID, "--set '%s': expected KEY=VALUE", text);
	key = xstrndup(text, (size_t)(eq - text));
	rc = request_put_text(settings, key, "--set", eq + 1, e);
	free(key);
	return rc;
}

int request_put_settings(json_t *request, const struct conf_list *set, struct err *e)
{
	json_t *settings = json_object();
	int rc = 0;

	for (size_t i = 0; i < set->n && !rc; i++)
		rc = put_setting(settings, set->items[i], e);
	json_put(request, "settings", settings);
	return rc;
}

int request_put_tracers(json_t *request, const struct conf_list *tracers, struct err *e)
{
	json_t *names = json_array(), *name;
	int rc = 0;

	for (size_t i = 0; i < tracers->n && !rc; i++) {
		rc = text_json(&name, "--tracer", tracers->items[i], e);
		if (!rc)
			json_array_append_new(names, name);
	}
	json_put(request, "tracers", names);
	return rc;
}

int request_post(const struct api_conf *api, const char *verb, const char *path,
		 const json_t *request, json_t **capture, struct err *e)
{
	int rc = api_call(api, "POST", path, request, capture, e);

	if (rc == ERR_NOT_FOUND) {
		fprintf(stderr, "tutti %s: %s\n", verb, e->msg);
		if (api->json)
			api_print_error(e->msg);
		return EXIT_NO_HOST;
	}
	if (!rc && json_get_bool(*capture, "shared"))
		fprintf(stderr, "%s: shared with an earlier request for the same capture\n",
			json_get_text(*capture, "session"));
	return rc;
}
