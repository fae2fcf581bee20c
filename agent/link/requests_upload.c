/* SPDX-License-Identifier: Apache-2.0 */
/* The way of a finished file to the store. */
#include "agent/link/requests_impl.h"
#include "agent/link/upload.h"
#include "base/log.h"
#include "base/now.h"
#include "proto/reasons.h"

#define LATE_UPLOAD_NS (60 * NS_PER_S) /* time for an Upload after the deadline */

void request_report_not_stored(struct request *rq, const char *reason, const char *detail)
{
	log_warn("AGT-CAPTURE", "session=%s state=held reason=%s detail=\"%s\"", rq->session,
		 reason, detail);
	rq->reported_not_stored = true;
	request_report_result(rq, reason, detail);
}

static void on_upload_progress(void *arg, uint64_t bytes_done)
{
	struct request *rq = arg;
	int64_t now = now_mono_ns();

	rq->bytes_done = bytes_done;
	/* After the last byte the result follows. */
	if (bytes_done == rq->bytes || now - rq->progress_mono_ns < REQUEST_PROGRESS_GAP_NS)
		return;
	rq->progress_mono_ns = now;
	request_report_progress(rq);
}

static void on_upload_done(void *arg, int rc, const struct err *e)
{
	struct request *rq = arg;

	rq->is_put = !rc && upload_is_untold(rq->upload);
	rq->upload = NULL;
	rq->credit = false;
	if (rc) {
		request_report_not_stored(rq, rc == ERR_TIMEOUT ? REASON_STALLED : REASON_UPLOAD,
					  e->msg);
		return;
	}
	log_info("AGT-CAPTURE", "session=%s state=stored", rq->session);
	rq->state = REQUEST_STORED;
	request_report_result(rq, NULL, NULL);
}

static struct rpc_channel *control_channel(void *arg)
{
	const struct requests_link *link = &((struct request *)arg)->requests->link;

	return link->channel(link->arg);
}

void request_upload(struct request *rq, const Tutti__V1__Grant *grant)
{
	struct upload_request req = {
		.session = rq->session,
		.path = rq->path,
		.bytes = rq->bytes,
		.crc32 = rq->crc32,
		.files = rq->files,
		.n_files = rq->n_files,
		.grants = rq->files_summed,
		.grant = grant,
		.at_once = rq->at_once,
		.puts = rq->requests->puts,
		.instance = rq->requests->link.instance,
		.control_channel = control_channel,
		.progress = on_upload_progress,
		.done = on_upload_done,
		.arg = rq,
	};

	if (!rq->credit || rq->upload || rq->state != REQUEST_READY)
		return;
	req.deadline_mono_ns = request_mono_of_session(rq, rq->deadline_ns);
	if (req.deadline_mono_ns <= now_mono_ns())
		req.deadline_mono_ns = now_mono_ns() + LATE_UPLOAD_NS;
	if (rq->lease_end_mono_ns < req.deadline_mono_ns)
		rq->lease_end_mono_ns = req.deadline_mono_ns;
	rq->upload = upload_start(rq->requests->env, &req);
}
