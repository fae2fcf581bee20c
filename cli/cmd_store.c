/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/cmd.h"
#include "json/json_text.h"
#include "storage/store.h"
#include "storage/store_check.h"

struct conf {
	int64_t timeout_ns;
	bool json;
};

static const struct conf_field fields[] = {
	CONF(struct conf, timeout_ns, "60s", "longest time for all checks together"),
	CONF(struct conf, json, NULL, "print one JSON document on stdout"),
	{ 0 }
};

struct findings {
	bool json;
	json_t *list;
};

static void on_finding(void *arg, const struct store_finding *finding)
{
	struct findings *f = arg;
	json_t *o;

	if (!f->json) {
		printf("%-6s %-12s %s\n", finding->ok ? "ok" : "FAIL", finding->name,
		       finding->text);
		return;
	}
	o = json_object();
	json_put_text(o, "name", finding->name);
	json_put(o, "ok", json_boolean(finding->ok));
	json_put_text(o, "text", finding->text);
	json_array_append_new(f->list, o);
}

static void print_json(const char *url, bool ok, json_t *list)
{
	json_t *o = json_object();

	json_put_text(o, "store", url);
	json_put(o, "ok", json_boolean(ok));
	json_put(o, "findings", list);
	api_print(o);
	json_decref(o);
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	struct findings f = { .json = conf->json };
	struct store *store;
	bool ok;
	int rc;

	(void)argc;
	if (strcmp(argv[0], "check"))
		return err_set(e, ERR_INVALID, "'%.40s': expected tutti store check URL", argv[0]);
	rc = store_open(&store, argv[1], e);
	if (rc)
		return rc;
	if (conf->json)
		f.list = json_array();
	ok = store_check(store, store_within(conf->timeout_ns), on_finding, &f);
	store_free(store);
	if (conf->json)
		print_json(argv[1], ok, f.list);
	return ok ? EXIT_ALL : EXIT_OTHER;
}

const struct cmd cmd_store = {
	.name = "store",
	.args = "check URL",
	.min_args = 2,
	.max_args = 2,
	.summary = "try what a store can do, and say what it lacks",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
