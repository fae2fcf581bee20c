/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/replica.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>

#include "aggregator/aggregator.h"
#include "aggregator/lease/keeper.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "json/json_text.h"

#define WAIT_MS 100

struct replica {
	const struct aggregator *agg;
	struct keeper *keeper;
	char *clock_file;
	uint64_t term; /* 0 = it follows */
};

/* ---- leading ---- */

/* Puts the clock of captures that are under way into the spool: on the same machine and boot the raw clock is the same, so
 * session_clock_load() goes on with it exactly. That of another machine it does not take, nor one that this
 * replica had as an earlier leader. */
static void keep_clock(const struct replica *r, const json_t *former)
{
	const json_t *clock = json_object_get(former, "clock");
	char *fresh;

	if (!former)
		return;
	if (!clock) {
		unlink(r->clock_file);
		return;
	}
	fresh = xasprintf("%s.former", r->clock_file);
	if (json_dump_file(clock, fresh, JSON_COMPACT) || rename(fresh, r->clock_file)) {
		log_warn("AGG-CLOCK", "path=%s reason=\"not written\"", r->clock_file);
		unlink(fresh);
	}
	free(fresh);
}

static void on_leads(void *arg, uint64_t term, const json_t *former)
{
	struct replica *r = arg;

	keep_clock(r, former);
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
				     .leads = on_leads,
				     .lost = on_lost,
				     .arg = r };
}

int replica_start(struct aggregator *agg, struct err *e)
{
	struct keeper_opts opts;
	struct replica *r;
	int rc;

	if (!agg->conf.replica || !*agg->conf.replica)
		return 0;
	r = xcalloc(1, sizeof(*r));
	r->agg = agg;
	r->clock_file = xasprintf("%s/" SESSION_CLOCK_FILE, agg->conf.spool);
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
