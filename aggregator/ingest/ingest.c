/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/ingest/ingest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "aggregator/captures/capture.h"
#include "aggregator/ingest/chunk.h"
#include "aggregator/ingest/files.h"
#include "aggregator/ingest/ingest_impl.h"
#include "aggregator/ingest/spooled_upload.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/sessions/sessions.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "proto/tutti/v1/ingest.pb-c.h"

#define STALE_NS (600 * NS_PER_S) /* age of files in the spool that are removed: an agent's lease */

/* What to remove from the spool. */
struct sweep {
	char *spool, *session; /* session NULL: everything old */
};

/* ---- ends ---- */

struct capture_host *upload_waiting_host(const struct upload *u)
{
	struct capture *c = u->session ? capture_find(u->ingest->env.captures, u->session) : NULL;
	struct capture_host *h = c ? capture_find_host(c, u->host, u->instance) : NULL;

	return h && c->state < CAP_COMMITTING && !capture_host_has_ended(h) ? h : NULL;
}

void upload_finish(struct upload *u, enum rpc_code code, const char *text)
{
	if (!u->call || u->finished)
		return;
	u->finished = true;
	rpc_finish(u->call, code, text);
}

void upload_no_longer_wanted(struct upload *u)
{
	upload_finish(u, RPC_FAILED_PRECONDITION, "the capture no longer waits for this file");
}

void upload_fail(struct upload *u, enum rpc_code code, const char *text)
{
	struct capture_host *h = upload_waiting_host(u);

	if (u->finished)
		return;
	u->ingest->stats.errors++;
	log_warn("AGG-UPLOAD", "session=%s host=%s code=%s reason=\"%s\"",
		 u->session ? u->session : "?", u->host ? u->host : "?", rpc_code_name(code), text);
	if (h)
		capture_host_upload_ended(h, text);
	upload_finish(u, code, text);
}

void upload_free(struct upload *u)
{
	granted_end(u);
	TAILQ_REMOVE(&u->ingest->uploads, u, entry);
	spooled_upload_close(&u->spooled);
	free(u->session);
	free(u->files);
	free(u->host);
	free(u->run);
	free(u);
}

static struct ingest_files files_of(const struct upload *u)
{
	return (struct ingest_files){ .store = u->store,
				      .nonce = u->ingest->env.store->nonce,
				      .session = u->session,
				      .run = u->run,
				      .host = u->host,
				      .bytes = u->files,
				      .n = u->n_files };
}

/* An aggregator that was frozen does not know yet that another one has the session, and has committed the same file: then
 * ERR_EXISTS, or ERR_NOT_FOUND. Any other error does not tell whose the files are. */
static int check_owner(const struct upload *u, struct err *e)
{
	if (u->is_lost)
		return err_set(e, ERR_EXISTS, "another aggregator has the session");
	return session_check_owner(u->store, u->session, u->ingest->env.store->nonce, e);
}

static void run_remove(void *arg)
{
	struct upload *u = arg;
	const struct ingest_files files = files_of(u);
	struct err e;
	int rc = check_owner(u, &e);

	if (!rc) {
		u->has_left_files = !ingest_files_remove(&files);
		return;
	}
	if (rc == ERR_EXISTS || rc == ERR_NOT_FOUND)
		rc = session_remove_orphans(u->store, u->session, u->run, &e);
	if (rc)
		log_error("AGG-STORE", "session=%s action=remove reason=\"%s\"", u->session, e.msg);
	u->has_left_files = rc != 0;
}

/* While an upload is being stored, the end of its session must not remove files: the upload could store its
 * file after that, and the file would stay. */
static void hold_end(const struct upload *u)
{
	struct capture *c = capture_find(u->ingest->env.captures, u->session);
	const struct upload *other;
	bool is_storing = false;

	TAILQ_FOREACH (other, &u->ingest->uploads, entry)
		is_storing |= other->storing && !strcmp(other->session, u->session);
	if (c)
		capture_hold_end(c, is_storing);
	if (!is_storing)
		session_store_release(u->ingest->env.store, u->session);
}

static void done_working(struct upload *u)
{
	u->is_on_worker = u->storing = false;
	hold_end(u);
	if (!u->call)
		upload_free(u);
}

static void done_remove(void *arg)
{
	struct upload *u = arg;

	if (u->has_left_files)
		late_expect(u->ingest, u->session, u->run);
	done_working(u);
}

/* ---- into the store ---- */

/* Foreign bytes: a reader of the session must find an XSpace in each file. */
static int check_files(struct upload *u)
{
	struct ingest_file f = { .fd = u->spooled.fd, .memory = u->spooled.memory };
	int rc = 0;

	for (unsigned int i = 0; i < u->n_files && !rc; i++) {
		f.bytes = u->files[i];
		rc = u->ingest->env.check(&f, &u->e);
		f.offset += f.bytes;
	}
	return rc;
}

static void run_store(void *arg)
{
	struct upload *u = arg;
	const struct ingest_files files = files_of(u);

	u->rc = spooled_upload_check(&u->spooled, &u->e);
	if (u->rc) {
		spooled_upload_drop(&u->spooled);
		u->code = RPC_DATA_LOSS;
		return;
	}
	u->rc = check_files(u);
	if (u->rc) {
		spooled_upload_drop(&u->spooled);
		u->code = RPC_INVALID_ARGUMENT;
		return;
	}
	u->code = RPC_UNAVAILABLE;
	u->rc = ingest_files_put(&files, &u->spooled, &u->e);
	if (u->rc)
		return;
	spooled_upload_drop(&u->spooled);
	spooled_upload_close(&u->spooled); /* on the worker: freeing gigabytes takes time */
}

static void send_reply(struct upload *u, uint64_t bytes, bool stored)
{
	Tutti__V1__UploadReply answer = TUTTI__V1__UPLOAD_REPLY__INIT;
	uint8_t data[32];
	size_t len;

	if (!u->call || u->finished)
		return;
	answer.bytes = bytes;
	answer.stored = stored;
	len = tutti__v1__upload_reply__pack(&answer, data);
	rpc_send(u->call, data, len);
}

static void reply_stored(struct upload *u, uint64_t bytes)
{
	send_reply(u, bytes, true);
	upload_finish(u, RPC_OK, "");
}

/*
 * The upload failed, or came too late. Files of a host that is waited for stay: its next upload finds them or replaces them, and
 * the end of the session removes what no host has. A removal now might be carried out so late that it took the next
 * upload's. But a full store gets its room back. Others no session of this aggregator names.
 */
static void drop_files(struct upload *u, bool is_waited_for)
{
	const struct capture *c = capture_find(u->ingest->env.captures, u->session);

	if (u->rc)
		upload_fail(u, u->code, u->e.msg);
	else
		upload_no_longer_wanted(u);
	u->is_lost = !c || c->state == CAP_LOST || u->rc == ERR_EXISTS;
	if (is_waited_for && !u->is_lost && u->rc != ERR_FULL) {
		late_expect(u->ingest, u->session, u->run);
		done_working(u);
		return;
	}
	jobs_work(u->ingest->env.jobs, run_remove, done_remove, u);
}

void upload_stored(struct upload *u, struct capture_host *h)
{
	struct ingest_stats *stats = &u->ingest->stats;

	u->is_stored = true;
	stats->uploads++;
	stats->bytes += u->by_grants ? 0 : u->spooled.bytes;
	capture_host_stored(h, u->spooled.bytes, u->n_files);
	capture_host_upload_ended(h, NULL);
	reply_stored(u, u->spooled.bytes);
}

static void done_store(void *arg)
{
	struct upload *u = arg;
	struct capture_host *h = upload_waiting_host(u);

	if (u->rc || !h) {
		drop_files(u, h != NULL);
		return;
	}
	upload_stored(u, h);
	done_working(u);
}

static void store_upload(struct upload *u)
{
	u->store = u->ingest->env.store->store;
	u->is_on_worker = u->storing = true;
	hold_end(u);
	jobs_work(u->ingest->env.jobs, run_store, done_store, u);
}

/* ---- chunks ---- */

static void run_chunk(void *arg)
{
	struct upload *u = arg;

	u->rc = chunk_write(&u->spooled, u->data, u->len, &u->code, &u->e);
}

static void finish_sending(struct upload *u)
{
	if (u->finished)
		return;
	if (!u->begun)
		upload_fail(u, RPC_INVALID_ARGUMENT, "the call ended before UploadBegin");
	else if (u->by_grants)
		upload_fail(u, RPC_DATA_LOSS, "the call ended before all files were put");
	else if (u->spooled.received < u->spooled.bytes)
		upload_fail(u, RPC_DATA_LOSS, "the call ended before all bytes had arrived");
	else
		store_upload(u);
}

/* Replies after UploadBegin and after each chunk: the agent may send the next chunk. */
static void continue_upload(struct upload *u)
{
	struct capture_host *h = upload_waiting_host(u);

	u->is_on_worker = false;
	if (!u->call) {
		upload_free(u);
		return;
	}
	if (u->rc)
		upload_fail(u, u->code, u->e.msg);
	else if (!h)
		upload_no_longer_wanted(u);
	else if (!u->finished)
		capture_host_progress(h, HOST_UPLOADING, u->spooled.bytes, u->spooled.received);
	if (u->half_closed)
		finish_sending(u);
	else
		rpc_read_on(u->call);
}

static void done_chunk(void *arg)
{
	struct upload *u = arg;

	rpc_msg_free(u->msg);
	u->msg = NULL;
	continue_upload(u);
}

/* ---- UploadBegin ---- */

static void run_open(void *arg)
{
	struct upload *u = arg;
	const struct spooled_upload_id id = {
		.spool = u->spool,
		.session = u->session,
		.host = u->host,
		.bytes = u->spooled.bytes,
		.resume = u->resume,
		.crc32 = u->crc32,
	};

	u->rc = spooled_upload_open(&u->spooled, &id, &u->e);
	u->code = RPC_RESOURCE_EXHAUSTED;
}

static void done_open(void *arg)
{
	struct upload *u = arg;

	if (!u->rc && u->spooled.received)
		log_info("AGG-UPLOAD", "session=%s host=%s resumed_at=%" PRIu64 " bytes=%" PRIu64,
			 u->session, u->host, u->spooled.received, u->spooled.bytes);
	if (!u->rc && u->resume)
		send_reply(u, u->spooled.received, false);
	continue_upload(u);
}

/* Ends older uploads of the same file: an agent may retry before the end of its old connection is noticed. False
 * if one of them is on its way to the store. */
static bool replace_others(struct upload *u)
{
	struct upload *other;

	TAILQ_FOREACH (other, &u->ingest->uploads, entry) {
		if (other == u || !other->session || strcmp(other->session, u->session) ||
		    strcmp(other->host, u->host))
			continue;
		if (other->storing)
			return false;
		upload_finish(other, RPC_ABORTED, "replaced by a newer upload of the same file");
	}
	return true;
}

static int set_files(struct upload *u, const Tutti__V1__UploadBegin *b, struct err *e)
{
	size_t n = b->n_files;
	uint64_t sum = 0;

	if (!n || n > LIMIT_HOST_FILES)
		return err_set(e, ERR_LIMIT, "%zu files: use 1 to %d", n, LIMIT_HOST_FILES);
	u->files = xcalloc(n, sizeof(*u->files));
	u->n_files = (unsigned int)n;
	for (size_t i = 0; i < n; i++) {
		if (!b->files[i] || b->files[i] > LIMIT_XSPACE_FILE_BYTES)
			return err_set(e, ERR_LIMIT, "a file of %" PRIu64 " bytes, limit %lld",
				       b->files[i], LIMIT_XSPACE_FILE_BYTES);
		u->files[i] = b->files[i];
		sum += b->files[i];
	}
	if (sum != b->bytes)
		return err_set(e, ERR_INVALID, "files of %" PRIu64 " bytes, %" PRIu64 " announced",
			       sum, b->bytes);
	return 0;
}

static enum rpc_code begin(struct upload *u, const Tutti__V1__UploadBegin *b, struct err *e)
{
	struct capture *c = capture_find(u->ingest->env.captures, b->session);
	struct capture_host *h;

	if (rpc_check_identity(u->call, e)) /* it may have been revoked since the call was opened */
		return RPC_UNAUTHENTICATED;
	if (u->ingest->env.needs_certificate && strcmp(rpc_identity(u->call), b->host) != 0) {
		err_set(e, ERR_DENIED, "the certificate is for '%.60s', not for host '%.60s'",
			rpc_identity(u->call), b->host);
		return RPC_PERMISSION_DENIED;
	}
	if (!c && !u->ingest->env.store->ready) {
		err_set(e, ERR_BUSY, "the store is not ready: %s",
			u->ingest->env.store->not_ready.msg);
		return RPC_UNAVAILABLE;
	}
	if (c && capture_awaits_agent(c, b->host, b->instance)) {
		err_set(e, ERR_BUSY, "the agent of '%.64s' has not connected again yet", b->host);
		return RPC_UNAVAILABLE;
	}
	if (!c || !capture_find_host(c, b->host, b->instance)) {
		err_set(e, ERR_NOT_FOUND, "no capture '%.64s' expects a file of '%.64s'",
			b->session, b->host);
		return RPC_NOT_FOUND;
	}
	u->session = xstrdup(b->session);
	u->host = xstrdup(b->host);
	u->run = xstrdup(c->run);
	u->instance = b->instance;
	u->spooled.bytes = b->bytes;
	u->resume = b->resume;
	u->crc32 = b->crc32;
	h = upload_waiting_host(u);
	if (!h) {
		err_set(e, ERR_CLOSED, "the capture no longer waits for a file of this host");
		return RPC_FAILED_PRECONDITION;
	}
	if (set_files(u, b, e) || granted_begin(u, b, e))
		return RPC_INVALID_ARGUMENT;
	if (!replace_others(u)) {
		err_set(e, ERR_BUSY, "this file is being stored");
		return RPC_ABORTED;
	}
	if (h->stored) {
		/* The reply to an earlier upload was lost. */
		err_set(e, ERR_EXISTS, "this file is already stored");
		return capture_host_has_stored(h, b->bytes, u->n_files) ? RPC_OK
									: RPC_FAILED_PRECONDITION;
	}
	/* Requests a credit for a host that has none, for example after a failed upload. */
	capture_host_progress(h, HOST_UPLOADING, b->bytes, h->bytes_done);
	if (h->credit != CREDIT_GRANTED) {
		err_set(e, ERR_BUSY, "this host waits for an upload credit");
		return RPC_RESOURCE_EXHAUSTED;
	}
	u->begun = true;
	return RPC_OK;
}

/* False while a worker has the upload: the next message must wait. */
static bool handle_begin(struct upload *u, const struct rpc_msg *msg)
{
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);
	Tutti__V1__UploadMessage *m = upload_message_unpack(data, len);
	struct err e = { 0 };
	enum rpc_code code = RPC_INVALID_ARGUMENT;

	if (m && m->kind_case == TUTTI__V1__UPLOAD_MESSAGE__KIND_BEGIN)
		code = begin(u, m->begin, &e);
	else
		err_set(&e, ERR_INVALID, "the first message is not UploadBegin");
	if (m)
		tutti__v1__upload_message__free_unpacked(m, NULL);
	if (e.code == ERR_BUSY && code == RPC_RESOURCE_EXHAUSTED)
		upload_finish(u, code, e.msg); /* it keeps its place among those that wait */
	else if (code)
		upload_fail(u, code, e.msg);
	else if (!u->begun)
		reply_stored(u, u->spooled.bytes);
	if (!u->begun)
		return true;
	rpc_admit(u->call);
	if (u->by_grants)
		return granted_go_on(u);
	rpc_hurry(u->call); /* few have a credit, and it sends a chunk at a time */
	u->spool = u->ingest->env.spool;
	u->is_on_worker = true;
	jobs_work(u->ingest->env.jobs, run_open, done_open, u);
	return false;
}

/* ---- calls ---- */

static void on_opened(struct rpc_call *call)
{
	struct upload *u = xcalloc(1, sizeof(*u));

	u->ingest = rpc_arg(call);
	u->call = call;
	u->spooled.fd = -1;
	TAILQ_INSERT_TAIL(&u->ingest->uploads, u, entry);
	rpc_set_arg(call, u);
}

static bool on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct upload *u = rpc_arg(call);

	if (u->finished)
		return true;
	if (!u->begun)
		return handle_begin(u, msg);
	if (u->by_grants)
		return granted_message(u, msg);
	u->msg = rpc_msg_keep(msg);
	u->data = rpc_msg_data(u->msg, &u->len);
	u->is_on_worker = true;
	jobs_work(u->ingest->env.jobs, run_chunk, done_chunk, u);
	return false;
}

static void on_half_closed(struct rpc_call *call)
{
	struct upload *u = rpc_arg(call);

	u->half_closed = true;
	if (!u->is_on_worker)
		finish_sending(u);
}

static void on_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct upload *u = rpc_arg(call);

	if (!u->finished && !u->storing && u->session)
		upload_fail(u, RPC_CANCELLED, *st->text ? st->text : "the connection broke");
	u->call = NULL;
	if (!u->is_on_worker)
		upload_free(u);
}

const struct rpc_events ingest_events = {
	.opened = on_opened,
	.message = on_message,
	.half_closed = on_half_closed,
	.closed = on_closed,
};

/* ---- life ---- */

static void run_sweep(void *arg)
{
	struct sweep *sw = arg;

	spooled_upload_sweep(sw->spool, sw->session, STALE_NS);
}

static void done_sweep(void *arg)
{
	struct sweep *sw = arg;

	free(sw->spool);
	free(sw->session);
	free(sw);
}

static void sweep(struct ingest *in, const char *session)
{
	struct sweep *sw = xcalloc(1, sizeof(*sw));

	sw->spool = xstrdup(in->env.spool);
	sw->session = session ? xstrdup(session) : NULL;
	jobs_work(in->env.jobs, run_sweep, done_sweep, sw);
}

static void on_stale(void *arg)
{
	sweep(arg, NULL);
}

/* Ends uploads of captures that no longer wait for files; removes what the spool has of captures that have ended. */
static void on_capture(void *arg, struct capture *c)
{
	struct ingest *in = arg;
	struct upload *u;

	if (c->state < CAP_COMMITTING)
		return;
	TAILQ_FOREACH (u, &in->uploads, entry) {
		if (u->session && !strcmp(u->session, c->session))
			upload_finish(u, RPC_FAILED_PRECONDITION,
				      "the capture no longer waits for this file");
	}
	if (!capture_has_ended(c))
		return;
	sweep(in, c->session);
	open_grants_end(in, c);
	credits_end(in, c);
}

int ingest_new(struct ingest **out, const struct ingest_env *env, struct err *e)
{
	struct ingest *in;
	int rc = spooled_upload_prepare(env->spool, e);

	if (rc)
		return rc;
	spooled_upload_sweep(env->spool, NULL, STALE_NS);
	in = xcalloc(1, sizeof(*in));
	in->env = *env;
	TAILQ_INIT(&in->uploads);
	TAILQ_INIT(&in->open_sessions);
	TAILQ_INIT(&in->to_revoke);
	TAILQ_INIT(&in->late);
	captures_watch(env->captures, on_capture, in);
	credits_start(in);
	loop_timer_in(env->loop, &in->sweep, 2 * STALE_NS, on_stale, in);
	late_start(in);
	*out = in;
	return 0;
}

void ingest_free(struct ingest *in)
{
	if (!in)
		return;
	loop_timer_cancel(in->env.loop, &in->sweep);
	while (!TAILQ_EMPTY(&in->uploads))
		upload_free(TAILQ_FIRST(&in->uploads));
	credits_stop(in);
	open_grants_stop(in);
	late_stop(in);
	free(in);
}

const struct ingest_stats *ingest_stats(const struct ingest *in)
{
	return &in->stats;
}
