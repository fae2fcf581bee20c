/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/flaky_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "storage/store.h"
#include "storage/store_fault.h"
#include "tests/sim/check.h"
#include "tests/sim/sim.h"

#define CALL_MEAN_NS \
	(300 * NS_PER_US) /* of each half of a call: before it is done, and before its answer */
#define SLOW_TIMES  100
#define RULES_BYTES 256

int __real_store_open(struct store **out, const char *url, struct err *e);
int __wrap_store_open(struct store **out, const char *url, struct err *e);

/* Puts time around each call of the store with the faults. */
struct timed_store {
	struct store base;
	struct store *faults;
};

static struct {
	char rules[RULES_BYTES];
	char slow_rule[64]; /* after the others, until flaky_store_heal(); "" = none */
	bool is_broken;
	int64_t whole_since_ns;
	struct sim_event heal, crash;
	void (*kill_aggregator)(void);
	struct store *faults; /* of the store that is open; NULL = none */
	uint64_t calls;
	uint64_t break_at; /* this call; 0 = none */
	const char *break_rules;
	int64_t break_for_ns;
} world;

/* ---- rules ---- */

/* Gives the store that is open all rules. */
static void put_rules(void)
{
	char all[RULES_BYTES + sizeof(world.slow_rule)];
	struct err e;

	snprintf(all, sizeof(all), "%s\n%s", world.rules, world.slow_rule);
	if (world.faults && store_fault_set(world.faults, all, &e))
		sim_fail("%s", e.msg);
}

static void set_rules(const char *rules)
{
	snprintf(world.rules, sizeof(world.rules), "%s", rules);
	put_rules();
}

static void end_break(void *arg)
{
	(void)arg;
	sim_cancel(&world.heal);
	if (world.is_broken)
		sim_note("the store is whole");
	world.is_broken = false;
	world.whole_since_ns = sim.now_ns;
	set_rules("");
}

void flaky_store_heal(void)
{
	*world.slow_rule = '\0';
	end_break(NULL);
}

void flaky_store_slow_ledger(int64_t ns)
{
	snprintf(world.slow_rule, sizeof(world.slow_rule), "write tutti/ledger/* delay=%.3f",
		 (double)ns / 1e9);
	sim_note("store: %s", world.slow_rule);
	put_rules();
}

void flaky_store_break(const char *rules, int64_t for_ns)
{
	sim_note("the store breaks for %.3f s: %s", (double)for_ns / 1e9, rules);
	world.is_broken = true;
	set_rules(rules);
	sim_at(&world.heal, sim.now_ns + for_ns, end_break, NULL);
}

void flaky_store_break_at(uint64_t n, const char *rules, int64_t for_ns)
{
	world.break_at = world.calls + n + 1;
	world.break_rules = rules;
	world.break_for_ns = for_ns;
}

bool flaky_store_is_whole(int64_t for_ns)
{
	return !world.is_broken && sim.now_ns - world.whole_since_ns >= for_ns;
}

void flaky_store_crash(uint64_t n, bool after)
{
	char rules[RULES_BYTES];

	snprintf(rules, sizeof(rules), "* * crash%s skip=%llu times=1", after ? "-after" : "",
		 (unsigned long long)n);
	sim_note("store: %s", rules);
	set_rules(rules);
}

uint64_t flaky_store_calls(void)
{
	return world.calls;
}

/* ---- what the faults do in the simulation ---- */

static void on_waited(void *arg)
{
	bool *waited = arg;

	*waited = true;
}

/* At the start of a daemon nothing else of it runs: the world goes on from here. */
static void wait_at_start(const struct sim_host *h, int64_t until_ns)
{
	struct sim_event ev = { 0 };
	bool waited = false;

	sim_at(&ev, until_ns, on_waited, &waited);
	while (!waited && !h->cleaning_up)
		sim_step();
	sim_cancel(&ev);
}

static void wait_until(int64_t until_ns)
{
	struct sim_host *h = sim.host;

	if (h->cleaning_up)
		h->cleanup_ns += until_ns > host_now_ns(h) ? until_ns - host_now_ns(h) : 0;
	else if (!loop_worker_wait(until_ns))
		wait_at_start(h, until_ns);
}

static void wait_mono(void *arg, int64_t until_mono_ns)
{
	(void)arg;
	wait_until(host_true_of_mono(sim.host, until_mono_ns));
}

static void on_crash(void *arg)
{
	(void)arg;
	world.kill_aggregator();
}

/* A worker cannot end its own process: the next event does. */
static void crash(void *arg)
{
	struct sim_host *h = sim.host;

	(void)arg;
	if (h->cleaning_up)
		return;
	if (h == sim.hosts[0]) {
		set_rules("");
		sim_at(&world.crash, sim.now_ns, on_crash, NULL);
	}
	while (!h->cleaning_up) /* a former leader ends by itself, soon */
		wait_until(sim.now_ns + (h == sim.hosts[0] ? 1 : NS_PER_MS));
}

/* ---- time ---- */

static int take_time(struct err *e)
{
	int64_t ns = rng_wait(&sim.rng, CALL_MEAN_NS);

	if (rng_chance(&sim.rng, 0.01))
		ns *= SLOW_TIMES;
	if (!sim.host->cleaning_up)
		wait_until(sim.now_ns + ns);
	return sim.host->cleaning_up ? err_set(e, ERR_CLOSED, "the process is dead") : 0;
}

static int begin(struct err *e)
{
	int rc = take_time(e);

	if (rc)
		return rc;
	if (++world.calls == world.break_at)
		flaky_store_break(world.break_rules, world.break_for_ns);
	return 0;
}

/* As file:// does: the fence is asked right before what others see. */
static int begin_change(const struct store *s, struct err *e)
{
	int rc = begin(e);

	return rc ? rc : store_check_fence(s, e);
}

/* The answer of a call that is done. */
static int end(int rc, struct err *e)
{
	struct err late;

	check_counts.store_failed += rc && rc != ERR_NOT_FOUND && rc != ERR_EXISTS;
	return take_time(&late) ? err_set(e, ERR_CLOSED, "%s", late.msg) : rc;
}

/* ---- the table ---- */

static struct store *faults_of(struct store *s)
{
	return ((struct timed_store *)s)->faults;
}

static int timed_put(struct store *s, const struct store_put *put, struct store_stat *out,
		     struct err *e)
{
	int rc = begin_change(s, e);

	return rc ? rc : end(store_put(faults_of(s), put, out, e), e);
}

static int timed_get(struct store *s, const struct store_get *get, struct store_stat *out,
		     struct err *e)
{
	int rc = begin(e);

	return rc ? rc : end(store_get(faults_of(s), get, out, e), e);
}

static int timed_stat(struct store *s, const char *key, int64_t deadline_mono_ns,
		      struct store_stat *out, struct err *e)
{
	int rc = begin(e);

	return rc ? rc : end(store_stat(faults_of(s), key, deadline_mono_ns, out, e), e);
}

static int timed_list(struct store *s, const struct store_list *list, struct err *e)
{
	int rc = begin(e);

	return rc ? rc : end(store_list(faults_of(s), list, e), e);
}

static int timed_remove(struct store *s, const char *key, int64_t deadline_mono_ns, struct err *e)
{
	int rc = begin_change(s, e);

	return rc ? rc : end(store_remove(faults_of(s), key, deadline_mono_ns, e), e);
}

static int timed_open_fd(struct store *s, const char *key, int64_t deadline_mono_ns, int *fd,
			 uint64_t *size, struct err *e)
{
	int rc = begin(e), done;

	if (rc)
		return rc;
	done = store_open_fd(faults_of(s), key, deadline_mono_ns, fd, size, e);
	rc = end(done, e);
	if (rc && !done)
		close(*fd);
	return rc;
}

static void timed_free(struct store *s)
{
	if (world.faults == faults_of(s))
		world.faults = NULL;
	store_free(faults_of(s));
	free(s);
}

static const struct store_ops timed_ops = {
	.scheme = "timed",
	.put = timed_put,
	.get = timed_get,
	.stat = timed_stat,
	.list = timed_list,
	.remove = timed_remove,
	.open_fd = timed_open_fd,
	.free = timed_free,
};

/* ---- life ---- */

int store_open_whole(struct store **out, const char *url, struct err *e)
{
	return __real_store_open(out, url, e);
}

int __wrap_store_open(struct store **out, const char *url, struct err *e)
{
	static const struct store_fault_env env = { .wait = wait_mono, .crash = crash };
	struct timed_store *t;
	struct store *inner;
	int rc = __real_store_open(&inner, url, e);

	if (rc)
		return rc;
	t = xcalloc(1, sizeof(*t));
	t->base.ops = &timed_ops;
	t->base.directory = inner->directory;
	t->faults = store_fault_wrap(inner, &env);
	world.faults = t->faults;
	put_rules();
	*out = &t->base;
	return 0;
}

void flaky_store_new(void (*kill_aggregator)(void))
{
	memset(&world, 0, sizeof(world));
	world.kill_aggregator = kill_aggregator;
}

void flaky_store_free(void)
{
	sim_cancel(&world.heal);
	sim_cancel(&world.crash);
}
