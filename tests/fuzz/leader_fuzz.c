/* SPDX-License-Identifier: Apache-2.0 */
/* A leader's record, as it lies in the store: whatever its bytes are, its term is known, so that the next one can be taken. */
#include <assert.h>

#include <jansson.h>

#include "aggregator/lease/record.h"
#include "base/err.h"
#include "base/now.h"
#include "storage/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int64_t deadline_ns = store_within(60 * NS_PER_S);
	struct lease_view view;
	json_t *document;
	struct store *s;
	struct err e;

	if (store_open(&s, "mem://fuzz", &e))
		return 0;
	if (!store_put_bytes(s, "tutti/leader/0000000007.json", data, size, STORE_ABSENT,
			     deadline_ns, &e)) {
		assert(!record_read(s, deadline_ns, &view, &document, &e));
		assert(view.term == 7);
		json_decref(document);
		assert(!record_remove_before(s, 8, deadline_ns, &e));
		assert(!record_read(s, deadline_ns, &view, &document, &e));
		assert(!view.term && !document);
	}
	store_free(s);
	return 0;
}
