/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/orders.h"

#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/capture.h"
#include "agent/clean_text.h"
#include "agent/messages.h"
#include "agent/upload.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"

#define CALIBRATION_WAIT_NS (400 * NS_PER_MS) /* an Arm that came right behind Welcome */
#define CALIBRATION_POLL_NS (20 * NS_PER_MS)
#define PROGRESS_GAP_NS	    (250 * NS_PER_MS)
#define FORGOTTEN_NS	    (60 * NS_PER_S)

struct order {
	struct orders *orders;
	struct order *next;
	char *session;
	Tutti__V1__Arm *arm; /* until the capture is armed */
	bool asked_by_name; /* tracers were named */
	int64_t deadline_ns; /* session clock */
	struct loop_timer wait; /* for the clock, until wait_until_ns */
	int64_t wait_until_ns;
	struct loop_timer expiry;
	struct capture *capture;
	bool credit; /* Upload has come */
	struct upload *upload;
	bool over; /* HostResult is sent */
	const char *state;
	uint64_t bytes_done;
	int64_t progress_at_ns; /* of the last message about bytes */
};

struct orders {
	struct agent *agent;
	uint64_t instance;
	orders_send_fn send;
	void *arg;
	struct order *head;
};

static void on_wait(void *arg);

static struct order *find(const struct orders *o, const char *session)
{
	struct order *od = o->head;

	while (od && strcmp(od->session, session))
		od = od->next;
	return od;
}

static void order_free(struct order *od)
{
	struct orders *o = od->orders;
	struct order **at = &o->head;

	while (*at != od)
		at = &(*at)->next;
	*at = od->next;
	loop_timer_cancel(o->agent->loop, &od->wait);
	loop_timer_cancel(o->agent->loop, &od->expiry);
	upload_cancel(od->upload);
	if (od->capture)
		capture_release(od->capture);
	if (od->arm)
		tutti__v1__arm__free_unpacked(od->arm, NULL);
	free(od->session);
	free(od);
}

/* ---- what is said ---- */

static void send_armed(struct order *od, const struct clock_model *m, int64_t t0_ns)
{
	Tutti__V1__AgentMessage msg = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Armed armed = TUTTI__V1__ARMED__INIT;

	armed.session = od->session;
	armed.bound_ns = m->calibrated
				 ? clock_model_bound_at(m, clock_model_raw_of_session(m, t0_ns))
				 : 0;
	armed.lead_ns = t0_ns - clock_model_session_of_raw(m, now_raw_ns());
	msg.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_ARMED;
	msg.armed = &armed;
	od->orders->send(od->orders->arg, &msg);
}

static void send_refused(struct orders *o, const char *session, const char *reason,
			 const char *detail)
{
	Tutti__V1__AgentMessage msg = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Refused refused = TUTTI__V1__REFUSED__INIT;
	char text[sizeof(((struct err *)0)->msg)];

	clean_text(text, sizeof(text), detail, strlen(detail));
	log_warn("AGT-CAPTURE", "session=%s state=refused reason=%s detail=\"%s\"", session, reason,
		 text);
	refused.session = (char *)session;
	refused.reason = (char *)reason;
	refused.detail = text;
	msg.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_REFUSED;
	msg.refused = &refused;
	o->send(o->arg, &msg);
}

static void send_progress(struct order *od, const char *state)
{
	Tutti__V1__AgentMessage msg = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Progress progress = TUTTI__V1__PROGRESS__INIT;

	od->state = state;
	progress.session = od->session;
	progress.state = (char *)state;
	if (!strcmp(state, "uploading")) {
		progress.bytes_total = capture_bytes(od->capture);
		progress.bytes_done = od->bytes_done;
	}
	msg.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_PROGRESS;
	msg.progress = &progress;
	od->orders->send(od->orders->arg, &msg);
}

static void send_result(struct order *od, const char *reason, const char *detail)
{
	char text[sizeof(((struct err *)0)->msg)] = "";
	struct message_result r = {
		.capture = od->capture,
		.has_file = !reason,
		.asked_by_name = od->asked_by_name,
		.reason = reason,
		.detail = text,
	};

	if (detail)
		clean_text(text, sizeof(text), detail, strlen(detail));
	od->over = true;
	od->state = reason ? "failed" : "stored";
	message_result(&r, od->orders->send, od->orders->arg);
}

/* There is no file and will be none. */
static void end_without_file(struct order *od, const char *reason, const char *detail)
{
	log_warn("AGT-CAPTURE", "session=%s state=failed reason=%s detail=\"%s\"", od->session,
		 reason, detail);
	send_result(od, reason, detail);
	order_free(od);
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
	send_progress(od, "uploading");
}

static void on_upload_done(void *arg, int rc, const struct err *e)
{
	struct order *od = arg;

	od->upload = NULL;
	if (rc) {
		end_without_file(od, rc == ERR_TIMEOUT ? "timeout" : "upload", e->msg);
		return;
	}
	log_info("AGT-CAPTURE", "session=%s state=stored", od->session);
	send_result(od, NULL, NULL);
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
		.instance = od->orders->instance,
		.progress = on_upload_progress,
		.done = on_upload_done,
		.arg = od,
	};

	if (!od->credit || od->upload || od->over || !od->capture || strcmp(od->state, "uploading"))
		return;
	req.path = capture_path(od->capture);
	req.bytes = capture_bytes(od->capture);
	req.deadline_mono_ns = mono_of_session(od, od->deadline_ns);
	od->upload = upload_start(od->orders->agent, &req);
}

/* ---- capture ---- */

static void on_changed(struct capture *c, enum capture_state state, void *arg)
{
	struct order *od = arg;

	switch (state) {
	case CAPTURE_RUNNING:
		send_progress(od, "running");
		break;
	case CAPTURE_GATHERING:
		send_progress(od, "gathering");
		break;
	case CAPTURE_READY:
		send_progress(od, "uploading");
		maybe_upload(od);
		break;
	case CAPTURE_FAILED:
		end_without_file(od, capture_reason(c), capture_error(c)->msg);
		break;
	default:
		break;
	}
}

/* The deadline has passed and the aggregator gave no leave to send, or it never released. */
static void on_expiry(void *arg)
{
	struct order *od = arg;

	if (!od->over && !od->upload && od->capture) {
		end_without_file(od, "timeout", "not stored by the deadline");
		return;
	}
	order_free(od);
}

static void on_deadline(void *arg)
{
	struct order *od = arg;

	if (!od->over && !od->upload)
		on_expiry(od);
	else
		loop_timer_in(od->orders->agent->loop, &od->expiry, FORGOTTEN_NS, on_expiry, od);
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

static void begin(struct order *od)
{
	struct clock_model m;
	struct err e;
	int rc;

	if (waits_for_clock(od))
		return;
	rc = start_capture(od, &e);
	if (rc) {
		send_refused(od->orders, od->session, rc == ERR_EXISTS ? "busy" : "refused", e.msg);
		order_free(od);
		return;
	}
	m = clock_model(od->orders->agent->clock);
	log_info("AGT-CAPTURE", "session=%s state=armed calibrated=%d", od->session, m.calibrated);
	send_armed(od, &m, od->arm->t0_ns);
	tutti__v1__arm__free_unpacked(od->arm, NULL);
	od->arm = NULL;
	loop_timer_at(od->orders->agent->loop, &od->expiry, mono_of_session(od, od->deadline_ns),
		      on_deadline, od);
}

static void on_wait(void *arg)
{
	begin(arg);
}

void orders_take_arm(struct orders *o, Tutti__V1__Arm *m)
{
	struct order *od;

	if (find(o, m->session)) {
		send_refused(o, m->session, "busy", "this session is already under way here");
		tutti__v1__arm__free_unpacked(m, NULL);
		return;
	}
	od = xcalloc(1, sizeof(*od));
	od->orders = o;
	od->session = xstrdup(m->session);
	od->arm = m;
	od->asked_by_name = m->n_tracers > 0;
	od->deadline_ns = m->upload_deadline_ns;
	od->state = "armed";
	od->wait_until_ns = now_mono_ns() + CALIBRATION_WAIT_NS;
	od->next = o->head;
	o->head = od;
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
	else if (m->t1_ns < od->arm->t0_ns + od->arm->duration_ns)
		od->arm->duration_ns = m->t1_ns > od->arm->t0_ns ? m->t1_ns - od->arm->t0_ns : 0;
}

void orders_cancel(struct orders *o, const char *session)
{
	struct order *od = find(o, session);

	if (!od)
		return;
	log_info("AGT-CAPTURE", "session=%s state=cancelled", session);
	order_free(od);
}

void orders_upload(struct orders *o, const char *session)
{
	struct order *od = find(o, session);

	if (!od)
		return;
	od->credit = true;
	maybe_upload(od);
}

void orders_release(struct orders *o, const char *session)
{
	struct order *od = find(o, session);

	if (od)
		order_free(od);
}

void orders_drop_all(struct orders *o)
{
	while (o->head) {
		if (!o->head->over)
			log_warn("AGT-CAPTURE",
				 "session=%s state=dropped reason=\"the link is gone\"",
				 o->head->session);
		order_free(o->head);
	}
}

json_t *orders_json(const struct orders *o)
{
	json_t *list = json_array();

	for (const struct order *od = o->head; od; od = od->next)
		json_array_append_new(
			list, json_pack("{s:s, s:s, s:I, s:I}", "session", od->session, "state",
					od->state, "bytes",
					(json_int_t)(od->capture ? capture_bytes(od->capture) : 0),
					"bytes_done", (json_int_t)od->bytes_done));
	return list;
}

/* ---- life ---- */

struct orders *orders_new(struct agent *agent, uint64_t instance, orders_send_fn send, void *arg)
{
	struct orders *o = xcalloc(1, sizeof(*o));

	*o = (struct orders){ .agent = agent, .instance = instance, .send = send, .arg = arg };
	return o;
}

void orders_free(struct orders *o)
{
	if (!o)
		return;
	orders_drop_all(o);
	free(o);
}
