/* SPDX-License-Identifier: Apache-2.0 */
/* The document of all hosts. Loop thread. */
#ifndef AGGREGATOR_API_HOSTS_TEXT_H
#define AGGREGATOR_API_HOSTS_TEXT_H

#include <jansson.h>

#include "json/json_text.h"

struct host;
struct jobs;
struct pieces;
struct pods;
struct registry;
struct spaces;

/* docs/schema/host.schema.json; a new reference. */
json_t *host_json(const struct host *h);

/*
 * Makes docs/schema/hosts.schema.json of all hosts, sorted by name, in pieces: of 10,000 hosts it has some ten megabytes. Each host
 * is as it was in its own turn of the loop.
 *
 * Of hosts `within` some namespaces (NULL = all hosts): those that are in these, or have a pod in them; without their
 * processes and sessions, which may be of others.
 */
struct pieces *hosts_text_new(struct registry *r, const struct pods *pods,
			      const struct spaces *within, struct jobs *jobs);

/* The same in one piece, for which fn is called in a later turn. */
void hosts_make_text(struct registry *r, const struct pods *pods, const struct spaces *within,
		     struct jobs *jobs, json_text_fn fn, void *arg);

#endif
