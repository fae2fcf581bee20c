/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads by grants, against a store in memory that makes them. A file whose key is there already is taken for the agent's
 * own only if its size and its checksum are those that the agent has told.
 */
#include <stdlib.h>

#include "aggregator/captures/capture_impl.h"
#include "aggregator/ingest/ingest_impl.h"
#include "aggregator/sessions/sessions.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "proto/names.h"
#include "proto/tutti/v1/ingest.pb-c.h"
#include "storage/store.h"
#include "tests/lib/store.h"
#include "tests/unit/aggregator/fleet.h"

#define FILES	   3
#define FILE_BYTES 100

/* ---- a store that makes grants ---- */

struct granting {
	struct store base;
	struct store *real;
	bool tells; /* as Google's and Azure's: a grant is refused if the key is there; else the put is */
	bool keeps_sums; /* objects have the checksum of their grants */
	int grants, removals;
};

static struct store *real(struct store *s)
{
	return ((struct granting *)s)->real;
}

static int granting_put(struct store *s, const struct store_put *put, struct store_stat *out,
			struct err *e)
{
	return store_put(real(s), put, out, e);
}

static int granting_get(struct store *s, const struct store_get *get, struct store_stat *out,
			struct err *e)
{
	return store_get(real(s), get, out, e);
}

static int granting_stat(struct store *s, const char *key, int64_t deadline_mono_ns,
			 struct store_stat *out, struct err *e)
{
	struct buf bytes = BUF_INIT;
	int rc = store_stat(real(s), key, deadline_mono_ns, out, e);

	if (!rc && ((struct granting *)s)->keeps_sums) {
		CHECK_OK(get_range(real(s), key, 0, out->size, &bytes, NULL, e), *e);
		out->has_crc32c = true;
		out->crc32c = crc32c(0, bytes.data, bytes.len);
		buf_release(&bytes);
	}
	return rc;
}

static int granting_list(struct store *s, const struct store_list *list, struct err *e)
{
	return store_list(real(s), list, e);
}

static int granting_remove(struct store *s, const char *key, int64_t deadline_mono_ns,
			   struct err *e)
{
	((struct granting *)s)->removals += strstr(key, ".xplane.pb") != NULL;
	return store_remove(real(s), key, deadline_mono_ns, e);
}

/* The URL is the key. */
static int granting_grant(struct store *s, const struct store_grant_request *req,
			  struct store_grant *out, struct err *e)
{
	struct granting *g = (struct granting *)s;
	struct store_stat st;

	if (g->tells && !store_stat(g->real, req->key, any_time(), &st, e))
		return err_set(e, ERR_EXISTS, "the key is there");
	out->method = "PUT";
	out->url = xstrdup(req->key);
	out->life_ns = req->life_ns;
	g->grants++;
	return 0;
}

static const struct store_ops granting_ops = {
	.scheme = "granting",
	.put = granting_put,
	.get = granting_get,
	.stat = granting_stat,
	.list = granting_list,
	.remove = granting_remove,
	.grant = granting_grant,
};

/* ---- an agent with three files ---- */

static void file_bytes(unsigned int n, uint8_t out[FILE_BYTES])
{
	for (size_t i = 0; i < FILE_BYTES; i++)
		out[i] = (uint8_t)(n * 31 + i);
}

struct agent {
	struct fake *fake;
	struct granting *store;
	struct rpc_call *call;
	bool claims_all; /* says of each file that the store has refused it */
	bool closed, stored;
	enum rpc_code code;
	char text[256];
	int puts;
};

static void send(struct agent *a, const Tutti__V1__UploadMessage *m)
{
	uint8_t bytes[512];

	CHECK(tutti__v1__upload_message__get_packed_size(m) <= sizeof(bytes));
	rpc_send(a->call, bytes, tutti__v1__upload_message__pack(m, bytes));
}

/* Puts the file of the grant as a store would: not over one that is there. */
static void put_granted(struct agent *a, const Tutti__V1__Grant *grant)
{
	Tutti__V1__UploadMessage m = TUTTI__V1__UPLOAD_MESSAGE__INIT;
	Tutti__V1__UploadPut put = TUTTI__V1__UPLOAD_PUT__INIT;
	uint8_t bytes[FILE_BYTES];
	struct err e = { 0 };
	int rc = ERR_EXISTS;

	file_bytes(grant->file, bytes);
	if (!a->claims_all)
		rc = store_put_bytes(a->store->real, grant->url, bytes, sizeof(bytes), STORE_ABSENT,
				     any_time(), &e);
	CHECK(!rc || rc == ERR_EXISTS);
	a->puts += !rc;
	put.exists = rc == ERR_EXISTS;
	m.kind_case = TUTTI__V1__UPLOAD_MESSAGE__KIND_PUT;
	m.put = &put;
	send(a, &m);
}

static bool on_reply(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct agent *a = rpc_arg(call);
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);
	Tutti__V1__UploadReply *reply = tutti__v1__upload_reply__unpack(NULL, len, data);

	CHECK(reply && (reply->stored || reply->grant));
	a->stored |= reply->stored;
	if (reply->grant)
		put_granted(a, reply->grant);
	tutti__v1__upload_reply__free_unpacked(reply, NULL);
	return true;
}

static void on_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct agent *a = rpc_arg(call);

	a->closed = true;
	a->code = st->code;
	snprintf(a->text, sizeof(a->text), "%s", st->text);
}

/* One attempt, from the beginning to the end. */
static enum rpc_code upload(struct agent *a)
{
	static const struct rpc_events events = { .message = on_reply, .closed = on_closed };
	Tutti__V1__UploadMessage m = TUTTI__V1__UPLOAD_MESSAGE__INIT;
	Tutti__V1__UploadBegin begin = TUTTI__V1__UPLOAD_BEGIN__INIT;
	uint64_t files[FILES];
	uint32_t sums[FILES];
	uint8_t bytes[FILE_BYTES];

	a->closed = a->stored = false;
	a->puts = 0;
	for (unsigned int i = 0; i < FILES; i++) {
		file_bytes(i + 1, bytes);
		files[i] = FILE_BYTES;
		sums[i] = crc32c(0, bytes, sizeof(bytes));
	}
	begin.session = a->fake->session;
	begin.host = a->fake->name;
	begin.instance = a->fake->instance;
	begin.bytes = FILES * FILE_BYTES;
	begin.grants = true;
	begin.files = files;
	begin.crc32c = sums;
	begin.n_files = begin.n_crc32c = FILES;
	m.kind_case = TUTTI__V1__UPLOAD_MESSAGE__KIND_BEGIN;
	m.begin = &begin;
	a->call = rpc_open(a->fake->fleet->channel, "/tutti.v1.Ingest/Upload", INT64_MAX, &events,
			   a);
	send(a, &m);
	WAIT(a->fake->fleet, a->closed);
	return a->code;
}

/* ---- the tests ---- */

struct rig {
	struct fleet f;
	struct fake fake;
	struct granting store;
	struct agent agent;
	struct capture *c;
};

static void rig_up(struct rig *g, bool tells, bool keeps_sums)
{
	*g = (struct rig){ .fake = { .auto_arm = true } };
	fleet_start(&g->f, 0, 0);
	g->store = (struct granting){ .base = { .ops = &granting_ops, .grants = true },
				      .real = g->f.agg.store.store,
				      .tells = tells,
				      .keeps_sums = keeps_sums };
	g->f.agg.store.store = &g->store.base;
	g->f.agg.ingest->env.by_grants = true;
	g->f.agg.captures->env.by_grants = true;
	g->agent = (struct agent){ .fake = &g->fake, .store = &g->store };
	fake_connect(&g->fake, &g->f, "a");
	g->c = fleet_begin(&g->f);
	WAIT(&g->f, fleet_host_is(g->c, 0, "armed"));
}

static void rig_down(struct rig *g)
{
	fake_hang_up(&g->fake);
	WAIT(&g->f, !g->f.agg.jobs.n);
	g->f.agg.store.store = g->store.real;
	fleet_stop(&g->f);
}

static void key_of(const struct rig *g, unsigned int n, char out[SESSION_KEY_BYTES])
{
	char name[NAME_FILE_BYTES];

	name_of_file("a", n, name);
	session_file_key(g->c->session, "", name, out);
}

static void leave(struct rig *g, unsigned int n, const uint8_t *bytes, size_t len)
{
	char key[SESSION_KEY_BYTES];
	struct err e = { 0 };

	key_of(g, n, key);
	CHECK_OK(store_put_bytes(g->store.real, key, bytes, len, 0, any_time(), &e), e);
}

static void check_stored(struct rig *g)
{
	CHECK(g->agent.stored);
	CHECK_EQ(fleet_result(g->c, 0).n_files, FILES);
	for (unsigned int n = 1; n <= FILES; n++) {
		char key[SESSION_KEY_BYTES];
		struct buf got = BUF_INIT;
		uint8_t want[FILE_BYTES];
		struct err e = { 0 };

		key_of(g, n, key);
		file_bytes(n, want);
		CHECK_OK(get_range(g->store.real, key, 0, 1 << 20, &got, NULL, &e), e);
		CHECK(got.len == FILE_BYTES && !memcmp(got.data, want, FILE_BYTES));
		buf_release(&got);
	}
}

static void test_all_are_put(bool tells)
{
	struct rig g;

	rig_up(&g, tells, true);
	CHECK_EQ(upload(&g.agent), RPC_OK);
	CHECK_EQ(g.agent.puts, FILES);
	CHECK_EQ(g.store.grants, FILES);
	check_stored(&g);
	rig_down(&g);
}

/* The answer to an earlier put was lost: the file is the agent's own, and stays. */
static void test_own_file(bool tells, unsigned int n)
{
	uint8_t bytes[FILE_BYTES];
	struct rig g;

	rig_up(&g, tells, true);
	file_bytes(n, bytes);
	leave(&g, n, bytes, sizeof(bytes));
	CHECK_EQ(upload(&g.agent), RPC_OK);
	CHECK_EQ(g.agent.puts, FILES - 1);
	CHECK_EQ(g.store.removals, 0);
	check_stored(&g);
	rig_down(&g);
}

/* A file of the same size with other bytes, one of another size, and one without a checksum are not: they are removed, and
 * the next attempt puts the agent's. */
static void test_other_file(bool tells, unsigned int n, size_t len, bool keeps_sums)
{
	uint8_t bytes[2 * FILE_BYTES] = { 0 };
	struct rig g;

	rig_up(&g, tells, keeps_sums);
	file_bytes(n, bytes);
	bytes[FILE_BYTES / 2] ^= keeps_sums;
	leave(&g, n, bytes, len);
	CHECK_EQ(upload(&g.agent), RPC_ABORTED);
	CHECK(strstr(g.agent.text, "was another file"));
	CHECK(!g.agent.stored);
	CHECK_EQ(fleet_result(g.c, 0).n_files, 0);
	CHECK_EQ(g.store.removals, 1);
	g.store.keeps_sums = true;
	CHECK_EQ(upload(&g.agent), RPC_OK);
	check_stored(&g);
	rig_down(&g);
}

/* It says that the store has refused its files, and none is there. */
static void test_claim_of_nothing(void)
{
	struct rig g;

	rig_up(&g, false, true);
	g.agent.claims_all = true;
	CHECK_EQ(upload(&g.agent), RPC_ABORTED);
	CHECK(!g.agent.stored);
	CHECK_EQ(fleet_result(g.c, 0).n_files, 0);
	rig_down(&g);
}

/* The agent's report of its three files. */
static void report(struct rig *g)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__HostResult result = TUTTI__V1__HOST_RESULT__INIT;
	Tutti__V1__ClockModel clock = TUTTI__V1__CLOCK_MODEL__INIT;
	uint64_t files[FILES];
	uint32_t sums[FILES];
	uint8_t bytes[FILE_BYTES];

	for (unsigned int i = 0; i < FILES; i++) {
		file_bytes(i + 1, bytes);
		files[i] = FILE_BYTES;
		sums[i] = crc32c(0, bytes, sizeof(bytes));
	}
	clock.calibrated = true;
	result.session = g->fake.session;
	result.has_file = true;
	result.clock = &clock;
	result.files = files;
	result.crc32c = sums;
	result.n_files = result.n_crc32c = FILES;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_RESULT;
	m.result = &result;
	fake_send(&g->fake, &m);
}

/* What an agent says of its puts decides nothing: at the commit each file is there with the size that was reported, or
 * the host has none. `bytes` is what is found of the n-th file; -1: it is gone. */
static void test_commit(unsigned int n, int64_t bytes)
{
	uint8_t found[2 * FILE_BYTES] = { 0 };
	char key[SESSION_KEY_BYTES];
	struct err e = { 0 };
	struct rig g;

	rig_up(&g, true, true);
	CHECK_EQ(upload(&g.agent), RPC_OK);
	key_of(&g, n, key);
	if (bytes != FILE_BYTES)
		CHECK_OK(store_remove(g.store.real, key, any_time(), &e), e);
	if (bytes >= 0 && bytes != FILE_BYTES)
		leave(&g, n, found, (size_t)bytes);
	report(&g);
	fleet_wait_over(&g.f, g.c->session);
	CHECK_EQ(g.c->state, bytes == FILE_BYTES ? CAP_COMMITTED : CAP_FAILED);
	CHECK_STR(fleet_result(g.c, 0).reason, bytes == FILE_BYTES ? "" : "upload");
	rig_down(&g);
}

int main(void)
{
	for (unsigned int n = 1; n <= FILES; n++) {
		test_commit(n, FILE_BYTES);
		test_commit(n, FILE_BYTES - 1);
		test_commit(n, FILE_BYTES + 1);
		test_commit(n, -1);
	}
	for (int tells = 0; tells <= 1; tells++) {
		test_all_are_put(tells);
		for (unsigned int n = 1; n <= FILES; n++) {
			test_own_file(tells, n);
			test_other_file(tells, n, FILE_BYTES, true);
			test_other_file(tells, n, FILE_BYTES - 1, true);
			test_other_file(tells, n, FILE_BYTES + 1, true);
			test_other_file(tells, n, FILE_BYTES, false);
		}
	}
	test_claim_of_nothing();
	return 0;
}
