/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "proto/names.h"

struct conf {
	struct api_conf api;
	char *format;
	char *output;
	struct conf_list host;
};

static const struct conf_field fields[] = {
	CONF(struct conf, format, "xspace",
	     "xspace: <host>.xplane.pb files in a directory XProf opens"),
	CONF(struct conf, output, ".", "the directory (also -o)"),
	CONF_ONCE(struct conf, host, NULL, "this host only"),
	API_FIELDS(struct conf),
	{ 0 }
};

static int make_directory(char *path, struct err *e)
{
	for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
		int failed;

		if (slash)
			*slash = '\0';
		failed = mkdir(path, 0777) && errno != EEXIST;
		if (failed)
			err_errno(e, "%s", path);
		if (slash)
			*slash = '/';
		if (failed)
			return e->code;
		if (!slash)
			return 0;
	}
}

static bool is_wanted(const struct conf *conf, const char *host)
{
	for (size_t i = 0; i < conf->host.n; i++) {
		if (!strcmp(conf->host.items[i], host))
			return true;
	}
	return conf->host.n == 0;
}

static int fetch_file(const struct conf *conf, const char *session, const char *dir,
		      const char *name, struct err *e)
{
	char *path = xasprintf("/api/v1/sessions/%s/files/%s", session, name);
	char *file = xasprintf("%s/%s", dir, name);
	/* The name is the aggregator's word: it must not lead out of the directory. */
	int rc = name_check_file(name, e);

	if (!rc)
		rc = api_download(&conf->api, path, file, e);
	if (!rc && !conf->api.json)
		fprintf(stderr, "%s\n", file);
	free(file);
	free(path);
	return rc;
}

/* Adds the names of the host's files. */
static void list_files(const json_t *host, json_t *files)
{
	json_t *list = json_object_get(host, "files");

	if (list)
		json_array_extend(files, list);
	else if (*get_str(host, "file")) /* of a time when there was one */
		json_array_append_new(files, json_string(get_str(host, "file")));
}

static int fetch_files(const struct conf *conf, const json_t *manifest, const char *dir,
		       json_t *files, struct err *e)
{
	const json_t *host, *file;
	size_t i;

	json_array_foreach(json_object_get(manifest, "hosts"), i, host)
	{
		if (is_wanted(conf, get_str(host, "host")))
			list_files(host, files);
	}
	json_array_foreach(files, i, file)
	{
		const char *name = json_string_value(file);
		int rc = fetch_file(conf, get_str(manifest, "session"), dir, name ? name : "", e);

		if (rc)
			return rc;
	}
	if (!json_array_size(files))
		return err_set(e, ERR_NOT_FOUND, "the session has no file of such a host");
	return 0;
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	json_t *files = json_array();
	json_t *manifest = NULL;
	char *path = NULL;
	char *dir = NULL;
	int rc;

	(void)argc;
	if (strcmp(conf->format, "xspace")) {
		rc = err_set(e, ERR_INVALID, "format '%s': this version exports xspace",
			     conf->format);
		goto out;
	}
	if (!name_is_session(argv[0])) {
		rc = err_set(e, ERR_INVALID, "'%s' is not a session; see tutti sessions", argv[0]);
		goto out;
	}
	path = xasprintf("/api/v1/sessions/%s", argv[0]);
	rc = api_call(&conf->api, "GET", path, NULL, &manifest, e);
	if (rc)
		goto out;
	dir = xasprintf("%s/plugins/profile/%s", conf->output, argv[0]);
	rc = make_directory(dir, e);
	if (!rc)
		rc = fetch_files(conf, manifest, dir, files, e);
	if (rc)
		goto out;
	if (conf->api.json) {
		json_t *doc = json_pack("{s:s, s:s, s:O}", "session", argv[0], "directory", dir,
					"files", files);

		api_print(doc);
		json_decref(doc);
	}
out:
	json_decref(manifest);
	json_decref(files);
	free(dir);
	free(path);
	return rc;
}

const struct cmd cmd_export = {
	.name = "export",
	.args = "SESSION",
	.min_args = 1,
	.max_args = 1,
	.summary = "download a session's files",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
