/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/requests.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/link/requests_impl.h"
#include "agent/capture/spool.h"
#include "agent/capture/spool_entry.h"
#include "agent/link/upload.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"

#define CALIBRATION_WAIT_NS (400 * NS_PER_MS) /* an Arm that came right behind Welcome */
#define CALIBRATION_POLL_NS (20 * NS_PER_MS)
#define PROGRESS_GAP_NS	    (250 * NS_PER_MS)
#define LEASE_NS	    (600 * NS_PER_S) /* beyond the deadline, for a finished file */
#define LATE_UPLOAD_NS	    (60 * NS_PER_S) /* for a file that is asked for after the deadline */

struct note {
	struct order *order; /* NULL: it ended meanwhile */
	bool remove; /* and its folder is to go */
	char *dir;
	Tutti__V1__SpoolEntry entry; /* its strings are the note's */
	int rc;
	struct err error;
};

static void on_wait(void *arg);

static struct order *find(const struct orders *o, const char *session)
{
	struct order *od = o->head;

	while (od && strcmp(od->session, session))
		od = od->next;
	return od;
}

static uint64_t *copy_files(const uint64_t *files, size_t n)
{
	uint64_t *copy = xcalloc(n + 1, sizeof(*copy));

	memcpy(copy, files, n * sizeof(*copy));
	return copy;
}

/* ---- the end of an order ---- */

static void unlink_order(struct order *od)
{
	struct order **at = &od->orders->head;

	while (*at != od)
		at = &(*at)->next;
	*at = od->next;
}

/* A worker that is about to write into the folder removes it afterwards. */
static void let_go_of_files(struct order *od, bool keep)
{
	struct spool *spool = od->orders->agent->spool;
	bool noting = od->note && !keep;

	if (noting)
		od->note->remove = true;
	if (od->capture && (keep || noting))
		capture_leave(od->capture);
	else if (od->capture)
		capture_release(od->capture);
	if (od->capture || !od->dir)
		return;
	spool_uncharge(spool, od->bytes);
	if (!keep)
		spool_remove(od->dir);
}

static void order_free(struct order *od, bool keep)
{
	struct loop *l = od->orders->agent->loop;

	unlink_order(od);
	loop_timer_cancel(l, &od->wait);
	loop_timer_cancel(l, &od->expiry);
	upload_cancel(od->upload);
	let_go_of_files(od, keep);
	if (od->note)
		od->note->order = NULL;
	if (od->arm)
		tutti__v1__arm__free_unpacked(od->arm, NULL);
	free(od->result);
	free(od->files);
	free(od->dir);
	free(od->path);
	free(od->session);
	free(od);
}

static void on_lease_end(void *arg)
{
	struct order *od = arg;

	if (od->upload) {
		loop_timer_in(od->orders->agent->loop, &od->expiry, LEASE_NS, on_lease_end, od);
		return;
	}
	log_warn("AGT-CAPTURE", "session=%s state=forgotten reason=\"nobody released it\"",
		 od->session);
	order_free(od, false);
}

static void wait_for_lease_end(struct order *od)
{
	loop_timer_at(od->orders->agent->loop, &od->expiry, od->lease_end_mono_ns, on_lease_end,
		      od);
}

/* There is no file and will be none. Whom nobody can hear now is heard when the link is back. */
static void end_without_file(struct order *od, const char *reason, const char *detail)
{
	log_warn("AGT-CAPTURE", "session=%s state=failed reason=%s detail=\"%s\"", od->session,
		 reason, detail);
	order_make_result(od, reason, detail);
	if (od->orders->up) {
		order_say_result(od, NULL, NULL);
		order_free(od, false);
		return;
	}
	od->state = ORDER_FAILED;
	capture_release(od->capture);
	od->capture = NULL;
	od->lease_end_mono_ns = now_mono_ns() + LEASE_NS;
	wait_for_lease_end(od);
}

/* There is a file; it stays for who asks for it once more. */
static void say_not_stored(struct order *od, const char *reason, const char *detail)
{
	log_warn("AGT-CAPTURE", "session=%s state=held reason=%s detail=\"%s\"", od->session,
		 reason, detail);
	od->told = true;
	order_say_result(od, reason, detail);
}

/* ---- upload ---- */

static void on_upload_progress(void *arg, uint64_t bytes_done)
{
	struct order *od = arg;
	int64_t now = now_mono_ns();

	od->bytes_done = bytes_done;
	if (now - od->progress_at_ns < PROGRESS_GAP_NS)
		return;
	od->progress_at_ns = now;
	order_say_progress(od);
}

static void on_upload_done(void *arg, int rc, const struct err *e)
{
	struct order *od = arg;

	od->upload = NULL;
	od->credit = false;
	if (rc) {
		say_not_stored(od, rc == ERR_TIMEOUT ? "stalled" : "upload", e->msg);
		return;
	}
	log_info("AGT-CAPTURE", "session=%s state=stored", od->session);
	od->state = ORDER_STORED;
	order_say_result(od, NULL, NULL);
}

static int64_t mono_of_session(const struct order *od, int64_t session_ns)
{
	struct clock_model m = clock_model(od->orders->agent->clock);
	int64_t far = clock_model_raw_of_session(&m, session_ns) / 2 - now_raw_ns() / 2;

	/* Halved so that nothing overflows, bounded by what a deadline can mean. */
	if (far > 3600 * NS_PER_S)
		far = 3600 * NS_PER_S;
	if (far < -3600 * NS_PER_S)
		far = -3600 * NS_PER_S;
	return now_mono_ns() + 2 * far;
}

/* Both are needed: the file and the aggregator's leave to send it. */
static void maybe_upload(struct order *od)
{
	struct upload_request req = {
		.session = od->session,
		.path = od->path,
		.bytes = od->bytes,
		.crc32 = od->crc32,
		.files = od->files,
		.n_files = od->n_files,
		.instance = od->orders->instance,
		.deadline_mono_ns = mono_of_session(od, od->deadline_ns),
		.progress = on_upload_progress,
		.done = on_upload_done,
		.arg = od,
	};

	if (!od->credit || od->upload || od->state != ORDER_READY)
		return;
	if (req.deadline_mono_ns <= now_mono_ns())
		req.deadline_mono_ns = now_mono_ns() + LATE_UPLOAD_NS;
	if (od->lease_end_mono_ns < req.deadline_mono_ns)
		od->lease_end_mono_ns = req.deadline_mono_ns;
	od->upload = upload_start(od->orders->agent, &req);
}

/* ---- the spool's entry ---- */

static void run_note(void *arg)
{
	struct note *note = arg;

	note->rc = spool_entry_write(note->dir, &note->entry, &note->error);
}

static void on_noted(void *arg)
{
	struct note *note = arg;

	if (note->rc && note->order)
		log_warn("AGT-SPOOL", "reason=\"%s\"", note->error.msg);
	if (note->order)
		note->order->note = NULL;
	if (note->remove)
		spool_remove(note->dir);
	free(note->entry.session);
	free(note->entry.file);
	free(note->entry.result.data);
	free(note->entry.files);
	free(note->dir);
	free(note);
}

/* Nobody waits for it: a file of which the spool does not know is lost with the agent, no more. */
static void note_file(struct order *od)
{
	struct note *note = xcalloc(1, sizeof(*note));
	Tutti__V1__SpoolEntry *entry = &note->entry;

	note->order = od;
	note->dir = xstrdup(od->dir);
	tutti__v1__spool_entry__init(entry);
	entry->session = xstrdup(od->session);
	entry->instance = od->instance;
	entry->bytes = od->bytes;
	entry->crc32 = od->crc32;
	entry->deadline_ns = od->deadline_ns;
	entry->lease_end_real_ns = now_real_ns() + od->lease_end_mono_ns - now_mono_ns();
	entry->file = xstrdup(strrchr(od->path, '/') + 1);
	entry->files = copy_files(od->files, od->n_files);
	entry->n_files = od->n_files;
	entry->result.len = od->result_len;
	entry->result.data = xmalloc(od->result_len + 1);
	memcpy(entry->result.data, od->result, od->result_len);
	od->note = note;
	loop_work(od->orders->agent->loop, run_note, on_noted, note);
}

/* ---- capture ---- */

static void on_file(struct order *od)
{
	int64_t deadline = mono_of_session(od, od->deadline_ns);
	int64_t now = now_mono_ns();
	const uint64_t *files;
	unsigned int n_files;

	od->state = ORDER_READY;
	od->dir = xstrdup(capture_dir(od->capture));
	od->path = xstrdup(capture_path(od->capture));
	od->bytes = capture_bytes(od->capture);
	od->crc32 = capture_crc32(od->capture);
	files = capture_files(od->capture, &n_files);
	od->files = copy_files(files, n_files);
	od->n_files = n_files;
	od->lease_end_mono_ns = (deadline > now ? deadline : now) + LEASE_NS;
	order_make_result(od, NULL, NULL);
	note_file(od);
	order_say_progress(od);
	maybe_upload(od);
}

static void on_changed(struct capture *c, enum capture_state state, void *arg)
{
	struct order *od = arg;

	switch (state) {
	case CAPTURE_RUNNING:
		od->state = ORDER_RUNNING;
		order_say_progress(od);
		break;
	case CAPTURE_GATHERING:
		od->state = ORDER_GATHERING;
		order_say_progress(od);
		break;
	case CAPTURE_READY:
		on_file(od);
		break;
	case CAPTURE_FAILED:
		end_without_file(od, capture_reason(c), capture_error(c)->msg);
		break;
	default:
		break;
	}
}

static void on_deadline(void *arg)
{
	struct order *od = arg;

	if (od->state < ORDER_READY) {
		end_without_file(od, "timeout", "there was no file by the deadline");
		return;
	}
	if (od->state == ORDER_READY && !od->upload && !od->told)
		say_not_stored(od, "stalled", "no leave to send it came by the deadline");
	wait_for_lease_end(od);
}

/* Half of what is left after the window is for the tracers, half for merging and sending. */
static int64_t give_up_of(const Tutti__V1__Arm *arm)
{
	int64_t t1_ns = arm->t0_ns + arm->duration_ns;

	return arm->upload_deadline_ns > t1_ns ? t1_ns + (arm->upload_deadline_ns - t1_ns) / 2
					       : t1_ns;
}

static int start_capture(struct order *od, struct err *e)
{
	const Tutti__V1__Arm *arm = od->arm;
	const char **names = xcalloc(arm->n_tracers + 1, sizeof(*names));
	struct capture_request req = {
		.session = od->session,
		.t0_ns = arm->t0_ns,
		.duration_ns = arm->duration_ns,
		.give_up_ns = give_up_of(arm),
		.probe_gap_ns = arm->probe_gap_ms * NS_PER_MS,
		.profile_options = arm->profile_options.data,
		.profile_options_len = arm->profile_options.len,
		.tracers = arm->n_tracers ? names : NULL,
		.changed = on_changed,
		.arg = od,
	};
	int rc;

	for (size_t i = 0; i < arm->n_tracers; i++)
		names[i] = arm->tracers[i];
	rc = capture_start(od->orders->agent->captures, &req, &od->capture, e);
	free(names);
	return rc;
}

/* An uncalibrated clock gets a moment, then the capture goes on: the file says what it is worth. */
static bool waits_for_clock(struct order *od)
{
	if (clock_model(od->orders->agent->clock).calibrated || now_mono_ns() >= od->wait_until_ns)
		return false;
	loop_timer_in(od->orders->agent->loop, &od->wait, CALIBRATION_POLL_NS, on_wait, od);
	return true;
}

static const char *refusal_of(int rc)
{
	return rc == ERR_EXISTS ? "busy" : rc == ERR_FULL ? "disk-full" : "refused";
}

/* Whatever could be recorded would be thrown away. */
static bool is_too_late(const struct order *od)
{
	return clock_model(od->orders->agent->clock).calibrated &&
	       mono_of_session(od, od->deadline_ns) <= now_mono_ns();
}

static void refuse(struct order *od, const char *reason, const char *detail)
{
	order_say_refused(od->orders, od->session, reason, detail);
	order_free(od, false);
}

static void begin(struct order *od)
{
	int64_t deadline;
	struct err e;
	int rc;

	if (waits_for_clock(od))
		return;
	if (is_too_late(od)) {
		refuse(od, "late", "the order came after the deadline for its file");
		return;
	}
	rc = start_capture(od, &e);
	if (rc) {
		refuse(od, refusal_of(rc), e.msg);
		return;
	}
	log_info("AGT-CAPTURE", "session=%s state=armed calibrated=%d", od->session,
		 clock_model(od->orders->agent->clock).calibrated);
	order_say_armed(od, od->arm->t0_ns);
	tutti__v1__arm__free_unpacked(od->arm, NULL);
	od->arm = NULL;
	deadline = mono_of_session(od, od->deadline_ns);
	od->lease_end_mono_ns = deadline + LEASE_NS;
	loop_timer_at(od->orders->agent->loop, &od->expiry, deadline, on_deadline, od);
}

static void on_wait(void *arg)
{
	begin(arg);
}

static struct order *order_new(struct orders *o, const char *session)
{
	struct order *od = xcalloc(1, sizeof(*od));

	od->orders = o;
	od->session = xstrdup(session);
	od->instance = o->instance;
	od->next = o->head;
	o->head = od;
	return od;
}

/* A capture that we have the file of is not made anew: its file is offered. */
static void arm_again(struct order *od, const Tutti__V1__Arm *m)
{
	if (od->state != ORDER_READY) {
		order_say_refused(od->orders, m->session, "busy",
				  "this session is already under way here");
		return;
	}
	od->deadline_ns = m->upload_deadline_ns;
	od->told = false;
	order_say_armed(od, m->t0_ns);
	order_say_progress(od);
}

void orders_take_arm(struct orders *o, Tutti__V1__Arm *m)
{
	struct order *od = find(o, m->session);

	if (od) {
		arm_again(od, m);
		tutti__v1__arm__free_unpacked(m, NULL);
		return;
	}
	od = order_new(o, m->session);
	od->arm = m;
	od->asked_by_name = m->n_tracers > 0;
	od->deadline_ns = m->upload_deadline_ns;
	od->wait_until_ns = now_mono_ns() + CALIBRATION_WAIT_NS;
	begin(od);
}

/* ---- the other orders ---- */

void orders_stop(struct orders *o, const Tutti__V1__Stop *m)
{
	struct order *od = find(o, m->session);

	if (!od)
		return;
	if (od->capture)
		capture_stop(od->capture, m->t1_ns);
	else if (od->arm && m->t1_ns < od->arm->t0_ns + od->arm->duration_ns)
		od->arm->duration_ns = m->t1_ns > od->arm->t0_ns ? m->t1_ns - od->arm->t0_ns : 0;
}

void orders_cancel(struct orders *o, const char *session)
{
	struct order *od = find(o, session);

	if (!od)
		return;
	log_info("AGT-CAPTURE", "session=%s state=cancelled", session);
	order_free(od, false);
}

void orders_upload(struct orders *o, const Tutti__V1__Upload *m)
{
	struct order *od = find(o, m->session);

	if (!od)
		return;
	if (m->deadline_ns)
		od->deadline_ns = m->deadline_ns;
	od->credit = true;
	od->told = false;
	if (od->state == ORDER_STORED)
		order_say_result(od, NULL, NULL);
	maybe_upload(od);
}

void orders_release(struct orders *o, const char *session)
{
	struct order *od = find(o, session);

	if (od)
		order_free(od, false);
}

/* ---- the link ---- */

static void say_how_far(struct order *od)
{
	if (od->state >= ORDER_STORED)
		order_say_result(od, NULL, NULL);
	else if (od->state > ORDER_ARMED)
		order_say_progress(od);
}

void orders_link_up(struct orders *o)
{
	struct order *next;

	o->up = true;
	for (struct order *od = o->head; od; od = next) {
		next = od->next;
		say_how_far(od);
		if (od->state == ORDER_FAILED)
			order_free(od, false);
	}
}

/* An Arm that waits for the clock was never answered: the aggregator has given up on it. */
void orders_link_down(struct orders *o)
{
	struct order *next;

	o->up = false;
	for (struct order *od = o->head; od; od = next) {
		next = od->next;
		if (od->arm)
			order_free(od, false);
		else if (!od->upload)
			od->credit = false;
	}
}

/* ---- life ---- */

/* The path and the entry are the order's now. */
static void take_left(struct orders *o, char *dir, const Tutti__V1__SpoolEntry *entry)
{
	struct order *od = order_new(o, entry->session);

	od->state = ORDER_READY;
	od->instance = entry->instance;
	od->dir = dir;
	od->path = xasprintf("%s/%s", dir, entry->file);
	od->bytes = entry->bytes;
	od->crc32 = entry->crc32;
	od->files = copy_files(entry->files, entry->n_files);
	od->n_files = entry->n_files;
	od->deadline_ns = entry->deadline_ns;
	od->lease_end_mono_ns = now_mono_ns() + entry->lease_end_real_ns - now_real_ns();
	if (od->lease_end_mono_ns > now_mono_ns() + 2 * LEASE_NS)
		od->lease_end_mono_ns = now_mono_ns() + 2 * LEASE_NS; /* the wall clock was set */
	od->result_len = entry->result.len;
	od->result = xmalloc(od->result_len + 1);
	memcpy(od->result, od->result_len ? entry->result.data : (const uint8_t *)"",
	       od->result_len);
	wait_for_lease_end(od);
	log_info("AGT-CAPTURE", "session=%s state=found bytes=%" PRIu64, od->session, od->bytes);
}

struct orders *orders_new(struct agent *agent, uint64_t instance, orders_send_fn send, void *arg)
{
	struct orders *o = xcalloc(1, sizeof(*o));
	Tutti__V1__SpoolEntry *entry;
	char *dir;

	*o = (struct orders){ .agent = agent, .instance = instance, .send = send, .arg = arg };
	while (spool_take_left(agent->spool, &dir, &entry)) {
		take_left(o, dir, entry);
		tutti__v1__spool_entry__free_unpacked(entry, NULL);
	}
	return o;
}

void orders_free(struct orders *o)
{
	if (!o)
		return;
	while (o->head)
		order_free(o->head,
			   o->head->state == ORDER_READY || o->head->state == ORDER_STORED);
	free(o);
}
