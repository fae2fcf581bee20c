/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/requests.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/capture/spool.h"
#include "agent/capture/spool_entry.h"
#include "agent/link/requests_impl.h"
#include "agent/link/upload.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

/* how long an Arm right after Welcome waits for the clock's calibration */
#define CALIBRATION_WAIT_NS (400 * NS_PER_MS)
#define CALIBRATION_POLL_NS (20 * NS_PER_MS)
/* how long a finished file is kept after the deadline */
#define LEASE_NS (600 * NS_PER_S)

static void on_clock_wait(void *arg);

static struct request *request_find(const struct requests *rs, const char *session)
{
	struct request *rq = rs->head;

	while (rq && strcmp(rq->session, session))
		rq = rq->next;
	return rq;
}

/* ---- the end of a request ---- */

static void unlink_request(struct request *rq)
{
	struct request **at = &rq->requests->head;

	while (*at != rq)
		at = &(*at)->next;
	*at = rq->next;
}

/* If a worker is writing the entry, it removes the folder afterwards. */
static void release_files(struct request *rq, bool keep)
{
	struct spool *spool = rq->requests->env->spool;
	bool is_busy = rq->entry_write && !keep;

	if (is_busy)
		entry_write_remove_folder(rq->entry_write);
	if (rq->capture && (keep || is_busy))
		capture_release_keep_file(rq->capture);
	else if (rq->capture)
		capture_release(rq->capture);
	if (rq->capture || !rq->dir)
		return;
	spool_uncharge(spool, rq->bytes);
	if (!keep)
		spool_remove(rq->dir);
}

void request_free(struct request *rq, bool keep)
{
	struct loop *l = rq->requests->env->loop;

	unlink_request(rq);
	loop_timer_cancel(l, &rq->clock_wait);
	loop_timer_cancel(l, &rq->expiry);
	loop_timer_cancel(l, &rq->telling);
	upload_cancel(rq->upload);
	release_files(rq, keep);
	if (rq->entry_write)
		entry_write_end_request(rq->entry_write);
	if (rq->arm)
		tutti__v1__arm__free_unpacked(rq->arm, NULL);
	free(rq->result);
	free(rq->files);
	free(rq->dir);
	free(rq->path);
	free(rq->session);
	free(rq);
}

static void on_lease_end(void *arg)
{
	struct request *rq = arg;

	if (rq->upload) {
		loop_timer_in(rq->requests->env->loop, &rq->expiry, LEASE_NS, on_lease_end, rq);
		return;
	}
	log_warn("AGT-CAPTURE",
		 "session=%s state=expired reason=\"the lease ended without a release\"",
		 rq->session);
	request_free(rq, false);
}

static void wait_for_lease_end(struct request *rq)
{
	loop_timer_at(rq->requests->env->loop, &rq->expiry, rq->lease_end_mono_ns, on_lease_end,
		      rq);
}

/* There will be no file. While the link is down the result is kept and sent later. */
static void end_without_file(struct request *rq, const char *reason, const char *detail)
{
	log_warn("AGT-CAPTURE", "session=%s state=failed reason=%s detail=\"%s\"", rq->session,
		 reason, detail);
	request_make_result(rq, reason, detail);
	if (rq->requests->link_up) {
		request_report_result(rq, NULL, NULL);
		request_free(rq, false);
		return;
	}
	rq->state = REQUEST_FAILED;
	capture_release(rq->capture);
	rq->capture = NULL;
	rq->lease_end_mono_ns = now_mono_ns() + LEASE_NS;
	wait_for_lease_end(rq);
}

/* ---- capture ---- */

static void on_file_ready(struct request *rq)
{
	int64_t deadline = request_mono_of_session(rq, rq->deadline_ns);
	int64_t now = now_mono_ns();
	const struct capture_file *files;
	unsigned int n_files;

	rq->state = REQUEST_READY;
	rq->dir = xstrdup(capture_dir(rq->capture));
	rq->path = xstrdup(capture_path(rq->capture));
	rq->bytes = capture_bytes(rq->capture);
	rq->crc32 = capture_crc32(rq->capture);
	files = capture_files(rq->capture, &n_files);
	rq->files = xcalloc(n_files + 1, sizeof(*files));
	memcpy(rq->files, files, n_files * sizeof(*files));
	rq->n_files = n_files;
	rq->files_summed = true;
	rq->lease_end_mono_ns = (deadline > now ? deadline : now) + LEASE_NS;
	request_make_result(rq, NULL, NULL);
	request_write_entry(rq);
	request_report_progress(rq);
	request_upload(rq, NULL);
}

static void on_still_so(void *arg)
{
	request_report_progress(arg);
}

/* All hosts of a fleet enter a state at the same instant, and leave most states soon: only what lasts is reported. */
static void report_if_it_lasts(struct request *rq)
{
	loop_timer_in(rq->requests->env->loop, &rq->telling, REQUEST_PROGRESS_GAP_NS, on_still_so,
		      rq);
}

static void on_changed(struct capture *c, enum capture_state state, void *arg)
{
	struct request *rq = arg;

	loop_timer_cancel(rq->requests->env->loop, &rq->telling);
	switch (state) {
	case CAPTURE_RUNNING:
		rq->state = REQUEST_RUNNING;
		report_if_it_lasts(rq);
		break;
	case CAPTURE_GATHERING:
		rq->state = REQUEST_GATHERING;
		report_if_it_lasts(rq);
		break;
	case CAPTURE_ASSEMBLING:
		request_report_growth(rq);
		break;
	case CAPTURE_READY:
		on_file_ready(rq);
		break;
	case CAPTURE_FAILED:
		end_without_file(rq, capture_reason(c), capture_error(c)->msg);
		break;
	default:
		break;
	}
}

static void on_deadline(void *arg)
{
	struct request *rq = arg;

	if (rq->state < REQUEST_READY) {
		end_without_file(rq, REASON_TIMEOUT, "there was no file by the deadline");
		return;
	}
	if (rq->state == REQUEST_READY && !rq->upload && !rq->reported_not_stored)
		request_report_not_stored(rq, REASON_STALLED,
					  "no upload credit came by the deadline");
	wait_for_lease_end(rq);
}

/* Without gather_by_ns, half of the time between window and deadline is for the tracers, half for merging and
 * sending. */
static int64_t give_up_ns(const Tutti__V1__Arm *arm)
{
	int64_t t1_ns = arm->t0_ns + arm->duration_ns;

	if (arm->gather_by_ns)
		return arm->gather_by_ns > t1_ns ? arm->gather_by_ns : t1_ns;
	return arm->upload_deadline_ns > t1_ns ? t1_ns + (arm->upload_deadline_ns - t1_ns) / 2
					       : t1_ns;
}

static int start_capture(struct request *rq, struct err *e)
{
	const Tutti__V1__Arm *arm = rq->arm;
	const char **names = xcalloc(arm->n_tracers + 1, sizeof(*names));
	struct tracer_setting *settings = xcalloc(arm->n_settings + 1, sizeof(*settings));
	struct capture_request req = {
		.session = rq->session,
		.t0_ns = arm->t0_ns,
		.duration_ns = arm->duration_ns,
		.give_up_ns = give_up_ns(arm),
		.probe_gap_ns = arm->probe_gap_ms * NS_PER_MS,
		.profile_options = arm->profile_options.data,
		.profile_options_len = arm->profile_options.len,
		.tracers = arm->n_tracers ? names : NULL,
		.settings = settings,
		.n_settings = arm->n_settings,
		.notes = arm->notes,
		.n_notes = arm->n_notes,
		.changed = on_changed,
		.arg = rq,
	};
	int rc;

	for (size_t i = 0; i < arm->n_tracers; i++)
		names[i] = arm->tracers[i];
	for (size_t i = 0; i < arm->n_settings; i++)
		settings[i] = (struct tracer_setting){ arm->settings[i]->key,
						       arm->settings[i]->value };
	rc = capture_start(rq->requests->env->captures, &req, &rq->capture, e);
	free(settings);
	free(names);
	return rc;
}

/* Waits for the clock's calibration, up to CALIBRATION_WAIT_NS. After that the capture goes on and its file
 * has a warning. */
static bool wait_for_clock(struct request *rq, const struct clock_model *m)
{
	if (m->calibrated || now_mono_ns() >= rq->clock_wait_end_mono_ns)
		return false;
	loop_timer_in(rq->requests->env->loop, &rq->clock_wait, CALIBRATION_POLL_NS, on_clock_wait,
		      rq);
	return true;
}

static const char *refusal_reason(int rc)
{
	return rc == ERR_EXISTS ? REASON_BUSY : rc == ERR_FULL ? REASON_DISK_FULL : REASON_REFUSED;
}

/* After the deadline the aggregator would drop the file. */
static bool is_too_late(const struct request *rq, const struct clock_model *m)
{
	return m->calibrated && request_mono_of_model(m, rq->deadline_ns) <= now_mono_ns();
}

static void refuse(struct request *rq, const char *reason, const char *detail)
{
	requests_report_refused(rq->requests, rq->session, reason, detail);
	request_free(rq, false);
}

static void arm_capture(struct request *rq)
{
	const struct clock_model m = clock_model(rq->requests->env->clock);
	int64_t deadline;
	struct err e;
	int rc;

	if (wait_for_clock(rq, &m))
		return;
	if (is_too_late(rq, &m)) {
		refuse(rq, REASON_LATE, "the request came after the deadline for its file");
		return;
	}
	rc = start_capture(rq, &e);
	if (rc) {
		refuse(rq, refusal_reason(rc), e.msg);
		return;
	}
	log_info("AGT-CAPTURE", "session=%s state=armed calibrated=%d", rq->session, m.calibrated);
	request_report_armed(rq, &m, rq->arm->t0_ns);
	tutti__v1__arm__free_unpacked(rq->arm, NULL);
	rq->arm = NULL;
	deadline = request_mono_of_model(&m, rq->deadline_ns);
	rq->lease_end_mono_ns = deadline + LEASE_NS;
	loop_timer_at(rq->requests->env->loop, &rq->expiry, deadline, on_deadline, rq);
	if (rq->requests->record_until_mono_ns)
		request_cut(rq, &m);
}

static void on_clock_wait(void *arg)
{
	arm_capture(arg);
}

static struct request *request_new(struct requests *rs, const char *session)
{
	struct request *rq = xcalloc(1, sizeof(*rq));

	rq->requests = rs;
	rq->session = xstrdup(session);
	rq->instance = rs->link.instance;
	rq->next = rs->head;
	rs->head = rq;
	return rq;
}

/* Whether it is of the window that `m` has. */
static bool is_same(const struct request *rq, const Tutti__V1__Arm *m)
{
	if (rq->arm)
		return rq->arm->t0_ns == m->t0_ns;
	return rq->capture && rq->state < REQUEST_STORED && capture_t0_ns(rq->capture) == m->t0_ns;
}

/* A second Arm of the same session. If the first one's file is finished, that file is reported as ready. Where both
 * are of one window, the second one came over a link that has replaced that of the first one. */
static void rearm(struct request *rq, const Tutti__V1__Arm *m)
{
	const struct clock_model clock = clock_model(rq->requests->env->clock);

	if (rq->state != REQUEST_READY && !is_same(rq, m)) {
		requests_report_refused(rq->requests, m->session, REASON_BUSY,
					"this session is already under way on this host");
		return;
	}
	if (rq->arm)
		return; /* it is answered when the clock is known */
	if (rq->state == REQUEST_READY) {
		rq->deadline_ns = m->upload_deadline_ns;
		rq->reported_not_stored = false;
	}
	request_report_armed(rq, &clock, m->t0_ns);
	if (rq->state > REQUEST_ARMED)
		request_report_progress(rq);
}

void requests_arm(struct requests *rs, Tutti__V1__Arm *m)
{
	struct request *rq = request_find(rs, m->session);

	if (rq) {
		rearm(rq, m);
		tutti__v1__arm__free_unpacked(m, NULL);
		return;
	}
	rq = request_new(rs, m->session);
	rq->arm = m;
	rq->tracers_named = m->n_tracers > 0;
	rq->deadline_ns = m->upload_deadline_ns;
	rq->clock_wait_end_mono_ns = now_mono_ns() + CALIBRATION_WAIT_NS;
	arm_capture(rq);
}

/* ---- the other requests ---- */

void requests_stop(struct requests *rs, const Tutti__V1__Stop *m)
{
	struct request *rq = request_find(rs, m->session);

	if (!rq)
		return;
	if (rq->capture) {
		capture_stop(rq->capture, m->t1_ns, m->gather_by_ns);
	} else if (rq->arm && m->t1_ns < rq->arm->t0_ns + rq->arm->duration_ns) {
		rq->arm->duration_ns = m->t1_ns > rq->arm->t0_ns ? m->t1_ns - rq->arm->t0_ns : 0;
		rq->arm->gather_by_ns = m->gather_by_ns;
	}
}

void requests_cancel(struct requests *rs, const char *session)
{
	struct request *rq = request_find(rs, session);

	if (!rq)
		return;
	log_info("AGT-CAPTURE", "session=%s state=cancelled", session);
	request_free(rq, false);
}

void requests_upload(struct requests *rs, const Tutti__V1__Upload *m)
{
	struct request *rq = request_find(rs, m->session);

	if (!rq)
		return;
	if (m->deadline_ns)
		rq->deadline_ns = m->deadline_ns;
	rq->credit = true;
	rq->at_once = m->at_once;
	rq->reported_not_stored = false;
	if (rq->state == REQUEST_STORED)
		request_report_result(rq, NULL, NULL);
	request_upload(rq, m->grant);
}

void requests_release(struct requests *rs, const char *session)
{
	struct request *rq = request_find(rs, session);

	if (rq)
		request_free(rq, false);
}

/* ---- the link ---- */

static void report_state(struct request *rq)
{
	if (rq->state >= REQUEST_STORED)
		request_report_result(rq, NULL, NULL);
	else if (rq->state > REQUEST_ARMED)
		request_report_progress(rq);
}

void requests_link_up(struct requests *rs)
{
	struct request *next;

	rs->link_up = true;
	for (struct request *rq = rs->head; rq; rq = next) {
		next = rq->next;
		report_state(rq);
		if (rq->state == REQUEST_FAILED)
			request_free(rq, false);
	}
}

/* An Arm that waits for the clock was not answered, and the aggregator has given it up. */
void requests_link_down(struct requests *rs)
{
	struct request *next;

	rs->link_up = false;
	for (struct request *rq = rs->head; rq; rq = next) {
		next = rq->next;
		if (rq->arm)
			request_free(rq, false);
		else if (!rq->upload)
			rq->credit = false;
	}
}

/* ---- life ---- */

/* Takes ownership of dir. */
static struct request *adopt_file(struct requests *rs, char *dir,
				  const Tutti__V1__SpoolEntry *entry)
{
	struct request *rq = request_new(rs, entry->session);

	rq->state = REQUEST_READY;
	rq->instance = entry->instance;
	rq->dir = dir;
	rq->path = xasprintf("%s/%s", dir, entry->file);
	rq->bytes = entry->bytes;
	rq->crc32 = entry->crc32;
	rq->files = request_read_files(entry);
	rq->n_files = entry->n_files;
	rq->files_summed = entry->n_crc32c == entry->n_files;
	rq->deadline_ns = entry->deadline_ns;
	rq->lease_end_mono_ns = now_mono_ns() + entry->lease_end_real_ns - now_real_ns();
	/* A lease that ends later than that means that the wall clock was set back. */
	if (rq->lease_end_mono_ns > now_mono_ns() + 2 * LEASE_NS)
		rq->lease_end_mono_ns = now_mono_ns() + 2 * LEASE_NS;
	request_set_result(rq, entry->result.data, entry->result.len);
	wait_for_lease_end(rq);
	log_info("AGT-CAPTURE", "session=%s state=found bytes=%" PRIu64, rq->session, rq->bytes);
	return rq;
}

void requests_adopt_files(struct requests *rs)
{
	Tutti__V1__SpoolEntry *entry;
	char *dir;

	while (spool_take_finished(rs->env->spool, &dir, &entry)) {
		struct request *rq = adopt_file(rs, dir, entry);

		tutti__v1__spool_entry__free_unpacked(entry, NULL);
		if (rs->link_up)
			report_state(rq);
	}
}

struct requests *requests_new(const struct link_env *env, const struct requests_link *link)
{
	struct requests *rs = xcalloc(1, sizeof(*rs));

	*rs = (struct requests){ .env = env, .link = *link };
	rs->puts = puts_new(env->loop, env->store_ca);
	requests_adopt_files(rs);
	return rs;
}

void requests_free(struct requests *rs)
{
	if (!rs)
		return;
	while (rs->head)
		request_free(rs->head,
			     rs->head->state == REQUEST_READY || rs->head->state == REQUEST_STORED);
	puts_free(rs->puts);
	free(rs);
}
