/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps aggregators by name: tutti context add, use, list, remove. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/context.h"
#include "cli/forward.h"
#include "cli/login.h"
#include "cli/table.h"
#include "json/json_text.h"

struct conf {
	char *ca, *cert, *key, *token_file;
	char *output;
	bool json;
};

static const struct conf_field fields[] = {
	CONF_ONCE(struct conf, ca, NULL, "add: PEM file of the authority to accept for https"),
	CONF_ONCE(struct conf, cert, NULL, "add: PEM file of your own certificate for https"),
	CONF_ONCE(struct conf, key, NULL, "add: PEM file of that certificate's key"),
	CONF_ONCE(struct conf, token_file, NULL, "add: file with the aggregator's token"),
	LIST_OUTPUT_FIELD(struct conf),
	CONF(struct conf, json, NULL, "print one JSON document on stdout"),
	{ 0 }
};

/* One URL, or several with commas: all through kubectl, or none. */
static int check_server(const char *url, struct err *e)
{
	static const char *const schemes[] = { "http://", "https://", "k8s://" };
	size_t i;

	for (const char *at = url; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		for (i = 0; i < ARRAY_SIZE(schemes); i++) {
			size_t len = strlen(schemes[i]);

			if (!strncmp(at, schemes[i], len) && at[len] && at[len] != ',')
				break;
		}
		if (i == ARRAY_SIZE(schemes) || forward_is_wanted(at) != forward_is_wanted(url))
			return err_set(e, ERR_INVALID,
				       "'%.200s': expected http://HOST:PORT, https://HOST:PORT or "
				       "k8s://NAMESPACE/NAME, or several of one kind with commas",
				       url);
	}
	return 0;
}

/* Files are named from any folder later. */
static int put_file(json_t *context, const char *member, const char *path, struct err *e)
{
	char *full;

	if (!path || !*path)
		return 0;
	full = realpath(path, NULL);
	if (!full)
		return err_errno(e, "%s", path);
	json_put_text(context, member, full);
	free(full);
	return 0;
}

static int add(json_t *doc, const struct conf *conf, const char *name, const char *server,
	       struct err *e)
{
	json_t *context;
	int rc = 0;

	if (!context_name_is_good(name))
		return err_set(e, ERR_INVALID,
			       "'%.63s': a name has letters, digits, '.', '_', '-', at most 63",
			       name);
	rc = check_server(server, e);
	if (rc)
		return rc;
	context = json_object();
	json_put_text(context, "server", server);
	rc = put_file(context, "ca", conf->ca, e);
	if (!rc)
		rc = put_file(context, "cert", conf->cert, e);
	if (!rc)
		rc = put_file(context, "key", conf->key, e);
	if (!rc)
		rc = put_file(context, "token_file", conf->token_file, e);
	if (rc) {
		json_decref(context);
		return rc;
	}
	json_put(json_object_get(doc, "contexts"), name, context);
	if (!*json_get_text(doc, "current"))
		json_put_text(doc, "current", name);
	return contexts_store(doc, e);
}

static int check_known(const json_t *doc, const char *name, struct err *e)
{
	return json_object_get(json_object_get(doc, "contexts"), name)
		       ? 0
		       : err_set(e, ERR_NOT_FOUND,
				 "there is no context '%.63s'; see tutti context list", name);
}

static int use(json_t *doc, const char *name, struct err *e)
{
	int rc = check_known(doc, name, e);

	if (rc)
		return rc;
	json_put_text(doc, "current", name);
	return contexts_store(doc, e);
}

static int drop(json_t *doc, const char *name, struct err *e)
{
	int rc = check_known(doc, name, e);

	if (rc)
		return rc;
	json_object_del(json_object_get(doc, "contexts"), name);
	if (!strcmp(json_get_text(doc, "current"), name))
		json_put_text(doc, "current", "");
	rc = login_remove(name, NULL, e);
	return rc ? rc : contexts_store(doc, e);
}

static int list(const json_t *doc, const struct conf *conf, struct err *e)
{
	static const char *const heads[] = { "CURRENT", "NAME", "SERVER", "TOKEN FILE", NULL };
	enum list_form form;
	struct table *t;
	const char *name;
	json_t *context;
	int rc = list_form_parse(conf->output, conf->json, &form, e);

	if (rc)
		return rc;
	if (form == LIST_JSON) {
		api_print(doc);
		return 0;
	}
	t = table_new(heads);
	json_object_foreach(json_object_get(doc, "contexts"), name, context)
	{
		if (form == LIST_NAME) {
			puts(name);
			continue;
		}
		table_cell(t, "%s", strcmp(json_get_text(doc, "current"), name) ? "" : "*");
		table_cell(t, "%s", name);
		table_cell(t, "%s", json_get_text(context, "server"));
		table_cell(t, "%s", json_get_text(context, "token_file"));
	}
	table_print(t, stdout);
	table_free(t);
	return 0;
}

static int dispatch(json_t *doc, const struct conf *conf, int argc, char **argv, struct err *e)
{
	const char *verb = argv[0];

	if (!strcmp(verb, "list") && argc == 1)
		return list(doc, conf, e);
	if (!strcmp(verb, "add") && argc == 3)
		return add(doc, conf, argv[1], argv[2], e);
	if (!strcmp(verb, "use") && argc == 2)
		return use(doc, argv[1], e);
	if (!strcmp(verb, "remove") && argc == 2)
		return drop(doc, argv[1], e);
	return err_set(e, ERR_INVALID,
		       "expected add NAME URL, use NAME, list or remove NAME; see tutti context "
		       "--help");
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	json_t *doc = NULL;
	int rc = contexts_load(&doc, e);

	if (!rc)
		rc = dispatch(doc, arg, argc, argv, e);
	json_decref(doc);
	return rc;
}

const struct cmd cmd_context = {
	.name = "context",
	.args = "add NAME URL | use NAME | list | remove NAME",
	.min_args = 1,
	.max_args = 3,
	.summary = "keep aggregators by name; the current one is used where no --server is given",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
