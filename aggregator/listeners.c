/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the aggregator that listen: probes and HTTP. */
#include "aggregator/parts.h"

#include "aggregator/aggregator.h"
#include "aggregator/api/api.h"
#include "aggregator/captures/capture.h"
#include "aggregator/time/time_service.h"
#include "base/log.h"
#include "net/http_server.h"

#define HTTP_THREADS 3

static bool has_tls(const struct aggregator *agg)
{
	return agg->conf.cert && *agg->conf.cert;
}

int probe_start(struct aggregator *agg, struct err *e)
{
	int rc = time_service_listen(agg->time, agg->conf.probe, &agg->probe_port, e);

	if (rc)
		return rc;
	log_info("AGG-PART", "part=probe state=up address=%s port=%d", agg->conf.probe,
		 agg->probe_port);
	if (!agg->replica)
		return 0;
	time_service_admit_followers(agg->time);
	session_clock_save_probe(agg->conf.spool, agg->probe_port, time_service_cookie(agg->time),
				 time_service_key(agg->time));
	return 0;
}

void probe_stop(struct aggregator *agg)
{
	time_service_close(agg->time);
}

int http_start(struct aggregator *agg, struct err *e)
{
	const struct http_server_opts opts = {
		.address = agg->conf.http,
		.cert_file = has_tls(agg) ? agg->conf.cert : NULL,
		.key_file = has_tls(agg) ? agg->conf.key : NULL,
		/* Asks clients for a certificate only if --http-client accepts some: a browser that has one
		 * then asks its user which to send. */
		.ca_file = agg->conf.http_client.n ? agg->conf.ca : NULL,
		.threads = HTTP_THREADS,
	};
	int rc = http_server_new(&agg->http, agg->loop, &opts, api_handle, agg->api,
				 &agg->http_port, e);

	if (!rc)
		log_info("AGG-PART", "part=http state=up address=%s port=%d", agg->conf.http,
			 agg->http_port);
	return rc;
}

/* Frees the captures only after the requests that wait for a worker are answered. */
void http_stop(struct aggregator *agg)
{
	jobs_drain(&agg->jobs);
	captures_refuse_waiting(agg->captures);
	http_server_free(agg->http);
}
