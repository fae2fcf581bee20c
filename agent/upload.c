/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/upload.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "agent/agent.h"
#include "agent/dial.h"
#include "base/loop.h"
#include "base/mem.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "proto/tutti/v1/ingest.pb-c.h"

#define QUEUE_BYTES (4 << 20) /* in flight to the network at most */

struct upload {
	struct agent *agent;
	struct upload_request req;
	int fd;
	struct rpc_channel *channel;
	struct rpc_call *call; /* NULL before and after */
	struct loop_timer fail; /* the start failed: says so on the next turn */
	uint64_t offset; /* of the next chunk */
	bool reading; /* a worker has a chunk of ours */
	bool cancelled;
	bool replied;
	uint64_t stored_bytes; /* as the reply says */
	int rc;
	struct err error;
};

/* One piece of the file: what the worker sees. */
struct chunk {
	struct upload *upload; /* for the way back only */
	int fd;
	uint64_t offset;
	size_t len;
	uint8_t *message; /* packed */
	size_t message_len;
	int rc;
	struct err error;
};

static void pump(struct upload *u);

static void free_upload(struct upload *u)
{
	rpc_channel_free(u->channel);
	if (u->fd >= 0)
		close(u->fd);
	free(u);
}

/* The call and the worker are both done with it. */
static void maybe_end(struct upload *u)
{
	if (u->call || u->reading)
		return;
	if (!u->cancelled)
		u->req.done(u->req.arg, u->rc, &u->error);
	free_upload(u);
}

static void fail(struct upload *u, const struct err *why)
{
	if (!u->rc) {
		u->rc = why->code;
		u->error = *why;
	}
	if (u->call)
		rpc_cancel(u->call);
}

/* ---- chunks ---- */

static int read_all(const struct chunk *ch, uint8_t *data, struct err *e)
{
	size_t done = 0;

	while (done < ch->len) {
		ssize_t n = pread(ch->fd, data + done, ch->len - done, (off_t)(ch->offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(e, "reading the capture's file");
		if (n == 0)
			return err_set(e, ERR_IO, "the capture's file became shorter");
		done += (size_t)n;
	}
	return 0;
}

static void pack_chunk(struct chunk *ch, uint8_t *data)
{
	Tutti__V1__UploadMessage m = TUTTI__V1__UPLOAD_MESSAGE__INIT;
	Tutti__V1__UploadChunk c = TUTTI__V1__UPLOAD_CHUNK__INIT;

	c.offset = ch->offset;
	c.crc32 = (uint32_t)crc32(0, data, (uInt)ch->len);
	c.data.data = data;
	c.data.len = ch->len;
	m.kind_case = TUTTI__V1__UPLOAD_MESSAGE__KIND_CHUNK;
	m.chunk = &c;
	ch->message = xmalloc(tutti__v1__upload_message__get_packed_size(&m));
	ch->message_len = tutti__v1__upload_message__pack(&m, ch->message);
}

static void run_chunk(void *arg)
{
	struct chunk *ch = arg;
	uint8_t *data = xmalloc(ch->len);

	ch->rc = read_all(ch, data, &ch->error);
	if (!ch->rc)
		pack_chunk(ch, data);
	free(data);
}

static void on_chunk(void *arg)
{
	struct chunk *ch = arg;
	struct upload *u = ch->upload;
	struct rpc_part part = { ch->message, ch->message_len, free, ch->message };

	u->reading = false;
	if (ch->rc) {
		fail(u, &ch->error);
	} else if (u->call) {
		rpc_send_parts(u->call, &part, 1);
		if (!u->cancelled && u->req.progress)
			u->req.progress(u->req.arg, u->offset);
		pump(u);
	} else {
		free(ch->message);
	}
	free(ch);
	maybe_end(u);
}

/* Reads the next chunk, if there is room for it. */
static void pump(struct upload *u)
{
	uint64_t left = u->req.bytes - u->offset;
	struct chunk *ch;

	if (u->reading || !u->call || u->cancelled || u->rc || !left)
		return;
	if (rpc_queued_bytes(u->call) + LIMIT_CHUNK_BYTES > QUEUE_BYTES)
		return;
	ch = xcalloc(1, sizeof(*ch));
	ch->upload = u;
	ch->fd = u->fd;
	ch->offset = u->offset;
	ch->len = left < LIMIT_CHUNK_BYTES ? (size_t)left : LIMIT_CHUNK_BYTES;
	u->offset += ch->len;
	u->reading = true;
	loop_work(u->agent->loop, run_chunk, on_chunk, ch);
}

/* ---- the call ---- */

/* The last chunk has left the queue: there is nothing more to say. */
static void on_drained(struct rpc_call *call)
{
	struct upload *u = rpc_arg(call);

	if (u->offset == u->req.bytes && !u->reading)
		rpc_half_close(call);
	pump(u);
}

static bool on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct upload *u = rpc_arg(call);
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);
	Tutti__V1__UploadReply *reply = tutti__v1__upload_reply__unpack(NULL, len, data);

	if (reply) {
		u->replied = true;
		u->stored_bytes = reply->bytes;
		tutti__v1__upload_reply__free_unpacked(reply, NULL);
	}
	return true;
}

static void judge(struct upload *u, const struct rpc_status *st)
{
	if (st->code == RPC_DEADLINE_EXCEEDED)
		u->rc = err_set(&u->error, ERR_TIMEOUT,
				"not stored by the deadline: %" PRIu64 " of %" PRIu64
				" bytes were on their way",
				u->offset, u->req.bytes);
	else if (st->code != RPC_OK)
		u->rc = err_set(&u->error, ERR_PEER, "the aggregator did not take it: %s: %s",
				rpc_code_name(st->code), st->text);
	else if (!u->replied || u->stored_bytes != u->req.bytes)
		u->rc = err_set(&u->error, ERR_PEER,
				"the aggregator stored %" PRIu64 " of %" PRIu64 " bytes",
				u->stored_bytes, u->req.bytes);
}

static void on_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct upload *u = rpc_arg(call);

	u->call = NULL;
	if (!u->rc)
		judge(u, st);
	maybe_end(u);
}

static const struct rpc_events events = {
	.message = on_message,
	.drained = on_drained,
	.closed = on_closed,
};

static void send_begin(struct upload *u)
{
	Tutti__V1__UploadMessage m = TUTTI__V1__UPLOAD_MESSAGE__INIT;
	Tutti__V1__UploadBegin begin = TUTTI__V1__UPLOAD_BEGIN__INIT;
	size_t len;
	uint8_t *bytes;

	begin.session = (char *)u->req.session;
	begin.host = u->agent->conf.host;
	begin.instance = u->req.instance;
	begin.bytes = u->req.bytes;
	m.kind_case = TUTTI__V1__UPLOAD_MESSAGE__KIND_BEGIN;
	m.begin = &begin;
	len = tutti__v1__upload_message__get_packed_size(&m);
	bytes = xmalloc(len);
	tutti__v1__upload_message__pack(&m, bytes);
	rpc_send(u->call, bytes, len);
	free(bytes);
}

static int open_all(struct upload *u, struct err *e)
{
	u->fd = open(u->req.path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (u->fd < 0)
		return err_errno(e, "%s", u->req.path);
	return dial_aggregator(&u->channel, u->agent, "bulk", e);
}

static void on_fail(void *arg)
{
	maybe_end(arg);
}

struct upload *upload_start(struct agent *agent, const struct upload_request *req)
{
	struct upload *u = xcalloc(1, sizeof(*u));

	u->agent = agent;
	u->req = *req;
	u->fd = -1;
	u->rc = open_all(u, &u->error);
	if (u->rc) {
		loop_timer_in(agent->loop, &u->fail, 0, on_fail, u);
		return u;
	}
	u->call = rpc_open(u->channel, "/tutti.v1.Ingest/Upload", req->deadline_mono_ns, &events,
			   u);
	send_begin(u);
	/* Borrowed for the call only. */
	u->req.session = u->req.path = NULL;
	pump(u);
	return u;
}

void upload_cancel(struct upload *u)
{
	if (!u)
		return;
	u->cancelled = true;
	if (loop_timer_armed(&u->fail)) {
		loop_timer_cancel(u->agent->loop, &u->fail);
		maybe_end(u);
		return;
	}
	/* The worker may outlive the agent's rpc; the channel must not. It takes the call along. */
	rpc_channel_free(u->channel);
	u->channel = NULL;
}
