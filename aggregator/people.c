/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the aggregator that knows its callers: access, and the audit log. */
#include "aggregator/aggregator.h"

#include "aggregator/access/access.h"
#include "aggregator/access/audit.h"
#include "aggregator/access/kube_people.h"
#include "aggregator/access/oidc.h"
#include "base/now.h"
#include "json/json_text.h"

#define KUBE_REFUSE_NS (10 * NS_PER_S)

static int new_access(struct aggregator *agg, struct err *e)
{
	const struct aggregator_conf *conf = &agg->conf;
	const struct oidc_env oidc = { .jobs = &agg->jobs,
				       .issuer = conf->oidc_issuer,
				       .audience = conf->oidc_audience,
				       .client = conf->oidc_client,
				       .ca_file = conf->oidc_ca,
				       .name_claim = conf->oidc_name_claim,
				       .role_claim = conf->oidc_role_claim,
				       .fetch_ns = conf->oidc_fetch_ns,
				       .hold_ns = conf->oidc_hold_ns,
				       .grants = &conf->oidc_grant };
	const struct kube_people_env kubernetes = { .jobs = &agg->jobs,
						    .server = conf->kubernetes,
						    .token_file = conf->kubernetes_token_file,
						    .ca_file = conf->kubernetes_ca,
						    .audience = conf->kubernetes_people,
						    .hold_ns = conf->kubernetes_people_hold_ns,
						    .refuse_ns = KUBE_REFUSE_NS };
	const struct access_env env = {
		.jobs = &agg->jobs,
		.admin_token = agg->token,
		.tokens_file = agg->conf.tokens,
		.oidc = conf_is_set(conf->oidc_issuer) ? &oidc : NULL,
		.kubernetes = conf_is_set(conf->kubernetes_people) ? &kubernetes : NULL,
		.certificates = &agg->conf.http_client,
		.anonymous = aggregator_anonymous_role(agg),
	};

	if (env.kubernetes && !conf_is_set(conf->kubernetes))
		return err_set(e, ERR_INVALID, "kubernetes-people needs --kubernetes");
	return access_new(&agg->access, &env, e);
}

static int open_audit(struct aggregator *agg, struct err *e)
{
	const struct audit_env env = { .jobs = &agg->jobs,
				       .path = agg->conf.audit,
				       .file_bytes = agg->conf.audit_size };

	return conf_is_set(agg->conf.audit) ? audit_open(&agg->audit, &env, e) : 0;
}

int aggregator_open_access(struct aggregator *agg, struct err *e)
{
	int rc = new_access(agg, e);

	return rc ? rc : open_audit(agg, e);
}

void aggregator_close_access(struct aggregator *agg)
{
	audit_free(agg->audit);
	access_free(agg->access);
	agg->audit = NULL;
	agg->access = NULL;
}

/* What the request became, whichever way it came. */
void aggregator_note_started(const struct aggregator *agg, const struct capture *c)
{
	json_t *o = json_object();

	json_put_text(o, "verb", "started");
	json_put_text(o, "who", c->owner);
	json_put_text(o, "origin", c->origin);
	json_put_text(o, "session", c->session);
	json_put_text(o, "run", c->run);
	json_put_int(o, "hosts", (int64_t)c->n_hosts);
	json_put(o, "namespaces", spaces_json(&c->spaces));
	audit_write(agg->audit, o, NULL, NULL);
}

/* By a program of a host, or a client of ProfilerService: requests over HTTP have a line of their own. */
void aggregator_note_stopped(const struct aggregator *agg, const struct capture *c, const char *by)
{
	json_t *o = json_object();

	json_put_text(o, "verb", "stop");
	json_put_text(o, "who", "");
	json_put_text(o, "origin", by);
	json_put_text(o, "session", c->session);
	json_put_text(o, "outcome", "granted");
	audit_write(agg->audit, o, NULL, NULL);
}
