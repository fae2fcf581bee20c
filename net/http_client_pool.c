/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An easy handle of curl keeps its connections when it is used again: the pool is a stack of idle handles. The mutex
 * is held to take one and to put it back.
 */
#include "net/http_client_pool.h"

#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/http_client_impl.h"

#define IDLE_MAX      32
#define RECEIVE_BYTES (512L << 10)

struct http_pool {
	char *ca_file;
	pthread_mutex_t lock; /* guards the members below */
	CURL *idle[IDLE_MAX];
	size_t n_idle;
};

/* One request under way. */
struct transfer {
	const struct http_request *req;
	CURL *curl;
	struct curl_slist *headers;
	struct buf *answer;
	uint64_t sent; /* of the body */
	int stop; /* the error that a callback stopped the transfer with */
	int *status;
	struct err *e;
	char why[CURL_ERROR_SIZE];
};

struct http_pool *http_pool_new(const char *ca_file)
{
	struct http_pool *pool = xcalloc(1, sizeof(*pool));

	http_client_init();
	pool->ca_file = ca_file ? xstrdup(ca_file) : NULL;
	pthread_mutex_init(&pool->lock, NULL);
	return pool;
}

void http_pool_free(struct http_pool *pool)
{
	if (!pool)
		return;
	while (pool->n_idle)
		curl_easy_cleanup(pool->idle[--pool->n_idle]);
	pthread_mutex_destroy(&pool->lock);
	free(pool->ca_file);
	free(pool);
}

static CURL *take_handle(struct http_pool *pool)
{
	CURL *curl = NULL;

	pthread_mutex_lock(&pool->lock);
	if (pool->n_idle)
		curl = pool->idle[--pool->n_idle];
	pthread_mutex_unlock(&pool->lock);
	return curl ? curl : curl_easy_init();
}

static void put_handle(struct http_pool *pool, CURL *curl)
{
	curl_easy_reset(curl); /* connections stay */
	pthread_mutex_lock(&pool->lock);
	if (pool->n_idle < IDLE_MAX) {
		pool->idle[pool->n_idle++] = curl;
		curl = NULL;
	}
	pthread_mutex_unlock(&pool->lock);
	if (curl)
		curl_easy_cleanup(curl);
}

/* ---- curl's calls ---- */

static int read_file(struct transfer *t, char *out, size_t len)
{
	ssize_t n = file_read_up_to(t->req->fd, t->req->offset + t->sent, out, len);

	if (n < 0)
		return err_errno(t->e, "reading the file to put");
	if ((size_t)n < len)
		return err_set(t->e, ERR_INVALID, "the file to put ends after %llu of %llu bytes",
			       (unsigned long long)(t->sent + (uint64_t)n),
			       (unsigned long long)t->req->len);
	return 0;
}

static size_t on_read(char *out, size_t size, size_t count, void *arg)
{
	struct transfer *t = arg;
	uint64_t left = t->req->len - t->sent;
	size_t len = size * count < left ? size * count : (size_t)left;

	if (t->req->fd < 0 && len)
		memcpy(out, (const char *)t->req->data + t->sent, len);
	else if (t->req->fd >= 0)
		t->stop = read_file(t, out, len);
	if (t->stop)
		return CURL_READFUNC_ABORT;
	t->sent += len;
	return len;
}

/* curl sends a body again when a kept connection turns out to be dead. */
static int on_seek(void *arg, curl_off_t offset, int origin)
{
	struct transfer *t = arg;

	if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > t->req->len)
		return CURL_SEEKFUNC_FAIL;
	t->sent = (uint64_t)offset;
	return CURL_SEEKFUNC_OK;
}

static size_t on_data(char *data, size_t size, size_t count, void *arg)
{
	struct transfer *t = arg;
	size_t len = size * count;

	*t->status = http_client_status(t->curl);
	if (!http_client_is_success(*t->status))
		http_client_collect_error(t->answer, data, len, HTTP_POOL_ERROR_BYTES);
	else if (t->req->piece)
		t->stop = t->req->piece(t->req->arg, data, len, t->e);
	else
		t->stop = http_client_collect(t->answer, data, len, t->req->answer_max, t->e);
	return t->stop ? 0 : len;
}

/* curl calls it at least once a second, also while it connects or waits. */
static int on_progress(void *arg, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
		       curl_off_t up)
{
	struct transfer *t = arg;

	(void)down_total;
	(void)down;
	(void)up_total;
	if (t->req->sent && up >= 0)
		*t->req->sent = (uint64_t)up;
	if (!t->stop && t->req->cancelled && *t->req->cancelled)
		t->stop = err_set(t->e, ERR_CLOSED, "cancelled");
	return t->stop != 0;
}

/* "Name: value\r\n"; the status line and the empty line have no colon, or are of no interest. */
static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
	struct transfer *t = arg;
	size_t len = size * count;
	const char *colon = memchr(data, ':', len);
	char *name, *value, *end;

	if (!t->req->header || !colon || colon == data)
		return len;
	name = xstrndup(data, len);
	name[colon - data] = '\0';
	for (char *c = name; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	value = name + (colon - data) + 1;
	value += strspn(value, " \t");
	end = value + strlen(value);
	while (end > value && strchr(" \t\r\n", end[-1]))
		*--end = '\0';
	t->req->header(t->req->arg, name, value);
	free(name);
	return len;
}

/* ---- setting up ---- */

static void set_body(struct transfer *t)
{
	const struct http_request *req = t->req;

	if (!strcmp(req->method, "HEAD")) {
		curl_easy_setopt(t->curl, CURLOPT_NOBODY, 1L);
		return;
	}
	if (req->has_body) {
		curl_easy_setopt(t->curl, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(t->curl, CURLOPT_READFUNCTION, on_read);
		curl_easy_setopt(t->curl, CURLOPT_READDATA, t);
		curl_easy_setopt(t->curl, CURLOPT_SEEKFUNCTION, on_seek);
		curl_easy_setopt(t->curl, CURLOPT_SEEKDATA, t);
		curl_easy_setopt(t->curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)req->len);
	}
	curl_easy_setopt(t->curl, CURLOPT_CUSTOMREQUEST, req->method);
}

static void set_progress(struct transfer *t)
{
	if (!t->req->cancelled && !t->req->sent)
		return;
	curl_easy_setopt(t->curl, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(t->curl, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(t->curl, CURLOPT_XFERINFODATA, t);
}

static void set_headers(struct transfer *t)
{
	for (const char *const *h = t->req->headers; h && *h; h++)
		t->headers = curl_slist_append(t->headers, *h);
	/* Many stores ignore "Expect", which costs a second; and a type that curl adds is not signed. "Accept" of anything is
	 * what a request without it means. */
	t->headers = curl_slist_append(t->headers, "Expect:");
	t->headers = curl_slist_append(t->headers, "Accept:");
	curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, t->headers);
}

static void set_times(struct transfer *t)
{
	int64_t deadline = t->req->deadline_mono_ns;
	int64_t connect_ns = t->req->connect_ns ? t->req->connect_ns
						: HTTP_POOL_CONNECT_S * NS_PER_S;
	int64_t left_ms;

	curl_easy_setopt(t->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)(connect_ns / NS_PER_MS));
	curl_easy_setopt(t->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(t->curl, CURLOPT_LOW_SPEED_TIME, (long)HTTP_POOL_SILENCE_S);
	if (deadline == INT64_MAX)
		return;
	left_ms = (deadline - now_mono_ns()) / NS_PER_MS;
	curl_easy_setopt(t->curl, CURLOPT_TIMEOUT_MS, left_ms > 0 ? (long)left_ms : 1L);
}

static void set_transport(struct transfer *t, const char *ca_file)
{
	curl_easy_setopt(t->curl, CURLOPT_URL, t->req->url);
	curl_easy_setopt(t->curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(t->curl, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(t->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(t->curl, CURLOPT_ERRORBUFFER, t->why);
	curl_easy_setopt(t->curl, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(t->curl, CURLOPT_BUFFERSIZE, RECEIVE_BYTES);
	curl_easy_setopt(t->curl, CURLOPT_WRITEFUNCTION, on_data);
	curl_easy_setopt(t->curl, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(t->curl, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(t->curl, CURLOPT_HEADERDATA, t);
	if (ca_file)
		curl_easy_setopt(t->curl, CURLOPT_CAINFO, ca_file);
	if (t->req->is_direct)
		curl_easy_setopt(t->curl, CURLOPT_PROXY, "");
	else
		http_client_skip_proxy(t->curl, t->req->url);
}

/* ---- the end ---- */

static int set_error(const struct transfer *t, CURLcode code)
{
	const char *why = *t->why ? t->why : curl_easy_strerror(code);
	const char *host = strstr(t->req->url, "://");
	int len;

	host = host ? host + 3 : t->req->url;
	len = (int)strcspn(host, "/?");
	if (len > 100)
		len = 100;
	switch (code) {
	case CURLE_OPERATION_TIMEDOUT:
		return err_set(t->e, ERR_TIMEOUT, "%.*s: no complete answer in time", len, host);
	case CURLE_PEER_FAILED_VERIFICATION:
		return err_set(t->e, ERR_DENIED, "%.*s: its certificate is not trusted: %s", len,
			       host, why);
	case CURLE_SSL_CACERT_BADFILE:
		return err_set(t->e, ERR_IO, "%.*s: the file of authorities: %s", len, host, why);
	case CURLE_URL_MALFORMAT:
		return err_set(t->e, ERR_INVALID, "%.*s: expected http:// or https://", len, host);
	case CURLE_UNSUPPORTED_PROTOCOL:
		if (strncmp(t->req->url, "http", 4) != 0)
			return err_set(t->e, ERR_INVALID, "%.*s: expected http:// or https://", len,
				       host);
		return err_set(t->e, ERR_PEER, "%.*s: the answer is not HTTP", len, host);
	case CURLE_WEIRD_SERVER_REPLY:
		return err_set(t->e, ERR_PEER, "%.*s: the answer is not HTTP", len, host);
	default:
		return err_set(t->e, ERR_CLOSED, "%.*s: %s", len, host, why);
	}
}

static int finish(struct transfer *t, CURLcode code)
{
	if (t->stop)
		return t->stop;
	if (code != CURLE_OK)
		return set_error(t, code);
	*t->status = http_client_status(t->curl); /* there may have been no body */
	return 0;
}

int http_pool_request(struct http_pool *pool, const struct http_request *req, int *status,
		      struct buf *answer, struct err *e)
{
	struct transfer t = { .req = req, .answer = answer, .status = status, .e = e };
	int rc;

	*status = 0;
	if (req->len > INT64_MAX || req->offset > INT64_MAX - req->len)
		return err_set(e, ERR_INVALID, "the range to put lies beyond any file");
	t.curl = take_handle(pool);
	if (!t.curl)
		return err_set(e, ERR_IO, "starting an HTTP transfer failed");
	set_transport(&t, pool->ca_file);
	set_times(&t);
	set_body(&t);
	set_headers(&t);
	set_progress(&t);
	rc = finish(&t, curl_easy_perform(t.curl));
	put_handle(pool, t.curl);
	curl_slist_free_all(t.headers);
	return rc;
}
