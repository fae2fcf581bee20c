/* SPDX-License-Identifier: Apache-2.0 */
/* Selectors of requests: what is accepted has bounded values within its text, and matching ends. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/selector.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *get(const void *arg, enum selector_key key, const char *label)
{
	assert(*label);
	return key == SELECTOR_RANK ? "3" : arg;
}

static void check_values(const struct selector_values *values)
{
	assert(values->n_exact <= values->n && values->n <= SELECTOR_VALUES);
	for (size_t i = 0; i < values->n; i++) {
		assert(strlen(values->items[i].text) <= SELECTOR_VALUE_BYTES);
		assert(values->items[i].from <= values->items[i].to);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = xstrndup(data ? (const char *)data : "", size);
	const struct selector_subject subject = { .host = "host-1", .get = get, .arg = "value" };
	struct err e = { 0 };
	struct selector s;
	int rc = selector_parse(&s, text, &e);

	assert(rc == 0 || rc == ERR_INVALID || rc == ERR_LIMIT);
	assert(rc == e.code);
	if (!rc) {
		check_values(&s.names);
		check_values(&s.without);
		for (size_t i = 0; i < s.n_terms; i++) {
			assert(strlen(s.terms[i].label) <=
			       SELECTOR_PREFIX_BYTES + 1 + SELECTOR_KEY_BYTES);
			check_values(&s.terms[i].values);
		}
		selector_matches(&s, &subject);
	}
	selector_release(&s);
	free(text);
	return 0;
}
