/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/enrol/enrol.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "aggregator/access/audit.h"
#include "aggregator/enrol/authority.h"
#include "aggregator/enrol/nodes.h"
#include "aggregator/enrol/records.h"
#include "base/buf.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "json/json_text.h"
#include "net/cert.h"
#include "net/rpc.h"
#include "proto/message.h"
#include "proto/names.h"
#include "proto/tutti/v1/enrol.pb-c.h"

#define LINES_PER_S	  20 /* of refusals */
#define TOKEN_LIFE_MAX_NS (INT64_C(366) * 86400 * NS_PER_S)
#define TOKEN_USES_MAX	  INT64_C(1000000)

struct enrol {
	struct enrol_env env;
	struct authority authority;
	struct records *records;
	struct nodes *nodes; /* NULL = no cluster's tokens are taken */
	struct rpc_verifier verifier;
	int64_t refused_s; /* the second of the latest refusal, and how many it has */
	unsigned int n_refused;
};

/* One call, and what it waits for: each of the two has a reference. */
struct join {
	unsigned int n_refs;
	struct enrol *enrol;
	struct rpc_call *call; /* NULL once it is closed */
	Tutti__V1__EnrolRequest *request; /* NULL before it came */
	const char *how; /* what the host has shown */
	struct buf certificate;
	int64_t end_s;
};

static int64_t now_s(void)
{
	return now_real_ns() / NS_PER_S;
}

/* ---- who calls ---- */

static int verify(void *arg, const char *pem, size_t len, char name[RPC_IDENTITY_BYTES],
		  int64_t *end_real_ns, struct err *e)
{
	const struct enrol *en = arg;
	struct cert_host host;
	int rc = cert_verify_host(en->authority.ca, pem, len, now_s(), &host, e);

	if (!rc)
		rc = records_check(en->records, &host, e);
	if (rc)
		return rc;
	snprintf(name, RPC_IDENTITY_BYTES, "%s", host.name);
	*end_real_ns = host.end_s * NS_PER_S;
	return 0;
}

/* ---- the end of a call ---- */

static struct join *join_ref(struct join *j)
{
	j->n_refs++;
	return j;
}

static void join_unref(struct join *j)
{
	if (--j->n_refs)
		return;
	if (j->request && j->request->token)
		explicit_bzero(j->request->token, strlen(j->request->token));
	if (j->request)
		tutti__v1__enrol_request__free_unpacked(j->request, NULL);
	buf_release(&j->certificate);
	free(j);
}

static void finish(struct join *j, enum rpc_code code, const char *text)
{
	if (j->call)
		rpc_finish(j->call, code, text);
}

static json_t *audit_entry(const struct join *j, const char *outcome)
{
	json_t *o = json_object();

	json_put_text(o, "verb", "enrol");
	json_put_text(o, "who", j->request ? j->request->host : "");
	json_put_text(o, "how", j->how);
	json_put_text(o, "peer", j->call ? rpc_peer(j->call) : "");
	json_put_text(o, "outcome", outcome);
	return o;
}

static bool may_log(struct enrol *en)
{
	int64_t second = now_mono_ns() / NS_PER_S;

	if (en->refused_s != second)
		en->n_refused = 0;
	en->refused_s = second;
	return en->n_refused++ < LINES_PER_S;
}

static enum rpc_code code_of(const struct err *why)
{
	switch (why->code) {
	case ERR_INVALID:
	case ERR_LIMIT:
		return RPC_INVALID_ARGUMENT;
	case ERR_DENIED:
		return RPC_PERMISSION_DENIED;
	default:
		return RPC_UNAVAILABLE;
	}
}

static void refuse(struct join *j, const struct err *why)
{
	json_t *entry = audit_entry(j, "refused");

	json_put_text(entry, "reason", why->msg);
	audit_refusal(j->enrol->env.audit, entry, NULL, NULL);
	if (j->call && may_log(j->enrol))
		log_warn("AGG-ENROL", "host=%s peer=%s state=refused how=%s reason=\"%s\"",
			 j->request ? j->request->host : "?", rpc_peer(j->call), j->how, why->msg);
	finish(j, code_of(why), why->msg);
}

/* ---- a certificate ---- */

static int sign(struct join *j, struct err *e)
{
	const struct enrol *en = j->enrol;
	const int64_t at_s = now_s();
	struct cert_host host = { .epoch = records_epoch(en->records),
				  .begin_s = at_s - CERT_EARLY_S,
				  .end_s = at_s + en->env.life_ns / NS_PER_S };

	j->end_s = host.end_s;
	snprintf(host.name, sizeof(host.name), "%s", j->request->host);
	return cert_sign_host(en->authority.ca, j->request->request.data, j->request->request.len,
			      &host, &j->certificate, e);
}

static void answer(struct join *j)
{
	Tutti__V1__EnrolReply reply = TUTTI__V1__ENROL_REPLY__INIT;
	uint8_t *bytes;
	size_t len;

	if (!j->call)
		return;
	reply.certificate = (char *)buf_str(&j->certificate);
	reply.life_ns = j->end_s * NS_PER_S - now_real_ns();
	len = tutti__v1__enrol_reply__get_packed_size(&reply);
	bytes = xmalloc(len + 1);
	tutti__v1__enrol_reply__pack(&reply, bytes);
	rpc_admit(j->call);
	rpc_send(j->call, bytes, len);
	free(bytes);
	log_info("AGG-ENROL", "host=%s peer=%s state=enrolled how=%s life_s=%" PRId64,
		 j->request->host, rpc_peer(j->call), j->how, reply.life_ns / NS_PER_S);
	finish(j, RPC_OK, "");
}

static void on_noted(void *arg, const struct err *not_noted)
{
	struct join *j = arg;
	struct err why;

	if (not_noted) {
		why = *not_noted;
		err_prefix(&why, "the audit log cannot be written, so no certificate was given");
		why.code = ERR_BUSY;
		refuse(j, &why);
	} else {
		answer(j);
	}
	join_unref(j);
}

/* The host has shown who it is. It may have been revoked meanwhile. */
static void grant(struct join *j)
{
	struct err why;

	if (records_check_host(j->enrol->records, j->request->host, &why) || sign(j, &why)) {
		refuse(j, &why);
		return;
	}
	audit_write(j->enrol->env.audit, audit_entry(j, "granted"), on_noted, join_ref(j));
}

/* ---- by a join token ---- */

/* A use is counted on disk before it is given: a restart gives none twice. */
static void on_use_saved(void *arg, const struct err *not_saved)
{
	struct join *j = arg;
	struct err why;

	if (not_saved) {
		why = *not_saved;
		why.code = ERR_BUSY;
		refuse(j, &why);
	} else {
		grant(j);
	}
	join_unref(j);
}

static void use_token(struct join *j)
{
	struct records *r = j->enrol->records;
	struct err why;

	j->how = "join-token";
	if (records_use_token(r, j->request->token, j->request->host, now_s(), &why)) {
		refuse(j, &why);
		return;
	}
	records_save(r, on_use_saved, join_ref(j));
}

/* ---- by the token of a pod ---- */

static void on_node(void *arg, void *found, const struct err *not_good)
{
	struct join *j = arg;
	const char *node = found, *host = j->request->host;
	struct err why;

	if (not_good) {
		refuse(j, not_good);
	} else if (strcmp(node, host) != 0) {
		err_set(&why, ERR_DENIED, "the token is of a pod on the node '%s', not on '%s'",
			node, host);
		refuse(j, &why);
	} else {
		grant(j);
	}
	join_unref(j);
}

static void ask_cluster(struct join *j)
{
	struct err why;

	j->how = "service-account";
	if (nodes_check(j->enrol->nodes, j->request->token, on_node, j, &why))
		refuse(j, &why);
	else
		join_ref(j);
}

/* ---- by the certificate before it ---- */

static void renew(struct join *j)
{
	const char *host = j->request->host;
	struct err why;

	j->how = "certificate";
	if (rpc_check_identity(j->call, &why))
		refuse(j, &why);
	else if (strcmp(rpc_identity(j->call), host) != 0) {
		err_set(&why, ERR_DENIED, "the certificate is for '%s', not for host '%s'",
			rpc_identity(j->call), host);
		refuse(j, &why);
	} else {
		grant(j);
	}
}

/* ---- the call ---- */

static int read_request(struct join *j, const struct rpc_msg *msg, struct err *e)
{
	const Tutti__V1__EnrolRequest *m;
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);
	int rc = message_unpack((ProtobufCMessage **)&j->request,
				&tutti__v1__enrol_request__descriptor, LIMIT_ENROL_BYTES,
				LIMIT_SMALL_FIELDS, data, len, e);

	if (rc)
		return rc;
	m = j->request;
	rc = name_check_host(m->host, e);
	if (rc) /* what is no name is in no line */
		m->host[0] = '\0';
	if (!rc)
		rc = records_check_host(j->enrol->records, m->host, e);
	/* before a token is used up for nothing */
	if (!rc)
		rc = cert_check_request(m->request.data, m->request.len, m->host, e);
	return rc;
}

static void identify(struct join *j)
{
	const char *token = j->request->token;
	struct err why;

	if (!*token) {
		renew(j);
	} else if (!strncmp(token, RECORDS_TOKEN_BEGIN, strlen(RECORDS_TOKEN_BEGIN))) {
		use_token(j);
	} else if (j->enrol->nodes) {
		ask_cluster(j);
	} else {
		err_set(&why, ERR_DENIED,
			"this is no join token, and this aggregator takes no tokens of a cluster");
		refuse(j, &why);
	}
}

static void on_opened(struct rpc_call *call)
{
	struct join *j = xcalloc(1, sizeof(*j));

	j->n_refs = 1;
	j->enrol = rpc_arg(call);
	j->call = call;
	j->how = "nothing";
	rpc_set_arg(call, j);
}

static bool on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct join *j = rpc_arg(call);
	struct err why;

	if (j->request)
		return false;
	if (read_request(j, msg, &why))
		refuse(j, &why);
	else
		identify(j);
	return true;
}

static void on_half_closed(struct rpc_call *call)
{
	const struct join *j = rpc_arg(call);

	if (!j->request)
		rpc_finish(call, RPC_INVALID_ARGUMENT, "no request came");
}

static void on_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct join *j = rpc_arg(call);

	(void)st;
	j->call = NULL;
	if (j->enrol->nodes && nodes_leave(j->enrol->nodes, j))
		join_unref(j);
	join_unref(j);
}

const struct rpc_events enrol_events = {
	.opened = on_opened,
	.message = on_message,
	.half_closed = on_half_closed,
	.closed = on_closed,
};

/* ---- what an administrator does ---- */

int enrol_add_token(struct enrol *en, const struct enrol_token *rules, char out[ENROL_TOKEN_BYTES],
		    enrol_fn fn, void *arg, struct err *e)
{
	struct join_rules join = { .host = rules->host, .uses = rules->uses };
	int rc;

	static_assert(ENROL_TOKEN_BYTES == RECORDS_TOKEN_BYTES, "a token fits");
	if (rules->life_ns < NS_PER_S || rules->life_ns > TOKEN_LIFE_MAX_NS)
		return err_set(e, ERR_INVALID, "a join token lives for 1 s to 366 days");
	if (rules->uses < 0 || rules->uses > TOKEN_USES_MAX)
		return err_set(e, ERR_INVALID, "uses: 0 (any number) to %" PRId64, TOKEN_USES_MAX);
	if (strlen(rules->host) > LIMIT_HOST_NAME)
		return err_set(e, ERR_INVALID, "host: at most %d characters", LIMIT_HOST_NAME);
	join.until_s = now_s() + rules->life_ns / NS_PER_S;
	rc = records_add_token(en->records, &join, now_s(), out, e);
	if (!rc)
		records_save(en->records, fn, arg);
	return rc;
}

int enrol_revoke(struct enrol *en, const char *host, enrol_fn fn, void *arg, struct err *e)
{
	int rc = name_check_host(host, e);

	if (!rc)
		rc = records_revoke(en->records, host, e);
	if (!rc)
		records_save(en->records, fn, arg);
	return rc;
}

int enrol_lift(struct enrol *en, const char *host, enrol_fn fn, void *arg, struct err *e)
{
	int rc = records_lift(en->records, host, now_s(), e);

	if (!rc)
		records_save(en->records, fn, arg);
	return rc;
}

uint64_t enrol_next_epoch(struct enrol *en, enrol_fn fn, void *arg)
{
	records_next_epoch(en->records);
	records_save(en->records, fn, arg);
	return records_epoch(en->records);
}

/* ---- life ---- */

const struct rpc_verifier *enrol_verifier(const struct enrol *en)
{
	return &en->verifier;
}

const char *enrol_ca_file(const struct enrol *en)
{
	return en->authority.ca_file;
}

const char *enrol_server_cert_file(const struct enrol *en)
{
	return en->authority.server_cert_file;
}

const char *enrol_server_key_file(const struct enrol *en)
{
	return en->authority.server_key_file;
}

int enrol_new(struct enrol **out, const struct enrol_env *env, struct err *e)
{
	struct enrol *en = xcalloc(1, sizeof(*en));
	char *path = xasprintf("%s/records.json", env->folder);
	int rc = authority_open(&en->authority, env->folder, env->cert_file, env->key_file, e);

	en->env = *env;
	en->verifier = (struct rpc_verifier){ .verify = verify, .arg = en };
	if (!rc && env->server_names)
		rc = authority_make_server(&en->authority, env->folder, env->server_names, e);
	if (!rc && env->cluster)
		rc = nodes_new(&en->nodes, env->cluster, e);
	if (!rc)
		rc = records_open(&en->records, env->jobs, path, env->store, e);
	free(path);
	if (rc) {
		err_prefix(e, "enrol");
		enrol_free(en);
		return rc;
	}
	log_info("AGG-ENROL", "state=up authority=%s epoch=%" PRIu64, en->authority.ca_file,
		 records_epoch(en->records));
	*out = en;
	return 0;
}

void enrol_stop(struct enrol *en)
{
	if (en)
		nodes_stop(en->nodes);
}

void enrol_free(struct enrol *en)
{
	if (!en)
		return;
	nodes_free(en->nodes);
	records_free(en->records);
	authority_release(&en->authority);
	free(en);
}
