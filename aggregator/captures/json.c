/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/captures/capture_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_text.h"
#include "json/packed.h"
#include "aggregator/sessions/sessions.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/names.h"
#include "storage/store.h"

static const char *const host_states[] = {
	[HOST_ARMING] = "arming",	[HOST_ARMED] = "armed",
	[HOST_RUNNING] = "running",	[HOST_GATHERING] = "gathering",
	[HOST_UPLOADING] = "uploading", [HOST_COMPLETE] = "complete",
	[HOST_PARTIAL] = "partial",	[HOST_FAILED] = "failed",
};

static json_t *tracer_json(const struct tracer_report *t)
{
	json_t *o = json_object();

	json_put_text(o, "name", t->name);
	json_put_text(o, "state", t->state);
	json_put_text(o, "reason", t->reason);
	json_put_text(o, "detail", t->detail);
	json_put_int(o, "lost", (json_int_t)t->lost);
	return o;
}

static json_t *files_json(const struct capture_host *h)
{
	json_t *files = json_array();
	char name[NAME_FILE_BYTES];

	for (unsigned int n = 1; h->stored && n <= h->n_files; n++) {
		name_of_file(h->name, n, name);
		json_array_append_new(files, json_sprintf("%s" SESSION_FILE_SUFFIX, name));
	}
	return files;
}

/* One for each of the files. None if the agent reports none, or other files than those that are stored. */
static json_t *checksums_json(const struct capture_host *h)
{
	json_t *sums = json_array();

	for (unsigned int i = 0; h->stored && h->n_reported == h->n_files && i < h->n_files; i++)
		json_array_append_new(sums,
				      json_sprintf("%08" PRIx32, h->reported_files[i].crc32c));
	return sums;
}

/* The clock of its file, or that of now before there is one. After a takeover by another machine its bound includes what
 * no agent knows: that another host may have used the other clock. Such hosts are not refined. */
static struct host_clock clock_of(const struct capture *c, const struct capture_host *h)
{
	struct host_clock clock = { .bound_ns = h->armed_bound_ns };
	int64_t t0_ns = h->t0_ns ? h->t0_ns : c->t0_ns;
	int64_t doubt_ns = session_clock_doubt_ns(c->captures->env.clock, t0_ns,
						  t0_ns + c->duration_ns);

	if (h->clock)
		clock = *h->clock;
	clock.bound_ns += doubt_ns;
	if (doubt_ns)
		clock.earlier_ns = clock.later_ns = 0;
	return clock;
}

/* The result names only stored files, and gives a bound only for a calibrated clock. `c` is its capture, or the copy of it. */
static json_t *new_result_json(const struct capture *c, const struct capture_host *h)
{
	json_t *o = json_object(), *tracers = json_array(), *files = files_json(h);
	const struct host_clock clock = clock_of(c, h);

	json_put_text(o, "host", h->name);
	json_put_text(o, "state", host_states[h->state]);
	json_put_text(o, "reason", h->reason);
	json_put_text(o, "detail", h->detail);
	json_put_text(o, "file", json_string_value(json_array_get(files, 0)));
	json_put(o, "files", files);
	json_put(o, "crc32c", checksums_json(h));
	json_put_int(o, "bytes", (json_int_t)h->bytes);
	json_put_int(o, "bytes_done", (json_int_t)h->bytes_done);
	json_put_int(o, "events", (json_int_t)h->events);
	json_put(o, "clock_bound_ns",
		 clock.calibrated ? json_integer(clock.bound_ns) : json_null());
	json_put(o, "clock", host_clock_json(&clock));
	for (unsigned int i = 0; i < h->n_tracers; i++)
		json_array_append_new(tracers, tracer_json(&h->tracers[i]));
	json_put(o, "tracers", tracers);
	if (h->armed_late_ns)
		json_put_int(o, "armed_late_ns", h->armed_late_ns);
	if (capture_host_has_own_window(h))
		json_put_int(o, "t0_ns", h->t0_ns);
	if (h->steps)
		json_put(o, "steps", steps_seen_json(h->steps));
	return o;
}

/* A retry copies the earlier results of hosts that it does not touch. */
static void append_result(json_t *packed, const struct capture *c, const struct capture_host *h)
{
	if (h->old_result)
		packed_append_text(packed, h->old_result);
	else
		packed_append(packed, new_result_json(c, h));
}

static void write_result(struct buf *out, const struct capture *c, const struct capture_host *h)
{
	if (h->old_result)
		buf_add_str(out, h->old_result);
	else
		json_write(out, new_result_json(c, h), 0);
}

/* In hex: instances are unsigned 64 bit numbers, integers of jansson are signed. */
json_t *capture_planned_host_json(const struct capture_host *h)
{
	json_t *o = json_object();
	char instance[24];

	snprintf(instance, sizeof(instance), "%" PRIx64, h->instance);
	json_put_text(o, "host", h->name);
	json_put_text(o, "instance", instance);
	json_put_text(o, "state", host_states[h->state]);
	if (*h->reason)
		json_put_text(o, "reason", h->reason);
	if (*h->detail)
		json_put_text(o, "detail", h->detail);
	if (h->t0_ns)
		json_put_int(o, "t0_ns", h->t0_ns);
	return o;
}

static void put_counts(json_t *o, const struct capture *c)
{
	json_int_t complete = 0, partial = 0, failed = 0, bytes = 0;

	for (size_t i = 0; i < c->n_hosts; i++) {
		complete += c->hosts[i].state == HOST_COMPLETE;
		partial += c->hosts[i].state == HOST_PARTIAL;
		failed += c->hosts[i].state == HOST_FAILED;
		bytes += c->hosts[i].stored ? (json_int_t)c->hosts[i].bytes : 0;
	}
	json_put_int(o, "complete", complete);
	json_put_int(o, "partial", partial);
	json_put_int(o, "failed", failed);
	json_put_int(o, "bytes", bytes);
}

static void put_queued(json_t *o, const struct capture *c)
{
	json_put_int(o, "position", (json_int_t)c->position);
	json_put_text(o, "waits_for", c->waits_for);
	json_put_int(o, "queued_until_ns", c->queued_until_ns);
}

static void put_results(json_t *o, const struct capture *c)
{
	json_t *hosts = json_array();

	for (size_t i = 0; i < c->n_hosts; i++)
		append_result(hosts, c, &c->hosts[i]);
	json_put(o, "hosts", hosts);
}

void capture_put_marks(json_t *o, const struct capture *c)
{
	if (*c->owner)
		json_put_text(o, "owner", c->owner);
	if (!spaces_are_empty(&c->spaces))
		json_put(o, "namespaces", spaces_json(&c->spaces));
}

/* All members but "hosts". */
static void put_capture(json_t *o, const struct capture *c, enum capture_state state)
{
	json_put_text(o, "session", c->session);
	json_put_text(o, "run", c->run);
	json_put_text(o, "state", capture_state_name(state));
	json_put_int(o, "t0_ns", c->t0_ns);
	json_put_int(o, "duration_ns", c->duration_ns);
	json_put_int(o, "lead_ns", c->lead_ns);
	put_counts(o, c);
	json_put(o, "warnings", json_deep_copy(c->warnings));
	json_put(o, "settings", json_deep_copy(c->settings));
	json_put_text(o, "origin", c->origin);
	capture_put_marks(o, c);
	if (*c->client_session)
		json_put_text(o, "client_session", c->client_session);
	if (c->cancelled)
		json_put_bool(o, "cancelled", true);
	if (c->shared)
		json_put_bool(o, "shared", true);
	if (c->snapshot)
		json_put_bool(o, "snapshot", true);
	if (c->callers > 1)
		json_put_int(o, "callers", c->callers);
	if (c->refine)
		json_put_text(o, "refine", "events");
	if (c->by_step)
		json_put(o, "at_step", capture_step_json(c));
	if (capture_is_queued(c))
		put_queued(o, c);
	if (capture_has_failed(c))
		json_put_text(o, "error", c->error.msg);
}

json_t *capture_failure_json(const struct capture *c)
{
	json_t *o = json_object();

	put_capture(o, c, CAP_FAILED);
	put_results(o, c);
	json_put_text(o, "error", c->error.msg);
	return o;
}

/* Writes one host at a time, since jansson needs ten times the memory of the text. */
bool capture_write(struct buf *out, const struct capture *c, size_t *next, size_t bytes)
{
	json_t *rest;

	if (!*next)
		buf_add_str(out, "{\"hosts\":[");
	while (*next < c->n_hosts) {
		if (*next)
			buf_add_str(out, ",");
		write_result(out, c, &c->hosts[(*next)++]);
		if (out->len >= bytes && *next < c->n_hosts)
			return false;
	}
	rest = json_object();
	buf_add_str(out, "],");
	put_capture(rest, c, c->state);
	if (c->grace_ns)
		json_put_int(rest, "grace_ns", c->grace_ns);
	if (c->state == CAP_COMMITTING && c->store_error.code)
		json_put_text(rest, "error", c->store_error.msg);
	json_write(out, rest, JSON_EMBED);
	buf_add_str(out, "}");
	return true;
}

static json_t *hex_json(const uint8_t *data, size_t len)
{
	struct buf text = BUF_INIT;
	json_t *s;

	for (size_t i = 0; i < len; i++)
		buf_addf(&text, "%02x", data[i]);
	s = json_stringn((const char *)text.data, text.len);
	buf_release(&text);
	return s;
}

void capture_put_request(json_t *o, const struct capture *c)
{
	json_t *tracers = json_array();

	for (size_t i = 0; c->tracers && c->tracers[i]; i++)
		json_array_append_new(tracers, json_text(c->tracers[i]));
	json_put(o, "tracers", tracers);
	json_put(o, "options", hex_json(c->options, c->options_len));
	json_put_int(o, "grace_given_ns", c->grace_given_ns);
	json_put_int(o, "clock_shift_ns", c->clock_shift_ns);
}

static json_t *request_json(const struct capture *c)
{
	json_t *o = json_object();

	capture_put_request(o, c);
	return o;
}

json_t *capture_manifest_json(const struct capture *c)
{
	const char *root = store_directory(c->captures->env.store->store);
	char directory[SESSION_KEY_BYTES];
	json_t *o = json_object();
	char *path;

	session_directory(c->session, c->run, directory);
	directory[strlen(directory) - 1] = '\0'; /* without the '/' */
	path = xasprintf("%s%s%s", root ? root : "", root ? "/" : "", directory);
	json_put_int(o, "version", 1);
	json_put_int(o, "revision", c->revision);
	json_put_int(o, "created_ns", now_real_ns());
	json_put_text(o, "path", path);
	json_put(o, "request", request_json(c)); /* for a retry */
	put_capture(o, c, CAP_COMMITTED);
	capture_put_pods(o, c);
	put_results(o, c);
	free(path);
	return o;
}
