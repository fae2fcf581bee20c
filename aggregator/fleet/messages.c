/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/fleet/messages.h"

#include "proto/probe.h"

typedef Tutti__V1__AggregatorMessage message;

void message_pack(struct buf *out, const message *m)
{
	size_t len = tutti__v1__aggregator_message__get_packed_size(m);

	buf_reserve(out, len);
	tutti__v1__aggregator_message__pack(m, out->data + out->len);
	out->len += len;
}

void message_welcome(struct buf *out, const struct welcome *w)
{
	Tutti__V1__Welcome welcome = TUTTI__V1__WELCOME__INIT;
	message m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;

	welcome.clock_epoch = w->epoch;
	welcome.probe_port = (uint32_t)w->probe_port;
	welcome.probe_cookie = w->cookie;
	welcome.term = w->term;
	welcome.probe_key.data = (uint8_t *)w->key->bytes;
	welcome.probe_key.len = sizeof(w->key->bytes);
	welcome.former_epochs = (uint64_t *)w->former;
	welcome.n_former_epochs = w->n_former;
	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_WELCOME;
	m.welcome = &welcome;
	message_pack(out, &m);
}

void message_stop(struct buf *out, const char *session, int64_t t1_ns, int64_t gather_by_ns)
{
	Tutti__V1__Stop stop = TUTTI__V1__STOP__INIT;
	message m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;

	stop.session = (char *)session;
	stop.t1_ns = t1_ns;
	stop.gather_by_ns = gather_by_ns;
	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_STOP;
	m.stop = &stop;
	message_pack(out, &m);
}

void message_cancel(struct buf *out, const char *session)
{
	Tutti__V1__Cancel cancel = TUTTI__V1__CANCEL__INIT;
	message m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;

	cancel.session = (char *)session;
	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_CANCEL;
	m.cancel = &cancel;
	message_pack(out, &m);
}

void message_upload(struct buf *out, const char *session, int64_t deadline_ns, bool at_once,
		    const Tutti__V1__Grant *grant)
{
	Tutti__V1__Upload upload = TUTTI__V1__UPLOAD__INIT;
	message m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;

	upload.session = (char *)session;
	upload.deadline_ns = deadline_ns;
	upload.at_once = at_once;
	upload.grant = (Tutti__V1__Grant *)grant;
	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_UPLOAD;
	m.upload = &upload;
	message_pack(out, &m);
}

void message_step_watch(struct buf *out, int64_t for_ns, int64_t gap_ns)
{
	Tutti__V1__StepWatch watch = TUTTI__V1__STEP_WATCH__INIT;
	message m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;

	watch.for_ns = for_ns;
	watch.gap_ns = gap_ns;
	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_STEP_WATCH;
	m.step_watch = &watch;
	message_pack(out, &m);
}

void message_release(struct buf *out, const char *session)
{
	Tutti__V1__Release release = TUTTI__V1__RELEASE__INIT;
	message m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;

	release.session = (char *)session;
	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_RELEASE;
	m.release = &release;
	message_pack(out, &m);
}

void message_poke(struct buf *out)
{
	Tutti__V1__AggregatorMessage m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;
	Tutti__V1__Poke poke = TUTTI__V1__POKE__INIT;

	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_POKE;
	m.poke = &poke;
	message_pack(out, &m);
}

void message_probe(struct buf *out, const uint8_t *packet)
{
	Tutti__V1__Probe probe = TUTTI__V1__PROBE__INIT;
	message m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;

	probe.packet = (ProtobufCBinaryData){ PROBE_BYTES, (uint8_t *)packet };
	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_PROBE;
	m.probe = &probe;
	message_pack(out, &m);
}

void message_answer(struct buf *out, uint64_t id, bool ok, const char *session, const char *detail)
{
	Tutti__V1__Answer answer = TUTTI__V1__ANSWER__INIT;
	message m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;

	answer.id = id;
	answer.ok = ok;
	answer.session = (char *)session;
	answer.detail = (char *)detail;
	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_ANSWER;
	m.answer = &answer;
	message_pack(out, &m);
}
