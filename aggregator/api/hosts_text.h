/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of hosts, as a document. Loop thread. */
#ifndef AGGREGATOR_API_HOSTS_TEXT_H
#define AGGREGATOR_API_HOSTS_TEXT_H

#include <jansson.h>

#include "json/json_text.h"

struct host;
struct jobs;
struct registry;

/* HOST of docs/wire.md; a new reference. */
json_t *host_json(const struct host *h);

/*
 * {"hosts": [HOST]} of all, sorted by name. fn gets the text once: from inside if they are few, else some
 * turns of the loop later; each host is as it was in its turn.
 */
void hosts_text(struct registry *r, struct jobs *jobs, json_text_fn fn, void *arg);

#endif
