/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/import_index.h"
#include "cli/import_paths.h"
#include "cli/import_session.h"
#include "cli/import_space.h"
#include "proto/names.h"

/* XProf shows the file as a host of this name. */
#define HOSTNAME "imported-logs"

struct conf {
	struct api_conf api;
	char *run;
	char *logs;
	char *session;
	char *output;
};

static const struct conf_field fields[] = {
	CONF_ONCE(struct conf, run, NULL, "the run that the sessions belong to"),
	CONF_ONCE(struct conf, logs, NULL,
		  "file of exported cloud logs: JSON objects, one a line or in an array"),
	CONF_ONCE(struct conf, session, NULL,
		  "only entries of this session's window, on its clock; the result is written "
		  "beside the session's exported files"),
	CONF(struct conf, output, ".",
	     "of logs: the directory that tutti export wrote to (also -o)"),
	API_FIELDS(struct conf),
	{ 0 }
};

/* A file that has its name only when it is whole. */
struct output {
	char *path, *part;
	int fd;
};

static int output_open(struct output *out, const char *dir, struct err *e)
{
	out->path = xasprintf("%s/" HOSTNAME ".xplane.pb", dir);
	out->part = xasprintf("%s.part", out->path);
	out->fd = open(out->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	return out->fd < 0 ? err_errno(e, "%.200s", out->part) : 0;
}

static int output_write(void *arg, const void *data, size_t len, struct err *e)
{
	const struct output *out = arg;

	return file_write_all(out->fd, data, len, out->part, e);
}

/* Gives the file its name if `rc` is 0, and removes it if not. */
static int output_close(struct output *out, int rc, struct err *e)
{
	if (out->fd >= 0 && close(out->fd) && !rc)
		rc = err_errno(e, "%.200s", out->part);
	if (!rc && rename(out->part, out->path))
		rc = err_errno(e, "%.200s", out->path);
	if (rc && out->fd >= 0)
		unlink(out->part);
	return rc;
}

static void output_release(struct output *out)
{
	free(out->path);
	free(out->part);
}

/* Sets the window: that of the session, or of all entries. */
static int find_window(const struct conf *conf, const struct import_index *index,
		       struct import_space *space, json_t **manifest, struct err *e)
{
	int rc;

	if (!conf->session) {
		space->t0_ns = INT64_MAX;
		for (size_t i = 0; i < index->n; i++) {
			int64_t ns = index->slots[i].unix_ns;

			space->t0_ns = ns < space->t0_ns ? ns : space->t0_ns;
			space->t1_ns = ns + 1 > space->t1_ns ? ns + 1 : space->t1_ns;
		}
		return 0;
	}
	rc = api_call_on(&conf->api, "GET", "sessions", conf->session, "", manifest, e);
	if (rc)
		return rc;
	space->t0_ns = json_get_int(*manifest, "t0_ns");
	space->t1_ns = space->t0_ns + json_get_int(*manifest, "duration_ns");
	space->hosts = json_object_get(*manifest, "hosts");
	return 0;
}

static void print_result(const struct conf *conf, const struct import_index *index,
			 const struct import_space *space, const char *dir, const char *file)
{
	json_t *doc = json_object();

	if (!conf->api.json) {
		fprintf(stderr, "%s\n", file);
		printf("%" PRIu64 " entries of %" PRIu64 " jobs on %" PRIu64 " lines\n",
		       space->entries, space->jobs, space->lines);
		if (space->outside)
			printf("%" PRIu64 " entries outside of the session's window left out\n",
			       space->outside);
		if (index->skipped)
			printf("%" PRIu64 " entries skipped; the first, in line %" PRIu64
			       ", has %s\n",
			       index->skipped, index->skipped_line, index->skipped_why);
		json_decref(doc);
		return;
	}
	json_put_text(doc, "directory", dir);
	json_put_text(doc, "file", file);
	json_put_text(doc, "session", conf->session ? conf->session : "");
	json_put_int(doc, "t0_ns", space->t0_ns);
	json_put_int(doc, "entries", (int64_t)space->entries);
	json_put_int(doc, "jobs", (int64_t)space->jobs);
	json_put_int(doc, "lines", (int64_t)space->lines);
	json_put_int(doc, "moved", (int64_t)space->moved);
	json_put_int(doc, "outside", (int64_t)space->outside);
	json_put_int(doc, "skipped", (int64_t)index->skipped);
	if (index->skipped)
		json_put_int(doc, "skipped_line", (int64_t)index->skipped_line);
	api_print(doc);
	json_decref(doc);
}

static int write_space(const struct conf *conf, struct import_index *index,
		       struct import_space *space, int fd, struct err *e)
{
	struct output out = { .fd = -1 };
	const struct xs_sink sink = { .write = output_write, .arg = &out };
	char run[32], *dir;
	int rc;

	time_session_name(space->t0_ns, run);
	dir = conf->session ? xasprintf("%s/plugins/profile/%s", conf->output, conf->session)
			    : xasprintf("%s/plugins/profile/%s_logs", conf->output, run);
	rc = file_make_folders(dir, 0777, 0777, e);
	if (!rc) {
		rc = output_open(&out, dir, e);
		if (!rc)
			rc = import_space_write(space, index, fd, &sink, e);
		rc = output_close(&out, rc, e);
	}
	if (!rc)
		print_result(conf, index, space, dir, out.path);
	output_release(&out);
	free(dir);
	return rc;
}

static int open_input(const char *path, int *fd, struct err *e)
{
	struct stat st;

	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (*fd < 0 || fstat(*fd, &st))
		return err_errno(e, "%.200s", path);
	return S_ISREG(st.st_mode)
		       ? 0
		       : err_set(e, ERR_INVALID, "%.200s: not a regular file, but it is read twice",
				 path);
}

static int import_logs(const struct conf *conf, struct err *e)
{
	struct import_space space = { .name = conf->logs, .hostname = HOSTNAME };
	struct import_index index = { 0 };
	json_t *manifest = NULL;
	int fd, rc;

	if (conf->session && !name_is_session(conf->session))
		return err_set(e, ERR_INVALID, "'%s' is not a session; see tutti sessions",
			       conf->session);
	rc = open_input(conf->logs, &fd, e);
	if (!rc)
		rc = import_index_read(&index, fd, conf->logs, e);
	if (!rc && !index.n)
		rc = err_set(e, ERR_INVALID,
			     "%.100s: no log entry; %" PRIu64 " objects skipped%s%s", conf->logs,
			     index.skipped, index.skipped ? ", the first has " : "",
			     index.skipped ? index.skipped_why : "");
	if (!rc)
		rc = find_window(conf, &index, &space, &manifest, e);
	if (!rc) {
		import_index_sort(&index);
		rc = write_space(conf, &index, &space, fd, e);
	}
	json_decref(manifest);
	import_index_release(&index);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* ---- profiles ---- */

static void print_session(const json_t *manifest, const struct import_group *group)
{
	int64_t events = 0;
	const json_t *host;
	char size[16];
	size_t i;

	json_array_foreach(json_object_get(manifest, "hosts"), i, host)
		events += json_get_int(host, "events");
	human_bytes(json_get_int(manifest, "bytes"), size);
	printf("%s  %" PRId64 " hosts, %" PRId64 " events, %s%s%s\n",
	       json_get_text(manifest, "session"), json_get_int(manifest, "complete"), events, size,
	       *group->name ? ", from " : "", group->name);
	json_array_foreach(json_object_get(manifest, "warnings"), i, host)
		fprintf(stderr, "%s\n", json_string_value(host));
}

/* The sessions before one that fails stay. */
static int import_profiles(const struct conf *conf, int n, char **paths, struct err *e)
{
	struct import_groups groups = { 0 };
	json_t *doc = json_object(), *sessions = json_array();
	int rc = import_find(&groups, n, paths, e);

	for (size_t i = 0; i < groups.n && !rc; i++) {
		json_t *manifest = NULL;

		rc = import_session(&conf->api, conf->run, &groups.items[i], &manifest, e);
		if (!rc && !conf->api.json)
			print_session(manifest, &groups.items[i]);
		if (!rc)
			json_array_append_new(sessions, manifest);
	}
	json_put(doc, "sessions", sessions);
	if (!rc && conf->api.json)
		api_print(doc);
	json_decref(doc);
	import_groups_release(&groups);
	return rc;
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	bool has_logs = conf->logs && *conf->logs;

	if (has_logs == (argc > 0))
		return err_set(e, ERR_INVALID,
			       "%s to import: give files or folders of profiles, or --logs FILE",
			       has_logs ? "too much" : "nothing");
	if (argc > 0 && conf->session)
		return err_set(e, ERR_INVALID,
			       "--session is for --logs: profiles become a session of their own");
	return has_logs ? import_logs(conf, e) : import_profiles(conf, argc, argv, e);
}

const struct cmd cmd_import = {
	.name = "import",
	.args = "[DIR|FILE...]",
	.max_args = 4096,
	.summary = "store existing profiles as sessions, or turn exported cloud logs into one",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
