/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/pods/pod_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

/* Where the pod of this uid stands, or would. */
static struct pod **find_place(struct pod_table *t, const char *uid)
{
	struct pod **at = &t->slots[hash_text(uid) % POD_TABLE_SLOTS];

	while (*at && strcmp((*at)->uid, uid))
		at = &(*at)->next;
	return at;
}

static struct pod **node_slot(struct pod_table *t, const char *node)
{
	return &t->by_node[hash_text(node) % POD_TABLE_SLOTS];
}

static void take_out(struct pod_table *t, struct pod **at)
{
	struct pod *p = *at, **on_node = node_slot(t, p->node);

	while (*on_node != p)
		on_node = &(*on_node)->next_on_node;
	*on_node = p->next_on_node;
	p->next_on_node = NULL;
	*at = p->next;
	t->n--;
	t->bytes -= p->bytes;
	p->next = NULL;
	pod_unref(p);
}

void pod_table_put(struct pod_table *t, struct pod *p_taken)
{
	struct pod **at = find_place(t, p_taken->uid), **on_node = node_slot(t, p_taken->node);

	if (*at)
		take_out(t, at);
	if (t->bytes + p_taken->bytes > POD_TABLE_BYTES) {
		t->left_out++;
		pod_unref(p_taken);
		return;
	}
	at = &t->slots[hash_text(p_taken->uid) % POD_TABLE_SLOTS];
	p_taken->next = *at;
	p_taken->listing = t->listing;
	*at = p_taken;
	p_taken->next_on_node = *on_node;
	*on_node = p_taken;
	p_taken->serial = ++t->serial;
	t->n++;
	t->bytes += p_taken->bytes;
}

void pod_table_remove(struct pod_table *t, const char *uid)
{
	struct pod **at = find_place(t, uid);

	if (*at)
		take_out(t, at);
}

struct pod *pod_table_find(const struct pod_table *t, const char *uid)
{
	struct pod *p = t->slots[hash_text(uid) % POD_TABLE_SLOTS];

	while (p && strcmp(p->uid, uid))
		p = p->next;
	return p;
}

static struct pod *skip_others(struct pod *p, const char *node)
{
	while (p && strcmp(p->node, node))
		p = p->next_on_node;
	return p;
}

struct pod *pod_table_first_on(const struct pod_table *t, const char *node)
{
	return skip_others(t->by_node[hash_text(node) % POD_TABLE_SLOTS], node);
}

struct pod *pod_table_next_on(const struct pod *p)
{
	return skip_others(p->next_on_node, p->node);
}

void pod_table_begin_listing(struct pod_table *t)
{
	t->listing++;
	t->left_out = 0;
}

void pod_table_end_listing(struct pod_table *t)
{
	for (size_t i = 0; i < POD_TABLE_SLOTS; i++) {
		struct pod **at = &t->slots[i];

		while (*at) {
			if ((*at)->listing == t->listing)
				at = &(*at)->next;
			else
				take_out(t, at);
		}
	}
}

struct pod **pod_table_all(const struct pod_table *t, size_t *n)
{
	struct pod **all = xcalloc(t->n + 1, sizeof(*all));

	*n = 0;
	for (size_t i = 0; i < POD_TABLE_SLOTS; i++)
		for (struct pod *p = t->slots[i]; p; p = p->next)
			all[(*n)++] = p;
	return all;
}

void pod_table_release(struct pod_table *t)
{
	for (size_t i = 0; i < POD_TABLE_SLOTS; i++)
		while (t->slots[i])
			take_out(t, &t->slots[i]);
}
