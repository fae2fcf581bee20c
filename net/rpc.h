/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC: calls with a method name, bytes in, bytes out. Client and server, all four call shapes.
 *
 * One `struct rpc` per process owns the completion queue and the one thread that waits on it; that thread
 * only posts to the loop. Every function here is called on the loop's thread and every callback runs there.
 * Only net/rpc_*.c include gRPC's headers.
 *
 * A server's method table has a handler for each method; any other method is answered UNIMPLEMENTED at once.
 * Every server serves health (Check, Watch) and reflection (v1alpha and v1).
 *
 * A server bounds what unidentified peers take from it. A call is a guest until its handler calls
 * rpc_admit(). A server has at most RPC_GUESTS_MAX guests, and one address at most as many as are still free
 * (net/peers.h); a further call ends with RESOURCE_EXHAUSTED. The first message of a guest must be complete
 * within RPC_FIRST_MESSAGE_NS, else the call ends with DEADLINE_EXCEEDED. The bytes of all incomplete
 * messages of a server have a ceiling; beyond it core ends streams.
 *
 * A guarded server also bounds unidentified connections, which carry no admitted call (rpc_judge.c): how many
 * one address has, and all addresses together, how many bytes they send, and how long one connection keeps core's
 * thread busy. A connection that exceeds a bound is closed, and for 10 s its address has no unidentified connections.
 */
#ifndef NET_RPC_H
#define NET_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct loop;
struct rpc;
struct rpc_server;
struct rpc_channel;
struct rpc_call; /* one call, on either side; freed after its `closed` event returned */
struct rpc_msg; /* one received message; valid during the callback */

#define RPC_GUESTS_MAX	     2048
#define RPC_FIRST_MESSAGE_NS (20 * INT64_C(1000000000))

/* gRPC status codes, by their numbers on the wire. */
enum rpc_code {
	RPC_OK = 0,
	RPC_CANCELLED = 1,
	RPC_UNKNOWN = 2,
	RPC_INVALID_ARGUMENT = 3,
	RPC_DEADLINE_EXCEEDED = 4,
	RPC_NOT_FOUND = 5,
	RPC_ALREADY_EXISTS = 6,
	RPC_PERMISSION_DENIED = 7,
	RPC_RESOURCE_EXHAUSTED = 8,
	RPC_FAILED_PRECONDITION = 9,
	RPC_ABORTED = 10,
	RPC_OUT_OF_RANGE = 11,
	RPC_UNIMPLEMENTED = 12,
	RPC_INTERNAL = 13,
	RPC_UNAVAILABLE = 14,
	RPC_DATA_LOSS = 15,
	RPC_UNAUTHENTICATED = 16,
};

struct rpc_status {
	enum rpc_code code;
	const char *text; /* never NULL; borrowed */
};

/* The events of a call. Any member may be NULL. */
struct rpc_events {
	/* Server only: a new call. rpc_set_arg() attaches the handler's own data. */
	void (*opened)(struct rpc_call *call);

	/* A message. Return true to receive the next one, false to hold the peer back until
	 * rpc_read_on(). */
	bool (*message)(struct rpc_call *call, const struct rpc_msg *msg);

	/* The peer announced that it sends no more messages. Not called on a server that lost the
	 * caller, so a stream that was cut short does not look complete. A unary handler answers in
	 * `message` and, for callers that sent none, refuses here. */
	void (*half_closed)(struct rpc_call *call);

	/* The queue of rpc_send() is empty: more can be sent. */
	void (*drained)(struct rpc_call *call);

	/* The last event; always delivered once. On a client `st` is the server's status, on a server
	 * RPC_OK for a call that was finished and RPC_CANCELLED for one that was lost. */
	void (*closed)(struct rpc_call *call, const struct rpc_status *st);
};

/*
 * Who callers are, where the owner of a server says that instead of core. Clients are asked for a certificate; a call
 * without one, or with one that `verify` refuses, ends with UNAUTHENTICATED and the reason, unless its method is open to all.
 */
#define RPC_IDENTITY_BYTES 136
struct rpc_verifier {
	/* `pem` is what the peer has shown and has the key of. Loop thread. 0: the peer's name, and when that is
	 * over (Unix ns). */
	int (*verify)(void *arg, const char *pem, size_t len, char name[RPC_IDENTITY_BYTES],
		      int64_t *end_real_ns, struct err *e);
	void *arg;
};

struct rpc_tls {
	const char *cert_file, *key_file; /* PEM; a client without a certificate leaves them NULL */
	const char *ca_file; /* PEM; the authorities of the peer's certificate. A server with one
			      * demands client certificates (mTLS) */
	/* client: the name in the server's certificate; NULL = the target's */
	const char *server_name;
	const struct rpc_verifier *verifier; /* server: instead of ca_file; lives as long as it */
};

MUST_CHECK int rpc_new(struct rpc **out, struct loop *loop, struct err *e);

/* Servers and channels are freed before. Waits (bounded) until cancelled calls have delivered their
 * `closed`, turning the loop, and joins the thread. NULL is fine. */
void rpc_free(struct rpc *r);

/* Whether more may have come than was delivered: core's thread is at work or waits for a processor, or the loop has not
 * processed its results. A peer that has not answered may have answered then. Reads a file of /proc. */
bool rpc_is_behind(struct rpc *r);

/* ---- server ---- */

struct rpc_method {
	const char *path; /* "/tutti.v1.Control/Connect"; lives as long as the server */
	const struct rpc_events *events;
	void *arg; /* rpc_arg() returns it until rpc_set_arg() */
	size_t max_message_bytes; /* a longer message ends the call with RESOURCE_EXHAUSTED; at most
				   * that of rpc_server_opts; 0 = the same */
};

struct rpc_server_opts {
	const char *address; /* "127.0.0.1:7401", "[::]:0" */
	const struct rpc_tls *tls; /* NULL = plaintext */
	size_t max_message_bytes; /* 0 = LIMIT_REQUEST_BYTES */
	bool bulk; /* large flow-control windows, for bulk data on a datacentre network */
	int64_t keepalive_ns; /* ping silent peers; 0 = never */
	bool guarded; /* bounds unidentified connections: see above */
	/* guarded: unidentified connections of one address; 0 = no limit */
	size_t unidentified_per_address;
	/* with a verifier: the paths of methods for whoever calls, NULL at the end; they live as long as the server. Health
	 * is one of them. NULL = no other is */
	const char *const *open_methods;
};

/* `*port` (may be NULL) gets the port, which the system chooses if the address has 0. The methods are
 * copied. The caller frees the server with rpc_server_free(). */
MUST_CHECK int rpc_server_new(struct rpc_server **out, struct rpc *r,
			      const struct rpc_server_opts *opts, const struct rpc_method *methods,
			      size_t n_methods, int *port, struct err *e);

/* The status that health reports; true from the start. */
void rpc_server_set_serving(struct rpc_server *s, bool serving);

/* Accepts no more calls, cancels open ones, delivers their `closed`, frees. Answers of finished calls
 * have two seconds to be sent. Blocks meanwhile (bounded), turning the loop; must not be called from an
 * event of one of its own calls. NULL is fine. */
void rpc_server_free(struct rpc_server *s);

/* Server: the caller is known and expected: the call is no longer a guest. */
void rpc_admit(struct rpc_call *call);

/* Server: the caller waits for each answer before it sends more, so while this call is open nothing is delayed to be
 * delivered together with what comes next, as with many calls it is for some milliseconds. */
void rpc_hurry(struct rpc_call *call);

/* Server: sends the status and ends the call. After it only `closed` comes. `text` is copied. */
void rpc_finish(struct rpc_call *call, enum rpc_code code, const char *text);

/* The same at once, for a peer that may not read: what is queued is dropped, and the call does not wait for the
 * status to be sent. */
void rpc_abort(struct rpc_call *call, enum rpc_code code, const char *text);

/* ---- client ---- */

struct rpc_channel_opts {
	const char *target; /* "127.0.0.1:7401" */
	const struct rpc_tls *tls; /* NULL = plaintext */
	const char *lane; /* channels of different lanes never share a connection */
	size_t max_message_bytes; /* of a reply; 0 = LIMIT_REQUEST_BYTES */
	/* true: a reply longer than max_message_bytes ends its call as soon as more has come; false: core
	 * collects the whole reply first, up to 4 GiB */
	bool is_bounded;
	int64_t keepalive_ns; /* ping a silent server; 0 = never */
};

MUST_CHECK int rpc_channel_new(struct rpc_channel **out, struct rpc *r,
			       const struct rpc_channel_opts *opts, struct err *e);

/* Cancels its calls; the loop still delivers their `closed` later. NULL is fine. */
void rpc_channel_free(struct rpc_channel *ch);

/* Starts a streaming call. deadline_ns is on CLOCK_MONOTONIC; INT64_MAX = no deadline. No event comes before
 * this returns. A call fails with UNAVAILABLE at once if the server cannot be reached. The channel reconnects
 * after 0.5 to 1 s, then at growing intervals of at most 20 s. */
struct rpc_call *rpc_open(struct rpc_channel *ch, const char *path, int64_t deadline_ns,
			  const struct rpc_events *events, void *arg);

/* No more messages from this side. */
void rpc_half_close(struct rpc_call *call);

/* A unary call: `done` is called once, with the reply if the status is RPC_OK, else msg is NULL. The
 * request is copied. rpc_cancel() is allowed until `done` ran; rpc_arg() and rpc_set_arg() are not. */
typedef void (*rpc_unary_fn)(void *arg, const struct rpc_status *st, const struct rpc_msg *msg);
struct rpc_call *rpc_unary(struct rpc_channel *ch, const char *path, const void *request,
			   size_t len, int64_t deadline_ns, rpc_unary_fn done, void *arg);

/* ---- any call ---- */

/* Queues a message; the bytes are copied. Sending on a cancelled or finished call does nothing. A message of
 * 2 GiB or more ends the call with RESOURCE_EXHAUSTED. On a server, so do queues that grow too long because
 * peers do not read: the queue of one call, from its second message on, may hold 8 MiB; all queues together
 * may hold 32 MiB plus 16 KiB per call, and beyond that the call with the longest queue ends. Each message
 * counts 512 bytes besides its own. A client's queue has no ceiling: its owner asks rpc_queued_bytes(). */
void rpc_send(struct rpc_call *call, const void *data, size_t len);

/* One message made of parts that are not copied: the transport releases each with release(arg) (may be
 * NULL for static bytes) after use, on any thread. */
struct rpc_part {
	const void *data;
	size_t len;
	void (*release)(void *arg);
	void *arg;
};
void rpc_send_parts(struct rpc_call *call, const struct rpc_part *parts, size_t n_parts);

size_t rpc_queued_bytes(const struct rpc_call *call); /* queued by rpc_send(), not yet sent */
void rpc_read_on(struct rpc_call *call); /* after `message` returned false */

/* Drops the queue and ends the call on both sides. After it only `closed` comes, later. */
void rpc_cancel(struct rpc_call *call);

void *rpc_arg(const struct rpc_call *call);
void rpc_set_arg(struct rpc_call *call, void *arg);

/* "ipv4:127.0.0.1:40312"; borrowed until `closed`. On a client this and rpc_identity() are known after
 * the first message. */
const char *rpc_peer(const struct rpc_call *call);

/* Common name of the peer's verified certificate; on a server with a verifier the name that that gives. "" in plaintext,
 * and for a peer that is not verified. Borrowed until `closed`. */
const char *rpc_identity(const struct rpc_call *call);

/* Server with a verifier: ERR_DENIED and the reason if the caller is not verified; the certificate is looked at again. */
MUST_CHECK int rpc_check_identity(struct rpc_call *call, struct err *e);

/* When the name of a verified caller is over, Unix ns; INT64_MAX without a verifier. */
int64_t rpc_identity_end_ns(const struct rpc_call *call);

/* Server: the caller's metadata "authorization", "Bearer TOKEN" for example; "" without. Borrowed until
 * `closed`. */
const char *rpc_authorization(const struct rpc_call *call);

/* When the caller stops waiting, on CLOCK_MONOTONIC; INT64_MAX if never. */
int64_t rpc_deadline_ns(const struct rpc_call *call);

/* ---- messages ---- */

size_t rpc_msg_len(const struct rpc_msg *m);

/* The bytes in one piece; joined on first use if they came in several. Borrowed. */
const uint8_t *rpc_msg_data(const struct rpc_msg *m, size_t *len);

/* The bytes piece by piece, without a copy. */
typedef void (*rpc_piece_fn)(void *arg, const uint8_t *data, size_t len);
void rpc_msg_pieces(const struct rpc_msg *m, rpc_piece_fn fn, void *arg);

/* Keeps a message after its callback, without a copy; the caller frees it with rpc_msg_free(). It may
 * be read and freed on any one thread, for example by loop_work(), also after its call has ended. */
struct rpc_msg *rpc_msg_keep(const struct rpc_msg *m);
void rpc_msg_free(struct rpc_msg *m);

/* "unavailable", "deadline-exceeded", ... */
const char *rpc_code_name(enum rpc_code code);

#endif
