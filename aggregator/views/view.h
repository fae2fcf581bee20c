/* SPDX-License-Identifier: Apache-2.0 */
/* An open session. Private to aggregator/views/. */
#ifndef AGGREGATOR_VIEWS_VIEW_H
#define AGGREGATOR_VIEWS_VIEW_H

#include <jansson.h>
#include <stdatomic.h>

#include "aggregator/views/queries.h"
#include "aggregator/views/views.h"
#include "base/buf.h"
#include "xspace/tvx/tvx.h"

#define BUILD_TEXT 16

struct view_file {
	char *name; /* "node1~2.xplane.pb" */
	const char *host; /* borrowed from the manifest */
	int fd; /* of the XSpace; -1 = not open */
	uint64_t size;
	void *map; /* the index; NULL = none */
	size_t map_len;
	struct tvx *x;
};

struct view {
	char *session;
	struct buf manifest_text;
	struct view *next; /* in struct views */
	struct views *owner; /* NULL: forgotten */
	unsigned int refs; /* loop thread */
	enum view_state state; /* loop thread */
	struct err why;
	int rc;
	int64_t used_mono_ns;
	/* the worker that builds it: */
	const char *folder;
	uint64_t kept_bytes;
	struct store *store;
	atomic_bool is_stopped;
	_Atomic uint64_t done, bytes;
	/* from VIEW_READY on, never changed: */
	json_t *manifest;
	struct view_file *files;
	size_t n_files;
	struct buf catalogue;
	char build[BUILD_TEXT + 1];
};

/* build.c: opens the files, builds the indexes that are missing, writes the catalogue. A worker. */
MUST_CHECK int view_make(struct view *view, struct err *e);
void view_close(struct view *view); /* closes and frees what view_make() made */
void view_remove_indexes(const char *folder, const char *session);

/* catalogue.c */
void catalogue_write(struct view *view);

/* A name of a file as JSON, at most `max` bytes of it: clean UTF-8. New reference. */
json_t *view_name_json(const struct tvx *x, uint32_t name, size_t max);

/* The same of any text. */
#define VIEW_NAME_BYTES 400
json_t *view_text_json(const char *text, size_t len, size_t max);

/* A number that JavaScript's numbers cannot hold, as a text. */
void view_put_ps(json_t *object, const char *key, int64_t ps);

/* The file's bytes, read as they are needed. */
struct xs_source view_source(const struct view_file *f);

/* The file and track of a place; ERR_NOT_FOUND if there is none. */
MUST_CHECK int view_check_track(const struct view *view, uint32_t file, uint32_t track,
				const struct tvx_track **out, struct err *e);

/* Calls fn for each of the tracks "FILE.TRACK,FILE.TRACK,...", which are ascending, until one returns an error. */
typedef int (*view_track_fn)(void *arg, const struct view_place *at, const struct tvx_track *t,
			     struct err *e);
MUST_CHECK int view_each_track(const struct view *view, const char *tracks, view_track_fn fn,
			       void *arg, struct err *e);

/* By name of the file: whether it matches. The caller frees it. ERR_INVALID for what is no pattern, ERR_LIMIT if it takes too
 * long. */
MUST_CHECK int view_match_names(const struct tvx *x, const struct view_search *s, bool **out,
				struct err *e);

#endif
