/* SPDX-License-Identifier: Apache-2.0 */
/* virtual_time.h for the preset tsan: time, network and workers are real. */
#include "tests/lib/virtual_time.h"

#include <stddef.h>
#include <unistd.h>

#include "base/now.h"

#define LOOK_EVERY_US 1000

void virtual_network(int64_t delay_ns, int64_t jitter_ns)
{
	(void)delay_ns;
	(void)jitter_ns;
}

void virtual_hold_worker(const bool *go)
{
	while (!__atomic_load_n(go, __ATOMIC_ACQUIRE))
		usleep(LOOK_EVERY_US);
}

void virtual_release_worker(bool *go)
{
	__atomic_store_n(go, true, __ATOMIC_RELEASE);
}

void virtual_worker_wait(void *arg, int64_t until_mono_ns)
{
	(void)arg;
	while (now_mono_ns() < until_mono_ns)
		usleep(LOOK_EVERY_US);
}

struct rpc *virtual_foreign_rpc(struct loop *loop)
{
	(void)loop;
	return NULL;
}

void virtual_foreign_rpc_free(struct rpc *rpc)
{
	(void)rpc;
}
