/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the rpc_*.c files, and private to them.
 *
 * The completion queue's thread touches tags and the queue of done tags only. Everything else below
 * belongs to the loop's thread. "Core" is gRPC's C core.
 */
#ifndef NET_RPC_IMPL_H
#define NET_RPC_IMPL_H

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/compression.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/loop.h"
#include "net/peers.h"
#include "net/rpc.h"

/* ---- rpc_queue.c: one completion queue, one thread, tags that return to the loop ---- */

/* Given to core with an operation; core returns it when the operation has ended, and fn runs on the loop's
 * thread. Embedded in its owner. */
struct rpc_tag {
	void (*fn)(void *arg, bool ok);
	void *arg;
	atomic_bool armed; /* core has it; also makes the hand-over visible to thread sanitizers */
	bool is_request; /* returns with a call that a peer began */
	bool ok;
	struct rpc_tag *next;
};

/* rpc_work.c */
#define RPC_WORK_NS (4 * 1000000) /* of CPU time; about a tick of the kernel's */
struct rpc_work {
	clockid_t clock; /* CPU time of core's thread */
	pthread_t thread; /* waits for its timer */
	bool has_thread;
	atomic_int core_tid; /* of core's thread; 0 before it begins */
	atomic_bool ending;
	atomic_uint returns; /* how often core's thread has come back from core */
	int fd;
	struct loop_watch *watch;
};

struct rpc_conns;

struct rpc {
	struct loop *loop;
	grpc_completion_queue *cq;
	pthread_t thread;
	size_t n_calls; /* not yet closed */
	atomic_size_t n_served; /* of these, calls of servers */
	atomic_size_t n_hurried; /* of these, those of rpc_hurry() */
	struct rpc_work work;
	struct rpc_conns *conns; /* of each server */
	bool freed; /* rpc_free() was called, but a post of the loop still refers to it */
	struct rpc_tag *taken; /* of `done`; the loop delivers them */

	pthread_mutex_t lock; /* guards all below */
	struct rpc_tag *done, **done_tail;
	size_t n_done;
	bool posted; /* the loop will process `done` */
	bool ending; /* the thread shall end */
	int n_serving; /* see rpc_set_serving() */
	/* tags of requests that core has; below 0 for a moment, while one returns before it is counted */
	int n_requests;
	pthread_cond_t room; /* see await_room() */
};

/* Calls rpc_conns_worked() of each server whenever core's thread has worked for RPC_WORK_NS. */
MUST_CHECK int rpc_work_watch(struct rpc *r, struct err *e);
void rpc_work_unwatch(struct rpc *r);
int64_t rpc_work_ns(const struct rpc *r); /* CPU time of core's thread until now */
/* Core's thread, when it begins and ends. */
void rpc_work_begin(struct rpc *r);
void rpc_work_end(struct rpc *r);

/* Called before a tag is given to core. */
void rpc_tag_arm(struct rpc_tag *tag);

/* A tag with is_request: called after it was given to core, each time. Not before: see await_room(). */
void rpc_request_armed(struct rpc *r);
/* A server begins or ends to give its requests to core again as soon as they are processed. */
void rpc_set_serving(struct rpc *r, bool is_serving);

/* Core refused the operation: returns its tag as failed, through the queue like all others. */
void rpc_tag_fail(struct rpc *r, struct rpc_tag *tag);

/* Delivers tags and turns the loop until until(arg) is true; false when `limit_ns` passed first. */
MUST_CHECK bool rpc_wait(struct rpc *r, bool (*until)(void *arg), void *arg, int64_t limit_ns);

/* ---- rpc_msg.c ---- */

#define RPC_PREFIX_BYTES 5 /* before each message: whether it is compressed, and its length */

struct rpc_msg {
	atomic_int refs;
	size_t len;
	grpc_byte_buffer *bytes;
	grpc_slice flat; /* valid if is_flat */
	bool is_flat;
};

/* Takes the buffer. */
struct rpc_msg *rpc_msg_take(grpc_byte_buffer *bytes);

/* A message to be sent. */
struct rpc_out {
	grpc_byte_buffer *bytes;
	size_t len;
	size_t copied; /* memory that rpc_send() took for it; 0 for parts, which are the sender's */
	struct rpc_out *next;
};
struct rpc_out *rpc_out_new(const struct rpc_part *parts, size_t n_parts, size_t len);
void rpc_out_free(struct rpc_out *out);
void rpc_parts_release(const struct rpc_part *parts, size_t n_parts);

/* ---- rpc_call.c: the common part of both sides of a call ---- */

/* The peer's end of a connection. */
struct rpc_end {
	uint8_t key[PEER_KEY_BYTES]; /* of its address */
	uint16_t port;
};

struct rpc_call {
	struct rpc *rpc;
	struct rpc_server *server; /* NULL on a client */
	struct rpc_call *next,
		**link; /* in the owner's list; link is NULL once the owner is freed */
	grpc_call *core;
	const struct rpc_events *events;
	void *arg;
	size_t max_message_bytes;
	int64_t deadline_ns;
	char *peer, *identity; /* NULL until first used */
	int64_t identity_end_ns; /* server with a verifier */
	char *authorization; /* server: as the caller sent it, or NULL */
	unsigned int pending; /* number of batches that core has and handlers that still run */

	/* server, rpc_guests.c */
	struct rpc_end from;
	struct peer_share *guest; /* NULL once admitted, or refused */
	bool admitted, awaited;
	struct loop_timer first_timer; /* until the first message is there */

	bool hurried; /* server */
	size_t seat; /* server, rpc_conns.c: its place in the list of open calls */

	/* receiving */
	struct rpc_tag recv_tag;
	grpc_byte_buffer *in;
	bool delivering, read_again; /* inside `message`; rpc_read_on() was called there */
	bool held; /* `message` returned false */

	/* sending: one batch at a time */
	struct rpc_tag send_tag;
	struct rpc_out *out, **out_tail;
	size_t out_bytes;
	size_t out_copied; /* of all messages of the queue */
	bool sending, sent_message, sent_metadata;
	bool want_end, sent_end; /* half close on a client, status on a server */
	bool quiet; /* finished or cancelled here: only `closed` is delivered */

	/* the end */
	struct rpc_tag end_tag;
	bool ended;
	int cancelled; /* server: whether the call was cancelled, as core reports it */
	grpc_status_code code;
	grpc_slice text; /* client: received; server: to be sent */
	grpc_metadata_array head, tail;
};

struct rpc_call *rpc_call_new(struct rpc *r, const struct rpc_events *events, void *arg);

/* Puts the call at the head of `list`. */
void rpc_call_link(struct rpc_call *c, struct rpc_call **list);

/* Starts a batch; if core refuses it, the tag returns as failed. */
void rpc_call_batch(struct rpc_call *c, const grpc_op *ops, size_t n, struct rpc_tag *tag);

/* Starts receiving; the events drive the call from then on. */
void rpc_call_receive(struct rpc_call *c);

/* Drops one of `pending`; at the last one delivers `closed` and frees the call. */
void rpc_call_put(struct rpc_call *c);

/* Converts deadlines: CLOCK_MONOTONIC ns here, a struct with a clock in core. */
gpr_timespec rpc_deadline_to_core(int64_t deadline_ns);
int64_t rpc_deadline_from_core(gpr_timespec t);

/* ---- rpc_tls.c; the caller releases the credentials ---- */

MUST_CHECK int rpc_tls_server(grpc_server_credentials **out, const struct rpc_tls *tls,
			      struct err *e);
MUST_CHECK int rpc_tls_channel(grpc_channel_credentials **out, const struct rpc_tls *tls,
			       struct err *e);

/* ---- rpc_locks.c ---- */

/* Before grpc_init(). False: this Abseil has another name for the function, and its checks go on. */
bool rpc_locks_stop_checks(void);

/* ---- rpc_log.c: core's warnings become log lines ---- */

void rpc_log_hook(void);

/* Until the next call with NULL: core's warnings on this thread are not logged, and the first one is kept in
 * `w` (cleared here), for an error text. */
#define RPC_WARNING_BYTES 200
struct rpc_warning {
	char text[RPC_WARNING_BYTES];
};
void rpc_log_keep_first(struct rpc_warning *w);

/* ---- rpc_unidentified.c: connections that carry no call are counted in log lines ---- */

struct rpc_unidentified {
	struct loop *loop;
	struct loop_timer timer;
	int port;
	uint64_t known; /* how many connections carried a call or were logged */
	uint64_t accepted; /* at the last check */
	uint32_t callers[4096]; /* hashes of the last callers */
};

void rpc_unidentified_trace(void); /* makes core log its connections; before grpc_init() */
void rpc_unidentified_note(const char *message); /* one of core's log lines; any thread */
void rpc_unidentified_start(struct rpc_unidentified *s, struct loop *loop, int port);
void rpc_unidentified_note_call(struct rpc_unidentified *s, const char *peer);
void rpc_unidentified_stop(struct rpc_unidentified *s);

/* ---- rpc_server.c ---- */

struct rpc_watch; /* rpc_health.c */

struct rpc_server {
	struct rpc *rpc;
	grpc_server *core;
	size_t max_message_bytes;
	struct rpc_method *methods; /* the caller's, then health and reflection */
	size_t n_methods;
	struct rpc_call *calls;
	size_t n_calls, calls_copied; /* the number of `calls`; the sum of their out_copied */
	struct rpc_request *requests;
	size_t n_armed;
	bool serving, stopping, stopped;
	struct rpc_tag stop_tag;
	struct rpc_watch *watches; /* health: the Watch calls */
	struct rpc_unidentified unidentified;

	/* rpc_guests.c */
	struct peers *guests; /* the calls of guests, by address */
	grpc_resource_quota *quota; /* of received bytes that belong to no whole message yet */
	size_t n_admitted;
	bool has_tls;
	size_t n_connections; /* at the latest look (rpc_conns.c) */
	size_t n_awaited; /* guests that sent no whole message yet */
	struct rpc_conns *conns;
	int64_t refused_logged_ns;

	/* rpc_identity.c */
	const struct rpc_verifier
		*verifier; /* NULL = core verifies certificates, or there are none */
	const char *const *open_methods;
	int64_t unverified_s; /* the second of the latest refusal, and how many it has */
	unsigned int n_unverified;
};

/* Calls fn once per service of the method table, until it returns false. `name` has no NUL at its end. */
typedef bool (*rpc_service_fn)(void *arg, const char *name, size_t len);
void rpc_server_services(const struct rpc_server *s, rpc_service_fn fn, void *arg);

/* ---- rpc_identity.c ---- */

/* A new call. False, and the call is finished, if the server's verifier refuses its caller and the method is not open. */
bool rpc_identity_admits(struct rpc_call *c, const struct rpc_method *m);

/* ---- rpc_guests.c: what unidentified peers may take ---- */

void rpc_guests_start(struct rpc_server *s);
void rpc_guests_stop(struct rpc_server *s);
/* A look has counted the server's connections: what core may hold for them follows. */
void rpc_guests_counted(struct rpc_server *s, size_t n_connections);

/* Whether a peer's address is banned; the server is guarded. */
bool rpc_guest_is_banned(const struct rpc_server *s, const char *peer);
/* A new call. False, and the call is finished, if its address has as many guests as it may have. */
bool rpc_guest_begin(struct rpc_call *c);
void rpc_guest_message(struct rpc_call *c); /* a message is there */
void rpc_guest_end(struct rpc_call *c); /* admitted or not */

/* ---- rpc_conns.c, rpc_judge.c: what connections may take ---- */

/* The server listens already. `per_address`: unidentified connections that one address may have; 0 = no
 * limit. */
struct rpc_conns *rpc_conns_new(struct rpc_server *s, int port, size_t per_address);
void rpc_conns_free(struct rpc_conns *cs); /* before core stops listening; NULL is fine */
struct rpc_conns *rpc_conns_next(const struct rpc_conns *cs);

/* False for a family without ports. */
bool rpc_end_of(const struct sockaddr *address, struct rpc_end *out);

/* Whether the address is banned now. */
bool rpc_conns_is_banned(const struct rpc_conns *cs, const uint8_t key[PEER_KEY_BYTES]);

/* The life of a call, as far as a look needs it. */
void rpc_conns_begin(struct rpc_conns *cs,
		     struct rpc_call *c); /* sets its `seat`; has its `from` */
void rpc_conns_received(struct rpc_conns *cs, const struct rpc_call *c, size_t message_len);
void rpc_conns_admit(struct rpc_conns *cs, const struct rpc_call *c);
void rpc_conns_end(struct rpc_conns *cs, const struct rpc_call *c); /* admitted or not */

void rpc_conns_worked(struct rpc_conns *cs,
		      unsigned int returns); /* core's thread has worked for RPC_WORK_NS */

/* ---- rpc_health.c, rpc_reflection.c: the services every server has ---- */

#define RPC_HEALTH_METHODS     2
#define RPC_REFLECTION_METHODS 2
extern const struct rpc_method rpc_health_methods[RPC_HEALTH_METHODS];
extern const struct rpc_method rpc_reflection_methods[RPC_REFLECTION_METHODS];

/* Reports a change of `serving` to the Watch calls. */
void rpc_health_changed(struct rpc_server *s);

/* ---- rpc_files.c: the descriptors of the .proto files ---- */

struct rpc_file {
	const uint8_t *data; /* a FileDescriptorProto; static */
	size_t len;
};

/* Finds a file by its name, or by the full name of a definition in it. */
bool rpc_file_by_name(const char *name, size_t len, struct rpc_file *out);
bool rpc_file_by_symbol(const char *symbol, struct rpc_file *out);

/* `first` and all its imports, each once; returns how many of `max` were written. */
size_t rpc_file_closure(struct rpc_file first, struct rpc_file *out, size_t max);

/* ---- channel arguments ---- */

static inline grpc_arg rpc_arg_int(const char *key, int value)
{
	grpc_arg a = { .type = GRPC_ARG_INTEGER, .key = (char *)key };

	a.value.integer = value;
	return a;
}

static inline grpc_arg rpc_arg_str(const char *key, const char *value)
{
	grpc_arg a = { .type = GRPC_ARG_STRING, .key = (char *)key };

	a.value.string = (char *)value;
	return a;
}

/* A size_t or ns value as an int for core. */
static inline int rpc_clamp_int(int64_t v)
{
	return v > INT32_MAX ? INT32_MAX : (int)v;
}

#endif
