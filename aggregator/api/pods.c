/* SPDX-License-Identifier: Apache-2.0 */
/* The pods of the cluster, and their jobs. */
#include "aggregator/pods/pods.h"

#include "aggregator/api/api_impl.h"
#include "net/http_server.h"

void api_pod_list(struct api *api, struct http_req *req, const char *id, const char *name)
{
	const char *selector = http_query(req, "selector");
	struct err e = { 0 };

	(void)id;
	(void)name;
	if (pods_make_text(api->env.pods, selector && *selector ? selector : "all",
			   api_view_of(req), api_answer_text, req, &e))
		api_answer_err(req, &e);
}

void api_pod_jobs(struct api *api, struct http_req *req, const char *id, const char *name)
{
	(void)id;
	(void)name;
	pods_make_jobs_text(api->env.pods, api_view_of(req), api_answer_text, req);
}
