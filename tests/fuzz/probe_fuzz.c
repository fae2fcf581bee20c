/* SPDX-License-Identifier: Apache-2.0 */
/* A time probe from anybody: what decodes encodes to the same fields again. */
#include <assert.h>
#include <string.h>

#include "proto/probe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct probe first = { 0 }, second = { 0 };
	uint8_t bytes[PROBE_BYTES];

	if (!probe_decode(&first, data, size))
		return 0;
	assert(size == PROBE_BYTES);
	probe_encode(&first, bytes);
	assert(probe_decode(&second, bytes, sizeof(bytes)));
	assert(first.type == second.type && first.train == second.train);
	assert(first.index == second.index && first.index < first.train);
	assert(first.cookie == second.cookie && first.epoch == second.epoch);
	assert(first.seq == second.seq && first.t1_ns == second.t1_ns);
	assert(first.t2_ns == second.t2_ns && first.t3_ns == second.t3_ns);
	return 0;
}
