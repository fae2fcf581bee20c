/* SPDX-License-Identifier: Apache-2.0 */
/* A file of its own, because the simulation replaces random_bytes(). */
#include "base/random.h"

int64_t random_pause_ns(int64_t pause_ns)
{
	uint32_t r;

	random_bytes(&r, sizeof(r));
	return pause_ns / 2 + (int64_t)((double)pause_ns * r / UINT32_MAX);
}
