/* SPDX-License-Identifier: Apache-2.0 */
/* Files of PyTorch processes: any bytes as kineto JSON. What was read must be an XSpace with as many events. */
#include "xspace/kineto.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kineto_conf conf = { .salt = size, .max_memory = KINETO_MAX_MEMORY };
	struct xs_builder *b = xs_builder_new();
	struct kineto_counts counts;
	struct xs_summary sum;
	struct buf out = BUF_INIT;
	struct xs_source in;

	if (!kineto_read(data, size, &conf, b, &counts, NULL)) {
		xs_finish(b, &out);
		in = xs_source_memory(out.data, out.len);
		if (xs_summarize(&in, &sum, NULL) || sum.events != counts.events)
			abort();
	}
	buf_release(&out);
	xs_builder_free(b);
	return 0;
}
