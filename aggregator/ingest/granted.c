/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads by grants: for each file of a host, from the last one to the first, the agent gets a grant, puts the
 * file into the store, and says so. What it says decides nothing that others depend on: before a commit the
 * store's listing is compared with the hosts' reports, and a key that was there already is looked at here.
 */
#include <stdlib.h>
#include <string.h>

#include "aggregator/captures/capture.h"
#include "aggregator/ingest/chunk.h"
#include "aggregator/ingest/ingest_impl.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/sessions/sessions.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/names.h"

/* how long a store is not asked again that has refused to make a grant with these keys */
#define NO_GRANTS_NS (600 * NS_PER_S)

/* The store is asked again when its refusal is old. */
static bool are_made(struct ingest *in)
{
	if (!in->env.by_grants || now_mono_ns() < in->no_grants_until_ns)
		return false;
	if (in->no_grants_until_ns)
		captures_set_grants(in->env.captures, true);
	in->no_grants_until_ns = 0;
	return true;
}

/* Of a session that is retried, and of an aggregator before this one, there may be files. */
bool granted_is_first(const struct capture_host *h)
{
	return !h->was_granted && h->capture->revision == 1;
}

int granted_begin(struct upload *u, const Tutti__V1__UploadBegin *b, struct err *e)
{
	const struct capture_host *h;

	if (!b->grants || !are_made(u->ingest))
		return 0;
	if (b->n_crc32c != u->n_files || b->put > u->n_files)
		return err_set(e, ERR_INVALID, "%zu checksums and %u put files, but %u files",
			       b->n_crc32c, b->put, u->n_files);
	u->by_grants = true;
	h = upload_waiting_host(u);
	u->is_first = h && granted_is_first(h);
	u->crc32c = xcalloc(u->n_files, sizeof(*u->crc32c));
	memcpy(u->crc32c, b->crc32c, u->n_files * sizeof(*u->crc32c));
	u->n_left = u->n_files - b->put;
	return 0;
}

/* ---- on a worker ---- */

static void file_key(const struct upload *u, char out[SESSION_KEY_BYTES])
{
	char name[NAME_FILE_BYTES];

	name_of_file(u->host, u->n_left, name);
	session_file_key(u->session, u->run, name, out);
}

/*
 * The key of the next file is there: the store has refused the agent's put, or a grant for it. If an earlier attempt of
 * this upload has put the file, and the answer was lost, the store has these bytes. Any other file is from an earlier
 * upload of this host, which no manifest names yet.
 */
static int compare_claimed(struct upload *u)
{
	char key[SESSION_KEY_BYTES];
	const uint64_t bytes = u->files[u->n_left - 1];
	const uint32_t crc32c = u->crc32c[u->n_left - 1];
	struct store_stat st;
	int rc;

	file_key(u, key);
	rc = store_stat(u->store, key, store_within(STORE_PATIENCE_NS), &st, &u->e);
	if (!rc && st.size == bytes && st.has_crc32c && st.crc32c == crc32c) {
		u->n_left--;
		return 0;
	}
	if (!rc)
		rc = session_check_owner(u->store, u->session, u->ingest->env.store->nonce, &u->e);
	if (!rc)
		rc = store_remove(u->store, key, store_within(STORE_PATIENCE_NS), &u->e);
	return rc ? rc
		  : err_set(&u->e, ERR_EXISTS,
			    "%s was another file, which is removed: put yours again", key);
}

static int make_grant(struct upload *u)
{
	char key[SESSION_KEY_BYTES];
	const struct store_grant_request req = {
		.key = key,
		.len = u->files[u->n_left - 1],
		.crc32c = u->crc32c[u->n_left - 1],
		.life_ns = GRANT_LIFE_NS,
		.is_new = u->is_first,
		.deadline_mono_ns = store_within(STORE_PATIENCE_NS),
	};

	file_key(u, key);
	return store_grant(u->store, &req, &u->grant, &u->e);
}

/* Google and Azure tell already now that a key is there, S3 tells the agent when it puts. */
static void run_next(void *arg)
{
	struct upload *u = arg;
	int rc = u->is_claimed ? ERR_EXISTS : 0;

	u->is_claimed = false;
	for (;;) {
		u->code = RPC_ABORTED;
		u->rc = rc == ERR_EXISTS ? compare_claimed(u) : 0;
		if (u->rc || !u->n_left)
			return;
		u->code = RPC_UNAVAILABLE;
		u->rc = rc = make_grant(u);
		u->is_refused = rc == ERR_DENIED || rc == ERR_UNSUPPORTED;
		if (rc != ERR_EXISTS)
			return;
	}
}

/* ---- on the loop ---- */

Tutti__V1__Grant granted_message_of(const struct store_grant *g, unsigned int file)
{
	Tutti__V1__Grant m = TUTTI__V1__GRANT__INIT;

	m.file = file;
	m.method = (char *)g->method;
	m.url = g->url;
	m.headers = (char **)g->headers;
	while (m.n_headers < STORE_GRANT_HEADERS && g->headers[m.n_headers])
		m.n_headers++;
	m.life_ns = g->life_ns;
	return m;
}

static void send_grant(struct upload *u)
{
	Tutti__V1__UploadReply reply = TUTTI__V1__UPLOAD_REPLY__INIT;
	Tutti__V1__Grant grant = granted_message_of(&u->grant, u->n_left);
	uint8_t *data;
	size_t len;

	reply.grant = &grant;
	len = tutti__v1__upload_reply__get_packed_size(&reply);
	data = xmalloc(len);
	tutti__v1__upload_reply__pack(&reply, data);
	rpc_send(u->call, data, len);
	explicit_bzero(data, len);
	free(data);
	u->granted_until_ns = now_mono_ns() + u->grant.life_ns;
	u->ingest->stats.grants++;
	open_grant_add(u);
}

/* What it has put so far shows that the host makes progress. */
static void finish_or_grant(struct upload *u)
{
	struct capture_host *h = upload_waiting_host(u);
	uint64_t done = 0;

	if (!h) {
		upload_no_longer_wanted(u);
		return;
	}
	for (unsigned int i = u->n_left; i < u->n_files; i++)
		done += u->files[i];
	if (u->n_left) {
		capture_host_progress(h, HOST_UPLOADING, u->spooled.bytes, done);
		h->was_granted = true;
		send_grant(u);
	} else {
		upload_stored(u, h);
	}
}

/* Agents whose uploads end now begin again, and are asked for the bytes. */
static void go_without_grants(struct upload *u)
{
	struct ingest *in = u->ingest;

	if (now_mono_ns() >= in->no_grants_until_ns)
		log_warn("AGG-UPLOAD",
			 "grants=0 for_s=%d reason=\"%s\" meanwhile=\"all bytes pass through this "
			 "program\"",
			 (int)(NO_GRANTS_NS / NS_PER_S), u->e.msg);
	in->no_grants_until_ns = now_mono_ns() + NO_GRANTS_NS;
	captures_set_grants(in->env.captures, false);
}

static void done_next(void *arg)
{
	struct upload *u = arg;

	u->is_on_worker = false;
	if (u->rc && u->is_refused)
		go_without_grants(u);
	if (u->call && !u->finished && u->rc)
		upload_fail(u, u->code, u->e.msg);
	else if (u->call && !u->finished)
		finish_or_grant(u);
	open_grant_drop(u);
	store_grant_release(&u->grant);
	if (!u->call)
		upload_free(u);
	else if (u->half_closed)
		upload_fail(u, RPC_DATA_LOSS, "the call ended before all files were put");
	else
		rpc_read_on(u->call);
}

bool granted_go_on(struct upload *u)
{
	if (!u->n_left && !u->is_claimed) {
		finish_or_grant(u);
		return true;
	}
	u->store = u->ingest->env.store->store;
	u->is_on_worker = true;
	jobs_work(u->ingest->env.jobs, run_next, done_next, u);
	return false;
}

bool granted_message(struct upload *u, const struct rpc_msg *msg)
{
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);
	Tutti__V1__UploadMessage *m = upload_message_unpack(data, len);
	bool is_put = m && m->kind_case == TUTTI__V1__UPLOAD_MESSAGE__KIND_PUT && u->n_left;

	if (is_put && m->put->exists) {
		u->is_claimed = true;
		open_grant_revoke(u);
	} else if (is_put) {
		u->n_left--;
		open_grant_used(u);
	}
	if (m)
		tutti__v1__upload_message__free_unpacked(m, NULL);
	if (is_put)
		return granted_go_on(u);
	upload_fail(u, RPC_INVALID_ARGUMENT, "not an UploadPut");
	return true;
}

void granted_end(struct upload *u)
{
	free(u->crc32c);
	open_grant_revoke(u);
	if (u->granted_until_ns && !u->is_stored)
		late_expect(u->ingest, u->session, u->run);
}
