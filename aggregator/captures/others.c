/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts of other namespaces than the capture's. Who reads a session sees its namespaces alone, so nothing of others may be
 * recorded into it: not of a host whose next agent has another label, while the capture waits or before it is retried, and
 * not of one that a snapshot only expects. To the capture such a host is not connected.
 */
#include "aggregator/captures/capture_impl.h"

#include <stdlib.h>
#include <string.h>

#include "aggregator/pods/pods.h"
#include "base/log.h"
#include "json/json_text.h"

static bool is_of_fleet(const struct capture *c)
{
	return spaces_are_empty(&c->spaces) || c->spaces.all;
}

/* Whether it was chosen for a pod, which may be gone by now: that makes no host fail. A retry records what is there now. */
static bool was_chosen_by_pod(const struct capture *c, const char *host)
{
	const json_t *pod;
	size_t i;

	for (i = 0; i < c->n_pods; i++) {
		if (!strcmp(c->pods[i].host, host))
			return true;
	}
	json_array_foreach(c->earlier_pods, i, pod)
	{
		if (!strcmp(json_get_text(pod, "host"), host))
			return true;
	}
	return false;
}

/* What it recorded when it was of the session's namespaces, it may deliver. */
static bool holds_file(const struct capture *c, const struct host *host)
{
	const struct host_held *held = c->session ? host_find_held(host, c->session) : NULL;

	return held && held->undelivered;
}

static void set_other(struct capture_host *h, bool is_other)
{
	const struct capture *c = h->capture;

	if (is_other && !h->is_other)
		log_warn("AGG-OTHER-NAMESPACE",
			 "session=%s host=%s reason=\"its agent is of none of the session's "
			 "namespaces: it is left out\"",
			 c->session ? c->session : "?", h->name);
	h->is_other = is_other;
}

/* The hosts of the capture's namespaces; none where there is no host at all of these. */
static void select_own(const struct capture *c, struct pods_selection *out)
{
	*out = (struct pods_selection){ 0 };
	(void)!pods_select(c->captures->env.pods, c->captures->env.registry, "all", &c->spaces, out,
			   NULL);
}

static int compare_name(const void *name, const void *host)
{
	return strcmp(name, (*(struct host *const *)host)->name);
}

static void find_other(struct capture_host *h, const struct pods_selection *own)
{
	const struct capture *c = h->capture;
	const struct host *host = registry_find(c->captures->env.registry, h->name);
	bool is_own = own->n_hosts && bsearch(h->name, own->hosts, own->n_hosts,
					      sizeof(struct host *), compare_name);

	set_other(h, host && !is_own && !holds_file(c, host) &&
			     (capture_is_retry(c) || !was_chosen_by_pod(c, h->name)));
}

void capture_find_others(struct capture *c)
{
	struct pods_selection own;

	if (is_of_fleet(c))
		return;
	select_own(c, &own);
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (!capture_host_has_ended(&c->hosts[i]))
			find_other(&c->hosts[i], &own);
	}
	pods_selection_release(&own);
}

bool capture_host_is_other(struct capture_host *h)
{
	struct pods_selection own;

	if (is_of_fleet(h->capture))
		return false;
	select_own(h->capture, &own);
	find_other(h, &own);
	pods_selection_release(&own);
	return h->is_other;
}

bool capture_host_has_moved(struct capture_host *h, const struct host *host)
{
	const struct capture *c = h->capture;
	const char *space = host_get_value(host, SELECTOR_NAMESPACE, "namespace");

	if (is_of_fleet(c) || !space || was_chosen_by_pod(c, h->name))
		return h->is_other;
	set_other(h, !spaces_have(&c->spaces, space));
	return h->is_other;
}
