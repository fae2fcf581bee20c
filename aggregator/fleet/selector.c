/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves selectors: "all", "name,name" or "key=value,key=value". */
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/registry.h"
#include "base/mem.h"
#include "proto/limits.h"
#include "proto/names.h"

#define MAX_PARTS 4096

struct parts {
	char *text; /* a copy; the items point into it */
	char **items;
	size_t n;
};

static void parts_release(struct parts *p)
{
	free(p->items);
	free(p->text);
}

static int parts_split(struct parts *p, const char *selector, struct err *e)
{
	char *rest, *part;

	p->text = rest = xstrdup(selector);
	while ((part = strsep(&rest, ","))) {
		if (!*part)
			return err_set(e, ERR_INVALID,
				       "selector '%.80s': nothing between two commas; use all, "
				       "name,name or "
				       "label=value",
				       selector);
		if (p->n == MAX_PARTS)
			return err_set(e, ERR_INVALID, "selector of more than %d parts", MAX_PARTS);
		p->items = xrealloc(p->items, (p->n + 1) * sizeof(char *));
		p->items[p->n++] = part;
	}
	return 0;
}

static bool has_label(const struct host *h, const char *pair)
{
	size_t key_len = strcspn(pair, "=");

	for (size_t i = 0; i < h->n_labels; i++) {
		if (strlen(h->label_keys[i]) == key_len &&
		    !memcmp(h->label_keys[i], pair, key_len) &&
		    !strcmp(h->label_values[i], pair + key_len + 1))
			return true;
	}
	return false;
}

static bool has_labels(const struct host *h, const struct parts *pairs)
{
	for (size_t i = 0; i < pairs->n; i++) {
		if (!has_label(h, pairs->items[i]))
			return false;
	}
	return true;
}

static int compare_names(const void *a, const void *b)
{
	const struct host *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static int select_names(struct registry *r, const struct parts *names, struct host **out, size_t *n,
			struct err *e)
{
	size_t kept = 0;

	for (size_t i = 0; i < names->n; i++) {
		const char *name = names->items[i];
		int rc = name_check_host(name, e);

		if (rc)
			return rc;
		out[i] = registry_find(r, name);
		if (!out[i])
			return err_set(e, ERR_NOT_FOUND, "no host has the name '%s'", name);
	}
	sort_array(out, names->n, sizeof(struct host *), compare_names);
	for (size_t i = 0; i < names->n; i++) {
		if (!kept || out[kept - 1] != out[i])
			out[kept++] = out[i];
	}
	*n = kept;
	return 0;
}

/* The hosts that have all labels; without labels, all hosts. */
static int select_labels(struct registry *r, const struct parts *pairs, struct host **out,
			 size_t *n, struct err *e)
{
	size_t known;
	struct host *const *hosts = registry_hosts(r, &known);

	*n = 0;
	for (size_t i = 0; i < known; i++) {
		if (has_labels(hosts[i], pairs))
			out[(*n)++] = hosts[i];
	}
	if (*n)
		return 0;
	return pairs->n ? err_set(e, ERR_NOT_FOUND, "no host has label %.100s", pairs->items[0])
			: err_set(e, ERR_NOT_FOUND, "no agent is connected to this aggregator");
}

static int check_labels(const struct parts *p, size_t *pairs, struct err *e)
{
	*pairs = 0;
	for (size_t i = 0; i < p->n; i++)
		*pairs += strchr(p->items[i], '=') != NULL;
	if (*pairs && *pairs != p->n)
		return err_set(e, ERR_INVALID, "a selector has names or label=value, not both");
	for (size_t i = 0; *pairs && i < p->n; i++) {
		if (p->items[i][0] == '=')
			return err_set(e, ERR_INVALID, "selector '%.80s': no label before '='",
				       p->items[i]);
	}
	return 0;
}

int registry_select(struct registry *r, const char *selector, struct host ***out, size_t *n,
		    struct err *e)
{
	struct parts p = { 0 };
	struct host **hosts = NULL;
	bool all = !strcmp(selector, "all");
	size_t pairs = 0;
	int rc = 0;

	if (!all)
		rc = parts_split(&p, selector, e);
	if (!rc)
		rc = check_labels(&p, &pairs, e);
	if (rc)
		goto out;
	hosts = xcalloc(registry_count(r, NULL) + p.n + 1, sizeof(struct host *));
	rc = all || pairs ? select_labels(r, &p, hosts, n, e) : select_names(r, &p, hosts, n, e);
out:
	parts_release(&p);
	if (rc) {
		free(hosts);
		return rc;
	}
	*out = hosts;
	return 0;
}
