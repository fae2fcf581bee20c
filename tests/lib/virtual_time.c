/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/virtual_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "net/rpc.h"
#include "tests/lib/check.h"
#include "tests/sim/sim.h"

#define DELAY_NS	(20 * NS_PER_US)
#define JITTER_NS	(2 * NS_PER_US)
#define LAST_PACKETS_NS NS_PER_S

void virtual_network(int64_t delay_ns, int64_t jitter_ns)
{
	const struct sim_path path = { .delay_ns = delay_ns, .jitter_ns = (double)jitter_ns };

	sim.host->there = sim.host->back = path;
}

void virtual_hold_worker(const bool *go)
{
	loop_hold_worker(go);
}

void virtual_release_worker(bool *go)
{
	*go = true;
}

void virtual_worker_wait(void *arg, int64_t until_mono_ns)
{
	(void)arg;
	CHECK(loop_worker_wait(host_true_of_mono(sim.host, until_mono_ns)));
}

/* Of virtual_foreign_rpc(); its last packets arrive later than its rpc is freed. */
static struct sim_host *foreign_host;

/* Runs before exit handlers that were registered earlier: the leak check of a passed test still comes. */
static void check_failures(void)
{
	sim_run(sim.now_ns + LAST_PACKETS_NS);
	if (sim.failures)
		_exit(1);
	if (wire_connections()) {
		fprintf(stderr, "%zu connections are left over\n", wire_connections());
		_exit(1);
	}
	if (foreign_host)
		host_free(foreign_host);
	host_free(sim.host);
	sim_end();
}

__attribute__((constructor)) static void begin(void)
{
	const char *seed = getenv("TUTTI_TEST_SEED");

	sim_begin(seed ? strtoull(seed, NULL, 10) : 1);
	sim.host = host_new("127.0.0.1");
	sim.host->raw_ppb = sim.host->mono_ppb = 0;
	sim.host->kernel_stamps = true;
	virtual_network(DELAY_NS, JITTER_NS);
	atexit(check_failures);
}

struct rpc *virtual_foreign_rpc(struct loop *loop)
{
	struct sim_host *own = sim.host;
	struct rpc *rpc;
	struct err e;

	if (!foreign_host)
		foreign_host = host_new("foreign");
	sim.host = foreign_host;
	CHECK_OK(rpc_new(&rpc, loop, &e), e);
	sim.host = own;
	return rpc;
}

void virtual_foreign_rpc_free(struct rpc *rpc)
{
	rpc_free(rpc);
}
