/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/capture/request.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/capture/capture_impl.h"
#include "proto/limits.h"
#include "proto/names.h"
#include "proto/profiler_request.h"

struct request_levels request_levels(const struct capture_request *req)
{
	/* the levels of clients that set no options */
	struct request_levels levels = { .host = 2, .device = 1 };
	Tensorflow__ProfileOptions *m;

	for (size_t i = 0; i < req->n_settings; i++)
		levels.sets_python |= !strcmp(req->settings[i].key, "python_tracer_level");
	if (profile_options_unpack(&m, req->profile_options, req->profile_options_len, NULL))
		return levels;
	if (m->version) {
		levels.host = m->host_tracer_level;
		levels.device = m->device_tracer_level;
		levels.python = m->python_tracer_level;
	}
	tensorflow__profile_options__free_unpacked(m, NULL);
	return levels;
}

static bool has_level(const struct request_levels *levels, const struct tracer_ops *ops)
{
	if (ops->other_level == LEVEL_PYTHON && (levels->python || levels->sets_python))
		return levels->python;
	if (ops->other_level == LEVEL_DEVICE && !levels->device)
		return false;
	return levels->host >= ops->host_level;
}

bool request_wants(const struct capture_request *req, const struct request_levels *levels,
		   const struct tracer_ops *ops)
{
	if (!req->tracers)
		return has_level(levels, ops);
	for (size_t i = 0; req->tracers[i]; i++) {
		if (!strcmp(req->tracers[i], ops->name))
			return true;
	}
	return false;
}

static int check_tracers(const struct captures *cs, const struct capture_request *req,
			 struct err *e)
{
	for (size_t i = 0; req->tracers && req->tracers[i]; i++) {
		struct tracer *const *t = cs->env.tracers;

		while (*t && strcmp((*t)->ops->name, req->tracers[i]))
			t++;
		if (!*t)
			return err_set(e, ERR_INVALID, "this agent has no tracer '%.40s'",
				       req->tracers[i]);
	}
	return 0;
}

static int check_settings(const struct captures *cs, const struct capture_request *req,
			  struct err *e)
{
	for (size_t i = 0; cs->env.tracers[i]; i++) {
		int64_t *values;
		int rc = tracer_values(cs->env.tracers[i]->ops, req->settings, req->n_settings,
				       &values, e);

		if (rc)
			return rc;
		free(values);
	}
	return 0;
}

int request_check(const struct captures *cs, const struct capture_request *req, struct err *e)
{
	int rc = name_check_host(req->session, e);

	if (rc)
		return rc;
	if (req->duration_ns < 0 || req->duration_ns > LIMIT_DURATION_NS || req->t0_ns <= 0 ||
	    req->t0_ns > INT64_MAX / 2)
		return err_set(e, ERR_INVALID,
			       "the window (T0 %" PRId64 " ns, duration %" PRId64 " ns) is out of "
			       "range: T0 must be 1 to %" PRId64 ", the duration 0 to %" PRId64,
			       req->t0_ns, req->duration_ns, INT64_MAX / 2,
			       (int64_t)LIMIT_DURATION_NS);
	if (cs->n >= LIMIT_CAPTURES)
		return err_set(e, ERR_LIMIT,
			       "%zu captures are under way on this host, which is the limit: try "
			       "again later",
			       cs->n);
	rc = check_tracers(cs, req, e);
	return rc ? rc : check_settings(cs, req, e);
}
