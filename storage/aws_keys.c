/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/aws_keys.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "storage/aws_source.h"
#include "storage/s3_answer.h"

#define AGAIN_NS (10 * NS_PER_S) /* between two refreshes while the old keys are good */

/* In the order of AWS's own tools. */
static const struct aws_source sources[] = {
	{ "environment", aws_from_environment }, { "web identity", aws_from_web_identity },
	{ "profile", aws_from_profile },	 { "container", aws_from_container },
	{ "instance", aws_from_instance },
};

struct aws_chain {
	char *profile, *region;
	struct http_pool *http;
	pthread_mutex_t lock; /* guards the members below */
	pthread_cond_t fetched;
	struct aws_keys *keys; /* NULL before the first */
	bool fetching; /* one thread asks the sources */
	int64_t again_mono_ns; /* not before */
};

/* ---- memory ---- */

static struct aws_keys *keys_new(void)
{
	struct aws_keys *k = mmap(NULL, sizeof(*k), PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (k == MAP_FAILED)
		return NULL;
	madvise(k, sizeof(*k), MADV_DONTDUMP);
	k->refs = 1;
	k->end_s = AWS_NO_END;
	return k;
}

static void keys_free(struct aws_keys *k)
{
	explicit_bzero(k, sizeof(*k));
	munmap(k, sizeof(*k));
}

/* Lock held. NULL is fine. */
static void keys_unref(struct aws_keys *k)
{
	if (k && --k->refs == 0)
		keys_free(k);
}

struct sigv4_keys aws_keys_view(const struct aws_keys *keys)
{
	return (struct sigv4_keys){ keys->id, keys->secret, keys->token };
}

/* ---- what sources share ---- */

const char *aws_setting(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

int aws_take(char *out, size_t size, const char *value, const char *what, struct err *e)
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

static const char *json_member(const json_t *o, const char *name)
{
	const char *text = json_string_value(json_object_get(o, name));

	return text && *text ? text : NULL;
}

static int take_members(struct aws_keys *out, const json_t *o, const char *token_name,
			struct err *e)
{
	const char *id = json_member(o, "AccessKeyId");
	const char *secret = json_member(o, "SecretAccessKey");
	const char *token = json_member(o, token_name), *end = json_member(o, "Expiration");
	int rc;

	if (!id || !secret)
		return err_set(e, ERR_PEER, "the answer lacks AccessKeyId or SecretAccessKey");
	rc = aws_take(out->id, sizeof(out->id), id, "AccessKeyId", e);
	if (!rc)
		rc = aws_take(out->secret, sizeof(out->secret), secret, "SecretAccessKey", e);
	if (!rc && token)
		rc = aws_take(out->token, sizeof(out->token), token, token_name, e);
	if (!rc && end && (out->end_s = iso_time_read(end)) < 0)
		rc = err_set(e, ERR_PEER, "Expiration is no time");
	return rc;
}

/* jansson's copies of the secrets. */
static void wipe_members(json_t *o)
{
	const char *name;
	json_t *value;

	json_object_foreach(o, name, value) if (json_is_string(value))
		explicit_bzero((char *)json_string_value(value), json_string_length(value));
}

int aws_take_json(struct aws_keys *out, char *text, size_t len, const char *token_name,
		  struct err *e)
{
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	int rc = json_is_object(o) ? take_members(out, o, token_name, e)
				   : err_set(e, ERR_PEER, "the answer is no JSON object");

	if (json_is_object(o))
		wipe_members(o);
	json_decref(o);
	if (len)
		explicit_bzero(text, len);
	return rc;
}

int aws_from_environment(const struct aws_source_env *env, struct aws_keys *out, struct err *e)
{
	const char *id = aws_setting("AWS_ACCESS_KEY_ID");
	const char *secret = aws_setting("AWS_SECRET_ACCESS_KEY");
	const char *token = aws_setting("AWS_SESSION_TOKEN");
	int rc;

	(void)env;
	if (!id && !secret)
		return ERR_NOT_FOUND;
	if (!id || !secret)
		return err_set(e, ERR_INVALID,
			       "set both, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
	rc = aws_take(out->id, sizeof(out->id), id, "AWS_ACCESS_KEY_ID", e);
	if (!rc)
		rc = aws_take(out->secret, sizeof(out->secret), secret, "AWS_SECRET_ACCESS_KEY", e);
	if (!rc && token)
		rc = aws_take(out->token, sizeof(out->token), token, "AWS_SESSION_TOKEN", e);
	return rc;
}

/* ---- the chain ---- */

struct aws_chain *aws_chain_new(const struct aws_chain_conf *conf)
{
	struct aws_chain *c = xcalloc(1, sizeof(*c));
	const char *profile = conf->profile ? conf->profile : aws_setting("AWS_PROFILE");

	c->profile = xstrdup(profile ? profile : "default");
	c->region = xstrdup(conf->region);
	c->http = http_pool_new(conf->ca_file);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->fetched, NULL);
	return c;
}

void aws_chain_free(struct aws_chain *c)
{
	if (!c)
		return;
	keys_unref(c->keys);
	http_pool_free(c->http);
	pthread_cond_destroy(&c->fetched);
	pthread_mutex_destroy(&c->lock);
	free(c->profile);
	free(c->region);
	free(c);
}

static int fetch(const struct aws_chain *c, struct aws_keys **out, struct err *e)
{
	const struct aws_source_env env = { c->profile, c->region, c->http };
	struct aws_keys *k = keys_new();
	int rc = ERR_NOT_FOUND;

	if (!k)
		return err_errno(e, "memory for keys");
	for (size_t i = 0; rc == ERR_NOT_FOUND && i < ARRAY_SIZE(sources); i++) {
		rc = sources[i].get(&env, k, e);
		k->source = sources[i].name;
		if (rc && rc != ERR_NOT_FOUND)
			err_prefix(e, "keys from %s", sources[i].name);
	}
	if (rc == ERR_NOT_FOUND)
		rc = err_set(
			e, ERR_DENIED,
			"no keys: neither the environment (AWS_ACCESS_KEY_ID), profile \"%.60s\", "
			"a container's nor the instance's role has any",
			c->profile);
	if (rc)
		keys_free(k);
	else
		*out = k;
	return rc;
}

/* To be called with the lock held; releases it while it asks the sources, and takes it again. */
static int refresh(struct aws_chain *c, struct err *e)
{
	struct aws_keys *new = NULL;
	int rc;

	c->fetching = true;
	pthread_mutex_unlock(&c->lock);
	rc = fetch(c, &new, e);
	pthread_mutex_lock(&c->lock);
	c->fetching = false;
	if (!rc) {
		keys_unref(c->keys);
		c->keys = new;
	}
	c->again_mono_ns = now_mono_ns() + random_pause_ns(AGAIN_NS);
	pthread_cond_broadcast(&c->fetched);
	return rc;
}

/* Seconds that the present keys are good for; 0 without any. Lock held. */
static int64_t seconds_left(const struct aws_chain *c)
{
	int64_t now_s = now_real_ns() / NS_PER_S;

	if (!c->keys)
		return 0;
	if (c->keys->end_s == AWS_NO_END)
		return AWS_NO_END;
	return c->keys->end_s > now_s ? c->keys->end_s - now_s : 0;
}

int aws_keys_get(struct aws_chain *c, struct aws_keys **out, struct err *e)
{
	int64_t left;
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	while (c->fetching && !seconds_left(c))
		pthread_cond_wait(&c->fetched, &c->lock);
	left = seconds_left(c);
	if (left <= AWS_EARLY_S && !c->fetching && (!left || now_mono_ns() >= c->again_mono_ns))
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

void aws_keys_put(struct aws_chain *c, struct aws_keys *keys)
{
	pthread_mutex_lock(&c->lock);
	keys_unref(keys);
	pthread_mutex_unlock(&c->lock);
}
