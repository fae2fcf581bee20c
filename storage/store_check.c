/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/store_check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/hex.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "net/http_client_pool.h"

#define RACERS	  16
#define KEY_BYTES 64

static const char first[] = "0123456789", second[] = "another text";

struct check {
	struct store *store;
	int64_t deadline_mono_ns;
	void (*found)(void *arg, const struct store_finding *finding);
	void *arg;
	char prefix[KEY_BYTES]; /* "tutti/check/1f0e.../" */
	char key[KEY_BYTES + 8];
	bool all_ok;
};

/* Reports one finding. `good` is its text if `ok`, else `bad`, which says what the failure means for the
 * user. Returns `ok`. */
static bool report(struct check *c, const char *name, bool ok, const char *good, const char *bad,
		   const struct err *e)
{
	struct store_finding f = { .name = name, .ok = ok };

	if (ok)
		snprintf(f.text, sizeof(f.text), "%s", good);
	else if (e && *e->msg)
		snprintf(f.text, sizeof(f.text), "%s: %s", bad, e->msg);
	else
		snprintf(f.text, sizeof(f.text), "%s", bad);
	c->all_ok &= ok;
	c->found(c->arg, &f);
	return ok;
}

static bool check_put(struct check *c)
{
	struct err e = { 0 };
	int rc = store_put_bytes(c->store, c->key, first, strlen(first), STORE_ABSENT,
				 c->deadline_mono_ns, &e);

	return report(c, "put", !rc, "an object was put",
		      "no object can be put: nothing can be stored", &e);
}

static bool check_create_only(struct check *c)
{
	struct err e = { 0 };
	int rc = store_put_bytes(c->store, c->key, second, strlen(second), STORE_ABSENT,
				 c->deadline_mono_ns, &e);
	bool ignored = !rc;

	if (ignored)
		e.msg[0] = '\0';
	return report(
		c, "create-only", rc == ERR_EXISTS, "a second put of the same key was refused",
		ignored ? "a second put of the same key was not refused: use one aggregator only, "
			  "two could store the same session"
			: "a second put of the same key failed in another way than it should",
		&e);
}

static int add_bytes(void *arg, const void *data, size_t len, struct err *e)
{
	(void)e;
	buf_add(arg, data, len);
	return 0;
}

static bool check_get(struct check *c)
{
	struct buf all = BUF_INIT, part = BUF_INIT;
	struct store_get get = { .key = c->key,
				 .len = UINT64_MAX,
				 .sink = add_bytes,
				 .arg = &all,
				 .deadline_mono_ns = c->deadline_mono_ns };
	struct err e = { 0 };
	bool ok = !store_get(c->store, &get, NULL, &e) && !strcmp(buf_str(&all), first);

	report(c, "get", ok, "the object has the bytes that were put",
	       "the object does not have the bytes that were put: no session can be read", &e);
	get.offset = 3;
	get.len = 4;
	get.arg = &part;
	e = (struct err){ 0 };
	ok = !store_get(c->store, &get, NULL, &e) && !strcmp(buf_str(&part), "3456");
	report(c, "range", ok, "a part of the object was read alone",
	       "a part of the object cannot be read alone: an interrupted read cannot go on", &e);
	buf_release(&all);
	buf_release(&part);
	return ok;
}

static bool count_key(void *arg, const char *key, const struct store_stat *st)
{
	(void)key;
	*(uint64_t *)arg += st->size;
	return true;
}

static void check_list(struct check *c)
{
	uint64_t bytes = 0;
	struct err e = { 0 };
	int rc = store_list(c->store,
			    &(struct store_list){ .prefix = c->prefix,
						  .each = count_key,
						  .arg = &bytes,
						  .deadline_mono_ns = c->deadline_mono_ns },
			    &e);

	report(c, "list", !rc && bytes == strlen(first), "the object is listed with its size",
	       "the object is not listed: sessions cannot be found", &e);
}

static void check_replace(struct check *c)
{
	struct buf now = BUF_INIT;
	struct err e = { 0 };
	int rc = store_put_bytes(c->store, c->key, second, strlen(second), 0, c->deadline_mono_ns,
				 &e);

	if (!rc)
		rc = store_get_bytes(c->store, c->key, 100, c->deadline_mono_ns, &now, &e);
	report(c, "replace", !rc && !strcmp(buf_str(&now), second), "a put replaced the object",
	       "a put does not replace the object: captures under way cannot be kept on record",
	       &e);
	buf_release(&now);
}

struct racer {
	struct check *check;
	int rc;
	struct err e;
};

static void *race(void *arg)
{
	struct racer *r = arg;
	char key[KEY_BYTES + 8];

	snprintf(key, sizeof(key), "%srace", r->check->prefix);
	r->rc = store_put_bytes(r->check->store, key, first, strlen(first), STORE_ABSENT,
				r->check->deadline_mono_ns, &r->e);
	return NULL;
}

static void check_race(struct check *c)
{
	struct racer racers[RACERS] = { 0 };
	pthread_t threads[RACERS];
	int n = 0, winners = 0, losers = 0;
	char text[120];

	for (; n < RACERS; n++) {
		racers[n].check = c;
		if (pthread_create(&threads[n], NULL, race, &racers[n]))
			break;
	}
	for (int i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		winners += racers[i].rc == 0;
		losers += racers[i].rc == ERR_EXISTS;
	}
	snprintf(text, sizeof(text),
		 "of %d puts of one new key at once, %d succeeded and %d were refused", n, winners,
		 losers);
	report(c, "race", winners == 1 && losers == n - 1, text,
	       winners > 1
		       ? "several puts of one new key at once succeeded: use one aggregator only"
		       : text,
	       NULL);
}

/* ---- grants ---- */

#define VIA_AGGREGATOR "all bytes will pass through the aggregator"

/* The status of the answer to the grant's request with this text as its body. */
static int use_grant(const struct check *c, const struct store_grant *g, const char *text,
		     int *status, struct err *e)
{
	char *headers[STORE_GRANT_HEADERS + 1] = { 0 };
	const struct http_request req = { .method = g->method,
					  .url = g->url,
					  .headers = (const char *const *)headers,
					  .has_body = true,
					  .data = text,
					  .fd = -1,
					  .len = strlen(text),
					  .answer_max = (size_t)64 << 10,
					  .deadline_mono_ns = c->deadline_mono_ns };
	struct buf answer = BUF_INIT;
	int rc;

	memcpy(headers, g->headers, sizeof(g->headers));
	rc = http_pool_request(c->store->http, &req, status, &answer, e);
	buf_release(&answer);
	return rc;
}

/* A grant for an object of `first`. */
static int make_grant(const struct check *c, const char *name, struct store_grant *g, struct err *e)
{
	char key[KEY_BYTES + 8];
	const struct store_grant_request req = { .key = key,
						 .len = strlen(first),
						 .crc32c = crc32c(0, first, strlen(first)),
						 .life_ns = 60 * NS_PER_S,
						 .deadline_mono_ns = c->deadline_mono_ns };

	snprintf(key, sizeof(key), "%s%s", c->prefix, name);
	return store_grant(c->store, &req, g, e);
}

/* Whether the server refuses an object of another size than the grant's. */
static bool holds_to_size(const struct check *c)
{
	struct store_grant g = { 0 };
	int status = 0;
	bool refused = !make_grant(c, "size", &g, NULL) &&
		       !use_grant(c, &g, second, &status, NULL) && status >= 400;

	store_grant_release(&g);
	return refused;
}

static void check_used_twice(struct check *c, const struct store_grant *g)
{
	struct err e = { 0 };
	int status = 0;
	int rc = use_grant(c, g, first, &status, &e);

	report(c, "grant-once", !rc && status >= 400, "a grant was refused when it was used again",
	       "a grant can be used again: start the aggregator with --upload via-aggregator", &e);
}

static void check_grant(struct check *c)
{
	struct store_grant g = { 0 };
	struct err e = { 0 };
	int status = 0, rc = 0;
	bool is_made;

	if (!c->store->grants) {
		report(c, "grant", true, "the store makes no grants: " VIA_AGGREGATOR, "", NULL);
		return;
	}
	rc = make_grant(c, "grant", &g, &e);
	is_made = !rc;
	if (is_made)
		rc = use_grant(c, &g, first, &status, &e);
	if (!rc && status / 100 != 2)
		rc = err_set(&e, ERR_PEER, "the server answers %d", status);
	if (report(c, "grant", !rc,
		   !rc && holds_to_size(c)
			   ? "agents can put files themselves, by grants"
			   : "agents can put files themselves, by grants; the store does not hold "
			     "them to the size, which is compared before a session is committed",
		   is_made ? "a grant is of no use: start the aggregator with --upload "
			     "via-aggregator"
			   : "no grant can be made: " VIA_AGGREGATOR,
		   &e))
		check_used_twice(c, &g);
	store_grant_release(&g);
}

/* ---- removing ---- */

struct left {
	char *keys[RACERS + 4];
	size_t n;
};

static bool add_left(void *arg, const char *key, const struct store_stat *st)
{
	struct left *left = arg;

	(void)st;
	left->keys[left->n++] = xstrdup(key);
	return left->n < ARRAY_SIZE(left->keys);
}

static void check_remove(struct check *c)
{
	struct left left = { 0 };
	struct store_list list = { .prefix = c->prefix,
				   .each = add_left,
				   .arg = &left,
				   .deadline_mono_ns = c->deadline_mono_ns };
	uint64_t bytes = 0;
	struct err e = { 0 };
	int rc = store_list(c->store, &list, &e);
	bool gone;

	if (!rc)
		rc = store_remove_all(c->store, (const char *const *)left.keys, left.n,
				      c->deadline_mono_ns, &e);
	list.each = count_key;
	list.arg = &bytes;
	if (!rc)
		rc = store_list(c->store, &list, &e);
	gone = !rc && !bytes;
	if (gone)
		gone = store_stat(c->store, c->key, c->deadline_mono_ns, NULL, &e) == ERR_NOT_FOUND;
	report(c, "remove", gone, "the objects were removed",
	       "the objects cannot be removed, or are still seen: sessions cannot be deleted", &e);
	for (size_t i = 0; i < left.n; i++)
		free(left.keys[i]);
}

bool store_check(struct store *s, int64_t deadline_mono_ns,
		 void (*found)(void *arg, const struct store_finding *finding), void *arg)
{
	struct check c = { .store = s,
			   .deadline_mono_ns = deadline_mono_ns,
			   .found = found,
			   .arg = arg,
			   .all_ok = true };
	uint8_t random[8];
	char name[17];

	random_bytes(random, sizeof(random));
	hex_text(name, random, sizeof(random));
	snprintf(c.prefix, sizeof(c.prefix), "tutti/check/%s/", name);
	snprintf(c.key, sizeof(c.key), "%sprobe", c.prefix);
	if (!check_put(&c))
		return false;
	if (check_create_only(&c) && check_get(&c)) {
		check_list(&c);
		check_replace(&c);
		check_race(&c);
		check_grant(&c);
	}
	check_remove(&c);
	return c.all_ok;
}
