/* SPDX-License-Identifier: Apache-2.0 */
/* All files of a session into a folder that stock viewers open: several at a time, continued where an earlier
 * fetch broke off, checked. They come from the store itself where the aggregator gives links to it (download.h). */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/jobs.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/download.h"
#include "proto/names.h"

#define TRIES	 6
#define PAUSE_NS (NS_PER_S / 2) /* before the second; twice that before the next, and so on */

struct conf {
	struct api_conf api;
	int parallel;
	bool via_aggregator;
	char *store_ca;
};

static const struct conf_field fields[] = {
	CONF_RANGE(struct conf, parallel, "4", 1, 64, "files at a time"),
	CONF(struct conf, via_aggregator, NULL,
	     "read all files through the aggregator, also where "
	     "the store gives links to them"),
	CONF(struct conf, store_ca, NULL,
	     "PEM file of the authority to accept for the store's "
	     "https"),
	API_FIELDS(struct conf),
	{ 0 }
};

/* One file; a worker uses nothing else. */
struct fetch {
	const struct conf *conf;
	struct downloads *downloads;
	const char *session; /* borrowed */
	char *name, *file, *part;
	bool has_crc;
	uint32_t crc; /* of the whole file, as the manifest has it */
	uint64_t bytes; /* of the file that is there */
	bool was_there;
	int rc;
	struct err e;
};

/* ---- one file ---- */

static int check_crc(const struct fetch *f, const char *path, uint64_t *bytes, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t *piece = xmalloc(1 << 20);
	uint32_t crc = 0;
	ssize_t n = 0;
	int rc = fd < 0 ? err_errno(e, "%.200s", path) : 0;

	*bytes = 0;
	while (!rc && (n = file_read_up_to(fd, *bytes, piece, 1 << 20)) > 0) {
		crc = crc32c(crc, piece, (size_t)n);
		*bytes += (uint64_t)n;
	}
	if (!rc && n < 0)
		rc = err_errno(e, "%.200s", path);
	if (!rc && f->has_crc && crc != f->crc)
		rc = err_set(e, ERR_INVALID,
			     "%.120s: its checksum is %08" PRIx32 ", the session has %08" PRIx32,
			     path, crc, f->crc);
	if (fd >= 0)
		close(fd);
	free(piece);
	return rc;
}

static int download(const struct fetch *f, struct err *e)
{
	char *path = xasprintf("/api/v1/sessions/%s/files/%s", f->session, f->name);
	int64_t pause_ns = PAUSE_NS;
	int rc = 0;

	for (int i = 0; i < TRIES; i++, pause_ns *= 2) {
		if (i)
			now_sleep_until_mono(now_mono_ns() + random_pause_ns(pause_ns));
		rc = download_rest(f->downloads, path, f->part, e);
		if (rc != ERR_CLOSED && rc != ERR_TIMEOUT)
			break;
	}
	free(path);
	return rc;
}

/* A file that is there and right is not fetched again. A part that turns out wrong is fetched anew, once. */
static void run_fetch(void *arg)
{
	struct fetch *f = arg;
	struct err why;

	f->was_there = !access(f->file, F_OK) && f->has_crc &&
		       !check_crc(f, f->file, &f->bytes, &why);
	if (f->was_there)
		return;
	f->rc = download(f, &f->e);
	if (!f->rc)
		f->rc = check_crc(f, f->part, &f->bytes, &f->e);
	if (f->rc == ERR_INVALID && !unlink(f->part)) {
		f->rc = download(f, &f->e);
		if (!f->rc)
			f->rc = check_crc(f, f->part, &f->bytes, &f->e);
	}
	if (!f->rc && rename(f->part, f->file))
		f->rc = err_errno(&f->e, "%.200s", f->file);
}

static void done_fetch(void *arg)
{
	const struct fetch *f = arg;
	char size[16];

	human_bytes((int64_t)f->bytes, size);
	if (f->rc)
		fprintf(stderr, "%s: %s\n", f->name, f->e.msg);
	else if (!f->conf->api.json)
		fprintf(stderr, "%s  %s%s\n", f->file, size, f->was_there ? ", was there" : "");
}

/* ---- all ---- */

struct fetches {
	struct fetch *items;
	size_t n;
	struct downloads *downloads;
};

static int add_file(struct fetches *all, const struct conf *conf, const json_t *manifest,
		    const char *dir, const char *name, const char *crc, struct err *e)
{
	struct fetch f = { .conf = conf,
			   .downloads = all->downloads,
			   .session = json_get_text(manifest, "session") };
	/* The name is from the aggregator: refuses one that leads out of the directory. */
	int rc = name_check_file(name, e);

	if (rc)
		return rc;
	f.has_crc = crc && sscanf(crc, "%8" SCNx32, &f.crc) == 1;
	f.name = xstrdup(name);
	f.file = xasprintf("%s/%s", dir, name);
	f.part = xasprintf("%s.part", f.file);
	all->items = xrealloc(all->items, (all->n + 1) * sizeof(f));
	all->items[all->n++] = f;
	return 0;
}

static int add_host(struct fetches *all, const struct conf *conf, const json_t *manifest,
		    const json_t *host, const char *dir, struct err *e)
{
	const json_t *files = json_object_get(host, "files");
	const json_t *crcs = json_object_get(host, "crc32c");
	int rc = 0;

	for (size_t i = 0; i < json_array_size(files) && !rc; i++) {
		const char *name = json_string_value(json_array_get(files, i));
		const char *crc = json_string_value(json_array_get(crcs, i));

		rc = add_file(all, conf, manifest, dir, name ? name : "", crc, e);
	}
	return rc;
}

static int fetch_all(struct fetches *all, const struct conf *conf, struct err *e)
{
	struct jobs jobs = { 0 };
	size_t failed = 0;
	int rc = loop_new(&jobs.loop, conf->parallel, e);

	if (rc)
		return rc;
	for (size_t i = 0; i < all->n; i++)
		jobs_work(&jobs, run_fetch, done_fetch, &all->items[i]);
	jobs_drain(&jobs);
	loop_free(jobs.loop);
	for (size_t i = 0; i < all->n; i++)
		failed += all->items[i].rc != 0;
	return failed ? err_set(e, ERR_PEER,
				"%zu of %zu files are missing; the same command goes on where this "
				"one stopped",
				failed, all->n)
		      : 0;
}

static void print_all(const struct conf *conf, const struct fetches *all, const char *session,
		      const char *dir)
{
	json_t *doc = json_object(), *files = json_array();
	char size[16];
	int64_t bytes = 0;

	for (size_t i = 0; i < all->n; i++) {
		json_array_append_new(files, json_string(all->items[i].name));
		bytes += (int64_t)all->items[i].bytes;
	}
	human_bytes(bytes, size);
	json_put_text(doc, "session", session);
	json_put_text(doc, "directory", dir);
	json_put(doc, "files", files);
	json_put_int(doc, "bytes", bytes);
	if (conf->api.json)
		api_print(doc);
	else
		printf("%zu files, %s, in %s\n", all->n, size, dir);
	json_decref(doc);
}

static void release(struct fetches *all)
{
	for (size_t i = 0; i < all->n; i++) {
		free(all->items[i].name);
		free(all->items[i].file);
		free(all->items[i].part);
	}
	free(all->items);
	downloads_free(all->downloads);
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	struct fetches all = { 0 };
	json_t *manifest = NULL;
	const json_t *host;
	char *dir = NULL;
	size_t i;
	int rc;

	(void)argc;
	if (!name_is_session(argv[0]))
		return err_set(e, ERR_INVALID, "'%s' is not a session; see tutti sessions",
			       argv[0]);
	rc = api_call_on(&conf->api, "GET", "sessions", argv[0], "", &manifest, e);
	if (rc)
		return rc;
	all.downloads = downloads_new(&conf->api, conf->store_ca, !conf->via_aggregator);
	dir = xasprintf("%s/plugins/profile/%s", argv[1], argv[0]);
	rc = file_make_folders(dir, 0777, 0777, e);
	json_array_foreach(json_object_get(manifest, "hosts"), i, host)
	{
		if (!rc)
			rc = add_host(&all, conf, manifest, host, dir, e);
	}
	if (!rc)
		rc = fetch_all(&all, conf, e);
	if (!rc)
		print_all(conf, &all, argv[0], dir);
	release(&all);
	json_decref(manifest);
	free(dir);
	return rc;
}

const struct cmd cmd_fetch = {
	.name = "fetch",
	.args = "SESSION DIR",
	.min_args = 2,
	.max_args = 2,
	.summary = "copy a session's files, several at a time; goes on after a break",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
