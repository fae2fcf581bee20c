/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as traces of other programs. What was read must be an XSpace with as many events. */
#include "xspace/entries/entries.h"

#include <stdlib.h>

#define MAX_MEMORY ((size_t)64 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int rc, struct xs_builder *b, const struct entry_counts *counts)
{
	struct xs_summary sum;
	struct buf out = BUF_INIT;
	struct xs_source in;

	if (!rc) {
		xs_finish(b, &out);
		in = xs_source_memory(out.data, out.len);
		if (xs_summarize(&in, &sum, NULL) || sum.events != counts->events)
			abort();
	}
	buf_release(&out);
	xs_builder_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xs_builder *b = xs_builder_new();
	struct entry_counts counts;
	char **hosts;
	size_t n;
	int rc = chrome_read(data, size, MAX_MEMORY, b, &counts, NULL);

	check(rc, b, &counts);
	entry_format_of(data, size);
	if (neuron_hosts(data, size, &hosts, &n, NULL))
		return 0;
	for (size_t i = 0; i < n && i < 4; i++) {
		b = xs_builder_new();
		rc = neuron_read(data, size, hosts[i], MAX_MEMORY, b, &counts, NULL);
		check(rc, b, &counts);
	}
	neuron_hosts_free(hosts, n);
	return 0;
}
