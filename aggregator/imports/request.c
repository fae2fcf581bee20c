/* SPDX-License-Identifier: Apache-2.0 */
/* What a client says that it will send. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aggregator/imports/import_impl.h"
#include "aggregator/sessions/sessions.h"
#include "base/clean_text.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "proto/names.h"

#define FILE_BYTES_MAX ((uint64_t)2000000000) /* readers refuse larger ones */
#define WARNINGS_MAX   100
#define TEXT_MAX       1000

/* "host~2.xplane.pb" -> "host"; NULL if it is no name of a host's file. */
static char *host_of(const char *name)
{
	size_t len = strlen(name), suffix = strlen(SESSION_FILE_SUFFIX);
	char made[NAME_FILE_BYTES];
	unsigned long n = 1;
	struct err e;
	char *host, *tilde;

	if (len <= suffix || len >= NAME_FILE_BYTES ||
	    strcmp(name + len - suffix, SESSION_FILE_SUFFIX))
		return NULL;
	host = xstrndup(name, len - suffix);
	tilde = strchr(host, '~');
	if (tilde) {
		n = strtoul(tilde + 1, NULL, 10);
		*tilde = '\0';
	}
	if (name_check_host(host, &e) || n < 1 || n > LIMIT_HOST_FILES)
		goto no;
	name_of_file(host, (unsigned int)n, made);
	if (strlen(made) == len - suffix && !strncmp(made, name, len - suffix))
		return host;
no:
	free(host);
	return NULL;
}

static char *clean_copy(const char *text)
{
	char clean[TEXT_MAX];

	clean_sentence(clean, sizeof(clean), text, strlen(text));
	return xstrdup(clean);
}

static int read_file(const json_t *o, size_t i, struct import_file *f, struct err *e)
{
	const char *name = json_get_text(o, "file"), *crc = json_get_text(o, "crc32c");
	int64_t bytes = json_get_int(o, "bytes");
	char *end;

	f->host = host_of(name);
	if (!f->host)
		return err_set(e, ERR_INVALID,
			       "files[%zu]: '%.160s' is no HOST" SESSION_FILE_SUFFIX, i, name);
	if (bytes <= 0 || (uint64_t)bytes > FILE_BYTES_MAX)
		return err_set(e, ERR_INVALID,
			       "files[%zu]: %" PRId64 " bytes: use 1 to %" PRIu64
			       ", readers refuse larger files",
			       i, bytes, FILE_BYTES_MAX);
	f->crc32c = (uint32_t)strtoul(crc, &end, 16);
	if (strspn(crc, "0123456789abcdef") != 8 || *end)
		return err_set(e, ERR_INVALID, "files[%zu]: crc32c '%.20s': use eight hex digits",
			       i, crc);
	f->name = xstrdup(name);
	f->bytes = (uint64_t)bytes;
	f->source = clean_copy(json_get_text(o, "source"));
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct import_file *x = a, *y = b;
	int hosts = strcmp(x->host, y->host);

	/* of one host: by length, then by name, which is the order of the numbers */
	if (hosts)
		return hosts;
	if (strlen(x->name) != strlen(y->name))
		return strlen(x->name) < strlen(y->name) ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* A host's files are numbered from 1 on, and the manifest lists hosts by name. */
static int check_order(struct import *im, struct err *e)
{
	unsigned int n = 0;

	qsort(im->files, im->n_files, sizeof(*im->files), by_name);
	for (size_t i = 0; i < im->n_files; i++) {
		struct import_file *f = &im->files[i];
		char want[NAME_FILE_BYTES];

		n = i && !strcmp(f->host, f[-1].host) ? n + 1 : 1;
		name_of_file(f->host, n, want);
		if (strlen(want) + strlen(SESSION_FILE_SUFFIX) != strlen(f->name) ||
		    strncmp(want, f->name, strlen(want)) != 0)
			return err_set(e, ERR_INVALID,
				       "%.160s is there, %.160s" SESSION_FILE_SUFFIX " is not",
				       f->name, want);
		f->offset = im->bytes;
		im->bytes += f->bytes;
	}
	return 0;
}

static int read_files(struct import *im, const json_t *list, struct err *e)
{
	size_t n = json_array_size(list);
	int rc = 0;

	if (!n || n > IMPORT_FILES_MAX)
		return err_set(e, ERR_INVALID, "there are %zu files: 1 to %d are possible", n,
			       IMPORT_FILES_MAX);
	im->files = xcalloc(n, sizeof(*im->files));
	for (; im->n_files < n && !rc; im->n_files++)
		rc = read_file(json_array_get(list, im->n_files), im->n_files,
			       &im->files[im->n_files], e);
	return rc ? rc : check_order(im, e);
}

static int read_window(struct import *im, const json_t *request, struct err *e)
{
	im->t0_ns = json_get_int(request, "t0_ns");
	im->duration_ns = json_get_int(request, "duration_ns");
	if (im->t0_ns < 0 || im->t0_ns > LIMIT_TIME_NS)
		return err_set(e, ERR_INVALID, "t0_ns is no integer from 0 to %lld", LIMIT_TIME_NS);
	if (im->duration_ns <= 0 || im->duration_ns > LIMIT_DURATION_NS)
		return err_set(e, ERR_INVALID,
			       "a session has %lld s at most, and these files span %" PRId64
			       " s: import those together that were recorded together",
			       LIMIT_DURATION_NS / 1000000000, im->duration_ns / 1000000000);
	return 0;
}

static json_t *read_warnings(const json_t *list)
{
	json_t *out = json_array();

	for (size_t i = 0; i < json_array_size(list) && i < WARNINGS_MAX; i++) {
		const char *text = json_string_value(json_array_get(list, i));
		char *clean = clean_copy(text ? text : "");

		json_array_append_new(out, json_text(clean));
		free(clean);
	}
	return out;
}

int import_read(struct import **out, const json_t *request, struct err *e)
{
	struct import *im = xcalloc(1, sizeof(*im));
	const char *run = json_get_text(request, "run");
	int rc;

	*out = im;
	im->fd = -1;
	im->run = xstrdup(run);
	im->warnings = read_warnings(json_object_get(request, "warnings"));
	rc = *run ? name_check_run(run, e) : 0;
	if (!rc)
		rc = read_window(im, request, e);
	return rc ? rc : read_files(im, json_object_get(request, "files"), e);
}

void import_free(struct import *im)
{
	if (!im)
		return;
	for (size_t i = 0; i < im->n_files; i++) {
		free(im->files[i].host);
		free(im->files[i].name);
		free(im->files[i].source);
	}
	free(im->files);
	json_decref(im->warnings);
	if (im->fd >= 0)
		close(im->fd);
	free(im->run);
	free(im->peer);
	free(im);
}
