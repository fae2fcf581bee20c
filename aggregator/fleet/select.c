/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts that a selector names. */
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/registry.h"
#include "aggregator/fleet/selector.h"
#include "base/mem.h"

const char *host_get_value(const struct host *h, enum selector_key key, const char *label)
{
	for (size_t i = 0; i < h->n_labels; i++)
		if (!strcmp(h->label_keys[i], label))
			return h->label_values[i];
	return key == SELECTOR_NODE ? h->name : NULL;
}

static const char *get_value(const void *arg, enum selector_key key, const char *label)
{
	return host_get_value(arg, key, label);
}

static bool host_matches(const struct host *h, const struct selector *s)
{
	const struct selector_subject subject = { .host = h->name, .get = get_value, .arg = h };

	return selector_matches(s, &subject);
}

static int check_names(struct registry *r, const struct selector *s, struct err *e)
{
	for (size_t i = 0; i < s->names.n_exact; i++)
		if (!registry_find(r, s->names.items[i].text))
			return err_set(e, ERR_NOT_FOUND, "no host has the name '%s'",
				       s->names.items[i].text);
	return 0;
}

int registry_select(struct registry *r, const char *selector, struct host ***out, size_t *n,
		    struct err *e)
{
	struct selector s;
	size_t known, found = 0;
	struct host *const *hosts = registry_hosts(r, &known);
	struct host **matching = xcalloc(known + 1, sizeof(*matching));
	int rc = selector_parse(&s, selector, e);

	if (!rc)
		rc = check_names(r, &s, e);
	for (size_t i = 0; !rc && i < known; i++)
		if (host_matches(hosts[i], &s))
			matching[found++] = hosts[i];
	if (!rc && !known)
		rc = err_set(e, ERR_NOT_FOUND, "no agent is connected to this aggregator");
	else if (!rc && !found)
		rc = err_set(e, ERR_NOT_FOUND, "no host matches '%.150s'", selector);
	selector_release(&s);
	if (rc) {
		free(matching);
		return rc;
	}
	*out = matching;
	*n = found;
	return 0;
}
