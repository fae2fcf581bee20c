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

/* Sessions that stay open beside those that are in use: each holds two descriptors a file. */
#define OPEN_MAX 4

struct views {
	struct views_env env;
	struct view *all; /* the newest first */
	bool is_building;
	bool is_stopped;
};

struct views *views_new(const struct views_env *env)
{
	struct views *v = xcalloc(1, sizeof(*v));

	v->env = *env;
	return v;
}

static void free_view(struct view *view)
{
	view_close(view);
	free(view->session);
	buf_release(&view->manifest_text);
	free(view);
}

static void unref(struct view *view)
{
	if (!--view->refs)
		free_view(view);
}

void view_release(struct view *view)
{
	if (view)
		unref(view);
}

/* Takes it off the list; who uses it keeps it. */
static void drop(struct views *v, struct view *view)
{
	struct view **at = &v->all;

	while (*at != view)
		at = &(*at)->next;
	*at = view->next;
	view->owner = NULL;
	atomic_store(&view->is_stopped, true);
	unref(view);
}

static void close_oldest(struct views *v)
{
	struct view *oldest = NULL;
	size_t n = 0;

	for (struct view *view = v->all; view; view = view->next) {
		if (view->state != VIEW_READY && view->state != VIEW_FAILED)
			continue;
		n++;
		if (view->refs == 1 && (!oldest || view->used_mono_ns < oldest->used_mono_ns))
			oldest = view;
	}
	if (n > OPEN_MAX && oldest)
		drop(v, oldest);
}

/* ---- building ---- */

static void build_next(struct views *v);

static void run_build(void *arg)
{
	struct view *view = arg;

	view->rc = view_make(view, &view->why);
}

static void done_build(void *arg)
{
	struct view *view = arg;
	struct views *v = view->owner;

	view->state = view->rc ? VIEW_FAILED : VIEW_READY;
	if (view->rc)
		log_warn("AGG-VIEW", "session=%s state=failed reason=\"%s\"", view->session,
			 view->why.msg);
	if (v) {
		close_oldest(v);
		v->is_building = false;
		build_next(v);
	}
	unref(view);
}

static void build_next(struct views *v)
{
	struct view *view = NULL;

	if (v->is_building || v->is_stopped)
		return;
	for (struct view *at = v->all; at; at = at->next) {
		if (at->state == VIEW_WAITING)
			view = at; /* the oldest of them */
	}
	if (!view)
		return;
	v->is_building = true;
	view->state = VIEW_BUILDING;
	view->refs++;
	jobs_request(v->env.jobs, run_build, done_build, view);
}

static struct view *find(const struct views *v, const char *session)
{
	struct view *view = v->all;

	while (view && strcmp(view->session, session))
		view = view->next;
	return view;
}

static struct view *add(struct views *v, const char *session, const char *manifest, size_t len)
{
	struct view *view = xcalloc(1, sizeof(*view));

	view->session = xstrdup(session);
	buf_add(&view->manifest_text, manifest, len);
	view->owner = v;
	view->refs = 1;
	view->folder = v->env.folder;
	view->kept_bytes = v->env.kept_bytes;
	view->store = v->env.store->store;
	view->next = v->all;
	v->all = view;
	build_next(v);
	return view;
}

/* ---- the front door ---- */

void views_open(struct views *v, const char *session, const char *manifest, size_t len,
		struct view **out, struct view_progress *progress)
{
	struct view *view = find(v, session);

	*out = NULL;
	if (view &&
	    (view->manifest_text.len != len || memcmp(view->manifest_text.data, manifest, len))) {
		if (view->state == VIEW_BUILDING)
			v->is_building = false; /* its end will find no owner */
		drop(v, view);
		view = NULL;
	}
	if (!view)
		view = add(v, session, manifest, len);
	view->used_mono_ns = now_mono_ns();
	progress->state = view->state;
	progress->done = atomic_load(&view->done);
	progress->bytes = atomic_load(&view->bytes);
	if (view->state == VIEW_READY) {
		view->refs++;
		*out = view;
	} else if (view->state == VIEW_FAILED) {
		progress->why = view->why;
		drop(v, view);
	}
}

struct view *views_find(struct views *v, const char *session, const char *build)
{
	struct view *view = find(v, session);

	if (!view || view->state != VIEW_READY || strcmp(view->build, build))
		return NULL;
	view->used_mono_ns = now_mono_ns();
	view->refs++;
	return view;
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
	struct view *view = find(v, session);
	struct forget *f = xcalloc(1, sizeof(*f));

	if (view) {
		if (view->state == VIEW_BUILDING)
			v->is_building = false;
		drop(v, view);
		build_next(v);
	}
	*f = (struct forget){ v->env.folder, xstrdup(session) };
	jobs_work(v->env.jobs, run_forget, done_forget, f);
}

void views_stop(struct views *v)
{
	v->is_stopped = true;
	for (struct view *view = v->all; view; view = view->next)
		atomic_store(&view->is_stopped, true);
}

void views_free(struct views *v)
{
	if (!v)
		return;
	while (v->all)
		drop(v, v->all);
	free(v);
}
