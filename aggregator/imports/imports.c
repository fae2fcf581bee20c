/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/imports/imports.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aggregator/imports/import_impl.h"
#include "aggregator/sessions/session_store.h"
#include "base/file.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "proto/names.h"

struct imports {
	struct imports_env env;
	struct import *list;
	unsigned int n;
};

struct imports *imports_new(const struct imports_env *env)
{
	struct imports *all = xcalloc(1, sizeof(*all));

	all->env = *env;
	return all;
}

static void remove_import(struct import *im)
{
	struct imports *all = im->all;
	struct import **at = &all->list;

	while (*at != im)
		at = &(*at)->next;
	*at = im->next;
	all->n--;
	loop_timer_cancel(all->env.jobs->loop, &im->idle);
	import_free(im);
}

void imports_free(struct imports *all)
{
	if (!all)
		return;
	while (all->list)
		remove_import(all->list);
	free(all);
}

/* ---- idle ones ---- */

static void watch_idle(struct import *im);

static void on_idle(void *arg)
{
	struct import *im = arg;

	if (im->writes || im->committing) {
		watch_idle(im);
		return;
	}
	log_warn("AGG-IMPORT", "session=%s state=dropped reason=\"nothing came for %lld s\"",
		 im->session, (long long)(IMPORT_IDLE_NS / 1000000000));
	remove_import(im);
}

static void watch_idle(struct import *im)
{
	struct loop *loop = im->all->env.jobs->loop;

	loop_timer_cancel(loop, &im->idle);
	loop_timer_in(loop, &im->idle, IMPORT_IDLE_NS, on_idle, im);
}

/* ---- begin ---- */

static json_t *import_json(const struct import *im)
{
	json_t *o = json_object(), *files = json_array();

	for (size_t i = 0; i < im->n_files; i++) {
		json_t *f = json_object();

		json_put_text(f, "file", im->files[i].name);
		json_put_int(f, "bytes", (int64_t)im->files[i].bytes);
		json_put_int(f, "received", (int64_t)im->files[i].received);
		json_array_append_new(files, f);
	}
	json_put_text(o, "session", im->session);
	json_put(o, "files", files);
	return o;
}

static bool is_same(const struct import *a, const struct import *b)
{
	if (a->t0_ns != b->t0_ns || a->duration_ns != b->duration_ns || a->n_files != b->n_files ||
	    strcmp(a->run, b->run))
		return false;
	for (size_t i = 0; i < a->n_files; i++) {
		const struct import_file *x = &a->files[i], *y = &b->files[i];

		if (strcmp(x->name, y->name) || x->bytes != y->bytes || x->crc32c != y->crc32c)
			return false;
	}
	return true;
}

/* One of the same files that is not being stored yet. */
static struct import *find_same(const struct imports *all, const struct import *like)
{
	struct import *im = all->list;

	while (im && (im->committing || !is_same(im, like)))
		im = im->next;
	return im;
}

static int begin(struct imports *all, const json_t *request, const char *peer, struct import **out,
		 struct err *e)
{
	struct import *im = NULL, *same;
	int rc;

	*out = NULL;
	if (!all->env.store->ready)
		return err_set(e, ERR_BUSY, "the store is not ready: %s",
			       all->env.store->not_ready.msg);
	rc = import_read(&im, request, e);
	same = rc || !json_get_bool(request, "resume") ? NULL : find_same(all, im);
	if (same) {
		import_free(im);
		watch_idle(same);
		*out = same;
		return 0;
	}
	if (!rc && all->n >= IMPORTS_MAX)
		rc = err_set(e, ERR_LIMIT, "%u imports are under way already", all->n);
	if (!rc && (im->fd = file_open_nameless(all->env.spool)) < 0)
		rc = err_errno(e, "%.200s", all->env.spool);
	if (rc) {
		import_free(im);
		return rc;
	}
	im->all = all;
	im->peer = xstrdup(peer);
	name_make_session(im->t0_ns, im->session);
	im->next = all->list;
	all->list = im;
	all->n++;
	watch_idle(im);
	*out = im;
	return 0;
}

static uint64_t received(const struct import *im)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < im->n_files; i++)
		bytes += im->files[i].received;
	return bytes;
}

void imports_begin(struct imports *all, const json_t *request, const char *peer, imports_done done,
		   void *arg)
{
	struct import *im;
	struct err e;
	json_t *doc;

	if (begin(all, request, peer, &im, &e)) {
		done(arg, NULL, &e);
		return;
	}
	log_info("AGG-IMPORT",
		 "session=%s run=\"%s\" files=%zu bytes=%" PRIu64 " received=%" PRIu64
		 " peer=%s state=begun",
		 im->session, im->run, im->n_files, im->bytes, received(im), peer);
	doc = import_json(im);
	done(arg, doc, NULL);
	json_decref(doc);
}

static int find(const struct imports *all, const char *session, struct import **out, struct err *e)
{
	for (*out = all->list; *out; *out = (*out)->next) {
		if (strcmp((*out)->session, session))
			continue;
		return (*out)->committing
			       ? err_set(e, ERR_BUSY, "session %.64s is being stored", session)
			       : 0;
	}
	return err_set(e, ERR_NOT_FOUND,
		       "no import of session %.64s is under way: it was dropped, or is complete",
		       session);
}

/* ---- pieces ---- */

/* One piece. The worker uses `fd`, `at`, `data`, `len` and what it sets. */
struct piece {
	struct import *im;
	struct import_file *file;
	int fd;
	uint64_t at;
	const void *data;
	size_t len;
	imports_done done;
	void *arg;
	int rc;
	struct err e;
};

static void run_piece(void *arg)
{
	struct piece *p = arg;

	p->rc = file_write_at(p->fd, p->at, p->data, p->len, "the aggregator's spool", &p->e);
}

static void done_piece(void *arg)
{
	struct piece *p = arg;
	json_t *doc;

	p->file->writing = false;
	p->im->writes--;
	watch_idle(p->im);
	if (p->rc) {
		p->done(p->arg, NULL, &p->e);
	} else {
		p->file->received += p->len;
		doc = json_object();
		json_put_text(doc, "file", p->file->name);
		json_put_int(doc, "bytes", (int64_t)p->file->bytes);
		json_put_int(doc, "received", (int64_t)p->file->received);
		p->done(p->arg, doc, NULL);
		json_decref(doc);
	}
	free(p);
}

static int find_place(struct imports *all, const char *session, const char *name, uint64_t offset,
		      size_t len, struct import **im, struct import_file **file, struct err *e)
{
	struct import_file *f = NULL;
	int rc = find(all, session, im, e);

	if (rc)
		return rc;
	for (size_t i = 0; i < (*im)->n_files && !f; i++)
		f = strcmp((*im)->files[i].name, name) ? NULL : &(*im)->files[i];
	*file = f;
	if (!f)
		return err_set(e, ERR_NOT_FOUND, "the import has no file %.160s", name);
	if (f->writing)
		return err_set(e, ERR_BUSY, "another piece of %.160s is being written", name);
	if (offset != f->received)
		return err_set(e, ERR_EXISTS, "%.160s goes on at offset %" PRIu64, name,
			       f->received);
	if (len > f->bytes - f->received)
		return err_set(e, ERR_LIMIT, "%.160s has %" PRIu64 " bytes, not more", name,
			       f->bytes);
	return 0;
}

void imports_add(struct imports *all, const char *session, const char *name, uint64_t offset,
		 const void *data, size_t len, imports_done done, void *arg)
{
	struct import_file *f;
	struct import *im;
	struct piece *p;
	struct err e;

	if (find_place(all, session, name, offset, len, &im, &f, &e)) {
		done(arg, NULL, &e);
		return;
	}
	p = xcalloc(1, sizeof(*p));
	*p = (struct piece){ .im = im,
			     .file = f,
			     .fd = im->fd,
			     .at = f->offset + offset,
			     .data = data,
			     .len = len,
			     .done = done,
			     .arg = arg };
	f->writing = true;
	im->writes++;
	jobs_request(all->env.jobs, run_piece, done_piece, p);
}

/* ---- end ---- */

struct commit {
	struct import *im;
	struct session_store *sessions;
	json_t *manifest;
	bool begun;
	imports_done done;
	void *arg;
	int rc;
	struct err e;
};

static void run_commit(void *arg)
{
	struct commit *c = arg;

	c->rc = import_store(c->im, c->sessions->store, c->sessions->nonce, &c->manifest, &c->begun,
			     &c->e);
}

static void done_commit(void *arg)
{
	struct commit *c = arg;

	if (c->rc && c->begun)
		session_store_take_up(c->sessions, c->im->session);
	if (c->rc)
		log_warn("AGG-IMPORT", "session=%s state=failed reason=\"%s\"", c->im->session,
			 c->e.msg);
	else
		log_info("AGG-IMPORT", "session=%s state=committed", c->im->session);
	c->done(c->arg, c->rc ? NULL : c->manifest, c->rc ? &c->e : NULL);
	json_decref(c->manifest);
	remove_import(c->im);
	free(c);
}

void imports_commit(struct imports *all, const char *session, imports_done done, void *arg)
{
	struct commit *c;
	struct import *im;
	struct err e;
	int rc = find(all, session, &im, &e);

	if (!rc && im->writes)
		rc = err_set(&e, ERR_BUSY, "pieces of its files are being written");
	if (rc) {
		done(arg, NULL, &e);
		return;
	}
	c = xcalloc(1, sizeof(*c));
	*c = (struct commit){ .im = im, .sessions = all->env.store, .done = done, .arg = arg };
	im->committing = true;
	jobs_request(all->env.jobs, run_commit, done_commit, c);
}

bool imports_look(const struct imports *all, const char *session, const char **run, uint64_t *bytes)
{
	struct import *im;

	if (find(all, session, &im, NULL))
		return false;
	*run = im->run;
	*bytes = im->bytes;
	return true;
}

void imports_cancel(struct imports *all, const char *session, imports_done done, void *arg)
{
	struct import *im;
	struct err e;
	json_t *doc;
	int rc = find(all, session, &im, &e);

	if (!rc && im->writes)
		rc = err_set(&e, ERR_BUSY, "pieces of its files are being written");
	if (rc) {
		done(arg, NULL, &e);
		return;
	}
	log_info("AGG-IMPORT", "session=%s state=dropped reason=\"cancelled\"", session);
	remove_import(im);
	doc = json_object();
	json_put_text(doc, "deleted", session);
	done(arg, doc, NULL);
	json_decref(doc);
}
