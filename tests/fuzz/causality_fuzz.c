/* SPDX-License-Identifier: Apache-2.0 */
/* Observations of hosts: any bytes. What is accepted is packed again to bytes that mean the same. */
#include "xspace/causality.h"

#include <stdlib.h>

#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Two hosts with the same observations: each key but the ambiguous ones is compared. */
static void judge_twice(const uint8_t *data, size_t size)
{
	struct xs_causality *c = xs_causality_new();
	struct xs_verdict verdict;

	if (xs_causality_add_packed(c, data, size, 0, NULL) ||
	    xs_causality_add_packed(c, data, size, 1000, NULL))
		abort();
	xs_causality_judge(c, &verdict);
	xs_causality_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xs_causality *c = xs_causality_new(), *again = xs_causality_new();
	struct buf packed = BUF_INIT, twice = BUF_INIT;

	if (!xs_causality_add_packed(c, data, size, 0, NULL)) {
		xs_causality_pack(c, SIZE_MAX, &packed);
		if (xs_causality_add_packed(again, packed.data, packed.len, 0, NULL))
			abort();
		xs_causality_pack(again, SIZE_MAX, &twice);
		if (twice.len != packed.len || memcmp(twice.data, packed.data, packed.len))
			abort();
		judge_twice(data, size);
	}
	buf_release(&packed);
	buf_release(&twice);
	xs_causality_free(c);
	xs_causality_free(again);
	return 0;
}
