/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the aggregator that gives agents their certificates. */
#include "aggregator/aggregator.h"

#include "aggregator/enrol/enrol.h"
#include "aggregator/enrol/nodes.h"

bool aggregator_has_certificates(const struct aggregator *agg)
{
	return conf_is_set(agg->conf.ca) || conf_is_set(agg->conf.enrol);
}

int aggregator_open_enrolment(struct aggregator *agg, struct err *e)
{
	const struct aggregator_conf *conf = &agg->conf;
	const struct nodes_env cluster = { .jobs = &agg->jobs,
					   .server = conf->kubernetes,
					   .token_file = conf->kubernetes_token_file,
					   .ca_file = conf->kubernetes_ca,
					   .audience = conf->enrol_audience,
					   .account = conf->enrol_account };
	const struct enrol_env env = {
		.jobs = &agg->jobs,
		.audit = agg->audit,
		.folder = conf->enrol,
		.store = agg->replica ? agg->store.store : NULL,
		.cluster = conf_is_set(conf->enrol_audience) ? &cluster : NULL,
		.cert_file = conf_is_set(conf->enrol_cert) ? conf->enrol_cert : NULL,
		.key_file = conf_is_set(conf->enrol_key) ? conf->enrol_key : NULL,
		.life_ns = conf->enrol_life_ns,
		.server_names = conf_is_set(conf->cert) ? NULL : &conf->enrol_name
	};

	if (env.cluster && !conf_is_set(conf->kubernetes))
		return err_set(e, ERR_INVALID, "enrol-audience needs --kubernetes");
	return conf_is_set(conf->enrol) ? enrol_new(&agg->enrol, &env, e) : 0;
}

void aggregator_close_enrolment(struct aggregator *agg)
{
	enrol_free(agg->enrol);
	agg->enrol = NULL;
}
