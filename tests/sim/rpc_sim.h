/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What wire.c, channel.c and call.c share: net/rpc.h without gRPC.
 *
 * A connection has two sides; side 0 dialled. Bytes arrive at the other side in order, after the path's delay
 * and after the bytes sent before them; bytes sent while the network is cut arrive when the cut ends. A side
 * may break: then its calls end, and the other side is informed unless the host has vanished.
 */
#ifndef SIM_RPC_SIM_H
#define SIM_RPC_SIM_H

#include "base/loop.h"
#include "net/rpc.h"
#include "tests/sim/sim.h"

#define PING_ANSWER_MAX_NS (10 * NS_PER_S) /* also how long bytes may go unacknowledged */

struct rpc {
	struct loop *loop;
	struct sim_host *host;
	size_t n_calls; /* not yet closed */
};

struct rpc_msg {
	unsigned int refs;
	size_t len;
	uint8_t data[];
};

TAILQ_HEAD(rpc_calls, rpc_call); /* of a channel or a server */

/* ---- wire.c: connections and what is on them ---- */

enum frame_kind {
	FRAME_OPEN,
	FRAME_MESSAGE,
	FRAME_CREDIT,
	FRAME_END,
	FRAME_STATUS,
	FRAME_RESET,
	FRAME_FIN
};

/* The two ends of a call. */
struct stream {
	unsigned int refs;
	struct rpc_call *end[2]; /* NULL = not there, or not any more */
};

struct frame {
	enum frame_kind kind;
	struct stream *stream; /* NULL for FIN */
	struct rpc_msg *msg; /* MESSAGE */
	size_t credit; /* CREDIT */
	char *text; /* OPEN: the path; STATUS */
	enum rpc_code code; /* STATUS */
	int64_t left_ns; /* OPEN: until the deadline, or INT64_MAX */
	struct conn *conn;
	int from; /* side */
	int64_t arrival_ns;
	TAILQ_ENTRY(frame) entry;
};
TAILQ_HEAD(frames, frame);

struct conn_side {
	struct conn *conn;
	int index;
	struct rpc *rpc; /* while it is open */
	struct sim_host *host;
	bool open;
	TAILQ_HEAD(, rpc_call) calls;
	int64_t keepalive_ns;
	struct frames out; /* sent, not yet arrived */
	int64_t busy_until_ns; /* sending earlier bytes */
	struct sim_event arrive; /* of the first of `out` */
	struct sim_event check; /* when to check whether the other side still answers */
};

struct conn {
	struct conn_side side[2];
	struct rpc_channel *channel; /* NULL = gone */
	struct rpc_server *server; /* NULL = gone */
	unsigned int refs; /* frames, and open sides */
	TAILQ_ENTRY(conn) entry;
};

struct conn *conn_new(struct rpc_channel *ch, struct rpc *client, int64_t keepalive_ns,
		      struct rpc_server *s);

/* Ends the side's calls. The other side is informed unless the host vanished. */
void conn_break(struct conn *c, int side);

/* Breaks all connections of a server. */
void conns_break_server(struct rpc_server *s);

/* Sends a frame like `f`, and owns its members from then on. Returns when the last byte leaves the sender. */
int64_t conn_send(struct conn *c, int from, const struct frame *f, size_t bytes);

struct stream *stream_ref(struct stream *s);
void stream_unref(struct stream *s);

/* ---- channel.c ---- */

struct rpc_server *server_find(const char *host, int port); /* the one listening there, or NULL */
struct rpc *server_rpc(const struct rpc_server *s);
int64_t server_keepalive_ns(const struct rpc_server *s);
struct rpc_calls *server_calls(struct rpc_server *s);
const struct rpc_method *server_method(const struct rpc_server *s, const char *path); /* or NULL */
void channel_broken(struct rpc_channel *ch); /* its connection is gone */

/* ---- call.c ---- */

struct rpc_call *call_new(struct rpc *r, int side, const struct rpc_events *events, void *arg,
			  size_t max_message_bytes);

/* Client: sends the call over a connection that is up. */
void call_begin(struct rpc_call *c, struct conn *conn, const char *path);
void call_set_deadline(struct rpc_call *c, int64_t deadline_ns);
void call_accept(struct conn *conn, const struct frame *f); /* FRAME_OPEN */
void call_take_frame(struct rpc_call *c, const struct frame *f); /* a frame of any other kind */
void call_lost(struct rpc_call *c, enum rpc_code code,
	       const char *text); /* ends the call; its peer cannot be reached */

struct rpc_call {
	struct rpc *rpc;
	int side;
	struct rpc_channel *channel; /* NULL on a server, and when it is gone */
	struct conn *conn; /* NULL before it is up and after it is lost */
	struct stream *stream;
	const struct rpc_events *events;
	void *arg;
	char *path; /* a client's, until it is sent */
	size_t max_message_bytes;
	int64_t deadline_ns;
	struct loop_timer timer;
	unsigned int pending; /* posts that refer to it */

	/* receiving */
	TAILQ_HEAD(, in) in;
	bool delivering, read_again, held, reading;

	/* sending: one message at a time */
	STAILQ_HEAD(, out) out;
	size_t out_bytes;
	int64_t window; /* bytes that the peer still takes; the last message may pass it */
	bool sending, want_end, sent_end;
	struct sim_event sent; /* when the message has left */

	bool quiet; /* finished or cancelled here: only `closed` is delivered */
	bool ended;
	enum rpc_code code;
	char *text;
	char peer[48];
	TAILQ_ENTRY(rpc_call) on_conn; /* conn->side[side].calls */
	TAILQ_ENTRY(rpc_call) on_channel; /* the channel's or the server's */
	struct rpc_calls *owner; /* the list that has on_channel, or NULL */
};

#endif
