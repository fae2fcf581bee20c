/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/upload.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "agent/capture/capture.h"
#include "agent/link/dial.h"
#include "agent/link/env.h"
#include "agent/link/put.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "proto/message.h"
#include "proto/tutti/v1/ingest.pb-c.h"

#define QUEUE_BYTES	 (4 << 20) /* the most bytes that wait in the queue to the network */
#define BACKOFF_FIRST_NS (200 * NS_PER_MS)
#define BACKOFF_MAX_NS	 (5 * NS_PER_S)
/* attempts: bytes that arrive damaged so often must be damaged on the disk */
#define DAMAGED_MAX  3
#define SMALL_BYTES  LIMIT_CHUNK_BYTES
#define HEADER_BYTES 40 /* largest size of a chunk's message before its data */

struct upload {
	const struct link_env *env;
	struct upload_request req; /* session and path are copies */
	int fd;
	struct rpc_channel *channel; /* the upload's own; NULL while it uses the control link's */
	bool attempted;
	struct rpc_call *call; /* NULL between attempts */
	struct loop_timer timer; /* the next attempt */
	int64_t backoff_ns;
	int damaged; /* attempts that ended with a wrong checksum */
	bool offset_known; /* it is known from where to send */
	bool at_once; /* the attempt asks nothing: begin, the only chunk and the end go together */
	uint64_t attempt_offset; /* bytes that the aggregator had when the attempt began */
	uint64_t
		offset; /* of the next chunk; with grants, the bytes that are in the store or on their way */
	size_t n_put; /* files, from the last one on, that were put by grants */
	struct put *put; /* under way, or NULL */
	bool by_credit; /* it uses the credit's grant, or has used it */
	bool reading; /* a worker reads a chunk */
	bool cancelled;
	bool stored;
	bool retryable;
	int rc;
	struct err error;
};

/* One piece of the file; a worker reads it and uses nothing else. */
struct chunk {
	struct upload *upload; /* loop thread only */
	int fd;
	uint64_t offset;
	size_t len;
	bool is_whole; /* it is all of the file, whose checksum is known */
	uint32_t crc32; /* if so */
	uint8_t *data;
	uint8_t header[HEADER_BYTES]; /* the message up to the data */
	size_t header_len;
	int rc;
	struct err error;
};

static void read_next_chunk(struct upload *u);
static void start_attempt(void *arg);

static void free_upload(struct upload *u)
{
	rpc_channel_free(u->channel);
	if (u->fd >= 0)
		close(u->fd);
	free((char *)u->req.session);
	free((char *)u->req.path);
	free(u);
}

static bool schedule_retry(struct upload *u)
{
	int64_t pause_ns = random_pause_ns(u->backoff_ns);

	if (!u->retryable || now_mono_ns() + pause_ns >= u->req.deadline_mono_ns)
		return false;
	u->backoff_ns = 2 * u->backoff_ns < BACKOFF_MAX_NS ? 2 * u->backoff_ns : BACKOFF_MAX_NS;
	log_warn("AGT-UPLOAD",
		 "session=%s state=broken offset=%" PRIu64 " retry_ms=%" PRId64 " reason=\"%s\"",
		 u->req.session, u->offset, pause_ns / NS_PER_MS, u->error.msg);
	loop_timer_in(u->env->loop, &u->timer, pause_ns, start_attempt, u);
	return true;
}

/* Frees it when neither the call nor a worker uses it. */
static void end_if_idle(struct upload *u)
{
	if (u->call || u->reading || u->put)
		return;
	if (!u->cancelled && u->rc && schedule_retry(u))
		return;
	if (!u->cancelled)
		u->req.done(u->req.arg, u->rc, &u->error);
	free_upload(u);
}

/* Ends the upload without a retry. */
static void fail(struct upload *u, const struct err *e)
{
	if (!u->rc) {
		u->rc = e->code;
		u->error = *e;
	}
	if (u->call)
		rpc_cancel(u->call);
}

/* ---- chunks ---- */

static int read_all(const struct chunk *ch, uint8_t *data, struct err *e)
{
	return file_read_exact(ch->fd, ch->offset, data, ch->len, "the capture's file", e);
}

/* The head of UploadMessage.chunk {offset, crc32, data}: written by hand so that the data is not copied. */
static void make_header(struct chunk *ch)
{
	uint32_t crc = ch->is_whole ? ch->crc32 : (uint32_t)crc32_z(0, ch->data, ch->len);
	uint8_t body[HEADER_BYTES / 2 + 10];
	size_t n = 0;

	body[n++] = 1 << 3;
	n += varint_put(body + n, ch->offset);
	body[n++] = 2 << 3;
	n += varint_put(body + n, crc);
	body[n++] = 3 << 3 | 2;
	n += varint_put(body + n, ch->len);
	ch->header[0] = 2 << 3 | 2;
	ch->header_len = 1 + varint_put(ch->header + 1, n + ch->len);
	memcpy(ch->header + ch->header_len, body, n);
	ch->header_len += n;
}

static void read_chunk(void *arg)
{
	struct chunk *ch = arg;

	ch->data = xmalloc(ch->len);
	ch->rc = read_all(ch, ch->data, &ch->error);
	if (!ch->rc)
		make_header(ch);
}

static void free_chunk(void *arg)
{
	struct chunk *ch = arg;

	free(ch->data);
	free(ch);
}

static void send_chunk(struct upload *u, struct chunk *ch)
{
	const struct rpc_part parts[] = {
		{ ch->header, ch->header_len, NULL, NULL },
		{ ch->data, ch->len, free_chunk, ch },
	};

	rpc_send_parts(u->call, parts, ARRAY_SIZE(parts));
}

static void on_chunk(void *arg)
{
	struct chunk *ch = arg;
	struct upload *u = ch->upload;

	u->reading = false;
	if (ch->rc || !u->call || u->cancelled) {
		if (ch->rc)
			fail(u, &ch->error);
		free_chunk(ch);
		end_if_idle(u);
		return;
	}
	send_chunk(u, ch);
	if (u->at_once)
		rpc_half_close(u->call);
	if (u->req.progress)
		u->req.progress(u->req.arg, u->offset);
	read_next_chunk(u);
}

/* Does nothing while the queue is full. */
static void read_next_chunk(struct upload *u)
{
	uint64_t left = u->req.bytes - u->offset;
	struct chunk *ch;

	if (u->reading || !u->call || !u->offset_known || u->cancelled || u->rc || !left)
		return;
	if (rpc_queued_bytes(u->call) + LIMIT_CHUNK_BYTES > QUEUE_BYTES)
		return;
	ch = xcalloc(1, sizeof(*ch));
	ch->upload = u;
	ch->fd = u->fd;
	ch->offset = u->offset;
	ch->len = left < LIMIT_CHUNK_BYTES ? (size_t)left : LIMIT_CHUNK_BYTES;
	ch->is_whole = ch->len == u->req.bytes;
	ch->crc32 = u->req.crc32;
	u->offset += ch->len;
	u->reading = true;
	loop_work(u->env->loop, read_chunk, on_chunk, ch);
}

/* ---- grants ---- */

/* Where the next file to put begins: files are put from the last one to the first. */
static uint64_t next_file_offset(const struct upload *u)
{
	uint64_t offset = 0;

	for (size_t i = 0; i + 1 < u->req.n_files - u->n_put; i++)
		offset += u->req.files[i].bytes;
	return offset;
}

static void on_put_progress(void *arg, uint64_t bytes_sent)
{
	struct upload *u = arg;

	u->offset = u->attempt_offset + bytes_sent;
	if (u->req.progress && !u->cancelled)
		u->req.progress(u->req.arg, u->offset);
}

static void send_put(struct upload *u, bool exists)
{
	Tutti__V1__UploadMessage m = TUTTI__V1__UPLOAD_MESSAGE__INIT;
	Tutti__V1__UploadPut put = TUTTI__V1__UPLOAD_PUT__INIT;
	uint8_t bytes[16];

	put.exists = exists;
	m.kind_case = TUTTI__V1__UPLOAD_MESSAGE__KIND_PUT;
	m.put = &put;
	rpc_send(u->call, bytes, tutti__v1__upload_message__pack(&m, bytes));
}

/* Whatever went wrong, the aggregator is asked: it may know the file that is there, or have a better grant. */
static void end_put_by_credit(struct upload *u, int rc, const struct err *e)
{
	if (!rc || u->cancelled) {
		end_if_idle(u);
		return;
	}
	log_info("AGT-UPLOAD", "session=%s state=asking reason=\"%s\"", u->req.session, e->msg);
	u->by_credit = false;
	u->n_put = 0;
	loop_timer_in(u->env->loop, &u->timer, 0, start_attempt, u);
}

static void on_put(void *arg, int rc, const struct err *e)
{
	struct upload *u = arg;

	u->put = NULL;
	if (!rc)
		u->n_put++;
	if (u->by_credit) {
		end_put_by_credit(u, rc, e);
		return;
	}
	if (!u->call || u->cancelled) {
		end_if_idle(u);
		return;
	}
	if (rc && rc != ERR_EXISTS) {
		fail(u, e);
		u->retryable = true;
		return;
	}
	send_put(u, rc == ERR_EXISTS);
}

/* A grant may skip files: the aggregator has found this host's own bytes in the store. */
static void start_put(struct upload *u, const Tutti__V1__Grant *grant)
{
	size_t left = grant->file;
	struct put_request req = {
		.fd = u->fd,
		.grant = grant,
		.deadline_mono_ns = u->req.deadline_mono_ns,
		.progress = on_put_progress,
		.done = on_put,
		.arg = u,
	};
	struct err e;

	if (!u->req.grants || u->put || !left || left > u->req.n_files - u->n_put) {
		err_set(&e, ERR_PEER, "the aggregator sent a grant that was not expected");
		fail(u, &e);
		return;
	}
	if (put_check_grant(grant, &e)) {
		fail(u, &e);
		return;
	}
	u->n_put = u->req.n_files - left;
	req.offset = next_file_offset(u);
	req.bytes = u->req.files[left - 1].bytes;
	u->attempt_offset = u->offset = u->req.bytes - req.offset - req.bytes;
	u->put = put_start(u->req.puts, &req);
}

/* ---- the call ---- */

/* After the last chunk the stream ends on this side. */
static void on_drained(struct rpc_call *call)
{
	struct upload *u = rpc_arg(call);

	if (u->offset_known && u->offset == u->req.bytes && !u->reading && !u->at_once)
		rpc_half_close(call);
	read_next_chunk(u);
}

/* The first reply has the offset to send from. */
static void start_from(struct upload *u, uint64_t offset)
{
	struct err e;

	if (offset > u->req.bytes) {
		err_set(&e, ERR_PEER, "the aggregator has more of the file than there is");
		fail(u, &e);
		return;
	}
	if (offset > u->attempt_offset)
		u->backoff_ns = BACKOFF_FIRST_NS; /* the last attempt made progress */
	u->offset_known = true;
	u->attempt_offset = u->offset = offset;
	if (offset == u->req.bytes)
		rpc_half_close(u->call);
	read_next_chunk(u);
}

static bool on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct upload *u = rpc_arg(call);
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);
	ProtobufCMessage *m;
	const Tutti__V1__UploadReply *reply;

	if (message_unpack(&m, &tutti__v1__upload_reply__descriptor, LIMIT_GRANT_BYTES,
			   LIMIT_SMALL_FIELDS, data, len, NULL))
		return true;
	reply = (const Tutti__V1__UploadReply *)m;
	if (reply->stored)
		u->stored = reply->bytes == u->req.bytes;
	else if (reply->grant)
		start_put(u, reply->grant);
	else if (!u->offset_known)
		start_from(u, reply->bytes);
	protobuf_c_message_free_unpacked(m, NULL);
	return true;
}

/* Whether the cause may pass: the network, the aggregator's full disk, an earlier attempt that is still open
 * there. */
static bool is_retryable(struct upload *u, enum rpc_code code)
{
	switch (code) {
	case RPC_UNAVAILABLE:
	case RPC_ABORTED:
	case RPC_CANCELLED:
	case RPC_RESOURCE_EXHAUSTED:
	case RPC_INTERNAL:
	case RPC_UNKNOWN:
	case RPC_UNAUTHENTICATED: /* a connection from before the present certificate */
		return true;
	case RPC_DATA_LOSS:
		return ++u->damaged < DAMAGED_MAX;
	default:
		return false;
	}
}

static void set_result(struct upload *u, const struct rpc_status *st)
{
	if (st->code == RPC_DEADLINE_EXCEEDED)
		u->rc = err_set(&u->error, ERR_TIMEOUT,
				"not stored by the deadline: %" PRIu64 " of %" PRIu64
				" bytes were on their way",
				u->offset, u->req.bytes);
	else if (st->code != RPC_OK)
		u->rc = err_set(&u->error, ERR_PEER,
				"the aggregator did not accept the file: %s: %s",
				rpc_code_name(st->code), st->text);
	else if (!u->stored)
		u->rc = err_set(&u->error, ERR_PEER, "the aggregator did not store the file");
	u->retryable = u->rc && is_retryable(u, st->code);
}

static void on_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct upload *u = rpc_arg(call);

	u->call = NULL;
	put_cancel(u->put);
	if (!u->rc)
		set_result(u, st);
	end_if_idle(u);
}

static const struct rpc_events events = {
	.message = on_message,
	.drained = on_drained,
	.closed = on_closed,
};

/* False: the grant cannot be used. */
static bool put_by_credit(struct upload *u, const Tutti__V1__Grant *grant)
{
	const struct put_request req = { .fd = u->fd,
					 .bytes = u->req.bytes,
					 .grant = grant,
					 .deadline_mono_ns = u->req.deadline_mono_ns,
					 .progress = on_put_progress,
					 .done = on_put,
					 .arg = u };
	struct err e;

	if (!u->req.grants || u->req.n_files != 1 || grant->file != 1 || u->fd < 0 ||
	    put_check_grant(grant, &e))
		return false;
	u->by_credit = true;
	u->put = put_start(u->req.puts, &req);
	return true;
}

static void fill_files(Tutti__V1__UploadBegin *begin, const struct upload *u)
{
	begin->n_files = u->req.n_files;
	begin->files = xcalloc(begin->n_files + 1, sizeof(*begin->files));
	begin->crc32c = xcalloc(begin->n_files + 1, sizeof(*begin->crc32c));
	for (size_t i = 0; i < begin->n_files; i++) {
		begin->files[i] = u->req.files[i].bytes;
		begin->crc32c[i] = u->req.files[i].crc32c;
	}
	begin->grants = u->req.grants && !u->at_once;
	begin->n_crc32c = begin->grants ? begin->n_files : 0;
	begin->put = (uint32_t)u->n_put;
}

static void send_begin(struct upload *u)
{
	Tutti__V1__UploadMessage m = TUTTI__V1__UPLOAD_MESSAGE__INIT;
	Tutti__V1__UploadBegin begin = TUTTI__V1__UPLOAD_BEGIN__INIT;
	size_t len;
	uint8_t *bytes;

	begin.session = (char *)u->req.session;
	begin.host = (char *)u->env->host;
	begin.instance = u->req.instance;
	begin.bytes = u->req.bytes;
	begin.resume = !u->at_once;
	begin.crc32 = u->req.crc32;
	fill_files(&begin, u);
	m.kind_case = TUTTI__V1__UPLOAD_MESSAGE__KIND_BEGIN;
	m.begin = &begin;
	len = tutti__v1__upload_message__get_packed_size(&m);
	bytes = xmalloc(len);
	tutti__v1__upload_message__pack(&m, bytes);
	rpc_send(u->call, bytes, len);
	free(bytes);
	free(begin.files);
	free(begin.crc32c);
}

static int open_file(struct upload *u, struct err *e)
{
	if (u->fd < 0)
		u->fd = open(u->req.path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return u->fd < 0 ? err_errno(e, "%s", u->req.path) : 0;
}

/* Each attempt has a channel of its own: gRPC core would make pauses of its own between connections. The
 * first attempt of a small file uses the control link's connection: connecting, with TLS, costs both sides
 * more than sending it. */
static int pick_channel(struct upload *u, struct rpc_channel **ch, struct err *e)
{
	int rc;

	*ch = u->attempted || u->req.bytes > SMALL_BYTES ? NULL
							 : u->req.control_channel(u->req.arg);
	u->attempted = true;
	if (*ch)
		return 0;
	rc = dial_aggregator(&u->channel, u->env, "bulk", e);
	*ch = u->channel;
	return rc;
}

static void start_attempt(void *arg)
{
	struct upload *u = arg;
	struct rpc_channel *ch;

	/* Of a file that goes in one chunk the aggregator has all or nothing. A question where to go on, and its
	 * answer, would cost it a round trip, for which a host keeps its credit. */
	u->at_once = u->req.at_once && !u->attempted && u->req.bytes && u->req.bytes <= SMALL_BYTES;
	u->offset_known = u->at_once;
	u->stored = u->retryable = false;
	u->offset = u->attempt_offset = 0;
	rpc_channel_free(u->channel);
	u->channel = NULL;
	u->rc = open_file(u, &u->error);
	if (!u->rc)
		u->rc = pick_channel(u, &ch, &u->error);
	if (u->rc) {
		end_if_idle(u);
		return;
	}
	u->call = rpc_open(ch, "/tutti.v1.Ingest/Upload", u->req.deadline_mono_ns, &events, u);
	send_begin(u);
	if (u->at_once)
		read_next_chunk(u);
}

struct upload *upload_start(const struct link_env *env, const struct upload_request *req)
{
	struct upload *u = xcalloc(1, sizeof(*u));
	struct err e;

	u->env = env;
	u->req = *req;
	u->req.session = xstrdup(req->session);
	u->req.path = xstrdup(req->path);
	u->fd = -1;
	u->backoff_ns = BACKOFF_FIRST_NS;
	u->req.grant = NULL;
	if (!req->grant || open_file(u, &e) || !put_by_credit(u, req->grant))
		loop_timer_in(env->loop, &u->timer, 0, start_attempt, u);
	return u;
}

bool upload_is_untold(const struct upload *u)
{
	return u->by_credit;
}

void upload_cancel(struct upload *u)
{
	if (!u)
		return;
	u->cancelled = true;
	if (loop_timer_armed(&u->timer)) {
		loop_timer_cancel(u->env->loop, &u->timer);
		end_if_idle(u);
		return;
	}
	put_cancel(u->put);
	if (u->call)
		rpc_cancel(u->call);
	/* Frees the channel now: the upload may stay until its worker ends, and the agent's struct rpc may be freed
	 * before that. */
	rpc_channel_free(u->channel);
	u->channel = NULL;
}
