/* SPDX-License-Identifier: Apache-2.0 */
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/now.h"
#include "net/local_socket.h"
#include "net/local_impl.h"

struct local_client {
	nng_socket socket;
	char *url;
};

int local_error(struct err *e, int rv, const char *url)
{
	switch (rv) {
	case NNG_EADDRINUSE:
		return err_set(e, ERR_BUSY, "%s: another agent has this socket", url);
	case NNG_EPERM:
		return err_set(e, ERR_DENIED,
			       "%s: permission denied; run as root or join the socket's group",
			       url);
	case NNG_EADDRINVAL:
	case NNG_ENOTSUP:
		return err_set(e, ERR_INVALID, "'%s': expected %s/PATH", url, LOCAL_SCHEME);
	default:
		return err_set(e, ERR_IO, "%s: %s", url, nng_strerror(rv));
	}
}

static int dial_error(struct err *e, int rv, const char *url)
{
	if (rv == NNG_ECONNREFUSED || rv == NNG_ENOENT)
		return err_set(e, ERR_CLOSED,
			       "no agent listens at %s; start one on this host with 'tutti-agent'",
			       url);
	return local_error(e, rv, url);
}

static int set_options(nng_socket socket)
{
	int rv = nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ, LOCAL_WIRE_BYTES);

	/* No resending: a request that is sent twice would make two marks. */
	if (!rv)
		rv = nng_socket_set_ms(socket, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE);
	return rv;
}

int local_client_open(struct local_client **out, const char *url, struct err *e)
{
	struct local_client *c;
	nng_socket socket;
	int rv;

	if (strncmp(url, LOCAL_SCHEME, strlen(LOCAL_SCHEME)))
		return local_error(e, NNG_EADDRINVAL, url);
	rv = nng_req0_open(&socket);
	if (rv)
		return local_error(e, rv, url);
	rv = set_options(socket);
	if (!rv)
		rv = nng_dial(socket, url, NULL, 0);
	if (rv) {
		nng_close(socket);
		return dial_error(e, rv, url);
	}
	c = xmalloc(sizeof(*c));
	*c = (struct local_client){ .socket = socket, .url = xstrdup(url) };
	*out = c;
	return 0;
}

static void client_close(void *arg)
{
	struct local_client *c = arg;

	nng_close(c->socket);
	free(c->url);
	free(c);
}

void local_client_close(struct local_client *c)
{
	if (c)
		local_close_on_thread(client_close, c);
}

static int ask_error(const struct local_client *c, int rv, struct err *e)
{
	switch (rv) {
	case NNG_ETIMEDOUT:
		return err_set(e, ERR_TIMEOUT, "the agent at %s did not answer in time", c->url);
	case NNG_ECONNRESET:
	case NNG_ECLOSED:
		return err_set(e, ERR_CLOSED, "the agent at %s ended before it answered", c->url);
	default:
		return local_error(e, rv, c->url);
	}
}

/* nng takes the message, except when it fails. */
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

int local_client_call(struct local_client *c, const void *data, size_t len, int64_t timeout_ns,
		      uint8_t **reply, size_t *reply_len, struct err *e)
{
	nng_duration timeout_ms = (nng_duration)((timeout_ns + NS_PER_MS - 1) / NS_PER_MS);
	nng_msg *msg;
	int rv;

	if (len > LIMIT_LOCAL_BYTES)
		return err_set(e, ERR_LIMIT, "a message of %zu bytes to the agent, limit %d", len,
			       LIMIT_LOCAL_BYTES);
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
