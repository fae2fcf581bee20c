/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/enrol/records.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include <jansson.h>

#include "aggregator/enrol/records_place.h"
#include "base/buf.h"
#include "base/hex.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/secret.h"
#include "json/json_text.h"
#include "net/digest.h"
#include "proto/names.h"

#define KEPT_AFTER_S  (7 * 86400) /* a token that has ended is named as such for so long */
#define TOKEN_RANDOM  32
#define ANY_USES_LEFT (-1)

struct revoked {
	char *host;
	int64_t lifted_s; /* 0 = it still is */
};

struct token {
	char digest[DIGEST_HEX_BYTES];
	char *host;
	int64_t until_s, left; /* ANY_USES_LEFT = any number */
};

struct saving {
	records_fn fn;
	void *arg;
	STAILQ_ENTRY(saving) next;
};
STAILQ_HEAD(savings, saving);

struct records {
	struct jobs *jobs;
	char *path;
	struct records_place
		place; /* the worker's while there is a batch, as `text`, `rc` and `e` */
	uint64_t epoch;
	struct revoked *revoked; /* by name */
	size_t n_revoked;
	struct token *tokens; /* the oldest first */
	size_t n_tokens;
	struct savings waiting, batch; /* the batch is being written */
	struct buf text;
	int rc;
	struct err e;
};

/* ---- the file ---- */

static json_t *to_json(const struct records *r)
{
	json_t *doc = json_object(), *revoked = json_array(), *tokens = json_array();

	for (size_t i = 0; i < r->n_revoked; i++) {
		json_t *o = json_object();

		json_put_text(o, "host", r->revoked[i].host);
		json_put_int(o, "lifted_s", r->revoked[i].lifted_s);
		json_array_append_new(revoked, o);
	}
	for (size_t i = 0; i < r->n_tokens; i++) {
		json_t *o = json_object();

		json_put_text(o, "digest", r->tokens[i].digest);
		json_put_text(o, "host", r->tokens[i].host);
		json_put_int(o, "until_s", r->tokens[i].until_s);
		json_put_int(o, "left", r->tokens[i].left);
		json_array_append_new(tokens, o);
	}
	json_put_int(doc, "epoch", (int64_t)r->epoch);
	json_put(doc, "revoked", revoked);
	json_put(doc, "tokens", tokens);
	return doc;
}

/* How many of the revoked have a name before this one. */
static size_t place_of(const struct records *r, const char *host)
{
	size_t low = 0, high = r->n_revoked;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(r->revoked[mid].host, host) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void add_revoked(struct records *r, const char *host, int64_t lifted_s)
{
	size_t at = place_of(r, host);

	if (!(r->n_revoked & (r->n_revoked - 1))) /* full: they double */
		r->revoked = xrealloc(r->revoked, (2 * r->n_revoked + 1) * sizeof(*r->revoked));
	memmove(&r->revoked[at + 1], &r->revoked[at], (r->n_revoked - at) * sizeof(*r->revoked));
	r->revoked[at] = (struct revoked){ .host = xstrdup(host), .lifted_s = lifted_s };
	r->n_revoked++;
}

static struct token *add_token(struct records *r, const char *digest, const char *host)
{
	struct token *t;

	r->tokens = xrealloc(r->tokens, (r->n_tokens + 1) * sizeof(*r->tokens));
	t = &r->tokens[r->n_tokens++];
	*t = (struct token){ .host = xstrdup(host) };
	memcpy(t->digest, digest, sizeof(t->digest));
	return t;
}

static int take_token(struct records *r, const json_t *item)
{
	const char *digest = json_get_text(item, "digest");
	struct token *t;

	if (strlen(digest) != DIGEST_HEX_BYTES - 1 || !json_get_int(item, "until_s"))
		return ERR_INVALID;
	t = add_token(r, digest, json_get_text(item, "host"));
	t->until_s = json_get_int(item, "until_s");
	t->left = json_get_int(item, "left");
	return 0;
}

static int from_json(struct records *r, const json_t *doc)
{
	json_t *item;
	size_t i;
	int rc = json_get_int(doc, "epoch") > 0 ? 0 : ERR_INVALID;

	r->epoch = (uint64_t)json_get_int(doc, "epoch");
	json_array_foreach(json_object_get(doc, "revoked"), i, item)
	{
		if (!rc)
			rc = name_check_host(json_get_text(item, "host"), NULL);
		if (!rc)
			add_revoked(r, json_get_text(item, "host"), json_get_int(item, "lifted_s"));
	}
	json_array_foreach(json_object_get(doc, "tokens"), i, item)
	{
		if (!rc)
			rc = take_token(r, item);
	}
	return rc;
}

static int load(struct records *r, struct err *e)
{
	struct buf text = BUF_INIT;
	json_t *doc = NULL;
	int rc = records_place_load(&r->place, &text, e);

	if (!rc && text.len)
		rc = json_parse(&doc, text.data, text.len, e);
	if (!rc && doc && from_json(r, doc))
		rc = err_set(e, ERR_INVALID,
			     "%s is damaged: whoever was revoked in it would be let in again",
			     r->place.store ? "the record in the store" : r->path);
	json_decref(doc);
	buf_release(&text);
	return rc;
}

static void run_batch(void *arg)
{
	struct records *r = arg;

	r->rc = records_place_save(&r->place, &r->text, &r->e);
}

static void begin_batch(struct records *r);

static void done_batch(void *arg)
{
	struct records *r = arg;
	struct savings done = STAILQ_HEAD_INITIALIZER(done);
	struct saving *s;

	STAILQ_CONCAT(&done, &r->batch);
	while ((s = STAILQ_FIRST(&done))) {
		STAILQ_REMOVE_HEAD(&done, next);
		s->fn(s->arg, r->rc ? &r->e : NULL);
		free(s);
	}
	begin_batch(r);
}

static void begin_batch(struct records *r)
{
	if (!STAILQ_EMPTY(&r->batch) || STAILQ_EMPTY(&r->waiting))
		return;
	STAILQ_CONCAT(&r->batch, &r->waiting);
	buf_reset(&r->text);
	json_write(&r->text, to_json(r), 0);
	jobs_work(r->jobs, run_batch, done_batch, r);
}

void records_save(struct records *r, records_fn fn, void *arg)
{
	struct saving *s = xcalloc(1, sizeof(*s));

	*s = (struct saving){ .fn = fn, .arg = arg };
	STAILQ_INSERT_TAIL(&r->waiting, s, next);
	begin_batch(r);
}

/* ---- life ---- */

int records_open(struct records **out, struct jobs *jobs, const char *path, struct store *store,
		 struct err *e)
{
	struct records *r = xcalloc(1, sizeof(*r));
	int rc;

	r->jobs = jobs;
	r->path = xstrdup(path);
	r->place = (struct records_place){ .path = r->path, .store = store };
	r->epoch = 1;
	STAILQ_INIT(&r->waiting);
	STAILQ_INIT(&r->batch);
	rc = load(r, e);
	if (rc)
		records_free(r);
	else
		*out = r;
	return rc;
}

void records_free(struct records *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n_revoked; i++)
		free(r->revoked[i].host);
	for (size_t i = 0; i < r->n_tokens; i++)
		free(r->tokens[i].host);
	free(r->revoked);
	free(r->tokens);
	buf_release(&r->text);
	free(r->path);
	free(r);
}

/* ---- epochs and revocations ---- */

uint64_t records_epoch(const struct records *r)
{
	return r->epoch;
}

/* What was revoked and lifted has certificates of earlier epochs only, which are refused for that. */
static void forget_lifted(struct records *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->n_revoked; i++) {
		if (r->revoked[i].lifted_s)
			free(r->revoked[i].host);
		else
			r->revoked[kept++] = r->revoked[i];
	}
	r->n_revoked = kept;
}

void records_next_epoch(struct records *r)
{
	r->epoch++;
	forget_lifted(r);
}

static struct revoked *find_revoked(const struct records *r, const char *host)
{
	size_t at = place_of(r, host);

	return at < r->n_revoked && !strcmp(r->revoked[at].host, host) ? &r->revoked[at] : NULL;
}

int records_revoke(struct records *r, const char *host, struct err *e)
{
	struct revoked *old = find_revoked(r, host);

	if (old) {
		old->lifted_s = 0;
		return 0;
	}
	if (r->n_revoked == RECORDS_REVOKED_MOST)
		return err_set(e, ERR_LIMIT,
			       "%d hosts are revoked: revoke all certificates by their epoch",
			       RECORDS_REVOKED_MOST);
	add_revoked(r, host, 0);
	return 0;
}

int records_lift(struct records *r, const char *host, int64_t now_s, struct err *e)
{
	struct revoked *old = find_revoked(r, host);

	if (!old || old->lifted_s)
		return err_set(e, ERR_NOT_FOUND, "the host '%.130s' is not revoked", host);
	old->lifted_s = now_s;
	return 0;
}

static int refuse_revoked(const struct revoked *v, struct err *e)
{
	if (!v || v->lifted_s)
		return 0;
	return err_set(e, ERR_DENIED, "the host '%s' is revoked", v->host);
}

int records_check_host(const struct records *r, const char *host, struct err *e)
{
	return refuse_revoked(find_revoked(r, host), e);
}

int records_check(const struct records *r, const struct cert_host *host, struct err *e)
{
	const struct revoked *v = find_revoked(r, host->name);
	int rc = refuse_revoked(v, e);

	if (rc)
		return rc;
	/* it begins a little early, for clocks that differ */
	if (v && host->begin_s + CERT_EARLY_S <= v->lifted_s)
		return err_set(e, ERR_DENIED,
			       "the certificate of host '%s' is from before it was revoked",
			       host->name);
	if (host->epoch < r->epoch)
		return err_set(e, ERR_DENIED,
			       "the certificate of host '%s' is of epoch %" PRIu64
			       ", which is revoked: now is %" PRIu64,
			       host->name, host->epoch, r->epoch);
	return 0;
}

/* ---- join tokens ---- */

static void forget_old(struct records *r, int64_t now_s)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->n_tokens; i++) {
		if (r->tokens[i].until_s + KEPT_AFTER_S < now_s)
			free(r->tokens[i].host);
		else
			r->tokens[kept++] = r->tokens[i];
	}
	r->n_tokens = kept;
}

/* Whether the oldest one that lets no host in any more made room. */
static bool forget_useless(struct records *r, int64_t now_s)
{
	for (size_t i = 0; i < r->n_tokens; i++) {
		if (r->tokens[i].until_s > now_s && r->tokens[i].left)
			continue;
		free(r->tokens[i].host);
		r->n_tokens--;
		memmove(&r->tokens[i], &r->tokens[i + 1], (r->n_tokens - i) * sizeof(*r->tokens));
		return true;
	}
	return false;
}

int records_add_token(struct records *r, const struct join_rules *rules, int64_t now_s,
		      char out[RECORDS_TOKEN_BYTES], struct err *e)
{
	char digits[2 * TOKEN_RANDOM + 1], digest[DIGEST_HEX_BYTES];
	uint8_t random[TOKEN_RANDOM];
	struct token *t;

	forget_old(r, now_s);
	if (r->n_tokens >= RECORDS_TOKENS_MOST && !forget_useless(r, now_s))
		return err_set(e, ERR_LIMIT, "%d join tokens are good for hosts: let some end",
			       RECORDS_TOKENS_MOST);
	random_bytes(random, sizeof(random));
	hex_text(digits, random, sizeof(random));
	snprintf(out, RECORDS_TOKEN_BYTES, RECORDS_TOKEN_BEGIN "%s", digits);
	digest_sha256(out, strlen(out), digest);
	t = add_token(r, digest, rules->host);
	t->until_s = rules->until_s;
	t->left = rules->uses ? rules->uses : ANY_USES_LEFT;
	explicit_bzero(random, sizeof(random));
	explicit_bzero(digits, sizeof(digits));
	return 0;
}

/* Takes the same time wherever it is, and where it is not. */
static struct token *find_token(const struct records *r, const char *token)
{
	char digest[DIGEST_HEX_BYTES];
	struct token *found = NULL;

	digest_sha256(token, strlen(token), digest);
	for (size_t i = 0; i < r->n_tokens; i++) {
		if (secret_equal(r->tokens[i].digest, digest))
			found = &r->tokens[i];
	}
	return found;
}

int records_use_token(struct records *r, const char *token, const char *host, int64_t now_s,
		      struct err *e)
{
	struct token *t = find_token(r, token);

	if (!t)
		return err_set(e, ERR_DENIED, "this join token is not known here");
	if (t->until_s <= now_s)
		return err_set(e, ERR_DENIED, "this join token has expired");
	if (*t->host && fnmatch(t->host, host, 0))
		return err_set(e, ERR_DENIED,
			       "this join token is for hosts '%.60s', not for '%.130s'", t->host,
			       host);
	if (!t->left)
		return err_set(e, ERR_DENIED, "this join token is used up");
	if (t->left > 0)
		t->left--;
	return 0;
}
