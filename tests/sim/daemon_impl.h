/* SPDX-License-Identifier: Apache-2.0 */
/* The two kinds of daemon. Headers of agent/ and aggregator/ define the same names, so each kind has a .c file of
 * its own. */
#ifndef SIM_DAEMON_IMPL_H
#define SIM_DAEMON_IMPL_H

#include "base/err.h"
#include "tests/sim/daemon.h"

struct loop;

struct daemon_kind {
	/* What its main.c does. */
	int workers;
	int64_t stop_limit_ns; /* an orderly stop that takes longer becomes a kill; 0 = no limit */

	int (*start)(void **self, const char *dir, const struct daemon_opts *opts,
		     struct loop *loop, struct err *e);
	void (*stop)(void *self);
	void (*free)(void *self); /* after its loop */
};

extern const struct daemon_kind aggregator_kind, agent_kind;

#endif
