/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/pods/kube_feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/kube/kube_api.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/percent.h"
#include "json/json_text.h"

#define PODS		"/api/v1/pods"
#define WATCH_S		25 /* below the silence that a connection may have */
#define PAGE_TIMEOUT_NS (60 * NS_PER_S)
#define PAGES_MOST	4000

/* ---- batches ---- */

void kube_batch_free(struct kube_batch *b)
{
	for (size_t i = 0; b && i < b->n; i++)
		pod_unref(b->changes[i].pod);
	if (b)
		free(b->changes);
	free(b);
}

static struct kube_batch *current_batch(struct kube_feed *f)
{
	if (!f->batch)
		f->batch = xcalloc(1, sizeof(*f->batch));
	return f->batch;
}

static void add_change(struct kube_feed *f, struct pod *p_taken, bool is_gone)
{
	struct kube_batch *b = current_batch(f);

	if (!(b->n & (b->n + 1))) /* 0, 1, 3, 7, ...: all places are taken */
		b->changes = xrealloc(b->changes, (2 * b->n + 1) * sizeof(*b->changes));
	b->changes[b->n++] = (struct kube_change){ .pod = p_taken, .is_gone = is_gone };
}

static void give_batch(struct kube_feed *f)
{
	struct kube_batch *b = f->batch;

	f->batch = NULL;
	if (b)
		f->take(f->arg, b);
}

static void add_pod(struct kube_feed *f, const json_t *doc, bool is_gone)
{
	struct pod *p;

	if (pod_read(&p, doc, NULL))
		f->n_bad++;
	else
		add_change(f, p, is_gone);
}

/* ---- answers ---- */

static void set_version(struct kube_feed *f, const json_t *doc)
{
	const char *version = json_get_text(json_object_get(doc, "metadata"), "resourceVersion");

	if (*version && strlen(version) < sizeof(f->version))
		snprintf(f->version, sizeof(f->version), "%s", version);
}

/* The server has forgotten this version, or this place in a listing. */
static int set_expired(struct kube_feed *f, struct err *e)
{
	f->version[0] = '\0';
	return err_set(e, ERR_NOT_FOUND,
		       "the Kubernetes API has forgotten the version: listing anew");
}

static int refuse_status(struct kube_feed *f, int status, const struct buf *answer, struct err *e)
{
	json_t *doc = NULL;
	const char *message;
	int rc;

	if (status == 410)
		return set_expired(f, e);
	if (json_parse(&doc, answer->data, answer->len, NULL))
		doc = NULL;
	message = json_get_text(doc, "message");
	if (status == 401)
		rc = err_set(e, ERR_DENIED, "the Kubernetes API does not accept the token: %.120s",
			     message);
	else if (status == 403)
		rc = err_set(e, ERR_DENIED,
			     "the account may not list and watch pods (ClusterRole with get, list, "
			     "watch of pods): %.100s",
			     message);
	else
		rc = err_set(e, ERR_PEER, "the Kubernetes API answers %d: %.150s", status, message);
	json_decref(doc);
	return rc;
}

/* An event ERROR: its object is a Status. */
static int refuse_event(struct kube_feed *f, const json_t *object, struct err *e)
{
	if (json_get_int(object, "code") == 410)
		return set_expired(f, e);
	return err_set(e, ERR_PEER, "the Kubernetes API ends the watch: %.150s",
		       json_get_text(object, "message"));
}

int kube_feed_read_event(struct kube_feed *f, const char *line, size_t len, struct err *e)
{
	json_t *doc = NULL, *object;
	const char *type;
	int rc = json_parse(&doc, line, len, e);

	if (rc)
		return err_prefix(e, "an event of the Kubernetes API");
	type = json_get_text(doc, "type");
	object = json_object_get(doc, "object");
	if (!strcmp(type, "ERROR")) {
		rc = refuse_event(f, object, e);
	} else {
		set_version(f, object);
		if (strcmp(type, "BOOKMARK"))
			add_pod(f, object, !strcmp(type, "DELETED"));
	}
	json_decref(doc);
	return rc;
}

/* ---- requests ---- */

/* A watch under way. */
struct watch {
	struct kube_feed *feed;
	struct buf line; /* the begin of one whose end has not come */
};

static int take_lines(struct watch *w, const char *data, size_t len, struct err *e)
{
	int rc = 0;

	while (len && !rc) {
		const char *end = memchr(data, '\n', len);
		size_t n = end ? (size_t)(end - data) : len;

		if (w->line.len + n > KUBE_LINE_BYTES)
			return err_set(e, ERR_LIMIT,
				       "an event of the Kubernetes API has more than %zu bytes",
				       KUBE_LINE_BYTES);
		buf_add(&w->line, data, n);
		if (!end)
			return 0;
		if (w->line.len)
			rc = kube_feed_read_event(w->feed, buf_str(&w->line), w->line.len, e);
		buf_reset(&w->line);
		data += n + 1;
		len -= n + 1;
	}
	return rc;
}

static int on_piece(void *arg, const void *data, size_t len, struct err *e)
{
	struct watch *w = arg;
	int rc = take_lines(w, data, len, e);

	give_batch(w->feed);
	return rc;
}

/* With a watch the lines go to it, else the answer is collected. */
static int request(struct kube_feed *f, const char *query, struct watch *w, struct buf *answer,
		   struct err *e)
{
	char *path = xasprintf(PODS "?%s", query);
	const struct kube_call call = { .path = path,
					.answer_max = KUBE_PAGE_BYTES,
					.patience_ns = PAGE_TIMEOUT_NS,
					.piece = w ? on_piece : NULL,
					.arg = w,
					.cancelled = f->cancelled };
	int status = 0, rc = kube_api_call(f->api, &call, &status, answer, e);

	if (!rc && status != 200)
		rc = refuse_status(f, status, answer, e);
	free(path);
	return rc;
}

/* ---- listing ---- */

static int take_page(struct kube_feed *f, const struct buf *answer, struct buf *next, struct err *e)
{
	json_t *doc = NULL, *item;
	size_t i;
	int rc = json_parse(&doc, answer->data, answer->len, e);

	if (rc)
		return err_prefix(e, "a page of the Kubernetes API");
	if (!json_is_array(json_object_get(doc, "items"))) {
		rc = err_set(e, ERR_PEER, "the Kubernetes API: a listing without items");
		goto out;
	}
	json_array_foreach(json_object_get(doc, "items"), i, item) add_pod(f, item, false);
	buf_reset(next);
	buf_add_str(next, json_get_text(json_object_get(doc, "metadata"), "continue"));
	if (!next->len)
		set_version(f, doc);
out:
	json_decref(doc);
	return rc;
}

static int list_page(struct kube_feed *f, struct buf *next, struct err *e)
{
	struct buf query = BUF_INIT, answer = BUF_INIT;
	int rc;

	buf_addf(&query, "limit=%d", KUBE_PAGE_PODS);
	if (next->len) {
		buf_add_str(&query, "&continue=");
		percent_encode(&query, buf_str(next), "");
	}
	rc = request(f, buf_str(&query), NULL, &answer, e);
	if (!rc)
		rc = take_page(f, &answer, next, e);
	buf_release(&query);
	buf_release(&answer);
	return rc;
}

static int list_all(struct kube_feed *f, struct err *e)
{
	struct buf next = BUF_INIT;
	int rc = 0;

	current_batch(f)->begins_listing = true;
	for (int page = 0; !rc && (!page || next.len); page++) {
		if (page == PAGES_MOST)
			rc = err_set(e, ERR_LIMIT, "the Kubernetes API: more than %d pages",
				     PAGES_MOST);
		else
			rc = list_page(f, &next, e);
		if (!rc && !next.len)
			current_batch(f)->ends_listing = true;
		if (!rc)
			give_batch(f);
	}
	if (!rc && !f->version[0])
		rc = err_set(e, ERR_PEER, "the Kubernetes API: a listing without resourceVersion");
	buf_release(&next);
	return rc;
}

/* ---- a round ---- */

static int watch(struct kube_feed *f, struct err *e)
{
	struct watch w = { .feed = f };
	struct buf query = BUF_INIT, answer = BUF_INIT;
	int rc;

	buf_addf(&query,
		 "watch=1&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=", WATCH_S);
	percent_encode(&query, f->version, "");
	rc = request(f, buf_str(&query), &w, &answer, e);
	buf_release(&query);
	buf_release(&answer);
	buf_release(&w.line);
	return rc;
}

int kube_feed_run(struct kube_feed *f, struct err *e)
{
	int rc = f->version[0] ? 0 : list_all(f, e);

	f->n_bad = 0;
	if (!rc)
		rc = watch(f, e);
	kube_batch_free(f->batch);
	f->batch = NULL;
	return rc;
}
