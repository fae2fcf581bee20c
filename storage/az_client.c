/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/az_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/now.h"
#include "base/percent.h"
#include "storage/az_grant.h"
#include "storage/az_keys.h"
#include "storage/cloud_settings.h"
#include "storage/keys_service.h"

#define LOWER_AND_DIGITS "abcdefghijklmnopqrstuvwxyz0123456789"
#define DATE_BYTES	 32

enum setting { ENDPOINT, CA, N_SETTINGS };

static const char *const names[N_SETTINGS] = { "endpoint", "ca" };

struct az_client {
	char *account, *container, *prefix;
	char *origin; /* "https://account.blob.core.windows.net" */
	bool account_in_path;
	struct http_pool *http;
	struct keys_chain *keys;
	struct keys_chain *delegated; /* keys that sign grants, where `keys` are tokens */
};

/* ---- settings ---- */

static bool is_name(const char *name, const char *chars, size_t min, size_t max)
{
	size_t len = strlen(name);

	return len >= min && len <= max && strspn(name, chars) == len && *name != '-';
}

static int set_origin(struct az_client *c, const char *given, struct err *e)
{
	const char *host;
	size_t len = strlen(c->account);
	int rc;

	c->origin = given ? xstrdup(given)
			  : xasprintf("https://%s.blob.core.windows.net", c->account);
	rc = cloud_check_endpoint(c->origin, e);
	if (!rc) {
		host = az_client_host(c);
		c->account_in_path = strncmp(host, c->account, len) || host[len] != '.';
	}
	return rc;
}

static int read_settings(struct az_client *c, const char *rest, char *values[N_SETTINGS],
			 struct err *e)
{
	const char *query = strchr(rest, '?');
	size_t end = query ? (size_t)(query - rest) : strlen(rest);
	size_t account_len = strcspn(rest, "/?");
	size_t at = account_len < end ? account_len + 1 : end;
	size_t container_len = strcspn(rest + at, "/?");
	int rc = 0;

	c->account = xstrndup(rest, account_len);
	c->container = xstrndup(rest + at, container_len);
	at += container_len;
	at += at < end;
	if (!is_name(c->account, LOWER_AND_DIGITS, 3, 24) ||
	    !is_name(c->container, LOWER_AND_DIGITS "-", 3, 63))
		rc = err_set(
			e, ERR_INVALID,
			"expected az://ACCOUNT/CONTAINER/PREFIX, with an account of 3 to 24 of "
			"a-z 0-9 and a container of 3 to 63 of a-z 0-9 -");
	if (!rc)
		rc = cloud_take_prefix(&c->prefix, rest + at, end - at, e);
	if (!rc && query)
		rc = cloud_read_settings(query + 1, names, N_SETTINGS, values, e);
	return rc ? rc : set_origin(c, values[ENDPOINT], e);
}

static int from_delegation(const struct keys_env *env, struct cloud_keys *out, struct err *e);

static const struct keys_source delegation = { "delegation", from_delegation };

int az_client_open(struct az_client **out, const char *rest, struct err *e)
{
	struct az_client *c = xcalloc(1, sizeof(*c));
	char *values[N_SETTINGS] = { 0 };
	int rc = read_settings(c, rest, values, e);

	if (!rc) {
		c->http = http_pool_new(values[CA]);
		c->keys = az_chain_new(values[CA]);
		c->delegated = keys_chain_new(&(struct keys_conf){
			.sources = &delegation, .n = 1, .looked = "none is delegated", .arg = c });
		*out = c;
	} else {
		az_client_free(c);
	}
	for (size_t i = 0; i < N_SETTINGS; i++)
		free(values[i]);
	return rc;
}

void az_client_free(struct az_client *c)
{
	if (!c)
		return;
	http_pool_free(c->http);
	keys_chain_free(c->delegated);
	keys_chain_free(c->keys);
	free(c->account);
	free(c->container);
	free(c->prefix);
	free(c->origin);
	free(c);
}

const char *az_client_prefix(const struct az_client *c)
{
	return c->prefix;
}

const char *az_client_host(const struct az_client *c)
{
	return strstr(c->origin, "://") + 3;
}

struct http_pool *az_client_http(const struct az_client *c)
{
	return c->http;
}

struct keys_chain *az_client_keys(const struct az_client *c)
{
	return c->keys;
}

/* ---- one request ---- */

static void add_path(const struct az_client *c, bool is_account, const char *key, struct buf *out)
{
	buf_addf(out, "%s%s/%s", c->account_in_path ? "/" : "",
		 c->account_in_path ? c->account : "", is_account ? "" : c->container);
	if (!key)
		return;
	buf_add_u8(out, '/');
	percent_encode(out, c->prefix, "/");
	percent_encode(out, key, "/");
}

static size_t count_pairs(const struct sigv4_pair *pairs, size_t max)
{
	size_t n = 0;

	while (n < max && pairs[n].name)
		n++;
	return n;
}

/* "Fri, 24 May 2013 00:00:00 GMT" */
static void write_date(int64_t unix_s, char out[DATE_BYTES])
{
	time_t at = (time_t)unix_s;
	struct tm tm;

	gmtime_r(&at, &tm);
	if (!strftime(out, DATE_BYTES, "%a, %d %b %Y %H:%M:%S GMT", &tm))
		*out = '\0';
}

static int add_signature(const struct az_client *c, const struct az_call *call,
			 const struct cloud_keys *keys, const char *path,
			 const struct sigv4_pair *headers, size_t n_headers,
			 struct cloud_headers *out, struct err *e)
{
	const struct shared_key_request req = {
		.account = c->account,
		.method = call->method,
		.path = path,
		.query = call->query,
		.n_query = count_pairs(call->query, ARRAY_SIZE(call->query)),
		.headers = headers,
		.n_headers = n_headers,
		.len = call->body ? call->body->len : 0,
	};
	char mac[SHARED_KEY_MAC_BYTES], *text;
	int rc = shared_key_sign(keys->secret, &req, mac, e);

	if (rc)
		return rc;
	text = xasprintf("SharedKey %s:%s", c->account, mac);
	cloud_headers_add(out, "Authorization", text);
	free(text);
	return 0;
}

/* A token could be used by whoever reads it on its way. */
static int check_way(const struct az_client *c, struct err *e)
{
	return service_check_url(c->origin, "a token is for", e);
}

/* The header or the part of the query that proves who asks. */
static int add_proof(const struct az_client *c, const struct az_call *call,
		     const struct cloud_keys *keys, int64_t unix_s, struct cloud_headers *out,
		     struct buf *url, struct err *e)
{
	struct sigv4_pair headers[ARRAY_SIZE(call->headers) + 2];
	size_t n = count_pairs(call->headers, ARRAY_SIZE(call->headers));
	char date[DATE_BYTES], *bearer;
	int rc = keys->kind == KEYS_SECRET ? 0 : check_way(c, e);

	if (rc)
		return rc;
	write_date(unix_s, date);
	memcpy(headers, call->headers, n * sizeof(*headers));
	headers[n++] = (struct sigv4_pair){ "x-ms-date", date };
	headers[n++] = (struct sigv4_pair){ "x-ms-version", SHARED_KEY_VERSION };
	for (size_t i = 0; i < n; i++)
		cloud_headers_add(out, headers[i].name, headers[i].value);
	if (keys->kind == KEYS_SECRET)
		return add_signature(c, call, keys, buf_str(url) + strlen(c->origin), headers, n,
				     out, e);
	if (keys->kind == KEYS_BEARER) {
		bearer = xasprintf("Bearer %s", keys->token);
		cloud_headers_add(out, "Authorization", bearer);
		cloud_wipe_text(bearer);
	}
	return 0;
}

static void add_query(const struct az_call *call, const struct cloud_keys *keys, struct buf *url)
{
	size_t n = count_pairs(call->query, ARRAY_SIZE(call->query));

	for (size_t i = 0; i < n; i++) {
		buf_addf(url, "%c%s=", i ? '&' : '?', call->query[i].name);
		percent_encode(url, call->query[i].value, "");
	}
	if (keys->kind == KEYS_QUERY)
		buf_addf(url, "%c%s", n ? '&' : '?', keys->token);
}

int az_client_send(struct az_client *c, const struct az_call *call, int64_t unix_s,
		   struct cloud_answer *a, struct err *e)
{
	struct cloud_headers h = { 0 };
	struct cloud_request req = { .method = call->method,
				     .headers = &h,
				     .body = call->body,
				     .piece = call->piece,
				     .arg = call->arg,
				     .deadline_mono_ns = call->deadline_mono_ns };
	struct buf url = BUF_INIT;
	struct cloud_keys *keys;
	int rc;

	cloud_answer_release(a);
	rc = cloud_keys_get(c->keys, &keys, e);
	if (rc)
		return rc;
	buf_add_str(&url, c->origin);
	add_path(c, call->is_account, call->key, &url);
	rc = add_proof(c, call, keys, unix_s, &h, &url, e);
	add_query(call, keys, &url);
	a->keys_serial = keys->serial;
	cloud_keys_put(c->keys, keys);
	if (!rc) {
		req.url = buf_str(&url);
		rc = cloud_http_send(c->http, &req, a, e);
	}
	cloud_headers_release(&h);
	service_wipe(&url);
	return rc;
}

/* ---- grants ---- */

static int take_delegation(const struct az_client *c, const struct cloud_answer *a,
			   struct cloud_keys *out, struct err *e)
{
	if (a->status == 200)
		return az_delegation_read(out, a->body.data, a->body.len, e);
	return err_set(e, a->status == 401 || a->status == 403 ? ERR_DENIED : ERR_PEER,
		       "%s answers %d %s: %s", az_client_host(c), a->status, a->code, a->message);
}

static int from_delegation(const struct keys_env *env, struct cloud_keys *out, struct err *e)
{
	struct az_client *c = env->arg;
	int64_t unix_s = now_real_ns() / NS_PER_S;
	struct buf body = BUF_INIT;
	struct store_put put = { .fd = -1 };
	struct az_call call = { .method = "POST",
				.is_account = true,
				.body = &put,
				.deadline_mono_ns = store_within(KEYS_PATIENCE_S * NS_PER_S) };
	struct cloud_answer a = { 0 };
	int rc;

	az_delegation_ask(unix_s, &body);
	put.data = body.data;
	put.len = body.len;
	call.query[0] = (struct sigv4_pair){ "restype", "service" };
	call.query[1] = (struct sigv4_pair){ "comp", "userdelegationkey" };
	call.headers[0] = (struct sigv4_pair){ "content-type", "application/xml" };
	rc = az_client_send(c, &call, unix_s, &a, e);
	if (!rc)
		rc = take_delegation(c, &a, out, e);
	if (a.body.data)
		explicit_bzero(a.body.data, a.body.len);
	cloud_answer_release(&a);
	buf_release(&body);
	return rc;
}

/* The keys that sign, and the chain that they are given back to. */
static int get_signer(struct az_client *c, struct keys_chain **chain, struct cloud_keys **keys,
		      struct err *e)
{
	enum keys_kind kind;
	int rc;

	*chain = c->keys;
	rc = cloud_keys_get(c->keys, keys, e);
	if (rc)
		return rc;
	kind = (*keys)->kind;
	if (kind == KEYS_SECRET)
		return 0;
	cloud_keys_put(c->keys, *keys);
	if (kind == KEYS_QUERY)
		return err_set(e, ERR_UNSUPPORTED, "a SAS cannot sign another");
	*chain = c->delegated;
	return cloud_keys_get(c->delegated, keys, e);
}

int az_client_sign_url(struct az_client *c, const char *key, enum az_may may, int64_t *end_s,
		       char **url, struct err *e)
{
	char *blob = xasprintf("%s%s", c->prefix, key);
	struct az_grant grant = { c->account, c->container, blob, may, *end_s };
	struct buf text = BUF_INIT;
	struct keys_chain *chain;
	struct cloud_keys *keys;
	int rc = get_signer(c, &chain, &keys, e);

	if (!rc) {
		if (keys->end_s < *end_s)
			grant.end_s = *end_s = keys->end_s;
		buf_add_str(&text, c->origin);
		add_path(c, false, key, &text);
		buf_add_u8(&text, '?');
		rc = az_grant_sign(&grant, keys, &text, e);
		cloud_keys_put(chain, keys);
	}
	if (!rc)
		*url = xstrdup(buf_str(&text));
	service_wipe(&text);
	free(blob);
	return rc;
}
