/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots: windows of the past, over restarts, sleeps and steps of the hosts. Series of them, in which no burst is in
 * two windows and none is missing between two.
 */
#ifndef SIM_SNAPSHOTS_H
#define SIM_SNAPSHOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/sim.h"

void snapshots_new(void);
void snapshots_free(void);

void snapshot_take(void); /* one window, of any age */
void snapshot_series(void); /* windows from now on; one series at a time */
void snapshots_stop(void); /* the series takes no further window */

/* A host's file in a committed session has these bursts. */
void snapshots_add_file(const char *session, const char *host, int64_t first_k, int64_t last_k);

void snapshots_check(void); /* all sessions are known */

#endif
