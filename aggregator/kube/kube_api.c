/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/kube/kube_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"
#include "json/json_text.h"
#include "net/address.h"
#include "net/http_client_pool.h"

#define IN_CLUSTER "in-cluster"
#define ACCOUNT	   "/var/run/secrets/kubernetes.io/serviceaccount/"

/* ---- the server ---- */

static int set_in_cluster(struct kube_api *api, struct err *e)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");

	if (!host || !*host || !port || !*port)
		return err_set(e, ERR_NOT_FOUND,
			       "kubernetes: in-cluster needs KUBERNETES_SERVICE_HOST and _PORT, "
			       "which pods have; elsewhere give the API server's URL");
	api->url = xasprintf(strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host, port);
	api->token_file = xstrdup(ACCOUNT "token");
	api->http = http_pool_new(ACCOUNT "ca.crt");
	return 0;
}

/* A token must not travel in plaintext, except on this machine. */
static int check_url(const char *url, struct err *e)
{
	static const char plain[] = "http://", tls[] = "https://";
	char host[64];

	if (!strncmp(url, tls, strlen(tls)) && url[strlen(tls)])
		return 0;
	if (strncmp(url, plain, strlen(plain)))
		return err_set(e, ERR_INVALID,
			       "kubernetes '%.80s': use in-cluster or https://HOST:PORT", url);
	url += strlen(plain);
	snprintf(host, sizeof(host), "%.*s", (int)strcspn(url, ":/"), url);
	if (address_is_loopback(host))
		return 0;
	return err_set(e, ERR_INVALID, "kubernetes: http:// would show the token: use https://");
}

static char *copy_or_null(const char *text)
{
	return text && *text ? xstrdup(text) : NULL;
}

int kube_api_open(struct kube_api *api, const char *server, const char *token_file,
		  const char *ca_file, struct err *e)
{
	int rc;

	if (!strcmp(server, IN_CLUSTER))
		return set_in_cluster(api, e);
	rc = check_url(server, e);
	if (rc)
		return rc;
	api->url = xstrdup(server);
	if (api->url[strlen(api->url) - 1] == '/')
		api->url[strlen(api->url) - 1] = '\0';
	api->token_file = copy_or_null(token_file);
	api->http = http_pool_new(ca_file && *ca_file ? ca_file : NULL);
	return 0;
}

void kube_api_close(struct kube_api *api)
{
	http_pool_free(api->http);
	free(api->url);
	free(api->token_file);
	*api = (struct kube_api){ 0 };
}

/* ---- requests ---- */

static int read_token(const struct kube_api *api, struct buf *header, struct err *e)
{
	struct buf token = BUF_INIT;
	size_t len;
	int rc = api->token_file ? file_load(api->token_file, KUBE_TOKEN_BYTES, &token, e) : 0;

	if (rc || !api->token_file)
		return rc;
	len = strcspn(buf_str(&token), "\r\n");
	if (!len || strspn(buf_str(&token), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					    "0123456789-_.~+/=") < len)
		rc = err_set(e, ERR_INVALID, "%s: no token", api->token_file);
	else
		buf_addf(header, "Authorization: Bearer %.*s", (int)len, buf_str(&token));
	buf_release(&token);
	return rc;
}

int kube_api_call(const struct kube_api *api, const struct kube_call *call, int *status,
		  struct buf *answer, struct err *e)
{
	char *url = xasprintf("%s%s", api->url, call->path);
	char *accept = xasprintf("Accept: %s", call->accept ? call->accept : "application/json");
	struct buf token = BUF_INIT, body = BUF_INIT;
	const char *headers[] = { accept, "Content-Type: application/json", NULL, NULL };
	struct http_request req = { .method = call->body ? "POST" : "GET",
				    .url = url,
				    .headers = headers,
				    .fd = -1,
				    .has_body = call->body != NULL,
				    .answer_max = call->answer_max,
				    .deadline_mono_ns = now_mono_ns() + call->patience_ns,
				    .piece = call->piece,
				    .arg = call->arg,
				    .cancelled = call->cancelled };
	int rc = read_token(api, &token, e);

	if (!rc) {
		headers[2] = token.len ? buf_str(&token) : NULL;
		if (call->body)
			json_append(&body, call->body, 0);
		req.data = body.data;
		req.len = body.len;
		rc = http_pool_request(api->http, &req, status, answer, e);
	}
	buf_release(&token);
	buf_release(&body);
	free(accept);
	free(url);
	return rc;
}
