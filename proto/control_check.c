/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/control_check.h"

#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/secret.h"
#include "base/utf8.h"
#include "proto/limits.h"
#include "proto/message.h"
#include "proto/names.h"
#include "proto/pods_check.h"
#include "proto/probe.h"
#include "proto/setting.h"
#include "proto/siphash.h"

#define TEXT_BYTES 1024 /* details, reasons of a state */
#define WORD_BYTES 64 /* versions, names of tracers, typed reasons */
#define HELD	   (2 * LIMIT_CAPTURES)

#define HOST_BYTES_MAX (LIMIT_HOST_FILES * LIMIT_XSPACE_FILE_BYTES)
/* the rate of a clock that stands still, or runs twice as fast */
#define RATE_MAX_PPB INT64_C(1000000000)

/* Largest period of training steps: step numbers times periods cannot overflow. */
#define PERIOD_MAX_NS INT64_C(86400000000000)

/* ---- single values ---- */

bool text_is_clean(const char *s, size_t max)
{
	size_t len = strnlen(s, max + 1);
	const uint8_t *at = (const uint8_t *)s, *end = at + len;

	while (at < end && len <= max) {
		size_t n = utf8_len(at, (size_t)(end - at));

		if (!n || (utf8_is_control(at, n) && *at != '\t' && *at != '\n'))
			return false;
		at += n;
	}
	return len <= max;
}

static int bad(const char *field, struct err *e)
{
	return err_set(e, ERR_INVALID, "field %s is out of range or malformed", field);
}

static int check_text(const char *field, const char *s, size_t max, struct err *e)
{
	return text_is_clean(s, max) ? 0 : bad(field, e);
}

static int check_word(const char *field, const char *s, const char *const *words, struct err *e)
{
	while (*words && strcmp(*words, s))
		words++;
	return *words ? 0 : bad(field, e);
}

static int check_range(const char *field, int64_t v, int64_t min, int64_t max, struct err *e)
{
	return v >= min && v <= max ? 0 : bad(field, e);
}

static int check_count(const char *field, uint64_t v, uint64_t max, struct err *e)
{
	return v <= max ? 0 : bad(field, e);
}

/* As check_text, and not empty. */
static int check_name(const char *field, const char *s, size_t max, struct err *e)
{
	return *s ? check_text(field, s, max, e) : bad(field, e);
}

static int check_session(const char *name, struct err *e)
{
	return name_is_session(name) ? 0 : bad("session", e);
}

static int check_session_or_none(const char *name, struct err *e)
{
	return *name ? check_session(name, e) : 0;
}

static int check_run(const char *name, struct err *e)
{
	return *name ? name_check_run(name, e) : 0;
}

/* ---- parts of messages ---- */

static int check_states(size_t n, Tutti__V1__TracerState *const *states, struct err *e)
{
	static const char *const words[] = { "ok", "degraded", "off", NULL };
	int rc = check_range("tracers", (int64_t)n, 0, LIMIT_TRACERS, e);

	for (size_t i = 0; i < n && !rc; i++) {
		rc = check_name("tracers.name", states[i]->name, WORD_BYTES, e);
		if (!rc)
			rc = check_word("tracers.state", states[i]->state, words, e);
		if (!rc)
			rc = check_text("tracers.reason", states[i]->reason, TEXT_BYTES, e);
		if (!rc)
			rc = check_range("tracers.lead_ns", states[i]->lead_ns, 0,
					 LIMIT_TRACER_LEAD_NS, e);
		if (!rc)
			rc = check_range("tracers.begin_ns", states[i]->begin_ns, 0, LIMIT_TIME_NS,
					 e);
	}
	return rc;
}

static int check_jobs(size_t n, Tutti__V1__Job *const *jobs, struct err *e)
{
	static const char *const words[] = { "ready", "probing", "no-profiler", "configured",
					     NULL };
	int rc = check_range("jobs", (int64_t)n, 0, LIMIT_JOBS, e);

	for (size_t i = 0; i < n && !rc; i++) {
		rc = check_range("jobs.pid", jobs[i]->pid, 0, INT32_MAX, e);
		if (!rc)
			rc = check_text("jobs.command", jobs[i]->command, LIMIT_LABEL_BYTES, e);
		if (!rc)
			rc = check_text("jobs.framework", jobs[i]->framework, WORD_BYTES, e);
		if (!rc)
			rc = check_count("jobs.port", jobs[i]->port, UINT16_MAX, e);
		if (!rc)
			rc = check_text("jobs.address", jobs[i]->address, LIMIT_LABEL_BYTES, e);
		if (!rc)
			rc = check_word("jobs.state", jobs[i]->state, words, e);
	}
	return rc;
}

/* [A-Za-z0-9_-]+ */
static int check_identifier(const char *field, const char *s, struct err *e)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789_-";

	if (!*s || s[strspn(s, letters)])
		return bad(field, e);
	return check_text(field, s, WORD_BYTES, e);
}

static int check_tracer_setting(const Tutti__V1__TracerSetting *m, struct err *e)
{
	enum setting_kind kind;
	int rc = check_identifier("settings.tracer", m->tracer, e);

	if (!rc)
		rc = check_identifier("settings.name", m->name, e);
	if (!rc && !setting_kind_parse(m->type, &kind))
		rc = bad("settings.type", e);
	if (!rc && m->min > m->max)
		rc = bad("settings.min", e);
	if (!rc)
		rc = check_range("settings.value", m->value, m->min, m->max, e);
	return rc ? rc : check_name("settings.help", m->help, LIMIT_LABEL_BYTES, e);
}

static int check_tracer_settings(size_t n, Tutti__V1__TracerSetting *const *settings, struct err *e)
{
	int rc = check_range("settings", (int64_t)n, 0, LIMIT_TRACER_SETTINGS, e);

	for (size_t i = 0; i < n && !rc; i++)
		rc = check_tracer_setting(settings[i], e);
	return rc;
}

static int check_reports(size_t n, Tutti__V1__TracerReport *const *reports, struct err *e)
{
	static const char *const words[] = { "ok", "degraded", "failed", "off", NULL };
	int rc = check_range("tracers", (int64_t)n, 0, LIMIT_TRACERS, e);

	for (size_t i = 0; i < n && !rc; i++) {
		rc = check_name("tracers.name", reports[i]->name, WORD_BYTES, e);
		if (!rc)
			rc = check_word("tracers.state", reports[i]->state, words, e);
		if (!rc)
			rc = check_text("tracers.reason", reports[i]->reason, WORD_BYTES, e);
		if (!rc)
			rc = check_text("tracers.detail", reports[i]->detail, TEXT_BYTES, e);
		if (!rc)
			rc = check_count("tracers.lost", reports[i]->lost, INT64_MAX, e);
	}
	return rc;
}

/* `kinds` are those that docs/schema/clock.schema.json has in this place. */
static int check_clock_step(const Tutti__V1__ClockStep *m, const char *const *kinds, struct err *e)
{
	int rc = check_word("clock.steps.kind", m->kind, kinds, e);

	if (!rc)
		rc = check_range("clock.steps.from_ns", m->from_ns, -LIMIT_TIME_NS, LIMIT_TIME_NS,
				 e);
	if (!rc)
		rc = check_range("clock.steps.to_ns", m->to_ns, -LIMIT_TIME_NS, LIMIT_TIME_NS, e);
	return rc;
}

static int check_clock(const Tutti__V1__ClockModel *clock, struct err *e)
{
	static const char *const methods[] = { "", "udp-kernel", "udp-user", "stream", NULL };
	static const char *const grades[] = { "", "A", "B", "C", "D", "X", NULL };
	static const char *const kinds[] = { "set",   "suspend",  "step", "clocksource",
					     "moved", "takeover", "rate", NULL };
	static const char *const suspected[] = { "step", "rate", NULL };
	int rc;

	if (!clock)
		return 0;
	rc = check_range("clock.offset_ns", clock->offset_ns, -LIMIT_TIME_NS, LIMIT_TIME_NS, e);
	if (!rc)
		rc = check_range("clock.bound_ns", clock->bound_ns, 0, LIMIT_TIME_NS, e);
	if (!rc)
		rc = check_range("clock.rtt_min_ns", clock->rtt_min_ns, 0, LIMIT_TIME_NS, e);
	if (!rc)
		rc = check_range("clock.jitter_ns", clock->jitter_ns, 0, LIMIT_TIME_NS, e);
	if (!rc)
		rc = check_range("clock.earlier_ns", clock->earlier_ns, 0, LIMIT_TIME_NS, e);
	if (!rc)
		rc = check_range("clock.later_ns", clock->later_ns, 0, LIMIT_TIME_NS, e);
	if (!rc)
		rc = check_word("clock.method", clock->method, methods, e);
	if (!rc)
		rc = check_word("clock.grade", clock->grade, grades, e);
	if (!rc)
		rc = check_range("clock.steps", (int64_t)clock->n_steps, 0, LIMIT_CLOCK_STEPS, e);
	if (!rc)
		rc = check_range("clock.wall_error_ns", clock->wall_error_ns, 0, LIMIT_TIME_NS, e);
	if (!rc)
		rc = check_range("clock.rate_ppb", clock->rate_ppb, -RATE_MAX_PPB, RATE_MAX_PPB, e);
	for (size_t i = 0; i < clock->n_steps && !rc; i++)
		rc = check_clock_step(clock->steps[i], kinds, e);
	if (!rc && clock->suspected)
		rc = check_clock_step(clock->suspected, suspected, e);
	if (!rc)
		rc = check_range("clock.suspected_known_ns", clock->suspected_known_ns,
				 -LIMIT_TIME_NS, LIMIT_TIME_NS, e);
	return rc;
}

static int check_held(size_t n, Tutti__V1__Held *const *held, struct err *e)
{
	static const char *const words[] = { "armed",  "running", "gathering", "uploading",
					     "stored", "failed",  NULL };
	int rc = check_range("held", (int64_t)n, 0, HELD, e);

	for (size_t i = 0; i < n && !rc; i++) {
		rc = check_session(held[i]->session, e);
		if (!rc)
			rc = check_word("held.state", held[i]->state, words, e);
		if (!rc)
			rc = check_range("held.lease_ns", held[i]->lease_ns, 0, LIMIT_TIME_NS, e);
	}
	return rc;
}

static int check_steps(const Tutti__V1__Steps *m, struct err *e)
{
	int rc;

	if (!m)
		return 0;
	rc = check_range("steps.step", m->step, 0, LIMIT_STEP, e);
	if (!rc)
		rc = check_range("steps.at_ns", m->at_ns, 0, LIMIT_TIME_NS, e);
	if (!rc)
		rc = check_range("steps.period_ns", m->period_ns, 0, PERIOD_MAX_NS, e);
	return rc ? rc : check_range("steps.jitter_ns", m->jitter_ns, 0, PERIOD_MAX_NS, e);
}

int control_check_steps_seen(const Tutti__V1__StepsSeen *m, struct err *e)
{
	int rc = check_range("steps.first", m->first, 0, LIMIT_STEP, e);
	if (!rc)
		rc = check_range("steps.last", m->last, -1, LIMIT_STEP, e);
	if (!rc)
		rc = check_range("steps.first_at_ns", m->first_at_ns, 0, LIMIT_DURATION_NS, e);
	return rc ? rc : check_range("steps.end_at_ns", m->end_at_ns, 0, LIMIT_DURATION_NS, e);
}

/* ---- agent -> aggregator ---- */

static int check_hello(const Tutti__V1__Hello *m, struct err *e)
{
	int rc = name_check_host(m->host, e);

	if (!rc)
		rc = check_text("version", m->version, WORD_BYTES, e);
	if (!rc)
		rc = check_text("boot_id", m->boot_id, WORD_BYTES, e);
	if (!rc)
		rc = check_text("profiler_address", m->profiler_address, LIMIT_LABEL_BYTES, e);
	if (!rc)
		rc = check_range("labels", (int64_t)m->n_labels, 0, LIMIT_LABELS, e);
	for (size_t i = 0; i < m->n_labels && !rc; i++) {
		rc = check_text("labels.key", m->labels[i]->key, LIMIT_LABEL_BYTES, e);
		if (!rc)
			rc = check_text("labels.value", m->labels[i]->value, LIMIT_LABEL_BYTES, e);
	}
	if (!rc)
		rc = check_held(m->n_held, m->held, e);
	if (!rc)
		rc = check_tracer_settings(m->n_settings, m->settings, e);
	if (!rc)
		rc = check_jobs(m->n_jobs, m->jobs, e);
	return rc ? rc : check_states(m->n_tracers, m->tracers, e);
}

static int check_status(const Tutti__V1__Status *m, struct err *e)
{
	int rc = check_clock(m->clock, e);

	if (!rc)
		rc = check_held(m->n_held, m->held, e);
	if (!rc)
		rc = check_steps(m->steps, e);
	if (!rc)
		rc = check_jobs(m->n_jobs, m->jobs, e);
	return rc ? rc : check_states(m->n_tracers, m->tracers, e);
}

static int check_armed(const Tutti__V1__Armed *m, struct err *e)
{
	int rc = check_session(m->session, e);

	if (!rc)
		rc = check_range("bound_ns", m->bound_ns, 0, LIMIT_TIME_NS, e);
	if (!rc)
		rc = check_range("lead_ns", m->lead_ns, -LIMIT_TIME_NS, LIMIT_TIME_NS, e);
	return rc;
}

static int check_refused(const Tutti__V1__Refused *m, struct err *e)
{
	int rc = check_session(m->session, e);

	if (!rc)
		rc = check_text("reason", m->reason, WORD_BYTES, e);
	if (!rc)
		rc = check_text("detail", m->detail, TEXT_BYTES, e);
	return rc;
}

static int check_progress(const Tutti__V1__Progress *m, struct err *e)
{
	static const char *const words[] = { "running", "gathering", "uploading", NULL };
	int rc = check_session(m->session, e);

	if (!rc)
		rc = check_word("state", m->state, words, e);
	if (!rc)
		rc = check_count("bytes_total", m->bytes_total, HOST_BYTES_MAX, e);
	return rc ? rc : check_count("bytes_done", m->bytes_done, HOST_BYTES_MAX, e);
}

static int check_files(const Tutti__V1__HostResult *m, struct err *e)
{
	int rc = 0;

	if (m->n_files > LIMIT_HOST_FILES || m->n_crc32c != m->n_files)
		return err_set(e, ERR_INVALID, "result: %zu files, %zu checksums", m->n_files,
			       m->n_crc32c);
	for (size_t i = 0; i < m->n_files && !rc; i++)
		rc = check_count("files", m->files[i], LIMIT_XSPACE_FILE_BYTES, e);
	return rc ? rc
		  : check_count("observations", m->observations.len, LIMIT_OBSERVATION_BYTES, e);
}

static int check_result(const Tutti__V1__HostResult *m, struct err *e)
{
	int rc = check_session(m->session, e);

	if (!rc)
		rc = check_text("reason", m->reason, WORD_BYTES, e);
	if (!rc)
		rc = check_text("detail", m->detail, TEXT_BYTES, e);
	if (!rc)
		rc = check_count("events", m->events, INT64_MAX, e);
	if (!rc)
		rc = check_count("bytes", m->bytes, HOST_BYTES_MAX, e);
	if (!rc)
		rc = check_range("t0_ns", m->t0_ns, 0, LIMIT_TIME_NS, e);
	if (!rc)
		rc = check_clock(m->clock, e);
	if (!rc)
		rc = check_files(m, e);
	return rc ? rc : check_reports(m->n_tracers, m->tracers, e);
}

static int check_ask(const Tutti__V1__Ask *m, struct err *e)
{
	static const char *const words[] = { "start", "stop", "snapshot", NULL };
	int rc = check_word("verb", m->verb, words, e);

	if (!rc)
		rc = check_session_or_none(m->session, e);
	if (!rc)
		rc = check_text("hosts", m->hosts, LIMIT_LOCAL_BYTES, e);
	if (!rc)
		rc = check_range("duration_ns", m->duration_ns, 0, LIMIT_DURATION_NS, e);
	if (!rc)
		rc = check_range("ending_at_ns", m->ending_at_ns, 0, LIMIT_TIME_NS, e);
	if (!rc)
		rc = check_text("token", m->token, SECRET_MOST_BYTES, e);
	return rc ? rc : check_run(m->run, e);
}

static int check_probe(const Tutti__V1__Probe *m, struct err *e)
{
	return check_range("probe.packet", (int64_t)m->packet.len, PROBE_BYTES, PROBE_BYTES, e);
}

static int check_from_agent(const Tutti__V1__AgentMessage *m, struct err *e)
{
	switch (m->kind_case) {
	case TUTTI__V1__AGENT_MESSAGE__KIND_HELLO:
		return check_hello(m->hello, e);
	case TUTTI__V1__AGENT_MESSAGE__KIND_STATUS:
		return check_status(m->status, e);
	case TUTTI__V1__AGENT_MESSAGE__KIND_ARMED:
		return check_armed(m->armed, e);
	case TUTTI__V1__AGENT_MESSAGE__KIND_REFUSED:
		return check_refused(m->refused, e);
	case TUTTI__V1__AGENT_MESSAGE__KIND_PROGRESS:
		return check_progress(m->progress, e);
	case TUTTI__V1__AGENT_MESSAGE__KIND_RESULT:
		return check_result(m->result, e);
	case TUTTI__V1__AGENT_MESSAGE__KIND_ASK:
		return check_ask(m->ask, e);
	case TUTTI__V1__AGENT_MESSAGE__KIND_STEPS:
		return check_steps(m->steps, e);
	case TUTTI__V1__AGENT_MESSAGE__KIND_PROBE:
		return check_probe(m->probe, e);
	case TUTTI__V1__AGENT_MESSAGE__KIND_LEAVING:
		return check_range("back_within_ns", m->leaving->back_within_ns, 0, LIMIT_BACK_NS,
				   e);
	default:
		return 0;
	}
}

/* ---- aggregator -> agent ---- */

static int check_settings(const Tutti__V1__Arm *m, struct err *e)
{
	int rc = check_range("settings", (int64_t)m->n_settings, 0, LIMIT_SETTINGS, e);

	for (size_t i = 0; i < m->n_settings && !rc; i++) {
		rc = check_text("settings.key", m->settings[i]->key, TEXT_BYTES, e);
		if (!rc)
			rc = check_text("settings.value", m->settings[i]->value, TEXT_BYTES, e);
	}
	return rc;
}

static int check_arm(const Tutti__V1__Arm *m, struct err *e)
{
	int rc = check_session(m->session, e);

	if (!rc)
		rc = check_range("t0_ns", m->t0_ns, 1, LIMIT_TIME_NS, e);
	if (!rc)
		rc = check_range("duration_ns", m->duration_ns, 1, LIMIT_DURATION_NS, e);
	if (!rc)
		rc = check_range("upload_deadline_ns", m->upload_deadline_ns, 1, LIMIT_TIME_NS, e);
	if (!rc)
		rc = check_range("gather_by_ns", m->gather_by_ns, 0, LIMIT_TIME_NS, e);
	if (!rc)
		rc = check_range("profile_options", (int64_t)m->profile_options.len, 0,
				 LIMIT_OPTIONS_BYTES, e);
	if (!rc)
		rc = check_range("tracers", (int64_t)m->n_tracers, 0, LIMIT_TRACERS, e);
	for (size_t i = 0; i < m->n_tracers && !rc; i++)
		rc = check_text("tracers", m->tracers[i], WORD_BYTES, e);
	if (!rc)
		rc = check_range("notes", (int64_t)m->n_notes, 0, LIMIT_NOTES, e);
	for (size_t i = 0; i < m->n_notes && !rc; i++)
		rc = check_text("notes", m->notes[i], TEXT_BYTES, e);
	if (!rc)
		rc = check_range("probe_gap_ms", m->probe_gap_ms, 0, LIMIT_PROBE_GAP_MS, e);
	return rc ? rc : check_settings(m, e);
}

static int check_stop(const Tutti__V1__Stop *m, struct err *e)
{
	int rc = check_session(m->session, e);

	if (!rc)
		rc = check_range("t1_ns", m->t1_ns, 1, LIMIT_TIME_NS, e);
	return rc ? rc : check_range("gather_by_ns", m->gather_by_ns, 0, LIMIT_TIME_NS, e);
}

static int check_grant(const Tutti__V1__Grant *m, struct err *e)
{
	int rc = check_text("grant.method", m->method, WORD_BYTES, e);

	if (!rc)
		rc = check_text("grant.url", m->url, LIMIT_GRANT_BYTES, e);
	if (!rc)
		rc = check_range("grant.headers", (int64_t)m->n_headers, 0, LIMIT_SMALL_FIELDS, e);
	for (size_t i = 0; i < m->n_headers && !rc; i++)
		rc = check_text("grant.headers", m->headers[i], LIMIT_GRANT_BYTES, e);
	return rc ? rc : check_range("grant.life_ns", m->life_ns, 0, LIMIT_TIME_NS, e);
}

static int check_upload(const Tutti__V1__Upload *m, struct err *e)
{
	int rc = check_session(m->session, e);

	if (!rc && m->grant)
		rc = check_grant(m->grant, e);
	return rc ? rc : check_range("deadline_ns", m->deadline_ns, 0, LIMIT_TIME_NS, e);
}

static int check_answer(const Tutti__V1__Answer *m, struct err *e)
{
	int rc = check_session_or_none(m->session, e);

	return rc ? rc : check_text("detail", m->detail, TEXT_BYTES, e);
}

/* An older aggregator sends no key: it does not sign probes. */
static int check_welcome(const Tutti__V1__Welcome *m, struct err *e)
{
	int rc = check_range("probe_port", m->probe_port, 1, 65535, e);

	if (!rc && m->probe_key.len)
		rc = check_range("probe_key", (int64_t)m->probe_key.len, SIPHASH_KEY_BYTES,
				 SIPHASH_KEY_BYTES, e);
	return rc;
}

static int check_step_watch(const Tutti__V1__StepWatch *m, struct err *e)
{
	int rc = check_range("for_ns", m->for_ns, 0, 2 * LIMIT_DURATION_NS, e);

	return rc ? rc : check_range("gap_ns", m->gap_ns, 0, LIMIT_DURATION_NS, e);
}

static int check_from_aggregator(const Tutti__V1__AggregatorMessage *m, struct err *e)
{
	switch (m->kind_case) {
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_WELCOME:
		return check_welcome(m->welcome, e);
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_ARM:
		return check_arm(m->arm, e);
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_STOP:
		return check_stop(m->stop, e);
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_CANCEL:
		return check_session(m->cancel->session, e);
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_UPLOAD:
		return check_upload(m->upload, e);
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_RELEASE:
		return check_session(m->release->session, e);
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_ANSWER:
		return check_answer(m->answer, e);
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_STEP_WATCH:
		return check_step_watch(m->step_watch, e);
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_PROBE:
		return check_probe(m->probe, e);
	case TUTTI__V1__AGGREGATOR_MESSAGE__KIND_PODS:
		return pods_check(m->pods, e);
	default:
		return 0;
	}
}

/* ---- process -> agent ---- */

static int check_socket(const Tutti__V1__LocalRequest *m, struct err *e)
{
	int rc;

	switch (m->kind_case) {
	case TUTTI__V1__LOCAL_REQUEST__KIND_MARK:
		rc = check_text("text", m->mark->text, LIMIT_MARK_BYTES, e);
		return rc ? rc : check_range("raw_ns", m->mark->raw_ns, 0, LIMIT_TIME_NS, e);
	case TUTTI__V1__LOCAL_REQUEST__KIND_START:
		rc = check_text("hosts", m->start->hosts, LIMIT_LOCAL_BYTES, e);
		if (!rc)
			rc = check_range("duration_ns", m->start->duration_ns, 0, LIMIT_DURATION_NS,
					 e);
		if (!rc)
			rc = check_text("token", m->start->token, SECRET_MOST_BYTES, e);
		return rc ? rc : check_run(m->start->run, e);
	case TUTTI__V1__LOCAL_REQUEST__KIND_STOP:
		rc = check_session(m->stop->session, e);
		return rc ? rc : check_text("token", m->stop->token, SECRET_MOST_BYTES, e);
	default:
		return 0;
	}
}

/* ---- bytes to messages ---- */

/* A message of a later version has unknown fields, which protobuf-c keeps. A message without any field is
 * malformed. */
static int unpack(const ProtobufCMessageDescriptor *type, size_t limit, ProtobufCMessage **out,
		  const void *data, size_t len, struct err *e)
{
	if (!len)
		return err_set(e, ERR_INVALID, "0 bytes are no %s", type->short_name);
	return message_unpack(out, type, limit, LIMIT_CONTROL_FIELDS, data, len, e);
}

static int finish(int rc, ProtobufCMessage *m, struct err *e)
{
	if (rc) {
		err_prefix(e, "%s", m->descriptor->short_name);
		protobuf_c_message_free_unpacked(m, NULL);
	}
	return rc;
}

/* The aggregator keeps these messages of every host. */
static int check_kept(const Tutti__V1__AgentMessage *m, size_t len, struct err *e)
{
	size_t items = 0;

	if (m->kind_case == TUTTI__V1__AGENT_MESSAGE__KIND_HELLO)
		items = m->hello->n_labels + m->hello->n_tracers + m->hello->n_settings +
			m->hello->n_held;
	else if (m->kind_case == TUTTI__V1__AGENT_MESSAGE__KIND_STATUS)
		items = m->status->n_tracers + m->status->n_held;
	else
		return 0;
	if (len + items * LIMIT_HOST_ITEM_BYTES <= LIMIT_HOST_BYTES)
		return 0;
	return err_set(e, ERR_LIMIT,
		       "%zu bytes and %zu labels, tracers, settings and captures: the limit is %d "
		       "bytes, and each of those counts as %d bytes more",
		       len, items, LIMIT_HOST_BYTES, LIMIT_HOST_ITEM_BYTES);
}

int control_unpack_from_agent(Tutti__V1__AgentMessage **out, const void *data, size_t len,
			      struct err *e)
{
	ProtobufCMessage *m = NULL;
	int rc = unpack(&tutti__v1__agent_message__descriptor, LIMIT_CONTROL_BYTES, &m, data, len,
			e);

	if (rc)
		return rc;
	rc = check_from_agent((Tutti__V1__AgentMessage *)m, e);
	if (!rc)
		rc = check_kept((Tutti__V1__AgentMessage *)m, len, e);
	rc = finish(rc, m, e);
	if (!rc)
		*out = (Tutti__V1__AgentMessage *)m;
	return rc;
}

int control_unpack_from_aggregator(Tutti__V1__AggregatorMessage **out, const void *data, size_t len,
				   struct err *e)
{
	ProtobufCMessage *m = NULL;
	int rc = unpack(&tutti__v1__aggregator_message__descriptor, LIMIT_CONTROL_BYTES, &m, data,
			len, e);

	if (rc)
		return rc;
	rc = finish(check_from_aggregator((Tutti__V1__AggregatorMessage *)m, e), m, e);
	if (!rc)
		*out = (Tutti__V1__AggregatorMessage *)m;
	return rc;
}

int control_unpack_local(Tutti__V1__LocalRequest **out, const void *data, size_t len, struct err *e)
{
	ProtobufCMessage *m = NULL;
	int rc = unpack(&tutti__v1__local_request__descriptor, LIMIT_LOCAL_BYTES, &m, data, len, e);

	if (rc)
		return rc;
	rc = finish(check_socket((Tutti__V1__LocalRequest *)m, e), m, e);
	if (!rc)
		*out = (Tutti__V1__LocalRequest *)m;
	return rc;
}
