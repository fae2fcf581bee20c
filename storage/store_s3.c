/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3://: a bucket, or the part of it below a prefix. An object is one PUT; a create-only one has
 * "If-None-Match: *", which the server decides. Every put stores a nonce of its own in the object's
 * metadata. After a refusal the nonce shows whether the object is from this put, whose answer was lost, or
 * from another writer.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "storage/kinds.h"
#include "storage/s3_client.h"

#define KEY_MAX 1024 /* of S3, with the prefix */

struct store_s3 {
	struct store base;
	struct s3_client *client;
};

static struct s3_client *client_of(struct store *s)
{
	assert(s->ops == &store_s3_ops);
	return ((struct store_s3 *)s)->client;
}

static int s3_open(struct store **out, const char *rest, struct err *e)
{
	struct store_s3 *s = xcalloc(1, sizeof(*s));
	int rc = s3_client_open(&s->client, rest, e);

	if (rc) {
		free(s);
		return rc;
	}
	s->base.ops = &store_s3_ops;
	*out = &s->base;
	return 0;
}

static void s3_free(struct store *store)
{
	s3_client_free(client_of(store));
	free(store);
}

static int check_key_length(const struct s3_client *c, const char *key, struct err *e)
{
	if (strlen(s3_client_prefix(c)) + strlen(key) > KEY_MAX)
		return err_set(e, ERR_LIMIT, "prefix and key have more than %d characters",
			       KEY_MAX);
	return 0;
}

/* ---- stat ---- */

static void fill_stat(struct store_stat *out, const struct s3_answer *a, uint64_t size)
{
	*out = (struct store_stat){ .size = size, .modified_ns = a->modified_ns };
	memcpy(out->tag, a->tag, sizeof(out->tag));
}

/* `a` keeps the answer, with the number of the put. */
static int head(struct s3_client *c, const char *key, int64_t deadline_mono_ns, struct s3_answer *a,
		struct err *e)
{
	const struct s3_call call = { .method = "HEAD",
				      .key = key,
				      .deadline_mono_ns = deadline_mono_ns };
	struct s3_tries tries = { 0 };
	int rc = s3_client_call(c, &call, &tries, a, e);

	return rc || a->status == 200 ? rc : s3_client_error(c, a, e);
}

static int s3_stat(struct store *store, const char *key, int64_t deadline_mono_ns,
		   struct store_stat *out, struct err *e)
{
	struct s3_client *c = client_of(store);
	struct s3_answer a = { 0 };
	int rc = check_key_length(c, key, e);

	if (!rc)
		rc = head(c, key, deadline_mono_ns, &a, e);
	if (!rc)
		fill_stat(out, &a, a.length);
	s3_answer_release(&a);
	return rc;
}

/* ---- put ---- */

/*
 * The server's word is not enough: some ignore checksums, and a put that was cut short may look whole. Another
 * put or a remove may have come between; then what this one stored cannot be seen any more.
 */
static int verify_put(struct s3_client *c, const struct store_put *put, const char *nonce,
		      struct store_stat *out, struct err *e)
{
	struct s3_answer a = { 0 };
	int rc = head(c, put->key, put->deadline_mono_ns, &a, e);

	if (!rc && !strcmp(a.nonce, nonce) && a.length != put->len)
		rc = err_set(e, ERR_PEER, "the server keeps %llu of %llu bytes",
			     (unsigned long long)a.length, (unsigned long long)put->len);
	if (!rc)
		fill_stat(out, &a, a.length);
	else if (rc == ERR_NOT_FOUND) {
		*out = (struct store_stat){ .size = put->len, .modified_ns = now_real_ns() };
		rc = 0;
	}
	s3_answer_release(&a);
	return rc;
}

/* After a refusal: whether it was a put of ours, with this nonce, that got there first. This can be so at
 * the first attempt, too: libcurl sends a request again by itself when a kept connection breaks before the
 * answer. */
static bool is_ours(struct s3_client *c, const struct store_put *put, const char *nonce)
{
	struct s3_answer a = { 0 };
	bool ours = !head(c, put->key, put->deadline_mono_ns, &a, NULL) && !strcmp(a.nonce, nonce);

	s3_answer_release(&a);
	return ours;
}

static int s3_put(struct store *store, const struct store_put *put, struct store_stat *out,
		  struct err *e)
{
	struct s3_client *c = client_of(store);
	struct s3_call call = { .method = "PUT",
				.key = put->key,
				.body = put,
				.deadline_mono_ns = put->deadline_mono_ns };
	char nonce[S3_NONCE_CHARS + 1];
	uint8_t random[S3_NONCE_CHARS / 2];
	struct s3_tries tries = { 0 };
	struct s3_answer a = { 0 };
	int rc = check_key_length(c, put->key, e);

	if (!rc && put->len > S3_PUT_MAX)
		rc = err_set(e, ERR_LIMIT,
			     "%llu bytes; an S3 object of one request has 5 GiB at most",
			     (unsigned long long)put->len);
	if (rc)
		return rc;
	random_bytes(random, sizeof(random));
	hex_text(nonce, random, sizeof(random));
	call.headers[0] = (struct sigv4_pair){ "x-amz-meta-tutti-put", nonce };
	if (put->flags & STORE_ABSENT)
		call.headers[1] = (struct sigv4_pair){ "if-none-match", "*" };
	rc = s3_client_call(c, &call, &tries, &a, e);
	if (!rc && a.status == 412 && !is_ours(c, put, nonce))
		rc = err_set(e, ERR_EXISTS, "the key exists already");
	else if (!rc && a.status != 412 && a.status >= 300)
		rc = a.status == 404 ? err_set(e, ERR_PEER, "the bucket does not exist")
				     : s3_client_error(c, &a, e);
	if (!rc)
		rc = verify_put(c, put, nonce, out, e);
	s3_answer_release(&a);
	return rc;
}

/* ---- get ---- */

struct getting {
	const struct store_get *get;
	struct s3_answer *answer;
	uint64_t done; /* given to the sink */
	uint64_t skip; /* bytes of a server that ignores ranges */
	char tag[STORE_TAG_MAX +
		 1]; /* of the version whose bytes the sink has; "" before the first */
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
	if (g->done && strcmp(g->tag, g->answer->tag))
		return replaced(e);
	memcpy(g->tag, g->answer->tag, sizeof(g->tag));
	g->done += len;
	return g->get->sink(g->get->arg, data, len, e);
}

/* The rest of the bytes, of the same version. `range` and `match` have room for both headers. */
static void ask_for_rest(struct s3_call *call, struct getting *g, char range[64], char match[128])
{
	uint64_t from = g->get->offset + g->done;
	uint64_t last = g->get->len - g->done - 1; /* beyond `from` */
	size_t n = 0;

	memset(call->headers, 0, sizeof(call->headers));
	if (from || last < UINT64_MAX - 1) {
		if (last > UINT64_MAX - from)
			snprintf(range, 64, "bytes=%llu-", (unsigned long long)from);
		else
			snprintf(range, 64, "bytes=%llu-%llu", (unsigned long long)from,
				 (unsigned long long)(from + last));
		call->headers[n++] = (struct sigv4_pair){ "range", range };
	}
	if (g->done && *g->tag) {
		snprintf(match, 128, "\"%s\"", g->tag);
		call->headers[n++] = (struct sigv4_pair){ "if-match", match };
	}
	g->skip = from;
}

static int get_bytes(struct s3_client *c, struct getting *g, struct s3_answer *a, struct err *e)
{
	struct s3_call call = { .method = "GET",
				.key = g->get->key,
				.piece = on_piece,
				.arg = g,
				.deadline_mono_ns = g->get->deadline_mono_ns };
	char range[64], match[128];
	struct s3_tries tries = { 0 };
	int rc;

	do {
		uint64_t before = g->done;

		ask_for_rest(&call, g, range, match);
		rc = s3_client_send(c, &call, a, e);
		if (g->done > before)
			tries.n = 0;
		if (rc == ERR_CLOSED && g->done == g->get->len)
			rc = 0; /* only bytes that were not asked for are missing */
	} while (s3_client_tries_again(c, &tries, rc, a, g->get->deadline_mono_ns));
	return rc;
}

static int s3_get(struct store *store, const struct store_get *get, struct store_stat *out,
		  struct err *e)
{
	struct s3_client *c = client_of(store);
	struct s3_answer a = { 0 };
	struct getting g = { .get = get, .answer = &a };
	int rc = check_key_length(c, get->key, e);

	if (rc)
		return rc;
	if (get->len == 0 || get->offset > INT64_MAX)
		return s3_stat(store, get->key, get->deadline_mono_ns, out, e);
	rc = get_bytes(c, &g, &a, e);
	if (!rc && a.status == 416 && !g.done)
		rc = s3_stat(store, get->key, get->deadline_mono_ns, out, e);
	else if (!rc && (a.status == 412 || a.status == 404 || a.status == 416) && g.done)
		rc = replaced(e);
	else if (!rc && a.status >= 300)
		rc = s3_client_error(c, &a, e);
	else if (!rc)
		fill_stat(out, &a, a.has_total ? a.total : a.length);
	s3_answer_release(&a);
	return rc;
}

/* ---- list ---- */

struct listing {
	struct s3_client *client;
	const struct store_list *list;
	char last[STORE_KEY_MAX + 1]; /* the key before, with the prefix; "" = none */
	bool stopped;
};

/* Skips objects whose key is not valid for a store. */
static int give_item(struct listing *l, const struct s3_listed *item, struct err *e)
{
	const char *prefix = s3_client_prefix(l->client);
	const char *key = item->key + strlen(prefix);

	if (strlen(item->key) > KEY_MAX || strcmp(item->key, l->last) <= 0 ||
	    strncmp(item->key, prefix, strlen(prefix)))
		return err_set(e, ERR_PEER, "the server does not list in byte order of the keys");
	memcpy(l->last, item->key, strlen(item->key) + 1);
	if (!store_check_key(key, NULL) && store_listed(key, l->list->prefix, l->list->after))
		l->stopped = !l->list->each(l->list->arg, key, &item->st);
	return 0;
}

static int read_page(struct listing *l, const struct s3_call *call, struct s3_page *page,
		     struct err *e)
{
	struct s3_tries tries = { 0 };
	struct s3_answer a = { 0 };
	int rc = s3_client_call(l->client, call, &tries, &a, e);

	if (!rc && a.status != 200)
		rc = a.status == 404 ? err_set(e, ERR_PEER, "the bucket does not exist")
				     : s3_client_error(l->client, &a, e);
	if (!rc)
		rc = s3_page_read(page, a.body.data, a.body.len, e);
	s3_answer_release(&a);
	return rc;
}

static int list_pages(struct listing *l, struct s3_call *call, struct err *e)
{
	struct s3_page page = { 0 };
	char *token = NULL;
	int rc;

	do {
		if (token)
			call->query[4] = (struct sigv4_pair){ "continuation-token", token };
		rc = read_page(l, call, &page, e);
		for (size_t i = 0; !rc && !l->stopped && i < page.n; i++)
			rc = give_item(l, &page.items[i], e);
		free(token);
		token = page.truncated && page.next ? xstrdup(page.next) : NULL;
		s3_page_release(&page);
		if (!rc)
			rc = store_check_deadline(l->list->deadline_mono_ns, e);
	} while (!rc && !l->stopped && token);
	free(token);
	return rc;
}

static int s3_list(struct store *store, const struct store_list *list, struct err *e)
{
	struct listing l = { .client = client_of(store), .list = list };
	const char *own = s3_client_prefix(l.client);
	char *prefix = xasprintf("%s%s", own, list->prefix);
	char *after = list->after ? xasprintf("%s%s", own, list->after) : NULL;
	struct s3_call call = { .method = "GET", .deadline_mono_ns = list->deadline_mono_ns };
	int rc;

	call.query[0] = (struct sigv4_pair){ "list-type", "2" };
	call.query[1] = (struct sigv4_pair){ "encoding-type", "url" };
	call.query[2] = (struct sigv4_pair){ "max-keys", "1000" };
	call.query[3] = (struct sigv4_pair){ "prefix", prefix };
	if (after && strcmp(after, prefix) > 0)
		call.query[4] = (struct sigv4_pair){ "start-after", after };
	rc = list_pages(&l, &call, e);
	free(prefix);
	free(after);
	return rc;
}

/* ---- remove ---- */

static int s3_remove(struct store *store, const char *key, int64_t deadline_mono_ns, struct err *e)
{
	struct s3_client *c = client_of(store);
	const struct s3_call call = { .method = "DELETE",
				      .key = key,
				      .deadline_mono_ns = deadline_mono_ns };
	struct s3_tries tries = { 0 };
	struct s3_answer a = { 0 };
	int rc = check_key_length(c, key, e);

	if (!rc)
		rc = s3_client_call(c, &call, &tries, &a, e);
	if (!rc && a.status >= 300) {
		rc = s3_client_error(c, &a, e);
		if (rc == ERR_NOT_FOUND)
			rc = 0;
	}
	s3_answer_release(&a);
	return rc;
}

const struct store_ops store_s3_ops = {
	.scheme = "s3",
	.open = s3_open,
	.put = s3_put,
	.get = s3_get,
	.stat = s3_stat,
	.list = s3_list,
	.remove = s3_remove,
	.free = s3_free,
};
