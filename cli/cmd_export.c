/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/export_trace.h"
#include "cli/refined.h"
#include "proto/names.h"

struct conf {
	struct api_conf api;
	char *format;
	char *output;
	struct conf_list host;
	bool refined;
	struct export_conf trace;
};

static const struct conf_field fields[] = {
	CONF(struct conf, format, "xspace",
	     "xspace: <host>.xplane.pb files in a directory XProf opens; pftrace: one file for "
	     "Perfetto; json: one of Chrome's trace events; system-profile: one as AWS's Neuron "
	     "Profiler writes it; pprof: CPU samples for go tool "
	     "pprof; summary: hosts, steps, names by time, as text, also on stdout"),
	CONF(struct conf, output, ".", "the directory (also -o)"),
	CONF_ONCE(struct conf, host, NULL, "this host only"),
	CONF_ONCE(struct conf, refined, NULL, "move hosts' times as computed by capture --refine"),
	EXPORT_FIELDS(struct conf, trace),
	API_FIELDS(struct conf),
	{ 0 }
};

struct job {
	const struct conf *conf;
	const json_t *manifest;
	const char *dir;
	json_t *files; /* names of the fetched files */
};

static int fetch_file(const struct job *job, const json_t *host, const char *name, struct err *e)
{
	char *path = xasprintf("/api/v1/sessions/%s/files/%s",
			       json_get_text(job->manifest, "session"), name);
	char *file = xasprintf("%s/%s", job->dir, name);
	/* The file name is from the aggregator: refuses one that leads out of the directory. */
	int rc = name_check_file(name, e);

	if (!rc)
		rc = api_download(&job->conf->api, path, file, e);
	if (!rc && job->conf->refined)
		rc = refined_move(file, job->manifest, host, e);
	if (!rc)
		json_array_append_new(job->files, json_string(name));
	if (!rc && !job->conf->api.json)
		fprintf(stderr, "%s\n", file);
	free(file);
	free(path);
	return rc;
}

static int fetch_host(const struct job *job, const json_t *host, struct err *e)
{
	const json_t *list = json_object_get(host, "files"), *file;
	int rc = 0;
	size_t i;

	json_array_foreach(list, i, file)
	{
		const char *name = json_string_value(file);

		rc = fetch_file(job, host, name ? name : "", e);
		if (rc)
			break;
	}
	return rc;
}

static int fetch_files(const struct job *job, struct err *e)
{
	const json_t *host;
	size_t i;

	json_array_foreach(json_object_get(job->manifest, "hosts"), i, host)
	{
		int rc = export_wants_host(&job->conf->host, json_get_text(host, "host"))
				 ? fetch_host(job, host, e)
				 : 0;

		if (rc)
			return rc;
	}
	if (!json_array_size(job->files))
		return err_set(e, ERR_NOT_FOUND,
			       "the session has no file of the hosts given with --host");
	return 0;
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	struct job job = { .conf = conf, .files = json_array() };
	json_t *manifest = NULL;
	char *path = NULL;
	char *dir = NULL;
	const char *format = conf->trace.merge ? EXPORT_MERGED : conf->format;
	int rc = export_check(&conf->trace, conf->format, e);

	(void)argc;
	if (!rc && conf->refined && export_is_trace(format))
		rc = err_set(e, ERR_INVALID,
			     "--refined goes with --format xspace, without --merge");
	if (rc)
		goto out;
	if (!name_is_session(argv[0])) {
		rc = err_set(e, ERR_INVALID, "'%s' is not a session; see tutti sessions", argv[0]);
		goto out;
	}
	path = xasprintf("/api/v1/sessions/%s", argv[0]);
	rc = api_call(&conf->api, "GET", path, NULL, &manifest, e);
	if (!rc && conf->refined)
		rc = refined_check(manifest, e);
	if (!rc && export_is_trace(format)) {
		const struct export_job trace = { .api = &conf->api,
						  .conf = &conf->trace,
						  .format = format,
						  .manifest = manifest,
						  .hosts = &conf->host,
						  .output = conf->output };

		rc = export_trace(&trace, e);
		goto out;
	}
	if (rc)
		goto out;
	dir = xasprintf("%s/plugins/profile/%s", conf->output, argv[0]);
	rc = file_make_folders(dir, 0777, 0777, e);
	job.manifest = manifest;
	job.dir = dir;
	if (!rc)
		rc = fetch_files(&job, e);
	if (rc)
		goto out;
	if (conf->api.json) {
		json_t *doc = json_object();

		json_put_text(doc, "session", argv[0]);
		json_put_text(doc, "directory", dir);
		json_put(doc, "files", json_incref(job.files));
		api_print(doc);
		json_decref(doc);
	}
out:
	json_decref(manifest);
	json_decref(job.files);
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
