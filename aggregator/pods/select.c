/* SPDX-License-Identifier: Apache-2.0 */
/* Which hosts and pods a selector names. */
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/registry.h"
#include "aggregator/fleet/selector.h"
#include "aggregator/pods/pods_impl.h"
#include "base/mem.h"

/* ---- hosts by node ---- */

static int compare_entries(const void *a, const void *b)
{
	const struct node_entry *x = a, *y = b;

	return strcmp(x->node, y->node);
}

void node_index_build(struct node_index *x, const struct registry *r)
{
	struct host *const *hosts = registry_hosts(r, &x->n);
	bool is_sorted = true;

	x->entries = xcalloc(x->n + 1, sizeof(*x->entries));
	for (size_t i = 0; i < x->n; i++) {
		x->entries[i] = (struct node_entry){ .node = host_get_value(hosts[i], SELECTOR_NODE,
									    "node"),
						     .host = hosts[i],
						     .at = i };
		is_sorted = is_sorted &&
			    (!i || strcmp(x->entries[i - 1].node, x->entries[i].node) <= 0);
	}
	if (!is_sorted) /* nodes are mostly called as their hosts, which are sorted */
		sort_array(x->entries, x->n, sizeof(*x->entries), compare_entries);
}

const struct node_entry *node_index_find(const struct node_index *x, const char *node)
{
	const struct node_entry wanted = { .node = node };

	return x->n ? bsearch(&wanted, x->entries, x->n, sizeof(wanted), compare_entries) : NULL;
}

void node_index_release(struct node_index *x)
{
	free(x->entries);
}

/* ---- what terms are about ---- */

struct pod_on_host {
	const struct pod *pod;
	const struct host *host; /* or NULL */
};

static const char *text_or_null(const char *text)
{
	return *text ? text : NULL;
}

static const char *get_of_pod(const struct pod *p, enum selector_key key, const char *label)
{
	switch (key) {
	case SELECTOR_POD:
		return p->name;
	case SELECTOR_NAMESPACE:
		return p->space;
	case SELECTOR_NODE:
		return text_or_null(p->node);
	case SELECTOR_JOB:
		return text_or_null(p->job);
	case SELECTOR_RANK:
		return text_or_null(p->rank);
	default:
		return pod_label(p, label);
	}
}

/* What a pod does not have, its host may have. */
static const char *get_of_both(const void *arg, enum selector_key key, const char *label)
{
	const struct pod_on_host *it = arg;
	const char *value = get_of_pod(it->pod, key, label);

	return value || !it->host ? value : host_get_value(it->host, key, label);
}

static const char *get_of_host(const void *arg, enum selector_key key, const char *label)
{
	return host_get_value(arg, key, label);
}

static bool host_matches(const struct selector *s, const struct host *h)
{
	const struct selector_subject subject = { .host = h->name, .get = get_of_host, .arg = h };

	return selector_matches(s, &subject);
}

bool selector_names_pod(const struct selector *s, const struct pod *p, const struct host *h)
{
	const struct pod_on_host both = { .pod = p, .host = h };
	const struct selector_subject subject = { .host = h ? h->name : p->node,
						  .get = get_of_both,
						  .arg = &both };

	return selector_matches(s, &subject);
}

/* Whether the selector asks for pods, and not only for hosts that may have some. */
static bool is_about_pods(const struct selector *s)
{
	for (size_t i = 0; i < s->n_terms; i++)
		if (!s->terms[i].is_negative && s->terms[i].key != SELECTOR_LABEL &&
		    s->terms[i].key != SELECTOR_NODE)
			return true;
	return false;
}

/* ---- selecting ---- */

/* A selection that is being made: `chosen` has a place for each host of the registry. */
struct selecting {
	const struct selector *selector;
	struct node_index nodes;
	bool *chosen;
	struct pods_selection *out;
};

static void try_pod(struct selecting *s, struct pod *p)
{
	const struct node_entry *node = node_index_find(&s->nodes, p->node);
	struct host *host = node ? node->host : NULL;

	if (pod_is_over(p) || p->opted_out || (!host && !s->out->is_about_pods) ||
	    !selector_names_pod(s->selector, p, host))
		return;
	s->out->pods[s->out->n_pods++] = (struct pods_match){ .pod = pod_ref(p), .host = host };
	if (node)
		s->chosen[node->at] = true;
}

static int compare_matches(const void *a, const void *b)
{
	const struct pods_match *x = a, *y = b;
	int order = strcmp(x->pod->space, y->pod->space);

	return order ? order : strcmp(x->pod->name, y->pod->name);
}

static void select_pods(const struct pods *p, struct selecting *s)
{
	s->out->pods = xcalloc(p->table.n + 1, sizeof(*s->out->pods));
	for (size_t i = 0; i < POD_TABLE_SLOTS; i++)
		for (struct pod *pod = p->table.slots[i]; pod; pod = pod->next)
			try_pod(s, pod);
	sort_array(s->out->pods, s->out->n_pods, sizeof(*s->out->pods), compare_matches);
}

static void select_hosts(const struct registry *r, struct selecting *s)
{
	size_t n;
	struct host *const *hosts = registry_hosts(r, &n);

	s->out->hosts = xcalloc(n + 1, sizeof(*s->out->hosts));
	for (size_t i = 0; i < n; i++)
		if (s->chosen[i] || host_matches(s->selector, hosts[i]))
			s->out->hosts[s->out->n_hosts++] = hosts[i];
}

/* The sentence for a selector that names no host. */
static int refuse_empty(const struct pods *p, const struct registry *r, const char *selector,
			const struct pods_selection *out, struct err *e)
{
	if (out->n_pods)
		return err_set(e, ERR_NOT_FOUND,
			       "%zu pod%s match%s '%.80s', but there is no agent on the node of "
			       "any: %.60s",
			       out->n_pods, out->n_pods == 1 ? "" : "s",
			       out->n_pods == 1 ? "es" : "", selector, out->pods[0].pod->node);
	if (!registry_count(r, NULL))
		return err_set(e, ERR_NOT_FOUND, "no agent is connected to this aggregator");
	if (p->state == PODS_OFF)
		return err_set(e, ERR_NOT_FOUND, "no host matches '%.150s'", selector);
	if (!p->was_listed)
		return err_set(e, ERR_BUSY,
			       "no host matches '%.80s'; the pods of the cluster are not known "
			       "yet: %.100s",
			       selector, p->error.msg);
	return err_set(e, ERR_NOT_FOUND, "no host and no pod matches '%.150s'", selector);
}

static int check_names(struct registry *r, const struct selector *s, struct err *e)
{
	for (size_t i = 0; i < s->names.n_exact; i++)
		if (!registry_find(r, s->names.items[i].text))
			return err_set(e, ERR_NOT_FOUND, "no host has the name '%s'",
				       s->names.items[i].text);
	return 0;
}

int pods_select(const struct pods *p, struct registry *r, const char *selector,
		struct pods_selection *out, struct err *e)
{
	struct selector parsed;
	struct selecting s = { .selector = &parsed, .out = out };
	int rc = selector_parse(&parsed, selector, e);

	*out = (struct pods_selection){ 0 };
	if (!rc)
		rc = check_names(r, &parsed, e);
	if (rc)
		goto out;
	node_index_build(&s.nodes, r);
	s.chosen = xcalloc(s.nodes.n + 1, sizeof(*s.chosen));
	out->is_about_pods = is_about_pods(&parsed);
	select_pods(p, &s);
	select_hosts(r, &s);
	if (!out->n_hosts)
		rc = refuse_empty(p, r, selector, out, e);
	if (rc)
		pods_selection_release(out);
out:
	node_index_release(&s.nodes);
	free(s.chosen);
	selector_release(&parsed);
	return rc;
}

void pods_selection_release(struct pods_selection *s)
{
	for (size_t i = 0; i < s->n_pods; i++)
		pod_unref(s->pods[i].pod);
	free(s->pods);
	free(s->hosts);
	*s = (struct pods_selection){ 0 };
}
