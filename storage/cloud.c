/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/cloud.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "storage/kinds.h"

static struct cloud *cloud_of(struct store *s)
{
	return container_of(s, struct cloud, base);
}

static int check_key_length(const struct cloud *c, const char *key, struct err *e)
{
	if (strlen(c->prefix) + strlen(key) > c->key_max)
		return err_set(e, ERR_LIMIT, "prefix and key have more than %zu characters",
			       c->key_max);
	return 0;
}

static int no_place(const struct cloud *c, struct err *e)
{
	return err_set(e, ERR_PEER, "the %s does not exist", c->place);
}

/* ---- stat ---- */

static void fill_stat(struct store_stat *out, const struct cloud_answer *a, uint64_t size)
{
	*out = (struct store_stat){ .size = size, .modified_ns = a->modified_ns };
	memcpy(out->tag, a->tag, sizeof(out->tag));
	out->has_crc32c = a->has_crc32c;
	out->crc32c = a->crc32c;
}

/* A page of something in front of the store, such as one to sign in. */
static int no_version(const struct cloud *c, struct err *e)
{
	return err_set(e, ERR_PEER, "%s answers something that is no object", c->host);
}

/* `a` keeps the answer, with the nonce of the put. */
static int look_at(struct cloud *c, const char *key, int64_t deadline_mono_ns,
		   struct cloud_answer *a, struct err *e)
{
	const struct cloud_call call = { .verb = CLOUD_STAT,
					 .key = key,
					 .deadline_mono_ns = deadline_mono_ns };
	int rc = cloud_send(c, &call, a, e);

	if (!rc && a->status != 200)
		rc = cloud_error(c, a, e);
	else if (!rc && !*a->tag)
		rc = no_version(c, e);
	return rc;
}

int cloud_stat(struct store *store, const char *key, int64_t deadline_mono_ns,
	       struct store_stat *out, struct err *e)
{
	struct cloud *c = cloud_of(store);
	struct cloud_answer a = { 0 };
	int rc = check_key_length(c, key, e);

	if (!rc)
		rc = look_at(c, key, deadline_mono_ns, &a, e);
	if (!rc)
		fill_stat(out, &a, a.length);
	cloud_answer_release(&a);
	return rc;
}

/* ---- put ---- */

/*
 * The server's word is not enough: some ignore checksums, and a put that was cut short may look whole. Another
 * put or a remove may have come between; then what this one stored cannot be seen any more.
 */
static int verify_put(struct cloud *c, const struct store_put *put, const char *nonce,
		      struct cloud_answer *a, struct store_stat *out, struct err *e)
{
	int rc = a->is_object ? 0 : look_at(c, put->key, put->deadline_mono_ns, a, e);

	if (rc && rc != ERR_NOT_FOUND)
		return err_prefix(e, "the object that was put cannot be looked at");
	if (!rc && !strcmp(a->nonce, nonce) && a->length != put->len)
		rc = err_set(e, ERR_PEER, "the server keeps %llu of %llu bytes",
			     (unsigned long long)a->length, (unsigned long long)put->len);
	if (!rc)
		fill_stat(out, a, a->length);
	else if (rc == ERR_NOT_FOUND) {
		*out = (struct store_stat){ .size = put->len, .modified_ns = now_real_ns() };
		rc = 0;
	}
	return rc;
}

/* After a refusal: whether it was a put of ours, with this nonce, that got there first. This can be so at
 * the first attempt, too: libcurl sends a request again by itself when a kept connection breaks before the
 * answer. */
static int check_exists(struct cloud *c, const struct store_put *put, const char *nonce,
			struct cloud_answer *a, struct err *e)
{
	if (!look_at(c, put->key, put->deadline_mono_ns, a, NULL) && !strcmp(a->nonce, nonce)) {
		a->is_object = true;
		return 0;
	}
	return err_set(e, ERR_EXISTS, "the key exists already");
}

int cloud_check_put(const struct cloud *c, const char *key, uint64_t len, struct err *e)
{
	int rc = check_key_length(c, key, e);

	if (!rc && len > c->put_max)
		rc = err_set(e, ERR_LIMIT, "%llu bytes; an object of one request has %llu at most",
			     (unsigned long long)len, (unsigned long long)c->put_max);
	return rc;
}

int cloud_put(struct store *store, const struct store_put *put, struct store_stat *out,
	      struct err *e)
{
	struct cloud *c = cloud_of(store);
	char nonce[CLOUD_NONCE_CHARS + 1];
	const struct cloud_call call = { .verb = CLOUD_PUT,
					 .key = put->key,
					 .put = put,
					 .nonce = nonce,
					 .deadline_mono_ns = put->deadline_mono_ns };
	uint8_t random[CLOUD_NONCE_CHARS / 2];
	struct cloud_answer a = { 0 };
	int rc = cloud_check_put(c, put->key, put->len, e);

	if (rc)
		return rc;
	random_bytes(random, sizeof(random));
	hex_text(nonce, random, sizeof(random));
	rc = cloud_send(c, &call, &a, e);
	if (!rc && cloud_is_exists(&a))
		rc = check_exists(c, put, nonce, &a, e);
	else if (!rc && a.status >= 300)
		rc = a.status == 404 ? no_place(c, e) : cloud_error(c, &a, e);
	else if (!rc && !*a.tag)
		rc = no_version(c, e);
	if (!rc)
		rc = verify_put(c, put, nonce, &a, out, e);
	cloud_answer_release(&a);
	return rc;
}

/* ---- get ---- */

struct getting {
	const struct cloud *cloud;
	const struct store_get *get;
	struct cloud_answer *answer;
	uint64_t done; /* given to the sink */
	uint64_t skip; /* bytes of a server that ignores ranges */
	char tag[STORE_TAG_MAX +
		 1]; /* of the version asked for, or whose bytes the sink has; "" = any */
};

static int replaced(struct err *e)
{
	return err_set(e, ERR_PEER, "the object was replaced while it was read");
}

static int on_piece(void *arg, const void *data, size_t len, struct err *e)
{
	struct getting *g = arg;
	uint64_t left = g->get->len - g->done;

	if (g->answer->status == 200 && g->skip) {
		size_t n = len < g->skip ? len : (size_t)g->skip;

		g->skip -= n;
		data = (const char *)data + n;
		len -= n;
	}
	if (len > left)
		len = (size_t)left;
	if (!len)
		return 0;
	if (!*g->answer->tag)
		return no_version(g->cloud, e);
	if ((g->done || *g->tag) && strcmp(g->tag, g->answer->tag))
		return replaced(e);
	memcpy(g->tag, g->answer->tag, sizeof(g->tag));
	g->done += len;
	return g->get->sink(g->get->arg, data, len, e);
}

/* The rest of the bytes, of the same version. */
static void ask_for_rest(struct cloud_call *call, struct getting *g, char range[64])
{
	uint64_t from = g->get->offset + g->done;
	uint64_t last = g->get->len - g->done - 1; /* beyond `from` */

	call->range = call->match = NULL;
	if (from || last < UINT64_MAX - 1) {
		if (last > UINT64_MAX - from)
			snprintf(range, 64, "bytes=%llu-", (unsigned long long)from);
		else
			snprintf(range, 64, "bytes=%llu-%llu", (unsigned long long)from,
				 (unsigned long long)(from + last));
		call->range = range;
	}
	if (*g->tag)
		call->match = g->tag;
	g->skip = from;
}

static int get_bytes(struct cloud *c, struct getting *g, struct cloud_answer *a, struct err *e)
{
	struct cloud_call call = { .verb = CLOUD_GET,
				   .key = g->get->key,
				   .piece = on_piece,
				   .arg = g,
				   .deadline_mono_ns = g->get->deadline_mono_ns };
	struct cloud_tries tries = { 0 };
	char range[64];
	int rc;

	do {
		uint64_t before = g->done;

		ask_for_rest(&call, g, range);
		rc = c->ops->send(c, &call, a, e);
		if (g->done > before)
			tries.n = 0;
		if (rc == ERR_CLOSED && g->done == g->get->len)
			rc = 0; /* only bytes that were not asked for are missing */
	} while (cloud_tries_again(c, &tries, rc, a, g->get->deadline_mono_ns));
	return rc;
}

int cloud_get(struct store *store, const struct store_get *get, struct store_stat *out,
	      struct err *e)
{
	struct cloud *c = cloud_of(store);
	struct cloud_answer a = { 0 };
	struct getting g = { .cloud = c, .get = get, .answer = &a };
	int rc = check_key_length(c, get->key, e);

	if (rc)
		return rc;
	if (get->tag)
		snprintf(g.tag, sizeof(g.tag), "%s", get->tag);
	if (get->len == 0 || get->offset > INT64_MAX)
		return cloud_stat(store, get->key, get->deadline_mono_ns, out, e);
	rc = get_bytes(c, &g, &a, e);
	if (!rc && a.status == 416 && !g.done)
		rc = cloud_stat(store, get->key, get->deadline_mono_ns, out, e);
	else if (!rc && (a.status == 412 || ((a.status == 404 || a.status == 416) && g.done)))
		rc = replaced(e);
	else if (!rc && a.status >= 300)
		rc = cloud_error(c, &a, e);
	else if (!rc)
		fill_stat(out, &a, a.has_total ? a.total : a.length);
	cloud_answer_release(&a);
	return rc;
}

/* ---- list ---- */

struct listing {
	struct cloud *cloud;
	const struct store_list *list;
	char last[STORE_KEY_MAX + 1]; /* the key before; "" = none */
	bool stopped;
};

/* Skips objects whose key is not valid for a store. */
static int give_item(struct listing *l, const struct cloud_listed *item, struct err *e)
{
	const char *prefix = l->cloud->prefix, *key = item->key + strlen(prefix);

	if (strncmp(item->key, prefix, strlen(prefix)))
		return err_set(e, ERR_PEER, "the server lists a key without the prefix");
	if (store_check_key(key, NULL))
		return 0;
	if (strcmp(key, l->last) <= 0)
		return err_set(e, ERR_PEER, "the server does not list in byte order of the keys");
	memcpy(l->last, key, strlen(key) + 1);
	if (store_listed(key, l->list->prefix, l->list->after))
		l->stopped = !l->list->each(l->list->arg, key, &item->st);
	return 0;
}

static int read_page(struct listing *l, const struct cloud_call *call, struct cloud_page *page,
		     struct err *e)
{
	struct cloud *c = l->cloud;
	struct cloud_answer a = { 0 };
	int rc = cloud_send(c, call, &a, e);

	if (!rc && a.status != 200)
		rc = a.status == 404 ? no_place(c, e) : cloud_error(c, &a, e);
	if (!rc)
		rc = c->ops->read_page(page, a.body.data, a.body.len, e);
	cloud_answer_release(&a);
	return rc;
}

static int list_pages(struct listing *l, struct cloud_call *call, struct err *e)
{
	struct cloud_page page = { 0 };
	char *token = NULL;
	int rc;

	do {
		call->page = token;
		rc = read_page(l, call, &page, e);
		for (size_t i = 0; !rc && !l->stopped && i < page.n; i++)
			rc = give_item(l, &page.items[i], e);
		free(token);
		token = page.next;
		page.next = NULL;
		cloud_page_release(&page);
		if (!rc)
			rc = store_check_deadline(l->list->deadline_mono_ns, e);
	} while (!rc && !l->stopped && token);
	free(token);
	return rc;
}

int cloud_list(struct store *store, const struct store_list *list, struct err *e)
{
	struct listing l = { .cloud = cloud_of(store), .list = list };
	const char *own = l.cloud->prefix;
	char *prefix = xasprintf("%s%s", own, list->prefix);
	char *after = list->after ? xasprintf("%s%s", own, list->after) : NULL;
	struct cloud_call call = { .verb = CLOUD_LIST,
				   .prefix = prefix,
				   .deadline_mono_ns = list->deadline_mono_ns };
	int rc;

	if (after && strcmp(after, prefix) > 0)
		call.after = after;
	rc = list_pages(&l, &call, e);
	free(prefix);
	free(after);
	return rc;
}

/* ---- remove ---- */

/* The store says with a code of its own that the key is missing; a page of something in front of it has none. */
static int judge_removal(const struct cloud *c, const struct cloud_answer *a, struct err *e)
{
	int rc = cloud_error(c, a, e);

	if (rc != ERR_NOT_FOUND)
		return rc;
	return *a->code ? 0 : err_set(e, ERR_PEER, "%s answers %d", c->host, a->status);
}

int cloud_remove(struct store *store, const char *key, int64_t deadline_mono_ns, struct err *e)
{
	struct cloud *c = cloud_of(store);
	const struct cloud_call call = { .verb = CLOUD_REMOVE,
					 .key = key,
					 .deadline_mono_ns = deadline_mono_ns };
	struct cloud_answer a = { 0 };
	int rc = check_key_length(c, key, e);

	if (!rc)
		rc = cloud_send(c, &call, &a, e);
	if (!rc && a.status >= 300)
		rc = judge_removal(c, &a, e);
	cloud_answer_release(&a);
	return rc;
}

/* Whether one request has removed them all. If not, each is removed alone: that says what is wrong with which, and serves servers
 * that have no such request. */
static bool remove_batch(struct cloud *c, const char *const *keys, size_t n,
			 int64_t deadline_mono_ns)
{
	const struct cloud_call call = { .verb = CLOUD_REMOVE_ALL,
					 .keys = keys,
					 .n_keys = n,
					 .deadline_mono_ns = deadline_mono_ns };
	struct cloud_answer a = { 0 };
	bool done = !cloud_send(c, &call, &a, NULL) && a.status >= 200 && a.status < 300 &&
		    c->ops->has_removed(a.body.data, a.body.len, n);

	cloud_answer_release(&a);
	return done;
}

int cloud_remove_all(struct store *store, const char *const *keys, size_t n,
		     int64_t deadline_mono_ns, struct err *e)
{
	struct cloud *c = cloud_of(store);
	int rc = 0;

	for (size_t i = 0; !rc && i < n; i++)
		rc = check_key_length(c, keys[i], e);
	while (!rc && n) {
		size_t most = c->batch_max ? c->batch_max : 1, now = n < most ? n : most;

		if (now == 1 || !remove_batch(c, keys, now, deadline_mono_ns))
			for (size_t i = 0; !rc && i < now; i++)
				rc = cloud_remove(store, keys[i], deadline_mono_ns, e);
		keys += now;
		n -= now;
	}
	return rc;
}
