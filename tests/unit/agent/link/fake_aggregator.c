/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/agent/link/fake_aggregator.h"

#include <zlib.h>

#include "base/mem.h"
#include "base/now.h"
#include "net/udp.h"
#include "proto/control_check.h"
#include "proto/limits.h"
#include "proto/probe.h"
#include "proto/tutti/v1/ingest.pb-c.h"
#include "tests/lib/check.h"

#define COOKIE 4242
#define EPOCH  99

static const struct siphash_key key = { { 4, 2 } };

int64_t fake_session_now(const struct fake_aggregator *a)
{
	return now_raw_ns() + a->shift_ns;
}

/* ---- time ---- */

static void on_probe(void *arg, const void *data, size_t len, int64_t raw_ns,
		     const struct udp_from *from)
{
	struct fake_aggregator *a = arg;
	uint8_t packet[PROBE_BYTES];
	struct probe p;

	CHECK(probe_decode(&p, data, len) && p.cookie == COOKIE);
	CHECK(probe_is_signed(data, &key));
	if (a->no_time)
		return;
	p.type = PROBE_REPLY;
	p.epoch = EPOCH;
	p.t2_ns = raw_ns + a->shift_ns;
	p.t3_ns = fake_session_now(a);
	probe_encode(&p, &key, packet);
	udp_send_to(a->probes, from, packet, sizeof(packet));
}

/* ---- control ---- */

void fake_send(struct fake_aggregator *a, const Tutti__V1__AggregatorMessage *m)
{
	size_t len = tutti__v1__aggregator_message__get_packed_size(m);
	uint8_t *bytes = xmalloc(len + 1);

	CHECK(a->control);
	tutti__v1__aggregator_message__pack(m, bytes);
	rpc_send(a->control, bytes, len);
	free(bytes);
}

static void send_welcome(struct fake_aggregator *a)
{
	Tutti__V1__AggregatorMessage m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;
	Tutti__V1__Welcome welcome = TUTTI__V1__WELCOME__INIT;

	welcome.clock_epoch = EPOCH;
	welcome.probe_port = (uint32_t)a->probe_port;
	welcome.probe_cookie = COOKIE;
	welcome.term = a->term;
	welcome.probe_key.data = (uint8_t *)key.bytes;
	welcome.probe_key.len = sizeof(key.bytes);
	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_WELCOME;
	m.welcome = &welcome;
	fake_send(a, &m);
}

static void take_held(struct fake_aggregator *a, const Tutti__V1__Hello *m)
{
	const Tutti__V1__Held *held = m->n_held ? m->held[0] : NULL;

	a->n_held = m->n_held;
	if (!held)
		return;
	snprintf(a->held_session, sizeof(a->held_session), "%s", held->session);
	snprintf(a->held_state, sizeof(a->held_state), "%s", held->state);
	a->held_instance = held->instance;
	a->held_bytes = held->bytes;
	a->lease_ns = held->lease_ns;
}

static void on_hello(struct fake_aggregator *a, const Tutti__V1__Hello *m)
{
	a->hellos++;
	a->instance = m->instance;
	snprintf(a->host, sizeof(a->host), "%s", m->host);
	if (m->n_labels)
		snprintf(a->label, sizeof(a->label), "%s is %s", m->labels[0]->key,
			 m->labels[0]->value);
	if (m->n_tracers)
		snprintf(a->tracer, sizeof(a->tracer), "%s", m->tracers[0]->name);
	take_held(a, m);
	if (a->former)
		rpc_abort(a->former, RPC_ABORTED, "replaced by a newer connection");
	if (!a->no_welcome)
		send_welcome(a);
}

static void on_progress(struct fake_aggregator *a, const Tutti__V1__Progress *m)
{
	size_t len = strlen(a->states);

	bool is_new = strcmp(a->state, m->state) != 0;

	if (!is_new && !strcmp(m->state, "gathering"))
		return; /* the file is being made */
	a->progress++;
	a->takes_grant = m->takes_grant;
	a->crc32c = m->crc32c;
	if (is_new)
		snprintf(a->states + len, sizeof(a->states) - len, "%s%s", len ? " " : "",
			 m->state);
	snprintf(a->state, sizeof(a->state), "%s", m->state);
	CHECK(m->bytes_done <= m->bytes_total);
}

static void on_result(struct fake_aggregator *a, const Tutti__V1__HostResult *m)
{
	a->results++;
	a->has_file = m->has_file;
	a->is_put = m->put;
	a->events = m->events;
	a->bytes = m->bytes;
	a->n_reports = m->n_tracers;
	CHECK(m->n_files <= ARRAY_SIZE(a->result_files) && m->n_crc32c == m->n_files);
	a->n_result_files = m->n_files;
	for (size_t i = 0; i < m->n_files; i++) {
		a->result_files[i] = m->files[i];
		a->result_crc32c[i] = m->crc32c[i];
	}
	a->result_calibrated = m->clock && m->clock->calibrated;
	snprintf(a->reason, sizeof(a->reason), "%s", m->reason);
	snprintf(a->detail, sizeof(a->detail), "%s", m->detail);
}

static void take(struct fake_aggregator *a, const Tutti__V1__AgentMessage *m)
{
	switch (m->kind_case) {
	case TUTTI__V1__AGENT_MESSAGE__KIND_HELLO:
		on_hello(a, m->hello);
		break;
	case TUTTI__V1__AGENT_MESSAGE__KIND_STATUS:
		a->statuses++;
		a->calibrated = m->status->clock->calibrated;
		break;
	case TUTTI__V1__AGENT_MESSAGE__KIND_ARMED:
		a->armed++;
		a->bound_ns = m->armed->bound_ns;
		a->lead_ns = m->armed->lead_ns;
		break;
	case TUTTI__V1__AGENT_MESSAGE__KIND_REFUSED:
		a->refused++;
		snprintf(a->reason, sizeof(a->reason), "%s", m->refused->reason);
		snprintf(a->detail, sizeof(a->detail), "%s", m->refused->detail);
		break;
	case TUTTI__V1__AGENT_MESSAGE__KIND_PROGRESS:
		on_progress(a, m->progress);
		break;
	case TUTTI__V1__AGENT_MESSAGE__KIND_RESULT:
		on_result(a, m->result);
		break;
	case TUTTI__V1__AGENT_MESSAGE__KIND_ASK:
		a->asks++;
		a->ask_id = m->ask->id;
		a->ask_ending_at_ns = m->ask->ending_at_ns;
		a->ask_duration_ns = m->ask->duration_ns;
		snprintf(a->ask_run, sizeof(a->ask_run), "%s", m->ask->run);
		break;
	case TUTTI__V1__AGENT_MESSAGE__KIND_DISCONNECT:
		a->disconnects++;
		break;
	case TUTTI__V1__AGENT_MESSAGE__KIND_LEAVING:
		a->leavings++;
		break;
	case TUTTI__V1__AGENT_MESSAGE__KIND_PROBE:
		break; /* unknown, as to an older aggregator */
	default:
		CHECK(!"a message of no kind");
	}
}

static void on_control_opened(struct rpc_call *call)
{
	struct fake_aggregator *a = rpc_arg(call);

	a->links++;
	if (a->refuse_links)
		rpc_finish(call, a->refuse_links, "no links now");
	if (a->refuse_links || a->ignore_links)
		return;
	a->former = a->control;
	a->control = call;
}

static bool on_control_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct fake_aggregator *a = rpc_arg(call);
	Tutti__V1__AgentMessage *m;
	struct err e;
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);

	CHECK_OK(control_unpack_from_agent(&m, data, len, &e), e);
	if (call == a->control)
		take(a, m);
	tutti__v1__agent_message__free_unpacked(m, NULL);
	return true;
}

static void on_control_half_closed(struct rpc_call *call)
{
	rpc_finish(call, RPC_OK, "");
}

static void on_control_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct fake_aggregator *a = rpc_arg(call);

	a->lost += st->code != RPC_OK;
	if (a->control == call)
		a->control = NULL;
	if (a->former == call)
		a->former = NULL;
}

static const struct rpc_events control_events = {
	.opened = on_control_opened,
	.message = on_control_message,
	.half_closed = on_control_half_closed,
	.closed = on_control_closed,
};

/* ---- ingest ---- */

static void on_upload_opened(struct rpc_call *call)
{
	struct fake_aggregator *a = rpc_arg(call);

	a->uploads++;
	if (a->refuse_uploads)
		rpc_finish(call, a->refuse_uploads, "no room");
}

static void send_upload_reply(struct fake_aggregator *a, struct rpc_call *call, bool stored)
{
	Tutti__V1__UploadReply reply = TUTTI__V1__UPLOAD_REPLY__INIT;
	uint8_t bytes[32];

	reply.bytes = a->file.len;
	reply.stored = stored;
	rpc_send(call, bytes, tutti__v1__upload_reply__pack(&reply, bytes));
}

static void on_upload_begin(struct fake_aggregator *a, struct rpc_call *call,
			    const Tutti__V1__UploadBegin *begin)
{
	CHECK_STR(begin->host, a->host);
	CHECK(begin->instance == a->instance);
	CHECK(begin->resume || begin->bytes <= LIMIT_CHUNK_BYTES);
	if (!begin->resume || begin->crc32 != a->announced_crc32)
		buf_reset(&a->file);
	CHECK(begin->n_files <= ARRAY_SIZE(a->announced_files));
	a->n_announced_files = begin->n_files;
	for (size_t i = 0; i < begin->n_files; i++)
		a->announced_files[i] = begin->files[i];
	a->announced = begin->bytes;
	a->announced_crc32 = begin->crc32;
	a->resumed_at = a->file.len;
	a->questions += begin->resume;
	if (begin->resume)
		send_upload_reply(a, call, false);
}

static void on_upload_chunk(struct fake_aggregator *a, struct rpc_call *call,
			    const Tutti__V1__UploadChunk *chunk)
{
	CHECK_EQ(chunk->offset, a->file.len);
	CHECK(chunk->data.len <= LIMIT_CHUNK_BYTES);
	CHECK_EQ(chunk->crc32, crc32(0, chunk->data.data, (uInt)chunk->data.len));
	buf_add(&a->file, chunk->data.data, chunk->data.len);
	if (a->cut_after && a->file.len >= a->cut_after) {
		a->cut_after = 0;
		rpc_finish(call, RPC_UNAVAILABLE, "the link broke");
	}
}

static bool on_upload_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct fake_aggregator *a = rpc_arg(call);
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);
	Tutti__V1__UploadMessage *m = tutti__v1__upload_message__unpack(NULL, len, data);

	CHECK(m);
	if (m->kind_case == TUTTI__V1__UPLOAD_MESSAGE__KIND_BEGIN)
		on_upload_begin(a, call, m->begin);
	else
		on_upload_chunk(a, call, m->chunk);
	tutti__v1__upload_message__free_unpacked(m, NULL);
	return true;
}

static void on_upload_half_closed(struct rpc_call *call)
{
	struct fake_aggregator *a = rpc_arg(call);

	CHECK_EQ(a->file.len, a->announced);
	CHECK_EQ(crc32_z(0, a->file.data, a->file.len), a->announced_crc32);
	send_upload_reply(a, call, true);
	rpc_finish(call, RPC_OK, "");
}

static const struct rpc_events upload_events = {
	.opened = on_upload_opened,
	.message = on_upload_message,
	.half_closed = on_upload_half_closed,
};

/* ---- capture requests ---- */

void fake_arm(struct fake_aggregator *a, const char *session, int64_t lead_ns, int64_t duration_ns,
	      const char *tracer)
{
	Tutti__V1__AggregatorMessage m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;
	Tutti__V1__Arm arm = TUTTI__V1__ARM__INIT;
	char *tracers[] = { (char *)tracer };

	arm.session = (char *)session;
	arm.t0_ns = fake_session_now(a) + lead_ns;
	arm.duration_ns = duration_ns;
	arm.upload_deadline_ns = arm.t0_ns + duration_ns + 20 * NS_PER_S;
	arm.n_tracers = tracer != NULL;
	arm.tracers = tracers;
	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_ARM;
	m.arm = &arm;
	a->states[0] = a->state[0] = '\0';
	fake_send(a, &m);
}

void fake_answer(struct fake_aggregator *a, uint64_t ask_id, bool ok, const char *session)
{
	Tutti__V1__AggregatorMessage m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;
	Tutti__V1__Answer answer = TUTTI__V1__ANSWER__INIT;

	answer.id = ask_id;
	answer.ok = ok;
	answer.session = (char *)session;
	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_ANSWER;
	m.answer = &answer;
	fake_send(a, &m);
}

void fake_upload(struct fake_aggregator *a, const char *session)
{
	Tutti__V1__AggregatorMessage m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;
	Tutti__V1__Upload upload = TUTTI__V1__UPLOAD__INIT;
	Tutti__V1__Grant grant = TUTTI__V1__GRANT__INIT;

	grant.file = 1;
	grant.method = (char *)"PUT";
	grant.url = (char *)a->grant_url;
	grant.life_ns = 60 * NS_PER_S;
	if (a->grant_url)
		upload.grant = &grant;
	upload.at_once = !a->makes_grants;
	upload.session = (char *)session;
	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_UPLOAD;
	m.upload = &upload;
	fake_send(a, &m);
}

void fake_release(struct fake_aggregator *a, const char *session)
{
	Tutti__V1__AggregatorMessage m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;
	Tutti__V1__Release release = TUTTI__V1__RELEASE__INIT;

	release.session = (char *)session;
	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_RELEASE;
	m.release = &release;
	fake_send(a, &m);
}

void fake_cancel_capture(struct fake_aggregator *a, const char *session)
{
	Tutti__V1__AggregatorMessage m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;
	Tutti__V1__Cancel cancel = TUTTI__V1__CANCEL__INIT;

	cancel.session = (char *)session;
	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_CANCEL;
	m.cancel = &cancel;
	fake_send(a, &m);
}

void fake_stop_capture(struct fake_aggregator *a, const char *session, int64_t t1_ns)
{
	Tutti__V1__AggregatorMessage m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;
	Tutti__V1__Stop stop = TUTTI__V1__STOP__INIT;

	stop.session = (char *)session;
	stop.t1_ns = t1_ns;
	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_STOP;
	m.stop = &stop;
	fake_send(a, &m);
}

/* ---- life ---- */

void fake_aggregator_up_with(struct fake_aggregator *a, struct loop *l, struct rpc *r,
			     const struct rpc_method *method)
{
	const struct rpc_method methods[] = {
		{ "/tutti.v1.Control/Connect", &control_events, a, LIMIT_CONTROL_BYTES },
		{ "/tutti.v1.Ingest/Upload", &upload_events, a, LIMIT_UPLOAD_MESSAGE_BYTES },
		method ? *method : (struct rpc_method){ 0 },
	};
	const struct rpc_server_opts opts = {
		.address = "127.0.0.1:0",
		.max_message_bytes = LIMIT_REQUEST_BYTES,
	};
	struct err e;

	memset(a, 0, sizeof(*a));
	a->shift_ns = INT64_C(1790000000000000000);
	CHECK_OK(udp_listen(&a->probes, l, "127.0.0.1:0", on_probe, a, &a->probe_port, &e), e);
	CHECK_OK(rpc_server_new(&a->server, r, &opts, methods, method ? 3 : 2, &a->port, &e), e);
}

void fake_aggregator_up(struct fake_aggregator *a, struct loop *l, struct rpc *r)
{
	fake_aggregator_up_with(a, l, r, NULL);
}

void fake_aggregator_down(struct fake_aggregator *a)
{
	rpc_server_free(a->server);
	udp_free(a->probes);
	buf_release(&a->file);
}
