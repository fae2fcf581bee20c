/* SPDX-License-Identifier: Apache-2.0 */
/* Upload credits that come with a grant, from a store that refuses or hangs. */
#include <stdatomic.h>
#include <unistd.h>

#include "aggregator/captures/capture_impl.h"
#include "aggregator/ingest/ingest_impl.h"
#include "aggregator/sessions/session_store.h"
#include "base/mem.h"
#include "storage/store.h"
#include "tests/lib/virtual_time.h"
#include "tests/unit/aggregator/fleet.h"

#define HOSTS 5

/* Makes grants; everything else is the real one's. What workers write is atomic. */
struct granting_store {
	struct store base;
	struct store *real;
	const char *refuse; /* grants of keys that hold this: ERR_DENIED */
	const char *there; /* ERR_EXISTS */
	const char *hang; /* they end at their deadline */
	atomic_bool is_held; /* no grant ends until this is false */
	atomic_int calls;
};

static int granting_put(struct store *s, const struct store_put *put, struct store_stat *out,
			struct err *e)
{
	return store_put(((struct granting_store *)s)->real, put, out, e);
}

static int granting_get(struct store *s, const struct store_get *get, struct store_stat *out,
			struct err *e)
{
	return store_get(((struct granting_store *)s)->real, get, out, e);
}

static int granting_stat(struct store *s, const char *key, int64_t deadline_mono_ns,
			 struct store_stat *out, struct err *e)
{
	return store_stat(((struct granting_store *)s)->real, key, deadline_mono_ns, out, e);
}

static int granting_list(struct store *s, const struct store_list *list, struct err *e)
{
	return store_list(((struct granting_store *)s)->real, list, e);
}

static int granting_remove(struct store *s, const char *key, int64_t deadline_mono_ns,
			   struct err *e)
{
	return store_remove(((struct granting_store *)s)->real, key, deadline_mono_ns, e);
}

static bool holds(const char *key, const char *part)
{
	return part && strstr(key, part);
}

static int granting_grant(struct store *s, const struct store_grant_request *req,
			  struct store_grant *out, struct err *e)
{
	struct granting_store *g = (struct granting_store *)s;

	atomic_fetch_add(&g->calls, 1);
	while (atomic_load(&g->is_held))
		usleep(1000);
	if (holds(req->key, g->refuse))
		return err_set(e, ERR_DENIED, "no");
	if (holds(req->key, g->there))
		return err_set(e, ERR_EXISTS, "there");
	if (holds(req->key, g->hang)) {
		virtual_worker_wait(NULL, req->deadline_mono_ns);
		return err_set(e, ERR_TIMEOUT, "no answer");
	}
	out->method = "PUT";
	out->url = xstrdup(req->key);
	out->life_ns = req->life_ns;
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

/* A fleet whose store makes grants, with a capture of hosts "h0" to "h4" that are armed. */
struct bed {
	struct fleet fleet;
	struct granting_store store;
	struct fake hosts[HOSTS];
	struct capture *capture;
};

static void bed_start(struct bed *b)
{
	struct fleet *f = &b->fleet;
	char name[16];

	fleet_start(f, 0, 600 * NS_PER_S);
	b->store.base = (struct store){ .ops = &granting_ops, .grants = true };
	b->store.real = f->agg.store.store;
	f->agg.store.store = &b->store.base;
	f->agg.ingest->env.by_grants = true;
	captures_set_grants(f->agg.captures, true);
	for (int i = 0; i < HOSTS; i++) {
		snprintf(name, sizeof(name), "h%d", i);
		b->hosts[i].auto_arm = true;
		fake_connect(&b->hosts[i], f, name);
	}
	b->capture = fleet_begin(f);
	for (int i = 0; i < HOSTS; i++)
		WAIT(f, b->capture->hosts[i].state == HOST_ARMED);
}

static void bed_stop(struct bed *b)
{
	struct fleet *f = &b->fleet;

	CHECK(capture_cancel(b->capture));
	fleet_wait_over(f, b->capture->session);
	WAIT(f, !f->agg.jobs.n);
	f->agg.store.store = b->store.real;
	fleet_stop(f);
}

static void offer(struct fake *a, uint64_t bytes)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Progress progress = TUTTI__V1__PROGRESS__INIT;

	progress.session = a->session;
	progress.state = (char *)"uploading";
	progress.bytes_total = bytes;
	progress.takes_grant = true;
	progress.crc32c = 1;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_PROGRESS;
	m.progress = &progress;
	fake_send(a, &m);
}

static int credits_of(const struct bed *b)
{
	int n = 0;

	for (int i = 0; i < HOSTS; i++)
		n += b->hosts[i].uploads;
	return n;
}

/* While the first grant is made alone, those of all others wait, and are made together. */
static void offer_all(struct bed *b)
{
	for (int i = 0; i < HOSTS; i++)
		offer(&b->hosts[i], 10);
	for (int i = 0; i < HOSTS; i++)
		WAIT(&b->fleet, b->capture->hosts[i].credit == CREDIT_GRANTED);
}

static void test_grants_come_with_credits(void)
{
	struct bed b = { 0 };

	bed_start(&b);
	offer_all(&b);
	WAIT(&b.fleet, credits_of(&b) == HOSTS);
	CHECK_EQ(ingest_stats(b.fleet.agg.ingest)->grants, HOSTS);
	bed_stop(&b);
}

/* All get their credits without a grant, after two questions: one for each batch. */
static void test_store_refuses(void)
{
	struct bed b = { .store.refuse = "/h" };

	bed_start(&b);
	atomic_store(&b.store.is_held, true);
	offer_all(&b);
	atomic_store(&b.store.is_held, false);
	WAIT(&b.fleet, credits_of(&b) == HOSTS);
	CHECK_EQ(ingest_stats(b.fleet.agg.ingest)->grants, 0);
	CHECK_EQ(atomic_load(&b.store.calls), 2);
	bed_stop(&b);
}

/* Another's file says nothing of one's own. */
static void test_key_is_there(void)
{
	struct bed b = { .store.there = "/h2" };

	bed_start(&b);
	offer_all(&b);
	WAIT(&b.fleet, credits_of(&b) == HOSTS);
	CHECK_EQ(ingest_stats(b.fleet.agg.ingest)->grants, HOSTS - 1);
	CHECK_EQ(atomic_load(&b.store.calls), HOSTS);
	bed_stop(&b);
}

/* No host waits for more than two batches, and none loses its credit meanwhile. */
static void test_store_hangs(void)
{
	struct bed b = { .store.hang = "/h" };
	int64_t start_ns;

	bed_start(&b);
	start_ns = now_mono_ns();
	offer_all(&b);
	WAIT(&b.fleet, credits_of(&b) == HOSTS);
	CHECK(now_mono_ns() - start_ns < 11 * NS_PER_S);
	CHECK_EQ(atomic_load(&b.store.calls), 2);
	for (int i = 0; i < HOSTS; i++)
		CHECK_EQ(b.hosts[i].uploads, 1);
	bed_stop(&b);
}

/* A credit that went to another host and came back has the grant that is being made, if it is for the file of now. */
static void test_one_grant_a_host(uint64_t bytes, uint64_t later, size_t n_grants)
{
	struct bed b = { .store.hang = "/h0" };
	struct capture_host *h;

	bed_start(&b);
	offer(&b.hosts[0], 10);
	WAIT(&b.fleet, atomic_load(&b.store.calls) == 1);
	offer(&b.hosts[1], bytes);
	h = &b.capture->hosts[1];
	for (int i = 0; i < 3; i++) {
		WAIT(&b.fleet, h->credit == CREDIT_GRANTED);
		capture_host_drop_credit(h);
		offer(&b.hosts[1], later);
	}
	WAIT(&b.fleet, b.hosts[1].uploads == 1);
	WAIT(&b.fleet, !b.fleet.agg.jobs.n);
	CHECK_EQ(atomic_load(&b.store.calls), 2);
	CHECK_EQ(ingest_stats(b.fleet.agg.ingest)->grants, n_grants);
	CHECK_EQ(b.hosts[1].uploads, 1);
	bed_stop(&b);
}

int main(void)
{
	test_grants_come_with_credits();
	test_store_refuses();
	test_key_is_there();
	test_store_hangs();
	test_one_grant_a_host(10, 10, 1);
	test_one_grant_a_host(10, 20, 0);
	return 0;
}
