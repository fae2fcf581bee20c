/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long sessions stay. A session is old once its T0 lies further back than the rule of its run, or else than
 * `keep_ns`; and so are the oldest sessions while all together have more than `keep_bytes`. Pinned sessions count
 * for the bytes, but are never old, and neither is the newest session old by the bytes.
 */
#ifndef AGGREGATOR_RETENTION_RULES_H
#define AGGREGATOR_RETENTION_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aggregator/sessions/sessions.h"
#include "base/conf.h"
#include "base/err.h"

struct store;

struct retention_run {
	char *run; /* "" = sessions without a run */
	int64_t keep_ns; /* 0 = for ever */
};

/* Zeroed: everything stays. */
struct retention_rules {
	int64_t keep_ns; /* 0 = for ever */
	uint64_t keep_bytes; /* 0 = any number */
	struct retention_run *runs;
	size_t n_runs;
};

/* Adds the rules of runs, each as "RUN=7d". */
MUST_CHECK int retention_add_runs(struct retention_rules *rules, const struct conf_list *texts,
				  struct err *e);
void retention_rules_release(struct retention_rules *rules);

bool retention_has_rules(const struct retention_rules *rules);

/* What a look at the index has found. */
struct retention_view {
	size_t sessions, pinned;
	uint64_t bytes; /* of all sessions; 0 without keep_bytes */
	struct session_keys old; /* to remove, the oldest first */
};
void retention_view_release(struct retention_view *v);

/* Looks at the index of the store; `*view` is an earlier look, or zeroed. After an error it is as before. Blocks. */
MUST_CHECK int retention_look(struct store *s, const struct retention_rules *rules, int64_t now_ns,
			      struct retention_view *view, struct err *e);

#endif
