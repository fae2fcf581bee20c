/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/keys_service.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/now.h"
#include "base/percent.h"
#include "json/json_text.h"
#include "net/address.h"
#include "storage/cloud_answer.h"

#define ANSWER_MAX ((size_t)64 << 10)
#define FILE_MAX   ((size_t)64 << 10)
#define LIFE_MAX_S (366LL * 24 * 3600)

void service_wipe(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->len);
	buf_release(b);
}

void service_wipe_json(json_t *o)
{
	const char *name;
	json_t *value;

	json_object_foreach(o, name, value) if (json_is_string(value))
		explicit_bzero((char *)json_string_value(value), json_string_length(value));
	json_decref(o);
}

int service_ask(const struct keys_env *env, const struct service_request *ask, int *status,
		struct buf *answer, struct err *e)
{
	const char *headers[3] = { 0 };
	struct http_request req = { .method = ask->method,
				    .url = ask->url,
				    .headers = headers,
				    .fd = -1,
				    .answer_max = ANSWER_MAX,
				    .is_direct = !ask->is_remote,
				    .connect_ns = ask->connect_ns,
				    .deadline_mono_ns = now_mono_ns() +
							KEYS_PATIENCE_S * NS_PER_S };
	size_t n = 0;

	if (ask->header)
		headers[n++] = ask->header;
	if (ask->type)
		headers[n++] = ask->type;
	if (ask->body) {
		req.has_body = true;
		req.data = ask->body->data;
		req.len = ask->body->len;
	}
	return http_pool_request(env->http, &req, status, answer, e);
}

void service_add_field(struct buf *form, const char *name, const char *value)
{
	buf_addf(form, "%s%s=", form->len ? "&" : "", name);
	percent_encode(form, value, "");
}

/* What was named must be there: ERR_NOT_FOUND would let the next source have its turn. */
int service_load_file(const char *path, struct buf *out, struct err *e)
{
	int rc = file_load(path, FILE_MAX, out, e);

	return rc == ERR_NOT_FOUND ? err_set(e, ERR_INVALID, "%.120s: there is no such file", path)
				   : rc;
}

int service_load_token(const char *path, struct buf *out, struct err *e)
{
	int rc = service_load_file(path, out, e);

	while (!rc && out->len && strchr(" \t\r\n", out->data[out->len - 1]))
		buf_cut(out, out->len - 1);
	for (size_t i = 0; !rc && i < out->len; i++)
		if (out->data[i] < ' ' || out->data[i] > '~')
			rc = err_set(e, ERR_INVALID, "%s: a token is one line of ASCII", path);
	return rc;
}

/* ---- where services are ---- */

bool service_host(const char *url, char out[SERVICE_HOST_BYTES])
{
	const char *host = url + strlen("http://");
	size_t len, port;

	if (strncmp(url, "http://", strlen("http://")))
		return false;
	port = len = strcspn(host, "/?#");
	while (port && host[port - 1] >= '0' && host[port - 1] <= '9')
		port--;
	if (port && host[port - 1] == ':')
		len = port - 1;
	if (!len || len >= SERVICE_HOST_BYTES || memchr(host, '@', len) || memchr(host, '\\', len))
		return false;
	memcpy(out, host, len);
	out[len] = '\0';
	return true;
}

bool service_is_loopback(const char *url)
{
	char host[SERVICE_HOST_BYTES];
	size_t len;

	if (!service_host(url, host))
		return false;
	len = strlen(host);
	if (len > 2 && *host == '[' && host[len - 1] == ']') {
		memmove(host, host + 1, len - 2);
		host[len - 2] = '\0';
	}
	return address_is_loopback(host);
}

int service_check_url(const char *url, const char *what, struct err *e)
{
	if (!strncmp(url, "https://", strlen("https://")) || service_is_loopback(url))
		return 0;
	return err_set(e, ERR_INVALID, "%s \"%.60s\": only https and loopback are asked", what,
		       url);
}

/* ---- tokens ---- */

/* A number, or a text with one, as Azure's metadata service has it. */
static int64_t life_of(const json_t *o)
{
	const json_t *life = json_object_get(o, "expires_in");
	uint64_t s = 0;

	if (json_is_number(life))
		s = json_number_value(life) > 0 && json_number_value(life) < (double)LIFE_MAX_S
			    ? (uint64_t)json_number_value(life)
			    : 0;
	else
		cloud_read_u64(json_get_text(o, "expires_in"), &s);
	return s <= LIFE_MAX_S ? (int64_t)s : 0;
}

static int take_token(struct cloud_keys *out, const json_t *o, struct err *e)
{
	const char *token = json_get_text(o, "access_token");
	int64_t life_s = life_of(o);

	if (!*token || !life_s)
		return err_set(e, ERR_PEER, "the answer lacks access_token or expires_in");
	out->kind = KEYS_BEARER;
	out->end_s = now_real_ns() / NS_PER_S + life_s;
	return keys_take(out->token, sizeof(out->token), token, "access_token", e);
}

int service_refusal(const char *who, int status, const struct buf *answer, struct err *e)
{
	struct cloud_answer failed = { .body = *answer }; /* borrows: not released */

	cloud_answer_read_error(&failed);
	return err_set(e, ERR_DENIED, "%s answers %d%s%s%s%s", who, status, *failed.code ? " " : "",
		       failed.code, *failed.message ? ": " : "", failed.message);
}

int service_take_bearer(struct cloud_keys *out, const char *who, int status, struct buf *answer,
			struct err *e)
{
	json_t *o = NULL;
	int rc;

	if (status != 200)
		return service_refusal(who, status, answer, e);
	if (json_parse(&o, answer->data, answer->len, NULL) || !json_is_object(o))
		rc = err_set(e, ERR_PEER, "the answer is no JSON object");
	else
		rc = take_token(out, o, e);
	service_wipe_json(o);
	if (answer->len)
		explicit_bzero(answer->data, answer->len);
	if (rc)
		err_prefix(e, "%s", who);
	return rc;
}
