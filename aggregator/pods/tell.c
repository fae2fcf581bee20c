/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/pods/tell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/messages.h"
#include "aggregator/fleet/registry.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/limits.h"

/* Changes of so long are told together; a walk over 10,000 hosts takes 3 ms of CPU time. */
#define GATHER_NS (250 * NS_PER_MS)

/* Of one message; the rest of LIMIT_CONTROL_FIELDS and LIMIT_CONTROL_BYTES is spare. */
#define FIELDS_MOST 3500
#define BYTES_MOST  (LIMIT_CONTROL_BYTES / 2)

#define POD_FIELDS 10 /* one for the pod itself, one for each member */

/* A number for what there is to tell: each change of a pod has a serial of its own. Never 0 if there is a pod. */
static uint64_t digest_of(const struct pod_table *t, const char *node)
{
	uint64_t sum = 0;

	for (const struct pod *p = pod_table_first_on(t, node); p; p = pod_table_next_on(p))
		sum += (p->serial + 1) * UINT64_C(0x9e3779b97f4a7c15);
	return sum;
}

/* ---- the message ---- */

struct telling {
	Tutti__V1__Pods m;
	Tutti__V1__Pod *pods[LIMIT_PODS];
	size_t fields, bytes;
};

static void put_containers(Tutti__V1__Pod *m, const struct pod *p)
{
	m->containers = xcalloc(p->n_containers + 1, sizeof(*m->containers));
	for (size_t i = 0; i < p->n_containers; i++)
		if (*p->containers[i].id)
			m->containers[m->n_containers++] = xasprintf("%s %s", p->containers[i].id,
								     p->containers[i].name);
}

static void add_pod(struct telling *t, const struct pod *p)
{
	size_t fields = POD_FIELDS + p->n_containers;
	Tutti__V1__Pod *m;

	if (t->m.n_pods == LIMIT_PODS || t->fields + fields > FIELDS_MOST ||
	    t->bytes + p->bytes > BYTES_MOST) {
		t->m.left_out++;
		return;
	}
	t->fields += fields;
	t->bytes += p->bytes;
	m = xcalloc(1, sizeof(*m));
	tutti__v1__pod__init(m);
	m->uid = (char *)p->uid;
	m->name = (char *)p->name;
	m->namespace_ = (char *)p->space;
	m->job = (char *)p->job;
	m->rank = (char *)p->rank;
	m->opted_out = p->opted_out;
	m->profiler_port = (uint32_t)p->profiler_port;
	m->address = (char *)p->ip;
	put_containers(m, p);
	t->pods[t->m.n_pods++] = m;
}

/* Pods that opted out come first, then those of jobs: if there is no room for all, the others are left out. */
static void add_pods(struct telling *t, const struct pod_table *table, const char *node)
{
	for (int round = 0; round < 3; round++) {
		const struct pod *p = pod_table_first_on(table, node);

		for (; p; p = pod_table_next_on(p)) {
			int its_round = p->opted_out ? 0 : *p->job ? 1 : 2;

			if (its_round == round && !p->is_over)
				add_pod(t, p);
		}
	}
}

static void release(struct telling *t)
{
	for (size_t i = 0; i < t->m.n_pods; i++) {
		for (size_t k = 0; k < t->pods[i]->n_containers; k++)
			free(t->pods[i]->containers[k]);
		free(t->pods[i]->containers);
		free(t->pods[i]);
	}
}

static void tell(const struct pod_table *table, struct host *h, const char *node)
{
	Tutti__V1__AggregatorMessage m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;
	struct telling t = { .m = TUTTI__V1__PODS__INIT };
	struct buf bytes = BUF_INIT;

	t.m.node = (char *)node;
	t.m.pods = t.pods;
	add_pods(&t, table, node);
	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_PODS;
	m.pods = &t.m;
	message_pack(&bytes, &m);
	if (t.m.left_out)
		log_warn("PODS-LEFT-OUT", "host=%s pods=%u reason=\"too many on one node\"",
			 h->name, t.m.left_out);
	host_send(h, &bytes);
	buf_release(&bytes);
	release(&t);
}

/* ---- the agents ---- */

static void visit(void *arg, struct host *h)
{
	const struct pod_teller *t = arg;
	const char *node = host_get_value(h, SELECTOR_NODE, "node");
	uint64_t digest;

	if (!h->control)
		return;
	digest = digest_of(t->table, node);
	if (digest == h->pods_told)
		return;
	h->pods_told = digest;
	tell(t->table, h, node);
}

static void begin_walk(void *arg)
{
	struct pod_teller *t = arg;

	t->walk.loop = t->loop;
	t->walk.registry = t->registry;
	t->walk.visit = visit;
	t->walk.arg = t;
	host_walk_begin(&t->walk);
}

void pod_teller_wake(struct pod_teller *t)
{
	if (!loop_timer_armed(&t->timer))
		loop_timer_in(t->loop, &t->timer, GATHER_NS, begin_walk, t);
}

void pod_teller_stop(struct pod_teller *t)
{
	if (!t->loop)
		return;
	loop_timer_cancel(t->loop, &t->timer);
	host_walk_cancel(&t->walk);
}
