/* SPDX-License-Identifier: Apache-2.0 */
/* Channels and the calls that start on them. */
#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "net/rpc_impl.h"
#include "proto/limits.h"

#define PING_ANSWER_MAX_MS  10000
#define CONNECT_LIMIT_MS    60000 /* a server to which a whole fleet reconnects at once is slow */
#define BACKOFF_FIRST_MS    500 /* each channel adds a random time, at most the same */
#define BACKOFF_MAX_MS	    20000
#define AHEAD_BYTES	    ((size_t)4 << 20)
#define SMALL_MESSAGE_BYTES ((size_t)LIMIT_CONTROL_BYTES)

struct rpc_channel {
	struct rpc *rpc;
	grpc_channel *core;
	grpc_resource_quota *quota; /* NULL = core's own, without a bound */
	size_t max_message_bytes;
	struct rpc_call *calls;
};

/* ---- channels ---- */

static size_t keepalive_args(grpc_arg *a, int64_t keepalive_ns)
{
	int every_ms = keepalive_ns ? rpc_clamp_int(keepalive_ns / NS_PER_MS) : INT32_MAX;
	size_t n = 0;

	a[n++] = rpc_arg_int(GRPC_ARG_KEEPALIVE_TIME_MS, every_ms);
	a[n++] = rpc_arg_int(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
			     every_ms < PING_ANSWER_MAX_MS ? every_ms : PING_ANSWER_MAX_MS);
	a[n++] = rpc_arg_int(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
	/* Otherwise core stops after two pings on a stream without data. */
	a[n++] = rpc_arg_int(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
	return n;
}

static size_t backoff_args(grpc_arg *a)
{
	uint16_t jitter;
	size_t n = 0;

	/* A fleet that lost its aggregator must not reconnect at one instant; core's own jitter of a
	 * fifth is too little for the first attempt. */
	random_bytes(&jitter, sizeof(jitter));
	a[n++] = rpc_arg_int(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
			     BACKOFF_FIRST_MS + jitter % BACKOFF_FIRST_MS);
	a[n++] = rpc_arg_int(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, BACKOFF_MAX_MS);
	a[n++] = rpc_arg_int(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, CONNECT_LIMIT_MS);
	return n;
}

static size_t channel_args(grpc_arg *a, const struct rpc_channel_opts *o, size_t max_bytes)
{
	size_t n = 0;

	a[n++] = rpc_arg_int(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
			     rpc_clamp_int((int64_t)max_bytes));
	/* One connection per channel: channels with equal arguments would share it. */
	a[n++] = rpc_arg_int(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
	a[n++] = rpc_arg_str("tutti.lane", o->lane ? o->lane : "");
	/* A compressed message may be small on the wire and huge in memory. */
	a[n++] = rpc_arg_int(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
			     1 << GRPC_COMPRESS_NONE);
	/* Core's retries keep copies of sent messages; callers of this file retry by themselves. */
	a[n++] = rpc_arg_int(GRPC_ARG_ENABLE_RETRIES, 0);
	a[n++] = rpc_arg_int(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
	a[n++] = rpc_arg_int(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
	/* Core keeps a record of its last events otherwise, for a service that is not offered. */
	a[n++] = rpc_arg_int(GRPC_ARG_ENABLE_CHANNELZ, 0);
	/* The bandwidth probe pings after what it receives. It lets windows grow, which small messages do not need. */
	if (max_bytes <= SMALL_MESSAGE_BYTES)
		a[n++] = rpc_arg_int(GRPC_ARG_HTTP2_BDP_PROBE, 0);
	n += keepalive_args(a + n, o->keepalive_ns);
	n += backoff_args(a + n);
	if (o->tls && o->tls->server_name)
		a[n++] = rpc_arg_str(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, o->tls->server_name);
	return n;
}

/* The bound for what core collects on this channel: a whole reply plus what core reads ahead. */
static grpc_arg quota_arg(struct rpc_channel *ch)
{
	grpc_arg a = { .type = GRPC_ARG_POINTER, .key = (char *)GRPC_ARG_RESOURCE_QUOTA };

	ch->quota = grpc_resource_quota_create("channel");
	grpc_resource_quota_resize(ch->quota, ch->max_message_bytes + ch->max_message_bytes / 16 +
						      AHEAD_BYTES);
	a.value.pointer.p = ch->quota;
	a.value.pointer.vtable = grpc_resource_quota_arg_vtable();
	return a;
}

int rpc_channel_new(struct rpc_channel **out, struct rpc *r, const struct rpc_channel_opts *opts,
		    struct err *e)
{
	struct rpc_channel *ch = xcalloc(1, sizeof(*ch));
	size_t max_bytes = opts->max_message_bytes ? opts->max_message_bytes : LIMIT_REQUEST_BYTES;
	grpc_channel_credentials *creds = NULL;
	grpc_arg args[20];
	grpc_channel_args list = { .args = args };
	int rc;

	ch->rpc = r;
	ch->max_message_bytes = max_bytes;
	rc = rpc_tls_channel(&creds, opts->tls, e);
	if (rc)
		goto out;
	list.num_args = channel_args(args, opts, max_bytes);
	if (opts->is_bounded)
		args[list.num_args++] = quota_arg(ch);
	assert(list.num_args <= ARRAY_SIZE(args));
	ch->core = grpc_channel_create(opts->target, creds, &list);
	grpc_channel_credentials_release(creds);
	if (!ch->core)
		rc = err_set(e, ERR_INVALID, "no channel to %s", opts->target);
out:
	if (rc && ch->quota)
		grpc_resource_quota_unref(ch->quota);
	if (rc)
		free(ch);
	else
		*out = ch;
	return rc;
}

void rpc_channel_free(struct rpc_channel *ch)
{
	if (!ch)
		return;
	while (ch->calls) {
		struct rpc_call *c = ch->calls;

		ch->calls = c->next;
		c->link = NULL;
		rpc_cancel(c);
	}
	grpc_channel_destroy(ch->core);
	if (ch->quota)
		grpc_resource_quota_unref(ch->quota);
	free(ch);
}

/* ---- calls ---- */

static void on_status(void *arg, bool ok)
{
	struct rpc_call *c = arg;

	(void)ok; /* a failed batch leaves INTERNAL, which was set at the start */
	c->ended = true;
	rpc_call_put(c);
}

static void start(struct rpc_call *c)
{
	grpc_op ops[3] = { { .op = GRPC_OP_SEND_INITIAL_METADATA },
			   { .op = GRPC_OP_RECV_INITIAL_METADATA },
			   { .op = GRPC_OP_RECV_STATUS_ON_CLIENT } };

	ops[1].data.recv_initial_metadata.recv_initial_metadata = &c->head;
	ops[2].data.recv_status_on_client.trailing_metadata = &c->tail;
	ops[2].data.recv_status_on_client.status = &c->code;
	ops[2].data.recv_status_on_client.status_details = &c->text;
	c->sent_metadata = true;
	c->end_tag.fn = on_status;
	c->end_tag.arg = c;
	rpc_call_batch(c, ops, ARRAY_SIZE(ops), &c->end_tag);
}

struct rpc_call *rpc_open(struct rpc_channel *ch, const char *path, int64_t deadline_ns,
			  const struct rpc_events *events, void *arg)
{
	struct rpc_call *c = rpc_call_new(ch->rpc, events, arg);
	grpc_slice method = grpc_slice_from_copied_string(path);

	assert(path[0] == '/');
	c->deadline_ns = deadline_ns;
	c->max_message_bytes = ch->max_message_bytes;
	c->core = grpc_channel_create_call(ch->core, NULL, GRPC_PROPAGATE_DEFAULTS, ch->rpc->cq,
					   method, NULL, rpc_deadline_to_core(deadline_ns), NULL);
	grpc_slice_unref(method);
	rpc_call_link(c, &ch->calls);
	start(c);
	rpc_call_receive(c);
	return c;
}
