/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/addresses.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct addresses {
	struct address {
		char *text, host[ADDRESS_HOST_BYTES];
	} items[ADDRESSES_MAX];
	size_t n, now;
};

void addresses_free(struct addresses *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n; i++)
		free(a->items[i].text);
	free(a);
}

static int add(struct addresses *a, const char *text, size_t len, struct err *e)
{
	struct address *item = &a->items[a->n];
	int port;

	if (a->n == ADDRESSES_MAX)
		return err_set(e, ERR_INVALID, "more than %d aggregators", ADDRESSES_MAX);
	item->text = xstrndup(text, len);
	a->n++;
	return address_split(item->text, item->host, &port, e);
}

int addresses_new(struct addresses **out, const char *list, struct err *e)
{
	struct addresses *a = xcalloc(1, sizeof(*a));
	int rc;

	for (;;) {
		size_t len = strcspn(list, ",");

		rc = add(a, list, len, e);
		if (rc || !list[len])
			break;
		list += len + 1;
	}
	if (rc)
		addresses_free(a);
	else
		*out = a;
	return rc;
}

size_t addresses_n(const struct addresses *a)
{
	return a->n;
}

const char *addresses_now(const struct addresses *a, char host[ADDRESS_HOST_BYTES])
{
	const struct address *item = &a->items[a->now];

	memcpy(host, item->host, sizeof(item->host));
	return item->text;
}

bool addresses_next(struct addresses *a)
{
	a->now = (a->now + 1) % a->n;
	return a->now == 0;
}
