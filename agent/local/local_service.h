/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves the local socket, for processes of this host: status as JSON, marks on the timeline, start and
 * stop of a capture by the aggregator. Loop thread.
 *
 * The JSON of a status: docs/schema/agent-status.schema.json.
 */
#ifndef AGENT_LOCAL_LOCAL_SERVICE_H
#define AGENT_LOCAL_LOCAL_SERVICE_H

#include "base/err.h"

struct clock;
struct control;
struct local_service;
struct loop;
struct marks;
struct tracer;

/* All borrowed, and there until local_service_free(). */
struct local_env {
	struct loop *loop;
	struct clock *clock;
	struct marks *marks;
	struct control *control;
	struct tracer *const *tracers; /* opened; NULL-terminated */
	const char *url; /* ipc:// of the socket; "" or NULL = none */
	const char *host; /* this host's name in sessions */
	const char *aggregator; /* host:port of its gRPC */
	const char *spool; /* folder */
};

/* Opens the socket; without a url *out is NULL. The caller frees it with local_service_free(). */
MUST_CHECK int local_service_new(struct local_service **out, const struct local_env *env,
				 struct err *e);
void local_service_free(struct local_service *s); /* NULL is fine */

#endif
