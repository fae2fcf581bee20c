/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by causality.c, causality_judge.c and causality_report.c. Private to xspace/. */
#ifndef XSPACE_CAUSALITY_IMPL_H
#define XSPACE_CAUSALITY_IMPL_H

#include <stdbool.h>

#include "xspace/causality.h"

struct causal_key {
	uint32_t index; /* in keys[] */
	/* index of its newest observation; valid only if that observation has this key */
	uint32_t last;
	bool ambiguous;
	bool has_out; /* of a flow: a host sends it */
	char text[];
};

/* A key on one host: the earliest end and the latest start of its threads and processes. */
struct causal_seen {
	uint32_t key, host;
	uint32_t start_line, end_line; /* the lines on which the newest start and end are */
	bool has_start, has_end;
	uint32_t n; /* of a collective: its devices that were seen */
	int64_t start_ns, end_ns;
};

struct xs_causality {
	/* of struct causal_key by text; tsearch() makes a balanced tree, so no choice of texts makes it slow */
	void *tree;
	struct causal_key **keys;
	size_t n_keys, keys_cap;
	struct causal_seen *seen;
	size_t n_seen, seen_cap;
	int64_t *bounds_ns; /* by host */
	size_t n_hosts;
	struct xs_steps *steps; /* by host */
	int64_t window_ns;
	uint64_t left_out;
	uint64_t collectives, ambiguous_collectives; /* events */
	struct xs_violation *violations;
	struct xs_seen *shared; /* the array of xs_verdict.seen */
};

/* Larger times and bounds could overflow 64 bits when added; no capture is that long. */
#define CAUSALITY_TIME_MAX_NS (INT64_MAX / 8)

/* The next host, without observations; returns its number. */
uint32_t causality_add_host(struct xs_causality *c, int64_t bound_ns);

/* The key of this text, made if there is none; NULL if there are too many. */
struct causal_key *causality_key(struct xs_causality *c, const char *text);

/* This host's observation of the key, made if there is none; NULL if there are too many. */
struct causal_seen *causality_seen(struct xs_causality *c, struct causal_key *key, uint32_t host);

/* Adds the observation of one device: when it was in this collective. */
void causality_add_collective(struct xs_causality *c, uint32_t host, const char *key,
			      int64_t start_ns, int64_t end_ns, bool has_end);

#endif
