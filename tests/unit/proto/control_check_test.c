/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every field of every message that a peer may send, against a table of its rules. The messages are written byte by byte from
 * protobuf-c's descriptors: a message whose fields are all in order passes; with one field at each edge of its rule it
 * passes, and one step beyond it is refused with an error that names the field. A field without a row fails the test, and so does
 * a row without a field.
 */
#include "proto/control_check.h"

#include "base/buf.h"
#include "base/mem.h"
#include "proto/limits.h"
#include "tests/lib/check.h"

#define TIME	 LIMIT_TIME_NS
#define DURATION LIMIT_DURATION_NS
#define DAY_NS	 INT64_C(86400000000000)
#define FILES	 LIMIT_HOST_FILES
#define BYTES	 (LIMIT_HOST_FILES * LIMIT_XSPACE_FILE_BYTES)
#define SESSION	 "2026_11_29_00_48_56_abc123"
#define ID64	 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

enum rule {
	ANY, /* any value passes */
	NUMBER, /* from min to max */
	TEXT, /* clean UTF-8 of min to max bytes */
	ONE_OF, /* the texts of `good`, separated by '|'; those of `bad` are refused, and so is any other word */
	SIZE, /* bytes: min to max of them */
	TIMES, /* repeated: min to max of them */
};

/*
 * The first value that a rule lets pass is in the message while other fields are tried. "Message.field" is the rule in all
 * places where the message is; "Message.field.field" only in that one; "Message.field[]" is how many there may be.
 */
static const struct row {
	const char *field;
	enum rule rule;
	int64_t min, max;
	bool is_bounded; /* what is longer than max is no message any more */
	const char *good, *bad;
	const char *as; /* what the error calls it; NULL = the field's name */
	const char *says; /* or what it says instead */
} rows[] = {
	/* ---- agent -> aggregator ---- */
	{ "Hello.host", .rule = ONE_OF, .good = "host-a|0|A..b_c", .bad = "|.a|a/b|ALL_HOSTS|a:1",
	  .says = "host name" },
	{ "Hello.version", .rule = TEXT, .max = 64 },
	{ "Hello.boot_id", .rule = TEXT, .max = 64 },
	{ "Hello.instance", .rule = ANY },
	{ "Hello.labels[]", .rule = TIMES, .max = LIMIT_LABELS },
	{ "LabelsEntry.key", .rule = TEXT, .max = LIMIT_LABEL_BYTES, .as = "labels.key" },
	{ "LabelsEntry.value", .rule = TEXT, .max = LIMIT_LABEL_BYTES, .as = "labels.value" },
	{ "Hello.tracers[]", .rule = TIMES, .max = LIMIT_TRACERS },
	{ "Hello.profiler_address", .rule = TEXT, .max = LIMIT_LABEL_BYTES },
	{ "Hello.held[]", .rule = TIMES, .max = 2 * LIMIT_CAPTURES },
	{ "Hello.settings[]", .rule = TIMES, .max = LIMIT_TRACER_SETTINGS },
	{ "Hello.jobs[]", .rule = TIMES, .max = LIMIT_JOBS },
	{ "Hello.more_jobs", .rule = ANY },

	{ "Job.pid", .rule = NUMBER, .max = INT32_MAX, .as = "jobs.pid" },
	{ "Job.command", .rule = TEXT, .max = LIMIT_LABEL_BYTES, .as = "jobs.command" },
	{ "Job.framework", .rule = TEXT, .max = 64, .as = "jobs.framework" },
	{ "Job.port", .rule = NUMBER, .max = 65535, .as = "jobs.port" },
	{ "Job.address", .rule = TEXT, .max = LIMIT_LABEL_BYTES, .as = "jobs.address" },
	{ "Job.state", .rule = ONE_OF, .good = "ready|probing|no-profiler|configured",
	  .bad = "|READY", .as = "jobs.state" },

	{ "TracerSetting.tracer", .rule = ONE_OF, .good = "cpu|C_p-U9", .bad = "|c.u|c u|\xc3\xa4",
	  .as = "settings.tracer" },
	{ "TracerSetting.name", .rule = ONE_OF, .good = "max_depth|M-1", .bad = "|a.b|a=b|\x01",
	  .as = "settings.name" },
	{ "TracerSetting.type", .rule = ONE_OF, .good = "int|bool|text", .bad = "|float|in",
	  .as = "settings.type" },
	{ "TracerSetting.min", .rule = ONE_OF, .good = "0|-5|3", .bad = "4|9",
	  .as = "settings.min" },
	{ "TracerSetting.max", .rule = ONE_OF, .good = "3|99", .bad = "2|1",
	  .as = "settings.value" },
	{ "TracerSetting.value", .rule = ONE_OF, .good = "3|0", .bad = "4|-1",
	  .as = "settings.value" },
	{ "TracerSetting.help", .rule = TEXT, .min = 1, .max = LIMIT_LABEL_BYTES,
	  .as = "settings.help" },

	{ "Held.session", .rule = ONE_OF, .good = SESSION,
	  .bad = "|../../../../../../../../..|2026_11_29_00_48_56_abc12" },
	{ "Held.state", .rule = ONE_OF, .good = "armed|running|gathering|uploading|stored|failed",
	  .bad = "|complete", .as = "held.state" },
	{ "Held.instance", .rule = ANY },
	{ "Held.bytes", .rule = ANY },
	{ "Held.lease_ns", .rule = NUMBER, .max = TIME, .as = "held.lease_ns" },

	{ "TracerState.name", .rule = TEXT, .min = 1, .max = 64, .as = "tracers.name" },
	{ "TracerState.state", .rule = ONE_OF, .good = "ok|degraded|off", .bad = "|failed",
	  .as = "tracers.state" },
	{ "TracerState.reason", .rule = TEXT, .max = 1024, .as = "tracers.reason" },
	{ "TracerState.errno_value", .rule = ANY },
	{ "TracerState.lead_ns", .rule = NUMBER, .max = LIMIT_TRACER_LEAD_NS,
	  .as = "tracers.lead_ns" },
	{ "TracerState.begin_ns", .rule = NUMBER, .max = TIME, .as = "tracers.begin_ns" },
	{ "TracerState.counts_steps", .rule = ANY },

	{ "Status.tracers[]", .rule = TIMES, .max = LIMIT_TRACERS },
	{ "Status.held[]", .rule = TIMES, .max = 2 * LIMIT_CAPTURES },
	{ "Status.jobs[]", .rule = TIMES, .max = LIMIT_JOBS },
	{ "Status.more_jobs", .rule = ANY },

	{ "ClockModel.calibrated", .rule = ANY },
	{ "ClockModel.offset_ns", .rule = NUMBER, .min = -TIME, .max = TIME,
	  .as = "clock.offset_ns" },
	{ "ClockModel.bound_ns", .rule = NUMBER, .max = TIME, .as = "clock.bound_ns" },
	{ "ClockModel.rtt_min_ns", .rule = NUMBER, .max = TIME, .as = "clock.rtt_min_ns" },
	{ "ClockModel.probes", .rule = ANY },
	{ "ClockModel.rate_ppb", .rule = NUMBER, .min = -1000000000, .max = 1000000000,
	  .as = "clock.rate_ppb" },
	{ "ClockModel.jitter_ns", .rule = NUMBER, .max = TIME, .as = "clock.jitter_ns" },
	{ "ClockModel.method", .rule = ONE_OF, .good = "|udp-kernel|udp-user|stream", .bad = "tcp",
	  .as = "clock.method" },
	{ "ClockModel.grade", .rule = ONE_OF, .good = "|A|B|C|D|X", .bad = "E|a",
	  .as = "clock.grade" },
	{ "ClockModel.steps[]", .rule = TIMES, .max = LIMIT_CLOCK_STEPS, .as = "clock.steps" },
	{ "ClockModel.steps_seen", .rule = ANY },
	{ "ClockModel.wall_synced", .rule = ANY },
	{ "ClockModel.wall_error_ns", .rule = NUMBER, .max = TIME, .as = "clock.wall_error_ns" },
	{ "ClockModel.earlier_ns", .rule = NUMBER, .max = TIME, .as = "clock.earlier_ns" },
	{ "ClockModel.later_ns", .rule = NUMBER, .max = TIME, .as = "clock.later_ns" },
	{ "ClockModel.rate_known", .rule = ANY },
	{ "ClockModel.suspected_known_ns", .rule = NUMBER, .min = -TIME, .max = TIME,
	  .as = "clock.suspected_known_ns" },
	{ "ClockStep.kind", .rule = ONE_OF,
	  .good = "set|suspend|step|clocksource|moved|takeover|rate", .bad = "|sets",
	  .as = "clock.steps.kind" },
	{ "ClockModel.suspected.kind", .rule = ONE_OF, .good = "step|rate", .bad = "|set|suspend",
	  .as = "clock.steps.kind" },
	{ "ClockStep.from_ns", .rule = NUMBER, .min = -TIME, .max = TIME,
	  .as = "clock.steps.from_ns" },
	{ "ClockStep.to_ns", .rule = NUMBER, .min = -TIME, .max = TIME, .as = "clock.steps.to_ns" },
	{ "ClockStep.delta_ns", .rule = ANY },

	{ "Steps.known", .rule = ANY },
	{ "Steps.step", .rule = NUMBER, .max = LIMIT_STEP, .as = "steps.step" },
	{ "Steps.at_ns", .rule = NUMBER, .max = TIME, .as = "steps.at_ns" },
	{ "Steps.period_ns", .rule = NUMBER, .max = DAY_NS, .as = "steps.period_ns" },
	{ "Steps.jitter_ns", .rule = NUMBER, .max = DAY_NS, .as = "steps.jitter_ns" },
	{ "Steps.counted", .rule = ANY },

	{ "Armed.session", .rule = ONE_OF, .good = SESSION, .bad = "|2026" },
	{ "Armed.bound_ns", .rule = NUMBER, .max = TIME },
	{ "Armed.lead_ns", .rule = NUMBER, .min = -TIME, .max = TIME },

	{ "Refused.session", .rule = ONE_OF, .good = SESSION, .bad = "|2026" },
	{ "Refused.reason", .rule = TEXT, .max = 64 },
	{ "Refused.detail", .rule = TEXT, .max = 1024 },

	{ "Progress.session", .rule = ONE_OF, .good = SESSION, .bad = "|2026" },
	{ "Progress.state", .rule = ONE_OF, .good = "running|gathering|uploading",
	  .bad = "|armed" },
	{ "Progress.bytes_total", .rule = NUMBER, .max = BYTES },
	{ "Progress.bytes_done", .rule = NUMBER, .max = BYTES },
	{ "Progress.takes_grant", .rule = ANY },
	{ "Progress.crc32c", .rule = ANY },

	{ "HostResult.session", .rule = ONE_OF, .good = SESSION, .bad = "|2026" },
	{ "HostResult.has_file", .rule = ANY },
	{ "HostResult.reason", .rule = TEXT, .max = 64 },
	{ "HostResult.detail", .rule = TEXT, .max = 1024 },
	{ "HostResult.events", .rule = NUMBER, .max = INT64_MAX },
	{ "HostResult.bytes", .rule = NUMBER, .max = BYTES },
	{ "HostResult.tracers[]", .rule = TIMES, .max = LIMIT_TRACERS },
	{ "HostResult.t0_ns", .rule = NUMBER, .max = TIME },
	{ "HostResult.files[]", .rule = TIMES, .min = 1, .max = 1,
	  .says = "1 checksums" }, /* as many as checksums: see below */
	{ "HostResult.files", .rule = NUMBER, .max = LIMIT_XSPACE_FILE_BYTES },
	{ "HostResult.crc32c[]", .rule = TIMES, .min = 1, .max = 1, .says = "1 files" },
	{ "HostResult.crc32c", .rule = ANY },
	{ "HostResult.observations", .rule = SIZE, .max = LIMIT_OBSERVATION_BYTES },
	{ "HostResult.put", .rule = ANY },
	/* of these control_check_steps_seen() judges */
	{ "StepsSeen.first", .rule = NUMBER, .max = LIMIT_STEP, .as = "steps.first" },
	{ "StepsSeen.last", .rule = NUMBER, .min = -1, .max = LIMIT_STEP, .as = "steps.last" },
	{ "StepsSeen.first_at_ns", .rule = NUMBER, .max = DURATION, .as = "steps.first_at_ns" },
	{ "StepsSeen.end_at_ns", .rule = NUMBER, .max = DURATION, .as = "steps.end_at_ns" },

	{ "TracerReport.name", .rule = TEXT, .min = 1, .max = 64, .as = "tracers.name" },
	{ "TracerReport.state", .rule = ONE_OF, .good = "ok|degraded|failed|off",
	  .bad = "|complete", .as = "tracers.state" },
	{ "TracerReport.reason", .rule = TEXT, .max = 64, .as = "tracers.reason" },
	{ "TracerReport.detail", .rule = TEXT, .max = 1024, .as = "tracers.detail" },
	{ "TracerReport.lost", .rule = NUMBER, .max = INT64_MAX, .as = "tracers.lost" },

	{ "Ask.id", .rule = ANY },
	{ "Ask.verb", .rule = ONE_OF, .good = "start|stop|snapshot", .bad = "|delete" },
	{ "Ask.session", .rule = ONE_OF, .good = "|" SESSION, .bad = "2026" },
	{ "Ask.hosts", .rule = TEXT, .max = LIMIT_LOCAL_BYTES },
	{ "Ask.duration_ns", .rule = NUMBER, .max = DURATION },
	{ "Ask.run", .rule = ONE_OF, .good = "|team/exp-1", .bad = "/a|a/../b|plugins",
	  .says = "run name" },
	{ "Ask.token", .rule = TEXT, .max = 16384 },
	{ "Ask.ending_at_ns", .rule = NUMBER, .max = TIME },

	{ "Probe.packet", .rule = SIZE, .min = 128, .max = 128, .as = "probe.packet" },
	{ "Leaving.back_within_ns", .rule = NUMBER, .max = LIMIT_BACK_NS },

	/* ---- aggregator -> agent ---- */
	{ "Welcome.clock_epoch", .rule = ANY },
	{ "Welcome.probe_port", .rule = NUMBER, .min = 1, .max = 65535 },
	{ "Welcome.probe_cookie", .rule = ANY },
	{ "Welcome.probe_key", .rule = SIZE, .min = 16, .max = 16 },
	{ "Welcome.term", .rule = ANY },
	{ "Welcome.former_epochs", .rule = ANY },
	{ "Welcome.former_epochs[]", .rule = ANY },

	{ "Arm.session", .rule = ONE_OF, .good = SESSION, .bad = "|2026" },
	{ "Arm.t0_ns", .rule = NUMBER, .min = 1, .max = TIME },
	{ "Arm.duration_ns", .rule = NUMBER, .min = 1, .max = DURATION },
	{ "Arm.profile_options", .rule = SIZE, .max = LIMIT_OPTIONS_BYTES },
	{ "Arm.tracers", .rule = TEXT, .max = 64 },
	{ "Arm.tracers[]", .rule = TIMES, .max = LIMIT_TRACERS },
	{ "Arm.upload_deadline_ns", .rule = NUMBER, .min = 1, .max = TIME },
	{ "Arm.settings[]", .rule = TIMES, .max = LIMIT_SETTINGS },
	{ "SettingsEntry.key", .rule = TEXT, .max = 1024, .as = "settings.key" },
	{ "SettingsEntry.value", .rule = TEXT, .max = 1024, .as = "settings.value" },
	{ "Arm.gather_by_ns", .rule = NUMBER, .max = TIME },
	{ "Arm.notes", .rule = TEXT, .max = 1024 },
	{ "Arm.notes[]", .rule = TIMES, .max = LIMIT_NOTES },
	{ "Arm.probe_gap_ms", .rule = NUMBER, .max = LIMIT_PROBE_GAP_MS },

	{ "Stop.session", .rule = ONE_OF, .good = SESSION, .bad = "|2026" },
	{ "Stop.t1_ns", .rule = NUMBER, .min = 1, .max = TIME },
	{ "Stop.gather_by_ns", .rule = NUMBER, .max = TIME },

	{ "Cancel.session", .rule = ONE_OF, .good = SESSION, .bad = "|2026" },
	{ "Release.session", .rule = ONE_OF, .good = SESSION, .bad = "|2026" },

	{ "Upload.session", .rule = ONE_OF, .good = SESSION, .bad = "|2026" },
	{ "Upload.deadline_ns", .rule = NUMBER, .max = TIME },
	{ "Upload.at_once", .rule = ANY },
	{ "Grant.file", .rule = ANY },
	{ "Grant.method", .rule = TEXT, .max = 64, .as = "grant.method" },
	{ "Grant.url", .rule = TEXT, .max = LIMIT_GRANT_BYTES, .as = "grant.url" },
	{ "Grant.headers", .rule = TEXT, .max = LIMIT_GRANT_BYTES, .as = "grant.headers" },
	{ "Grant.headers[]", .rule = TIMES, .max = 64, .as = "grant.headers" },
	{ "Grant.life_ns", .rule = NUMBER, .max = TIME, .as = "grant.life_ns" },

	{ "Answer.id", .rule = ANY },
	{ "Answer.ok", .rule = ANY },
	{ "Answer.session", .rule = ONE_OF, .good = "|" SESSION, .bad = "2026" },
	{ "Answer.detail", .rule = TEXT, .max = 1024 },

	{ "StepWatch.for_ns", .rule = NUMBER, .max = 2 * DURATION },
	{ "StepWatch.gap_ns", .rule = NUMBER, .max = DURATION },

	{ "Pods.node", .rule = TEXT, .max = LIMIT_POD_TEXT_BYTES, .as = "pods" },
	{ "Pods.pods[]", .rule = TIMES, .max = LIMIT_PODS },
	{ "Pods.left_out", .rule = ANY },
	{ "Pod.uid", .rule = TEXT, .min = 1, .max = LIMIT_POD_TEXT_BYTES, .says = "field pods" },
	{ "Pod.name", .rule = TEXT, .min = 1, .max = LIMIT_POD_TEXT_BYTES, .says = "field pods" },
	{ "Pod.namespace", .rule = TEXT, .max = LIMIT_POD_TEXT_BYTES, .as = "pods" },
	{ "Pod.job", .rule = TEXT, .max = LIMIT_POD_TEXT_BYTES, .as = "pods" },
	{ "Pod.rank", .rule = ONE_OF, .good = "|0|123456789", .bad = "-1|1 |x|1234567890",
	  .as = "pods.rank" },
	{ "Pod.containers", .rule = ONE_OF, .good = ID64 " main|" ID64 " ",
	  .bad = ID64 "|" ID64 "0 main|x" ID64 "|main", .as = "pods.containers" },
	{ "Pod.containers[]", .rule = TIMES, .max = LIMIT_POD_CONTAINERS, .as = "pods.containers" },
	{ "Pod.opted_out", .rule = ANY },
	{ "Pod.profiler_port", .rule = NUMBER, .max = 65535, .as = "pods.profiler_port" },
	{ "Pod.address", .rule = TEXT, .max = LIMIT_POD_TEXT_BYTES, .as = "pods" },

	/* ---- process -> agent ---- */
	{ "LocalMark.text", .rule = TEXT, .max = LIMIT_MARK_BYTES },
	{ "LocalMark.raw_ns", .rule = NUMBER, .max = TIME },
	{ "LocalMark.pid", .rule = ANY },
	{ "LocalMark.tid", .rule = ANY },
	{ "LocalStart.hosts", .rule = TEXT, .max = 65000, .is_bounded = true },
	{ "LocalStart.duration_ns", .rule = NUMBER, .max = DURATION },
	{ "LocalStart.run", .rule = ONE_OF, .good = "|team/exp-1", .bad = "/a|a/../b|plugins",
	  .says = "run name" },
	{ "LocalStart.token", .rule = TEXT, .max = 16384 },
	{ "LocalStop.session", .rule = ONE_OF, .good = SESSION, .bad = "|2026" },
	{ "LocalStop.token", .rule = TEXT, .max = 16384 },
};

static bool is_used[ARRAY_SIZE(rows)];

/* The rule of a field in `place`, which is "Message.field" above this message. */
static const struct row *find_row(const char *place, const ProtobufCMessageDescriptor *type,
				  const ProtobufCFieldDescriptor *f, const char *suffix)
{
	const struct row *found = NULL;
	char key[2][160];

	snprintf(key[0], sizeof(key[0]), "%s.%s%s", type->short_name, f->name, suffix);
	snprintf(key[1], sizeof(key[1]), "%s.%s%s", place, f->name, suffix);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (!strcmp(rows[i].field, key[1]) || (!found && !strcmp(rows[i].field, key[0])))
			found = &rows[i];
	if (!found) {
		fprintf(stderr, "%s has no row: what may it be?\n", key[0]);
		exit(1);
	}
	is_used[found - rows] = true;
	return found;
}

/* ---- bytes ---- */

/* What one field of the message is instead of its usual value. */
struct odd {
	const ProtobufCFieldDescriptor *field; /* NULL = none */
	char place[100];
	int64_t times; /* repeated: so many; -1 = once, with this value */
	bool is_left_out;
	uint64_t number;
	const char *text;
	size_t len;
};

static void put_tag(struct buf *out, const ProtobufCFieldDescriptor *f, unsigned int wire)
{
	buf_add_varint(out, (uint64_t)f->id << 3 | wire);
}

static void put_text(struct buf *out, const ProtobufCFieldDescriptor *f, const void *data,
		     size_t len)
{
	put_tag(out, f, 2);
	buf_add_varint(out, len);
	buf_add(out, data, len);
}

static void put_number(struct buf *out, const ProtobufCFieldDescriptor *f, uint64_t v)
{
	bool is_fixed = f->type == PROTOBUF_C_TYPE_FIXED64;

	put_tag(out, f, is_fixed ? 1 : 0);
	if (is_fixed)
		buf_add(out, &v, sizeof(v));
	else
		buf_add_varint(out, v);
}

static bool is_text(const ProtobufCFieldDescriptor *f)
{
	return f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_BYTES;
}

static char filler[LIMIT_CONTROL_BYTES];

/* Zeros and empty texts only where they are elements: 512 pods with all their fields would be too many. */
static void put_usual(struct buf *out, const struct row *row, const ProtobufCFieldDescriptor *f)
{
	bool is_word = row->rule == ONE_OF, is_element = f->label == PROTOBUF_C_LABEL_REPEATED;
	const char *text = is_word ? row->good : filler;
	size_t len = is_word ? strcspn(text, "|") : (size_t)row->min;
	uint64_t v = is_word ? strtoull(text, NULL, 10) : (uint64_t)row->min;

	if (is_text(f) ? len || is_element : v || is_element) {
		if (is_text(f))
			put_text(out, f, text, len);
		else
			put_number(out, f, v);
	}
}

static void put_message(struct buf *out, const ProtobufCMessageDescriptor *type, const char *place,
			const struct odd *odd);

static bool is_odd(const struct odd *odd, const ProtobufCFieldDescriptor *f, const char *place)
{
	return odd->field == f && !strcmp(odd->place, place);
}

static void put_field(struct buf *out, const ProtobufCMessageDescriptor *type,
		      const ProtobufCFieldDescriptor *f, const char *place, const struct odd *odd)
{
	char below[100];
	struct buf inner = BUF_INIT;

	if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
		snprintf(below, sizeof(below), "%s.%s", type->short_name, f->name);
		put_message(&inner, f->descriptor, below, odd);
		put_text(out, f, inner.data, inner.len);
		buf_release(&inner);
	} else if (!is_odd(odd, f, place) || odd->times >= 0) {
		put_usual(out, find_row(place, type, f, ""), f);
	} else if (is_text(f)) {
		put_text(out, f, odd->text, odd->len);
	} else {
		put_number(out, f, odd->number);
	}
}

static void put_message(struct buf *out, const ProtobufCMessageDescriptor *type, const char *place,
			const struct odd *odd)
{
	for (unsigned int i = 0; i < type->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &type->fields[i];
		bool here = is_odd(odd, f, place);
		int64_t n = here && odd->is_left_out ? 0 : here && odd->times >= 0 ? odd->times : 1;

		for (int64_t k = 0; k < n; k++)
			put_field(out, type, f, place, odd);
	}
}

/* ---- judging ---- */

struct link {
	const ProtobufCMessageDescriptor *type;
	int (*unpack)(ProtobufCMessage **out, const void *data, size_t len, struct err *e);
};

static int unpack_agent(ProtobufCMessage **out, const void *data, size_t len, struct err *e)
{
	Tutti__V1__AgentMessage *m = NULL;
	int rc = control_unpack_from_agent(&m, data, len, e);

	/* wrong steps do not make the result wrong */
	if (!rc && m->kind_case == TUTTI__V1__AGENT_MESSAGE__KIND_RESULT && m->result->steps &&
	    (rc = control_check_steps_seen(m->result->steps, e)))
		protobuf_c_message_free_unpacked((ProtobufCMessage *)m, NULL);
	else
		*out = (ProtobufCMessage *)m;
	return rc;
}

static int unpack_aggregator(ProtobufCMessage **out, const void *data, size_t len, struct err *e)
{
	Tutti__V1__AggregatorMessage *m = NULL;
	int rc = control_unpack_from_aggregator(&m, data, len, e);

	*out = (ProtobufCMessage *)m;
	return rc;
}

static int unpack_local(ProtobufCMessage **out, const void *data, size_t len, struct err *e)
{
	Tutti__V1__LocalRequest *m = NULL;
	int rc = control_unpack_local(&m, data, len, e);

	*out = (ProtobufCMessage *)m;
	return rc;
}

static size_t n_passed, n_refused;

/* The message of this kind with this odd field; `said` NULL: it passes. */
static void judge(const struct link *link, const ProtobufCFieldDescriptor *kind,
		  const struct odd *odd, const char *said, const char *what)
{
	struct buf bytes = BUF_INIT;
	ProtobufCMessage *m = NULL;
	struct err e = { 0 };
	int rc;

	put_field(&bytes, link->type, kind, "", odd);
	rc = link->unpack(&m, bytes.data, bytes.len, &e);
	if (rc != (said ? ERR_INVALID : 0) || (said && !strstr(e.msg, said))) {
		fprintf(stderr, "%s, %s%s%s %.80s: %s (%s), expected %s\n", kind->name, odd->place,
			odd->field ? "." : "", odd->field ? odd->field->name : "", what,
			rc ? e.msg : "passes", err_name(rc), said ? said : "that it passes");
		exit(1);
	}
	CHECK(rc || m);
	if (!rc)
		protobuf_c_message_free_unpacked(m, NULL);
	*(said ? &n_refused : &n_passed) += 1;
	buf_release(&bytes);
}

struct trial {
	const struct link *link;
	const ProtobufCFieldDescriptor *kind;
	struct odd odd;
	const struct row *row;
};

/* What the error has in it; NULL = there is none. */
static const char *said_by(const struct trial *t, bool is_fine)
{
	static char text[200];

	if (is_fine || t->row->says)
		return is_fine ? NULL : t->row->says;
	snprintf(text, sizeof(text), "field %s is out of range or malformed",
		 t->row->as ? t->row->as : t->odd.field->name);
	return text;
}

static void try_number(struct trial *t, int64_t v, bool is_fine)
{
	t->odd.number = (uint64_t)v;
	judge(t->link, t->kind, &t->odd, said_by(t, is_fine), "as a number at its edge");
}

static void try_text(struct trial *t, const char *text, size_t len, bool is_fine)
{
	t->odd.text = text;
	t->odd.len = len;
	judge(t->link, t->kind, &t->odd, said_by(t, is_fine), text);
}

static void try_words(struct trial *t, const char *words, bool is_fine)
{
	for (const char *at = words;; at++) {
		size_t len = strcspn(at, "|");

		if (is_text(t->odd.field))
			try_text(t, at, len, is_fine);
		else
			try_number(t, strtoll(at, NULL, 10), is_fine);
		at += len;
		if (!*at)
			return;
	}
}

/* One step beyond the largest is another number of this type. */
static bool has_beyond(const ProtobufCFieldDescriptor *f, int64_t max)
{
	if (f->type == PROTOBUF_C_TYPE_UINT32)
		return max < UINT32_MAX;
	return f->type == PROTOBUF_C_TYPE_UINT64 || max < INT64_MAX;
}

static void try_numbers(struct trial *t)
{
	bool is_signed = t->odd.field->type == PROTOBUF_C_TYPE_INT64;

	try_number(t, t->row->min, true);
	try_number(t, t->row->max, true);
	if (is_signed || t->row->min)
		try_number(t, t->row->min - 1, false);
	if (has_beyond(t->odd.field, t->row->max))
		try_number(t, (int64_t)((uint64_t)t->row->max + 1), false);
	if (is_signed) {
		try_number(t, INT64_MIN, false);
		try_number(t, INT64_MAX, false);
	}
}

static void try_texts(struct trial *t)
{
	size_t min = (size_t)t->row->min, max = (size_t)t->row->max;

	try_text(t, filler, min, true);
	try_text(t, filler, max, true);
	if (min)
		try_text(t, filler, min - 1, false);
	if (!t->row->is_bounded)
		try_text(t, filler, max + 1, false);
	if (t->row->rule == SIZE)
		return;
	try_text(t, "tab\tline\n\xc3\xa4", 11, true);
	try_text(t, "bell\x07", 5, false);
	try_text(t, "del\x7f", 4, false);
	try_text(t, "cut\xc3", 4, false);
	try_text(t, "latin\xe4 1", 8, false);
}

static void try_times(struct trial *t)
{
	int64_t min = t->row->min, max = t->row->max;

	for (int64_t n = min ? min - 1 : 0; n <= max + 1; n += n + 2 < max ? max - n - 1 : 1) {
		t->odd.times = n;
		judge(t->link, t->kind, &t->odd, said_by(t, n >= min && n <= max), "so often");
	}
}

static void try_row(struct trial *t)
{
	switch (t->row->rule) {
	case ANY:
		break;
	case NUMBER:
		try_numbers(t);
		break;
	case TEXT:
	case SIZE:
		try_texts(t);
		break;
	case ONE_OF:
		try_words(t, t->row->good, true);
		try_words(t, t->row->bad, false);
		break;
	case TIMES:
		try_times(t);
		break;
	}
}

/* Each field of this message and of those in it, wherever it is in a message of this kind. */
static void try_message(const struct link *link, const ProtobufCFieldDescriptor *kind,
			const ProtobufCMessageDescriptor *type, const char *place)
{
	for (unsigned int i = 0; i < type->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &type->fields[i];
		struct trial t = { link, kind, { .field = f, .times = -1 }, NULL };
		char below[100];

		snprintf(t.odd.place, sizeof(t.odd.place), "%s", place);
		if (f->label == PROTOBUF_C_LABEL_REPEATED) {
			t.row = find_row(place, type, f, "[]");
			try_row(&t);
			t.odd.times = -1;
		}
		if (f->type != PROTOBUF_C_TYPE_MESSAGE) {
			t.row = find_row(place, type, f, "");
			try_row(&t);
			continue;
		}
		if (f->label != PROTOBUF_C_LABEL_REPEATED) {
			t.odd.is_left_out = true;
			judge(link, kind, &t.odd, NULL, "left out");
		}
		snprintf(below, sizeof(below), "%s.%s", type->short_name, f->name);
		try_message(link, kind, f->descriptor, below);
	}
}

static const struct link links[] = {
	{ &tutti__v1__agent_message__descriptor, unpack_agent },
	{ &tutti__v1__aggregator_message__descriptor, unpack_aggregator },
	{ &tutti__v1__local_request__descriptor, unpack_local },
};

static void test_fields(void)
{
	static const struct odd none = { .times = -1 };

	memset(filler, 'a', sizeof(filler));
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		for (unsigned int k = 0; k < links[i].type->n_fields; k++) {
			const ProtobufCFieldDescriptor *kind = &links[i].type->fields[k];
			char place[100];

			snprintf(place, sizeof(place), "%s.%s", links[i].type->short_name,
				 kind->name);
			judge(&links[i], kind, &none, NULL, "as it should be");
			try_message(&links[i], kind, kind->descriptor, place);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (!is_used[i])
			fprintf(stderr, "row %s: there is no such field\n", rows[i].field);
		CHECK(is_used[i]);
	}
	CHECK(n_passed > 300 && n_refused > 500);
}

/* ---- rules about more than one field ---- */

static int unpack_from_agent(const Tutti__V1__AgentMessage *m, struct err *e)
{
	size_t len = protobuf_c_message_get_packed_size(&m->base);
	uint8_t *bytes = xmalloc(len + 1);
	Tutti__V1__AgentMessage *out = NULL;
	int rc;

	protobuf_c_message_pack(&m->base, bytes);
	rc = control_unpack_from_agent(&out, bytes, len, e);
	if (!rc)
		protobuf_c_message_free_unpacked(&out->base, NULL);
	free(bytes);
	return rc;
}

static void test_files(void)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__HostResult r = TUTTI__V1__HOST_RESULT__INIT;
	uint64_t files[FILES + 1] = { 0 };
	uint32_t crcs[FILES + 1] = { 0 };
	struct err e;

	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_RESULT;
	m.result = &r;
	r.session = (char *)(uintptr_t)SESSION;
	r.files = files;
	r.crc32c = crcs;
	for (size_t n = 0; n <= FILES; n += FILES / 2) {
		r.n_files = r.n_crc32c = n;
		CHECK_OK(unpack_from_agent(&m, &e), e);
	}
	r.n_files = r.n_crc32c = FILES + 1;
	CHECK_EQ(unpack_from_agent(&m, &e), ERR_INVALID);
	CHECK(strstr(e.msg, "65 files"));
	r.n_files = r.n_crc32c = 2;
	files[1] = LIMIT_XSPACE_FILE_BYTES + 1; /* not only the first one is looked at */
	CHECK_EQ(unpack_from_agent(&m, &e), ERR_INVALID);
}

/* Steps out of range are for the caller to drop: the result itself passes. */
static void test_steps_seen(void)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__HostResult r = TUTTI__V1__HOST_RESULT__INIT;
	Tutti__V1__StepsSeen s = TUTTI__V1__STEPS_SEEN__INIT;
	struct err e;

	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_RESULT;
	m.result = &r;
	r.session = (char *)(uintptr_t)SESSION;
	r.steps = &s;
	s.first = -1;
	s.end_at_ns = INT64_MIN;
	CHECK_OK(unpack_from_agent(&m, &e), e);
	CHECK_EQ(control_check_steps_seen(&s, &e), ERR_INVALID);
}

/* A setting's default is between its edges even where these are the edges of the type. */
static void test_setting(void)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Hello h = TUTTI__V1__HELLO__INIT;
	Tutti__V1__TracerSetting s = TUTTI__V1__TRACER_SETTING__INIT, *list = &s;
	char name[66];
	struct err e;

	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_HELLO;
	m.hello = &h;
	h.host = (char *)(uintptr_t) "a";
	h.settings = &list;
	h.n_settings = 1;
	s.tracer = s.name = s.help = (char *)(uintptr_t) "a";
	s.type = (char *)(uintptr_t) "int";
	s.min = s.value = INT64_MIN;
	s.max = INT64_MAX;
	CHECK_OK(unpack_from_agent(&m, &e), e);
	s.min = 1;
	s.max = 0;
	s.value = 1;
	CHECK_EQ(unpack_from_agent(&m, &e), ERR_INVALID);
	CHECK(strstr(e.msg, "settings.min"));
	s.max = 1;
	memset(name, 'n', 65);
	name[64] = '\0';
	s.name = name;
	CHECK_OK(unpack_from_agent(&m, &e), e);
	name[64] = 'n';
	name[65] = '\0';
	CHECK_EQ(unpack_from_agent(&m, &e), ERR_INVALID);
	CHECK(strstr(e.msg, "settings.name"));
}

/* The aggregator keeps the last Hello and Status of each host: 64 KiB, in which each item counts as 96 bytes more. */
static void test_kept(void)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Status s = TUTTI__V1__STATUS__INIT;
	Tutti__V1__TracerState t = TUTTI__V1__TRACER_STATE__INIT, *list[LIMIT_TRACERS];
	static char reason[1025];
	size_t len, room;
	struct err e;

	memset(reason, 'r', 1024);
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_STATUS;
	m.status = &s;
	t.name = (char *)(uintptr_t) "cpu";
	t.state = (char *)(uintptr_t) "off";
	t.reason = reason;
	for (size_t i = 0; i < LIMIT_TRACERS; i++)
		list[i] = &t;
	s.tracers = list;
	for (s.n_tracers = 1;; s.n_tracers++) {
		len = protobuf_c_message_get_packed_size(&m.base);
		room = (64 << 10) - 96 * s.n_tracers;
		if (len > room)
			break;
		CHECK_OK(unpack_from_agent(&m, &e), e);
		CHECK(s.n_tracers < LIMIT_TRACERS);
	}
	CHECK_EQ(unpack_from_agent(&m, &e), ERR_LIMIT);
	CHECK(strstr(e.msg, "the limit is 65536"));
	/* the same bytes in one text less: to the byte */
	reason[0] = '\0';
	len = protobuf_c_message_get_packed_size(&m.base);
	CHECK_OK(unpack_from_agent(&m, &e), e);
	memset(reason, 'r', 1024);
	while (protobuf_c_message_get_packed_size(&m.base) > (64 << 10) - 96 * s.n_tracers)
		s.n_tracers--;
	CHECK_OK(unpack_from_agent(&m, &e), e);
}

/* ---- what is no message, and what is of a later version ---- */

static void test_bytes(void)
{
	static uint8_t many[LIMIT_CONTROL_BYTES + 1];
	static const uint8_t later[] = { 0xfa, 0x7f, 1, 'x' }; /* field 2047, of one byte */
	static const uint8_t cut[] = { 0x0a, 5, 0x0a };
	struct buf bytes = BUF_INIT;
	ProtobufCMessage *m;
	struct err e;

	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		size_t limit = i == 2 ? LIMIT_LOCAL_BYTES : LIMIT_CONTROL_BYTES;

		CHECK_EQ(links[i].unpack(&m, "", 0, &e), ERR_INVALID);
		CHECK_EQ(links[i].unpack(&m, cut, sizeof(cut), &e), ERR_INVALID);
		CHECK_EQ(links[i].unpack(&m, many, limit + 1, &e), ERR_LIMIT);
		CHECK_OK(links[i].unpack(&m, later, sizeof(later), &e), e);
		if (!i)
			CHECK_EQ(((Tutti__V1__AgentMessage *)m)->kind_case, 0);
		protobuf_c_message_free_unpacked(m, NULL);
		for (size_t n = LIMIT_CONTROL_FIELDS; n <= LIMIT_CONTROL_FIELDS + 1; n++) {
			buf_reset(&bytes);
			for (size_t k = 0; k < n; k++)
				buf_add(&bytes, later, sizeof(later));
			CHECK_EQ(links[i].unpack(&m, bytes.data, bytes.len, &e),
				 n > LIMIT_CONTROL_FIELDS ? ERR_LIMIT : 0);
			if (n <= LIMIT_CONTROL_FIELDS)
				protobuf_c_message_free_unpacked(m, NULL);
		}
	}
	buf_release(&bytes);
}

/* An aggregator of before probes were signed sends no key. */
static void test_no_key(void)
{
	Tutti__V1__AggregatorMessage m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT, *out = NULL;
	Tutti__V1__Welcome w = TUTTI__V1__WELCOME__INIT;
	uint8_t bytes[64];
	struct err e;

	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_WELCOME;
	m.welcome = &w;
	w.probe_port = 7403;
	CHECK_OK(control_unpack_from_aggregator(&out, bytes,
						protobuf_c_message_pack(&m.base, bytes), &e),
		 e);
	CHECK_EQ(out->welcome->probe_port, 7403);
	CHECK_EQ(out->welcome->probe_key.len, 0);
	protobuf_c_message_free_unpacked(&out->base, NULL);
}

static void test_clean_text(void)
{
	CHECK(text_is_clean("", 0) && text_is_clean("abc", 3) && !text_is_clean("abc", 2));
	CHECK(text_is_clean("\xf0\x9f\x8e\xb5", 4) && !text_is_clean("\xf0\x9f\x8e", 4));
	CHECK(text_is_clean("a\tb\n", 9) && !text_is_clean("a\r", 9) &&
	      !text_is_clean("\x1b[1m", 9));
	CHECK(!text_is_clean("\xc2\x85", 9)); /* a control character of two bytes */
	CHECK(!text_is_clean("\xc0\x80", 9)); /* longer than it has to be */
}

int main(void)
{
	test_fields();
	test_files();
	test_steps_seen();
	test_setting();
	test_kept();
	test_bytes();
	test_no_key();
	test_clean_text();
	return 0;
}
