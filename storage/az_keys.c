/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/az_keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/percent.h"
#include "storage/keys_service.h"

#define RESOURCE "https://storage.azure.com/"

static int from_environment(const struct keys_env *env, struct cloud_keys *out, struct err *e)
{
	const char *key = keys_setting("AZURE_STORAGE_KEY");
	const char *sas = keys_setting("AZURE_STORAGE_SAS_TOKEN");

	(void)env;
	if (key) {
		out->kind = KEYS_SECRET;
		return keys_take(out->secret, sizeof(out->secret), key, "AZURE_STORAGE_KEY", e);
	}
	if (sas) {
		out->kind = KEYS_QUERY;
		return keys_take(out->token, sizeof(out->token), sas + (*sas == '?'),
				 "AZURE_STORAGE_SAS_TOKEN", e);
	}
	return ERR_NOT_FOUND;
}

/* The tenant becomes part of a URL's path. */
static int make_token_url(const char *tenant, char **out, struct err *e)
{
	const char *host = keys_setting("AZURE_AUTHORITY_HOST");
	size_t len;

	if (strspn(tenant, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") !=
	    strlen(tenant))
		return err_set(e, ERR_INVALID, "AZURE_TENANT_ID is no name of a tenant");
	if (!host)
		host = "https://login.microsoftonline.com";
	len = strlen(host);
	if (host[len - 1] == '/')
		len--;
	*out = xasprintf("%.*s/%s/oauth2/v2.0/token", (int)len, host, tenant);
	return service_check_url(*out, "AZURE_AUTHORITY_HOST", e);
}

static int from_workload_identity(const struct keys_env *env, struct cloud_keys *out, struct err *e)
{
	const char *path = keys_setting("AZURE_FEDERATED_TOKEN_FILE");
	const char *client = keys_setting("AZURE_CLIENT_ID"),
		   *tenant = keys_setting("AZURE_TENANT_ID");
	struct buf token = BUF_INIT, form = BUF_INIT, answer = BUF_INIT;
	struct service_request ask = { .method = "POST", .body = &form, .type = SERVICE_FORM };
	char *url = NULL;
	int status, rc;

	if (!path || !client || !tenant)
		return ERR_NOT_FOUND;
	rc = make_token_url(tenant, &url, e);
	if (!rc)
		rc = service_load_token(path, &token, e);
	if (!rc) {
		service_add_field(&form, "grant_type", "client_credentials");
		service_add_field(&form, "client_id", client);
		service_add_field(&form, "scope", RESOURCE ".default");
		service_add_field(&form, "client_assertion_type",
				  "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
		service_add_field(&form, "client_assertion", buf_str(&token));
		ask.url = url;
		ask.is_remote = !service_is_loopback(url);
		rc = service_ask(env, &ask, &status, &answer, e);
	}
	if (!rc)
		rc = service_take_bearer(out, "Entra ID", status, &answer, e);
	service_wipe(&token);
	service_wipe(&form);
	service_wipe(&answer);
	free(url);
	return rc;
}

static int from_managed_identity(const struct keys_env *env, struct cloud_keys *out, struct err *e)
{
	const char *host = keys_setting("AZURE_POD_IDENTITY_AUTHORITY_HOST");
	const char *client = keys_setting("AZURE_CLIENT_ID");
	struct buf url = BUF_INIT, answer = BUF_INIT;
	struct service_request ask = { .method = "GET",
				       .header = "Metadata: true",
				       .connect_ns = SERVICE_METADATA_NS };
	int status, rc;

	buf_addf(&url, "%s/metadata/identity/oauth2/token?api-version=2018-02-01&resource=",
		 host ? host : "http://169.254.169.254");
	percent_encode(&url, RESOURCE, "");
	if (client) {
		buf_add_str(&url, "&client_id=");
		percent_encode(&url, client, "");
	}
	ask.url = buf_str(&url);
	if (service_ask(env, &ask, &status, &answer, NULL))
		rc = ERR_NOT_FOUND; /* no virtual machine of Azure */
	else
		rc = service_take_bearer(out, "the metadata service", status, &answer, e);
	service_wipe(&answer);
	buf_release(&url);
	return rc;
}

static const struct keys_source sources[] = {
	{ "environment", from_environment },
	{ "workload identity", from_workload_identity },
	{ "managed identity", from_managed_identity },
};

struct keys_chain *az_chain_new(const char *ca_file)
{
	return keys_chain_new(&(struct keys_conf){
		.sources = sources,
		.n = ARRAY_SIZE(sources),
		.looked = "neither the environment (AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN), a "
			  "workload identity (AZURE_FEDERATED_TOKEN_FILE) nor a managed identity "
			  "has any",
		.ca_file = ca_file });
}
