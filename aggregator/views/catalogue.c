/* SPDX-License-Identifier: Apache-2.0 */
/* What a session has, as far as a viewer needs it before it draws: hosts, planes, tracks. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "aggregator/views/view.h"
#include "base/clean_text.h"
#include "json/json_text.h"

#define LABEL_BYTES 240 /* of a plane's or a track's name */
#define NAME_BYTES  4096

json_t *view_text_json(const char *text, size_t len, size_t max)
{
	char clean[NAME_BYTES];

	clean_text(clean, max < sizeof(clean) ? max : sizeof(clean), text, len);
	return json_text(clean);
}

json_t *view_name_json(const struct tvx *x, uint32_t name, size_t max)
{
	size_t len;
	const char *s = tvx_name(x, name, &len);

	return view_text_json(s, len, max);
}

void view_put_ps(json_t *object, const char *key, int64_t ps)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, ps);
	json_put_text(object, key, text);
}

void view_put_sum(json_t *object, const char *key, ps_sum ps)
{
	char text[48], *at = text + sizeof(text) - 1;

	*at = '\0';
	do {
		*--at = (char)('0' + (int)(ps % 10));
		ps /= 10;
	} while (ps);
	json_put_text(object, key, at);
}

const char *view_build(const struct view *view)
{
	return view->build;
}

bool view_is_complete(const struct view *view)
{
	return view->is_complete;
}

const struct buf *view_catalogue(const struct view *view)
{
	return &view->catalogue;
}

int view_check_track(const struct view *view, uint32_t file, uint32_t track,
		     const struct tvx_track **out, struct err *e)
{
	const struct tvx_track *tracks;

	if (file >= view->n_files || track >= tvx_tracks(view->files[file].x, &tracks))
		return err_set(e, ERR_NOT_FOUND, "the session has no track %u.%u", file, track);
	*out = &tracks[track];
	return 0;
}

static json_t *track_json(const struct tvx *x, const struct tvx_track *t)
{
	json_t *doc = json_object();

	json_put(doc, "name", view_name_json(x, t->name, LABEL_BYTES));
	json_put_int(doc, "events", (int64_t)t->events);
	json_put_int(doc, "rows", t->rows);
	view_put_ps(doc, "first_ps", t->first_ps);
	view_put_ps(doc, "last_ps", t->last_ps);
	if (t->untimed)
		json_put_int(doc, "untimed", (int64_t)t->untimed);
	if (t->unplaced)
		json_put_int(doc, "unplaced", (int64_t)t->unplaced);
	if (t->kind == TVX_COUNTER) {
		json_put_bool(doc, "counter", true);
		json_put(doc, "min", json_real(isfinite(t->min) ? t->min : 0));
		json_put(doc, "max", json_real(isfinite(t->max) ? t->max : 0));
	}
	return doc;
}

/* Tracks follow their plane: `first_track` is the number of the first one in the file. */
static json_t *planes_json(const struct tvx *x)
{
	const struct tvx_plane *planes;
	const struct tvx_track *tracks;
	size_t n_planes = tvx_planes(x, &planes), n_tracks = tvx_tracks(x, &tracks), t = 0;
	json_t *list = json_array();

	for (size_t i = 0; i < n_planes; i++) {
		json_t *doc = json_object(), *of_plane = json_array();

		json_put(doc, "name", view_name_json(x, planes[i].name, LABEL_BYTES));
		json_put_int(doc, "first_track", (int64_t)t);
		for (; t < n_tracks && tracks[t].plane == i; t++)
			json_array_append_new(of_plane, track_json(x, &tracks[t]));
		json_put(doc, "tracks", of_plane);
		if (json_array_size(of_plane))
			json_array_append_new(list, doc);
		else
			json_decref(doc);
	}
	return list;
}

static json_t *file_json(const struct view *view, size_t i)
{
	const struct view_file *f = &view->files[i];
	static const char *const states[] = { [FILE_WAITING] = "waiting",
					      [FILE_BUILDING] = "building",
					      [FILE_READY] = "ready",
					      [FILE_FAILED] = "failed" };
	json_t *doc = json_object();

	json_put_int(doc, "file", (int64_t)i);
	json_put_text(doc, "name", f->name);
	json_put_int(doc, "bytes", (int64_t)f->size);
	json_put_text(doc, "state", states[f->state]);
	if (f->why)
		json_put(doc, "error", view_text_json(f->why, strlen(f->why), LABEL_BYTES));
	json_put_int(doc, "flows_left_out", (int64_t)tvx_flows_left_out(f->x));
	json_put(doc, "planes", planes_json(f->x));
	return doc;
}

/* What tracers know to have lost. */
static int64_t lost_of(const json_t *host)
{
	json_t *tracer;
	int64_t lost = 0;
	size_t i;

	json_array_foreach(json_object_get(host, "tracers"), i, tracer)
		lost += json_get_int(tracer, "lost");
	return lost;
}

static json_t *host_json(const struct view *view, const json_t *host)
{
	static const char *const copied[] = { "host",		"state", "reason", "detail",
					      "clock_bound_ns", "t0_ns", "steps",  "refined" };
	json_t *doc = json_object(), *files = json_array();

	for (size_t i = 0; i < sizeof(copied) / sizeof(copied[0]); i++) {
		json_t *value = json_object_get(host, copied[i]);

		if (value)
			json_put(doc, copied[i], json_deep_copy(value));
	}
	json_put_int(doc, "lost", lost_of(host));
	for (size_t i = 0; i < view->n_files; i++) {
		if (!strcmp(view->files[i].host, json_get_text(host, "host")))
			json_array_append_new(files, file_json(view, i));
	}
	json_put(doc, "files", files);
	return doc;
}

void catalogue_write(struct view *view)
{
	json_t *doc = json_object(), *hosts = json_array(), *host;
	size_t i;

	json_put_text(doc, "state", view->is_complete ? "ready" : "building");
	json_put_int(doc, "done_bytes", (int64_t)view->done);
	json_put_int(doc, "bytes", (int64_t)view->bytes);
	json_put_text(doc, "session", view->of->name);
	json_put_text(doc, "build", view->build);
	json_put_text(doc, "run", json_get_text(view->manifest, "run"));
	json_put_int(doc, "t0_ns", json_get_int(view->manifest, "t0_ns"));
	json_put_int(doc, "duration_ns", json_get_int(view->manifest, "duration_ns"));
	json_put(doc, "warnings", json_deep_copy(json_object_get(view->manifest, "warnings")));
	json_array_foreach(json_object_get(view->manifest, "hosts"), i, host)
		json_array_append_new(hosts, host_json(view, host));
	json_put(doc, "hosts", hosts);
	json_write(&view->catalogue, doc, 0);
}
