/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This agent's own tensorflow.ProfilerService on conf->listen: XProf's CAPTURE PROFILE,
 * jax.collect_profile and TensorFlow's client can dial one host directly, without an aggregator.
 *
 * Unlike a framework's server it takes several Profile calls at once: the tracers do not mind. Times in
 * what it sends are relative to the call's own T0. Loop thread.
 */
#ifndef AGENT_LOCAL_PROFILER_SERVICE_H
#define AGENT_LOCAL_PROFILER_SERVICE_H

#include "base/err.h"

struct agent;
struct profiler_service;

/* Listens. agent->captures, ->clock and ->tracers must be there. ERR_DENIED for an address beyond
 * loopback without TLS. Yours: profiler_service_free(). */
MUST_CHECK int profiler_service_open(struct profiler_service **out, struct agent *agent,
				     struct err *e);

/* Ends its calls and their captures. NULL is fine. */
void profiler_service_free(struct profiler_service *s);

/* The port it listens on, chosen by the system if conf->listen said 0. */
int profiler_service_port(const struct profiler_service *s);

#endif
