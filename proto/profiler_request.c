/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/profiler_request.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "proto/control_check.h"
#include "proto/limits.h"
#include "proto/message.h"

/* ---- requests of clients ---- */

static int check_session(const char *name, struct err *e)
{
	if (text_is_clean(name, LIMIT_CLIENT_SESSION))
		return 0;
	return err_set(e, ERR_LIMIT,
		       "session_id: use at most %d bytes of UTF-8 without control characters",
		       LIMIT_CLIENT_SESSION);
}

struct request_kind {
	const ProtobufCMessageDescriptor *descriptor;
	size_t max_bytes, max_fields;
	size_t session_offset; /* field number of the session's name */
};

static int request_unpack(ProtobufCMessage **out, const struct request_kind *kind, const void *data,
			  size_t len, struct err *e)
{
	ProtobufCMessage *m;
	const char *session;
	int rc = message_unpack(&m, kind->descriptor, kind->max_bytes, kind->max_fields, data, len,
				e);

	if (rc)
		return rc;
	memcpy(&session, (const char *)m + kind->session_offset, sizeof(session));
	rc = check_session(session, e);
	if (rc)
		protobuf_c_message_free_unpacked(m, NULL);
	else
		*out = m;
	return rc;
}

int profile_request_unpack(Tensorflow__ProfileRequest **out, const void *data, size_t len,
			   struct err *e)
{
	static const struct request_kind kind = {
		.descriptor = &tensorflow__profile_request__descriptor,
		.max_bytes = LIMIT_PROFILE_BYTES,
		.max_fields = LIMIT_PROFILE_FIELDS,
		.session_offset = offsetof(Tensorflow__ProfileRequest, session_id),
	};

	return request_unpack((ProtobufCMessage **)out, &kind, data, len, e);
}

int terminate_request_unpack(Tensorflow__TerminateRequest **out, const void *data, size_t len,
			     struct err *e)
{
	static const struct request_kind kind = {
		.descriptor = &tensorflow__terminate_request__descriptor,
		.max_bytes = LIMIT_SMALL_BYTES,
		.max_fields = LIMIT_SMALL_FIELDS,
		.session_offset = offsetof(Tensorflow__TerminateRequest, session_id),
	};

	return request_unpack((ProtobufCMessage **)out, &kind, data, len, e);
}

int snapshot_request_unpack(Tensorflow__GetSnapshotRequest **out, const void *data, size_t len,
			    struct err *e)
{
	static const struct request_kind kind = {
		.descriptor = &tensorflow__get_snapshot_request__descriptor,
		.max_bytes = LIMIT_SMALL_BYTES,
		.max_fields = LIMIT_SMALL_FIELDS,
		.session_offset = offsetof(Tensorflow__GetSnapshotRequest, snapshot_session_id),
	};

	return request_unpack((ProtobufCMessage **)out, &kind, data, len, e);
}

int profile_options_unpack(Tensorflow__ProfileOptions **out, const void *data, size_t len,
			   struct err *e)
{
	ProtobufCMessage *m;
	int rc = message_unpack(&m, &tensorflow__profile_options__descriptor, LIMIT_OPTIONS_BYTES,
				LIMIT_PROFILE_FIELDS, data, len, e);

	if (!rc)
		*out = (Tensorflow__ProfileOptions *)m;
	return rc;
}

uint64_t profile_request_duration_ms(const Tensorflow__ProfileRequest *r)
{
	return r->opts && r->opts->duration_ms ? r->opts->duration_ms : r->duration_ms;
}

int64_t profile_request_start_ns(const Tensorflow__ProfileRequest *r, int64_t now_ns)
{
	uint64_t start_ns = r->opts ? r->opts->start_timestamp_ns : 0;

	return start_ns > (uint64_t)now_ns && start_ns <= (uint64_t)(now_ns + PROFILER_MAX_AHEAD_NS)
		       ? (int64_t)start_ns
		       : 0;
}

/* ---- requests to profilers ---- */

/* The defaults of a stock server. */
static void options_default(Tensorflow__ProfileOptions *o)
{
	o->include_dataset_ops = true;
	o->host_tracer_level = 2;
	o->device_tracer_level = 1;
	o->python_tracer_level = 0;
	o->enable_hlo_proto = true;
	o->version = 1;
}

/* A stock server ignores options of version 0, also the start of the window in them. So such options are
 * replaced by the defaults, written out. */
static void options_use_defaults(Tensorflow__ProfileOptions *o)
{
	protobuf_c_boolean datasets = o->include_dataset_ops;

	options_default(o);
	o->include_dataset_ops = datasets;
}

static void options_set_window(Tensorflow__ProfileOptions *o, const struct profiler_request *r)
{
	int64_t start = r->t0_real_ns - PROFILER_LEAD_NS;
	int64_t duration;

	if (start > r->now_real_ns + PROFILER_MAX_SLEEP_NS)
		start = r->now_real_ns + PROFILER_MAX_SLEEP_NS;
	if (start <= r->now_real_ns) {
		start = r->now_real_ns;
		o->start_timestamp_ns = 0;
	} else {
		o->start_timestamp_ns = (uint64_t)start;
	}
	duration = r->t1_real_ns + PROFILER_GUARD_NS - start;
	o->duration_ms = (uint64_t)((duration + NS_PER_MS - 1) / NS_PER_MS);
}

int profiler_request_pack(struct buf *out, const struct profiler_request *r, struct err *e)
{
	Tensorflow__ProfileRequest m = TENSORFLOW__PROFILE_REQUEST__INIT;
	Tensorflow__ProfileOptions defaults = TENSORFLOW__PROFILE_OPTIONS__INIT;
	Tensorflow__ProfileOptions *given = NULL;

	options_default(&defaults);
	m.opts = &defaults;
	if (r->options_len) {
		int rc = profile_options_unpack(&given, r->options, r->options_len, e);

		if (rc)
			return err_prefix(e, "profile options");
		m.opts = given;
		if (!given->version)
			options_use_defaults(given);
	}
	options_set_window(m.opts, r);
	m.duration_ms = m.opts->duration_ms;
	m.emit_xspace = true;
	m.repository_root = (char *)r->repository;
	m.session_id = (char *)r->session;
	m.host_name = (char *)r->host;
	buf_reserve(out, tensorflow__profile_request__get_packed_size(&m));
	out->len += tensorflow__profile_request__pack(&m, out->data + out->len);
	if (given)
		tensorflow__profile_options__free_unpacked(given, NULL);
	return 0;
}

void profiler_continuous_pack(struct buf *out, const char *host)
{
	Tensorflow__ProfileRequest m = TENSORFLOW__PROFILE_REQUEST__INIT;
	Tensorflow__ProfileOptions defaults = TENSORFLOW__PROFILE_OPTIONS__INIT;
	char session[PROFILER_SESSION_BYTES];

	options_default(&defaults);
	profiler_session_name("tutti_continuous", session);
	m.opts = &defaults;
	m.emit_xspace = true;
	m.session_id = session;
	m.host_name = (char *)host;
	buf_reserve(out, tensorflow__profile_request__get_packed_size(&m));
	out->len += tensorflow__profile_request__pack(&m, out->data + out->len);
}

void profiler_terminate_pack(struct buf *out, const char *session)
{
	Tensorflow__TerminateRequest m = TENSORFLOW__TERMINATE_REQUEST__INIT;

	m.session_id = (char *)session;
	buf_reserve(out, tensorflow__terminate_request__get_packed_size(&m) + 1);
	out->len += tensorflow__terminate_request__pack(&m, out->data + out->len);
}

void profiler_session_name(const char *prefix, char out[PROFILER_SESSION_BYTES])
{
	uint64_t unique;

	random_bytes(&unique, sizeof(unique));
	snprintf(out, PROFILER_SESSION_BYTES, "%.100s_%016" PRIx64, prefix, unique);
}
