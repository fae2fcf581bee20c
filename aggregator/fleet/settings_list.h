/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of a host's tracers that its Hello lists. A list takes some kilobytes, and most hosts of a
 * fleet have the same: they share one list. Loop thread.
 */
#ifndef AGGREGATOR_FLEET_SETTINGS_LIST_H
#define AGGREGATOR_FLEET_SETTINGS_LIST_H

#include <stddef.h>
#include <sys/queue.h>

#include "proto/setting.h"

/* What a capture may set of one tracer. */
struct host_setting {
	char *tracer;
	char *name, *help; /* own the texts that `setting` points to */
	struct setting setting;
};

struct settings_list {
	size_t refs;
	struct host_setting *items;
	size_t n;
	TAILQ_ENTRY(settings_list) entry; /* in settings_lists, once it is shared */
};

/* The lists that hosts share; the one that was found last comes first. */
TAILQ_HEAD(settings_lists, settings_list);

struct settings_list *settings_list_new(void); /* empty, not shared yet */
void settings_list_add(struct settings_list *l, const char *tracer, const struct setting *s);

/* The list, or one of `all` with the same settings; takes a reference to `l_taken` and gives one. */
struct settings_list *settings_list_share(struct settings_lists *all,
					  struct settings_list *l_taken);
void settings_list_unref(struct settings_lists *all, struct settings_list *l); /* NULL is fine */

/* The setting with the name "tracer.name", or NULL; `l` may be NULL. */
const struct setting *settings_list_find(const struct settings_list *l, const char *key);

#endif
