/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/views/views.h"

#include <stdlib.h>
#include <string.h>

#include "aggregator/sessions/session_store.h"
#include "aggregator/views/view.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"

/* Sessions that stay open: each holds a descriptor a file. */
#define OPEN_MAX 4

struct views {
	struct views_env env;
	struct view_opening *all; /* the newest first */
	bool is_building; /* a worker has one of them, or one that was dropped */
	bool is_stopped;
};

struct views *views_new(const struct views_env *env)
{
	struct views *v = xcalloc(1, sizeof(*v));

	v->env = *env;
	return v;
}

static void unref(struct view_opening *o)
{
	if (--o->refs)
		return;
	view_release(o->shown);
	view_release(o->before);
	free(o->session);
	buf_release(&o->manifest_text);
	free(o);
}

/* Takes it off the list; a worker that still builds it keeps it, and ends soon. */
static void drop(struct views *v, struct view_opening *o)
{
	struct view_opening **at = &v->all;

	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	o->is_dropped = true;
	atomic_store(&o->is_stopped, true);
	unref(o);
}

static void close_oldest(struct views *v)
{
	struct view_opening *oldest = NULL;
	size_t n = 0;

	for (struct view_opening *o = v->all; o; o = o->next) {
		if (o->state != VIEW_READY && o->state != VIEW_FAILED)
			continue;
		n++;
		if (!oldest || o->used_mono_ns < oldest->used_mono_ns)
			oldest = o;
	}
	if (n > OPEN_MAX)
		drop(v, oldest);
}

/* ---- the newest view ---- */

void view_show(void *arg)
{
	struct view *view = arg;
	struct view_opening *o = view->opening;

	view->opening = NULL;
	view_release(o->before);
	o->before = o->shown;
	o->shown = view;
}

static bool has_build(const struct view *view, const char *build)
{
	return view && !strcmp(view->build, build);
}

static struct view *ref(struct view *view)
{
	view->refs++;
	return view;
}

/* ---- building ---- */

static void build_next(struct views *v);

static void run_build(void *arg)
{
	struct view_opening *o = arg;

	o->rc = view_make(o, &o->why);
}

static void done_build(void *arg)
{
	struct view_opening *o = arg;
	struct views *v = o->owner;

	o->state = o->rc ? VIEW_FAILED : VIEW_READY;
	if (o->rc)
		log_warn("AGG-VIEW", "session=%s state=failed reason=\"%s\"", o->session,
			 o->why.msg);
	if (!o->is_dropped)
		close_oldest(v);
	unref(o);
	v->is_building = false;
	build_next(v);
}

/* One at a time: so no two workers write the indexes of one session. */
static void build_next(struct views *v)
{
	struct view_opening *oldest = NULL;

	if (v->is_building || v->is_stopped)
		return;
	for (struct view_opening *o = v->all; o; o = o->next) {
		if (o->state == VIEW_WAITING)
			oldest = o;
	}
	if (!oldest)
		return;
	v->is_building = true;
	oldest->state = VIEW_BUILDING;
	oldest->refs++;
	jobs_request(v->env.jobs, run_build, done_build, oldest);
}

static struct view_opening *find(const struct views *v, const char *session)
{
	struct view_opening *o = v->all;

	while (o && strcmp(o->session, session))
		o = o->next;
	return o;
}

static struct view_opening *add(struct views *v, const char *session, const char *manifest,
				size_t len)
{
	struct view_opening *o = xcalloc(1, sizeof(*o));

	o->session = xstrdup(session);
	buf_add(&o->manifest_text, manifest, len);
	o->owner = v;
	o->refs = 1;
	o->folder = v->env.folder;
	o->kept_bytes = v->env.kept_bytes;
	o->store = v->env.store->store;
	o->loop = v->env.jobs->loop;
	o->next = v->all;
	v->all = o;
	build_next(v);
	return o;
}

/* ---- the front door ---- */

void views_open(struct views *v, const char *session, const char *manifest, size_t len,
		const char *known_build, struct view **out, struct view_progress *progress)
{
	struct view_opening *o = find(v, session);

	*out = NULL;
	if (o && (o->manifest_text.len != len || memcmp(o->manifest_text.data, manifest, len))) {
		drop(v, o);
		o = NULL;
	}
	if (!o)
		o = add(v, session, manifest, len);
	o->used_mono_ns = now_mono_ns();
	progress->state = o->state;
	progress->done = atomic_load(&o->done);
	progress->bytes = atomic_load(&o->bytes);
	if (o->state == VIEW_FAILED) {
		progress->why = o->why;
		progress->fault = o->fault;
		drop(v, o);
		return;
	}
	if (o->shown &&
	    (o->shown->is_complete || !known_build || !has_build(o->shown, known_build)))
		*out = ref(o->shown);
}

struct view *views_find(struct views *v, const char *session, const char *build)
{
	struct view_opening *o = find(v, session);

	if (!o)
		return NULL;
	o->used_mono_ns = now_mono_ns();
	if (has_build(o->before, build))
		return ref(o->before);
	if (!has_build(o->shown, build))
		return NULL;
	if (o->shown->is_complete) { /* once it is asked, the one before is not needed */
		view_release(o->before);
		o->before = NULL;
	}
	return ref(o->shown);
}

void views_drop(struct views *v, const struct view *view)
{
	struct view_opening *o = find(v, view->of->name);

	log_warn("AGG-VIEW", "session=%s state=damaged", view->of->name);
	if (o)
		drop(v, o);
}

struct forget {
	const char *folder;
	char *session;
};

static void run_forget(void *arg)
{
	struct forget *f = arg;

	view_remove_indexes(f->folder, f->session);
}

static void done_forget(void *arg)
{
	struct forget *f = arg;

	free(f->session);
	free(f);
}

void views_forget(struct views *v, const char *session)
{
	struct view_opening *o = find(v, session);
	struct forget *f = xcalloc(1, sizeof(*f));

	if (o)
		drop(v, o);
	*f = (struct forget){ v->env.folder, xstrdup(session) };
	jobs_work(v->env.jobs, run_forget, done_forget, f);
}

void views_stop(struct views *v)
{
	v->is_stopped = true;
	for (struct view_opening *o = v->all; o; o = o->next)
		atomic_store(&o->is_stopped, true);
}

void views_free(struct views *v)
{
	if (!v)
		return;
	while (v->all)
		drop(v, v->all);
	free(v);
}
