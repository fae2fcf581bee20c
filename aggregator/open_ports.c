/* SPDX-License-Identifier: Apache-2.0 */
/* Warnings at start: which ports other hosts can reach, and what any peer may do there. */
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

static bool is_set(const char *text)
{
	return text && *text;
}

static void warn(const char *part, const char *address, const char *text)
{
	if (is_open(address))
		log_warn("AGG-OPEN",
			 "part=%s address=%s reason=\"other hosts reach this port: %s\"", part,
			 address, text);
}

static const char *http_rights(const struct aggregator *agg)
{
	bool tls = is_set(agg->conf.cert);

	if (agg->token && tls)
		return "any peer may read hosts and sessions; capturing and deleting need the "
		       "token";
	if (agg->token)
		return "any peer may read hosts and sessions; capturing and deleting need the "
		       "token, "
		       "which plaintext shows to the network";
	if (tls)
		return "any peer may read hosts and sessions; no peer may capture or delete before "
		       "there is a --token-file";
	return "any peer may read, capture and delete; use --cert, --key and --token-file";
}

static const char *grpc_rights(const struct aggregator *agg)
{
	if (is_set(agg->conf.ca) && agg->token)
		return "agents need a certificate by --ca; capturing also needs the token";
	if (is_set(agg->conf.ca))
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

bool aggregator_needs_token(const struct aggregator *agg)
{
	return is_set(agg->conf.cert) && is_open(agg->conf.http);
}
