/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/import_session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"
#include "cli/import_file.h"
#include "proto/limits.h"
#include "proto/names.h"

#define PIECE	  ((size_t)LIMIT_HTTP_BODY_BYTES)
#define PIECE_NS  (60 * NS_PER_S)
#define COMMIT_NS (1800 * NS_PER_S) /* the aggregator checks and stores all files meanwhile */
#define BACK_NS	  (60 * NS_PER_S) /* for which an aggregator that is away is waited for */
#define PAUSE_NS  NS_PER_S
#define SUFFIX	  ".xplane.pb"

struct session {
	const struct api_conf *api;
	struct import_file *files;
	size_t n;
	int64_t t0_ns, end_ns;
	json_t *warnings;
	char *id; /* once it is begun */
	json_t *begun; /* what the aggregator said then: the bytes that it has */
	int64_t progress_ns; /* CLOCK_MONOTONIC: it was there then */
};

/* ---- reading ---- */

static int open_files(struct session *s, const struct import_group *group, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; i < group->n && !rc; i++) {
		size_t n_hosts = 1;

		for (size_t nth = 0; nth < n_hosts && !rc; nth++) {
			s->files = xrealloc(s->files, (s->n + 1) * sizeof(*s->files));
			rc = import_file_open(&s->files[s->n++], group->paths[i], nth, &n_hosts, e);
		}
	}
	return rc;
}

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Names of files may be any bytes. */
static void warn(struct session *s, const char *path, const char *what)
{
	char *text = xasprintf("%s: %s", name_of(path), what);

	json_array_append_new(s->warnings, json_text(text));
	free(text);
}

static void warn_of_texts(struct session *s)
{
	for (size_t i = 0; i < s->n; i++) {
		uint64_t n = xs_clean_bytes(s->files[i].clean);
		char *text;

		if (!n)
			continue;
		text = xasprintf(
			"%" PRIu64 " bytes of its texts are not UTF-8: they are stored as '?'", n);
		warn(s, s->files[i].path, text);
		free(text);
	}
}

/* T0 is the begin of the earliest file that says when it was recorded. */
static void find_window(struct session *s)
{
	int64_t longest_ns = 0;
	bool has_time = false;

	for (size_t i = 0; i < s->n; i++) {
		const struct import_file *f = &s->files[i];
		int64_t length_ns = f->summary.last_ns -
				    (f->summary.first_ns < 0 ? f->summary.first_ns : 0);

		if (!f->has_time) {
			longest_ns = length_ns > longest_ns ? length_ns : longest_ns;
			warn(s, f->path,
			     "it does not say when it was recorded: it begins with the session");
			continue;
		}
		s->t0_ns = !has_time || f->begin_ns < s->t0_ns ? f->begin_ns : s->t0_ns;
		s->end_ns = !has_time || f->end_ns > s->end_ns ? f->end_ns : s->end_ns;
		has_time = true;
	}
	if (!has_time) {
		s->t0_ns = s->end_ns = s->files[0].modified_ns;
		json_array_append_new(
			s->warnings,
			json_string("the session's begin is when its first file was last changed"));
	}
	if (s->t0_ns + longest_ns > s->end_ns)
		s->end_ns = s->t0_ns + longest_ns;
	s->end_ns++; /* an instant at the end is inside */
}

static int write_files(struct session *s, struct err *e)
{
	struct import_window w = { .t0_ns = s->t0_ns, .duration_ns = s->end_ns - s->t0_ns };
	int rc = 0;

	if (w.duration_ns > LIMIT_DURATION_NS)
		return err_set(e, ERR_INVALID,
			       "these files span %" PRId64
			       " s, a session %lld s at most: import those "
			       "together that were recorded together",
			       w.duration_ns / NS_PER_S, LIMIT_DURATION_NS / NS_PER_S);
	for (size_t i = 0; i < s->n && !rc; i++) {
		w.n_before = 0;
		for (size_t k = 0; k < i; k++) {
			if (!strcmp(s->files[k].host, s->files[i].host))
				w.n_before += (unsigned int)s->files[k].n_parts;
		}
		rc = import_file_write(&s->files[i], &w, e);
	}
	return rc;
}

/* ---- sending ---- */

/* Calls fn for each file that the session will have; `name` is "HOST~2.xplane.pb". */
typedef int (*part_fn)(struct session *s, const struct import_file *f,
		       const struct import_part *part, const char *name, void *arg, struct err *e);

static int each_part(struct session *s, part_fn fn, void *arg, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct import_file *f = &s->files[i];
		unsigned int before = 0;

		for (size_t k = 0; k < i; k++) {
			if (!strcmp(s->files[k].host, f->host))
				before += (unsigned int)s->files[k].n_parts;
		}
		for (size_t k = 0; k < f->n_parts && !rc; k++) {
			char stem[NAME_FILE_BYTES], *name;

			name_of_file(f->host, before + (unsigned int)k + 1, stem);
			name = xasprintf("%s" SUFFIX, stem);
			rc = fn(s, f, &f->parts[k], name, arg, e);
			free(name);
		}
	}
	return rc;
}

static int list_part(struct session *s, const struct import_file *f, const struct import_part *part,
		     const char *name, void *arg, struct err *e)
{
	char *source = xasprintf("%s (%s)", name_of(f->path), f->format);
	json_t *o = json_object();

	(void)s;
	(void)e;
	json_put_text(o, "file", name);
	json_put_int(o, "bytes", (int64_t)part->bytes);
	json_put(o, "crc32c", json_sprintf("%08" PRIx32, part->crc32c));
	json_put_text(o, "source", source);
	json_array_append_new(arg, o);
	free(source);
	return 0;
}

static void take_begun(struct session *s, json_t *answer)
{
	const char *id = json_get_text(answer, "session");
	int64_t bytes = 0;
	const json_t *file;
	size_t i;

	json_array_foreach(json_object_get(answer, "files"), i, file)
		bytes += json_get_int(file, "received");
	if (bytes)
		fprintf(stderr,
			"session %s was begun before: it goes on behind the %" PRId64
			" bytes that the aggregator has\n",
			id, bytes);
	else if (s->id)
		fprintf(stderr, "the aggregator has nothing of it any more: it begins anew\n");
	free(s->id);
	json_decref(s->begun);
	s->id = xstrdup(id);
	s->begun = json_incref(answer);
	s->progress_ns = now_mono_ns();
}

/* What an earlier attempt has sent of the same files goes on; the checksums say that they are the same. */
static int begin(struct session *s, const char *run, struct err *e)
{
	json_t *request = json_object(), *files = json_array(), *answer = NULL;
	int rc;

	rc = each_part(s, list_part, files, e);
	json_put_text(request, "run", run ? run : "");
	json_put_int(request, "t0_ns", s->t0_ns);
	json_put_int(request, "duration_ns", s->end_ns - s->t0_ns);
	json_put(request, "warnings", json_incref(s->warnings));
	json_put(request, "files", files);
	json_put_bool(request, "resume", true);
	if (!rc)
		rc = api_call(s->api, "POST", "/api/v1/imports", request, &answer, e);
	if (!rc && !name_is_session(json_get_text(answer, "session")))
		rc = err_set(e, ERR_PEER, "the aggregator's answer names no session");
	if (!rc)
		take_begun(s, answer);
	json_decref(answer);
	json_decref(request);
	return rc;
}

/* The bytes that the aggregator has of this file. */
static uint64_t received(const struct session *s, const char *name)
{
	const json_t *file;
	size_t i;

	json_array_foreach(json_object_get(s->begun, "files"), i, file)
	{
		if (!strcmp(json_get_text(file, "file"), name))
			return (uint64_t)json_get_int(file, "received");
	}
	return 0;
}

static int send_part(struct session *s, const struct import_file *f, const struct import_part *part,
		     const char *name, void *arg, struct err *e)
{
	uint8_t *piece = xmalloc(PIECE);
	int rc = 0;

	(void)arg;
	for (uint64_t at = received(s, name); at < part->bytes && !rc;) {
		size_t n = part->bytes - at < PIECE ? (size_t)(part->bytes - at) : PIECE;
		char *path = xasprintf("/api/v1/imports/%s/files/%s?offset=%" PRIu64, s->id, name,
				       at);

		rc = file_read_exact(f->out, part->offset + at, piece, n, "the temporary file", e);
		if (!rc)
			rc = api_send(s->api, "PUT", path, piece, n, PIECE_NS, NULL, e);
		if (!rc)
			s->progress_ns = now_mono_ns();
		free(path);
		at += n;
	}
	free(piece);
	return rc;
}

/* Where the answer was lost the session may be there. */
static int commit(const struct session *s, json_t **manifest, struct err *e)
{
	char *path = xasprintf("/api/v1/imports/%s/commit", s->id);
	int rc = api_send(s->api, "POST", path, NULL, 0, COMMIT_NS, manifest, e);
	int64_t until_ns = now_mono_ns() + BACK_NS;

	while ((rc == ERR_CLOSED || rc == ERR_TIMEOUT) && now_mono_ns() < until_ns) {
		now_sleep_until_mono(now_mono_ns() + PAUSE_NS);
		if (!api_call_on(s->api, "GET", "sessions", s->id, "", manifest, NULL))
			rc = 0;
	}
	free(path);
	return rc;
}

/* The aggregator is away, or back without what it had. */
static bool may_go_on(const struct session *s, int rc)
{
	return (rc == ERR_CLOSED || rc == ERR_TIMEOUT || rc == ERR_NOT_FOUND || rc == ERR_BUSY) &&
	       now_mono_ns() < s->progress_ns + BACK_NS;
}

/* Best effort: the aggregator drops it after a while anyway. */
static void cancel(const struct session *s)
{
	struct err e;

	if (api_call_on(s->api, "DELETE", "imports", s->id, "", NULL, &e))
		fprintf(stderr, "the aggregator keeps what it has of it for ten minutes: %s\n",
			e.msg);
}

static int send(struct session *s, const char *run, json_t **manifest, struct err *e)
{
	int rc = begin(s, run, e);

	if (rc)
		return rc;
	for (;;) {
		rc = rc ? rc : each_part(s, send_part, NULL, e);
		if (!rc)
			return commit(s, manifest, e);
		if (!may_go_on(s, rc))
			break;
		fprintf(stderr, "%s; trying again\n", e->msg);
		now_sleep_until_mono(now_mono_ns() + PAUSE_NS);
		rc = begin(s, run, e);
	}
	if (rc == ERR_CLOSED || rc == ERR_TIMEOUT || rc == ERR_BUSY)
		fprintf(stderr, "the same command goes on where this one stood, for ten minutes\n");
	else
		cancel(s);
	return rc;
}

int import_session(const struct api_conf *api, const char *run, const struct import_group *group,
		   json_t **manifest, struct err *e)
{
	struct session s = { .api = api, .warnings = json_array() };
	int rc = open_files(&s, group, e);

	if (!rc) {
		find_window(&s);
		warn_of_texts(&s);
		rc = write_files(&s, e);
	}
	if (!rc)
		rc = send(&s, run, manifest, e);
	for (size_t i = 0; i < s.n; i++)
		import_file_release(&s.files[i]);
	free(s.files);
	json_decref(s.warnings);
	json_decref(s.begun);
	free(s.id);
	return rc;
}
