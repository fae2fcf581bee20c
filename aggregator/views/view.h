/* SPDX-License-Identifier: Apache-2.0 */
/* Open sessions. Private to aggregator/views/. */
#ifndef AGGREGATOR_VIEWS_VIEW_H
#define AGGREGATOR_VIEWS_VIEW_H

#include <jansson.h>
#include <stdatomic.h>

#include "aggregator/views/queries.h"
#include "aggregator/views/views.h"
#include "base/buf.h"
#include "xspace/tvx/tvx.h"

#define BUILD_TEXT 40

/* The index of a file, or a part of it while it is built: shared by the views that show it. */
struct view_index {
	atomic_uint refs;
	void *map; /* the index, or the part's blocks; NULL = none */
	size_t map_len;
	struct buf tables; /* of a part */
	struct tvx *x;
};

enum view_file_state { FILE_WAITING, FILE_BUILDING, FILE_READY, FILE_FAILED };

struct view_file {
	char *name; /* "node1~2.xplane.pb" */
	const char *host; /* borrowed from the manifest */
	int fd; /* of the XSpace; -1 = not open */
	uint64_t size;
	enum view_file_state state;
	char *why; /* FILE_FAILED */
	struct view_index *
		index; /* never NULL in a view: one without events stands for what is not there yet */
	struct tvx *x; /* of `index` */
};

/* What all views of a session share. */
struct view_session {
	atomic_uint refs;
	char *name;
	const char *folder; /* of kept indexes */
	json_t *manifest;
	uint32_t manifest_crc;
	struct view_file *files; /* the builder's; views have copies */
	size_t n_files;
};

/* A session as far as it was indexed at an instant; never changed. The loop's thread holds and releases it. */
struct view {
	unsigned int refs;
	struct view_opening *opening; /* who makes it; set until it is shown */
	struct view_session *of;
	const json_t *manifest; /* borrowed from it */
	struct view_file *files; /* names and descriptors are borrowed from it */
	size_t n_files;
	bool is_complete;
	uint64_t done, bytes; /* of the files */
	struct buf catalogue;
	char build[BUILD_TEXT];
};

/* A session that a viewer opens: the loop's side in views.c, the worker's in build.c. */
struct view_opening {
	char *session;
	struct buf manifest_text;
	/* the loop's: */
	struct view_opening *next;
	struct views *owner;
	bool is_dropped; /* no longer in its list */
	unsigned int refs;
	enum view_state state;
	struct err why;
	int rc;
	int64_t used_mono_ns;
	struct view *shown,
		*before; /* the newest, and the one before, which questions under way have; or NULL */
	/* the worker's: */
	struct loop *loop; /* to post to */
	const char *folder;
	uint64_t kept_bytes;
	struct store *store;
	enum view_fault fault; /* read by the loop's once the worker is done */
	/* both threads': */
	atomic_bool is_stopped;
	_Atomic uint64_t done, bytes;
};

/* build.c: opens the files, builds the indexes that are missing; shows views, the last of which is complete. A worker. */
MUST_CHECK int view_make(struct view_opening *o, struct err *e);

/* views.c: posted with a struct view, which is taken: it is the newest one of its opening from now on. */
void view_show(void *arg);

/* parts.c: of what views are made. */
MUST_CHECK int view_session_new(struct view_session **out, const struct view_opening *o,
				struct err *e);
void view_session_unref(struct view_session *s);
struct view_index *view_index_new(void); /* empty, with one reference */
struct view_index *view_index_ref(struct view_index *index);
void view_index_unref(struct view_index *index); /* NULL is fine */
MUST_CHECK int view_index_open(struct view_index **out, const char *path, uint64_t source_bytes,
			       struct err *e);

/* The session with the indexes that its files have now; `nothing` stands for those that have none. One reference. */
struct view *view_new(struct view_session *s, struct view_index *nothing, struct view_opening *o,
		      bool is_complete);

/* kept.c: the folder of indexes. */
char *view_index_path(const struct view_session *s, const char *file); /* free it */
void view_remove_indexes(const char *folder, const char *session);

/* Removes sessions' indexes until at most so many bytes are left, those that were opened longest ago first, but not this session's. */
void view_bound_kept(const char *folder, const char *session, uint64_t kept_bytes);

/* catalogue.c */
void catalogue_write(struct view *view);

/* A name of a file as JSON, at most `max` bytes of it: clean UTF-8. New reference. */
json_t *view_name_json(const struct tvx *x, uint32_t name, size_t max);

/* The same of any text. */
#define VIEW_NAME_BYTES 400
json_t *view_text_json(const char *text, size_t len, size_t max);

/* A number that JavaScript's numbers cannot hold, as a text. */
void view_put_ps(json_t *object, const char *key, int64_t ps);

/* A sum of durations: an hour of 5,000 threads is more than 64 bits hold. */
__extension__ typedef unsigned __int128 ps_sum;
void view_put_sum(json_t *object, const char *key, ps_sum ps);

/* The file's bytes, read as they are needed. */
struct xs_source view_source(const struct view_file *f);

/* The file and track of a place; ERR_NOT_FOUND if there is none. */
MUST_CHECK int view_check_track(const struct view *view, uint32_t file, uint32_t track,
				const struct tvx_track **out, struct err *e);

/* Calls fn for each of the tracks "FILE.TRACK,FILE.TRACK,...", which are ascending, or of "all", until one returns an error. */
typedef int (*view_track_fn)(void *arg, const struct view_place *at, const struct tvx_track *t,
			     struct err *e);
MUST_CHECK int view_each_track(const struct view *view, const char *tracks, view_track_fn fn,
			       void *arg, struct err *e);

/* By name of the file: whether it matches. The caller frees it. ERR_INVALID for what is no pattern, ERR_LIMIT if it takes too
 * long. */
MUST_CHECK int view_match_names(const struct tvx *x, const struct view_search *s, bool **out,
				struct err *e);

#endif
