/* SPDX-License-Identifier: Apache-2.0 */
/* What collecting and judging share. Private to xspace/. */
#ifndef XSPACE_CAUSALITY_IMPL_H
#define XSPACE_CAUSALITY_IMPL_H

#include <stdbool.h>

#include "xspace/causality.h"

struct causal_key {
	uint32_t index; /* in keys[] */
	uint32_t last; /* newest observation; trusted only if that one says so, too */
	bool ambiguous;
	bool has_out; /* of a flow: some host sends it */
	char text[];
};

/* A key as one host has it. Of its threads and processes the earliest end and the latest start matter. */
struct causal_seen {
	uint32_t key, host;
	uint32_t start_line, end_line; /* that the newest of each came from */
	bool has_start, has_end;
	int64_t start_ns, end_ns;
};

struct xs_causality {
	void *tree; /* of struct causal_key by text; tsearch(): no text can make it slow */
	struct causal_key **keys;
	size_t n_keys, keys_cap;
	struct causal_seen *seen;
	size_t n_seen, seen_cap;
	int64_t *bounds_ns; /* by host */
	size_t n_hosts;
	uint64_t left_out;
	struct xs_violation *violations;
	struct xs_seen *shared; /* what xs_verdict.seen has */
};

#endif
