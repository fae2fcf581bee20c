/* SPDX-License-Identifier: Apache-2.0 */
/* What a finished file has that other hosts may have seen, too. Private to capture/. */
#ifndef AGENT_CAPTURE_OBSERVE_H
#define AGENT_CAPTURE_OBSERVE_H

#include <stdint.h>

#include "base/err.h"

struct buf;

/* Appends the observations of the file (xs_causality_pack()), at most LIMIT_OBSERVATION_BYTES and a little. `window_ns` is the
 * length of its window. Blocks: for workers. */
MUST_CHECK int observe_file(const char *path, uint64_t bytes, int64_t window_ns, struct buf *out,
			    struct err *e);

#endif
