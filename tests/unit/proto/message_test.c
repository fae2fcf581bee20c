/* SPDX-License-Identifier: Apache-2.0 */
/* What a message may cost is known before it is unpacked. */
#include "proto/message.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/control_check.h"
#include "proto/limits.h"
#include "proto/profiler_request.h"
#include "proto/tutti/v1/ingest.pb-c.h"
#include "tests/lib/check.h"

static void add_repeated(struct buf *b, const char *bytes, size_t len, size_t times)
{
	for (size_t i = 0; i < times; i++)
		buf_add(b, bytes, len);
}

static void check_refused(const ProtobufCMessageDescriptor *type, const struct buf *b, int code)
{
	struct err e = { 0 };
	ProtobufCMessage *m;

	CHECK_EQ(message_unpack(&m, type, LIMIT_REQUEST_BYTES, 64, b->data, b->len, &e), code);
	CHECK(!m);
	CHECK(*e.msg);
}

/* 4 MB of empty submessages cost 180 MiB and 0.35 s when they were unpacked. */
static void test_empty_submessages(void)
{
	struct buf b = BUF_INIT;
	Tensorflow__ProfileRequest *m;
	struct err e = { 0 };
	int64_t start_ns;

	add_repeated(&b, "\x42\x00", 2, (4 << 20) / 2);
	start_ns = now_mono_ns();
	CHECK_EQ(profile_request_unpack(&m, b.data, b.len, &e), ERR_LIMIT);
	CHECK_EQ(profile_request_unpack(&m, b.data, LIMIT_PROFILE_BYTES, &e), ERR_LIMIT);
	check_refused(&tensorflow__profile_request__descriptor, &b, ERR_LIMIT);
	CHECK(now_mono_ns() - start_ns < 20 * NS_PER_MS);
	buf_release(&b);
}

/* Each kind of field, one more than is allowed. */
static void test_kinds(void)
{
	static const struct {
		const ProtobufCMessageDescriptor *type;
		const char *bytes;
		size_t len;
	} cases[] = {
		{ &tensorflow__profile_request__descriptor, "\x1a\x00", 2 }, /* repeated string */
		{ &tensorflow__profile_request__descriptor, "\x08\x01", 2 }, /* the same number */
		{ &tensorflow__profile_request__descriptor, "\x22\x00",
		  2 }, /* merged submessages */
		{ &tensorflow__profile_request__descriptor, "\x98\x06\x01", 3 }, /* unknown */
		{ &tensorflow__profile_request__descriptor, "\x99\x06........", 10 },
		{ &tensorflow__profile_request__descriptor, "\x9d\x06....", 6 },
		{ &tutti__v1__agent_message__descriptor, "\x0a\x02\x2a\x00", 4 }, /* nested */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buf b = BUF_INIT;
		ProtobufCMessage *m;
		struct err e;

		add_repeated(&b, cases[i].bytes, cases[i].len, 65);
		check_refused(cases[i].type, &b, ERR_LIMIT);
		b.len = 32 * cases[i].len;
		CHECK_OK(message_unpack(&m, cases[i].type, b.len, 64, b.data, b.len, &e), e);
		protobuf_c_message_free_unpacked(m, NULL);
		CHECK_EQ(message_unpack(&m, cases[i].type, b.len - 1, 64, b.data, b.len, &e),
			 ERR_LIMIT);
		buf_release(&b);
	}
}

static void test_packed(void)
{
	uint8_t bytes[2 + 2 + 65] = { 0x0a, 2 + 65, 0x3a, 65 }; /* UploadMessage.begin.files */
	struct buf b = BUF_INIT;

	buf_add(&b, bytes, sizeof(bytes));
	check_refused(&tutti__v1__upload_message__descriptor, &b, ERR_LIMIT);
	buf_release(&b);
}

static void test_malformed(void)
{
	static const struct {
		const char *bytes;
		size_t len;
	} cases[] = {
		{ "\x80", 1 }, /* half a tag */
		{ "\x00\x01", 2 }, /* field 0 */
		{ "\x08", 1 },
		{ "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12 },
		{ "\x22\x05\x00", 3 }, /* longer than the message */
		{ "\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 },
		{ "\x22\x01\x80", 3 }, /* inside a submessage */
		{ "\x0b\x0c", 2 }, /* groups */
		{ "\x09\x00", 2 },
		{ "\x0d\x00", 2 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buf b = BUF_INIT;

		buf_add(&b, cases[i].bytes, cases[i].len);
		check_refused(&tensorflow__profile_request__descriptor, &b, ERR_INVALID);
		buf_release(&b);
	}
}

/* A Hello as large as control_check allows has fewer fields than the limit. */
static void test_largest_hello(void)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT, *read;
	Tutti__V1__Hello hello = TUTTI__V1__HELLO__INIT;
	Tutti__V1__TracerSetting setting = TUTTI__V1__TRACER_SETTING__INIT,
				 *settings[LIMIT_TRACER_SETTINGS];
	Tutti__V1__TracerState state = TUTTI__V1__TRACER_STATE__INIT, *states[LIMIT_TRACERS];
	Tutti__V1__Job job = TUTTI__V1__JOB__INIT, *jobs[LIMIT_JOBS];
	Tutti__V1__Held held = TUTTI__V1__HELD__INIT, *helds[2 * LIMIT_CAPTURES];
	Tutti__V1__Hello__LabelsEntry label = TUTTI__V1__HELLO__LABELS_ENTRY__INIT,
				      *labels[LIMIT_LABELS];
	struct buf b = BUF_INIT;
	struct err e;

	setting.tracer = setting.name = setting.help = (char *)"x";
	setting.type = (char *)"int";
	setting.min = setting.value = 1;
	setting.max = 2;
	state.name = state.reason = (char *)"x";
	state.state = (char *)"off";
	state.errno_value = 1;
	job.pid = job.port = 1;
	job.command = job.framework = job.address = (char *)"x";
	job.state = (char *)"ready";
	held.session = (char *)"2026_01_01_00_00_00_aaaaaa";
	held.state = (char *)"stored";
	held.instance = held.bytes = 1;
	held.lease_ns = 1;
	label.key = label.value = (char *)"x";
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		settings[i] = &setting;
	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		states[i] = &state;
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
		jobs[i] = &job;
	for (size_t i = 0; i < ARRAY_SIZE(helds); i++)
		helds[i] = &held;
	for (size_t i = 0; i < ARRAY_SIZE(labels); i++)
		labels[i] = &label;
	hello.host = hello.version = hello.boot_id = hello.profiler_address = (char *)"x";
	hello.instance = 1;
	hello.settings = settings;
	hello.n_settings = ARRAY_SIZE(settings);
	hello.tracers = states;
	hello.n_tracers = ARRAY_SIZE(states);
	hello.jobs = jobs;
	hello.n_jobs = ARRAY_SIZE(jobs);
	hello.more_jobs = 1;
	hello.held = helds;
	hello.n_held = ARRAY_SIZE(helds);
	hello.labels = labels;
	hello.n_labels = ARRAY_SIZE(labels);
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_HELLO;
	m.hello = &hello;
	buf_reserve(&b, tutti__v1__agent_message__get_packed_size(&m));
	b.len = tutti__v1__agent_message__pack(&m, b.data);
	CHECK_OK(control_unpack_from_agent(&read, b.data, b.len, &e), e);
	tutti__v1__agent_message__free_unpacked(read, NULL);
	job.state = (char *)"asleep";
	b.len = tutti__v1__agent_message__pack(&m, b.data);
	CHECK_EQ(control_unpack_from_agent(&read, b.data, b.len, &e), ERR_INVALID);
	CHECK(strstr(e.msg, "jobs.state"));
	buf_release(&b);
}

static void check_status(Tutti__V1__AgentMessage *m, const char *wrong)
{
	Tutti__V1__AgentMessage *read;
	struct err e = { 0 };
	uint8_t data[256];
	int rc = control_unpack_from_agent(&read, data, tutti__v1__agent_message__pack(m, data),
					   &e);

	CHECK_EQ(rc, *wrong ? ERR_INVALID : 0);
	CHECK(strstr(e.msg, wrong));
	if (!rc)
		tutti__v1__agent_message__free_unpacked(read, NULL);
}

/* The words of a clock are those of docs/schema/clock.schema.json: documents have them as they came. */
static void test_words_of_a_clock(void)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Status status = TUTTI__V1__STATUS__INIT;
	Tutti__V1__ClockModel clock = TUTTI__V1__CLOCK_MODEL__INIT;
	Tutti__V1__ClockStep step = TUTTI__V1__CLOCK_STEP__INIT, *steps[] = { &step };
	const struct {
		char **word;
		const char *good, *bad, *field;
	} words[] = {
		{ &clock.method, "stream", "guess", "clock.method" },
		{ &clock.grade, "C", "E", "clock.grade" },
		{ &step.kind, "takeover", "", "clock.steps.kind" },
		{ &step.kind, "rate", "doubt", "clock.steps.kind" },
	};

	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_STATUS;
	m.status = &status;
	status.clock = &clock;
	clock.steps = steps;
	clock.n_steps = 1;
	step.kind = (char *)"set";
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		*words[i].word = (char *)words[i].bad;
		check_status(&m, words[i].field);
		*words[i].word = (char *)words[i].good;
		check_status(&m, "");
	}
	clock.suspected = &step;
	check_status(&m, "");
	step.kind = (char *)"takeover"; /* which is announced, and never suspected */
	check_status(&m, "clock.steps.kind");
}

static void test_session_id(void)
{
	Tensorflow__ProfileRequest r = TENSORFLOW__PROFILE_REQUEST__INIT, *read;
	char name[LIMIT_CLIENT_SESSION + 2];
	uint8_t data[LIMIT_CLIENT_SESSION + 64];
	struct err e;

	memset(name, 'x', sizeof(name));
	name[LIMIT_CLIENT_SESSION + 1] = '\0';
	r.session_id = name;
	CHECK_EQ(profile_request_unpack(&read, data, tensorflow__profile_request__pack(&r, data),
					&e),
		 ERR_LIMIT);
	name[LIMIT_CLIENT_SESSION] = '\0';
	CHECK_OK(profile_request_unpack(&read, data, tensorflow__profile_request__pack(&r, data),
					&e),
		 e);
	tensorflow__profile_request__free_unpacked(read, NULL);
	r.session_id = (char *)"a\x01";
	CHECK_EQ(profile_request_unpack(&read, data, tensorflow__profile_request__pack(&r, data),
					&e),
		 ERR_LIMIT);
}

int main(void)
{
	test_empty_submessages();
	test_kinds();
	test_packed();
	test_malformed();
	test_largest_hello();
	test_words_of_a_clock();
	test_session_id();
	return 0;
}
