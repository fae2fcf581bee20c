/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold for every seed:
 *   - in a committed session every requested host is complete, partial or failed, with a reason of
 *     docs/wire.md unless it is complete; the files that the manifest names are in the store, whole;
 *   - each event and each training step is at its true time, within the bound that is published with it;
 *   - the window is the same on all hosts: no burst outside it and none missing inside, within the bound;
 *   - a host that has a file keeps its result: a retry is for the others, and that host records no more;
 *   - a capture has the settings that each of its callers asked for, and so have its files;
 *   - in a series of snapshots no burst is in two windows of a host, and none is missing between two;
 *   - a host that nothing befell has all of a past window that its ring reaches; what another one lacks is named;
 *   - what was answered 2xx holds: the capture comes to an end that can be asked for, a stopped window is that
 *     long, what was cancelled or deleted is not there;
 *   - a session that can be seen is whole at any time, also when the aggregator has just been killed;
 *   - a capture without a manifest leaves nothing in the store except, if it failed, the record of the failure;
 *   - agents' spools have only files that a retry may still fetch; none once their leases are over.
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

struct request;
struct sim_host;
struct store;

void check_session(const struct request *request);
void check_foreign_session(struct store *s, const json_t *manifest); /* not of a request */

bool check_same_settings(const json_t *a, const json_t *b); /* NULL = none */
void check_armed(const struct sim_host *h, const char *session); /* a host begins to record */

/* check_store.c */
void check_visible(void); /* at any time */
void check_store(void); /* no capture is under way any more */

/* Its ledger, manifest or failure is in the store: what was accepted is durable. */
bool check_has_record(const char *session);

/* The agents have had time to connect and to be told; `leases_over`: and those of all files are over. */
void check_spools(bool leases_over);

#define CHECK_REASONS_MAX 32

/* Summed over all seeds so far. */
struct check_counts {
	uint64_t sessions, complete, partial, failed, events, steps, more_files;
	struct check_reason {
		char reason[32];
		uint64_t n;
	} reasons[CHECK_REASONS_MAX]; /* of failed hosts, in the order in which they came */
	uint64_t edges; /* of hosts, between two windows of a series */
	uint64_t windows, gaps; /* of hosts, in snapshots; those that lack a part, and say so */
	int64_t worst_error_ns, worst_bound_ns;
	/* Of what was drawn, that which came to something. */
	uint64_t queued, by_step; /* captures that waited for a profiler, or for a step */
	uint64_t profiled; /* answers of ProfilerService */
	uint64_t cancelled_away; /* cancels that were answered 202 while a host was away */
	uint64_t
		ended_at_once; /* captures that were stopped and cancelled right after they were accepted */
	uint64_t split; /* hosts with several files */
	uint64_t kept, kept_partial; /* results of hosts that were seen again after a retry */
	uint64_t store_failed, store_kills; /* calls of the store; kills of the aggregator at one */
	uint64_t spools, spools_late; /* that were looked at; after all leases were over */
};
extern struct check_counts check_counts;

#endif
