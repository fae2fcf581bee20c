/* SPDX-License-Identifier: Apache-2.0 */
/* Shared only by requests.c (the life of a request), requests_leave.c (its end when the agent stops), requests_entry.c (its
 * spool entry), requests_upload.c (its file's way to the store) and requests_report.c (its messages). */
#ifndef AGENT_LINK_REQUESTS_IMPL_H
#define AGENT_LINK_REQUESTS_IMPL_H

#include "agent/capture/capture.h"
#include "agent/clock/clock.h"
#include "agent/link/env.h"
#include "agent/link/put.h"
#include "agent/link/requests.h"
#include "base/loop.h"
#include "proto/tutti/v1/ingest.pb-c.h"

#define REQUEST_PROGRESS_GAP_NS (250 * NS_PER_MS) /* between two reports of one request */

enum request_state {
	REQUEST_ARMED,
	REQUEST_RUNNING,
	REQUEST_GATHERING,
	REQUEST_READY, /* the file is finished, and not stored */
	REQUEST_STORED,
	REQUEST_FAILED, /* there will be no file; reported when the link is up again */
};

struct entry_write; /* a spool entry that a worker writes */

struct request {
	struct requests *requests;
	struct request *next;
	char *session;
	enum request_state state;
	uint64_t instance; /* of the Hello after which it was armed */
	Tutti__V1__Arm *arm; /* until the capture is armed */
	bool tracers_named; /* Arm named the tracers */
	int64_t deadline_ns; /* session clock */
	int64_t lease_end_mono_ns; /* once there is a file */
	struct loop_timer clock_wait; /* for calibration, until clock_wait_end_mono_ns */
	int64_t clock_wait_end_mono_ns;
	struct loop_timer expiry; /* at the deadline, then at the end of the lease */
	struct capture *capture; /* NULL before it is armed, and for a file of an earlier agent */

	/* Once there is a file. */
	char *dir, *path;
	uint64_t bytes;
	uint32_t crc32;
	struct capture_file *files; /* each file of the session that it holds */
	size_t n_files;
	bool files_summed; /* their crc32c are known */
	struct entry_write *entry_write;

	/* A packed AgentMessage: the HostResult to send once the file is stored or, in REQUEST_FAILED, the one
	 * without a file. */
	uint8_t *result;
	size_t result_len;

	bool credit; /* Upload has come */
	bool at_once; /* as the credit said: a small file may go without a question */
	bool reported_not_stored; /* that was reported since the last Arm or Upload */
	bool is_put; /* stored by the credit's grant: the result tells that */
	struct upload *upload;
	uint64_t bytes_done;
	int64_t progress_mono_ns; /* of the last message about bytes */
	struct loop_timer
		telling; /* that the state lasts; while the file is being made, that it grows */
	uint64_t bytes_made;
};

struct requests {
	const struct link_env *env;
	struct requests_link link;
	bool link_up;
	int64_t record_until_mono_ns, gather_until_mono_ns; /* after requests_leave(); else 0 */
	struct puts *puts;
	struct request *head;
};

/* ---- requests.c ---- */

/* Ends the request; `keep`: its file stays in the spool for the next agent. */
void request_free(struct request *rq, bool keep);

/* ---- requests_leave.c ---- */

/* When it is that session time on CLOCK_MONOTONIC, at most four hours from now: no real deadline is later. The second one
 * makes a model, which costs 20 us: where there is one already, the first one. */
int64_t request_mono_of_model(const struct clock_model *m, int64_t session_ns);
int64_t request_mono_of_session(const struct request *rq, int64_t session_ns);

/* After requests_leave(): a window that is recorded ends now, or when it was to end if that is soon. One that begins
 * later is left to the agent that follows, or refused if none does; may free the request. */
void request_cut(struct request *rq, const struct clock_model *m);

/* ---- requests_entry.c ---- */

/* A worker writes the entry. The upload does not wait for it: it is needed only if this agent is killed. */
void request_write_entry(struct request *rq);

/* While rq->entry_write is set. */
void entry_write_end_request(struct entry_write *w); /* the request has ended */
void entry_write_remove_folder(struct entry_write *w); /* when the entry is written */

/* The files of an entry; their checksums are 0 if it has none. The caller frees them with free(). */
struct capture_file *request_read_files(const Tutti__V1__SpoolEntry *entry);

/* ---- requests_upload.c ---- */

/* Sends the file, if it is there and its upload credit, too; `grant` came with the credit, or is NULL. */
void request_upload(struct request *rq, const Tutti__V1__Grant *grant);

/* The file could not be stored. It stays, because the aggregator may send Upload again. */
void request_report_not_stored(struct request *rq, const char *reason, const char *detail);

/* ---- requests_report.c ---- */

/* `m` is the model of now. */
void request_report_armed(const struct request *rq, const struct clock_model *m, int64_t t0_ns);
void requests_report_refused(const struct requests *rs, const char *session, const char *reason,
			     const char *detail);
void request_report_progress(const struct request *rq);

/* Reports progress while the capture's file is being made, as long as the file grows. */
void request_report_growth(struct request *rq);

/* Makes rq->result from its capture. With a reason: the capture will have no file. */
void request_make_result(struct request *rq, const char *reason, const char *detail);

/* Makes rq->result from the bytes of an earlier agent. If they are malformed, the result says only whether
 * there is a file: for a malformed result the aggregator would end the link, again and again. */
void request_set_result(struct request *rq, const void *data, size_t len);

/* Sends rq->result. With a reason it reports that the file exists but is not stored. */
void request_report_result(const struct request *rq, const char *reason, const char *detail);

#endif
