/* SPDX-License-Identifier: Apache-2.0 */
/* The document of all hosts. Loop thread. */
#ifndef AGGREGATOR_API_HOSTS_TEXT_H
#define AGGREGATOR_API_HOSTS_TEXT_H

#include <jansson.h>

#include "json/json_text.h"

struct host;
struct jobs;
struct pods;
struct registry;
struct spaces;

/* docs/schema/host.schema.json; a new reference. */
json_t *host_json(const struct host *h);

/*
 * Makes docs/schema/hosts.schema.json of all hosts, sorted by name. fn gets the text once: before this returns
 * if there are few hosts, else some turns of the loop later. Each host is as it was in its own turn.
 */
void hosts_make_text(struct registry *r, struct jobs *jobs, json_text_fn fn, void *arg);

/* The same of the hosts that are in these namespaces, or have a pod in them: without their processes and sessions, which may
 * be of others. */
void hosts_make_text_within(struct registry *r, const struct pods *pods,
			    const struct spaces *within, struct jobs *jobs, json_text_fn fn,
			    void *arg);

#endif
