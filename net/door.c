/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several slots share the socket, each with its own context: while one request waits for its
 * answer, the others are served. nng's callbacks only post; all state is the loop's.
 */
#include "net/door.h"

#include <errno.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/transport/ipc/ipc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/limits.h"

#define N_SLOTS	     8
#define HEADER_BYTES 64 /* nng counts its own routing words into a message's size */
#define SOCKET_MODE  0660 /* root and its group; widen it with the directory's group */
#define FOLDER_MODE  0755
#define SCHEME	     "ipc://"

enum slot_state { SLOT_RECEIVING, SLOT_HELD, SLOT_SENDING };

struct slot {
	struct door *door;
	nng_ctx ctx;
	nng_aio *aio;
	enum slot_state state;
	struct door_req *req; /* SLOT_HELD */
};

/* Outlives its slot if the door closes first. */
struct door_req {
	struct slot *slot; /* NULL once the door is closed */
	nng_msg *msg;
};

struct door {
	struct loop *loop;
	door_handler handler;
	void *arg;
	nng_socket socket;
	bool opened, closed;
	atomic_int refs; /* the owner's, and one for each posted event */
	struct slot slots[N_SLOTS];
};

static void door_unref(struct door *d)
{
	if (atomic_fetch_sub(&d->refs, 1) == 1)
		free(d);
}

static int nng_error(struct err *e, int rv, const char *url)
{
	switch (rv) {
	case NNG_EADDRINUSE:
		return err_set(e, ERR_BUSY, "%s: another agent has this door", url);
	case NNG_EPERM:
		return err_set(e, ERR_DENIED,
			       "%s: permission denied; run as root or join the socket's group",
			       url);
	case NNG_EADDRINVAL:
	case NNG_ENOTSUP:
		return err_set(e, ERR_INVALID, "'%s': expected %s/PATH", url, SCHEME);
	default:
		return err_set(e, ERR_IO, "%s: %s", url, nng_strerror(rv));
	}
}

/* ---- requests ---- */

static void slot_receive(struct slot *s)
{
	s->state = SLOT_RECEIVING;
	nng_ctx_recv(s->ctx, s->aio);
}

static void on_received(struct slot *s)
{
	struct door *d = s->door;
	struct door_req *req;
	nng_msg *msg;

	if (nng_aio_result(s->aio)) {
		slot_receive(s);
		return;
	}
	msg = nng_aio_get_msg(s->aio);
	nng_aio_set_msg(s->aio, NULL);
	if (nng_msg_len(msg) > LIMIT_DOOR_BYTES) {
		nng_msg_free(msg);
		slot_receive(s);
		return;
	}
	req = xmalloc(sizeof(*req));
	*req = (struct door_req){ .slot = s, .msg = msg };
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
	struct door *d = s->door;

	if (!d->closed && s->state == SLOT_RECEIVING) {
		on_received(s);
	} else if (!d->closed && s->state == SLOT_SENDING) {
		drop_unsent(s);
		slot_receive(s);
	}
	door_unref(d);
}

static void on_aio(void *arg)
{
	struct slot *s = arg;

	atomic_fetch_add(&s->door->refs, 1);
	loop_post(s->door->loop, on_event, s);
}

void door_answer(struct door_req *req, const void *data, size_t len)
{
	struct slot *s = req->slot;
	nng_msg *msg = req->msg;

	if (s) {
		/* The way back is the context's; the request's message is just at hand. */
		nng_msg_clear(msg);
		if (nng_msg_append(msg, data, len))
			abort();
		nng_aio_set_msg(s->aio, msg);
		s->req = NULL;
		s->state = SLOT_SENDING;
		nng_ctx_send(s->ctx, s->aio);
	} else {
		nng_msg_free(msg);
	}
	free(req);
}

/* ---- life ---- */

/* A socket file that nobody serves is nng's to replace; anything else of that name is not. */
static int prepare_path(const char *url, struct err *e)
{
	const char *path = url + strlen(SCHEME);
	const char *slash = strrchr(path, '/');
	struct stat st;
	char *folder;
	int rc = 0;

	if (!lstat(path, &st))
		return S_ISSOCK(st.st_mode)
			       ? 0
			       : err_set(e, ERR_EXISTS, "%s is there, and is no socket", path);
	folder = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup("");
	if (*folder && mkdir(folder, FOLDER_MODE) && errno != EEXIST)
		rc = err_errno(e, "making %s for the agent's door", folder);
	free(folder);
	return rc;
}

static int start_listener(struct door *d, const char *url)
{
	nng_listener listener;
	int rv = nng_socket_set_size(d->socket, NNG_OPT_RECVMAXSZ, LIMIT_DOOR_BYTES + HEADER_BYTES);

	if (!rv)
		rv = nng_listener_create(&listener, d->socket, url);
	if (!rv)
		rv = nng_listener_set_int(listener, NNG_OPT_IPC_PERMISSIONS, SOCKET_MODE);
	if (!rv)
		rv = nng_listener_start(listener, 0);
	return rv;
}

static int start_slots(struct door *d)
{
	int rv = 0;

	for (size_t i = 0; i < N_SLOTS && !rv; i++) {
		struct slot *s = &d->slots[i];

		s->door = d;
		rv = nng_ctx_open(&s->ctx, d->socket);
		if (!rv)
			rv = nng_aio_alloc(&s->aio, on_aio, s);
		if (!rv)
			slot_receive(s);
	}
	return rv;
}

int door_open(struct door **out, struct loop *loop, const char *url, door_handler handler,
	      void *arg, struct err *e)
{
	struct door *d;
	int rc, rv;

	if (strncmp(url, SCHEME, strlen(SCHEME)))
		return nng_error(e, NNG_EADDRINVAL, url);
	rc = prepare_path(url, e);
	if (rc)
		return rc;
	d = xcalloc(1, sizeof(*d));
	atomic_init(&d->refs, 1);
	d->loop = loop;
	d->handler = handler;
	d->arg = arg;
	rv = nng_rep0_open(&d->socket);
	d->opened = !rv;
	if (!rv)
		rv = start_slots(d);
	if (!rv)
		rv = start_listener(d, url);
	if (rv) {
		rc = nng_error(e, rv, url);
		door_free(d);
		return rc;
	}
	*out = d;
	return 0;
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
	if (s->req)
		s->req->slot = NULL;
	nng_aio_free(s->aio);
}

void door_free(struct door *d)
{
	if (!d)
		return;
	d->closed = true;
	if (d->opened)
		nng_close(d->socket);
	for (size_t i = 0; i < N_SLOTS; i++)
		slot_close(&d->slots[i]);
	door_unref(d);
}

/* ---- the other side ---- */

struct door_client {
	nng_socket socket;
	char *url;
};

static int dial_error(struct err *e, int rv, const char *url)
{
	if (rv == NNG_ECONNREFUSED || rv == NNG_ENOENT)
		return err_set(e, ERR_CLOSED,
			       "no agent listens at %s; start one on this host with 'tutti-agent'",
			       url);
	return nng_error(e, rv, url);
}

static int set_options(nng_socket socket)
{
	int rv = nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ, LIMIT_DOOR_BYTES + HEADER_BYTES);

	/* A request asked twice would mark twice. */
	if (!rv)
		rv = nng_socket_set_ms(socket, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE);
	return rv;
}

int door_dial(struct door_client **out, const char *url, struct err *e)
{
	struct door_client *c;
	nng_socket socket;
	int rv = nng_req0_open(&socket);

	if (rv)
		return nng_error(e, rv, url);
	rv = set_options(socket);
	if (!rv)
		rv = nng_dial(socket, url, NULL, 0);
	if (rv) {
		nng_close(socket);
		return dial_error(e, rv, url);
	}
	c = xmalloc(sizeof(*c));
	*c = (struct door_client){ .socket = socket, .url = xstrdup(url) };
	*out = c;
	return 0;
}

void door_hang_up(struct door_client *c)
{
	if (!c)
		return;
	nng_close(c->socket);
	free(c->url);
	free(c);
}

static int ask_error(const struct door_client *c, int rv, struct err *e)
{
	switch (rv) {
	case NNG_ETIMEDOUT:
		return err_set(e, ERR_TIMEOUT, "the agent at %s did not answer in time", c->url);
	case NNG_ECONNRESET:
	case NNG_ECLOSED:
		return err_set(e, ERR_CLOSED, "the agent at %s went away", c->url);
	default:
		return nng_error(e, rv, c->url);
	}
}

/* nng takes the message in each case but failure. */
static int send_request(nng_socket socket, const void *data, size_t len)
{
	nng_msg *msg;
	int rv = nng_msg_alloc(&msg, 0);

	if (rv)
		return rv;
	rv = nng_msg_append(msg, data, len);
	if (!rv)
		rv = nng_sendmsg(socket, msg, 0);
	if (rv)
		nng_msg_free(msg);
	return rv;
}

int door_ask(struct door_client *c, const void *data, size_t len, int64_t timeout_ns,
	     uint8_t **reply, size_t *reply_len, struct err *e)
{
	nng_duration timeout_ms = (nng_duration)((timeout_ns + NS_PER_MS - 1) / NS_PER_MS);
	nng_msg *msg;
	int rv;

	if (len > LIMIT_DOOR_BYTES)
		return err_set(e, ERR_LIMIT, "a message of %zu bytes to the agent, limit %d", len,
			       LIMIT_DOOR_BYTES);
	rv = nng_socket_set_ms(c->socket, NNG_OPT_SENDTIMEO, timeout_ms);
	if (!rv)
		rv = nng_socket_set_ms(c->socket, NNG_OPT_RECVTIMEO, timeout_ms);
	if (!rv)
		rv = send_request(c->socket, data, len);
	if (!rv)
		rv = nng_recvmsg(c->socket, &msg, 0);
	if (rv)
		return ask_error(c, rv, e);
	*reply_len = nng_msg_len(msg);
	*reply = xmalloc(*reply_len + 1);
	memcpy(*reply, nng_msg_body(msg), *reply_len);
	nng_msg_free(msg);
	return 0;
}
