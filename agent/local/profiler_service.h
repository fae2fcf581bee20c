/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This agent's own tensorflow.ProfilerService: XProf's CAPTURE PROFILE, jax.collect_profile and
 * TensorFlow's client can dial one host directly, without an aggregator.
 *
 * Unlike a framework's server it serves several Profile calls at once, each with a capture of its own.
 * GetSnapshot gives what the rings of this host have; see proto/profiler_series.h for its window.
 * A caller is admitted if its socket belongs to the agent's user or to root, or if its certificate is signed by
 * --ca; with --insecure, callers of other hosts are admitted, too.
 * Times in an answer are relative to the call's own T0. Loop thread.
 */
#ifndef AGENT_LOCAL_PROFILER_SERVICE_H
#define AGENT_LOCAL_PROFILER_SERVICE_H

#include <stdbool.h>

#include "base/err.h"

struct captures;
struct clock;
struct profiler_service;
struct rpc;
struct rpc_tls;
struct tracer;

/* All borrowed, and there until profiler_service_free(). */
struct profiler_service_env {
	struct rpc *rpc;
	struct clock *clock;
	struct captures *captures;
	struct tracer *const *tracers; /* opened; NULL-terminated */
	const char *host; /* this host's name in sessions */
	const char *listen; /* address */
	const struct rpc_tls *tls; /* NULL = plaintext */
	bool insecure; /* plaintext is allowed beyond loopback */

	/* For tests: 0 if the caller `peer` (as rpc_peer()), connected to `port`, may call. NULL =
	 * peer_owner_check(). */
	int (*check_owner)(const char *peer, int port, struct err *e);
};

/* Listens. ERR_DENIED for an address beyond loopback without TLS, unless `insecure`. The caller frees it
 * with profiler_service_free(). */
MUST_CHECK int profiler_service_new(struct profiler_service **out,
				    const struct profiler_service_env *env, struct err *e);

/* Ends its calls and their captures. NULL is fine. */
void profiler_service_free(struct profiler_service *s);

/* env.listen, with the port that the system chose if it was 0. Borrowed. */
const char *profiler_service_address(const struct profiler_service *s);

#endif
