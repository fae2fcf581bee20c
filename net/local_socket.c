/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several slots share the nng socket, each with its own context: while one request waits for its answer, the
 * other slots receive. nng's callbacks only post; the loop's thread owns all state.
 *
 * nng 1.5.2 stops accepting for good when a client disconnects in the middle of the handshake (nng's issue
 * 1518). So a timer reads the listener's error count; when it has changed, a worker sends an empty request to
 * the socket's own address, and without an answer the endpoint (nng socket, listener and slots) is closed and
 * opened again. If a peer disconnects so again and again, these checks and their log lines come at growing
 * intervals.
 */
#include "net/local_socket.h"

#include <errno.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/transport/ipc/ipc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/pace.h"
#include "net/local_impl.h"
#include "proto/limits.h"

#define N_SLOTS	       8
#define SOCKET_MODE    0660 /* root and its group; the folder's group may admit others */
#define FOLDER_MODE    0755
#define WATCH_EVERY_NS NS_PER_S
#define CHECK_WAIT_NS  NS_PER_S
#define CHECK_EVERY_NS (60 * NS_PER_S) /* without any error, too */
#define SEND_LIMIT_MS  1000 /* a client that has not read its earlier answers by then is cut off */
#define CONNS_MAX      256 /* one user alone gets half of them: see admit() */

static const struct pace_limits check_limits = { .first_ns = NS_PER_S, .most_ns = 10 * NS_PER_S };
static const struct pace_limits log_limits = { .first_ns = 3 * NS_PER_S,
					       .most_ns = 3600 * NS_PER_S };

enum slot_state { SLOT_RECEIVING, SLOT_HELD, SLOT_SENDING };

struct slot {
	struct endpoint *endpoint;
	nng_ctx ctx;
	nng_aio *aio;
	enum slot_state state;
	struct local_request *req; /* SLOT_HELD */
};

/* Outlives its slot if the socket closes first. */
struct local_request {
	struct slot *slot; /* NULL once the socket is closed */
	nng_msg *msg;
};

/* An accepted connection. */
struct conn {
	uint32_t pipe; /* nng's number */
	uint64_t uid;
};

/* Everything that belongs to nng. Outlives its local socket until all posted events are delivered and
 * nng has closed. */
struct endpoint {
	struct local_socket *owner; /* NULL once closed; loop thread only */
	pthread_mutex_t lock; /* guards `loop`, which nng's threads may outlive */
	struct loop *loop; /* NULL once closed */
	nng_socket socket;
	nng_listener listener;
	bool opened;
	pthread_mutex_t conns_lock; /* guards the two members below; nng's threads take it */
	struct conn conns[CONNS_MAX];
	size_t n_conns;
	atomic_int refs; /* the local socket has one, each posted event another */
	struct slot slots[N_SLOTS];
};

struct local_socket {
	struct loop *loop;
	char *url;
	local_handler handler;
	void *arg;
	struct endpoint *endpoint; /* NULL after one could not be reopened */
	uint64_t errors; /* of the listener, at the last check */
	bool owes_error; /* the end of that check's own connection is not among them */
	int64_t checked_ns; /* when; loop_now_ns() */
	uint64_t logged; /* unidentified connections */
	bool is_lost; /* it could not be opened again, and that is logged */
	struct pace check_pace, unidentified_log, reopened_log;
	struct check *check; /* in progress, or NULL */
	struct loop_timer watch;
};

/* A worker's request that shows whether the socket still answers. */
struct check {
	struct local_socket *socket; /* NULL once freed; loop thread only */
	char *url;
	int rc;
};

static void endpoint_unref(struct endpoint *ep)
{
	if (atomic_fetch_sub(&ep->refs, 1) > 1)
		return;
	pthread_mutex_destroy(&ep->conns_lock);
	pthread_mutex_destroy(&ep->lock);
	free(ep);
}

/* ---- connections ---- */

/* A user may hold at most as many connections as are free for all others. The check's own connection is
 * always accepted. */
static bool admit(struct endpoint *ep, nng_pipe pipe)
{
	struct conn new = { .pipe = (uint32_t)nng_pipe_id(pipe) };
	uint64_t pid = 0;
	size_t of_user = 0;
	bool admitted;

	if (nng_pipe_get_uint64(pipe, NNG_OPT_IPC_PEER_UID, &new.uid))
		new.uid = UINT64_MAX;
	if (!nng_pipe_get_uint64(pipe, NNG_OPT_IPC_PEER_PID, &pid) && pid == (uint64_t)getpid())
		return true;
	pthread_mutex_lock(&ep->conns_lock);
	for (size_t i = 0; i < ep->n_conns; i++)
		of_user += ep->conns[i].uid == new.uid;
	admitted = ep->n_conns + of_user < CONNS_MAX;
	if (admitted)
		ep->conns[ep->n_conns++] = new;
	pthread_mutex_unlock(&ep->conns_lock);
	return admitted;
}

static void forget(struct endpoint *ep, nng_pipe pipe)
{
	size_t i = 0;

	pthread_mutex_lock(&ep->conns_lock);
	while (i < ep->n_conns && ep->conns[i].pipe != (uint32_t)nng_pipe_id(pipe))
		i++;
	if (i < ep->n_conns)
		ep->conns[i] = ep->conns[--ep->n_conns];
	pthread_mutex_unlock(&ep->conns_lock);
}

static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
	if (event == NNG_PIPE_EV_REM_POST)
		forget(arg, pipe);
	else if (!admit(arg, pipe))
		nng_pipe_close(pipe);
}

/* ---- requests ---- */

static void slot_receive(struct slot *s)
{
	s->req = NULL;
	s->state = SLOT_RECEIVING;
	nng_aio_set_timeout(s->aio, NNG_DURATION_INFINITE);
	nng_ctx_recv(s->ctx, s->aio);
}

static void slot_send(struct slot *s, nng_msg *msg)
{
	s->req = NULL;
	s->state = SLOT_SENDING;
	nng_aio_set_timeout(s->aio, SEND_LIMIT_MS);
	nng_aio_set_msg(s->aio, msg);
	nng_ctx_send(s->ctx, s->aio);
}

static void on_received(struct slot *s)
{
	struct local_socket *ls = s->endpoint->owner;
	struct local_request *req;
	nng_msg *msg;

	if (nng_aio_result(s->aio)) {
		slot_receive(s);
		return;
	}
	msg = nng_aio_get_msg(s->aio);
	nng_aio_set_msg(s->aio, NULL);
	if (nng_msg_len(msg) > LIMIT_LOCAL_BYTES) {
		nng_msg_free(msg);
		slot_receive(s);
		return;
	}
	if (!nng_msg_len(msg)) {
		slot_send(s, msg);
		return;
	}
	req = xmalloc(sizeof(*req));
	*req = (struct local_request){ .slot = s, .msg = msg };
	s->state = SLOT_HELD;
	s->req = req;
	ls->handler(req, nng_msg_body(msg), nng_msg_len(msg), ls->arg);
}

/* A message that nng could not send stays with the aio, and is freed here. */
static void drop_unsent(struct slot *s)
{
	nng_msg *msg = nng_aio_get_msg(s->aio);
	int why = nng_aio_result(s->aio);

	if (msg && why == NNG_ETIMEDOUT)
		nng_pipe_close(nng_msg_get_pipe(msg));
	if (msg && why)
		nng_msg_free(msg);
	nng_aio_set_msg(s->aio, NULL);
}

static void on_event(void *arg)
{
	struct slot *s = arg;
	struct endpoint *ep = s->endpoint;

	if (ep->owner && s->state == SLOT_RECEIVING) {
		on_received(s);
	} else if (ep->owner && s->state == SLOT_SENDING) {
		drop_unsent(s);
		slot_receive(s);
	}
	endpoint_unref(ep);
}

static void on_aio(void *arg)
{
	struct slot *s = arg;
	struct endpoint *ep = s->endpoint;

	pthread_mutex_lock(&ep->lock);
	if (ep->loop) {
		atomic_fetch_add(&ep->refs, 1);
		loop_post(ep->loop, on_event, s);
	}
	pthread_mutex_unlock(&ep->lock);
}

void local_request_answer(struct local_request *req, const void *data, size_t len)
{
	struct slot *s = req->slot;
	nng_msg *msg = req->msg;

	/* The context has the route back; the request's message is reused as a container. */
	nng_msg_clear(msg);
	if (s && !nng_msg_append(msg, data, len)) {
		slot_send(s, msg);
	} else {
		nng_msg_free(msg);
		if (s)
			slot_receive(s);
	}
	free(req);
}

int32_t local_request_pid(const struct local_request *req)
{
	nng_pipe pipe = nng_msg_get_pipe(req->msg);
	uint64_t pid = 0;

	if (nng_pipe_get_uint64(pipe, NNG_OPT_IPC_PEER_PID, &pid) || pid > INT32_MAX)
		return 0;
	return (int32_t)pid;
}

/* ---- endpoints ---- */

/* True if a process serves that socket. Reads its handshake first: an early disconnect would trigger
 * issue 1518 in that process. */
static bool is_served(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = 1 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char handshake[8];
	bool served;

	if (fd < 0)
		return false;
	if (strlen(path) >= sizeof(addr.sun_path)) {
		close(fd);
		return false;
	}
	memcpy(addr.sun_path, path, strlen(path));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	served = !connect(fd, (struct sockaddr *)&addr, sizeof(addr)) || errno == EAGAIN;
	if (served)
		(void)!recv(fd, handshake, sizeof(handshake), MSG_WAITALL);
	close(fd);
	return served;
}

static int make_folder(const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup("");
	int rc = 0;

	if (*folder && mkdir(folder, FOLDER_MODE) && errno != EEXIST)
		rc = err_errno(e, "making %s for the agent's socket", folder);
	free(folder);
	return rc;
}

/* nng replaces a socket file that no process serves. Any other file of that name is an error. */
static int prepare_path(const char *url, struct err *e)
{
	const char *path = url + strlen(LOCAL_SCHEME);
	struct stat st;

	if (lstat(path, &st))
		return make_folder(path, e);
	if (!S_ISSOCK(st.st_mode))
		return err_set(e, ERR_EXISTS, "%s exists and is not a socket", path);
	return is_served(path) ? local_error(e, NNG_EADDRINUSE, url) : 0;
}

static int start_listener(struct endpoint *ep, const char *url)
{
	int rv = nng_socket_set_size(ep->socket, NNG_OPT_RECVMAXSZ, LOCAL_WIRE_BYTES);

	if (!rv)
		rv = nng_listener_create(&ep->listener, ep->socket, url);
	if (!rv)
		rv = nng_listener_set_int(ep->listener, NNG_OPT_IPC_PERMISSIONS, SOCKET_MODE);
	if (!rv)
		rv = nng_listener_start(ep->listener, 0);
	return rv;
}

static int start_slots(struct endpoint *ep)
{
	int rv = 0;

	for (size_t i = 0; i < N_SLOTS && !rv; i++) {
		struct slot *s = &ep->slots[i];

		s->endpoint = ep;
		rv = nng_ctx_open(&s->ctx, ep->socket);
		if (!rv)
			rv = nng_aio_alloc(&s->aio, on_aio, s);
		if (!rv)
			slot_receive(s);
	}
	return rv;
}

/* Frees a message that arrived and was not delivered, or that was not sent. */
static void slot_close(struct slot *s)
{
	if (!s->aio)
		return;
	nng_aio_stop(s->aio);
	if (s->state == SLOT_SENDING)
		drop_unsent(s);
	else if (s->state == SLOT_RECEIVING && !nng_aio_result(s->aio) && nng_aio_get_msg(s->aio))
		nng_msg_free(nng_aio_get_msg(s->aio));
	nng_aio_free(s->aio);
}

/* Called on a thread of its own. */
static void endpoint_clear(void *arg)
{
	struct endpoint *ep = arg;

	if (ep->opened)
		nng_close(ep->socket);
	for (size_t i = 0; i < N_SLOTS; i++)
		slot_close(&ep->slots[i]);
	endpoint_unref(ep);
}

static void endpoint_close(struct endpoint *ep)
{
	if (!ep)
		return;
	ep->owner = NULL;
	pthread_mutex_lock(&ep->lock);
	ep->loop = NULL;
	pthread_mutex_unlock(&ep->lock);
	for (size_t i = 0; i < N_SLOTS; i++) {
		if (ep->slots[i].req)
			ep->slots[i].req->slot = NULL;
	}
	local_close_on_thread(endpoint_clear, ep);
}

static int endpoint_open(struct local_socket *ls, struct err *e)
{
	struct endpoint *ep;
	int rc = prepare_path(ls->url, e);
	int rv;

	if (rc)
		return rc;
	ep = xcalloc(1, sizeof(*ep));
	atomic_init(&ep->refs, 1);
	pthread_mutex_init(&ep->lock, NULL);
	pthread_mutex_init(&ep->conns_lock, NULL);
	ep->owner = ls;
	ep->loop = ls->loop;
	rv = nng_rep0_open(&ep->socket);
	ep->opened = !rv;
	if (!rv)
		rv = nng_pipe_notify(ep->socket, NNG_PIPE_EV_ADD_PRE, on_pipe, ep);
	if (!rv)
		rv = nng_pipe_notify(ep->socket, NNG_PIPE_EV_REM_POST, on_pipe, ep);
	if (!rv)
		rv = start_slots(ep);
	if (!rv)
		rv = start_listener(ep, ls->url);
	if (rv) {
		endpoint_close(ep);
		return local_error(e, rv, ls->url);
	}
	ls->endpoint = ep;
	ls->errors = 0;
	ls->owes_error = false;
	ls->checked_ns = loop_now_ns(ls->loop);
	return 0;
}

/* ---- does the socket still answer? ---- */

static uint64_t read_stat(nng_stat *listener, const char *name)
{
	nng_stat *st = listener ? nng_stat_find(listener, name) : NULL;

	return st ? nng_stat_value(st) : 0;
}

/* What nng counts of a listener. */
struct counts {
	uint64_t
		errors; /* connections without a valid handshake, and the ends of most that had one */
	uint64_t
		unidentified; /* the former: about, because the end of a connection is counted in two steps */
};

static struct counts count(const struct endpoint *ep)
{
	struct counts c = { 0 };
	nng_stat *all, *listener;
	uint64_t ended;

	if (nng_stats_get(&all))
		return c;
	listener = nng_stat_find_listener(all, ep->listener);
	c.errors = read_stat(listener, "other") + read_stat(listener, "proto") +
		   read_stat(listener, "reject");
	ended = read_stat(listener, "accept") - read_stat(listener, "pipes");
	nng_stats_free(all);
	c.unidentified = c.errors > ended ? c.errors - ended : 0;
	return c;
}

static void run_check(void *arg)
{
	struct check *k = arg;
	struct local_client *c = NULL;
	uint8_t *reply = NULL;
	size_t len;

	k->rc = local_client_open(&c, k->url, NULL);
	if (!k->rc)
		k->rc = local_client_call(c, "", 0, CHECK_WAIT_NS, &reply, &len, NULL);
	free(reply);
	local_client_close(c);
}

static void reopen(struct local_socket *ls)
{
	struct err e = { 0 };

	endpoint_close(ls->endpoint);
	ls->endpoint = NULL;
	ls->logged = 0;
	if (endpoint_open(ls, &e)) {
		if (!ls->is_lost)
			log_error("LOCAL-LOST", "reason=\"%s\"", e.msg);
		ls->is_lost = true;
		return;
	}
	if (ls->is_lost || pace_is_due(&ls->reopened_log, &log_limits, loop_now_ns(ls->loop)))
		log_warn("LOCAL-REOPENED", "url=%s reason=\"it had stopped answering\"", ls->url);
	ls->is_lost = false;
}

static void end_check(void *arg)
{
	struct check *k = arg;

	if (k->socket) {
		k->socket->check = NULL;
		k->socket->owes_error = true;
		if (k->rc)
			reopen(k->socket);
	}
	free(k->url);
	free(k);
}

static void log_unidentified(struct local_socket *ls, uint64_t n)
{
	if (n <= ls->logged ||
	    !pace_is_due(&ls->unidentified_log, &log_limits, loop_now_ns(ls->loop)))
		return;
	log_warn("NET-UNIDENTIFIED",
		 "url=%s connections=%llu reason=\"no handshake of a Tutti client\"", ls->url,
		 (unsigned long long)(n - ls->logged));
	ls->logged = n;
}

/* Each error may be one that stops nng from accepting; only the check's own is known not to be. */
static bool is_doubtful(struct local_socket *ls, uint64_t errors)
{
	if (ls->owes_error && errors > ls->errors) {
		ls->owes_error = false;
		ls->errors++;
	}
	return errors != ls->errors || loop_now_ns(ls->loop) - ls->checked_ns > CHECK_EVERY_NS;
}

static void on_watch(void *arg)
{
	struct local_socket *ls = arg;
	struct counts now = { 0 };

	if (ls->endpoint)
		now = count(ls->endpoint);
	log_unidentified(ls, now.unidentified);
	if (!ls->check && (!ls->endpoint || is_doubtful(ls, now.errors)) &&
	    pace_is_due(&ls->check_pace, &check_limits, loop_now_ns(ls->loop))) {
		ls->errors = now.errors;
		ls->checked_ns = loop_now_ns(ls->loop);
		ls->check = xmalloc(sizeof(*ls->check));
		*ls->check = (struct check){ .socket = ls, .url = xstrdup(ls->url) };
		loop_work(ls->loop, run_check, end_check, ls->check);
	}
	loop_timer_each(ls->loop, &ls->watch, WATCH_EVERY_NS, on_watch, ls);
}

/* ---- life ---- */

int local_socket_open(struct local_socket **out, struct loop *loop, const char *url,
		      local_handler handler, void *arg, struct err *e)
{
	struct local_socket *ls;
	int rc;

	if (strncmp(url, LOCAL_SCHEME, strlen(LOCAL_SCHEME)))
		return local_error(e, NNG_EADDRINVAL, url);
	ls = xcalloc(1, sizeof(*ls));
	ls->loop = loop;
	ls->url = xstrdup(url);
	ls->handler = handler;
	ls->arg = arg;
	rc = endpoint_open(ls, e);
	if (rc) {
		local_socket_free(ls);
		return rc;
	}
	loop_timer_each(loop, &ls->watch, WATCH_EVERY_NS, on_watch, ls);
	*out = ls;
	return 0;
}

void local_socket_free(struct local_socket *ls)
{
	if (!ls)
		return;
	loop_timer_cancel(ls->loop, &ls->watch);
	if (ls->check)
		ls->check->socket = NULL;
	endpoint_close(ls->endpoint);
	free(ls->url);
	free(ls);
}
