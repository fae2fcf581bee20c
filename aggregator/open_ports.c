/* SPDX-License-Identifier: Apache-2.0 */
/* Warnings at start: which ports other hosts can reach, and what any peer may do there. */
#include <string.h>

#include "aggregator/aggregator.h"
#include "base/log.h"
#include "net/address.h"

static bool is_open(const char *address)
{
	char host[ADDRESS_HOST_BYTES];
	int port;
	struct err e;

	return !address_split(address, host, &port, &e) && !address_is_loopback(host);
}

static void warn(const char *part, const char *address, const char *text)
{
	if (is_open(address))
		log_warn("AGG-OPEN",
			 "part=%s address=%s reason=\"other hosts reach this port: %s\"", part,
			 address, text);
}

static bool has_people(const struct aggregator *agg)
{
	return conf_is_set(agg->conf.tokens) || conf_is_set(agg->conf.oidc_issuer) ||
	       conf_is_set(agg->conf.kubernetes_people);
}

static const char *http_rights(const struct aggregator *agg)
{
	bool tls = conf_is_set(agg->conf.cert);
	bool has_tokens = agg->token || has_people(agg);

	switch (aggregator_anonymous_role(agg)) {
	case ROLE_NONE:
		if (has_tokens && tls)
			return "without a token peers get nothing but the page and health";
		if (has_tokens)
			return "without a token peers get nothing but the page and health; "
			       "plaintext shows tokens to the network";
		return "no peer may do anything before there is a --tokens or a --token-file";
	case ROLE_VIEWER:
		return "any peer may read hosts and sessions; the rest needs a token";
	default:
		return "any peer may read, capture and delete; use --cert, --key and --tokens";
	}
}

static const char *grpc_rights(const struct aggregator *agg)
{
	if (conf_is_set(agg->conf.enrol))
		return "agents need a certificate of the authority in --enrol, or a token to get "
		       "one";
	if (conf_is_set(agg->conf.ca) && agg->token)
		return "agents need a certificate by --ca; capturing also needs the token";
	if (conf_is_set(agg->conf.ca))
		return "agents and ProfilerService clients need a certificate by --ca, and may "
		       "capture";
	if (agg->token)
		return "any peer may join as an agent; capturing needs the token; use --ca";
	return "any peer may join as an agent and capture every host; use --ca";
}

void aggregator_warn_open_ports(const struct aggregator *agg)
{
	if (agg->conf.insecure)
		log_warn("AGG-OPEN", "reason=\"--insecure or TUTTI_INSECURE is set: ports beyond "
				     "loopback may be plaintext\"");
	warn("http", agg->conf.http, http_rights(agg));
	warn("grpc", agg->conf.grpc, grpc_rights(agg));
	warn("probe", agg->conf.probe,
	     "only connected agents get answers: they sign probes with a key from their "
	     "control link");
}

enum role aggregator_anonymous_role(const struct aggregator *agg)
{
	const char *name = agg->conf.anonymous;
	enum role role;

	if (conf_is_set(name) && strcmp(name, "auto") && !role_parse(&role, name, NULL))
		return role;
	if (has_people(agg))
		return ROLE_NONE;
	if (is_open(agg->conf.http) && (agg->token || conf_is_set(agg->conf.cert)))
		return ROLE_NONE;
	return agg->token ? ROLE_VIEWER : ROLE_ADMIN;
}
