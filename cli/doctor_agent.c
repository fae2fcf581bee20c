/* SPDX-License-Identifier: Apache-2.0 */
/* What this host's agent says of itself, by its local socket. */
#include <stdio.h>
#include <string.h>

#include "cli/doctor.h"
#include "cli/local.h"
#include "json/json_text.h"

#define BOUND_MOST_NS INT64_C(1000000)

/* Why there is no answer, by what lies at the socket's path. */
static void explain_socket(struct doctor *d, const struct err *e)
{
	const char *path = d->conf->local_socket + strlen("ipc://");

	if (strncmp(d->conf->local_socket, "ipc://", strlen("ipc://"))) {
		doctor_add(d, "agent.socket", VERDICT_FAILED, "--local-socket %s is no ipc:// URL",
			   d->conf->local_socket);
		doctor_fix(d, "tutti doctor --local-socket ipc:///run/tutti/agent.ipc");
		return;
	}
	doctor_add(d, "agent.socket", VERDICT_FAILED, "no agent answers at %s: %s", path, e->msg);
	if (e->code == ERR_DENIED)
		doctor_fix(d, "run this as root, or as a member of the group of %s", path);
	else
		doctor_fix(d, "systemctl start tutti-agent (its log: journalctl -u tutti-agent); "
			      "or name the socket: --local-socket");
}

static void ask_agent(struct doctor *d)
{
	Tutti__V1__LocalRequest request = TUTTI__V1__LOCAL_REQUEST__INIT;
	Tutti__V1__LocalStatus status = TUTTI__V1__LOCAL_STATUS__INIT;
	Tutti__V1__LocalReply *reply;
	struct err e = { 0 };

	request.kind_case = TUTTI__V1__LOCAL_REQUEST__KIND_STATUS;
	request.status = &status;
	if (local_call(d->conf->local_socket, &request, &reply, &e)) {
		explain_socket(d, &e);
		return;
	}
	d->agent = json_loads(reply->json, JSON_REJECT_DUPLICATES, NULL);
	tutti__v1__local_reply__free_unpacked(reply, NULL);
	if (d->agent)
		doctor_add(d, "agent.socket", VERDICT_OK, "the agent of host %s answers",
			   json_get_text(d->agent, "host"));
	else
		doctor_add(d, "agent.socket", VERDICT_FAILED, "the answer at %s is no status",
			   d->conf->local_socket);
}

static void check_version(struct doctor *d)
{
	const char *version = json_get_text(d->agent, "version");

	if (!strcmp(version, TUTTI_VERSION)) {
		doctor_add(d, "agent.version", VERDICT_OK, "%s, as this program", version);
		return;
	}
	doctor_add(d, "agent.version", VERDICT_WARNING, "the agent is %s, this program %s", version,
		   TUTTI_VERSION);
	doctor_fix(d, "install one version everywhere, then systemctl restart tutti-agent");
}

static void check_link(struct doctor *d)
{
	const char *address = json_get_text(d->agent, "aggregator");

	if (json_get_bool(d->agent, "connected")) {
		doctor_add(d, "agent.link", VERDICT_OK, "connected to %s", address);
		return;
	}
	doctor_add(d, "agent.link", VERDICT_FAILED, "not connected to %s: %s", address,
		   json_get_text(d->agent, "link_error"));
	doctor_fix(d, "see the checks aggregator.*; --aggregator of the agent names the gRPC port, "
		      "7401 unless it was changed");
}

static void check_clock(struct doctor *d)
{
	const json_t *clock = json_object_get(d->agent, "clock");
	int64_t bound = json_get_int(clock, "bound_ns");
	char text[16];

	if (!json_get_bool(clock, "calibrated")) {
		doctor_add(d, "agent.clock", VERDICT_FAILED,
			   "its clock is not measured: times would be this host's own");
		doctor_fix(d, "connect it (agent.link), and let UDP pass to the aggregator's "
			      "--probe, port 7403");
		return;
	}
	human_time(bound, text);
	if (bound <= BOUND_MOST_NS) {
		doctor_add(d, "agent.clock", VERDICT_OK, "known within %s", text);
		return;
	}
	doctor_add(d, "agent.clock", VERDICT_WARNING, "known within %s only", text);
	doctor_fix(d, "let UDP pass to the aggregator's --probe, port 7403: tutti clock shows "
		      "whether its method is `stream`; docs/time.md has what a bound is made of");
}

/* A tracer that is off without an error has nothing to record here: no GPU, no log that was named. */
static void check_tracers(struct doctor *d)
{
	const json_t *tracers = json_object_get(d->agent, "tracers"), *t;
	size_t i;

	json_array_foreach(tracers, i, t)
	{
		const char *state = json_get_text(t, "state"), *reason = json_get_text(t, "reason");
		bool is_off = !strcmp(state, "off");
		char check[80];

		snprintf(check, sizeof(check), "tracer.%s", json_get_text(t, "name"));
		if (!strcmp(state, "ok")) {
			doctor_add(d, check, VERDICT_OK, "ok");
		} else if (is_off && !json_get_int(t, "errno")) {
			doctor_add(d, check, VERDICT_SKIPPED, "off: %s", reason);
		} else {
			doctor_add(d, check, is_off ? VERDICT_FAILED : VERDICT_WARNING, "%s: %s",
				   state, reason);
			doctor_fix(d, "grant what that names (docs/tracers.md, Permissions), then "
				      "systemctl restart tutti-agent");
		}
	}
}

void doctor_check_agent(struct doctor *d)
{
	if (!*d->conf->local_socket) {
		doctor_add(d, "agent.socket", VERDICT_SKIPPED, "no agent is to be here");
		return;
	}
	ask_agent(d);
	if (!d->agent)
		return;
	check_version(d);
	check_link(d);
	check_clock(d);
	check_tracers(d);
}
