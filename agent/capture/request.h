/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture request asks for: whether it is possible here, and which tracers take part. Private to
 * agent/capture/. */
#ifndef AGENT_CAPTURE_REQUEST_H
#define AGENT_CAPTURE_REQUEST_H

#include <stdbool.h>

#include "agent/capture/capture.h"
#include "base/err.h"

struct tracer_ops;

/* ERR_INVALID and ERR_LIMIT as for capture_start(). */
MUST_CHECK int request_check(const struct captures *cs, const struct capture_request *req,
			     struct err *e);

/* The tracer levels of ProfileOptions. */
struct request_levels {
	unsigned int host, device, python;
	/* The request has a setting for the Python level. If not, python == 0 may only mean that the client set
	 * none. */
	bool sets_python;
};

/* Of the request's options, else those of a stock client. */
struct request_levels request_levels(const struct capture_request *req);

/* Whether the tracer takes part: the request names it, or names none and the levels include it (tracer.h). */
bool request_wants(const struct capture_request *req, const struct request_levels *levels,
		   const struct tracer_ops *ops);

#endif
