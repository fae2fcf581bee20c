/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several slots share the socket, each with its own context: while one request waits for its
 * answer, the others are served. nng's callbacks only post; all state is the loop's.
 *
 * nng 1.5.2 stops accepting for good when a client hangs up in the middle of its greeting (nng's
 * issue 1518). So the socket looks at the listener's error count now and then; if it moved, it asks
 * itself something, and without an answer it moves into a new room: socket, slots and all.
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
#include "net/local_impl.h"
#include "proto/limits.h"

#define N_SLOTS	      8
#define SOCKET_MODE   0660 /* root and its group; widen it with the directory's group */
#define FOLDER_MODE   0755
#define LOOK_EVERY_NS (200 * NS_PER_MS)
#define CHECK_WAIT_NS NS_PER_S
#define TELL_EVERY_NS (3 * NS_PER_S)

enum slot_state { SLOT_RECEIVING, SLOT_HELD, SLOT_SENDING };

struct slot {
	struct room *room;
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

/* All that is nng's. Outlives its socket by what is posted and not yet delivered, and while it closes. */
struct room {
	struct local_socket *owner; /* NULL once closed; the loop's thread */
	pthread_mutex_t lock; /* of `loop`: nng's threads may outlive it */
	struct loop *loop; /* NULL once closed */
	nng_socket socket;
	nng_listener listener;
	bool opened;
	atomic_int refs; /* the local socket's, and one for each posted event */
	struct slot slots[N_SLOTS];
};

struct local_socket {
	struct loop *loop;
	char *url;
	local_handler handler;
	void *arg;
	struct room *room; /* NULL while a new one could not be had */
	uint64_t errors; /* of the listener, at the last look */
	uint64_t told; /* of them, in the log */
	int64_t told_ns;
	struct check *check; /* under way, or NULL */
	struct loop_timer look;
};

/* A worker's question whether the socket still opens. */
struct check {
	struct local_socket *socket; /* NULL once freed; the loop's thread */
	char *url;
	int rc;
};

static void room_unref(struct room *r)
{
	if (atomic_fetch_sub(&r->refs, 1) > 1)
		return;
	pthread_mutex_destroy(&r->lock);
	free(r);
}

/* ---- requests ---- */

static void slot_receive(struct slot *s)
{
	s->req = NULL;
	s->state = SLOT_RECEIVING;
	nng_ctx_recv(s->ctx, s->aio);
}

static void slot_send(struct slot *s, nng_msg *msg)
{
	s->req = NULL;
	s->state = SLOT_SENDING;
	nng_aio_set_msg(s->aio, msg);
	nng_ctx_send(s->ctx, s->aio);
}

static void on_received(struct slot *s)
{
	struct local_socket *d = s->room->owner;
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
	d->handler(req, nng_msg_body(msg), nng_msg_len(msg), d->arg);
}

/* nng keeps a message that it could not send with us. */
static void drop_unsent(struct slot *s)
{
	nng_msg *msg = nng_aio_get_msg(s->aio);

	if (msg && nng_aio_result(s->aio))
		nng_msg_free(msg);
	nng_aio_set_msg(s->aio, NULL);
}

static void on_event(void *arg)
{
	struct slot *s = arg;
	struct room *r = s->room;

	if (r->owner && s->state == SLOT_RECEIVING) {
		on_received(s);
	} else if (r->owner && s->state == SLOT_SENDING) {
		drop_unsent(s);
		slot_receive(s);
	}
	room_unref(r);
}

static void on_aio(void *arg)
{
	struct slot *s = arg;
	struct room *r = s->room;

	pthread_mutex_lock(&r->lock);
	if (r->loop) {
		atomic_fetch_add(&r->refs, 1);
		loop_post(r->loop, on_event, s);
	}
	pthread_mutex_unlock(&r->lock);
}

void local_answer(struct local_request *req, const void *data, size_t len)
{
	struct slot *s = req->slot;
	nng_msg *msg = req->msg;

	/* The way back is the context's; the request's message is just at hand. */
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

/* ---- rooms ---- */

/* True if somebody serves that socket. Hanging up at once would hurt him: see above. */
static bool is_served(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = 1 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char greeting[8];
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
		(void)!recv(fd, greeting, sizeof(greeting), MSG_WAITALL);
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

/* A socket file that nobody serves is nng's to replace; anything else of that name is not. */
static int prepare_path(const char *url, struct err *e)
{
	const char *path = url + strlen(DOOR_SCHEME);
	struct stat st;

	if (lstat(path, &st))
		return make_folder(path, e);
	if (!S_ISSOCK(st.st_mode))
		return err_set(e, ERR_EXISTS, "%s is there, and is no socket", path);
	return is_served(path) ? local_error(e, NNG_EADDRINUSE, url) : 0;
}

static int start_listener(struct room *r, const char *url)
{
	int rv = nng_socket_set_size(r->socket, NNG_OPT_RECVMAXSZ, DOOR_WIRE_BYTES);

	if (!rv)
		rv = nng_listener_create(&r->listener, r->socket, url);
	if (!rv)
		rv = nng_listener_set_int(r->listener, NNG_OPT_IPC_PERMISSIONS, SOCKET_MODE);
	if (!rv)
		rv = nng_listener_start(r->listener, 0);
	return rv;
}

static int start_slots(struct room *r)
{
	int rv = 0;

	for (size_t i = 0; i < N_SLOTS && !rv; i++) {
		struct slot *s = &r->slots[i];

		s->room = r;
		rv = nng_ctx_open(&s->ctx, r->socket);
		if (!rv)
			rv = nng_aio_alloc(&s->aio, on_aio, s);
		if (!rv)
			slot_receive(s);
	}
	return rv;
}

/* A message that arrived and was never delivered, or one that was never sent, is still ours. */
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

/* Its own thread's. */
static void room_clear(void *arg)
{
	struct room *r = arg;

	if (r->opened)
		nng_close(r->socket);
	for (size_t i = 0; i < N_SLOTS; i++)
		slot_close(&r->slots[i]);
	room_unref(r);
}

static void room_close(struct room *r)
{
	if (!r)
		return;
	r->owner = NULL;
	pthread_mutex_lock(&r->lock);
	r->loop = NULL;
	pthread_mutex_unlock(&r->lock);
	for (size_t i = 0; i < N_SLOTS; i++) {
		if (r->slots[i].req)
			r->slots[i].req->slot = NULL;
	}
	local_close_apart(room_clear, r);
}

static int room_open(struct local_socket *d, struct err *e)
{
	struct room *r;
	int rc = prepare_path(d->url, e);
	int rv;

	if (rc)
		return rc;
	r = xcalloc(1, sizeof(*r));
	atomic_init(&r->refs, 1);
	pthread_mutex_init(&r->lock, NULL);
	r->owner = d;
	r->loop = d->loop;
	rv = nng_rep0_open(&r->socket);
	r->opened = !rv;
	if (!rv)
		rv = start_slots(r);
	if (!rv)
		rv = start_listener(r, d->url);
	if (rv) {
		room_close(r);
		return local_error(e, rv, d->url);
	}
	d->room = r;
	d->errors = 0;
	return 0;
}

/* ---- is it still open? ---- */

/* Connections without a proper greeting: hung up, no nng at all, another protocol of nng's. */
static uint64_t listener_errors(const struct room *r)
{
	static const char *const names[] = { "other", "proto", "reject" };
	nng_stat *all, *listener, *st;
	uint64_t n = 0;

	if (nng_stats_get(&all))
		return 0;
	listener = nng_stat_find_listener(all, r->listener);
	for (size_t i = 0; listener && i < ARRAY_SIZE(names); i++) {
		st = nng_stat_find(listener, names[i]);
		n += st ? nng_stat_value(st) : 0;
	}
	nng_stats_free(all);
	return n;
}

static void run_check(void *arg)
{
	struct check *k = arg;
	struct local_client *c = NULL;
	uint8_t *reply = NULL;
	size_t len;

	k->rc = local_dial(&c, k->url, NULL);
	if (!k->rc)
		k->rc = local_ask(c, "", 0, CHECK_WAIT_NS, &reply, &len, NULL);
	free(reply);
	local_hang_up(c);
}

static void reopen(struct local_socket *d)
{
	struct err e = { 0 };

	room_close(d->room);
	d->room = NULL;
	d->errors = d->told = 0;
	if (room_open(d, &e))
		log_error("DOOR-LOST", "reason=\"%s\"", e.msg);
	else
		log_warn("DOOR-REOPENED", "url=%s reason=\"it had stopped to answer\"", d->url);
}

static void end_check(void *arg)
{
	struct check *k = arg;

	if (k->socket) {
		k->socket->check = NULL;
		if (k->rc)
			reopen(k->socket);
	}
	free(k->url);
	free(k);
}

static void tell_errors(struct local_socket *d, uint64_t errors)
{
	if (errors <= d->told || loop_now_ns(d->loop) - d->told_ns < TELL_EVERY_NS)
		return;
	log_warn("NET-STRANGER", "url=%s connections=%llu reason=\"no greeting of a Tutti client\"",
		 d->url, (unsigned long long)(errors - d->told));
	d->told = errors;
	d->told_ns = loop_now_ns(d->loop);
}

static void on_look(void *arg)
{
	struct local_socket *d = arg;
	uint64_t errors = d->room ? listener_errors(d->room) : 0;

	tell_errors(d, errors);
	if (!d->check && (!d->room || errors != d->errors)) {
		d->errors = errors;
		d->check = xmalloc(sizeof(*d->check));
		*d->check = (struct check){ .socket = d, .url = xstrdup(d->url) };
		loop_work(d->loop, run_check, end_check, d->check);
	}
	loop_timer_in(d->loop, &d->look, LOOK_EVERY_NS, on_look, d);
}

/* ---- life ---- */

int local_socket_open(struct local_socket **out, struct loop *loop, const char *url,
		      local_handler handler, void *arg, struct err *e)
{
	struct local_socket *d;
	int rc;

	if (strncmp(url, DOOR_SCHEME, strlen(DOOR_SCHEME)))
		return local_error(e, NNG_EADDRINVAL, url);
	d = xcalloc(1, sizeof(*d));
	d->loop = loop;
	d->url = xstrdup(url);
	d->handler = handler;
	d->arg = arg;
	rc = room_open(d, e);
	if (rc) {
		local_socket_free(d);
		return rc;
	}
	loop_timer_in(loop, &d->look, LOOK_EVERY_NS, on_look, d);
	*out = d;
	return 0;
}

void local_socket_free(struct local_socket *d)
{
	if (!d)
		return;
	loop_timer_cancel(d->loop, &d->look);
	if (d->check)
		d->check->socket = NULL;
	room_close(d->room);
	free(d->url);
	free(d);
}
