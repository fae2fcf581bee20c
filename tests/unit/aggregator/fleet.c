/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/aggregator/fleet.h"

#include "aggregator/ingest/late_list.h"

#include "json/json_text.h"
#include "json/packed.h"

#include <unistd.h>
#include <zlib.h>

#include "aggregator/api/link_key.h"
#include "aggregator/sessions/sessions.h"
#include "aggregator/time/session_clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "proto/tutti/v1/ingest.pb-c.h"
#include "storage/store.h"
#include "tests/lib/store.h"
#include "tests/lib/temp_dir.h"

typedef Tutti__V1__AgentMessage agent_message;
typedef Tutti__V1__AggregatorMessage aggregator_message;

/* ---- the aggregator ---- */

static void set_conf(struct aggregator_conf *c, const char *spool)
{
	c->store = xstrdup("mem://test");
	c->http = xstrdup("127.0.0.1:0");
	c->grpc = xstrdup("127.0.0.1:0");
	c->probe = xstrdup("127.0.0.1:0");
	c->spool = xstrdup(spool);
	c->log_level = xstrdup("info");
}

const char *fleet_token_file;
void (*fleet_set_conf)(struct aggregator_conf *c);
bool fleet_checks_files;

/* Fakes upload bytes that are easy to compare. */
static int check_file(const struct ingest_file *file, struct err *e)
{
	return fleet_checks_files ? ingest_check_xspace(file, e) : 0;
}

void fleet_start(struct fleet *f, int64_t lead_ns, int64_t grace_ns)
{
	struct err e = { 0 };

	*f = (struct fleet){ 0 };
	snprintf(f->spool, sizeof(f->spool), "%s", temp_dir());
	CHECK_OK(loop_new(&f->loop, 12, &e), e);
	f->agg.loop = f->loop;
	set_conf(&f->agg.conf, f->spool);
	f->agg.conf.lead_ns = lead_ns ? lead_ns : 20 * NS_PER_MS;
	f->agg.conf.grace_ns = grace_ns ? grace_ns : 20 * NS_PER_S;
	if (fleet_token_file)
		f->agg.conf.token_file = xstrdup(fleet_token_file);
	if (fleet_set_conf)
		fleet_set_conf(&f->agg.conf);
	f->agg.check_file = check_file;
	f->agg.patience.arm_ns = 10 * NS_PER_S;
	f->agg.patience.lost_ns = 50 * NS_PER_MS;
	CHECK_OK(aggregator_start(&f->agg, &e), e);
	CHECK_OK(rpc_new(&f->rpc, f->loop, &e), e);
	fleet_dial_again(f);
}

void fleet_dial_again(struct fleet *f)
{
	static const char *const lanes[] = { "test", "test, too" };
	struct rpc_channel_opts opts = { .lane = lanes[f->channel != NULL],
					 .max_message_bytes = 64 << 20 };
	struct err e = { 0 };
	char target[40];

	CHECK(!f->former);
	f->former = f->channel;
	snprintf(target, sizeof(target), "127.0.0.1:%d", f->agg.grpc_port);
	opts.target = target;
	CHECK_OK(rpc_channel_new(&f->channel, f->rpc, &opts, &e), e);
}

static void fleet_forget_clock(const struct fleet *f)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/" SESSION_CLOCK_FILE, f->spool);
	CHECK(!unlink(path));
}

static void forget_link_key(struct fleet *f)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/" LINK_KEY_FILE, f->spool);
	CHECK(!unlink(path));
}

/* Of sessions that were looked at. */
static void forget_views(const struct fleet *f)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/views", f->spool);
	remove_tree(path);
}

static void forget_late(void *arg, const char *session, const char *run)
{
	const struct fleet *f = arg;

	(void)run;
	late_list_remove(f->spool, session);
}

void fleet_stop(struct fleet *f)
{
	rpc_channel_free(f->channel);
	if (f->former)
		rpc_channel_free(f->former);
	aggregator_stop(&f->agg);
	rpc_free(f->rpc);
	loop_free(f->loop);
	conf_release(&f->agg.conf, &aggregator_conf_table);
	fleet_forget_clock(f);
	forget_link_key(f);
	forget_views(f);
	late_list_each(f->spool, forget_late, f);
	CHECK(!rmdir(f->spool)); /* nothing else was left in it */
}

static bool count_key(void *arg, const char *key, const struct store_stat *st)
{
	(void)st;
	*(size_t *)arg += strcmp(key, "tutti/ready") != 0; /* it comes and goes */
	return true;
}

size_t fleet_keys(struct fleet *f)
{
	struct err e = { 0 };
	size_t n = 0;

	CHECK_OK(list_keys(f->agg.store.store, "", NULL, count_key, &n, &e), e);
	return n;
}

bool fleet_has_key(struct fleet *f, const char *key)
{
	struct buf b = BUF_INIT;
	struct err e = { 0 };
	int rc = get_range(f->agg.store.store, key, 0, 1, &b, NULL, &e);

	buf_release(&b);
	return !rc;
}

void fleet_check_failed(struct fleet *f, const char *session)
{
	char key[96];

	snprintf(key, sizeof(key), "tutti/failed/%s.json", session);
	CHECK(fleet_has_key(f, key));
	CHECK_EQ(fleet_keys(f), 1);
}

struct durable {
	bool called;
	int code;
};

static void on_durable(void *arg, struct capture *c, const struct err *not_durable)
{
	struct durable *d = arg;

	(void)c;
	*d = (struct durable){ true, not_durable ? not_durable->code : 0 };
}

int fleet_wait_durable(struct fleet *f, struct capture *c)
{
	struct durable d = { 0 };

	capture_when_durable(c, on_durable, &d);
	WAIT(f, d.called);
	return d.code;
}

bool fleet_has_ledger(struct fleet *f, const char *session)
{
	struct session_keys left = { 0 };
	struct err e = { 0 };
	bool found = false;

	CHECK_OK(session_list_left(f->agg.store.store, &left, &e), e);
	for (size_t i = 0; i < left.n; i++)
		found |= !strcmp(left.items[i], session);
	session_keys_release(&left);
	return found;
}

json_t *fleet_left(struct fleet *f, const char *session)
{
	json_t *all = json_array(), *left = NULL;
	struct err e = { 0 };

	CHECK_OK(session_recover(f->agg.store.store, session, &left, &e), e);
	if (left)
		json_array_append_new(all, left);
	return all;
}

/* The store is a new one: the records are put into it first. */
void fleet_recover(struct fleet *f, const json_t *left)
{
	struct err e = { 0 };

	for (size_t i = 0; i < json_array_size(left); i++) {
		const json_t *item = json_array_get(left, i);
		const json_t *record = json_object_get(item, "record");
		struct buf text = BUF_INIT;
		char *key = xasprintf("tutti/ledger/%s.%06d.json", json_get_text(record, "session"),
				      (int)json_get_int(item, "ledger"));

		struct capture_left *read = capture_left_read(item);

		packed_write(&text, record);
		CHECK_OK(store_put_bytes(f->agg.store.store, key, text.data, text.len, STORE_ABSENT,
					 STORE_NO_DEADLINE, &e),
			 e);
		free(key);
		buf_release(&text);
		captures_recover(f->agg.captures, read);
		capture_left_free(read);
	}
}

struct capture *fleet_begin(struct fleet *f)
{
	const struct capture_request req = { .duration_ns = 10 * NS_PER_MS, .origin = "test" };
	struct err e = { 0 };
	struct capture *c;

	CHECK_OK(capture_begin(f->agg.captures, &req, &c, &e), e);
	return c;
}

void fleet_wait_over(struct fleet *f, const char *session)
{
	struct capture *c = capture_find(f->agg.captures, session);

	CHECK(c);
	WAIT(f, capture_has_ended(c));
}

/* ---- what an agent sends ---- */

void fake_send(struct fake *a, const agent_message *m)
{
	size_t len = tutti__v1__agent_message__get_packed_size(m);
	uint8_t *data = xmalloc(len);

	tutti__v1__agent_message__pack(m, data);
	rpc_send(a->call, data, len);
	free(data);
}

void fake_hello(struct fake *a, const char *label_key, const char *label_value)
{
	agent_message m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Hello hello = TUTTI__V1__HELLO__INIT;
	Tutti__V1__Hello__LabelsEntry label = TUTTI__V1__HELLO__LABELS_ENTRY__INIT,
				      *labels = &label;
	Tutti__V1__TracerState cpu = TUTTI__V1__TRACER_STATE__INIT, profiler = cpu,
			       *tracers[] = { &cpu, &profiler };
	Tutti__V1__TracerSetting depth = TUTTI__V1__TRACER_SETTING__INIT, *settings[] = { &depth };
	Tutti__V1__Held held = TUTTI__V1__HELD__INIT, *held_list = &held;

	depth.tracer = cpu.name = (char *)"cpu";
	depth.name = (char *)"depth";
	depth.type = (char *)"int";
	depth.min = 1;
	depth.max = depth.value = a->max_depth ? a->max_depth : 16;
	depth.help = (char *)"how deep";
	hello.n_settings = a->max_depth < 0 ? 0 : 1;
	hello.settings = settings;
	cpu.state = profiler.state = (char *)"ok";
	profiler.name = (char *)"profiler";
	hello.host = a->name;
	hello.version = (char *)"1.2.3";
	hello.instance = a->instance;
	hello.profiler_address = (char *)"127.0.0.1:7410";
	hello.n_tracers = a->has_profiler ? 2 : 1;
	hello.tracers = tracers;
	label.key = (char *)label_key;
	label.value = (char *)label_value;
	hello.n_labels = label_key ? 1 : 0;
	hello.labels = &labels;
	if (*a->held) {
		held.session = a->held;
		held.state = a->held_state;
		held.instance = a->held_instance ? a->held_instance : a->instance;
		hello.n_held = 1;
		hello.held = &held_list;
	}
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_HELLO;
	m.hello = &hello;
	fake_send(a, &m);
}

void fake_armed(struct fake *a)
{
	agent_message m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Armed armed = TUTTI__V1__ARMED__INIT;

	armed.session = a->session;
	armed.bound_ns = 1000;
	armed.lead_ns = 1;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_ARMED;
	m.armed = &armed;
	fake_send(a, &m);
}

void fake_refuse(struct fake *a, const char *reason, const char *detail)
{
	agent_message m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Refused refused = TUTTI__V1__REFUSED__INIT;

	refused.session = a->session;
	refused.reason = (char *)reason;
	refused.detail = (char *)detail;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_REFUSED;
	m.refused = &refused;
	fake_send(a, &m);
}

void fake_progress(struct fake *a, const char *state, uint64_t bytes)
{
	agent_message m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Progress progress = TUTTI__V1__PROGRESS__INIT;

	progress.session = a->session;
	progress.state = (char *)state;
	progress.bytes_total = bytes;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_PROGRESS;
	m.progress = &progress;
	fake_send(a, &m);
}

void fake_result(struct fake *a, bool has_file, const char *reason, const char *detail)
{
	agent_message m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__HostResult result = TUTTI__V1__HOST_RESULT__INIT;
	Tutti__V1__ClockModel clock = TUTTI__V1__CLOCK_MODEL__INIT;
	Tutti__V1__TracerReport report = TUTTI__V1__TRACER_REPORT__INIT, *reports = &report;

	clock.calibrated = !a->uncalibrated;
	clock.offset_ns = -5;
	clock.bound_ns = 2000;
	report.name = (char *)"cpu";
	report.state = (char *)(*reason ? "failed" : "ok");
	report.reason = (char *)reason;
	report.lost = 3;
	result.session = a->session;
	result.has_file = has_file;
	result.reason = (char *)reason;
	result.detail = (char *)detail;
	result.events = 42;
	result.clock = &clock;
	result.n_tracers = 1;
	result.tracers = &reports;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_RESULT;
	m.result = &result;
	fake_send(a, &m);
}

void fake_steps(struct fake *a, int64_t step, int64_t at_ns, int64_t period_ns)
{
	agent_message m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Steps steps = TUTTI__V1__STEPS__INIT;

	steps.known = true;
	steps.step = step;
	steps.at_ns = at_ns;
	steps.period_ns = period_ns;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_STEPS;
	m.steps = &steps;
	fake_send(a, &m);
}

void fake_ask(struct fake *a, const char *verb, const char *session, const char *hosts)
{
	fake_ask_with(a, verb, session, hosts, "");
}

void fake_ask_with(struct fake *a, const char *verb, const char *session, const char *hosts,
		   const char *token)
{
	agent_message m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Ask ask = TUTTI__V1__ASK__INIT;

	ask.id = 7;
	ask.verb = (char *)verb;
	ask.session = (char *)session;
	ask.hosts = (char *)hosts;
	ask.token = (char *)token;
	ask.duration_ns = 3600 * NS_PER_S;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_ASK;
	m.ask = &ask;
	fake_send(a, &m);
}

/* ---- what an agent hears ---- */

static void on_arm(struct fake *a, const Tutti__V1__Arm *arm)
{
	size_t used = 0;

	a->arms++;
	snprintf(a->session, sizeof(a->session), "%s", arm->session);
	a->t0_ns = arm->t0_ns;
	a->duration_ns = arm->duration_ns;
	a->deadline_ns = arm->upload_deadline_ns;
	a->gather_by_ns = arm->gather_by_ns;
	CHECK(arm->profile_options.len <= sizeof(a->options));
	memcpy(a->options, arm->profile_options.data, arm->profile_options.len);
	a->options_len = arm->profile_options.len;
	a->settings[0] = a->tracers[0] = '\0';
	for (size_t i = 0; i < arm->n_settings; i++)
		used += (size_t)snprintf(a->settings + used, sizeof(a->settings) - used, "%s=%s;",
					 arm->settings[i]->key, arm->settings[i]->value);
	used = 0;
	for (size_t i = 0; i < arm->n_tracers; i++)
		used += (size_t)snprintf(a->tracers + used, sizeof(a->tracers) - used, "%s;",
					 arm->tracers[i]);
	if (a->auto_arm || a->auto_deliver)
		fake_armed(a);
	if (a->auto_deliver)
		fake_progress(a, "uploading", 2000);
}

static void on_upload(struct fake *a)
{
	struct fake_upload *u;

	a->uploads++;
	if (!a->auto_deliver)
		return;
	u = xcalloc(1, sizeof(*u));
	u->report = true;
	fake_upload_start(u, a, 2, 1000, FLAW_NONE);
}

static void on_answer(struct fake *a, const Tutti__V1__Answer *answer)
{
	CHECK_EQ(answer->id, 7);
	a->answers++;
	a->answer_ok = answer->ok;
	snprintf(a->answer_session, sizeof(a->answer_session), "%s", answer->session);
	snprintf(a->answer_detail, sizeof(a->answer_detail), "%s", answer->detail);
}

static void on_kind(struct fake *a, const aggregator_message *m)
{
	switch (m->kind_case) {
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_WELCOME:
		a->welcomes++;
		a->cookie = m->welcome->probe_cookie;
		a->epoch = m->welcome->clock_epoch;
		a->probe_port = m->welcome->probe_port;
		break;
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_ARM:
		on_arm(a, m->arm);
		break;
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_STOP:
		a->stops++;
		a->t1_ns = m->stop->t1_ns;
		a->gather_by_ns = m->stop->gather_by_ns;
		break;
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_CANCEL:
		a->cancels++;
		break;
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_UPLOAD:
		on_upload(a);
		break;
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_RELEASE:
		a->releases++;
		break;
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_ANSWER:
		on_answer(a, m->answer);
		break;
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_STEP_WATCH:
		a->step_watches++;
		break;
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_POKE:
		a->pokes++;
		break;
	default:
		CHECK(!"a known message");
	}
}

static bool on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);
	aggregator_message *m = tutti__v1__aggregator_message__unpack(NULL, len, data);

	CHECK(m);
	on_kind(rpc_arg(call), m);
	tutti__v1__aggregator_message__free_unpacked(m, NULL);
	return true;
}

static void on_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct fake *a = rpc_arg(call);

	a->call = NULL;
	a->code = st->code;
	snprintf(a->text, sizeof(a->text), "%s", st->text);
}

static const struct rpc_events control = { .message = on_message, .closed = on_closed };

void fake_dial(struct fake *a, struct fleet *f, const char *name, uint64_t instance)
{
	a->fleet = f;
	a->instance = instance;
	snprintf(a->name, sizeof(a->name), "%s", name);
	a->call = rpc_open(f->channel, "/tutti.v1.Control/Connect", INT64_MAX, &control, a);
}

void fake_connect(struct fake *a, struct fleet *f, const char *name)
{
	uint64_t instance;

	random_bytes(&instance, sizeof(instance));
	fake_dial(a, f, name, instance | 1);
	fake_hello(a, "job", name);
	WAIT(f, a->welcomes);
}

void fake_hang_up(struct fake *a)
{
	struct host *h;

	if (a->call)
		rpc_cancel(a->call);
	WAIT(a->fleet, !a->call);
	WAIT(a->fleet, !(h = registry_find(a->fleet->agg.registry, a->name)) || !h->control ||
			       h->instance != a->instance);
}

/* ---- uploads ---- */

static void send_upload(struct fake_upload *u, const Tutti__V1__UploadMessage *m)
{
	size_t len = tutti__v1__upload_message__get_packed_size(m);
	uint8_t *data = xmalloc(len);

	tutti__v1__upload_message__pack(m, data);
	rpc_send(u->call, data, len);
	free(data);
}

/* Byte `i` of what fakes upload. */
static uint8_t byte_at(uint64_t i)
{
	return (uint8_t)(i % 251);
}

static uint32_t sum_of_all(size_t bytes)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < bytes; i++) {
		uint8_t byte = byte_at(i);

		sum = (uint32_t)crc32(sum, &byte, 1);
	}
	return sum;
}

static void send_begin(struct fake_upload *u, size_t chunks, size_t chunk_bytes, enum flaw flaw)
{
	uint64_t *files = xcalloc(chunks, sizeof(*files));
	Tutti__V1__UploadMessage m = TUTTI__V1__UPLOAD_MESSAGE__INIT;
	Tutti__V1__UploadBegin begin = TUTTI__V1__UPLOAD_BEGIN__INIT;

	begin.session = u->fake->session;
	begin.host = u->fake->name;
	begin.instance = u->fake->instance + (flaw == FLAW_INSTANCE);
	begin.bytes = chunks * chunk_bytes;
	begin.resume = u->fake->resumes;
	if (begin.resume)
		begin.crc32 = sum_of_all(begin.bytes) ^ (flaw == FLAW_SUM);
	for (size_t i = 0; i < chunks; i++)
		files[i] = chunk_bytes;
	files[0] += flaw == FLAW_FILES;
	begin.files = u->fake->chunk_files ? files : &begin.bytes;
	begin.n_files = u->fake->chunk_files ? chunks : 1;
	m.kind_case = TUTTI__V1__UPLOAD_MESSAGE__KIND_BEGIN;
	m.begin = &begin;
	send_upload(u, &m);
	free(files);
}

static void send_chunk(struct fake_upload *u, uint64_t offset, size_t bytes, enum flaw flaw)
{
	Tutti__V1__UploadMessage m = TUTTI__V1__UPLOAD_MESSAGE__INIT;
	Tutti__V1__UploadChunk chunk = TUTTI__V1__UPLOAD_CHUNK__INIT;
	uint8_t *data = xmalloc(bytes);

	for (size_t i = 0; i < bytes; i++)
		data[i] = byte_at(offset + i);
	chunk.offset = offset + (flaw == FLAW_OFFSET);
	chunk.data = (ProtobufCBinaryData){ bytes, data };
	chunk.crc32 = (uint32_t)crc32(0, data, (uInt)bytes) ^ (flaw == FLAW_CRC);
	m.kind_case = TUTTI__V1__UPLOAD_MESSAGE__KIND_CHUNK;
	m.chunk = &chunk;
	send_upload(u, &m);
	free(data);
}

/* Goes on from there; the last chunk is missing if it is to be short. */
static void send_chunks(struct fake_upload *u, uint64_t offset)
{
	uint64_t end = (u->chunks - (u->flaw == FLAW_SHORT)) * u->chunk_bytes;

	for (; offset < end; offset += u->chunk_bytes)
		send_chunk(u, offset, u->chunk_bytes, u->flaw);
	if (u->flaw == FLAW_LONG)
		send_chunk(u, u->chunks * u->chunk_bytes, 1, FLAW_NONE);
	rpc_half_close(u->call);
}

static bool on_upload_reply(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct fake_upload *u = rpc_arg(call);
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);
	Tutti__V1__UploadReply *reply = tutti__v1__upload_reply__unpack(NULL, len, data);

	CHECK(reply);
	if (reply->stored) {
		u->stored = reply->bytes;
	} else if (u->fake->resumes) {
		u->resumed_at = reply->bytes;
		send_chunks(u, reply->bytes);
	}
	tutti__v1__upload_reply__free_unpacked(reply, NULL);
	return true;
}

static void on_upload_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct fake_upload *u = rpc_arg(call);

	u->closed = true;
	u->code = st->code;
	snprintf(u->text, sizeof(u->text), "%s", st->text);
	if (!u->report)
		return;
	CHECK_EQ(u->code, RPC_OK);
	if (u->fake->call)
		fake_result(u->fake, true, "", "");
	free(u);
}

static const struct rpc_events ingest = { .message = on_upload_reply, .closed = on_upload_closed };

void fake_upload_start(struct fake_upload *u, struct fake *a, size_t chunks, size_t chunk_bytes,
		       enum flaw flaw)
{
	u->fake = a;
	u->chunks = chunks;
	u->chunk_bytes = chunk_bytes;
	u->flaw = flaw;
	u->call = rpc_open(a->fleet->channel, "/tutti.v1.Ingest/Upload", INT64_MAX, &ingest, u);
	if (flaw != FLAW_NO_BEGIN)
		send_begin(u, chunks, chunk_bytes, flaw);
	if (flaw != FLAW_SILENT && !a->resumes)
		send_chunks(u, 0);
}

enum rpc_code fake_upload(struct fake *a, size_t chunks, size_t chunk_bytes, enum flaw flaw)
{
	struct fake_upload u = { 0 };

	fake_upload_start(&u, a, chunks, chunk_bytes, flaw);
	WAIT(a->fleet, u.closed);
	if (u.code == RPC_OK)
		CHECK_EQ(u.stored, chunks * chunk_bytes);
	return u.code;
}

static void keep_text(void *arg, struct buf *text_taken)
{
	buf_release(arg);
	*(struct buf *)arg = *text_taken;
	*text_taken = (struct buf)BUF_INIT;
}

struct fleet_result fleet_result(struct capture *c, size_t host)
{
	struct fleet_result out = { 0 };
	struct buf text = BUF_INIT;
	json_t *doc;
	const json_t *result;

	capture_make_text(c, false, keep_text, &text);
	doc = json_loads(buf_str(&text), 0, NULL);
	result = json_array_get(json_object_get(doc, "hosts"), host);
	CHECK(result);
	snprintf(out.state, sizeof(out.state), "%s", json_get_text(result, "state"));
	snprintf(out.reason, sizeof(out.reason), "%s", json_get_text(result, "reason"));
	snprintf(out.detail, sizeof(out.detail), "%s", json_get_text(result, "detail"));
	out.n_files = json_array_size(json_object_get(result, "files"));
	out.bytes_done = json_get_int(result, "bytes_done");
	out.t0_ns = json_get_int(result, "t0_ns");
	out.clock_bound_ns = json_get_int(result, "clock_bound_ns");
	json_decref(doc);
	buf_release(&text);
	return out;
}

bool fleet_host_is(struct capture *c, size_t host, const char *state)
{
	return !strcmp(fleet_result(c, host).state, state);
}
