/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts: base/now.h as each of them sees it, base/log.h, what befalls them, the paths between them. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/random.h"
#include "tests/sim/sim.h"

#define READ_NS	       100
#define WORLD_BEGAN_NS INT64_C(1795255200000000000) /* Unix ns, for people */

/* ---- clocks ---- */

int64_t host_now_ns(const struct sim_host *h)
{
	int64_t now_ns = sim.now_ns + (h->cleaning_up ? h->cleanup_ns : 0);

	return now_ns > h->busy_until_ns ? now_ns : h->busy_until_ns;
}

int64_t sim_here_ns(void)
{
	return sim.host ? host_now_ns(sim.host) : sim.now_ns;
}

/* How long it has slept until then. */
static int64_t slept_ns(const struct sim_host *h, int64_t true_ns)
{
	int64_t sum_ns = 0;

	for (size_t i = 0; i < h->n_sleeps && h->sleeps[i].from_ns < true_ns; i++) {
		const struct sim_sleep *s = &h->sleeps[i];

		sum_ns += (s->to_ns < true_ns ? s->to_ns : true_ns) - s->from_ns;
	}
	return sum_ns;
}

bool host_is_asleep(const struct sim_host *h, int64_t true_ns)
{
	for (size_t i = 0; i < h->n_sleeps; i++) {
		if (true_ns >= h->sleeps[i].from_ns && true_ns <= h->sleeps[i].to_ns)
			return true;
	}
	return false;
}

static int64_t awake_ns(const struct sim_host *h, int64_t true_ns)
{
	return true_ns - slept_ns(h, true_ns);
}

static int64_t run_ns(int64_t ns, int64_t ppb)
{
	return ns + (int64_t)((__int128)ns * ppb / 1000000000);
}

int64_t host_raw_ns(const struct sim_host *h, int64_t true_ns)
{
	return h->raw0_ns + run_ns(awake_ns(h, true_ns), h->raw_ppb);
}

int64_t host_mono_ns(const struct sim_host *h, int64_t true_ns)
{
	return h->mono0_ns + run_ns(awake_ns(h, true_ns), h->mono_ppb);
}

int64_t host_real_ns(const struct sim_host *h, int64_t true_ns)
{
	return h->real0_ns + host_mono_ns(h, true_ns) - h->mono0_ns + slept_ns(h, true_ns) +
	       h->stepped_ns;
}

/* If it does not sleep until then. */
int64_t host_true_of_mono(const struct sim_host *h, int64_t mono_ns)
{
	int64_t awake, late;

	if (mono_ns > h->mono0_ns + (INT64_MAX >> 3))
		return INT64_MAX >> 2;
	awake = run_ns(mono_ns - h->mono0_ns, -h->mono_ppb);
	while ((late = mono_ns - h->mono0_ns - run_ns(awake, h->mono_ppb)) > 0)
		awake += 1 + late / 2;
	return slept_ns(h, INT64_MAX) + awake;
}

/* Reading a clock takes time, so code that reads it until an instant comes reaches that instant. */
static int64_t read_clock(int64_t (*clock_ns)(const struct sim_host *h, int64_t true_ns))
{
	assert(sim.host);
	sim.host->busy_until_ns = sim_here_ns() + READ_NS;
	return clock_ns(sim.host, sim.host->busy_until_ns);
}

int64_t now_raw_ns(void)
{
	return read_clock(host_raw_ns);
}

/* Outside of all hosts the checks use the store: their deadlines are in true time. */
int64_t now_mono_ns(void)
{
	return sim.host ? read_clock(host_mono_ns) : sim.now_ns;
}

int64_t now_real_ns(void)
{
	return read_clock(host_real_ns);
}

void now_pair_ns(int64_t *raw, int64_t *real, int64_t *width_ns)
{
	*raw = now_raw_ns();
	*real = host_real_ns(sim.host, host_now_ns(sim.host));
	if (width_ns)
		*width_ns = READ_NS;
}

/* What a host does costs none of its time but the reading of clocks. */
int64_t now_thread_cpu_ns(void)
{
	return 0;
}

int64_t now_process_cpu_ns(void)
{
	return 0;
}

int64_t now_suspended_ns(void)
{
	return read_clock(slept_ns);
}

uint64_t now_source(void)
{
	return 1;
}

int64_t now_raw_tick_ns(void)
{
	return 0;
}

uint64_t now_disruption(void)
{
	return 0;
}

int64_t now_wall_error_ns(void)
{
	return -1;
}

void random_bytes(void *out, size_t len)
{
	uint8_t *p = out;

	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(rng_next(&sim.rng) >> 32);
}

/* ---- log ---- */

static enum log_level max_level = LOG_WARN;

void log_set_level(enum log_level level)
{
	max_level = level;
}

void log_line(enum log_level level, const char *id, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	if (level > max_level && sim.verbose < 2)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	sim_note("%c %s %s", "EWID"[level], id, text);
}

/* ---- what befalls them ---- */

static void put_off(int64_t *until_ns, int64_t for_ns)
{
	if (*until_ns < sim.now_ns + for_ns)
		*until_ns = sim.now_ns + for_ns;
}

void host_pause(struct sim_host *h, int64_t for_ns)
{
	sim_note("pause %s for %.3f s", h->name, (double)for_ns / 1e9);
	put_off(&h->paused_until_ns, for_ns);
	put_off(&h->well_since_ns, for_ns);
	wire_host_silent(h);
}

static void wake_up(void *arg)
{
	struct sim_host *h = arg;

	h->asleep = false;
	sim_note("%s wakes up", h->name);
	loop_replan(h);
	loop_clock_set(h);
}

void host_suspend(struct sim_host *h, int64_t for_ns)
{
	if (h->asleep || h->n_sleeps == ARRAY_SIZE(h->sleeps))
		return;
	sim_note("suspend %s for %.3f s", h->name, (double)for_ns / 1e9);
	h->asleep = true;
	h->sleeps[h->n_sleeps++] = (struct sim_sleep){ sim.now_ns, sim.now_ns + for_ns };
	sim_at(&h->wake, sim.now_ns + for_ns, wake_up, h);
	put_off(&h->paused_until_ns, for_ns + 1);
	host_cut(h, for_ns);
}

void host_cut(struct sim_host *h, int64_t for_ns)
{
	sim_note("cut %s for %.3f s", h->name, (double)for_ns / 1e9);
	put_off(&h->cut_until_ns, for_ns);
	put_off(&h->well_since_ns, for_ns);
	wire_host_silent(h);
}

void host_set_speed(struct sim_host *h, int64_t bytes_per_s)
{
	h->bytes_per_s = bytes_per_s;
	if (h->well_since_ns < sim.now_ns)
		h->well_since_ns = sim.now_ns;
}

void host_step(struct sim_host *h, int64_t by_ns)
{
	sim_note("step %s by %.6f s", h->name, (double)by_ns / 1e9);
	h->stepped_ns += by_ns;
	loop_clock_set(h);
}

/* ---- paths ---- */

const struct sim_path *net_path(const struct sim_host *from, const struct sim_host *to)
{
	return from == sim.hosts[0] || from == sim.standby ? &to->back : &from->there;
}

int64_t net_delay_ns(const struct sim_host *from, const struct sim_host *to)
{
	const struct sim_path *p = net_path(from, to);

	return p->delay_ns + rng_wait(&sim.rng, p->jitter_ns);
}

int64_t net_cut_until_ns(const struct sim_host *a, const struct sim_host *b)
{
	int64_t until = a->cut_until_ns > b->cut_until_ns ? a->cut_until_ns : b->cut_until_ns;

	return until > sim.now_ns ? until : 0;
}

/* ---- life ---- */

struct sim_host *host_new_outside(const char *name)
{
	struct rng *r = &sim.rng;
	struct sim_host *h = xcalloc(1, sizeof(*h));

	snprintf(h->name, sizeof(h->name), "%s", name);
	TAILQ_INIT(&h->loops);
	h->raw0_ns = rng_range(r, NS_PER_S, 100 * 86400 * NS_PER_S);
	h->mono0_ns = rng_range(r, NS_PER_S, 100 * 86400 * NS_PER_S);
	h->real0_ns = WORLD_BEGAN_NS + rng_range(r, -5 * NS_PER_S, 5 * NS_PER_S);
	/* docs/time.md assumes that no two clocks drift apart by more than 120 ppm. */
	h->raw_ppb = rng_range(r, -50000, 50000);
	h->mono_ppb = h->raw_ppb + rng_range(r, -50000, 50000);
	h->kernel_stamps = rng_chance(r, 0.7);
	h->bytes_per_s = 1000000000;
	return h;
}

struct sim_host *host_new(const char *name)
{
	struct sim_host *h = host_new_outside(name);

	sim.hosts = xrealloc(sim.hosts, (sim.n_hosts + 1) * sizeof(struct sim_host *));
	sim.hosts[sim.n_hosts++] = h;
	return h;
}

struct sim_host *host_find(const char *name)
{
	if (!strcmp(name, "leader"))
		return sim.hosts[0];
	if (sim.standby && !strcmp(name, sim.standby->name))
		return sim.standby;
	for (size_t i = 0; i < sim.n_hosts; i++) {
		if (!strcmp(sim.hosts[i]->name, name))
			return sim.hosts[i];
	}
	return NULL;
}

void host_free(struct sim_host *h)
{
	if (!TAILQ_EMPTY(&h->loops))
		sim_fail("a loop of %s was not freed", h->name);
	sim_cancel(&h->wake);
	free(h);
}
