/* SPDX-License-Identifier: Apache-2.0 */
/* A time probe from anybody: what decodes encodes to the same fields again. */
#include <assert.h>
#include <string.h>

#include "proto/probe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct probe first = { 0 }, second = { 0 };
	struct siphash_key key = { { 7 } };
	uint8_t bytes[PROBE_BYTES];

	if (!probe_decode(&first, data, size))
		return 0;
	assert(size == PROBE_BYTES);
	probe_encode(&first, &key, bytes);
	assert(probe_is_signed(bytes, &key));
	assert(probe_decode(&second, bytes, sizeof(bytes)));
	assert(first.type == second.type && first.train == second.train);
	assert(first.index == second.index && first.index < first.train);
	assert(first.cookie == second.cookie && first.epoch == second.epoch);
	assert(first.seq == second.seq && first.t1_ns == second.t1_ns);
	assert(first.t2_ns == second.t2_ns && first.t3_ns == second.t3_ns);
	for (int i = 0; i < PROBE_SENT_MAX; i++)
		assert(first.sent[i].seq == second.sent[i].seq &&
		       first.sent[i].t3_ns == second.sent[i].t3_ns);
	return 0;
}
