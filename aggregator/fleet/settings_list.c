/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/fleet/settings_list.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* How many lists are compared with a host's list: a fleet has one list for each version and kind of agents. */
#define COMPARED 16

struct settings_list *settings_list_new(void)
{
	struct settings_list *l = xcalloc(1, sizeof(*l));

	l->refs = 1;
	return l;
}

void settings_list_add(struct settings_list *l, const char *tracer, const struct setting *s)
{
	struct host_setting *new;

	l->items = xrealloc(l->items, (l->n + 1) * sizeof(*l->items));
	new = &l->items[l->n++];
	*new = (struct host_setting){
		.tracer = xstrdup(tracer),
		.name = xstrdup(s->name),
		.help = xstrdup(s->help),
		.setting = *s,
	};
	new->setting.name = new->name;
	new->setting.help = new->help;
}

static void list_free(struct settings_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->items[i].tracer);
		free(l->items[i].name);
		free(l->items[i].help);
	}
	free(l->items);
	free(l);
}

static bool same_setting(const struct host_setting *a, const struct host_setting *b)
{
	const struct setting *x = &a->setting, *y = &b->setting;

	return x->kind == y->kind && x->min == y->min && x->max == y->max && x->value == y->value &&
	       !strcmp(a->name, b->name) && !strcmp(a->tracer, b->tracer) &&
	       !strcmp(a->help, b->help);
}

static bool same_list(const struct settings_list *a, const struct settings_list *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		if (!same_setting(&a->items[i], &b->items[i]))
			return false;
	}
	return true;
}

static struct settings_list *find_same(struct settings_lists *all, const struct settings_list *l)
{
	struct settings_list *found;
	int compared = 0;

	TAILQ_FOREACH (found, all, entry) {
		if (same_list(found, l))
			return found;
		if (++compared == COMPARED)
			break;
	}
	return NULL;
}

struct settings_list *settings_list_share(struct settings_lists *all, struct settings_list *l_taken)
{
	struct settings_list *same = find_same(all, l_taken);

	if (same) {
		list_free(l_taken);
		same->refs++;
		TAILQ_REMOVE(all, same, entry);
	} else {
		same = l_taken;
	}
	TAILQ_INSERT_HEAD(all, same, entry);
	return same;
}

void settings_list_unref(struct settings_lists *all, struct settings_list *l)
{
	if (!l || --l->refs)
		return;
	TAILQ_REMOVE(all, l, entry);
	list_free(l);
}

const struct setting *settings_list_find(const struct settings_list *l, const char *key)
{
	for (size_t i = 0; l && i < l->n; i++) {
		const char *name = setting_of_tracer(key, l->items[i].tracer);

		if (name && !strcmp(name, l->items[i].name))
			return &l->items[i].setting;
	}
	return NULL;
}
