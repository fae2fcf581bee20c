/* SPDX-License-Identifier: Apache-2.0 */
/* What requests.c (what becomes of a request) and requests_report.c (what is said of it) share; nobody else
 * includes this. */
#ifndef AGENT_LINK_REQUESTS_IMPL_H
#define AGENT_LINK_REQUESTS_IMPL_H

#include "agent/capture/capture.h"
#include "agent/clock/clock.h"
#include "agent/link/env.h"
#include "agent/link/requests.h"
#include "base/loop.h"

enum request_state {
	REQUEST_ARMED,
	REQUEST_RUNNING,
	REQUEST_GATHERING,
	REQUEST_READY, /* the file is finished, and not stored */
	REQUEST_STORED,
	REQUEST_FAILED, /* there is no file, and nobody could be told */
};

/* Its spool entry, being written by a worker. */
struct note;

struct request {
	struct requests *requests;
	struct request *next;
	char *session;
	enum request_state state;
	uint64_t instance; /* of the Hello after which it was armed */
	Tutti__V1__Arm *arm; /* until the capture is armed */
	bool asked_by_name; /* tracers were named */
	int64_t deadline_ns; /* session clock */
	int64_t lease_end_mono_ns; /* once there is a file */
	struct loop_timer wait; /* for the clock, until wait_until_ns */
	int64_t wait_until_ns;
	struct loop_timer expiry; /* of the deadline, then of the lease */
	struct capture *capture; /* NULL before it is armed, and for what an earlier agent left */

	/* Once there is a file. */
	char *dir, *path;
	uint64_t bytes;
	uint32_t crc32;
	uint64_t *files; /* bytes of each file of the session that it holds */
	size_t n_files;
	struct note *note;

	uint8_t *
		result; /* an AgentMessage: HostResult of the stored file or, in REQUEST_FAILED, of none */
	size_t result_len;
	bool credit; /* Upload has come */
	bool told; /* a HostResult said that the file is not stored */
	struct upload *upload;
	uint64_t bytes_done;
	int64_t progress_at_ns; /* of the last message about bytes */
};

struct requests {
	const struct link_env *env;
	struct requests_link link;
	bool up; /* the link */
	struct request *head;
};

/* ---- requests_report.c ---- */

const char *request_word(enum request_state state);
void request_report_armed(struct request *rq, int64_t t0_ns);
void request_report_refused(struct requests *o, const char *session, const char *reason,
			    const char *detail);
void request_report_progress(struct request *rq);

/* Makes rq->result of its capture, which has a file or (reason is set) will have none. */
void request_make_result(struct request *rq, const char *reason, const char *detail);

/* Sends rq->result. With a reason: that there is a file, but that it is not stored. */
void request_report_result(struct request *rq, const char *reason, const char *detail);

#endif
