/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers processes of this host at the local socket: status as JSON, marks onto the timeline, start and
 * stop of a capture by asking the aggregator. Loop thread.
 *
 * The JSON of a status: {"host", "version", "aggregator", "connected", "clock": CLOCK of docs/wire.md,
 * "tracers": [{"name", "state", "reason", "errno"}], "captures": [{"session", "state", "bytes",
 * "bytes_done"}]}.
 */
#ifndef AGENT_LOCAL_LOCAL_SERVICE_H
#define AGENT_LOCAL_LOCAL_SERVICE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct agent;
struct local_service;

/* Opens the socket at conf.local_socket; with "" there is none and *out is NULL. Yours: local_service_free(). */
MUST_CHECK int local_service_new(struct local_service **out, struct agent *agent, struct err *e);
void local_service_free(struct local_service *dk); /* NULL is fine */

#endif
