/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP API v1 (docs/wire.md) and the page. Loop thread. */
#ifndef AGGREGATOR_API_API_H
#define AGGREGATOR_API_API_H

#include <stdbool.h>
#include <stdint.h>

#include "aggregator/api/limits.h"
#include "base/err.h"

struct access;
struct api;
struct audit;
struct captures;
struct conf_list;
struct control;
struct enrol;
struct http_req;
struct imports;
struct quotas;
struct ingest;
struct jobs;
struct pods;
struct registry;
struct removals;
struct retention_stats;
struct session_store;
struct time_service;
struct views;

struct api_env {
	struct jobs *jobs;
	struct session_store *store;
	struct registry *registry;
	struct pods *pods;
	struct captures *captures;
	struct imports *imports;
	struct quotas *quotas;
	struct removals *removals;
	struct views *views;
	const struct time_service *time; /* these four only for their statistics */
	const struct retention_stats *retention;
	const struct ingest *ingest;
	const struct control *control;
	int64_t started_mono_ns;
	struct access *access; /* who callers are */
	struct audit *audit; /* NULL = none */
	struct enrol *enrol; /* NULL = agents get no certificates here */
	struct control *links; /* that revocations end */
	struct limits_conf limits; /* of one caller */
	bool has_tls; /* of HTTP */
	const char *link_key; /* of link_key.h */
	bool has_links; /* links lead to the store, not to this program */
	const char *http_address; /* of the listener, for the Host headers that it accepts */
	const struct conf_list *http_hosts; /* further names it accepts */
	const char *perfetto_url, *xprof_url; /* where browsers have these; NULL or "" = nowhere */

	const char
		*replica; /* its name among several aggregators; NULL or "" = it is the only one */
	/* A follower's: it answers reads, and names the leader to who wants more. The texts change, and are "" until they are
	 * known. NULL: it leads. */
	const char *leader, *leader_url;
};

struct api *api_new(const struct api_env *env);

/* A session was committed or removed without a request under way. */
void api_note_settled(struct api *api, const char *session);

void api_begin_stop(struct api *api); /* from now on every request is refused */
void api_free(struct api *api); /* the HTTP server is gone; NULL is fine */

/* An http_handler; `arg` is the struct api. */
void api_handle(struct http_req *req, void *arg);

#endif
