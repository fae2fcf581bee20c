/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/clean_text.h"
#include "agent/link/messages.h"
#include "agent/link/requests_impl.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"

const char *order_word(enum order_state state)
{
	static const char *const words[] = {
		[ORDER_ARMED] = "armed",	 [ORDER_RUNNING] = "running",
		[ORDER_GATHERING] = "gathering", [ORDER_READY] = "uploading",
		[ORDER_STORED] = "stored",	 [ORDER_FAILED] = "failed",
	};

	return words[state];
}

void order_say_armed(struct order *od, int64_t t0_ns)
{
	struct clock_model m = clock_model(od->orders->agent->clock);
	Tutti__V1__AgentMessage msg = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Armed armed = TUTTI__V1__ARMED__INIT;

	armed.session = od->session;
	armed.bound_ns = m.calibrated
				 ? clock_model_bound_at(&m, clock_model_raw_of_session(&m, t0_ns))
				 : 0;
	armed.lead_ns = t0_ns - clock_model_session_of_raw(&m, now_raw_ns());
	msg.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_ARMED;
	msg.armed = &armed;
	od->orders->send(od->orders->arg, &msg);
}

void order_say_refused(struct orders *o, const char *session, const char *reason,
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

void order_say_progress(struct order *od)
{
	Tutti__V1__AgentMessage msg = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Progress progress = TUTTI__V1__PROGRESS__INIT;

	progress.session = od->session;
	progress.state = (char *)order_word(od->state);
	if (od->state == ORDER_READY) {
		progress.bytes_total = od->bytes;
		progress.bytes_done = od->bytes_done;
	}
	msg.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_PROGRESS;
	msg.progress = &progress;
	od->orders->send(od->orders->arg, &msg);
}

/* ---- results ---- */

static void keep_result(void *arg, const Tutti__V1__AgentMessage *m)
{
	struct order *od = arg;

	free(od->result);
	od->result_len = tutti__v1__agent_message__get_packed_size(m);
	od->result = xmalloc(od->result_len + 1);
	tutti__v1__agent_message__pack(m, od->result);
}

void order_make_result(struct order *od, const char *reason, const char *detail)
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
	message_result(&r, keep_result, od);
}

static void send_without_file(struct order *od, Tutti__V1__AgentMessage *m, const char *reason,
			      const char *detail)
{
	Tutti__V1__HostResult result = *m->result;
	Tutti__V1__AgentMessage msg = *m;
	char text[sizeof(((struct err *)0)->msg)];

	clean_text(text, sizeof(text), detail, strlen(detail));
	result.has_file = false;
	result.events = result.bytes = 0;
	result.reason = (char *)reason;
	result.detail = text;
	msg.result = &result;
	od->orders->send(od->orders->arg, &msg);
}

void order_say_result(struct order *od, const char *reason, const char *detail)
{
	Tutti__V1__AgentMessage *m = tutti__v1__agent_message__unpack(NULL, od->result_len,
								      od->result);

	if (!m)
		return; /* of an earlier agent, and never more than a checksum away from right */
	if (reason)
		send_without_file(od, m, reason, detail);
	else
		od->orders->send(od->orders->arg, m);
	tutti__v1__agent_message__free_unpacked(m, NULL);
}

/* ---- lists ---- */

static int64_t lease_of(const struct order *od)
{
	int64_t left_ns = od->lease_end_mono_ns - now_mono_ns();

	return left_ns > 0 ? left_ns : 0;
}

Tutti__V1__Held **orders_held(const struct orders *o, size_t *n)
{
	Tutti__V1__Held **list = NULL;

	*n = 0;
	for (const struct order *od = o->head; od; od = od->next) {
		Tutti__V1__Held *held = xmalloc(sizeof(*held));

		tutti__v1__held__init(held);
		held->session = od->session;
		held->state = (char *)order_word(od->state);
		held->instance = od->instance;
		held->bytes = od->bytes;
		held->lease_ns = lease_of(od);
		list = xrealloc(list, (*n + 1) * sizeof(*list));
		list[(*n)++] = held;
	}
	return list;
}

void orders_held_free(Tutti__V1__Held **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

json_t *orders_json(const struct orders *o)
{
	json_t *list = json_array();

	for (const struct order *od = o->head; od; od = od->next)
		json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I}", "session",
						      od->session, "state", order_word(od->state),
						      "bytes", (json_int_t)od->bytes, "bytes_done",
						      (json_int_t)od->bytes_done));
	return list;
}
