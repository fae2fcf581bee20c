/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/aggregator.h"

#include <string.h>

#include "base/mem.h"
#include "base/now.h"
#include "net/address.h"
#include "proto/limits.h"

#define RETAIN_MAX_NS	     9e18
#define RETAIN_PERIOD_MIN_NS 1e8

#define KUBERNETES_RETRY_MIN_NS 1e7
#define KUBERNETES_RETRY_MAX_NS 6e10

#define ENROL_ACCOUNT "tutti:tutti-agent"
#define ENROL_LIFE_NS (24 * 3600 * NS_PER_S) /* the default, 24h */
#define LEAD_MAX_NS   (60 * 1000000000LL)

static const struct conf_field fields[] = {
	CONF(struct aggregator_conf, store, "file:///var/lib/tutti",
	     "where sessions are kept: file:///DIR or s3://BUCKET/PREFIX (docs/storage.md)"),
	CONF(struct aggregator_conf, http, "127.0.0.1:7400",
	     "address of the HTTP API and the page"),
	CONF(struct aggregator_conf, http_host, NULL,
	     "name by which browsers and clients reach HTTP, besides the address and this "
	     "machine's "
	     "name; may be repeated"),
	CONF(struct aggregator_conf, perfetto_url, "https://ui.perfetto.dev",
	     "URL of the Perfetto that the page opens windows in; empty: none"),
	CONF(struct aggregator_conf, xprof_url, NULL,
	     "URL by which browsers reach an XProf that serves the store's folder 'profiles': the "
	     "page links sessions to it"),
	CONF(struct aggregator_conf, http_client, NULL,
	     "common name of a client certificate by --ca that may capture and delete over HTTP, "
	     "as "
	     "with the token; may be repeated"),
	CONF(struct aggregator_conf, grpc, "127.0.0.1:7401",
	     "address of gRPC: agents and ProfilerService clients"),
	CONF(struct aggregator_conf, probe, "127.0.0.1:7403", "UDP address of the time probes"),
	CONF(struct aggregator_conf, spool, "/var/lib/tutti/spool",
	     "directory for uploads under way"),
	CONF(struct aggregator_conf, replica, NULL,
	     "name of this aggregator where several share the store and one leads "
	     "(docs/replicas.md); empty: it is the only one"),
	CONF(struct aggregator_conf, replica_url, NULL,
	     "where this replica's HTTP is reached, for people who ask another one"),
	CONF_RANGE(struct aggregator_conf, lease_ns, "15s", 5e8, 3e11,
		   "time without a sign of the leader after which another replica leads"),
	CONF(struct aggregator_conf, upload, "auto",
	     "how files get into the store. auto: agents put them there by grants, if the store "
	     "makes grants; via-aggregator: always through this program"),
	CONF(struct aggregator_conf, reads, "auto",
	     "how files are read. auto: whoever asks for it gets a link to the store, if the store "
	     "makes links; via-aggregator: always through this program"),
	CONF(struct aggregator_conf, lead_ns, "500ms",
	     "least time from a request to T0, for arming the agents"),
	CONF(struct aggregator_conf, grace_ns, "60s",
	     "time after a window to wait for its hosts, at least; twice the window if that is "
	     "longer"),
	CONF(struct aggregator_conf, causality_ns, "500ms",
	     "longest causality check of events that hosts share; 0s = no check"),
	CONF(struct aggregator_conf, stop_limit_ns, "10s",
	     "longest time for stopping; 0s = no limit"),
	CONF_RANGE(struct aggregator_conf, retain_ns, "0", 0, RETAIN_MAX_NS,
		   "how long sessions stay, like 30d; 0 = until they are deleted"),
	/* the member and its unit: the name of a flag ends before the unit */
	{ "retain_bytes_bytes", CONF_SIZE, offsetof(struct aggregator_conf, retain_bytes), "0",
	  "most bytes of all sessions together, like 500G: the oldest go; 0 = any number", false, 0,
	  0 },
	CONF(struct aggregator_conf, retain_run, NULL,
	     "how long the sessions of one run stay instead: RUN=TIME, like nightly=7d; "
	     "'=TIME' for sessions without a run, 0 = until they are deleted; may be "
	     "repeated"),
	{ "quota_bytes_bytes", CONF_SIZE, offsetof(struct aggregator_conf, quota_bytes), "0",
	  "bytes of all sessions from which on no further one begins, like 1T; 0 = any number",
	  false, 0, 0 },
	CONF_RANGE(struct aggregator_conf, quota_sessions, "0", 0, 1e9,
		   "most sessions: beyond it no further one begins; 0 = any number"),
	CONF(struct aggregator_conf, quota_run, NULL,
	     "quota of one run: RUN=BYTES,SESSIONS, like nightly=200G,50 (0 = any number); "
	     "'=BYTES,SESSIONS' for sessions without a run; may be repeated"),
	CONF_RANGE(struct aggregator_conf, limit_captures, "0", 0, 1e6,
		   "most captures that one caller may have under way; 0 = any number"),
	CONF_RANGE(
		struct aggregator_conf, limit_starts, "0", 0, 1e6,
		"most captures, snapshots and retries that one caller may start in a minute; 0 = "
		"any number"),
	{ "limit_bytes_bytes", CONF_SIZE, offsetof(struct aggregator_conf, limit_bytes), "0",
	  "bytes of one caller's captures under way from which on no further one of his begins, "
	  "like "
	  "10G; 0 = any number",
	  false, 0, 0 },
	CONF_RANGE(struct aggregator_conf, limit_streams, "0", 0, 1e6,
		   "most event streams that one caller may have open; 0 = any number"),
	CONF_RANGE(struct aggregator_conf, retain_period_ns, "10m", RETAIN_PERIOD_MIN_NS,
		   RETAIN_MAX_NS, "time between two looks for sessions that are to go"),
	CONF(struct aggregator_conf, cert, NULL, "PEM file with the certificate of gRPC and HTTP"),
	CONF(struct aggregator_conf, key, NULL, "PEM file with its key"),
	CONF(struct aggregator_conf, ca, NULL,
	     "PEM file: agents and gRPC clients need a certificate of this authority"),
	CONF(struct aggregator_conf, enrol, NULL,
	     "folder of an authority that gives agents their certificates, made at the first start "
	     "(docs/security.md); empty: none"),
	CONF(struct aggregator_conf, enrol_cert, NULL,
	     "PEM file: the certificate of an authority that is given, instead of one made there"),
	CONF(struct aggregator_conf, enrol_key, NULL, "PEM file: its key"),
	CONF(struct aggregator_conf, enrol_audience, NULL,
	     "audience of projected tokens of the cluster of --kubernetes, for which its agents' "
	     "pods "
	     "get certificates of their nodes; empty: none"),
	CONF(struct aggregator_conf, enrol_account, ENROL_ACCOUNT,
	     "service account of those pods: NAMESPACE:NAME"),
	CONF_RANGE(struct aggregator_conf, enrol_life_ns, "24h", NS_PER_S, 366 * 86400 * NS_PER_S,
		   "how long such a certificate is valid"),
	CONF(struct aggregator_conf, enrol_name, NULL,
	     "name by which agents reach this aggregator, for the certificate that it makes itself "
	     "with --enrol and without --cert; may be repeated"),
	CONF_RANGE(struct aggregator_conf, hosts_per_address, "256", 0, LIMIT_HOSTS,
		   "most hosts that may connect from one address while neither --ca nor --enrol "
		   "proves their names, "
		   "and most connections from it that belong to no known agent; 0 = no limit"),
	{ "views_limit_bytes", CONF_SIZE, offsetof(struct aggregator_conf, views_limit), "8G",
	  "most bytes of the indexes that are kept of sessions that were opened in a viewer, in "
	  "the spool's "
	  "folder 'views'",
	  false, 0, 0 },
	CONF(struct aggregator_conf, kubernetes, NULL,
	     "list and watch the pods of this cluster, for selectors as job=NAME: in-cluster, or "
	     "the API "
	     "server's URL; empty: no"),
	CONF(struct aggregator_conf, kubernetes_token_file, NULL,
	     "file with the token for an API server that is given by its URL"),
	CONF(struct aggregator_conf, kubernetes_ca, NULL,
	     "PEM file with its authorities; the system's without it"),
	CONF_RANGE(
		struct aggregator_conf, kubernetes_retry_ns, "1s", KUBERNETES_RETRY_MIN_NS,
		KUBERNETES_RETRY_MAX_NS,
		"first pause after a failure of the API server; twice as long after each further "
		"one, up to 64 times"),
	CONF(struct aggregator_conf, kubernetes_people, NULL,
	     "audience of tokens of that cluster whose holders may ask, by their rights to "
	     "captures.tutti.dev (docs/security.md); empty: none"),
	CONF_RANGE(struct aggregator_conf, kubernetes_people_hold_ns, "60s", NS_PER_S,
		   600 * NS_PER_S, "how long what the cluster says of such a token holds"),
	CONF(struct aggregator_conf, token_file, NULL,
	     "file with a secret: whoever has it is an admin"),
	CONF(struct aggregator_conf, tokens, NULL,
	     "file of tokens with roles, a line each: NAME ROLE SHA256-OF-TOKEN [NAMESPACE,...] "
	     "(docs/security.md)"),
	CONF(struct aggregator_conf, oidc_issuer, NULL,
	     "URL of an OpenID provider whose people may ask (docs/security.md); empty: none"),
	CONF(struct aggregator_conf, oidc_audience, NULL, "audience (aud) that their tokens have"),
	CONF(struct aggregator_conf, oidc_client, NULL,
	     "client (azp) that their tokens may be given to; the audience without it"),
	CONF(struct aggregator_conf, oidc_ca, NULL,
	     "PEM file with the authorities of the provider; the system's without it"),
	CONF(struct aggregator_conf, oidc_name_claim, "sub", "claim with a person's name"),
	CONF(struct aggregator_conf, oidc_role_claim, "groups", "claim with a person's groups"),
	CONF_RANGE(struct aggregator_conf, oidc_fetch_ns, "30s", 1e8, 3.6e12,
		   "least time between two fetches of the provider's keys, which follow a token "
		   "with a key that is not known"),
	CONF_RANGE(struct aggregator_conf, oidc_hold_ns, "10m", 1e8, 24 * 3.6e12,
		   "how old the provider's keys may be before a new token has them fetched again"),
	CONF(struct aggregator_conf, oidc_grant, NULL,
	     "what a group may do: GROUP=ROLE or GROUP=ROLE:NAMESPACE,...; may be repeated"),
	CONF(struct aggregator_conf, audit, NULL,
	     "file for the audit log: who captured, deleted, shared and was refused "
	     "(docs/security.md)"),
	{ "audit_size_bytes", CONF_SIZE, offsetof(struct aggregator_conf, audit_size), "64M",
	  "bytes from which on the audit log goes on in another file", false, 0, 0 },
	CONF(struct aggregator_conf, anonymous, "auto",
	     "what callers of HTTP without a token may do: none, viewer, operator, admin, or auto "
	     "(docs/security.md)"),
	CONF(struct aggregator_conf, insecure, NULL, "listen in plaintext beyond loopback"),
	CONF(struct aggregator_conf, log_level, "info", "error, warn, info or debug"),
	CONF(struct aggregator_conf, log_format, "text", "text, or json: one object a line"),
	{ 0 }
};

const struct conf_table aggregator_conf_table = {
	.prog = "tutti-aggregator",
	.summary = "Captures the hosts of a fleet together, stores the sessions and serves them.",
	.fields = fields,
};

/* ---- what no single setting says ---- */

/* Checks that each listener is on loopback, has TLS, or has --insecure. The probe port follows the same
 * rule, although probes are not secret. */
static int check_listeners(const struct aggregator_conf *conf, struct err *e)
{
	const bool has_cert = conf_is_set(conf->cert),
		   has_rpc_cert = has_cert || conf_is_set(conf->enrol);
	const struct {
		const char *address;
		bool has_tls;
	} listeners[] = { { conf->http, has_cert },
			  { conf->grpc, has_rpc_cert },
			  { conf->probe, has_rpc_cert } };

	for (size_t i = 0; i < ARRAY_SIZE(listeners); i++) {
		int rc = address_check_listener(listeners[i].address, listeners[i].has_tls,
						conf->insecure, e);

		if (rc)
			return rc;
	}
	return 0;
}

/* The page makes links of it: nothing that a browser would run. */
static int check_url(const char *name, const char *url, struct err *e)
{
	if (!conf_is_set(url) || !strncmp(url, "http://", 7) || !strncmp(url, "https://", 8))
		return 0;
	return err_set(e, ERR_INVALID, "%s '%.100s': use http://... or https://...", name, url);
}

static int check_anonymous(const struct aggregator_conf *conf, struct err *e)
{
	enum role role;
	int rc;

	if (!conf_is_set(conf->anonymous) || !strcmp(conf->anonymous, "auto"))
		return 0;
	rc = role_parse(&role, conf->anonymous, e);
	return rc ? err_prefix(e, "anonymous") : 0;
}

static int check_way(const char *name, const char *way, struct err *e)
{
	if (!conf_is_set(way) || !strcmp(way, "auto") || !strcmp(way, "via-aggregator"))
		return 0;
	return err_set(e, ERR_INVALID, "%s '%.40s': use auto or via-aggregator", name, way);
}

/* The setting that says something of an authority that there is not; or NULL. */
static const char *enrolment_alone(const struct aggregator_conf *conf)
{
	if (conf_is_set(conf->enrol_cert))
		return "enrol-cert and enrol-key";
	if (conf->enrol_name.n)
		return "enrol-name";
	if (conf_is_set(conf->enrol_audience))
		return "enrol-audience";
	if (conf_is_set(conf->enrol_account) && strcmp(conf->enrol_account, ENROL_ACCOUNT) != 0)
		return "enrol-account";
	return conf->enrol_life_ns && conf->enrol_life_ns != ENROL_LIFE_NS ? "enrol-life" : NULL;
}

static int check_enrolment(const struct aggregator_conf *conf, struct err *e)
{
	if (conf_is_set(conf->enrol_cert) != conf_is_set(conf->enrol_key))
		return err_set(e, ERR_INVALID, "enrol-cert and enrol-key: give both or none");
	if (!conf_is_set(conf->enrol)) {
		const char *alone = enrolment_alone(conf);

		return alone ? err_set(e, ERR_INVALID, "%s: give --enrol, too", alone) : 0;
	}
	if (conf_is_set(conf->ca))
		return err_set(e, ERR_INVALID,
			       "enrol and ca: agents' certificates are of one authority, "
			       "give one of the two");
	if (conf_is_set(conf->replica) && !conf_is_set(conf->enrol_cert))
		return err_set(e, ERR_INVALID,
			       "enrol and replica: all replicas need the same authority; give each "
			       "its --enrol-cert and --enrol-key");
	return 0;
}

int aggregator_check_conf(const struct aggregator_conf *conf, struct err *e)
{
	if (conf->lead_ns < 0 || conf->lead_ns > LEAD_MAX_NS)
		return err_set(e, ERR_INVALID, "lead: use 0 to %lld s", LEAD_MAX_NS / NS_PER_S);
	if (conf->grace_ns <= 0 || conf->grace_ns > LIMIT_GRACE_NS)
		return err_set(e, ERR_INVALID, "grace: use more than 0, at most %lld s",
			       LIMIT_GRACE_NS / NS_PER_S);
	if (conf->http_client.n && (!conf_is_set(conf->cert) || !conf_is_set(conf->ca)))
		return err_set(e, ERR_INVALID,
			       "http-client: certificates of clients need --cert, --key and --ca");
	if (check_way("upload", conf->upload, e) || check_way("reads", conf->reads, e))
		return e->code;
	if (conf->stop_limit_ns < 0)
		return err_set(e, ERR_INVALID, "stop-limit: use 0 s or more");
	if (check_url("perfetto-url", conf->perfetto_url, e) ||
	    check_url("xprof-url", conf->xprof_url, e) ||
	    check_url("replica-url", conf->replica_url, e) || check_anonymous(conf, e) ||
	    check_enrolment(conf, e))
		return e->code;
	return check_listeners(conf, e);
}
