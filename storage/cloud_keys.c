/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/cloud_keys.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"

#define AGAIN_NS (10 * NS_PER_S) /* between two refreshes while the old keys are good */

struct keys_chain {
	const struct keys_source *sources;
	size_t n_sources;
	char *looked, *profile, *region;
	struct http_pool *http;
	void *arg;
	pthread_mutex_t lock; /* guards the members below */
	pthread_cond_t fetched;
	struct cloud_keys *keys; /* NULL before the first */
	bool fetching; /* one thread asks the sources */
	bool refused; /* the store does not take `keys` any more */
	uint64_t serial; /* of the last keys */
	int64_t again_mono_ns; /* not before */
};

/* ---- memory ---- */

static struct cloud_keys *keys_new(void)
{
	struct cloud_keys *k = mmap(NULL, sizeof(*k), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (k == MAP_FAILED)
		return NULL;
	madvise(k, sizeof(*k), MADV_DONTDUMP);
	k->refs = 1;
	k->end_s = KEYS_NO_END;
	return k;
}

static void keys_free(struct cloud_keys *k)
{
	explicit_bzero(k, sizeof(*k));
	munmap(k, sizeof(*k));
}

/* Lock held. NULL is fine. */
static void keys_unref(struct cloud_keys *k)
{
	if (k && --k->refs == 0)
		keys_free(k);
}

/* ---- what sources share ---- */

const char *keys_setting(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

int keys_take(char *out, size_t size, const char *value, const char *what, struct err *e)
{
	size_t len = strlen(value);

	for (size_t i = 0; i < len; i++)
		if (value[i] <= ' ' || value[i] > '~')
			return err_set(e, ERR_INVALID, "%s has a character that no key has", what);
	if (len >= size)
		return err_set(e, ERR_INVALID, "%s has %zu characters, at most %zu", what, len,
			       size - 1);
	memcpy(out, value, len + 1);
	return 0;
}

/* ---- the chain ---- */

struct keys_chain *keys_chain_new(const struct keys_conf *conf)
{
	struct keys_chain *c = xcalloc(1, sizeof(*c));

	c->sources = conf->sources;
	c->n_sources = conf->n;
	c->looked = xstrdup(conf->looked);
	c->arg = conf->arg;
	c->profile = conf->profile ? xstrdup(conf->profile) : NULL;
	c->region = conf->region ? xstrdup(conf->region) : NULL;
	c->http = http_pool_new(conf->ca_file);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->fetched, NULL);
	return c;
}

void keys_chain_free(struct keys_chain *c)
{
	if (!c)
		return;
	keys_unref(c->keys);
	http_pool_free(c->http);
	pthread_cond_destroy(&c->fetched);
	pthread_mutex_destroy(&c->lock);
	free(c->looked);
	free(c->profile);
	free(c->region);
	free(c);
}

static int fetch(const struct keys_chain *c, struct cloud_keys **out, struct err *e)
{
	const struct keys_env env = { c->profile, c->region, c->http, c->arg };
	struct cloud_keys *k = keys_new();
	int rc = ERR_NOT_FOUND;

	if (!k)
		return err_errno(e, "memory for keys");
	for (size_t i = 0; rc == ERR_NOT_FOUND && i < c->n_sources; i++) {
		rc = c->sources[i].get(&env, k, e);
		k->source = c->sources[i].name;
		if (rc && rc != ERR_NOT_FOUND)
			err_prefix(e, "keys from %s", c->sources[i].name);
	}
	if (rc == ERR_NOT_FOUND)
		rc = err_set(e, ERR_DENIED, "no keys: %s", c->looked);
	if (rc)
		keys_free(k);
	else
		*out = k;
	return rc;
}

/* To be called with the lock held; releases it while it asks the sources, and takes it again. */
static int refresh(struct keys_chain *c, struct err *e)
{
	struct cloud_keys *new = NULL;
	int rc;

	c->fetching = true;
	pthread_mutex_unlock(&c->lock);
	rc = fetch(c, &new, e);
	pthread_mutex_lock(&c->lock);
	c->fetching = c->refused = false;
	if (!rc) {
		keys_unref(c->keys);
		c->keys = new;
		new->serial = ++c->serial;
	}
	c->again_mono_ns = now_mono_ns() + random_pause_ns(AGAIN_NS);
	pthread_cond_broadcast(&c->fetched);
	return rc;
}

/* Seconds that the present keys are good for; 0 without any. Lock held. */
static int64_t seconds_left(const struct keys_chain *c)
{
	int64_t now_s = now_real_ns() / NS_PER_S;

	if (!c->keys)
		return 0;
	if (c->keys->end_s == KEYS_NO_END)
		return KEYS_NO_END;
	return c->keys->end_s > now_s ? c->keys->end_s - now_s : 0;
}

int cloud_keys_get(struct keys_chain *c, struct cloud_keys **out, struct err *e)
{
	int64_t left;
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	while (c->fetching && (c->refused || !seconds_left(c)))
		pthread_cond_wait(&c->fetched, &c->lock);
	left = seconds_left(c);
	if (!c->fetching &&
	    (c->refused || !left || (left <= KEYS_EARLY_S && now_mono_ns() >= c->again_mono_ns)))
		rc = refresh(c, e);
	if (seconds_left(c)) {
		*out = c->keys;
		c->keys->refs++;
		rc = 0;
	} else if (!rc) {
		rc = err_set(e, ERR_DENIED, "the keys from %s have ended",
			     c->keys ? c->keys->source : "their source");
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

void cloud_keys_put(struct keys_chain *c, struct cloud_keys *keys)
{
	pthread_mutex_lock(&c->lock);
	keys_unref(keys);
	pthread_mutex_unlock(&c->lock);
}

void cloud_keys_refused(struct keys_chain *c, uint64_t serial)
{
	pthread_mutex_lock(&c->lock);
	if (c->keys && c->keys->serial == serial)
		c->refused = true;
	pthread_mutex_unlock(&c->lock);
}
