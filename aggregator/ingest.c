/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/ingest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "aggregator/aggregator.h"
#include "aggregator/capture.h"
#include "aggregator/sessions.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "proto/tutti/v1/ingest.pb-c.h"
#include "storage/store.h"

/* One call. It outlives `closed` while a worker has it. */
struct upload {
	struct ingest *ingest;
	struct rpc_call *call; /* NULL once closed */
	bool finished; /* the status was sent */
	bool working; /* a worker has it: only the job touches what is below */
	bool half_closed;
	char *session, *host, *run;
	uint64_t instance;
	int fd; /* spool file, already unlinked; -1 before UploadBegin */
	uint64_t bytes, received;
	bool storing; /* complete, on its way into the store */
	struct rpc_msg *msg; /* the chunk being written; data and len are its bytes */
	const uint8_t *data;
	size_t len;
	char key[SESSION_KEY_BYTES];
	struct store *store;
	int rc;
	enum rpc_code code;
	struct err e;
	TAILQ_ENTRY(upload) entry;
};

struct ingest {
	struct aggregator *agg;
	TAILQ_HEAD(, upload) uploads;
};

/* ---- ends ---- */

/* The host in its capture, as long as its file is wanted. */
static struct capture_host *wanted_by(const struct upload *u)
{
	struct capture *c = u->session ? capture_find(u->ingest->agg->captures, u->session) : NULL;
	struct capture_host *h = c ? capture_host_of(c, u->host, u->instance) : NULL;

	return h && c->state < CAP_COMMITTING && !capture_host_is_over(h) ? h : NULL;
}

static void upload_finish(struct upload *u, enum rpc_code code, const char *text)
{
	if (!u->call || u->finished)
		return;
	u->finished = true;
	rpc_finish(u->call, code, text);
}

static void upload_fail(struct upload *u, enum rpc_code code, const char *text)
{
	struct capture_host *h = wanted_by(u);

	if (u->finished)
		return;
	u->ingest->agg->stats.upload_errors++;
	log_warn("AGG-UPLOAD", "session=%s host=%s code=%s reason=\"%s\"",
		 u->session ? u->session : "?", u->host ? u->host : "?", rpc_code_name(code), text);
	if (h)
		capture_host_upload_ended(h, text);
	upload_finish(u, code, text);
}

static void upload_free(struct upload *u)
{
	TAILQ_REMOVE(&u->ingest->uploads, u, entry);
	if (u->fd >= 0)
		close(u->fd);
	free(u->session);
	free(u->host);
	free(u->run);
	free(u);
}

static void remove_stray(void *arg)
{
	struct upload *u = arg;
	struct err e;

	if (store_remove(u->store, u->key, &e))
		log_error("AGG-STORE", "key=%s action=remove reason=\"%s\"", u->key, e.msg);
}

static void done_working(struct upload *u)
{
	u->working = u->storing = false;
	if (!u->call)
		upload_free(u);
}

static void done_stray(void *arg)
{
	done_working(arg);
}

/* ---- into the store ---- */

static void run_store(void *arg)
{
	struct upload *u = arg;
	const struct store_body body = { .fd = u->fd, .len = u->bytes };

	u->rc = store_put(u->store, u->key, &body, STORE_CREATE, &u->e);
}

static void reply(struct upload *u)
{
	Tutti__V1__UploadReply answer = TUTTI__V1__UPLOAD_REPLY__INIT;
	uint8_t data[16];
	size_t len;

	if (!u->call || u->finished)
		return;
	answer.bytes = u->bytes;
	len = tutti__v1__upload_reply__pack(&answer, data);
	rpc_send(u->call, data, len);
	upload_finish(u, RPC_OK, "");
}

static void done_store(void *arg)
{
	struct upload *u = arg;
	struct capture_host *h = wanted_by(u);
	struct aggregator_stats *stats = &u->ingest->agg->stats;

	if (u->rc || !h) {
		/* Whether half done or too late: no session names this file, so it must go. */
		if (u->rc)
			upload_fail(u, RPC_UNAVAILABLE, u->e.msg);
		else
			upload_finish(u, RPC_FAILED_PRECONDITION, "the session is over");
		aggregator_work(u->ingest->agg, remove_stray, done_stray, u);
		return;
	}
	stats->uploads++;
	stats->upload_bytes += u->bytes;
	capture_host_stored(h, u->bytes);
	capture_host_upload_ended(h, NULL);
	reply(u);
	done_working(u);
}

static void store_it(struct upload *u)
{
	session_file_key(u->session, u->run, u->host, u->key);
	u->store = u->ingest->agg->store;
	u->working = u->storing = true;
	aggregator_work(u->ingest->agg, run_store, done_store, u);
}

/* ---- chunks, on a worker ---- */

static int chunk_bad(struct upload *u, enum rpc_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);

static int chunk_bad(struct upload *u, enum rpc_code code, const char *fmt, ...)
{
	va_list ap;

	u->code = code;
	va_start(ap, fmt);
	err_vset(&u->e, ERR_PEER, fmt, ap);
	va_end(ap);
	return ERR_PEER;
}

static int chunk_check(struct upload *u, const Tutti__V1__UploadChunk *c)
{
	if (c->offset != u->received)
		return chunk_bad(u, RPC_INVALID_ARGUMENT,
				 "chunk at offset %" PRIu64 ", expected %" PRIu64, c->offset,
				 u->received);
	if (!c->data.len || c->data.len > LIMIT_CHUNK_BYTES)
		return chunk_bad(u, RPC_INVALID_ARGUMENT, "chunk of %zu bytes, limit %d",
				 c->data.len, LIMIT_CHUNK_BYTES);
	if (c->data.len > u->bytes - u->received)
		return chunk_bad(u, RPC_INVALID_ARGUMENT,
				 "%" PRIu64 " bytes came, %" PRIu64 " were announced",
				 u->received + c->data.len, u->bytes);
	if ((uint32_t)crc32_z(0, c->data.data, c->data.len) != c->crc32)
		return chunk_bad(u, RPC_DATA_LOSS,
				 "the checksum of the chunk at offset %" PRIu64 " is wrong",
				 c->offset);
	return 0;
}

static int chunk_write(struct upload *u, const uint8_t *data, size_t len)
{
	while (len) {
		ssize_t n = pwrite(u->fd, data, len, (off_t)u->received);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			u->code = RPC_RESOURCE_EXHAUSTED;
			return err_errno(&u->e, "writing to the spool");
		}
		data += n;
		len -= (size_t)n;
		u->received += (uint64_t)n;
	}
	return 0;
}

static void run_chunk(void *arg)
{
	struct upload *u = arg;
	Tutti__V1__UploadMessage *m = tutti__v1__upload_message__unpack(NULL, u->len, u->data);

	u->rc = 0;
	if (!m || m->kind_case != TUTTI__V1__UPLOAD_MESSAGE__KIND_CHUNK)
		u->rc = chunk_bad(u, RPC_INVALID_ARGUMENT, "not a chunk at offset %" PRIu64,
				  u->received);
	if (!u->rc)
		u->rc = chunk_check(u, m->chunk);
	if (!u->rc)
		u->rc = chunk_write(u, m->chunk->data.data, m->chunk->data.len);
	if (m)
		tutti__v1__upload_message__free_unpacked(m, NULL);
}

static void all_sent(struct upload *u)
{
	if (u->finished)
		return;
	if (u->fd < 0)
		upload_fail(u, RPC_INVALID_ARGUMENT, "ended before UploadBegin");
	else if (u->received < u->bytes)
		upload_fail(u, RPC_DATA_LOSS, "ended before all bytes were there");
	else
		store_it(u);
}

static void done_chunk(void *arg)
{
	struct upload *u = arg;
	struct capture_host *h = wanted_by(u);

	u->working = false;
	rpc_msg_free(u->msg);
	u->msg = NULL;
	if (!u->call) {
		upload_free(u);
		return;
	}
	if (u->rc)
		upload_fail(u, u->code, u->e.msg);
	else if (!h)
		upload_finish(u, RPC_FAILED_PRECONDITION, "the session is over");
	else if (!u->finished)
		capture_host_progress(h, HOST_UPLOADING, u->bytes, u->received);
	if (u->half_closed)
		all_sent(u);
	else
		rpc_read_on(u->call);
}

/* ---- UploadBegin ---- */

static int open_spool(const char *directory, struct err *e)
{
	char *path = xasprintf("%s/upload-XXXXXX", directory);
	int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0)
			unlink(path);
	}
	if (fd < 0)
		fd = err_errno(e, "opening a file in the spool %s", directory);
	free(path);
	return fd;
}

/* A retry over a new connection may come before the end of the old one was noticed. */
static bool others_gave_way(struct upload *u)
{
	struct upload *other;

	TAILQ_FOREACH(other, &u->ingest->uploads, entry)
	{
		if (other == u || !other->session || strcmp(other->session, u->session) ||
		    strcmp(other->host, u->host))
			continue;
		if (other->storing)
			return false;
		upload_finish(other, RPC_ABORTED, "replaced by a newer upload of the same file");
	}
	return true;
}

static enum rpc_code begin(struct upload *u, const Tutti__V1__UploadBegin *b, struct err *e)
{
	struct capture *c = capture_find(u->ingest->agg->captures, b->session);
	struct capture_host *h;

	if (!c || !capture_host_of(c, b->host, b->instance)) {
		err_set(e, ERR_NOT_FOUND, "no capture '%.64s' expects a file of '%.64s'",
			b->session, b->host);
		return RPC_NOT_FOUND;
	}
	u->session = xstrdup(b->session);
	u->host = xstrdup(b->host);
	u->run = xstrdup(c->run);
	u->instance = b->instance;
	u->bytes = b->bytes;
	h = wanted_by(u);
	if (!h) {
		err_set(e, ERR_CLOSED, "the session is over for this host");
		return RPC_FAILED_PRECONDITION;
	}
	if (!b->bytes || b->bytes > LIMIT_XSPACE_FILE_BYTES) {
		err_set(e, ERR_LIMIT, "a file of %" PRIu64 " bytes, limit %lld", b->bytes,
			LIMIT_XSPACE_FILE_BYTES);
		return RPC_INVALID_ARGUMENT;
	}
	if (!others_gave_way(u)) {
		err_set(e, ERR_BUSY, "this file is being stored");
		return RPC_ABORTED;
	}
	if (h->stored) {
		/* The reply to an earlier upload was lost on its way. */
		err_set(e, ERR_EXISTS, "stored before");
		return h->bytes == b->bytes ? RPC_OK : RPC_FAILED_PRECONDITION;
	}
	u->fd = open_spool(u->ingest->agg->conf.spool, e);
	return u->fd < 0 ? RPC_RESOURCE_EXHAUSTED : RPC_OK;
}

static void handle_begin(struct upload *u, const struct rpc_msg *msg)
{
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);
	Tutti__V1__UploadMessage *m = tutti__v1__upload_message__unpack(NULL, len, data);
	struct err e = { 0 };
	enum rpc_code code = RPC_INVALID_ARGUMENT;

	if (m && m->kind_case == TUTTI__V1__UPLOAD_MESSAGE__KIND_BEGIN)
		code = begin(u, m->begin, &e);
	else
		err_set(&e, ERR_INVALID, "the first message is not UploadBegin");
	if (code)
		upload_fail(u, code, e.msg);
	else if (e.code)
		reply(u);
	if (m)
		tutti__v1__upload_message__free_unpacked(m, NULL);
}

/* ---- calls ---- */

static void on_opened(struct rpc_call *call)
{
	struct upload *u = xcalloc(1, sizeof(*u));

	u->ingest = rpc_arg(call);
	u->call = call;
	u->fd = -1;
	TAILQ_INSERT_TAIL(&u->ingest->uploads, u, entry);
	rpc_set_arg(call, u);
}

static bool on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct upload *u = rpc_arg(call);

	if (u->finished)
		return true;
	if (u->fd < 0) {
		handle_begin(u, msg);
		return true;
	}
	u->msg = rpc_msg_keep(msg);
	u->data = rpc_msg_data(u->msg, &u->len);
	u->working = true;
	aggregator_work(u->ingest->agg, run_chunk, done_chunk, u);
	return false;
}

static void on_half_closed(struct rpc_call *call)
{
	struct upload *u = rpc_arg(call);

	u->half_closed = true;
	if (!u->working)
		all_sent(u);
}

static void on_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct upload *u = rpc_arg(call);

	if (!u->finished && !u->storing && u->session)
		upload_fail(u, RPC_CANCELLED, *st->text ? st->text : "the connection broke");
	u->call = NULL;
	if (!u->working)
		upload_free(u);
}

const struct rpc_events ingest_events = {
	.opened = on_opened,
	.message = on_message,
	.half_closed = on_half_closed,
	.closed = on_closed,
};

/* ---- life ---- */

/* What nobody waits for any more need not arrive. */
static void on_capture(void *arg, struct capture *c)
{
	struct ingest *in = arg;
	struct upload *u;

	if (c->state < CAP_COMMITTING)
		return;
	TAILQ_FOREACH(u, &in->uploads, entry)
	{
		if (u->session && !strcmp(u->session, c->session))
			upload_finish(u, RPC_FAILED_PRECONDITION, "the session is over");
	}
}

static int make_directories(const char *path, struct err *e)
{
	char *copy = xstrdup(path);
	int rc = 0;

	for (char *p = copy + 1; *p && !rc; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(copy, 0750) && errno != EEXIST)
			rc = err_errno(e, "making %s", copy);
		*p = '/';
	}
	if (!rc && mkdir(copy, 0700) && errno != EEXIST)
		rc = err_errno(e, "making %s", copy);
	free(copy);
	return rc;
}

int ingest_new(struct ingest **out, struct aggregator *agg, struct err *e)
{
	struct ingest *in;
	int fd, rc = make_directories(agg->conf.spool, e);

	if (rc)
		return rc;
	fd = open_spool(agg->conf.spool, e);
	if (fd < 0)
		return fd;
	close(fd);
	in = xcalloc(1, sizeof(*in));
	in->agg = agg;
	TAILQ_INIT(&in->uploads);
	captures_watch(agg->captures, on_capture, in);
	*out = in;
	return 0;
}

void ingest_free(struct ingest *in)
{
	if (!in)
		return;
	while (!TAILQ_EMPTY(&in->uploads))
		upload_free(TAILQ_FIRST(&in->uploads));
	free(in);
}
