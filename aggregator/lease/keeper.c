/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/lease/keeper.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/lease/record.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "json/json_text.h"
#include "storage/store.h"

#define ROUNDS	8 /* in the time of a lease */
#define STEP_NS (20 * NS_PER_MS)

struct keeper {
	struct keeper_opts opts;
	struct store *store;
	struct loop_timer expiry;
	struct leader leader;
	bool is_done; /* the worker has ended */
	bool is_over; /* `lost` was called */

	_Atomic bool stopping; /* the loop requests an end */
	_Atomic unsigned int wanted, written; /* publications of the clock */
	_Atomic int64_t leads_until_ns; /* what the worker has reached; 0 = nothing */

	/* the worker's */
	struct lease lease;
	uint64_t beat;
	json_t *told_clock; /* of the leader; NULL = none was told */
};

/* ---- what the worker tells the loop ---- */

struct news {
	struct keeper *keeper;
	enum news_kind { NEWS_LEADER, NEWS_LEADS, NEWS_LOST } kind;
	uint64_t term;
	json_t *record; /* of the leader, or of the one before; or NULL */
};

static void lose(struct keeper *k, const char *why)
{
	if (k->is_over || k->stopping)
		return;
	k->is_over = true;
	loop_timer_cancel(k->opts.loop, &k->expiry);
	k->opts.lost(k->opts.arg, why);
}

/* The worker may hang in the store. */
static void on_expiry(void *arg)
{
	struct keeper *k = arg;
	int64_t until_ns = k->leads_until_ns;

	if (now_mono_ns() >= until_ns)
		lose(k, "the lease was not renewed in time");
	else
		loop_timer_at(k->opts.loop, &k->expiry, until_ns, on_expiry, k);
}

/* Browsers and commands are sent there: a URL with anything but printable letters is not one. */
static void note_leader(struct leader *leader, const json_t *record)
{
	const char *url = json_get_text(record, "url");

	snprintf(leader->replica, sizeof(leader->replica), "%s", json_get_text(record, "replica"));
	leader->url[0] = '\0';
	if (strlen(url) >= sizeof(leader->url) ||
	    (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0))
		return;
	for (const char *c = url; *c; c++) {
		if (*c <= ' ' || *c >= 0x7f)
			return;
	}
	snprintf(leader->url, sizeof(leader->url), "%.*s", (int)strcspn(url, "?#"), url);
	for (size_t len = strlen(leader->url); len && leader->url[len - 1] == '/'; len--)
		leader->url[len - 1] = '\0';
}

static void take_news(void *arg)
{
	struct news *n = arg;
	struct keeper *k = n->keeper;

	if (n->kind == NEWS_LEADER) {
		note_leader(&k->leader, n->record);
		log_info("AGG-LEASE", "state=follows term=%" PRIu64 " leader=\"%s\"", n->term,
			 json_get_text(n->record, "replica"));
		k->opts.follows(k->opts.arg, json_object_get(n->record, "clock"));
	} else if (n->kind == NEWS_LEADS && !k->stopping) {
		log_info("AGG-LEASE", "state=leads term=%" PRIu64, n->term);
		on_expiry(k);
		if (!k->is_over)
			k->opts.leads(k->opts.arg, n->term, n->record);
	} else if (n->kind == NEWS_LOST) {
		lose(k, "the lease was not renewed in time, or another replica has taken it");
	}
	json_decref(n->record);
	free(n);
}

static void tell(struct keeper *k, enum news_kind kind, uint64_t term, const json_t *record)
{
	struct news *n = xcalloc(1, sizeof(*n));

	*n = (struct news){ k, kind, term, record ? json_deep_copy(record) : NULL };
	loop_post(k->opts.loop, take_news, n);
}

/* ---- on the worker ---- */

static void pause(const struct keeper *k)
{
	int64_t until_ns = now_mono_ns() + k->opts.lease_ns / ROUNDS;

	while (!k->stopping && k->wanted == k->written && now_mono_ns() < until_ns)
		now_sleep_until_mono(now_mono_ns() + STEP_NS);
}

static int64_t call_deadline(const struct keeper *k)
{
	return store_within(k->opts.lease_ns / 2);
}

static json_t *read_clock(const struct keeper *k)
{
	json_error_t why;

	return json_load_file(k->opts.clock_file, 0, &why);
}

/* Creates or replaces the record of `term`; true if this replica leads then. */
static bool write_record(struct keeper *k, uint64_t term, const json_t *clock, bool creates,
			 struct err *e)
{
	const struct record r = { .term = term,
				  .beat = ++k->beat,
				  .replica = k->opts.replica,
				  .url = k->opts.url,
				  .clock = clock };
	int64_t begun_ns = now_mono_ns();
	int rc = creates ? record_create(k->store, &r, call_deadline(k), e)
			 : record_replace(k->store, &r, call_deadline(k), e);

	if (rc)
		return false;
	if (!lease_wrote(&k->lease, term, begun_ns, now_mono_ns())) {
		err_set(e, ERR_TIMEOUT, "the store took too long");
		return false;
	}
	k->leads_until_ns = k->lease.leads_until_ns;
	return true;
}

/* A leader's clock is in its record only some time after its term began. */
static void tell_leader(struct keeper *k, uint64_t known, uint64_t term, const json_t *record)
{
	json_t *clock = json_object_get(record, "clock");
	bool same = clock ? json_equal(clock, k->told_clock) : !k->told_clock;

	if (term == known && same)
		return;
	json_decref(k->told_clock);
	k->told_clock = json_incref(clock);
	tell(k, NEWS_LEADER, term, record);
}

/* One look of a follower. True when it leads; `*former` is then the record before, or NULL. */
static bool follow(struct keeper *k, json_t **former)
{
	uint64_t known = k->lease.seen.term;
	int64_t begun_ns = now_mono_ns();
	struct err e = { 0 };
	struct lease_view view;
	bool may;

	if (record_read(k->store, call_deadline(k), &view, former, &e)) {
		log_warn("AGG-LEASE", "state=follows reason=\"%s\"", e.msg);
		return false;
	}
	may = lease_read(&k->lease, &view, begun_ns, now_mono_ns());
	if (!may)
		tell_leader(k, known, view.term, *former);
	if (may && view.term < LEADER_TERM_MAX && !k->stopping) {
		if (write_record(k, view.term + 1, json_object_get(*former, "clock"), true, &e))
			return true;
		log_info("AGG-LEASE", "state=follows term=%" PRIu64 " reason=\"%s\"", view.term + 1,
			 e.msg);
	}
	return false;
}

/* Renews the term until it is lost or an end is requested; false if it is lost. A failed put is repeated. */
static bool lead(struct keeper *k)
{
	struct err e = { 0 };

	while (!k->stopping && lease_leads(&k->lease, now_mono_ns())) {
		unsigned int wanted = k->wanted;
		json_t *clock = read_clock(k), *document = NULL;
		struct lease_view view;

		if (write_record(k, k->lease.term, clock, false, &e))
			k->written = wanted;
		else
			log_warn("AGG-LEASE", "state=leads reason=\"%s\"", e.msg);
		json_decref(clock);
		/* another one with a later term has found this one too slow */
		if (!record_read(k->store, call_deadline(k), &view, &document, &e) &&
		    view.term > k->lease.term)
			k->lease.leads_until_ns = 0;
		json_decref(document);
		pause(k);
	}
	return lease_leads(&k->lease, now_mono_ns());
}

static void release(struct keeper *k)
{
	json_t *clock = read_clock(k);
	const struct record r = { .term = k->lease.term,
				  .beat = ++k->beat,
				  .replica = k->opts.replica,
				  .url = k->opts.url,
				  .clock = clock,
				  .released = true };
	struct err e = { 0 };

	if (record_replace(k->store, &r, store_within(k->opts.lease_ns / 3), &e))
		log_warn("AGG-LEASE", "state=released reason=\"%s\"", e.msg);
	json_decref(clock);
}

static void run(void *arg)
{
	struct keeper *k = arg;
	json_t *former = NULL;
	bool leads = false;
	struct err e;

	while (!k->stopping && !leads) {
		json_decref(former);
		former = NULL;
		leads = follow(k, &former);
		if (!leads)
			pause(k);
	}
	if (leads) {
		tell(k, NEWS_LEADS, k->lease.term, former);
		if (record_remove_before(k->store, k->lease.term, call_deadline(k), &e))
			log_warn("AGG-LEASE", "state=leads reason=\"%s\"", e.msg);
		if (lead(k))
			release(k);
		else
			tell(k, NEWS_LOST, k->lease.term, NULL);
	}
	json_decref(former);
	json_decref(k->told_clock);
	k->leads_until_ns = 0;
}

static void done(void *arg)
{
	struct keeper *k = arg;

	k->is_done = true;
}

/* ---- life ---- */

int keeper_new(struct keeper **out, const struct keeper_opts *opts, struct err *e)
{
	struct keeper *k;
	struct store *store;
	int rc;

	if (!strncmp(opts->store, "mem://", strlen("mem://")))
		return err_set(
			e, ERR_INVALID,
			"the store \"%s\" is in this process: replicas need one that all see",
			opts->store);
	rc = store_open(&store, opts->store, e);
	if (rc)
		return rc;
	k = xcalloc(1, sizeof(*k));
	k->store = store;
	k->opts = *opts;
	k->lease.lease_ns = opts->lease_ns;
	*out = k;
	loop_work(opts->loop, run, done, k);
	return 0;
}

int keeper_publish(struct keeper *k, struct err *e)
{
	unsigned int mine = ++k->wanted;

	while (k->written != mine && keeper_leads(k))
		now_sleep_until_mono(now_mono_ns() + STEP_NS);
	if (k->written != mine)
		return err_set(e, ERR_DENIED, "the lease was lost during the start");
	return 0;
}

bool keeper_leads(const struct keeper *k)
{
	return now_mono_ns() < k->leads_until_ns;
}

const struct leader *keeper_leader(const struct keeper *k)
{
	return &k->leader;
}

void keeper_free(struct keeper *k)
{
	if (!k)
		return;
	k->stopping = true;
	loop_timer_cancel(k->opts.loop, &k->expiry);
	while (!k->is_done)
		loop_turn(k->opts.loop, 20);
	store_free(k->store);
	free(k);
}
