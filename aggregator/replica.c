/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/replica.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>

#include "aggregator/aggregator.h"
#include "aggregator/lease/keeper.h"
#include "aggregator/time/leader_clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "json/json_text.h"

#define WAIT_MS 100

struct replica {
	const struct aggregator *agg;
	struct keeper *keeper;
	struct leader_clock *leader_clock; /* while it follows */
	char *clock_file;
	uint64_t term; /* 0 = it follows */
};

/* ---- leading ---- */

/* The document to go on with: the former leader's where it was on this machine, else one that is as close to it as was
 * measured. A new reference. */
static json_t *clock_to_keep(const struct replica *r, const json_t *clock)
{
	uint64_t epoch = strtoull(json_get_text(clock, "epoch"), NULL, 16);
	struct session_clock_seen seen;

	if (session_clock_is_here(clock) || !leader_clock_read(r->leader_clock, epoch, &seen))
		return json_incref((json_t *)clock);
	log_info("AGG-CLOCK", "state=goes-on bound_ns=%" PRId64, (seen.hi_ns - seen.lo_ns) / 2 + 1);
	return session_clock_go_on(clock, &seen);
}

/* Puts the clock of captures that are under way into the spool, for session_clock_load(). One of another machine that was
 * not measured it does not take, nor one that this replica had as an earlier leader. */
static void keep_clock(const struct replica *r, const json_t *former)
{
	const json_t *clock = json_object_get(former, "clock");
	json_t *kept;
	char *fresh;

	if (!former)
		return;
	if (!clock) {
		unlink(r->clock_file);
		return;
	}
	kept = clock_to_keep(r, clock);
	fresh = xasprintf("%s.former", r->clock_file);
	if (json_dump_file(kept, fresh, JSON_COMPACT) || rename(fresh, r->clock_file)) {
		log_warn("AGG-CLOCK", "path=%s reason=\"not written\"", r->clock_file);
		unlink(fresh);
	}
	free(fresh);
	json_decref(kept);
}

static void on_follows(void *arg, const json_t *clock)
{
	const struct replica *r = arg;

	leader_clock_set(r->leader_clock, keeper_leader(r->keeper)->url, clock);
}

static void on_leads(void *arg, uint64_t term, const json_t *former)
{
	struct replica *r = arg;

	keep_clock(r, former);
	leader_clock_free(r->leader_clock);
	r->leader_clock = NULL;
	r->term = term;
}

static void on_lost(void *arg, const char *why)
{
	const struct replica *r = arg;

	r->agg->lease_lost(why);
}

/* Answers reads until this replica leads. */
static int follow(const struct replica *r, struct err *e)
{
	struct aggregator *reads = xcalloc(1, sizeof(*reads));
	int rc;

	*reads = (struct aggregator){ .conf = r->agg->conf,
				      .loop = r->agg->loop,
				      .leader = keeper_leader(r->keeper),
				      .token = r->agg->token };
	rc = aggregator_start_reads(reads, e);
	while (!rc && !r->term)
		loop_turn(reads->loop, WAIT_MS);
	if (!rc)
		aggregator_stop_reads(reads);
	free(reads);
	return rc;
}

static void replica_free(struct replica *r)
{
	keeper_free(r->keeper);
	leader_clock_free(r->leader_clock);
	free(r->clock_file);
	free(r);
}

static struct keeper_opts keeper_opts(struct replica *r, const struct aggregator *agg)
{
	const char *url = agg->conf.replica_url;

	return (struct keeper_opts){ .loop = agg->loop,
				     .store = agg->conf.store,
				     .replica = agg->conf.replica,
				     .url = url ? url : "",
				     .clock_file = r->clock_file,
				     .lease_ns = agg->conf.lease_ns,
				     .follows = on_follows,
				     .leads = on_leads,
				     .lost = on_lost,
				     .arg = r };
}

int replica_start(struct aggregator *agg, struct err *e)
{
	struct keeper_opts opts;
	struct replica *r;
	int rc;

	if (!conf_is_set(agg->conf.replica))
		return 0;
	r = xcalloc(1, sizeof(*r));
	r->agg = agg;
	r->clock_file = xasprintf("%s/" SESSION_CLOCK_FILE, agg->conf.spool);
	r->leader_clock = leader_clock_new(agg->loop);
	opts = keeper_opts(r, agg);
	rc = file_make_folders(agg->conf.spool, 0755, 0700, e);
	if (!rc)
		rc = keeper_new(&r->keeper, &opts, e);
	if (!rc)
		rc = follow(r, e);
	if (rc) {
		replica_free(r);
		return rc;
	}
	agg->replica = r;
	agg->term = r->term;
	return 0;
}

int replica_publish_clock(struct aggregator *agg, struct err *e)
{
	return agg->replica ? keeper_publish(agg->replica->keeper, e) : 0;
}

int replica_check(const struct aggregator *agg, struct err *e)
{
	if (!agg->replica || keeper_leads(agg->replica->keeper))
		return 0;
	return err_set(e, ERR_DENIED, "this aggregator leads no more: ask again");
}

void replica_stop(struct aggregator *agg)
{
	if (agg->replica)
		replica_free(agg->replica);
	agg->replica = NULL;
}
