/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the ledger's record of a capture: docs/schema/ledger.schema.json. */
#include "aggregator/captures/capture_impl.h"

#include <stdlib.h>
#include <string.h>

#include "aggregator/evidence/causality.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "json/packed.h"

static json_t *plan_json(const struct capture *c)
{
	int64_t t1_ns = c->stop_at_ns ? c->stop_at_ns : c->t0_ns + c->duration_ns;
	json_t *o = json_object();

	json_put_text(o, "origin", c->origin);
	capture_put_marks(o, c);
	json_put_text(o, "client_session", c->client_session);
	json_put_int(o, "t0_ns", c->t0_ns);
	json_put_int(o, "duration_ns", t1_ns - c->t0_ns);
	json_put_int(o, "lead_ns", c->lead_ns);
	json_put_int(o, "deadline_ns", c->deadline_ns);
	json_put_int(o, "not_before_ns", c->not_before_ns);
	json_put_int(o, "commit_by_ns", c->commit_by_ns);
	json_put_bool(o, "open_ended", c->open_ended);
	json_put(o, "settings", json_deep_copy(c->settings));
	json_put(o, "warnings", json_deep_copy(c->warnings));
	capture_put_request(o, c);
	capture_put_pods(o, c);
	if (c->refine)
		json_put_text(o, "refine", "events");
	if (c->snapshot)
		json_put_bool(o, "snapshot", true);
	if (c->by_step)
		json_put(o, "at_step", capture_step_json(c));
	if (capture_is_queued(c))
		json_put_int(o, "queued_until_ns", c->queued_until_ns);
	return o;
}

/* A retry does not touch the hosts that have a file. */
static json_t *hosts_json(const struct capture *c)
{
	json_t *hosts = json_array();

	for (size_t i = 0; i < c->n_hosts; i++) {
		if (!c->hosts[i].old_result)
			packed_append(hosts, capture_planned_host_json(&c->hosts[i]));
	}
	return hosts;
}

static json_t *failed_end_json(const struct capture *c)
{
	json_t *end = json_object();

	json_put_text(end, "state", c->cancelled ? "cancelled" : "failed");
	json_put_text(end, "reason", c->error.msg);
	json_put(end, "document", capture_failure_json(c));
	return end;
}

/* Where agents put their files into the store themselves, no file is read here. */
static void check_causality(const struct capture *c, json_t *manifest)
{
	const struct captures_env *env = &c->captures->env;
	struct causality_report *reports = xcalloc(c->n_hosts, sizeof(*reports));

	for (size_t i = 0; i < c->n_hosts; i++)
		reports[i] = (struct causality_report){ c->hosts[i].observations,
							c->hosts[i].observations_len };
	causality_check(env->by_grants ? NULL : env->store->store, manifest, reports,
			env->causality_ns);
	free(reports);
}

static int committed_end_json(struct capture *c, json_t **out, struct err *e)
{
	const struct captures_env *env = &c->captures->env;
	int rc = capture_check_stored(env->store->store, c, e);
	json_t *manifest;

	if (!rc && c->error.code)
		*out = failed_end_json(c);
	if (!rc && !c->error.code)
		rc = capture_store_notes(env->store->store, c, e);
	if (rc || c->error.code)
		return rc;
	manifest = capture_manifest_json(c);
	check_causality(c, manifest);
	*out = json_object();
	json_put_text(*out, "state", "committed");
	if (c->is_tidy)
		json_put_bool(*out, "tidy", true);
	json_put(*out, "document", manifest);
	return 0;
}

/* The record's "end", with the document that is written when the end is carried out. NULL without an end. */
static int end_json(struct capture *c, json_t **out, struct err *e)
{
	*out = NULL;
	if (c->state != CAP_COMMITTING)
		return 0;
	if (!c->error.code)
		return committed_end_json(c, out, e);
	*out = failed_end_json(c);
	return 0;
}

int capture_record_json(struct capture *c, json_t **out, struct err *e)
{
	json_t *end;
	int rc = end_json(c, &end, e);

	if (rc)
		return rc;
	*out = json_object();
	json_put_int(*out, "revision", c->revision);
	if (end) {
		json_put(*out, "end", end);
		return 0;
	}
	json_put(*out, "plan", plan_json(c));
	json_put(*out, "hosts", hosts_json(c));
	return 0;
}

json_t *capture_record_next_host(const json_t *record, size_t *at, const char *name)
{
	const json_t *hosts = json_object_get(record, "hosts");

	for (; *at < json_array_size(hosts); ++*at) {
		json_t *host = packed_get(hosts, *at);
		int order = strcmp(json_get_text(host, "host"), name);

		if (!order)
			return host;
		json_decref(host);
		if (order > 0)
			break;
	}
	return NULL;
}
