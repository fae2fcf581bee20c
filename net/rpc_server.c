/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server: every call arrives through core's generic method and goes to its handler in the method
 * table, so that an unknown method is answered at once, like any other.
 */
#include <assert.h>
#include <grpc/support/alloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc_impl.h"
#include "proto/limits.h"

/* requests for calls that core has ready: so many calls can arrive in one turn of the loop */
#define REQUESTS 512
/* Per connection. An agent has one, and its small uploads; with 16, calls on a new connection sometimes hung in core. Core
 * limits only peers that have acknowledged its settings; rpc_judge.c limits those of unknown peers. */
#define STREAMS_MAX	   256
#define HANDSHAKE_LIMIT_MS 60000 /* 10,000 TLS handshakes at once take 20 s of a core */
#define PING_ANSWER_MAX_MS 10000
/* first memory for what a connection sends; it grows with the traffic */
#define READ_FIRST_BYTES 256
#define READ_MAX_BYTES	 (16 << 10)
#define FINISH_GRACE_NS	 (2 * NS_PER_S)
#define STOP_LIMIT_NS	 (10 * NS_PER_S)

/* Core fills one for each call that arrives. */
struct rpc_request {
	struct rpc_tag tag;
	struct rpc_server *server;
	grpc_call *call;
	grpc_call_details details;
	grpc_metadata_array metadata;
};

/* ---- calls coming in ---- */

static const struct rpc_events no_events = { 0 };

static void on_call_ended(void *arg, bool ok)
{
	struct rpc_call *c = arg;

	if (!ok)
		c->cancelled = 1;
	c->ended = true;
	rpc_call_put(c);
}

static void watch_call_end(struct rpc_call *c)
{
	grpc_op op = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER };

	op.data.recv_close_on_server.cancelled = &c->cancelled;
	c->end_tag.fn = on_call_ended;
	c->end_tag.arg = c;
	rpc_call_batch(c, &op, 1, &c->end_tag);
}

static const struct rpc_method *find_method(const struct rpc_server *s, grpc_slice path)
{
	for (size_t i = 0; i < s->n_methods; i++)
		if (!grpc_slice_str_cmp(path, s->methods[i].path))
			return &s->methods[i];
	return NULL;
}

static void refuse(struct rpc_call *c, grpc_slice path)
{
	char *text = xasprintf("no such method: %.*s", (int)GRPC_SLICE_LENGTH(path),
			       (const char *)GRPC_SLICE_START_PTR(path));

	rpc_finish(c, RPC_UNIMPLEMENTED, text);
	free(text);
}

static char *find_authorization(const grpc_metadata_array *metadata)
{
	for (size_t i = 0; i < metadata->count; i++) {
		grpc_slice value = metadata->metadata[i].value;

		if (!grpc_slice_str_cmp(metadata->metadata[i].key, "authorization"))
			return xstrndup((const char *)GRPC_SLICE_START_PTR(value),
					GRPC_SLICE_LENGTH(value));
	}
	return NULL;
}

/* A call of an address that is banned takes no object and gets no answer. */
static bool is_banned(const struct rpc_server *s, grpc_call *core)
{
	char *peer;
	bool is;

	if (!s->conns)
		return false;
	peer = grpc_call_get_peer(core);
	is = rpc_guest_is_banned(s, peer);
	gpr_free(peer);
	return is;
}

static void open_call(struct rpc_server *s, grpc_call *core, const grpc_call_details *details,
		      const grpc_metadata_array *metadata)
{
	const struct rpc_method *m = find_method(s, details->method);
	struct rpc_call *c = rpc_call_new(s->rpc, m ? m->events : &no_events, m ? m->arg : NULL);

	c->server = s;
	c->core = core;
	c->deadline_ns = rpc_deadline_from_core(details->deadline);
	c->authorization = find_authorization(metadata);
	c->max_message_bytes = m ? m->max_message_bytes : s->max_message_bytes;
	rpc_call_link(c, &s->calls);
	watch_call_end(c);
	rpc_unidentified_note_call(&s->unidentified, rpc_peer(c));
	if (!rpc_guest_begin(c))
		c->events = &no_events;
	else if (!m)
		refuse(c, details->method);
	else if (!rpc_identity_admits(c, m))
		c->events = &no_events;
	else if (c->events->opened)
		c->events->opened(c);
	if (!c->quiet)
		rpc_call_receive(c);
}

static void arm(struct rpc_request *q)
{
	struct rpc_server *s = q->server;
	grpc_call_error rc;

	grpc_call_details_init(&q->details);
	grpc_metadata_array_init(&q->metadata);
	s->n_armed++;
	rpc_tag_arm(&q->tag);
	rc = grpc_server_request_call(s->core, &q->call, &q->details, &q->metadata, s->rpc->cq,
				      s->rpc->cq, &q->tag);
	if (rc != GRPC_CALL_OK) {
		log_error("NET-GRPC", "reason=\"request refused: %s\"",
			  grpc_call_error_to_string(rc));
		rpc_tag_fail(s->rpc, &q->tag);
	}
	rpc_request_armed(s->rpc);
}

static void on_request(void *arg, bool ok)
{
	struct rpc_request *q = arg;
	struct rpc_server *s = q->server;

	s->n_armed--;
	if (ok && !s->stopping && !is_banned(s, q->call)) {
		open_call(s, q->call, &q->details, &q->metadata);
	} else if (ok) {
		grpc_call_cancel(q->call, NULL);
		grpc_call_unref(q->call);
	}
	grpc_call_details_destroy(&q->details);
	grpc_metadata_array_destroy(&q->metadata);
	if (ok && !s->stopping)
		arm(q);
}

/* ---- start ---- */

/* A connection then costs 22 kB instead of 31; a fleet has 10,000. */
static size_t memory_args(grpc_arg *a)
{
	size_t n = 0;

	a[n++] = rpc_arg_int(GRPC_ARG_TCP_READ_CHUNK_SIZE, READ_FIRST_BYTES);
	a[n++] = rpc_arg_int(GRPC_ARG_TCP_MIN_READ_CHUNK_SIZE, READ_FIRST_BYTES);
	a[n++] = rpc_arg_int(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, READ_MAX_BYTES);
	/* Records for sending without a copy, which is off: 1.3 kB. */
	a[n++] = rpc_arg_int(GRPC_ARG_TCP_TX_ZEROCOPY_MAX_SIMULT_SENDS, 0);
	/* No table of headers of earlier calls (HPACK): a link has only one call. */
	a[n++] = rpc_arg_int(GRPC_ARG_HTTP2_HPACK_TABLE_SIZE_DECODER, 0);
	/* Without core's filters for deadlines (callers watch these themselves) and message sizes (rpc_call.c
	 * checks them). */
	a[n++] = rpc_arg_int(GRPC_ARG_MINIMAL_STACK, 1);
	a[n++] = rpc_arg_int(GRPC_ARG_ENABLE_CHANNELZ, 0);
	return n;
}

static size_t server_args(grpc_arg *a, const struct rpc_server_opts *o, size_t max_bytes)
{
	int every_ms = o->keepalive_ns ? rpc_clamp_int(o->keepalive_ns / NS_PER_MS) : INT32_MAX;
	size_t n = 0;

	/* Otherwise a second server could share the port and would receive half of the calls. */
	a[n++] = rpc_arg_int(GRPC_ARG_ALLOW_REUSEPORT, 0);
	a[n++] = rpc_arg_int(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
			     rpc_clamp_int((int64_t)max_bytes));
	a[n++] = rpc_arg_int(GRPC_ARG_MAX_CONCURRENT_STREAMS, STREAMS_MAX);
	a[n++] = rpc_arg_int(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, HANDSHAKE_LIMIT_MS);
	/* A compressed message may be small on the wire and huge in memory. */
	a[n++] = rpc_arg_int(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
			     1 << GRPC_COMPRESS_NONE);
	a[n++] = rpc_arg_int(GRPC_ARG_KEEPALIVE_TIME_MS, every_ms);
	a[n++] = rpc_arg_int(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
			     every_ms < PING_ANSWER_MAX_MS ? every_ms : PING_ANSWER_MAX_MS);
	a[n++] = rpc_arg_int(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
	a[n++] = rpc_arg_int(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
	/* Clients may ping as often as they like. With a limit core would disconnect those that ping often,
	 * after it had allocated 3 kB for each ping that it had read. */
	a[n++] = rpc_arg_int(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
	/* The bandwidth probe has no use at datacentre distances and costs memory per stream. */
	if (o->bulk)
		a[n++] = rpc_arg_int(GRPC_ARG_HTTP2_BDP_PROBE, 0);
	return n + memory_args(a + n);
}

static grpc_arg quota_arg(const struct rpc_server *s)
{
	grpc_arg a = { .type = GRPC_ARG_POINTER, .key = (char *)GRPC_ARG_RESOURCE_QUOTA };

	a.value.pointer.p = s->quota;
	a.value.pointer.vtable = grpc_resource_quota_arg_vtable();
	return a;
}

static void copy_methods(struct rpc_server *s, const struct rpc_method *methods, size_t n)
{
	size_t at = 0;

	s->n_methods = n + RPC_HEALTH_METHODS + RPC_REFLECTION_METHODS;
	s->methods = xcalloc(s->n_methods, sizeof(*s->methods));
	for (size_t i = 0; i < n; i++)
		s->methods[at++] = methods[i];
	for (size_t i = 0; i < RPC_HEALTH_METHODS; i++)
		s->methods[at++] = rpc_health_methods[i];
	for (size_t i = 0; i < RPC_REFLECTION_METHODS; i++)
		s->methods[at++] = rpc_reflection_methods[i];
	for (size_t i = 0; i < s->n_methods; i++) {
		struct rpc_method *m = &s->methods[i];

		if (i >= n)
			m->arg = s;
		if (!m->max_message_bytes)
			m->max_message_bytes = s->max_message_bytes;
	}
}

static int bind_port(struct rpc_server *s, const struct rpc_server_opts *opts, int *port,
		     struct err *e)
{
	grpc_server_credentials *creds = NULL;
	struct rpc_warning why;
	int got;
	int rc = rpc_tls_server(&creds, opts->tls, e);

	if (rc)
		return rc;
	rpc_log_keep_first(&why);
	got = grpc_server_add_http2_port(s->core, opts->address, creds);
	rpc_log_keep_first(NULL);
	grpc_server_credentials_release(creds);
	if (!got)
		return err_set(e, ERR_IO, "cannot listen on %s: %s", opts->address, why.text);
	rpc_unidentified_start(&s->unidentified, s->rpc->loop, got);
	if (port)
		*port = got;
	return 0;
}

static void serve(struct rpc_server *s)
{
	grpc_server_start(s->core);
	s->requests = xcalloc(REQUESTS, sizeof(*s->requests));
	for (size_t i = 0; i < REQUESTS; i++) {
		s->requests[i].server = s;
		s->requests[i].tag.fn = on_request;
		s->requests[i].tag.arg = &s->requests[i];
		s->requests[i].tag.is_request = true;
		arm(&s->requests[i]);
	}
	rpc_set_serving(s->rpc, true);
}

int rpc_server_new(struct rpc_server **out, struct rpc *r, const struct rpc_server_opts *opts,
		   const struct rpc_method *methods, size_t n_methods, int *port, struct err *e)
{
	struct rpc_server *s = xcalloc(1, sizeof(*s));
	grpc_arg args[20];
	grpc_channel_args list = { .args = args };
	int rc;

	s->rpc = r;
	s->serving = true;
	s->has_tls = opts->tls;
	s->verifier = opts->tls ? opts->tls->verifier : NULL;
	s->open_methods = opts->open_methods;
	s->max_message_bytes = opts->max_message_bytes ? opts->max_message_bytes
						       : LIMIT_REQUEST_BYTES;
	copy_methods(s, methods, n_methods);
	rpc_guests_start(s);
	list.num_args = server_args(args, opts, s->max_message_bytes);
	args[list.num_args++] = quota_arg(s);
	assert(list.num_args <= ARRAY_SIZE(args));
	s->core = grpc_server_create(&list, NULL);
	grpc_server_register_completion_queue(s->core, r->cq, NULL);
	rc = bind_port(s, opts, port, e);
	if (rc) {
		rpc_server_free(s);
		return rc;
	}
	if (opts->guarded)
		s->conns = rpc_conns_new(s, s->unidentified.port, opts->unidentified_per_address);
	serve(s);
	*out = s;
	return 0;
}

void rpc_server_set_serving(struct rpc_server *s, bool serving)
{
	if (s->serving == serving)
		return;
	s->serving = serving;
	rpc_health_changed(s);
}

/* "/pkg.Service/Method" */
static size_t service_len(const char *path)
{
	const char *slash = strchr(path + 1, '/');

	return slash ? (size_t)(slash - path) - 1 : strlen(path + 1);
}

void rpc_server_services(const struct rpc_server *s, rpc_service_fn fn, void *arg)
{
	for (size_t i = 0; i < s->n_methods; i++) {
		const char *name = s->methods[i].path + 1;
		size_t len = service_len(s->methods[i].path);
		bool seen = false;

		for (size_t j = 0; j < i && !seen; j++)
			seen = service_len(s->methods[j].path) == len &&
			       !memcmp(s->methods[j].path + 1, name, len);
		if (!seen && !fn(arg, name, len))
			return;
	}
}

/* ---- stop ---- */

static void on_stopped(void *arg, bool ok)
{
	struct rpc_server *s = arg;

	(void)ok;
	s->stopped = true;
}

static bool is_drained(void *arg)
{
	const struct rpc_server *s = arg;

	return s->stopped && !s->calls && !s->n_armed;
}

static bool no_calls(void *arg)
{
	const struct rpc_server *s = arg;

	return !s->calls;
}

static void cancel_unfinished(struct rpc_server *s)
{
	for (struct rpc_call *c = s->calls, *next; c; c = next) {
		next = c->next;
		if (!c->want_end)
			rpc_cancel(c);
	}
}

/* False: core still refers to the server, which must not be freed. */
static bool stop(struct rpc_server *s)
{
	s->stopping = true;
	if (s->requests)
		rpc_set_serving(s->rpc, false);
	rpc_unidentified_stop(&s->unidentified);
	rpc_conns_free(s->conns);
	s->conns = NULL;
	s->stop_tag.fn = on_stopped;
	s->stop_tag.arg = s;
	rpc_tag_arm(&s->stop_tag);
	grpc_server_shutdown_and_notify(s->core, s->rpc->cq, &s->stop_tag);
	cancel_unfinished(s);
	/* Waits for recent answers to be sent; other calls are cancelled below. */
	if (!rpc_wait(s->rpc, no_calls, s, FINISH_GRACE_NS))
		log_info("NET-GRPC",
			 "reason=\"answers that clients did not read in time are dropped\"");
	grpc_server_cancel_all_calls(s->core);
	return rpc_wait(s->rpc, is_drained, s, STOP_LIMIT_NS);
}

void rpc_server_free(struct rpc_server *s)
{
	if (!s)
		return;
	if (!stop(s)) {
		log_error("NET-GRPC", "reason=\"server did not stop, not freed\"");
		return;
	}
	grpc_server_destroy(s->core);
	rpc_guests_stop(s);
	free(s->requests);
	free(s->methods);
	free(s);
}
