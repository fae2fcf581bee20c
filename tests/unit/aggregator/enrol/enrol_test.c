/* SPDX-License-Identifier: Apache-2.0 */
/* Agents that enrol over TLS: what a token and a certificate give, in which order it is saved, and what a revocation ends. */
#include "aggregator/enrol/enrol.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "aggregator/enrol/nodes.h"
#include "base/conf.h"
#include "base/file.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/cert.h"
#include "net/http_server.h"
#include "net/rpc.h"
#include "proto/tutti/v1/enrol.pb-c.h"
#include "tests/lib/run_until.h"
#include "tests/lib/store.h"
#include "tests/lib/temp_dir.h"

#define LIFE_S	7200
#define WAIT_S	20 /* for an answer */
#define DENIED	RPC_PERMISSION_DENIED
#define NO_RULE "# none\n"

static const char *dir;
static struct loop *loop;
static struct rpc *rpc;
static struct store *store; /* what the authority remembers, over restarts */

/* ---- an authority and its port ---- */

struct office {
	struct jobs jobs;
	struct enrol *enrol;
	struct rpc_server *server;
	char target[40];
};

static void office_open_with(struct office *o, const struct nodes_env *cluster)
{
	static const struct conf_list no_names;
	static const char *const open_methods[] = { ENROL_PATH, NULL };
	char *folder = xasprintf("%s/enrol", dir);
	const struct enrol_env env = { .jobs = &o->jobs,
				       .folder = folder,
				       .store = store,
				       .life_ns = LIFE_S * NS_PER_S,
				       .cluster = cluster,
				       .server_names = &no_names };
	struct rpc_tls tls = { 0 };
	struct rpc_server_opts opts = { .address = "127.0.0.1:0",
					.tls = &tls,
					.open_methods = open_methods };
	struct err e;
	int port;

	*o = (struct office){ .jobs = { .loop = loop } };
	CHECK_OK(enrol_new(&o->enrol, &env, &e), e);
	tls.cert_file = enrol_server_cert_file(o->enrol);
	tls.key_file = enrol_server_key_file(o->enrol);
	tls.verifier = enrol_verifier(o->enrol);
	CHECK_OK(rpc_server_new(&o->server, rpc, &opts,
				&(struct rpc_method){ ENROL_PATH, &enrol_events, o->enrol, 0 }, 1,
				&port, &e),
		 e);
	snprintf(o->target, sizeof(o->target), "127.0.0.1:%d", port);
	free(folder);
}

static void office_open(struct office *o)
{
	office_open_with(o, NULL);
}

static void office_close(struct office *o)
{
	enrol_stop(o->enrol);
	rpc_server_free(o->server);
	jobs_drain(&o->jobs);
	enrol_free(o->enrol);
}

/* ---- a host that asks ---- */

struct host {
	char name[64];
	struct buf key, request;
	char *key_file, *cert_file;
	struct rpc_channel *channel; /* of the certificate that it has; else without one */
	/* the last answer */
	bool done;
	enum rpc_code code;
	char text[300];
	struct cert_host given;
};

static void host_open(struct host *h, const char *name)
{
	struct err e;

	*h = (struct host){ 0 };
	snprintf(h->name, sizeof(h->name), "%s", name);
	CHECK_OK(cert_make_key(&h->key, &e), e);
	CHECK_OK(cert_make_request(buf_str(&h->key), name, &h->request, &e), e);
	h->key_file = xasprintf("%s/%s.key", dir, name);
	h->cert_file = xasprintf("%s/%s.crt", dir, name);
	CHECK_OK(file_replace(h->key_file, 0600, h->key.data, h->key.len, &e), e);
}

static void host_dial(struct host *h, const struct office *o, bool shows_certificate)
{
	const struct rpc_tls tls = { .ca_file = enrol_ca_file(o->enrol),
				     .cert_file = shows_certificate ? h->cert_file : NULL,
				     .key_file = shows_certificate ? h->key_file : NULL };
	const struct rpc_channel_opts opts = { .target = o->target, .tls = &tls };
	struct err e;

	if (h->channel)
		rpc_channel_free(h->channel);
	CHECK_OK(rpc_channel_new(&h->channel, rpc, &opts, &e), e);
}

static void host_close(struct host *h)
{
	if (h->channel)
		rpc_channel_free(h->channel);
	buf_release(&h->key);
	buf_release(&h->request);
	free(h->key_file);
	free(h->cert_file);
}

static void on_answer(void *arg, const struct rpc_status *st, const struct rpc_msg *msg)
{
	struct host *h = arg;
	Tutti__V1__EnrolReply *reply;
	const uint8_t *data;
	struct err e;
	size_t len;

	h->done = true;
	h->code = st->code;
	snprintf(h->text, sizeof(h->text), "%s", st->text);
	if (!msg)
		return;
	data = rpc_msg_data(msg, &len);
	reply = tutti__v1__enrol_reply__unpack(NULL, len, data);
	CHECK(reply);
	CHECK_OK(cert_read_host(reply->certificate, strlen(reply->certificate), &h->given, &e), e);
	CHECK_OK(file_replace(h->cert_file, 0600, reply->certificate, strlen(reply->certificate),
			      &e),
		 e);
	CHECK(reply->life_ns <= LIFE_S * NS_PER_S && reply->life_ns > (LIFE_S - 60) * NS_PER_S);
	tutti__v1__enrol_reply__free_unpacked(reply, NULL);
}

/* As `name`, which may not be what its request has. */
static void host_send_as(struct host *h, const char *name, const char *token)
{
	Tutti__V1__EnrolRequest m = TUTTI__V1__ENROL_REQUEST__INIT;
	uint8_t bytes[CERT_REQUEST_BYTES + 512];
	size_t len;

	m.host = (char *)name;
	m.request.data = (uint8_t *)h->request.data;
	m.request.len = h->request.len;
	m.token = (char *)token;
	CHECK(tutti__v1__enrol_request__get_packed_size(&m) <= sizeof(bytes));
	len = tutti__v1__enrol_request__pack(&m, bytes);
	h->done = false;
	rpc_unary(h->channel, ENROL_PATH, bytes, len, now_mono_ns() + WAIT_S * NS_PER_S, on_answer,
		  h);
}

static enum rpc_code host_ask(struct host *h, const char *token)
{
	host_send_as(h, h->name, token);
	RUN_UNTIL(loop, h->done);
	return h->code;
}

static void check_refused(struct host *h, const char *token, enum rpc_code code, const char *why)
{
	CHECK_EQ(host_ask(h, token), code);
	if (!strstr(h->text, why))
		CHECK_STR(h->text, why);
}

/* ---- what an administrator does ---- */

static void on_durable(void *arg, const struct err *why)
{
	CHECK(!why);
	*(bool *)arg = true;
}

static void make_token(struct office *o, const char *hosts, int64_t uses,
		       char token[ENROL_TOKEN_BYTES])
{
	const struct enrol_token rules = { .host = hosts,
					   .life_ns = 3600 * NS_PER_S,
					   .uses = uses };
	bool is_durable = false;
	struct err e;

	CHECK_OK(enrol_add_token(o->enrol, &rules, token, on_durable, &is_durable, &e), e);
	RUN_UNTIL(loop, is_durable);
}

static void revoke(struct office *o, const char *host)
{
	bool is_durable = false;
	struct err e;

	CHECK_OK(enrol_revoke(o->enrol, host, on_durable, &is_durable, &e), e);
	RUN_UNTIL(loop, is_durable);
}

/* ---- tests ---- */

static void test_token(void)
{
	char token[ENROL_TOKEN_BYTES], bound[ENROL_TOKEN_BYTES];
	int64_t now_s = now_real_ns() / NS_PER_S;
	struct host a, b;
	struct office o;

	office_open(&o);
	host_open(&a, "host-a");
	host_open(&b, "host-b");
	host_dial(&a, &o, false);
	host_dial(&b, &o, false);
	make_token(&o, "", 1, token);
	make_token(&o, "host-b*", 0, bound);
	check_refused(&a, "", DENIED, "");
	check_refused(&a, "tutti-join-0000", DENIED, "not known");
	check_refused(&a, "a-token-of-a-pod", DENIED, "no join token");
	/* a request for another host, and one that is none, cost no use */
	host_send_as(&a, "host-b", token);
	RUN_UNTIL(loop, a.done);
	CHECK_EQ(a.code, DENIED);
	host_send_as(&a, "../a", token);
	RUN_UNTIL(loop, a.done);
	CHECK_EQ(a.code, RPC_INVALID_ARGUMENT);
	CHECK_EQ(host_ask(&a, token), RPC_OK);
	CHECK_STR(a.given.name, "host-a");
	CHECK_EQ(a.given.epoch, 1);
	CHECK(a.given.begin_s <= now_s && a.given.end_s - now_s >= LIFE_S &&
	      a.given.end_s - now_s <= LIFE_S + 60);
	check_refused(&b, token, DENIED, "used up");
	check_refused(&a, bound, DENIED, "is for hosts 'host-b*'");
	CHECK_EQ(host_ask(&b, bound), RPC_OK);
	CHECK_EQ(host_ask(&b, bound), RPC_OK);
	host_close(&a);
	host_close(&b);
	office_close(&o);
}

/* A use is saved before it is given: none is given that could not be saved, and a restart gives none twice. */
static void test_use_is_saved_first(void)
{
	char first[ENROL_TOKEN_BYTES], second[ENROL_TOKEN_BYTES];
	struct host a;
	struct office o;

	office_open(&o);
	host_open(&a, "host-a");
	host_dial(&a, &o, false);
	make_token(&o, "", 1, first);
	make_token(&o, "", 1, second);
	store_set_rules(store, "put * fail");
	check_refused(&a, first, RPC_UNAVAILABLE, "");
	store_set_rules(store, NO_RULE);
	CHECK_EQ(host_ask(&a, second), RPC_OK);
	office_close(&o);
	office_open(&o);
	host_dial(&a, &o, false);
	check_refused(&a, second, DENIED, "used up");
	host_close(&a);
	office_close(&o);
}

/* While the use of its token is being saved, the host is revoked. */
static void test_revoked_meanwhile(void)
{
	char token[ENROL_TOKEN_BYTES];
	bool is_durable = false;
	uint64_t n_writes;
	struct host a;
	struct office o;
	struct err e;

	office_open(&o);
	host_open(&a, "host-a");
	host_dial(&a, &o, false);
	make_token(&o, "", 2, token);
	n_writes = store_fault_writes(store);
	store_set_rules(store, "put * hang");
	host_send_as(&a, "host-a", token);
	RUN_UNTIL(loop, store_fault_writes(store) > n_writes);
	CHECK(!a.done);
	CHECK_OK(enrol_revoke(o.enrol, "host-a", on_durable, &is_durable, &e), e);
	store_set_rules(store, NO_RULE);
	RUN_UNTIL(loop, a.done && is_durable);
	CHECK_EQ(a.code, DENIED);
	CHECK(strstr(a.text, "the host 'host-a' is revoked"));
	check_refused(&a, token, DENIED, "is revoked");
	host_close(&a);
	office_close(&o);
}

/* With the certificate, for this host only; not with one that was revoked after the connection was made. */
static void test_renewal(void)
{
	char token[ENROL_TOKEN_BYTES];
	bool is_durable = false;
	struct host a, b;
	struct office o;
	struct err e;

	office_open(&o);
	host_open(&a, "host-c");
	host_open(&b, "host-d");
	host_dial(&a, &o, false);
	host_dial(&b, &o, false);
	make_token(&o, "", 0, token);
	CHECK_EQ(host_ask(&a, token), RPC_OK);
	CHECK_EQ(host_ask(&b, token), RPC_OK);
	host_dial(&a, &o, true);
	host_dial(&b, &o, true);
	CHECK_EQ(host_ask(&a, ""), RPC_OK);
	CHECK_STR(a.given.name, "host-c");
	/* b's request, which is good, by a's certificate, which is good */
	buf_reset(&a.request);
	buf_add(&a.request, b.request.data, b.request.len);
	host_send_as(&a, "host-d", "");
	RUN_UNTIL(loop, a.done);
	CHECK_EQ(a.code, DENIED);
	CHECK(strstr(a.text, "the certificate is for 'host-c', not for host 'host-d'"));
	CHECK_EQ(host_ask(&b, ""), RPC_OK);
	revoke(&o, "host-d");
	check_refused(&b, "", DENIED, "revoked"); /* on the connection of before */
	check_refused(&b, token, DENIED, "revoked");
	CHECK_OK(enrol_lift(o.enrol, "host-d", on_durable, &is_durable, &e), e);
	RUN_UNTIL(loop, is_durable);
	check_refused(&b, "", DENIED, "from before it was revoked");
	CHECK_EQ(host_ask(&b, token), RPC_OK);
	host_close(&a);
	host_close(&b);
	office_close(&o);
}

/* All certificates of now, and no token. */
static void test_epoch(void)
{
	char token[ENROL_TOKEN_BYTES];
	bool is_durable = false;
	struct host a;
	struct office o;

	office_open(&o);
	host_open(&a, "host-e");
	host_dial(&a, &o, false);
	make_token(&o, "", 0, token);
	CHECK_EQ(host_ask(&a, token), RPC_OK);
	host_dial(&a, &o, true);
	CHECK_EQ(host_ask(&a, ""), RPC_OK);
	CHECK_EQ(enrol_next_epoch(o.enrol, on_durable, &is_durable), 2);
	RUN_UNTIL(loop, is_durable);
	check_refused(&a, "", DENIED, "is of epoch 1, which is revoked: now is 2");
	office_close(&o);
	office_open(&o); /* nothing but the epoch was saved */
	host_dial(&a, &o, true);
	check_refused(&a, "", DENIED, "is of epoch 1, which is revoked: now is 2");
	CHECK_EQ(host_ask(&a, token), RPC_OK);
	CHECK_EQ(a.given.epoch, 2);
	host_dial(&a, &o, true);
	CHECK_EQ(host_ask(&a, ""), RPC_OK);
	CHECK_EQ(a.given.epoch, 2);
	host_close(&a);
	office_close(&o);
}

/* ---- the cluster's tokens ---- */

/* An API server: whose a token is follows from its text, "NODE/ACCOUNT/NUMBER-OF-PODS/AUDIENCE". */
static void answer_review(struct http_req *req, void *arg)
{
	char node[64] = "", account[64] = "", audience[64] = "";
	size_t len;
	const void *body = http_body(req, &len);
	json_t *doc = json_loadb(body, len, 0, NULL), *pods = json_array(), *answer;
	const char *token = json_string_value(
		json_object_get(json_object_get(doc, "spec"), "token"));
	char *text;
	int n_pods = 0;

	(void)arg;
	CHECK_STR(http_path(req), "/apis/authentication.k8s.io/v1/tokenreviews");
	CHECK(token);
	if (sscanf(token, "%63[^/]/%63[^/]/%d/%63s", node, account, &n_pods, audience) != 4)
		node[0] = '\0';
	for (int i = 0; i < n_pods; i++)
		json_array_append_new(pods, json_string("agent-pod"));
	answer = json_pack("{s:{s:b, s:[s], s:{s:s, s:{s:[s], s:o}}}}", "status", "authenticated",
			   *node != '\0', "audiences", audience, "user", "username", account,
			   "extra", "authentication.kubernetes.io/node-name", node,
			   "authentication.kubernetes.io/pod-name", pods);
	CHECK(answer);
	text = json_dumps(answer, 0);
	http_answer(req, 201, "application/json", text, strlen(text));
	free(text);
	json_decref(answer);
	json_decref(doc);
}

#define AGENTS "system:serviceaccount:tutti:tutti-agent"

/* The token of a pod of the agents' account, for our audience, gives its node's certificate and no other. */
static void test_pods(void)
{
	static const struct {
		const char *token, *why;
	} bad[] = {
		{ "no-token-at-all", "does not know this token" },
		{ "node-2/" AGENTS "/1/tutti", "a pod on the node 'node-2', not on 'node-1'" },
		{ "node-1/" AGENTS "/1/other", "not for the audience 'tutti'" },
		{ "node-1/" AGENTS "/0/tutti", "of no pod on a node" },
		{ "node-1/" AGENTS "/2/tutti", "of no pod on a node" },
		{ "node-1/" AGENTS "2/1/tutti", "not of the service account" },
		{ "node-1/system:serviceaccount:tutti:tutti-agen/1/tutti",
		  "not of the service account" },
		{ "node-1/tutti:tutti-agent/1/tutti", "not of the service account" },
		{ "node-1/x" AGENTS "/1/tutti", "not of the service account" },
		{ "../1/" AGENTS "/1/tutti", "" },
	};
	const struct http_server_opts opts = { .address = "127.0.0.1:0", .threads = 2 };
	struct http_server *server;
	struct nodes_env cluster = { .audience = "tutti", .account = "tutti:tutti-agent" };
	bool is_durable = false;
	struct host a;
	struct office o;
	struct err e;
	char *url;
	int port;

	CHECK_OK(http_server_new(&server, loop, &opts, answer_review, NULL, &port, &e), e);
	url = xasprintf("http://127.0.0.1:%d", port);
	cluster.server = url;
	cluster.jobs = &o.jobs;
	office_open_with(&o, &cluster);
	host_open(&a, "node-1");
	host_dial(&a, &o, false);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		check_refused(&a, bad[i].token, DENIED, bad[i].why);
	CHECK_EQ(host_ask(&a, "node-1/" AGENTS "/1/tutti"), RPC_OK);
	CHECK_STR(a.given.name, "node-1");
	CHECK_OK(enrol_revoke(o.enrol, "node-1", on_durable, &is_durable, &e), e);
	RUN_UNTIL(loop, is_durable);
	check_refused(&a, "node-1/" AGENTS "/1/tutti", DENIED, "revoked");
	host_close(&a);
	office_close(&o);
	http_server_free(server);
	free(url);
}

/* ---- files ---- */

static int open_again(const char *folder)
{
	static const struct conf_list no_names;
	struct jobs jobs = { .loop = loop };
	const struct enrol_env env = { .jobs = &jobs,
				       .folder = folder,
				       .store = store,
				       .life_ns = LIFE_S * NS_PER_S,
				       .server_names = &no_names };
	struct enrol *en = NULL;
	int rc = enrol_new(&en, &env, NULL);

	enrol_free(en);
	return rc;
}

/* Whoever can read the key is any host: it is not used once others can. */
static void test_private_files(void)
{
	char *folder = xasprintf("%s/enrol", dir), *key = xasprintf("%s/ca.key", folder);
	struct stat st;

	CHECK_EQ(open_again(folder), 0);
	CHECK(!stat(key, &st) && (st.st_mode & 0777) == 0600);
	CHECK(!stat(folder, &st) && (st.st_mode & 0777) == 0700);
	CHECK(!chmod(key, 0604));
	CHECK_EQ(open_again(folder), ERR_DENIED);
	CHECK(!chmod(key, 0600) && !chmod(folder, 0705));
	CHECK_EQ(open_again(folder), ERR_DENIED);
	CHECK(!chmod(folder, 0700));
	CHECK_EQ(open_again(folder), 0);
	free(key);
	free(folder);
}

static void test_token_rules(void)
{
	static const struct {
		struct enrol_token rules;
		const char *complaint;
	} cases[] = {
		{ { .host = "", .life_ns = NS_PER_S - 1 }, "1 s to 366 days" },
		{ { .host = "", .life_ns = INT64_C(367) * 86400 * NS_PER_S }, "1 s to 366 days" },
		{ { .host = "", .life_ns = NS_PER_S, .uses = -1 }, "uses" },
		{ { .host = "", .life_ns = NS_PER_S, .uses = 1000001 }, "uses" },
	};
	char token[ENROL_TOKEN_BYTES];
	struct office o;
	struct err e;

	office_open(&o);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECK_EQ(enrol_add_token(o.enrol, &cases[i].rules, token, on_durable, NULL, &e),
			 ERR_INVALID);
		CHECK(strstr(e.msg, cases[i].complaint));
	}
	CHECK_EQ(enrol_revoke(o.enrol, "no/name", on_durable, NULL, NULL), ERR_INVALID);
	CHECK_EQ(enrol_lift(o.enrol, "host-z", on_durable, NULL, NULL), ERR_NOT_FOUND);
	office_close(&o);
}

int main(void)
{
	static void (*const tests[])(void) = { test_token,
					       test_use_is_saved_first,
					       test_revoked_meanwhile,
					       test_renewal,
					       test_epoch,
					       test_token_rules,
					       test_pods,
					       test_private_files };
	struct err e;

	CHECK_OK(loop_new(&loop, 2, &e), e);
	CHECK_OK(rpc_new(&rpc, loop, &e), e);
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		dir = temp_dir();
		CHECK_OK(store_open(&store, "mem://enrol", &e), e);
		store = store_fault_wrap(store, NULL);
		tests[i]();
		store_free(store);
		temp_dir_remove(dir);
	}
	rpc_free(rpc);
	loop_free(loop);
	return 0;
}
