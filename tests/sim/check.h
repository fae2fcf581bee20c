/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold for every seed:
 *   - in a committed session every requested host is complete, partial or failed, with a reason of
 *     docs/wire.md unless it is complete; a file that the manifest names is in the store, whole;
 *   - each event is at its true time, within the bound that is published with it;
 *   - the window is the same on all hosts: no burst outside it and none missing inside, within the bound;
 *   - a capture without a manifest leaves nothing in the store except, if it failed, the record of the failure.
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include <stdbool.h>
#include <stdint.h>

struct request;

void check_session(const struct request *request);
void check_store(void); /* no capture is under way any more */

/* Summed over all seeds so far. */
struct check_counts {
	uint64_t sessions, complete, partial, failed, events;
	int64_t worst_error_ns, worst_bound_ns;
};
extern struct check_counts check_counts;

#endif
