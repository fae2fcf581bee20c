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
#define SUFFIX	  ".xplane.pb"

struct session {
	const struct api_conf *api;
	struct import_file *files;
	size_t n;
	int64_t t0_ns, end_ns;
	json_t *warnings;
	char *id; /* once it is begun */
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

static void warn(struct session *s, const char *path, const char *what)
{
	const char *slash = strrchr(path, '/');

	json_array_append_new(s->warnings, json_sprintf("%s: %s", slash ? slash + 1 : path, what));
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
	const char *slash = strrchr(f->path, '/');
	json_t *o = json_object();

	(void)s;
	(void)e;
	json_put_text(o, "file", name);
	json_put_int(o, "bytes", (int64_t)part->bytes);
	json_put(o, "crc32c", json_sprintf("%08" PRIx32, part->crc32c));
	json_put(o, "source", json_sprintf("%s (%s)", slash ? slash + 1 : f->path, f->format));
	json_array_append_new(arg, o);
	return 0;
}

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
	if (!rc)
		rc = api_call(s->api, "POST", "/api/v1/imports", request, &answer, e);
	if (!rc && !name_is_session(json_get_text(answer, "session")))
		rc = err_set(e, ERR_PEER, "the aggregator's answer names no session");
	if (!rc)
		s->id = xstrdup(json_get_text(answer, "session"));
	json_decref(answer);
	json_decref(request);
	return rc;
}

static int send_part(struct session *s, const struct import_file *f, const struct import_part *part,
		     const char *name, void *arg, struct err *e)
{
	uint8_t *piece = xmalloc(PIECE);
	int rc = 0;

	(void)arg;
	for (uint64_t at = 0; at < part->bytes && !rc;) {
		size_t n = part->bytes - at < PIECE ? (size_t)(part->bytes - at) : PIECE;
		char *path = xasprintf("/api/v1/imports/%s/files/%s?offset=%" PRIu64, s->id, name,
				       at);

		rc = file_read_exact(f->out, part->offset + at, piece, n, "the temporary file", e);
		if (!rc)
			rc = api_send(s->api, "PUT", path, piece, n, PIECE_NS, NULL, e);
		free(path);
		at += n;
	}
	free(piece);
	return rc;
}

static int commit(const struct session *s, json_t **manifest, struct err *e)
{
	char *path = xasprintf("/api/v1/imports/%s/commit", s->id);
	int rc = api_send(s->api, "POST", path, NULL, 0, COMMIT_NS, manifest, e);

	free(path);
	return rc;
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
	rc = each_part(s, send_part, NULL, e);
	if (rc)
		cancel(s);
	return rc ? rc : commit(s, manifest, e);
}

int import_session(const struct api_conf *api, const char *run, const struct import_group *group,
		   json_t **manifest, struct err *e)
{
	struct session s = { .api = api, .warnings = json_array() };
	int rc = open_files(&s, group, e);

	if (!rc) {
		find_window(&s);
		rc = write_files(&s, e);
	}
	if (!rc)
		rc = send(&s, run, manifest, e);
	for (size_t i = 0; i < s.n; i++)
		import_file_release(&s.files[i]);
	free(s.files);
	json_decref(s.warnings);
	free(s.id);
	return rc;
}
