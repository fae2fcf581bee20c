/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/fleet.h"

#include "tests/sim/sim.h"

static void make_path(struct sim_path *p)
{
	p->delay_ns = rng_scale(&sim.rng, 10 * NS_PER_US, 5 * NS_PER_MS);
	p->jitter_ns = (double)rng_scale(&sim.rng, NS_PER_US, 2 * NS_PER_MS);
	p->loss = rng_chance(&sim.rng, 0.3) ? 0.05 * rng_unit(&sim.rng) : 0;
	p->twice = rng_chance(&sim.rng, 0.2) ? 0.05 : 0;
}

/* Most paths are alike there and back, some are not. */
void fleet_make_host(const char *name)
{
	struct sim_host *h = host_new(name);

	make_path(&h->there);
	h->back = h->there;
	if (rng_chance(&sim.rng, 0.3))
		make_path(&h->back);
	h->slow_ns = rng_scale(&sim.rng, 2 * NS_PER_US, 500 * NS_PER_US);
	if (rng_chance(&sim.rng, 0.2))
		h->bytes_per_s = rng_scale(&sim.rng, 50000, 100000000);
}

/* On the machine of the other one it has its clocks. */
void fleet_make_standby(bool same_machine)
{
	const struct sim_host *agg = sim.hosts[0];
	struct sim_host *h = host_new_outside("agg2");

	if (same_machine) {
		h->raw0_ns = agg->raw0_ns;
		h->mono0_ns = agg->mono0_ns;
		h->real0_ns = agg->real0_ns;
		h->raw_ppb = agg->raw_ppb;
		h->mono_ppb = agg->mono_ppb;
	}
	h->there = agg->there;
	h->back = agg->back;
	h->slow_ns = agg->slow_ns;
	h->bytes_per_s = agg->bytes_per_s;
	h->kernel_stamps = agg->kernel_stamps;
	sim.standby = h;
}
