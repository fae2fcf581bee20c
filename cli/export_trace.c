/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/export_trace.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/result.h"
#include "json/json_text.h"
#include "proto/names.h"
#include "xspace/exits/exits.h"

#define PAGE_MAX ((size_t)256 << 20)

bool export_is_trace(const char *format)
{
	return exit_format_find(format);
}

bool export_wants_host(const struct conf_list *hosts, const char *host)
{
	for (size_t i = 0; i < hosts->n; i++) {
		if (!strcmp(hosts->items[i], host))
			return true;
	}
	return hosts->n == 0;
}

/* ---- settings ---- */

static const struct {
	const char *name, *other; /* other: as Neuron's profiler calls it */
	unsigned int bit;
} groups[] = {
	{ "host", "instance_id", EXIT_BY_HOST }, { "process", "process_id", EXIT_BY_PROCESS },
	{ "device", "lnc_idx", EXIT_BY_DEVICE }, { "plane", "plane", EXIT_BY_PLANE },
	{ "line", "thread_id", EXIT_BY_LINE },
};

static unsigned int find_group(const char *word, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		if ((strlen(groups[i].name) == len && !strncmp(groups[i].name, word, len)) ||
		    (strlen(groups[i].other) == len && !strncmp(groups[i].other, word, len)))
			return groups[i].bit;
	}
	return 0;
}

static int read_groups(const char *name, const char *text, unsigned int *out, struct err *e)
{
	*out = 0;
	while (text && *text) {
		size_t len = strcspn(text, ",");
		unsigned int bit = find_group(text, len);

		if (!bit)
			return err_set(
				e, ERR_INVALID,
				"%s '%.*s': use host, process, device, plane, line, with commas",
				name, (int)(len < 40 ? len : 40), text);
		*out |= bit;
		text += len + (text[len] == ',');
	}
	return 0;
}

int export_check(const struct export_conf *conf, const char *format, struct err *e)
{
	bool has_groups = conf->primary_group || conf->secondary_group;
	bool has_filter = conf->from_ns || conf->to_ns || conf->min_duration_ns || conf->track.n ||
			  conf->ignore_device || conf->ignore_system;
	unsigned int ignored;
	int rc;

	if (conf->merge && strcmp(format, "xspace"))
		return err_set(e, ERR_INVALID, "--merge goes with --format xspace");
	if (strcmp(format, "xspace") &&
	    (!exit_format_find(format) || !strcmp(format, EXPORT_MERGED)))
		return err_set(e, ERR_INVALID,
			       "format '%.40s': use xspace, pftrace, json, system-profile, pprof "
			       "or summary",
			       format);
	if (has_groups && strcmp(format, "pftrace"))
		return err_set(e, ERR_INVALID,
			       "--primary-group and --secondary-group go with --format pftrace");
	if (has_filter && !exit_format_find(format))
		return err_set(e, ERR_INVALID,
			       "--from, --to, --min-duration, --track, --ignore-device and "
			       "--ignore-system do not go with --format xspace");
	if (conf->from_ns < 0 || conf->to_ns < 0 || conf->min_duration_ns < 0 ||
	    (conf->to_ns && conf->to_ns <= conf->from_ns))
		return err_set(e, ERR_INVALID,
			       "--from, --to: use 0 or more, the end after the begin");
	rc = read_groups("primary-group", conf->primary_group, &ignored, e);
	return rc ? rc : read_groups("secondary-group", conf->secondary_group, &ignored, e);
}

static bool wants_track(void *arg, const char *plane, const char *line)
{
	const struct conf_list *patterns = arg;
	char *track = xasprintf("%s/%s", plane, line);
	bool found = false;

	for (size_t i = 0; i < patterns->n && !found; i++)
		found = !fnmatch(patterns->items[i], track, 0);
	free(track);
	return found;
}

static int read_conf(const struct export_job *job, struct exit_conf *out, struct err *e)
{
	const struct export_conf *conf = job->conf;
	int rc = read_groups("primary-group", conf->primary_group, &out->primary, e);

	if (!rc)
		rc = read_groups("secondary-group", conf->secondary_group, &out->secondary, e);
	if (out->secondary && !out->primary)
		out->primary = EXIT_BY_HOST | EXIT_BY_PROCESS;
	out->t0_unix_ns = json_get_int(job->manifest, "t0_ns");
	out->duration_ns = json_get_int(job->manifest, "duration_ns");
	out->filter = (struct exit_filter){ .from_ns = conf->from_ns,
					    .to_ns = conf->to_ns ? conf->to_ns : INT64_MAX / 1000,
					    .min_ns = conf->min_duration_ns,
					    .no_devices = conf->ignore_device,
					    .no_hosts = conf->ignore_system };
	if (conf->track.n) {
		out->filter.wants = wants_track;
		out->filter.arg = (void *)(uintptr_t)&conf->track;
	}
	return rc;
}

/* ---- files ---- */

/* The export in progress. */
struct export
{
	const struct export_job *job;
	const struct exit_format *format;
	void *trace;
	char *folder; /* for files of the session, one at a time */
	char *path, *part;
	int fd;
	gzFile gz; /* writes to a copy of `fd`; NULL = the format is not compressed */
	size_t n_files;
	struct exit_counts counts;
};

static int write_gzip(const struct export *x, const void *data, size_t len, struct err *e)
{
	const char *at = data;

	while (len) {
		unsigned int piece = len < 1 << 20 ? (unsigned int)len : 1 << 20;

		if (gzwrite(x->gz, at, piece) != (int)piece)
			return err_errno(e, "%.200s", x->part);
		at += piece;
		len -= piece;
	}
	return 0;
}

static int write_part(void *arg, const void *data, size_t len, struct err *e)
{
	const struct export *x = arg;

	return x->gz ? write_gzip(x, data, len, e) : file_write_all(x->fd, data, len, x->part, e);
}

/* The session host by host, as `tutti show` prints it. */
static int write_head(const struct export *x, struct err *e)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	int rc = 0;

	if (!out)
		return err_errno(e, "a summary");
	result_print(x->job->manifest, out);
	if (fclose(out))
		rc = err_errno(e, "a summary");
	if (!rc)
		rc = file_write_all(x->fd, text, len, x->part, e);
	free(text);
	return rc;
}

struct input {
	int fd;
	const char *name;
};

static int read_input(void *arg, uint64_t offset, void *buf, size_t len, struct err *e)
{
	const struct input *in = arg;

	return file_read_exact(in->fd, offset, buf, len, in->name, e);
}

/* A host that a retry recorded in another window has times of its own: they count from its own t0. */
static int add_file(struct export *x, const json_t *host, const char *path, const char *name,
		    struct err *e)
{
	const json_t *bound = json_object_get(host, "clock_bound_ns");
	const struct exit_host who = { .name = json_get_text(host, "host"),
				       .clock_bound_ns = json_is_integer(bound)
								 ? json_integer_value(bound)
								 : -1 };
	struct input in = { .fd = open(path, O_RDONLY | O_CLOEXEC), .name = name };
	struct xs_source source = { .read = read_input, .arg = &in };
	off_t size = in.fd < 0 ? -1 : lseek(in.fd, 0, SEEK_END);
	int rc = size < 0 ? err_errno(e, "%.200s", path) : 0;

	unlink(path);
	if (!rc) {
		source.size = (uint64_t)size;
		rc = x->format->add(x->trace, &who, &source, e);
		if (rc)
			err_prefix(e, "%.160s", name);
	}
	if (in.fd >= 0)
		close(in.fd);
	x->n_files++;
	return rc;
}

static int fetch_file(struct export *x, const json_t *host, const char *name, struct err *e)
{
	char *from = xasprintf("/api/v1/sessions/%s/files/%s",
			       json_get_text(x->job->manifest, "session"), name);
	char *to = xasprintf("%s/file", x->folder);
	/* The file name is from the aggregator. */
	int rc = name_check_file(name, e);

	if (!rc)
		rc = api_download(x->job->api, from, to, e);
	if (!rc)
		rc = add_file(x, host, to, name, e);
	free(to);
	free(from);
	return rc;
}

static int add_hosts(struct export *x, struct err *e)
{
	const json_t *host, *file;
	size_t i, k;
	int rc = 0;

	json_array_foreach(json_object_get(x->job->manifest, "hosts"), i, host)
	{
		if (!export_wants_host(x->job->hosts, json_get_text(host, "host")))
			continue;
		if (json_object_get(host, "t0_ns"))
			fprintf(stderr,
				"%s: recorded in a window of its own by a retry; its times are not "
				"those of the others\n",
				json_get_text(host, "host"));
		json_array_foreach(json_object_get(host, "files"), k, file)
		{
			const char *name = json_string_value(file);

			rc = rc ? rc : fetch_file(x, host, name ? name : "", e);
		}
	}
	if (!rc && !x->n_files)
		rc = err_set(e, ERR_NOT_FOUND,
			     "the session has no file of the hosts given with --host");
	return rc;
}

static int open_output(struct export *x, struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	int rc = file_make_folders(x->job->output, 0777, 0777, e);

	x->path = xasprintf("%s/%s.%s", x->job->output, json_get_text(x->job->manifest, "session"),
			    x->format->suffix);
	x->part = xasprintf("%s.part", x->path);
	x->folder = xasprintf("%s/tutti-export-XXXXXX", tmp && *tmp ? tmp : "/var/tmp");
	if (rc)
		return rc;
	if (!mkdtemp(x->folder)) {
		rc = err_errno(e, "%.200s (TMPDIR names another folder)", x->folder);
		*x->folder = '\0';
		return rc;
	}
	x->fd = open(x->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (x->fd >= 0 && x->format->is_gzip) {
		int copy = fcntl(x->fd, F_DUPFD_CLOEXEC, 0);

		x->gz = copy < 0 ? NULL : gzdopen(copy, "wb");
		if (!x->gz && copy >= 0)
			close(copy);
	}
	if (x->fd < 0 || (x->format->is_gzip && !x->gz))
		return err_errno(e, "%.200s", x->part);
	return x->format->is_page ? write_head(x, e) : 0;
}

static int close_output(struct export *x, int rc, struct err *e)
{
	if (x->gz && gzclose(x->gz) != Z_OK && !rc)
		rc = err_errno(e, "%.200s", x->part);
	x->counts.bytes = rc ? 0 : (uint64_t)lseek(x->fd, 0, SEEK_END);
	if (x->fd >= 0 && close(x->fd) && !rc)
		rc = err_errno(e, "%.200s", x->part);
	if (!rc && rename(x->part, x->path))
		rc = err_errno(e, "%.200s", x->path);
	if (rc && x->fd >= 0)
		unlink(x->part);
	if (*x->folder)
		rmdir(x->folder);
	return rc;
}

/* The page, on stdout. */
static int print_page(const struct export *x, struct err *e)
{
	struct buf text = BUF_INIT;
	int rc = file_load(x->path, PAGE_MAX, &text, e);

	if (!rc)
		fputs(buf_str(&text), stdout);
	buf_release(&text);
	return rc;
}

static void print_export(const struct export *x)
{
	const struct exit_counts *c = &x->counts;
	const struct {
		const char *name;
		uint64_t n;
	} numbers[] = { { "slices", c->slices },       { "samples", c->samples },
			{ "flow_ends", c->flow_ends }, { "tracks", c->tracks },
			{ "filtered", c->filtered },   { "untimed", c->untimed },
			{ "left_out", c->left_out },   { "bytes", c->bytes } };
	json_t *doc = json_object();
	char size[16];

	human_bytes((int64_t)c->bytes, size);
	json_put_text(doc, "session", json_get_text(x->job->manifest, "session"));
	json_put_text(doc, "format", x->format->name);
	json_put_text(doc, "file", x->path);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		json_put_int(doc, numbers[i].name, (int64_t)numbers[i].n);
	if (x->job->api->json)
		api_print(doc);
	else if (x->format->is_page)
		fprintf(stderr, "%s\n", x->path);
	else if (!strcmp(x->format->name, EXPORT_MERGED))
		printf("%s  %s, %" PRIu64 " lines\n", x->path, size, c->tracks);
	else
		printf("%s  %s, %" PRIu64 " events and %" PRIu64 " samples%s on %" PRIu64
		       " tracks\n",
		       x->path, size, c->slices, c->samples,
		       x->format->is_gzip ? "" : " of counters", c->tracks);
	if (!x->job->api->json && c->untimed + c->left_out)
		fprintf(stderr,
			"left out: %" PRIu64 " aggregates without a time, %" PRIu64
			" other events\n",
			c->untimed, c->left_out);
	json_decref(doc);
}

int export_trace(const struct export_job *job, struct err *e)
{
	struct export x = { .job = job, .format = exit_format_find(job->format), .fd = -1 };
	const struct xs_sink out = { .write = write_part, .arg = &x };
	struct exit_conf conf = { 0 };
	int rc = read_conf(job, &conf, e);

	if (rc)
		return rc;
	rc = open_output(&x, e);
	x.trace = x.format->begin(&conf, &out);
	if (!rc)
		rc = add_hosts(&x, e);
	if (!rc)
		rc = x.format->end(x.trace, &x.counts, e);
	rc = close_output(&x, rc, e);
	if (!rc && x.format->is_page && !job->api->json)
		rc = print_page(&x, e);
	if (!rc)
		print_export(&x);
	x.format->release(x.trace);
	free(x.folder);
	free(x.part);
	free(x.path);
	return rc;
}
