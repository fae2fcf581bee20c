/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/secret.h"
#include "cli/interrupt.h"
#include "cli/login.h"
#include "net/http_client.h"

#define CALL_TIMEOUT_NS	  (60 * NS_PER_S)
#define CHOOSE_TIMEOUT_NS (2 * NS_PER_S)

struct only_api {
	struct api_conf api;
};

const struct conf_field api_fields[] = { API_FIELDS(struct only_api), { 0 } };

/* Text of the server is printed on a terminal: it must not contain control characters. */
static int parse_clean(json_t **out, const char *text, size_t len, struct err *e)
{
	json_t *doc;
	int rc = json_parse(&doc, text, len, e);

	if (rc)
		return rc;
	*out = json_clean(doc);
	json_decref(doc);
	return 0;
}

static int parse_answer(const struct buf *answer, const char *url, json_t **out, struct err *e)
{
	struct err why;

	if (parse_clean(out, buf_str(answer), answer->len, &why))
		return err_set(e, ERR_PEER,
			       "%s: the answer is %s; is this an aggregator, and the port of its "
			       "--http, 7400 unless it was changed?",
			       url, why.msg);
	return 0;
}

int api_refusal(const char *url, int status, const struct buf *answer, struct err *e)
{
	int code = status == 400   ? ERR_INVALID
		   : status == 404 ? ERR_NOT_FOUND
		   : status == 503 ? ERR_BUSY
				   : ERR_PEER;
	json_t *doc;
	const char *sentence;

	if (parse_clean(&doc, buf_str(answer), answer->len, NULL))
		return err_set(e, code, "%s answered %d", url, status);
	sentence = json_get_text(doc, "error");
	if (*sentence)
		err_set(e, code, "%s", sentence);
	else
		err_set(e, code, "%s answered %d", url, status);
	json_decref(doc);
	return code;
}

/* ---- which server ---- */

/* Of several that share a store, the one that calls go to: api_choose() finds it. */
static _Atomic unsigned int chosen;

/* The URL of server `i` without the last '/'; NULL if there are fewer. Not terminated. */
static const char *find_server(const char *list, unsigned int i, size_t *len)
{
	while (i-- > 0 && *list) {
		list += strcspn(list, ",");
		list += *list == ',';
	}
	*len = strcspn(list, ",");
	while (*len && list[*len - 1] == '/')
		--*len;
	return *len ? list : NULL;
}

static char *url_at(const struct api_conf *conf, unsigned int i, const char *path)
{
	size_t len;
	const char *server = find_server(conf->server, i, &len);

	return server ? xasprintf("%.*s%s", (int)len, server, path) : NULL;
}

char *api_url(const struct api_conf *conf, const char *path)
{
	char *url = url_at(conf, chosen, path);

	return url ? url : xasprintf("%s%s", conf->server, path);
}

bool api_has_several(const struct api_conf *conf)
{
	return strchr(conf->server, ',') != NULL;
}

struct http_call api_make_call(const struct api_conf *conf, const char *method, const char *url)
{
	return (struct http_call){
		.method = method,
		.url = url,
		.ca_file = conf->ca,
		.cert_file = conf->cert,
		.key_file = conf->key,
	};
}

int api_load_token(const struct api_conf *conf, char **token, struct err *e)
{
	*token = NULL;
	if (conf->token_file && *conf->token_file)
		return secret_load(token, conf->token_file, e);
	return conf->place ? login_token(conf->place, token, e) : 0;
}

/* What server `i` answers to a GET; 0 = nothing. */
static int status_at(const struct api_conf *conf, unsigned int i, const char *path)
{
	char *url = url_at(conf, i, path);
	struct http_call call = api_make_call(conf, "GET", url);
	struct buf answer = BUF_INIT;
	int status = 0;
	struct err e;

	call.timeout_ns = CHOOSE_TIMEOUT_NS;
	if (http_call(&call, &status, &answer, &e))
		status = 0;
	buf_release(&answer);
	free(url);
	return status;
}

/* One that only answers reads names the leader to who wants more. */
void api_choose(const struct api_conf *conf)
{
	unsigned int reads = chosen;
	size_t len;

	if (!api_has_several(conf))
		return;
	for (unsigned int i = 0; find_server(conf->server, i, &len); i++) {
		int status = status_at(conf, i, "/readyz");

		if (status == 200) {
			chosen = i;
			return;
		}
		if (status)
			reads = i;
	}
	chosen = reads;
}

/* The leader that a follower's answer names, with the path; NULL if the token must not go there. */
static char *url_of_leader(const char *url, const struct buf *answer, const char *path)
{
	char *found = NULL;
	const char *leader;
	json_t *doc;

	if (parse_clean(&doc, buf_str(answer), answer->len, NULL))
		return NULL;
	leader = json_get_text(doc, "leader");
	if (!strncmp(leader, "https://", 8) ||
	    (!strncmp(leader, "http://", 7) && strncmp(url, "https://", 8) != 0))
		found = xasprintf("%s%s", leader, path);
	json_decref(doc);
	return found;
}

int api_call_leader(struct http_call *call, char **url, const char *path, int *status,
		    struct buf *answer, struct err *e)
{
	int rc = http_call(call, status, answer, e);
	char *leader = !rc && *status == 307 ? url_of_leader(*url, answer, path) : NULL;

	if (!leader)
		return rc;
	free(*url);
	*url = leader;
	call->url = leader;
	buf_reset(answer);
	if (call->location) {
		free(*call->location);
		*call->location = NULL;
	}
	return http_call(call, status, answer, e);
}

static int on_waiting_for_answer(void *arg, struct err *e)
{
	(void)arg;
	return interrupt_seen() ? err_set(e, ERR_CANCELLED,
					  "interrupted before the answer: what was asked for "
					  "may have begun")
				: 0;
}

int api_send(const struct api_conf *conf, const char *method, const char *path, const void *body,
	     size_t len, int64_t timeout_ns, json_t **out, struct err *e)
{
	char *url = api_url(conf, path);
	struct buf answer = BUF_INIT;
	char *token = NULL;
	json_t *doc = NULL;
	int status;
	struct http_call call = api_make_call(conf, method, url);
	int rc = api_load_token(conf, &token, e);

	call.timeout_ns = timeout_ns;
	call.waiting = on_waiting_for_answer;
	call.body = body;
	call.body_len = len;
	call.token = token;
	if (!rc)
		rc = api_call_leader(&call, &url, path, &status, &answer, e);
	if (!rc && status / 100 != 2)
		rc = api_refusal(url, status, &answer, e);
	if (!rc)
		rc = parse_answer(&answer, url, &doc, e);
	if (!rc && out) {
		*out = doc;
		doc = NULL;
	}
	json_decref(doc);
	buf_release(&answer);
	secret_free(token);
	free(url);
	return rc;
}

int api_call(const struct api_conf *conf, const char *method, const char *path, const json_t *body,
	     json_t **out, struct err *e)
{
	struct buf text = BUF_INIT;
	int rc;

	if (body)
		json_append(&text, body, 0);
	rc = api_send(conf, method, path, body ? buf_str(&text) : NULL, text.len, CALL_TIMEOUT_NS,
		      out, e);
	buf_release(&text);
	return rc;
}

int api_call_on(const struct api_conf *conf, const char *method, const char *kind, const char *id,
		const char *verb, json_t **out, struct err *e)
{
	char *word = api_escape(id);
	char *path = xasprintf("/api/v1/%s/%s%s", kind, word, verb);
	int rc = api_call(conf, method, path, NULL, out, e);

	free(path);
	free(word);
	return rc;
}

struct events {
	int (*fn)(void *arg, const char *event, json_t *data);
	int (*waiting)(void *arg, struct err *e);
	void *arg;
};

static int on_event(void *arg, const char *event, const char *data)
{
	const struct events *ev = arg;
	json_t *doc;
	int rc;

	if (parse_clean(&doc, data, strlen(data), NULL))
		return 0;
	rc = ev->fn(ev->arg, event, doc);
	json_decref(doc);
	return rc;
}

static int on_waiting(void *arg, struct err *e)
{
	const struct events *ev = arg;

	return ev->waiting(ev->arg, e);
}

int api_events(const struct api_conf *conf, const char *path,
	       int (*fn)(void *arg, const char *event, json_t *data),
	       int (*waiting)(void *arg, struct err *e), void *arg, struct err *e)
{
	char *url = api_url(conf, path), *leader, *token = NULL;
	struct events ev = { fn, waiting, arg };
	struct buf answer = BUF_INIT;
	int status, rc = api_load_token(conf, &token, e);
	struct http_call call = api_make_call(conf, "GET", url);

	call.waiting = on_waiting;
	call.token = token;
	call.arg = &ev;
	if (!rc)
		rc = http_events(&call, &status, &answer, on_event, &ev, e);
	leader = !rc && status == 307 ? url_of_leader(url, &answer, path) : NULL;
	if (leader) {
		call.url = leader;
		rc = http_events(&call, &status, &answer, on_event, &ev, e);
	}
	if (!rc && status / 100 != 2)
		rc = err_set(e, status == 404 ? ERR_NOT_FOUND : ERR_PEER, "%s answered %d",
			     call.url, status);
	secret_free(token);
	buf_release(&answer);
	free(leader);
	free(url);
	return rc;
}

struct download {
	int fd;
	const char *part;
	struct err *e;
};

static int on_piece(void *arg, const void *data, size_t len)
{
	struct download *d = arg;

	return file_write_all(d->fd, data, len, d->part, d->e);
}

int api_download(const struct api_conf *conf, const char *path, const char *file, struct err *e)
{
	char *url = api_url(conf, path);
	char *part = xasprintf("%s.part", file);
	struct buf answer = BUF_INIT;
	struct download d = { .fd = -1, .part = part, .e = e };
	struct http_call call = api_make_call(conf, "GET", url);
	char *token = NULL;
	int status;
	int rc = api_load_token(conf, &token, e);

	call.piece = on_piece;
	call.token = token;
	call.arg = &d;
	if (!rc)
		d.fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (!rc && d.fd < 0)
		rc = err_errno(e, "%s", part);
	if (!rc)
		rc = api_call_leader(&call, &url, path, &status, &answer, e);
	if (!rc && status / 100 != 2)
		rc = api_refusal(url, status, &answer, e);
	if (d.fd >= 0 && close(d.fd) && !rc)
		rc = err_errno(e, "%s", part);
	if (!rc && rename(part, file))
		rc = err_errno(e, "%s", file);
	if (rc)
		unlink(part);
	buf_release(&answer);
	secret_free(token);
	free(part);
	free(url);
	return rc;
}

char *api_escape(const char *word)
{
	struct buf b = BUF_INIT;

	for (; *word; word++) {
		if (isalnum((unsigned char)*word) || strchr("-._~", *word))
			buf_add_u8(&b, (uint8_t)*word);
		else
			buf_addf(&b, "%%%02X", (unsigned char)*word);
	}
	return (char *)buf_detach(&b, NULL);
}

void api_print(const json_t *doc)
{
	json_dumpf(doc, stdout, JSON_INDENT(2));
	putchar('\n');
}

void api_print_error(const char *sentence)
{
	json_t *doc = json_object();

	json_put_text(doc, "error", sentence);
	api_print(doc);
	json_decref(doc);
}

static void print_scaled(double v, double step, const char *const *units, char out[16])
{
	while (v >= step && units[1]) {
		v /= step;
		units++;
	}
	snprintf(out, 16, v < 10 ? "%.2f %s" : v < 100 ? "%.1f %s" : "%.0f %s", v, *units);
}

void human_bytes(int64_t bytes, char out[16])
{
	static const char *const units[] = { "kB", "MB", "GB", "TB", NULL };

	if (bytes < 1000)
		snprintf(out, 16, "%d B", (int)bytes);
	else
		print_scaled((double)bytes / 1000, 1000, units, out);
}

void human_time(int64_t ns, char out[16])
{
	static const char *const units[] = { "us", "ms", "s", NULL };

	if (ns < 1000)
		snprintf(out, 16, "%d ns", (int)ns);
	else
		print_scaled((double)ns / 1000, 1000, units, out);
}
