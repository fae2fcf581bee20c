/* SPDX-License-Identifier: Apache-2.0 */
/* Which hosts and pods a selector names. */
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/registry.h"
#include "aggregator/fleet/selector.h"
#include "aggregator/pods/pods_impl.h"
#include "base/hash.h"
#include "base/mem.h"

/* ---- hosts by node ---- */

/* The place of this node, or the free one where it would be. */
static struct node_entry *find_place(const struct node_index *x, const char *node)
{
	size_t at = hash_text(node) & (x->n_places - 1);

	while (x->entries[at].node && strcmp(x->entries[at].node, node))
		at = (at + 1) & (x->n_places - 1);
	return &x->entries[at];
}

void node_index_build(struct node_index *x, const struct registry *r)
{
	size_t n;
	struct host *const *hosts = registry_hosts(r, &n);

	x->n_places = 2;
	while (x->n_places < 2 * n)
		x->n_places *= 2;
	x->entries = xcalloc(x->n_places, sizeof(*x->entries));
	for (size_t i = 0; i < n; i++) {
		const char *node = host_get_value(hosts[i], SELECTOR_NODE, "node");
		struct node_entry *place = find_place(x, node);

		if (!place->node) /* of several hosts with one node, the first by name */
			*place = (struct node_entry){ .node = node, .host = hosts[i], .at = i };
	}
}

const struct node_entry *node_index_find(const struct node_index *x, const char *node)
{
	const struct node_entry *place = find_place(x, node);

	return place->node ? place : NULL;
}

void node_index_release(struct node_index *x)
{
	free(x->entries);
}

/* ---- what terms are about ---- */

struct pod_on_node {
	const struct pod *pod;
	const struct node_index *nodes;
};

static const struct host *host_of(const struct pod_on_node *it)
{
	const struct node_entry *node = node_index_find(it->nodes, it->pod->node);

	return node ? node->host : NULL;
}

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

/* What a pod does not have, its host may have. Hosts are looked up for that alone: most pods are told apart without. */
static const char *get_of_both(const void *arg, enum selector_key key, const char *label)
{
	const struct pod_on_node *it = arg;
	const char *value = get_of_pod(it->pod, key, label);
	const struct host *h = value ? NULL : host_of(it);

	return h ? host_get_value(h, key, label) : value;
}

static const char *get_of_host(const void *arg, enum selector_key key, const char *label)
{
	return host_get_value(arg, key, label);
}

/* Of hosts in order. */
static bool host_matches(const struct selector *s, const struct host *h, struct selector_walk *walk)
{
	const struct selector_subject subject = { .host = h->name, .get = get_of_host, .arg = h };

	return selector_matches_next(s, &subject, walk);
}

bool selector_names_pod(const struct selector *s, const struct pod *p,
			const struct node_index *nodes)
{
	const struct pod_on_node it = { .pod = p, .nodes = nodes };
	const struct host *h = s->names.n || s->without.n ? host_of(&it) : NULL;
	const struct selector_subject subject = { .host = h ? h->name : p->node,
						  .get = get_of_both,
						  .arg = &it };

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

/* ---- order ---- */

#define ORDER_BYTES ((size_t)2 * (POD_TEXT_BYTES + 1))
#define BEGIN_BYTES 16

/* A match with the begin of its text of order, without what all matches have in common: to look into 10,000 pods again
 * and again takes longer than to find them. */
struct ordered {
	char begin[BEGIN_BYTES];
	struct pods_match match;
};

static int compare_ordered(const void *a, const void *b)
{
	const struct ordered *x = a, *y = b;
	int order = memcmp(x->begin, y->begin, BEGIN_BYTES);

	if (!order)
		order = strcmp(x->match.pod->space, y->match.pod->space);
	return order ? order : strcmp(x->match.pod->name, y->match.pod->name);
}

/* "NAMESPACE\0NAME\0"; returns its length. */
static size_t write_order(const struct pod *p, char to[ORDER_BYTES])
{
	size_t n_space = strlen(p->space) + 1, n_name = strlen(p->name) + 1;

	memcpy(to, p->space, n_space);
	memcpy(to + n_space, p->name, n_name);
	return n_space + n_name;
}

static size_t count_common(const struct pods_match *matches, size_t n)
{
	char first[ORDER_BYTES], text[ORDER_BYTES];
	size_t common = write_order(matches[0].pod, first);

	for (size_t i = 1; i < n; i++) {
		size_t len = write_order(matches[i].pod, text), same = 0;

		while (same < common && same < len && text[same] == first[same])
			same++;
		common = same;
	}
	return common;
}

static void sort_matches(struct pods_match *matches, size_t n)
{
	struct ordered *rows;
	size_t common;

	if (n < 2)
		return;
	common = count_common(matches, n);
	rows = xcalloc(n, sizeof(*rows));
	for (size_t i = 0; i < n; i++) {
		char text[ORDER_BYTES];
		size_t len = write_order(matches[i].pod, text) - common;

		memcpy(rows[i].begin, text + common, len < BEGIN_BYTES ? len : BEGIN_BYTES);
		rows[i].match = matches[i];
	}
	sort_array(rows, n, sizeof(*rows), compare_ordered);
	for (size_t i = 0; i < n; i++)
		matches[i] = rows[i].match;
	free(rows);
}

/* ---- selecting ---- */

/* A selection that is being made: `chosen` has a place for each host of the registry. */
struct selecting {
	const struct selector *selector;
	const struct spaces *within; /* NULL = all */
	struct node_index nodes;
	bool *chosen; /* by a pod */
	bool has_other; /* what is in no namespace, or in one whose name none can have */
	struct pods_selection *out;
};

static void try_pod(struct selecting *s, struct pod *p)
{
	const struct node_entry *node;

	if (s->within && !spaces_have(s->within, p->space))
		return;
	if (p->is_over || p->opted_out || !selector_names_pod(s->selector, p, &s->nodes))
		return;
	node = node_index_find(&s->nodes, p->node);
	if (node)
		s->chosen[node->at] = true;
	if (node || s->out->is_about_pods)
		s->has_other |= !spaces_add(&s->out->spaces, p->space);
	if (s->out->is_about_pods)
		s->out->pods[s->out->n_pods++] =
			(struct pods_match){ .pod = pod_ref(p), .host = node ? node->host : NULL };
}

/* Not needed for names alone, where every host may be named: these are as true of a host as of its pods. */
static void select_pods(const struct pods *p, const struct registry *r, struct selecting *s)
{
	if ((!s->selector->n_terms && !s->within) || !p->table.n)
		return;
	if (s->out->is_about_pods)
		s->out->pods = xcalloc(p->table.n, sizeof(*s->out->pods));
	node_index_build(&s->nodes, r);
	for (size_t i = 0; i < POD_TABLE_SLOTS; i++)
		for (struct pod *pod = p->table.slots[i]; pod; pod = pod->next)
			try_pod(s, pod);
	node_index_release(&s->nodes);
	sort_matches(s->out->pods, s->out->n_pods);
}

/* A host that was chosen for its pods stands for their namespaces, another one for that of its label. */
static bool stands_for_pods(const struct selecting *s, size_t i)
{
	return s->chosen[i] && (s->within || s->out->is_about_pods);
}

static const char *space_of_host(const struct host *h)
{
	return host_get_value(h, SELECTOR_NAMESPACE, "namespace");
}

static bool host_is_within(const struct selecting *s, const struct host *h)
{
	const char *space = s->within ? space_of_host(h) : NULL;

	return !s->within || (space && spaces_have(s->within, space));
}

static void select_hosts(const struct registry *r, struct selecting *s)
{
	struct selector_walk walk = { 0 };
	size_t n;
	struct host *const *hosts = registry_hosts(r, &n);

	if (!s->within && !s->out->is_about_pods) {
		spaces_release(&s->out->spaces);
		s->has_other = false;
	}
	s->out->hosts = xcalloc(n + 1, sizeof(*s->out->hosts));
	for (size_t i = 0; i < n; i++) {
		const char *space;

		if (!s->chosen[i] &&
		    (!host_is_within(s, hosts[i]) || !host_matches(s->selector, hosts[i], &walk)))
			continue;
		s->out->hosts[s->out->n_hosts++] = hosts[i];
		if (s->has_other || stands_for_pods(s, i))
			continue;
		space = space_of_host(hosts[i]); /* a look through its labels */
		s->has_other = !space || !spaces_add(&s->out->spaces, space);
	}
	if (s->has_other)
		spaces_release(&s->out->spaces);
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
	size_t at = 0;

	for (size_t i = 0; i < s->names.n_exact; i++) {
		const char *name = s->names.items[i].text;
		bool is_twice = i && !strcmp(name, s->names.items[i - 1].text);

		if (!is_twice && !registry_find_next(r, &at, name))
			return err_set(e, ERR_NOT_FOUND, "no host has the name '%s'", name);
	}
	return 0;
}

/* Who may see only some hosts gets the same answer for a name that no host has and for a host that he may not see. */
static int check_names_within(const struct pods *p, struct registry *r, const struct selector *s,
			      const struct spaces *within, struct err *e)
{
	struct pods_selection seen;
	struct err none;
	size_t at = 0;
	int rc = 0;

	(void)!pods_select(p, r, "all", within, &seen, &none);
	for (size_t i = 0; i < s->names.n_exact && !rc; i++) {
		const char *name = s->names.items[i].text;

		while (at < seen.n_hosts && strcmp(seen.hosts[at]->name, name) < 0)
			at++;
		if (at == seen.n_hosts || strcmp(seen.hosts[at]->name, name) != 0)
			rc = err_set(e, ERR_NOT_FOUND, "no host matches '%s'", name);
	}
	pods_selection_release(&seen);
	return rc;
}

int pods_select(const struct pods *p, struct registry *r, const char *selector,
		const struct spaces *within, struct pods_selection *out, struct err *e)
{
	struct selector parsed;
	struct selecting s = { .selector = &parsed,
			       .within = within && !within->all ? within : NULL,
			       .out = out };
	int rc = selector_parse(&parsed, selector, e);

	*out = (struct pods_selection){ 0 };
	if (!rc)
		rc = selector_check_work(&parsed, p->table.n + registry_count(r, NULL), e);
	if (!rc && parsed.names.n_exact)
		rc = s.within ? check_names_within(p, r, &parsed, s.within, e)
			      : check_names(r, &parsed, e);
	if (rc)
		goto out;
	s.chosen = xcalloc(registry_count(r, NULL) + 1, sizeof(*s.chosen));
	out->is_about_pods = is_about_pods(&parsed);
	select_pods(p, r, &s);
	select_hosts(r, &s);
	if (!out->n_hosts)
		rc = refuse_empty(p, r, selector, out, e);
	if (rc)
		pods_selection_release(out);
out:
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
	spaces_release(&s->spaces);
	*s = (struct pods_selection){ 0 };
}
