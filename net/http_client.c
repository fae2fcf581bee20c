/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_client.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/now.h"
#include "net/address.h"
#include "net/http_client_impl.h"
#include "net/pem.h"
#include "proto/limits.h"

#define ANSWER_BYTES	   (64u << 20) /* of an answer that is collected in memory */
#define ERROR_ANSWER_BYTES (1u << 20) /* kept of an error's text */
#define EVENT_BYTES \
	(64u << 20) /* one server-sent event, which may hold as large a document as an answer */
#define CONNECT_MS  10000L
#define CONTINUE_MS 10000L /* a server that does not answer "Expect" gets the body then */
#define SILENCE_NS  (45 * NS_PER_S)

struct events {
	http_event_fn fn;
	void *arg;
	struct buf line, name, data;
	bool done; /* fn ended the stream without an error */
};

/* One transfer in progress. */
struct transfer {
	const struct http_call *call;
	CURL *curl;
	struct curl_slist *headers;
	struct buf cert, key; /* curl borrows them */
	struct buf *answer;
	struct events *events; /* NULL for an ordinary call */
	int64_t received_ns; /* when the server last sent something */
	int stop; /* the error that a callback stopped the transfer with */
	struct err *e;
	char why[CURL_ERROR_SIZE];
};

static void init_curl(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

void http_client_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, init_curl);
}

/* ---- shared with http_client_pool.c ---- */

int http_client_status(CURL *curl)
{
	long status = 0;

	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	return (int)status;
}

bool http_client_is_success(int status)
{
	return status / 100 == 2;
}

int http_client_collect(struct buf *answer, const void *data, size_t len, size_t max, struct err *e)
{
	if (answer->len + len > max)
		return err_set(e, ERR_LIMIT, "an answer beyond %zu bytes", max);
	buf_add(answer, data, len);
	return 0;
}

void http_client_collect_error(struct buf *answer, const void *data, size_t len, size_t max)
{
	size_t room = answer->len < max ? max - answer->len : 0;

	buf_add(answer, data, len < room ? len : room);
}

/* ---- server-sent events ---- */

static int event_end(struct events *ev)
{
	int rc = 0;

	if (ev->data.len)
		rc = ev->fn(ev->arg, ev->name.len ? buf_str(&ev->name) : "message",
			    buf_str(&ev->data));
	buf_reset(&ev->name);
	buf_reset(&ev->data);
	return rc;
}

/* The value after "field:", without the one space; NULL if the line is of another field. */
static const char *field_value(const char *line, const char *field)
{
	size_t n = strlen(field);

	if (strncmp(line, field, n) || line[n] != ':')
		return NULL;
	return line + n + 1 + (line[n + 1] == ' ');
}

static int event_line(struct events *ev, const char *line)
{
	const char *value;

	if (!*line)
		return event_end(ev);
	if ((value = field_value(line, "event"))) {
		buf_reset(&ev->name);
		buf_add_str(&ev->name, value);
	} else if ((value = field_value(line, "data"))) {
		if (ev->data.len)
			buf_add_u8(&ev->data, '\n');
		buf_add_str(&ev->data, value);
	}
	return 0;
}

static int events_feed(struct transfer *t, const char *p, size_t len)
{
	struct events *ev = t->events;
	int rc = 0;

	for (; len && !rc; p++, len--) {
		if (*p == '\r')
			continue;
		if (*p != '\n') {
			buf_add_u8(&ev->line, (uint8_t)*p);
			continue;
		}
		rc = event_line(ev, buf_str(&ev->line));
		buf_reset(&ev->line);
	}
	if (rc > 0)
		ev->done = true;
	if (!rc && ev->line.len + ev->data.len > EVENT_BYTES)
		rc = err_set(t->e, ERR_LIMIT, "%s: an event beyond %u bytes", t->call->url,
			     EVENT_BYTES);
	return rc;
}

static void events_release(struct events *ev)
{
	buf_release(&ev->line);
	buf_release(&ev->name);
	buf_release(&ev->data);
}

/* ---- curl's calls ---- */

static int collect(struct transfer *t, const void *data, size_t len)
{
	int rc = http_client_collect(t->answer, data, len, ANSWER_BYTES, t->e);

	if (rc)
		err_prefix(t->e, "%s", t->call->url);
	return rc;
}

static size_t on_data(char *data, size_t size, size_t count, void *arg)
{
	struct transfer *t = arg;
	size_t len = size * count;

	t->received_ns = now_mono_ns();
	if (!http_client_is_success(http_client_status(t->curl)))
		http_client_collect_error(t->answer, data, len, ERROR_ANSWER_BYTES);
	else if (t->events)
		t->stop = events_feed(t, data, len);
	else if (t->call->piece)
		t->stop = t->call->piece(t->call->arg, data, len);
	else
		t->stop = collect(t, data, len);
	return t->stop ? 0 : len;
}

static int on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	struct transfer *t = arg;

	(void)a;
	(void)b;
	(void)c;
	(void)d;
	if (now_mono_ns() - t->received_ns >= SILENCE_NS)
		t->stop = err_set(t->e, ERR_TIMEOUT, "%s: silent for %d s", t->call->url,
				  (int)(SILENCE_NS / NS_PER_S));
	else if (t->call->waiting)
		t->stop = t->call->waiting(t->call->arg, t->e);
	return t->stop != 0;
}

/* ---- setting up ---- */

void http_client_skip_proxy(CURL *curl, const char *url)
{
	CURLU *u = curl_url();
	char *host = NULL;

	if (u && !curl_url_set(u, CURLUPART_URL, url, 0) &&
	    !curl_url_get(u, CURLUPART_HOST, &host, 0)) {
		size_t n = strlen(host);

		if (host[0] == '[' && host[n - 1] == ']') {
			memmove(host, host + 1, n - 2);
			host[n - 2] = '\0';
		}
		if (address_is_loopback(host))
			curl_easy_setopt(curl, CURLOPT_PROXY, "");
	}
	curl_free(host);
	curl_url_cleanup(u);
}

static void add_header(struct transfer *t, const char *text)
{
	t->headers = curl_slist_append(t->headers, text);
}

static void set_request(struct transfer *t)
{
	const struct http_call *call = t->call;
	char *token;

	if (!strcmp(call->method, "HEAD"))
		curl_easy_setopt(t->curl, CURLOPT_NOBODY, 1L);
	if (call->body || !strcmp(call->method, "POST")) {
		curl_easy_setopt(t->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_len);
		curl_easy_setopt(t->curl, CURLOPT_POSTFIELDS, call->body ? call->body : "");
		add_header(t, "Content-Type: application/json");
		/* The server reads a body of this size in any case: no round trip before it. While a longer one
		 * is sent, it may refuse it and close the connection, and its answer would be lost. */
		if (call->body_len <= LIMIT_HTTP_BODY_BYTES)
			add_header(t, "Expect:");
		curl_easy_setopt(t->curl, CURLOPT_EXPECT_100_TIMEOUT_MS, CONTINUE_MS);
	}
	curl_easy_setopt(t->curl, CURLOPT_CUSTOMREQUEST, call->method);
	if (call->range)
		curl_easy_setopt(t->curl, CURLOPT_RANGE, call->range);
	if (t->events)
		add_header(t, "Accept: text/event-stream");
	if (call->token) {
		token = xasprintf("Authorization: Bearer %s", call->token);
		add_header(t, token);
		free(token);
	}
	curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, t->headers);
}

static void set_blob(struct transfer *t, CURLoption option, const struct buf *pem)
{
	struct curl_blob blob = { pem->data, pem->len, CURL_BLOB_NOCOPY };

	curl_easy_setopt(t->curl, option, &blob);
}

/* The files are read here: curl's own errors do not say which of them is wrong. */
static int set_certificate(struct transfer *t)
{
	const struct http_call *call = t->call;
	int rc = 0;

	if (!call->cert_file && !call->key_file)
		return 0;
	if (!call->cert_file || !call->key_file)
		return err_set(t->e, ERR_INVALID,
			       "a certificate needs its key and a key its certificate: give both");
	rc = pem_load(call->cert_file, &t->cert, t->e);
	if (!rc)
		rc = pem_load(call->key_file, &t->key, t->e);
	if (rc)
		return rc;
	set_blob(t, CURLOPT_SSLCERT_BLOB, &t->cert);
	set_blob(t, CURLOPT_SSLKEY_BLOB, &t->key);
	return 0;
}

static void release_certificate(struct transfer *t)
{
	if (t->key.data)
		explicit_bzero(t->key.data, t->key.len);
	buf_release(&t->key);
	buf_release(&t->cert);
}

static void set_transport(struct transfer *t)
{
	int64_t timeout_ms = (t->call->timeout_ns + NS_PER_MS - 1) / NS_PER_MS;

	curl_easy_setopt(t->curl, CURLOPT_URL, t->call->url);
	curl_easy_setopt(t->curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(t->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(t->curl, CURLOPT_ERRORBUFFER, t->why);
	curl_easy_setopt(t->curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl_easy_setopt(t->curl, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
	curl_easy_setopt(t->curl, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(t->curl, CURLOPT_WRITEFUNCTION, on_data);
	curl_easy_setopt(t->curl, CURLOPT_WRITEDATA, t);
	if (t->call->ca_file)
		curl_easy_setopt(t->curl, CURLOPT_CAINFO, t->call->ca_file);
	/* These calls may take any time; a silent server still ends them with ERR_TIMEOUT. */
	if (t->events || !t->call->timeout_ns) {
		curl_easy_setopt(t->curl, CURLOPT_XFERINFOFUNCTION, on_progress);
		curl_easy_setopt(t->curl, CURLOPT_XFERINFODATA, t);
		curl_easy_setopt(t->curl, CURLOPT_NOPROGRESS, 0L);
	}
	http_client_skip_proxy(t->curl, t->call->url);
}

/* ---- the end ---- */

/* What may be wrong with a URL whose server hangs up. */
static const char *hint_of_break(CURL *curl, const char *url, CURLcode code, const char *why)
{
	if (strstr(why, "HTTP/2"))
		return "; is that the port for gRPC? The aggregator's --http is 7400 unless it was "
		       "changed";
	if (code == CURLE_GOT_NOTHING && !strncmp(url, "http://", 7))
		return "; if TLS is spoken there, use https://";
	/* One without TLS, or gRPC's, which wants a certificate, may hang up before what it says of that is read. */
	if (!strncmp(url, "https://", 8) && !http_client_status(curl))
		return "; is that the port of its --http, 7400 unless it was changed? If no TLS is "
		       "spoken there, use http://";
	return "";
}

static int set_error(const struct transfer *t, CURLcode code)
{
	const char *url = t->call->url;
	const char *why = *t->why ? t->why : curl_easy_strerror(code);

	switch (code) {
	case CURLE_COULDNT_CONNECT:
		return err_set(
			t->e, ERR_CLOSED,
			"%s: no server listens there; does the aggregator run at that address?",
			url);
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		return err_set(t->e, ERR_CLOSED, "%s: %s; check the host's name", url, why);
	case CURLE_SSL_CONNECT_ERROR:
		return err_set(t->e, ERR_PEER,
			       "%s: TLS failed (%s); if none is spoken there, use http://", url,
			       why);
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_PARTIAL_FILE:
	case CURLE_HTTP2:
	case CURLE_HTTP2_STREAM:
		return err_set(t->e, ERR_CLOSED, "%s: the connection broke (%s)%s", url, why,
			       hint_of_break(t->curl, url, code, why));
	case CURLE_OPERATION_TIMEDOUT:
		return err_set(t->e, ERR_TIMEOUT, "%s: no complete answer in time (%s)", url, why);
	case CURLE_PEER_FAILED_VERIFICATION:
		return err_set(t->e, ERR_PEER,
			       "%s: its certificate is not trusted (%s); name its authority's file",
			       url, why);
	case CURLE_SSL_CERTPROBLEM:
		return err_set(t->e, ERR_INVALID, "%s is not the key of the certificate %s (%s)",
			       t->call->key_file, t->call->cert_file, why);
	case CURLE_UNSUPPORTED_PROTOCOL:
		if (!strncmp(url, "http", 4)) /* bytes came, and they were no HTTP/1 */
			return err_set(t->e, ERR_PEER,
				       "%s: the answer is no HTTP: is that the port for gRPC? The "
				       "aggregator's --http is 7400 unless it was changed",
				       url);
		return err_set(t->e, ERR_INVALID,
			       "'%s': expected http://HOST:PORT/PATH or https://", url);
	case CURLE_URL_MALFORMAT:
		return err_set(t->e, ERR_INVALID,
			       "'%s': expected http://HOST:PORT/PATH or https://", url);
	default:
		return err_set(t->e, ERR_PEER, "%s: %s", url, why);
	}
}

static int finish(struct transfer *t, CURLcode code, int *status)
{
	if (t->events && t->events->done)
		code = CURLE_OK;
	else if (t->stop)
		return t->stop;
	if (code != CURLE_OK)
		return set_error(t, code);
	*status = http_client_status(t->curl);
	if (t->events && !t->events->done && http_client_is_success(*status))
		return err_set(t->e, ERR_CLOSED, "%s: the server ended the stream", t->call->url);
	return 0;
}

static void keep_location(const struct transfer *t)
{
	char *url = NULL;

	if (!t->call->location)
		return;
	curl_easy_getinfo(t->curl, CURLINFO_REDIRECT_URL, &url);
	*t->call->location = url ? xstrdup(url) : NULL;
}

static int perform(struct transfer *t, int *status)
{
	int rc;

	http_client_init();
	*status = 0;
	t->curl = curl_easy_init();
	if (!t->curl)
		return err_set(t->e, ERR_IO, "starting an HTTP transfer failed");
	t->received_ns = now_mono_ns();
	set_transport(t);
	set_request(t);
	rc = set_certificate(t);
	if (!rc)
		rc = finish(t, curl_easy_perform(t->curl), status);
	keep_location(t);
	curl_slist_free_all(t->headers);
	curl_easy_cleanup(t->curl);
	release_certificate(t);
	return rc;
}

int http_call(const struct http_call *call, int *status, struct buf *answer, struct err *e)
{
	struct transfer t = { .call = call, .answer = answer, .e = e };

	return perform(&t, status);
}

int http_events(const struct http_call *call, int *status, struct buf *answer, http_event_fn fn,
		void *arg, struct err *e)
{
	struct http_call get = *call;
	struct events events = { .fn = fn, .arg = arg };
	struct transfer t = { .call = &get, .answer = answer, .events = &events, .e = e };
	int rc;

	get.method = "GET";
	get.body = NULL;
	get.range = NULL;
	rc = perform(&t, status);
	events_release(&events);
	return rc;
}
