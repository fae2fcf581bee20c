/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_server_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/http_parse.h"
#include "net/pem.h"
#include "net/socket.h"
#include "proto/limits.h"

#define HEARTBEAT_NS	(15 * NS_PER_S)
#define IDLE_SECONDS	60u /* a connection that sends or reads nothing for so long is closed */
#define HEAD_SECONDS	5u /* the same, before the head of its first request is complete */
#define MAX_CONNECTIONS 1000u
#define LAST_ANSWERS_NS NS_PER_S /* for sending the 503s at the end */
#define DRAIN_BYTES	(4 * LIMIT_HTTP_BODY_BYTES)
#define LOG_LINES_PER_S 10

/* ---- pairs, log lines ---- */

static void pairs_add(struct pairs *p, const char *name, const char *value)
{
	p->items = xrealloc(p->items, (p->n + 1) * sizeof(*p->items));
	p->items[p->n++] = (struct pair){ xstrdup(name), xstrdup(value) };
}

static void pairs_release(struct pairs *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->items[i].name);
		free(p->items[i].value);
	}
	free(p->items);
}

/* Limits the lines about bad peers, so that they cannot fill a disk. */
static bool may_log(struct http_server *s)
{
	int64_t second = now_mono_ns() / NS_PER_S;

	if (atomic_exchange(&s->log_second, second) != second)
		atomic_store(&s->log_lines, 0);
	return atomic_fetch_add(&s->log_lines, 1) < LOG_LINES_PER_S;
}

__attribute__((format(printf, 2, 0))) static void on_library_log(void *arg, const char *fmt,
								 va_list ap)
{
	char text[256];
	size_t len;

	vsnprintf(text, sizeof(text), fmt, ap);
	/* microhttpd logs the page that it sends, too: keeps the first line alone. */
	len = strcspn(text, "<");
	while (len && strchr(" \n('", text[len - 1]))
		len--;
	text[len] = '\0';
	if (may_log(arg))
		log_warn("HTTP-PEER", "reason=\"%s\"", text);
}

/* ---- requests ---- */

void req_unref(struct http_req *req)
{
	if (atomic_fetch_sub(&req->refs, 1) != 1)
		return;
	if (req->answer)
		MHD_destroy_response(req->answer);
	if (req->stream)
		stream_unref(req->stream);
	if (req->file_body)
		http_body_unref(req->file_body);
	pairs_release(&req->query);
	pairs_release(&req->headers);
	buf_release(&req->body);
	free(req->method);
	free(req->path);
	free(req->target);
	free(req->identity);
	free(req->identity_error);
	free(req->cookie);
	free(req);
}

static void req_refuse(struct http_req *req, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);

static void req_refuse(struct http_req *req, int status, const char *fmt, ...)
{
	va_list ap;

	if (req->refused)
		return;
	req->refused = status;
	va_start(ap, fmt);
	err_vset(&req->why, ERR_INVALID, fmt, ap);
	va_end(ap);
}

static void add_query(void *arg, const char *key, const char *value)
{
	struct http_req *req = arg;

	pairs_add(&req->query, key, value);
}

static void parse_uri(struct http_req *req, const char *uri)
{
	size_t path_len = strcspn(uri, "?");
	const char *query = uri[path_len] ? uri + path_len + 1 : "";
	struct err e = { 0 };
	int rc;

	req->target = xstrdup(uri);
	req->path = xmalloc(path_len + 1);
	req->path[0] = '\0';
	rc = percent_decode(uri, path_len, false, req->path, &e);
	if (!rc)
		rc = http_parse_query(query, strlen(query), add_query, req, &e);
	if (rc)
		req_refuse(req, rc == ERR_LIMIT ? 414 : 400, "%s", e.msg);
}

static struct http_conn *place_of(struct MHD_Connection *conn)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static void expect(const struct http_req *req, int64_t limit_ns)
{
	if (req->place)
		http_conn_expect(req->place, limit_ns);
}

/* microhttpd's first callback of a request: its raw address, before anything is decoded. */
static void *on_uri(void *arg, const char *uri, struct MHD_Connection *conn)
{
	struct http_server *s = arg;
	struct http_req *req = xcalloc(1, sizeof(*req));

	atomic_init(&req->refs, 1);
	req->server = s;
	req->conn = conn;
	req->place = place_of(conn);
	req->asks_certificate = s->ca != NULL;
	parse_uri(req, uri);
	if (req->place)
		http_conn_set_request(req->place, req);
	pthread_mutex_lock(&s->lock);
	s->under_way++;
	pthread_mutex_unlock(&s->lock);
	return req;
}

static enum MHD_Result add_header(void *arg, enum MHD_ValueKind kind, const char *name,
				  const char *value)
{
	(void)kind;
	pairs_add(arg, name, value ? value : "");
	return MHD_YES;
}

static int64_t body_limit_ns(uint64_t bytes)
{
	return HTTP_BODY_NS + (int64_t)(bytes / HTTP_BODY_BYTES_PER_S) * NS_PER_S;
}

static void req_start(struct http_req *req, const char *method, const char *version)
{
	const union MHD_ConnectionInfo *info;
	const char *length;
	struct err e;

	req->started = true;
	req->method = xstrdup(method);
	MHD_set_connection_option(req->conn, MHD_CONNECTION_OPTION_TIMEOUT, IDLE_SECONDS);
	MHD_get_connection_values(req->conn, MHD_HEADER_KIND, add_header, &req->headers);
	info = MHD_get_connection_info(req->conn, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	if (info)
		socket_name(info->client_addr, req->peer);
	if (req->asks_certificate)
		req->identity = tls_client_name(req->conn, &req->identity_error);
	req->unframed = http_check_framing(&req->headers, version, &e) != 0;
	if (req->unframed)
		req_refuse(req, 400, "%s", e.msg);
	length = http_header(req, "Content-Length");
	req->body_expected = length ? strtoull(length, NULL, 10) : 0;
	expect(req, body_limit_ns(length && req->body_expected < DRAIN_BYTES ? req->body_expected
									     : DRAIN_BYTES));
	if (req->body_expected > LIMIT_HTTP_BODY_BYTES)
		req_refuse(req, 413, "a body of %.20s bytes, limit %d", length,
			   LIMIT_HTTP_BODY_BYTES);
}

/* A body that is too long is read and dropped for a while, since a client that still sends would not
 * read the answer; then the connection is closed. */
static enum MHD_Result req_take_body(struct http_req *req, const char *data, size_t len)
{
	req->body_seen += len;
	if (req->body_seen > LIMIT_HTTP_BODY_BYTES) {
		req_refuse(req, 413, "a body beyond %d bytes", LIMIT_HTTP_BODY_BYTES);
		buf_release(&req->body);
		return req->body_seen > DRAIN_BYTES ? MHD_NO : MHD_YES;
	}
	if (!req->refused && req->place && !http_conn_body(req->place, req->body.len + len)) {
		req_refuse(req, 503, "too many long bodies are under way: try again");
		buf_release(&req->body);
	}
	if (!req->refused)
		buf_add(&req->body, data, len);
	return MHD_YES;
}

static void held_remove(struct http_server *s, struct http_req *req)
{
	if (req->prev)
		req->prev->next = req->next;
	else
		s->held = req->next;
	if (req->next)
		req->next->prev = req->prev;
	req->prev = req->next = NULL;
	req->held = false;
}

static void held_add(struct http_server *s, struct http_req *req)
{
	req->next = s->held;
	if (s->held)
		s->held->prev = req;
	s->held = req;
	req->held = true;
}

void req_hand_over(struct http_server *s, struct http_req *req, unsigned int status,
		   struct MHD_Response *resp)
{
	req->answer = resp;
	req->status = status;
	held_remove(s, req);
	MHD_resume_connection(req->conn);
}

bool http_is_gone(struct http_req *req)
{
	const union MHD_ConnectionInfo *info;
	struct http_server *s = req->server;
	struct tcp_info tcp;
	socklen_t len = sizeof(tcp);
	bool is_gone = false;

	if (!s)
		return true;
	pthread_mutex_lock(&s->lock);
	if (req->held) {
		info = MHD_get_connection_info(req->conn, MHD_CONNECTION_INFO_CONNECTION_FD);
		if (info && !getsockopt(info->connect_fd, IPPROTO_TCP, TCP_INFO, &tcp, &len))
			is_gone = tcp.tcpi_state == TCP_CLOSE || tcp.tcpi_state == TCP_CLOSE_WAIT;
	}
	pthread_mutex_unlock(&s->lock);
	return is_gone;
}

static enum MHD_Result queue_answer(struct http_req *req, unsigned int status,
				    struct MHD_Response *resp)
{
	enum MHD_Result rc = MHD_queue_response(req->conn, status, resp);

	MHD_destroy_response(resp);
	return rc;
}

/* ---- microhttpd's calls ---- */

static void on_request(void *arg)
{
	struct http_req *req = arg;

	if (req->server)
		req->server->handler(req, req->server->arg);
	else
		req_unref(req);
}

static void log_refusal(struct http_server *s, const struct http_req *req)
{
	if (may_log(s))
		log_warn("HTTP-REFUSED", "peer=%s status=%d reason=\"%s\"", req->peer, req->refused,
			 req->why.msg);
}

/* Answers, then closes the connection: it is not certain where the body ends, so what follows may be part of
 * it. */
static enum MHD_Result refuse_unframed(struct http_server *s, struct http_req *req)
{
	struct MHD_Response *resp = response_error(req->why.msg);

	log_refusal(s, req);
	MHD_add_response_header(resp, "Connection", "close");
	return queue_answer(req, (unsigned int)req->refused, resp);
}

/* The request is complete: hands it to the loop. */
static enum MHD_Result req_hold(struct http_server *s, struct http_req *req)
{
	bool closing;

	pthread_mutex_lock(&s->lock);
	closing = s->closing;
	if (!closing) {
		atomic_fetch_add(&req->refs, 1);
		held_add(s, req);
		MHD_suspend_connection(req->conn);
		loop_post(s->loop, on_request, req);
	}
	pthread_mutex_unlock(&s->lock);
	return closing ? queue_answer(req, 503, response_error("the server is stopping")) : MHD_YES;
}

static struct MHD_Response *take_answer(struct http_server *s, struct http_req *req,
					unsigned int *status)
{
	struct MHD_Response *resp;

	pthread_mutex_lock(&s->lock);
	resp = req->answer;
	req->answer = NULL;
	*status = req->status;
	pthread_mutex_unlock(&s->lock);
	return resp;
}

/* Before a connection is made; it is closed if this returns MHD_NO. */
static enum MHD_Result on_accept(void *arg, const struct sockaddr *address, socklen_t len)
{
	struct http_server *s = arg;

	(void)len;
	if (http_conns_admit(s->conns, address))
		return MHD_YES;
	if (may_log(s)) {
		char name[INET6_ADDRSTRLEN];

		socket_name(address, name);
		log_warn("HTTP-PEER", "peer=%s reason=\"it holds its share of the connections\"",
			 name);
	}
	return MHD_NO;
}

/* microhttpd is done with a request. */
static void req_leave(struct http_server *s, struct http_req *req)
{
	req_unref(req);
	pthread_mutex_lock(&s->lock);
	s->under_way--;
	pthread_cond_signal(&s->completed);
	pthread_mutex_unlock(&s->lock);
}

/* microhttpd calls on_uri() and never on_completed() for a request whose headers it refuses by itself. */
static void end_connection(struct http_server *s, struct http_conn *place)
{
	if (http_conn_request(place))
		req_leave(s, http_conn_request(place));
	http_conn_end(place);
}

static void on_connection(void *arg, struct MHD_Connection *conn, void **place,
			  enum MHD_ConnectionNotificationCode code)
{
	struct http_server *s = arg;
	const union MHD_ConnectionInfo *info;
	const struct sockaddr *address;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (*place)
			end_connection(s, *place);
		return;
	}
	/* libmicrohttpd 1.0 keeps one answer a connection: the next question overwrites it. */
	info = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	address = info ? info->client_addr : NULL;
	info = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
	*place = address && info ? http_conn_begin(s->conns, address, info->connect_fd) : NULL;
}

/* Called when the headers are there, for each piece of the body, when all is there, and again after
 * a resume. */
static enum MHD_Result on_access(void *arg, struct MHD_Connection *conn, const char *url,
				 const char *method, const char *version, const char *data,
				 size_t *len, void **state)
{
	struct http_server *s = arg;
	struct http_req *req = *state;
	struct MHD_Response *resp;
	unsigned int status;

	(void)conn;
	(void)url;
	if (!req->started) {
		req_start(req, method, version);
		if (req->unframed)
			return refuse_unframed(s, req);
		if (req->body_expected <= DRAIN_BYTES)
			return MHD_YES;
	}
	if (*len) {
		size_t n = *len;

		*len = 0;
		return req_take_body(req, data, n);
	}
	expect(req, 0);
	if (req->refused) {
		log_refusal(s, req);
		return queue_answer(req, (unsigned int)req->refused, response_error(req->why.msg));
	}
	resp = take_answer(s, req, &status);
	return resp ? queue_answer(req, status, resp) : req_hold(s, req);
}

static void on_completed(void *arg, struct MHD_Connection *conn, void **state,
			 enum MHD_RequestTerminationCode code)
{
	struct http_server *s = arg;
	struct http_req *req = *state;

	(void)conn;
	(void)code;
	if (!req)
		return;
	*state = NULL;
	if (req->place) {
		http_conn_done(req->place, IDLE_SECONDS * NS_PER_S);
		http_conn_set_request(req->place, NULL);
	}
	if (req->stream)
		stream_completed(req->stream);
	if (req->file_body)
		body_completed(req->file_body);
	req_leave(s, req);
}

/* ---- life ---- */

/* Sends a comment line regularly: only writing shows that a client has vanished. */
static void on_heartbeat(void *arg)
{
	struct http_server *s = arg;

	streams_send_heartbeat(s);
	loop_timer_in(s->loop, &s->heartbeat, HEARTBEAT_NS, on_heartbeat, s);
}

static int load_pem(const char *path, char **out, struct err *e)
{
	struct buf pem = BUF_INIT;
	int rc = pem_load(path, &pem, e);

	if (!rc)
		*out = (char *)buf_detach(&pem, NULL);
	buf_release(&pem);
	return rc;
}

static int load_tls(struct http_server *s, const struct http_server_opts *opts, struct err *e)
{
	int rc;

	if (!opts->cert_file && !opts->key_file)
		return 0;
	if (!opts->cert_file || !opts->key_file)
		return err_set(e, ERR_INVALID, "TLS needs both a certificate and its key");
	rc = load_pem(opts->cert_file, &s->cert, e);
	if (!rc)
		rc = load_pem(opts->key_file, &s->key, e);
	if (!rc && opts->ca_file)
		rc = load_pem(opts->ca_file, &s->ca, e);
	return rc;
}

/* microhttpd owns the listening socket from here on, also when it fails to start. */
static int start_daemon(struct http_server *s, int listen_fd, int threads, struct err *e)
{
	unsigned int flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
			     MHD_USE_ERROR_LOG | (s->cert ? MHD_USE_TLS : 0);
	struct MHD_OptionItem tls[] = {
		{ MHD_OPTION_HTTPS_MEM_CERT, 0, s->cert },
		{ MHD_OPTION_HTTPS_MEM_KEY, 0, s->key },
		{ MHD_OPTION_HTTPS_PRIORITIES, 0,
		  (void *)(uintptr_t) "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2" },
		{ s->ca ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0, s->ca },
		{ MHD_OPTION_END, 0, NULL },
	};

	s->daemon = MHD_start_daemon(
		flags, 0, on_accept, s, on_access, s, MHD_OPTION_EXTERNAL_LOGGER, on_library_log, s,
		MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_URI_LOG_CALLBACK, on_uri, s,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_THREAD_POOL_SIZE,
		(unsigned int)threads, MHD_OPTION_CONNECTION_LIMIT, MAX_CONNECTIONS,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_CONNECTION_TIMEOUT,
		HEAD_SECONDS, MHD_OPTION_ARRAY, s->cert ? tls : &tls[ARRAY_SIZE(tls) - 1],
		MHD_OPTION_END);
	if (!s->daemon)
		return err_set(e, ERR_IO, "starting the HTTP server failed%s",
			       s->cert ? "; do the certificate and the key belong together?" : "");
	return 0;
}

static void init_completed(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

int http_server_new(struct http_server **out, struct loop *loop,
		    const struct http_server_opts *opts, http_handler handler, void *arg, int *port,
		    struct err *e)
{
	struct http_server *s = xcalloc(1, sizeof(*s));
	int threads = opts->threads < 2 ? 2 : opts->threads > 4 ? 4 : opts->threads;
	int fd;
	int rc;

	s->loop = loop;
	s->handler = handler;
	s->arg = arg;
	s->conns = http_conns_new(loop, MAX_CONNECTIONS);
	pthread_mutex_init(&s->lock, NULL);
	init_completed(&s->completed);
	rc = load_tls(s, opts, e);
	if (!rc)
		rc = socket_bind(opts->address, SOCK_STREAM, &fd, port, e);
	if (!rc)
		rc = start_daemon(s, fd, threads, e);
	if (rc) {
		http_server_free(s);
		return rc;
	}
	loop_timer_in(loop, &s->heartbeat, HEARTBEAT_NS, on_heartbeat, s);
	*out = s;
	return 0;
}

/* Answers the requests that the loop has not answered. The loop keeps its references to them; they no
 * longer name the server. */
static void refuse_held(struct http_server *s)
{
	pthread_mutex_lock(&s->lock);
	s->closing = true;
	while (s->held) {
		s->held->server = NULL;
		req_hand_over(s, s->held, 503, response_error("the server is stopping"));
	}
	pthread_mutex_unlock(&s->lock);
}

/* Waits until the last answers are sent; cuts off clients that read slowly. */
static void await_completed(struct http_server *s)
{
	int64_t until_ns = now_mono_ns() + LAST_ANSWERS_NS;
	struct timespec until = { until_ns / NS_PER_S, until_ns % NS_PER_S };

	pthread_mutex_lock(&s->lock);
	while (s->under_way && !pthread_cond_timedwait(&s->completed, &s->lock, &until))
		;
	pthread_mutex_unlock(&s->lock);
}

void http_server_free(struct http_server *s)
{
	int listen_fd;

	if (!s)
		return;
	loop_timer_cancel(s->loop, &s->heartbeat);
	http_conns_stop(s->conns);
	if (s->daemon) {
		listen_fd = MHD_quiesce_daemon(s->daemon);
		refuse_held(s);
		streams_end(s);
		bodies_end(s);
		await_completed(s);
		MHD_stop_daemon(s->daemon);
		close(listen_fd);
	}
	pthread_cond_destroy(&s->completed);
	pthread_mutex_destroy(&s->lock);
	http_conns_free(s->conns);
	free(s->cert);
	free(s->key);
	free(s->ca);
	free(s);
}
