/* SPDX-License-Identifier: Apache-2.0 */
/* The end of an import, on a worker: each file is checked, then all are stored and the session is committed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/imports/import_impl.h"
#include "aggregator/sessions/sessions.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"
#include "json/json_text.h"
#include "storage/store.h"
#include "xspace/xspace.h"

#define SPOOL_NAME "the aggregator's spool"

/* ---- checking ---- */

struct reading {
	const struct import *im;
	const struct import_file *file;
};

static int read_spool(void *arg, uint64_t offset, void *buf, size_t len, struct err *e)
{
	const struct reading *r = arg;

	return file_read_exact(r->im->fd, r->file->offset + offset, buf, len, SPOOL_NAME, e);
}

static int check_crc(const struct import *im, const struct import_file *f, struct err *e)
{
	uint8_t *piece = xmalloc(1 << 20);
	uint32_t crc = 0;
	int rc = 0;

	for (uint64_t at = 0; at < f->bytes && !rc;) {
		size_t n = f->bytes - at < 1 << 20 ? (size_t)(f->bytes - at) : 1 << 20;

		rc = file_read_exact(im->fd, f->offset + at, piece, n, SPOOL_NAME, e);
		if (!rc)
			crc = crc32c(crc, piece, n);
		at += n;
	}
	free(piece);
	if (!rc && crc != f->crc32c)
		rc = err_set(e, ERR_INVALID,
			     "its checksum is %08" PRIx32 ", and not %08" PRIx32
			     " as was announced",
			     crc, f->crc32c);
	return rc;
}

static int check_file(const struct import *im, struct import_file *f, struct err *e)
{
	struct reading r = { im, f };
	const struct xs_source source = { .read = read_spool, .arg = &r, .size = f->bytes };
	struct xs_summary sum;
	int rc;

	if (f->received != f->bytes)
		return err_set(e, ERR_INVALID, "%" PRIu64 " of its %" PRIu64 " bytes have come",
			       f->received, f->bytes);
	rc = check_crc(im, f, e);
	if (!rc)
		rc = xs_summarize(&source, &sum, e);
	if (!rc)
		rc = xs_check_texts(&source, xs_refuse_bad_text, NULL, e);
	if (rc)
		return rc;
	f->events = sum.events;
	if ((int64_t)sum.profile_start_ns != im->t0_ns)
		return err_set(e, ERR_INVALID,
			       "its plane Task Environment has the begin %" PRIu64
			       ", the session's is %" PRId64,
			       sum.profile_start_ns, im->t0_ns);
	return 0;
}

static int check_files(struct import *im, struct err *e)
{
	for (size_t i = 0; i < im->n_files; i++) {
		int rc = check_file(im, &im->files[i], e);

		if (rc)
			return err_prefix(e, "%.160s", im->files[i].name);
	}
	return 0;
}

/* ---- storing ---- */

struct storing {
	const struct import *im;
	struct store *store;
};

static int put_file(const struct storing *s, const struct import_file *f, struct err *e)
{
	char key[SESSION_KEY_BYTES], *name = xstrdup(f->name);
	struct store_put put = { .key = key,
				 .fd = s->im->fd,
				 .offset = f->offset,
				 .len = f->bytes,
				 .flags = STORE_ABSENT,
				 .deadline_mono_ns = store_within(STORE_FILE_PATIENCE_NS) };

	name[strlen(name) - strlen(SESSION_FILE_SUFFIX)] = '\0';
	session_file_key(s->im->session, s->im->run, name, key);
	free(name);
	return store_put(s->store, &put, NULL, e);
}

/* From the last one on: a host's first file is stored after its others. */
static int put_files(void *arg, struct err *e)
{
	const struct storing *s = arg;
	int rc = 0;

	for (size_t i = s->im->n_files; i-- > 0 && !rc;)
		rc = put_file(s, &s->im->files[i], e);
	return rc;
}

/* ---- the manifest ---- */

/* A clock that was never measured against the session clock. */
static json_t *unknown_clock(void)
{
	json_t *o = json_object();

	json_put_bool(o, "calibrated", false);
	json_put_int(o, "offset_ns", 0);
	json_put_int(o, "bound_ns", 0);
	json_put_int(o, "rtt_min_ns", 0);
	json_put_int(o, "jitter_ns", 0);
	json_put_int(o, "probes", 0);
	json_put_text(o, "method", "");
	json_put_text(o, "grade", "X");
	json_put_int(o, "steps_seen", 0);
	json_put_bool(o, "wall_synced", false);
	json_put(o, "steps", json_array());
	return o;
}

/* The host of files[*i] with all its files; *i becomes the next host's first file. */
static json_t *host_json(const struct import *im, size_t *i)
{
	const struct import_file *first = &im->files[*i];
	json_t *o = json_object(), *files = json_array(), *crcs = json_array();
	uint64_t bytes = 0, events = 0;
	char *detail = xasprintf("imported%s%.900s; its clock is unknown",
				 *first->source ? " from " : "", first->source);

	for (; *i < im->n_files && !strcmp(im->files[*i].host, first->host); (*i)++) {
		const struct import_file *f = &im->files[*i];

		json_array_append_new(files, json_string(f->name));
		json_array_append_new(crcs, json_sprintf("%08" PRIx32, f->crc32c));
		bytes += f->bytes;
		events += f->events;
	}
	json_put_text(o, "host", first->host);
	json_put_text(o, "state", "complete");
	json_put_text(o, "reason", "");
	json_put_text(o, "detail", detail);
	json_put_text(o, "file", first->name);
	json_put(o, "files", files);
	json_put(o, "crc32c", crcs);
	json_put_int(o, "bytes", (int64_t)bytes);
	json_put_int(o, "bytes_done", (int64_t)bytes);
	json_put_int(o, "events", (int64_t)events);
	json_put(o, "clock_bound_ns", json_null());
	json_put(o, "clock", unknown_clock());
	json_put(o, "tracers", json_array());
	free(detail);
	return o;
}

static json_t *request_json(void)
{
	json_t *o = json_object();

	json_put(o, "tracers", json_array());
	json_put_text(o, "options", "");
	json_put_int(o, "grace_given_ns", 0);
	json_put_int(o, "clock_shift_ns", 0);
	return o;
}

static json_t *causality_json(void)
{
	static const char *const counts[] = { "checked", "more", "ambiguous", "left_out" };
	static const char *const kinds[] = { "recorded", "matched", "ambiguous" };
	json_t *o = json_object(), *collectives = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
		json_put_int(o, counts[i], 0);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		json_put_int(collectives, kinds[i], 0);
	json_put(o, "violations", json_array());
	json_put_text(o, "guilty", "");
	json_put(o, "collectives", collectives);
	json_put_text(o, "skipped", "the session was imported: its clocks are unknown");
	return o;
}

static void put_path(json_t *o, const struct import *im, const struct store *s)
{
	char key[SESSION_KEY_BYTES];

	session_directory(im->session, im->run, key);
	key[strlen(key) - 1] = '\0';
	if (store_directory(s))
		json_put(o, "path", json_sprintf("%s/%s", store_directory(s), key));
	else
		json_put_text(o, "path", key);
}

static json_t *manifest_json(const struct import *im, const struct store *s)
{
	json_t *o = json_object(), *hosts = json_array();

	for (size_t i = 0; i < im->n_files;)
		json_array_append_new(hosts, host_json(im, &i));
	json_put_int(o, "version", 1);
	json_put_int(o, "revision", 1);
	json_put_text(o, "session", im->session);
	json_put_text(o, "run", im->run);
	json_put_text(o, "state", "committed");
	json_put_int(o, "created_ns", now_real_ns());
	put_path(o, im, s);
	json_put_int(o, "t0_ns", im->t0_ns);
	json_put_int(o, "duration_ns", im->duration_ns);
	json_put_int(o, "lead_ns", 0);
	json_put_int(o, "complete", (int64_t)json_array_size(hosts));
	json_put_int(o, "partial", 0);
	json_put_int(o, "failed", 0);
	json_put_int(o, "bytes", (int64_t)im->bytes);
	json_put(o, "warnings", json_incref(im->warnings));
	json_put(o, "settings", json_object());
	json_put_text(o, "origin", "import");
	json_put_bool(o, "imported", true);
	json_put(o, "request", request_json());
	json_put(o, "causality", causality_json());
	json_put(o, "hosts", hosts);
	return o;
}

int import_store(struct import *im, struct store *s, const char *nonce, json_t **manifest,
		 bool *begun, struct err *e)
{
	struct storing storing = { im, s };
	struct session_whole whole = { .nonce = nonce, .put_files = put_files, .arg = &storing };
	int rc = check_files(im, e);

	if (rc)
		return rc;
	*manifest = whole.manifest = manifest_json(im, s);
	return session_put_whole(s, &whole, begun, e);
}
