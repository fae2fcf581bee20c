/* SPDX-License-Identifier: Apache-2.0 */
/* The aggregator, by its HTTP API and its gRPC port, what it knows of this host and the fleet, and a store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/now.h"
#include "base/secret.h"
#include "cli/doctor.h"
#include "net/http_client.h"
#include "storage/store.h"
#include "storage/store_check.h"

#define CALL_NS	      (5 * NS_PER_S)
#define STORE_NS      (60 * NS_PER_S)
#define BOUND_MOST_NS NS_PER_MS

/* What a follower's health begins with (docs/replicas.md). */
#define STANDS_BY "this aggregator stands by: "

/* A GET of the aggregator, or of its leader: the status, or 0 and the error. */
static int get(const struct doctor *d, const char *path, struct buf *answer, struct err *e)
{
	const struct api_conf *api = &d->conf->api;
	char *url = api_url(api, path), *token = NULL;
	struct http_call call = api_make_call(api, "GET", url);
	int status = 0, rc = api_load_token(api, &token, e);

	call.timeout_ns = CALL_NS;
	call.token = token;
	if (!rc)
		rc = api_call_leader(&call, &url, path, &status, answer, e);
	secret_free(token);
	free(url);
	return rc ? 0 : status;
}

/* ---- can it be reached ---- */

/* The mend of a call that had no answer. */
static void explain_no_answer(struct doctor *d, const struct err *e)
{
	const char *server = d->conf->api.server;
	bool is_https = !strncmp(server, "https://", strlen("https://"));

	doctor_add(d, "aggregator.http", VERDICT_FAILED, "%s", e->msg);
	if (strstr(e->msg, "gRPC"))
		doctor_fix(d, "name the port of --http, 7400 unless it was changed: --server "
			      "http://HOST:7400");
	else if (strstr(e->msg, "certificate"))
		doctor_fix(d,
			   "--ca FILE with the authority of the aggregator's certificate, and in "
			   "--server the name that it is for");
	else if (e->code == ERR_TIMEOUT)
		doctor_fix(d,
			   "let TCP pass to that port: a firewall, or a NetworkPolicy, drops it");
	else if (strstr(e->msg, "the host's name"))
		doctor_fix(d, "correct the name in --server, or in the context");
	else if (e->code == ERR_CLOSED && !strstr(e->msg, "no server"))
		doctor_fix(d, is_https ? "use http://: no TLS is spoken there"
				       : "use https://: TLS is spoken there");
	else if (e->code == ERR_CLOSED)
		doctor_fix(d, "systemctl start tutti-aggregator on its host; in a cluster: tutti "
			      "connect k8s://tutti/tutti-aggregator; or name it: --server URL");
	else
		doctor_fix(d, is_https ? "use http:// if the aggregator has no --cert"
				       : "use https:// if the aggregator has a --cert");
}

static bool begins_with(const char *text, const char *begin)
{
	return !strncmp(text, begin, strlen(begin));
}

/* Of one that is the only one, that leads, or that stands by. */
static bool is_health(const char *text)
{
	return !strcmp(text, "ok\n") || begins_with(text, "ok: ") || begins_with(text, STANDS_BY);
}

static bool check_reach(struct doctor *d)
{
	struct buf answer = BUF_INIT;
	struct err e = { 0 };
	int status = get(d, "/healthz", &answer, &e);

	if (!status)
		explain_no_answer(d, &e);
	else if (status == 200 && is_health(buf_str(&answer)))
		doctor_add(d, "aggregator.http", VERDICT_OK, "%s answers", d->conf->api.server);
	else {
		doctor_add(d, "aggregator.http", VERDICT_FAILED,
			   "%s answers %d, and not as an aggregator", d->conf->api.server, status);
		doctor_fix(d, "another program is there: name the aggregator's --http in --server");
		status = 0;
	}
	buf_release(&answer);
	return status != 0;
}

static void check_ready(struct doctor *d)
{
	struct buf answer = BUF_INIT;
	struct err e = { 0 };
	int status = get(d, "/readyz", &answer, &e);

	if (status == 200) {
		doctor_add(d, "aggregator.store", VERDICT_OK, "its store takes writes");
	} else if (status && begins_with(buf_str(&answer), STANDS_BY)) {
		doctor_add(d, "aggregator.store", VERDICT_SKIPPED, "%.*s",
			   (int)strcspn(buf_str(&answer), "\n"), buf_str(&answer));
	} else {
		doctor_add(d, "aggregator.store", VERDICT_FAILED, "no capture is possible: %s",
			   status ? buf_str(&answer) : e.msg);
		doctor_fix(d, "on its host: tutti store check URL, with the URL of its --store, "
			      "names what the store lacks");
	}
	buf_release(&answer);
}

/* ---- what it says ---- */

static void check_host(struct doctor *d, const json_t *hosts)
{
	const char *name = json_get_text(d->agent, "host");
	const json_t *h;
	size_t i;

	if (!d->agent)
		return;
	json_array_foreach(hosts, i, h)
	{
		if (strcmp(json_get_text(h, "host"), name) != 0)
			continue;
		if (!strcmp(json_get_text(h, "state"), "connected")) {
			doctor_add(d, "aggregator.host", VERDICT_OK, "%s is connected", name);
			return;
		}
		break;
	}
	doctor_add(d, "aggregator.host", VERDICT_FAILED, "it does not have this host, %s", name);
	doctor_fix(d,
		   "the agent dials %s: it has to be the gRPC port of this aggregator; "
		   "agent.link has the cause, if there is one",
		   json_get_text(d->agent, "aggregator"));
}

static void check_fleet(struct doctor *d, const json_t *hosts)
{
	size_t i, lost = 0, wide = 0, other = 0;
	const json_t *h;

	json_array_foreach(hosts, i, h)
	{
		const json_t *clock = json_object_get(h, "clock");
		bool is_lost = strcmp(json_get_text(h, "state"), "connected") != 0;

		lost += is_lost;
		wide += !is_lost && (!json_get_bool(clock, "calibrated") ||
				     json_get_int(clock, "bound_ns") > BOUND_MOST_NS);
		other += !is_lost && strcmp(json_get_text(h, "version"), TUTTI_VERSION) != 0;
	}
	doctor_add(d, "fleet.hosts", lost || !i ? VERDICT_WARNING : VERDICT_OK,
		   "%zu hosts, %zu of them lost", i, lost);
	if (!i)
		doctor_fix(d, "start agents: tutti-agent --aggregator HOST:7401 on each host");
	else if (lost)
		doctor_fix(d, "tutti hosts names them; on each: tutti doctor");
	doctor_add(d, "fleet.clocks", wide ? VERDICT_WARNING : VERDICT_OK,
		   "%zu hosts whose clock is not known within 1 ms", wide);
	if (wide)
		doctor_fix(d, "tutti clock names them; let UDP pass to the aggregator's --probe, "
			      "port 7403");
	doctor_add(d, "fleet.versions", other ? VERDICT_WARNING : VERDICT_OK,
		   "%zu hosts with another version than %s", other, TUTTI_VERSION);
	if (other)
		doctor_fix(d, "tutti hosts -o wide names them; install one version everywhere");
}

static void check_hosts(struct doctor *d)
{
	json_t *doc = NULL;
	struct buf answer = BUF_INIT;
	struct err e = { 0 };
	int status = get(d, "/api/v1/hosts", &answer, &e);

	if (status == 200)
		doc = json_loads(buf_str(&answer), JSON_REJECT_DUPLICATES, NULL);
	if (status == 401 || status == 403) {
		doctor_add(d, "aggregator.access", VERDICT_FAILED, "it answers %d: %s", status,
			   d->conf->api.token_file && *d->conf->api.token_file
				   ? "the token is not the aggregator's"
				   : "it needs a token");
		doctor_fix(d, "tutti login, or --token-file FILE with a token of the aggregator's "
			      "--tokens or --token-file");
	} else if (!doc) {
		doctor_add(d, "aggregator.access", VERDICT_FAILED, "no list of hosts: %s",
			   status ? buf_str(&answer) : e.msg);
		doctor_fix(d, "the aggregator's log says why it refuses");
	} else {
		doctor_add(d, "aggregator.access", VERDICT_OK, "hosts may be listed");
		check_host(d, json_object_get(doc, "hosts"));
		check_fleet(d, json_object_get(doc, "hosts"));
	}
	json_decref(doc);
	buf_release(&answer);
}

/* ---- the agents' port ---- */

/* A gRPC server does not answer in HTTP/1.1: an answer means that another port was named. */
static void check_grpc(struct doctor *d)
{
	const char *given = d->conf->aggregator;
	const char *address = given && *given ? given : json_get_text(d->agent, "aggregator");
	char *url = xasprintf("http://%s/healthz", address);
	const struct http_call call = { .method = "GET", .url = url, .timeout_ns = CALL_NS };
	struct buf answer = BUF_INIT;
	struct err e = { 0 };
	int status = 0;

	if (!*address) {
		doctor_add(d, "aggregator.grpc", VERDICT_SKIPPED,
			   "no address: --aggregator HOST:PORT names it");
	} else if (!http_call(&call, &status, &answer, &e)) {
		doctor_add(d, "aggregator.grpc", VERDICT_FAILED,
			   "%s speaks HTTP/1.1: that is no port for agents", address);
		doctor_fix(d, "--aggregator of the agent has to name the port of --grpc, 7401 "
			      "unless it was changed");
	} else if (strstr(e.msg, "no server") || strstr(e.msg, "the host's name") ||
		   e.code == ERR_TIMEOUT) {
		doctor_add(d, "aggregator.grpc", VERDICT_FAILED, "%s", e.msg);
		doctor_fix(d, "start the aggregator with --grpc 0.0.0.0:7401 and TLS (or "
			      "--insecure), and let TCP pass to that port");
	} else {
		doctor_add(d, "aggregator.grpc", VERDICT_OK, "%s takes connections", address);
	}
	buf_release(&answer);
	free(url);
}

void doctor_check_aggregator(struct doctor *d)
{
	check_grpc(d);
	if (!check_reach(d))
		return;
	check_ready(d);
	check_hosts(d);
}

/* ---- a store ---- */

static void on_finding(void *arg, const struct store_finding *f)
{
	struct doctor *d = arg;
	char check[64];

	snprintf(check, sizeof(check), "store.%s", f->name);
	doctor_add(d, check, f->ok ? VERDICT_OK : VERDICT_FAILED, "%s", f->text);
	if (!f->ok)
		doctor_fix(d, "docs/storage.md has the rights that a store's account needs");
}

void doctor_check_store(struct doctor *d)
{
	const char *url = d->conf->store;
	struct store *store;
	struct err e = { 0 };

	if (!url || !*url)
		return;
	if (store_open(&store, url, &e)) {
		doctor_add(d, "store.open", VERDICT_FAILED, "%s", e.msg);
		doctor_fix(d, "docs/storage.md has the forms of a store's URL");
		return;
	}
	(void)store_check(store, store_within(STORE_NS), on_finding, d);
	store_free(store);
}
