/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/play.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tests/sim/burst.h"
#include "tests/sim/check.h"
#include "tests/sim/client.h"
#include "tests/sim/daemon.h"
#include "tests/sim/fleet.h"
#include "tests/sim/flaky_store.h"
#include "tests/sim/job.h"
#include "tests/sim/more.h"
#include "tests/sim/session_time.h"
#include "tests/sim/sim.h"
#include "tests/sim/snapshots.h"
#include "tests/sim/user.h"

#define CALM_NS \
	(150 * \
	 NS_PER_S) /* after it everything is well again: the longest keepalive, redial pauses */

#define PICK(table) (table)[rng_range(&sim.rng, 0, ARRAY_SIZE(table) - 1)]

#define HOLD_NS	 (15 * NS_PER_S) /* a lease */
#define WOKEN_NS (50 * NS_PER_MS) /* for which a former leader that wakes up goes on, at most */

#define FLEET_READY_NS (20 * NS_PER_S) /* all are connected, clocks are calibrated */

/* After it no agent holds a file of what is over: the longest deadline, and the lease beyond it. */
#define LEASE_NS (1500 * NS_PER_S)

/*
 * In each fourth seed the ledger's writes are slow and captures are ended as soon as they are accepted, so that a
 * ledger has changes that wait for each other. By number and not by chance, so that the draw of the others has nothing
 * of it.
 */
#define HASTY_SEEDS	4
#define HASTY_PART	0.5
#define HASTY_WITHIN_NS (300 * NS_PER_MS)
#define SLOW_FROM_NS	(10 * NS_PER_MS)
#define SLOW_TO_NS	(300 * NS_PER_MS)

static struct {
	const struct play_opts *opts;
	int64_t failures_end_ns;
	double mean_gap_ns; /* between two things that happen */
	struct sim_event next;
	struct sim_event *starts; /* of each host's daemon */
	struct sim_event former_ends; /* a leader that was frozen has woken up */
} stage;

static struct sim_host *the_agg(void)
{
	return sim.hosts[0];
}

static struct sim_host *any_agent(void)
{
	return sim.hosts[rng_range(&sim.rng, 1, (int64_t)sim.n_hosts - 1)];
}

static struct sim_event *start_of(const struct sim_host *h)
{
	size_t i = 0;

	while (sim.hosts[i] != h)
		i++;
	return &stage.starts[i];
}

/* ---- starts ---- */

static void on_start(void *arg)
{
	struct sim_host *h = arg;

	if (h->alive || daemon_is_busy(h))
		return;
	daemon_start(h);
}

static void start_in(struct sim_host *h, int64_t ns)
{
	sim_at(start_of(h), sim.now_ns + ns, on_start, h);
}

/* ---- what may happen ---- */

static void before_outage(void)
{
	user_before_outage();
	client_before_outage();
}

/* Down, and up again some time later. */
static void end_daemon(struct sim_host *h)
{
	bool orderly = rng_chance(&sim.rng, 0.2), agg = h == the_agg();

	if (!h->alive || daemon_is_busy(h) || h->asleep)
		return;
	if (agg)
		before_outage();
	if (orderly && h->paused_until_ns <= sim.now_ns)
		daemon_stop(h);
	else
		daemon_kill(h, rng_chance(&sim.rng, 0.2));
	if (agg)
		check_visible();
	start_in(h, rng_scale(&sim.rng, 20 * NS_PER_MS, 20 * NS_PER_S));
}

/* The rules of a lease (aggregator/lease/lease.h): a leader that stops gives it back, any other one has been silent for
 * all of it. One that wakes up after that ends itself, and what it does before is what the ledgers must withstand. */
static void on_former_ends(void *arg)
{
	struct sim_host *former = arg;

	if (former->alive && former != the_agg())
		daemon_kill(former, false);
}

static void freeze(struct sim_host *h)
{
	host_pause(h, rng_scale(&sim.rng, HOLD_NS, 4 * HOLD_NS));
	sim_at(&stage.former_ends, h->paused_until_ns + rng_range(&sim.rng, 0, WOKEN_NS),
	       on_former_ends, h);
}

static void take_over(void)
{
	struct sim_host *former = the_agg();
	int64_t after_ns = rng_range(&sim.rng, HOLD_NS, HOLD_NS + HOLD_NS / 4);

	if (!former->alive || daemon_is_busy(former) || former->paused_until_ns > sim.now_ns ||
	    sim.standby->alive || daemon_is_busy(sim.standby))
		return;
	before_outage();
	switch (rng_range(&sim.rng, 0, 2)) {
	case 0:
		daemon_stop(former);
		after_ns = rng_range(&sim.rng, 0, HOLD_NS / 8);
		break;
	case 1:
		daemon_kill(former, rng_chance(&sim.rng, 0.2));
		break;
	default:
		freeze(former);
	}
	daemon_hand_over(stage.opts->machines, after_ns);
	check_visible();
	start_in(the_agg(), after_ns);
}

/* For more.c: loses power, or is killed. */
static void kill_for(struct sim_host *h, int64_t down_ns)
{
	if (h == the_agg())
		before_outage();
	daemon_kill(h, false);
	if (h == the_agg())
		check_visible();
	start_in(h, down_ns);
}

static void on_store_crash(void)
{
	check_counts.store_kills++;
	before_outage();
	daemon_kill(the_agg(), false);
	check_visible();
	if (stage.opts->fault == FAULT_KILL_AND_FAIL)
		flaky_store_break("* * fail", stage.opts->away_ns);
	start_in(the_agg(), rng_scale(&sim.rng, 20 * NS_PER_MS, 20 * NS_PER_S));
}

static void pause_daemon(struct sim_host *h)
{
	if (!h->alive || daemon_is_busy(h))
		return;
	if (h == the_agg())
		before_outage();
	host_pause(h, rng_scale(&sim.rng, 10 * NS_PER_MS,
				h == the_agg() ? 5 * NS_PER_S : 90 * NS_PER_S));
}

static void end_agent(void)
{
	end_daemon(any_agent());
}

static void end_aggregator(void)
{
	end_daemon(the_agg());
}

static void pause_agent(void)
{
	pause_daemon(any_agent());
}

static void pause_aggregator(void)
{
	pause_daemon(the_agg());
}

static void cut_agent(void)
{
	host_cut(any_agent(), rng_scale(&sim.rng, 50 * NS_PER_MS, 60 * NS_PER_S));
}

static void suspend_agent(void)
{
	struct sim_host *h = any_agent();

	if (!daemon_is_busy(h))
		host_suspend(h, rng_scale(&sim.rng, 100 * NS_PER_MS, 60 * NS_PER_S));
}

static void step_clock(void)
{
	struct sim_host *h = rng_chance(&sim.rng, 0.1) ? the_agg() : any_agent();
	int64_t by_ns = rng_range(&sim.rng, -5 * NS_PER_S, 5 * NS_PER_S);

	host_step(h, by_ns);
	if (h == the_agg() && sim.standby && !stage.opts->machines)
		host_step(sim.standby, by_ns);
}

static void slow_down(void)
{
	struct sim_host *h = any_agent();

	host_set_speed(h, rng_scale(&sim.rng, 20000, 1000000000));
}

/* Calls that fail all, some of the time, or only for some keys. */
static void break_store(void)
{
	static const char *const calls[] = { "*",    "write",  "put",	   "get",
					     "list", "remove", "open,stat" };
	static const char *const keys[] = { "*",
					    "tutti/*",
					    "profiles/*",
					    "tutti/sessions/*",
					    "tutti/ledger/*",
					    "tutti/index/*",
					    "tutti/failed/*" };
	static const char *const actions[] = { "fail", "full", "lose", "hang", "delay" };
	char rules[128], action[32];
	const char *what = PICK(actions);

	snprintf(action, sizeof(action), "%s", what);
	if (!strcmp(what, "delay"))
		snprintf(action, sizeof(action), "delay=%.3f",
			 (double)rng_scale(&sim.rng, NS_PER_MS, 100 * NS_PER_S) / 1e9);
	snprintf(rules, sizeof(rules), "%s %s %s", PICK(calls), PICK(keys), action);
	if (rng_chance(&sim.rng, 0.3))
		snprintf(rules + strlen(rules), sizeof(rules) - strlen(rules), " skip=%d times=%d",
			 (int)rng_range(&sim.rng, 0, 10), (int)rng_range(&sim.rng, 1, 10));
	before_outage();
	flaky_store_break(rules, rng_scale(&sim.rng, NS_PER_S, 600 * NS_PER_S));
}

static void lose_store(void)
{
	before_outage();
	flaky_store_break(rng_chance(&sim.rng, 0.5) ? "* * fail" : "* * hang",
			  rng_scale(&sim.rng, NS_PER_S, 600 * NS_PER_S));
}

static void crash_at_call(void)
{
	flaky_store_crash((uint64_t)rng_range(&sim.rng, 0, 40), rng_chance(&sim.rng, 0.5));
}

static void end_away(void)
{
	static void (*const ends[])(void) = { end_agent, pause_agent, cut_agent, suspend_agent };

	PICK(ends)();
	if (rng_chance(&sim.rng, 0.5))
		user_cancel();
	else
		user_stop();
}

enum draw { DRAW_USE, DRAW_FAILURE, DRAW_STORE, DRAW_TAKEOVER };

/* With --snapshots the second weight counts. */
static const struct action {
	void (*fn)(void);
	const char *name;
	int weight, past_weight;
	enum draw draw;
} actions[] = {
	{ user_capture, "capture", 30, 3, DRAW_USE },
	{ user_capture_steps, "capture of steps", 8, 0, DRAW_USE },
	{ user_stop, "stop", 3, 0, DRAW_USE },
	{ user_cancel, "cancel", 3, 1, DRAW_USE },
	{ user_retry, "retry", 6, 1, DRAW_USE },
	{ user_delete, "delete", 2, 0, DRAW_USE },
	{ user_browse, "look", 4, 1, DRAW_USE },
	{ client_profile, "ProfilerService", 4, 0, DRAW_USE },
	{ snapshot_take, "snapshot", 8, 25, DRAW_USE },
	{ snapshot_series, "series", 2, 20, DRAW_USE },
	{ client_terminate, "Terminate", 1, 0, DRAW_USE },
	{ job_restart, "job restarted", 1, 0, DRAW_FAILURE },
	{ end_agent, "agent ended", 8, 12, DRAW_FAILURE },
	{ end_aggregator, "aggregator ended", 4, 1, DRAW_FAILURE },
	{ pause_agent, "agent paused", 6, 8, DRAW_FAILURE },
	{ pause_aggregator, "aggregator paused", 2, 1, DRAW_FAILURE },
	{ cut_agent, "host cut off", 8, 8, DRAW_FAILURE },
	{ suspend_agent, "host asleep", 2, 8, DRAW_FAILURE },
	{ end_away, "host away, then cancel or stop", 4, 0, DRAW_FAILURE },
	{ step_clock, "clock stepped", 4, 8, DRAW_FAILURE },
	{ slow_down, "slow network", 4, 2, DRAW_FAILURE },
	{ break_store, "store breaks", 4, 1, DRAW_STORE },
	{ lose_store, "store away", 2, 0, DRAW_STORE },
	{ crash_at_call, "kill at a store call", 3, 0, DRAW_STORE },
	{ take_over, "takeover", 12, 6, DRAW_TAKEOVER },
};

static uint64_t drawn[ARRAY_SIZE(actions)]; /* how often, in all seeds so far */

static int weight_of(const struct action *a)
{
	if (a->draw == DRAW_TAKEOVER && !stage.opts->takeover)
		return 0;
	return stage.opts->snapshots ? a->past_weight : a->weight;
}

static bool may_happen(enum draw draw)
{
	return draw == DRAW_USE ||
	       (!stage.opts->calm && !(draw == DRAW_STORE && stage.opts->whole_store));
}

/* In a large fleet one failed host of many would show little of what windows do over failures. */
static size_t times_of(const struct action *a)
{
	bool is_of_agents = a->fn == end_agent || a->fn == pause_agent || a->fn == cut_agent ||
			    a->fn == suspend_agent || a->fn == step_clock;

	return stage.opts->snapshots && is_of_agents ? 1 + sim.n_hosts / 50 : 1;
}

static void on_next(void *arg)
{
	int64_t total = 0, pick;

	for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
		total += weight_of(&actions[i]);
	pick = rng_range(&sim.rng, 0, total - 1);
	/* Before the action: an orderly stop turns the world. */
	if (sim.now_ns < stage.failures_end_ns)
		sim_at(&stage.next, sim.now_ns + rng_wait(&sim.rng, stage.mean_gap_ns), on_next,
		       arg);
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
		pick -= weight_of(&actions[i]);
		if (pick >= 0)
			continue;
		for (size_t n = times_of(&actions[i]); n && may_happen(actions[i].draw); n--) {
			actions[i].fn();
			drawn[i]++;
		}
		return;
	}
}

/* ---- the fleet ---- */

static void make_fleet(int agents)
{
	const bool small_files = rng_chance(&sim.rng, 0.4);
	const struct daemon_opts opts = {
		.n_aggregators = stage.opts->takeover ? 2 : 1,
		.grace_ns = rng_range(&sim.rng, 3, 30) * NS_PER_S,
		.lead_ns = rng_scale(&sim.rng, NS_PER_MS, NS_PER_S),
		.spool_limit_bytes = rng_chance(&sim.rng, 0.1) ? 16 << 20 : 1 << 30,
		.file_limit_bytes = small_files ? 128 << 10 : 1 << 30,
	};
	char name[24];

	ballast_limit = small_files ? 40 << 10 : SIZE_MAX;
	fleet_make_host("agg");
	the_agg()->bytes_per_s = 1000000000;
	for (int i = 1; i <= agents; i++) {
		snprintf(name, sizeof(name), "h%d", i);
		fleet_make_host(name);
	}
	if (stage.opts->takeover)
		fleet_make_standby(!stage.opts->machines);
	stage.starts = xcalloc(sim.n_hosts, sizeof(*stage.starts));
	daemons_new(&opts);
	user_new(opts.grace_ns, stage.opts->calm);
	job_new();
	client_new();
	snapshots_new();
	for (size_t i = 0; i < sim.n_hosts; i++)
		start_in(sim.hosts[i], rng_scale(&sim.rng, NS_PER_MS, 3 * NS_PER_S));
}

/* ---- acts ---- */

/* All that was broken is made whole, and nothing breaks any more. */
static void heal(void)
{
	sim_cancel(&stage.next);
	more_stop();
	user_end_at_once(0, 0);
	snapshots_stop();
	flaky_store_heal();
	for (size_t i = 0; i < sim.n_hosts; i++) {
		host_set_speed(sim.hosts[i], 1000000000);
		if (!sim.hosts[i]->alive)
			start_in(sim.hosts[i], 0);
	}
}

static bool wait_for_requests(int64_t for_ns)
{
	int64_t until = sim.now_ns + for_ns;

	while (user_waiting() && sim.now_ns < until)
		sim_run(sim.now_ns + NS_PER_S);
	return !user_waiting();
}

static void stop_all(void)
{
	size_t first = (size_t)rng_range(&sim.rng, 0, (int64_t)sim.n_hosts - 1);

	for (size_t i = 0; i < sim.n_hosts; i++) {
		struct sim_host *h = sim.hosts[(first + i) % sim.n_hosts];

		if (h->alive)
			daemon_stop(h);
	}
}

/* The next start finishes what was being removed. */
static void restart_aggregator(void)
{
	daemon_stop(the_agg());
	daemon_start(the_agg());
	sim_run(sim.now_ns + FLEET_READY_NS);
}

static void check_nothing_is_left(void)
{
	/* Connections without a message that closes them end by themselves. */
	sim_run(sim.now_ns + 200 * NS_PER_S);
	if (wire_connections())
		sim_fail("%zu connections are left", wire_connections());
	if (sim.n)
		sim_fail("%zu events are left", sim.n);
}

static void clear_stage(void)
{
	user_free();
	client_free();
	snapshots_free();
	flaky_store_free();
	session_time_free();
	daemons_free();
	for (size_t i = 0; i < sim.n_hosts; i++) {
		sim_cancel(&stage.starts[i]);
		host_free(sim.hosts[i]);
	}
	free(stage.starts);
	sim_cancel(&stage.former_ends);
	if (sim.standby)
		host_free(sim.standby);
	sim.standby = NULL;
}

/* All is well, and has been for a while. */
static void check_ends(void)
{
	user_ask_ends();
	sim_run(sim.now_ns + 10 * NS_PER_S);
	user_check_ends();
	check_spools(false);
	if (!rng_chance(&sim.rng, 0.2))
		return;
	sim_run(sim.now_ns + LEASE_NS);
	check_spools(true);
}

/* ---- what is played ---- */

/* In a large fleet less happens at once. */
static double large_fleet_factor(void)
{
	if (sim.n_hosts <= LARGE_FLEET)
		return 1;
	return stage.opts->snapshots ? 3 : 10;
}

static void make_hasty(uint64_t seed)
{
	if (seed % HASTY_SEEDS || stage.opts->calm || stage.opts->whole_store)
		return;
	flaky_store_slow_ledger(rng_scale(&sim.rng, SLOW_FROM_NS, SLOW_TO_NS));
	user_end_at_once(HASTY_PART, HASTY_WITHIN_NS);
}

static void play_chance(uint64_t seed)
{
	make_hasty(seed);
	stage.failures_end_ns = (stage.opts->minutes ? stage.opts->minutes * 60
						     : rng_range(&sim.rng, 30, 150)) *
				NS_PER_S;
	stage.mean_gap_ns = (double)rng_scale(&sim.rng, 200 * NS_PER_MS, 5 * NS_PER_S) *
			    large_fleet_factor();
	sim_at(&stage.next, rng_scale(&sim.rng, NS_PER_MS, 5 * NS_PER_S), on_next, NULL);
	if (!stage.opts->calm && !stage.opts->snapshots && sim.n_hosts <= LARGE_FLEET)
		more_start(stage.failures_end_ns);
	sim_run(stage.failures_end_ns);
}

/* The store stays away until its time is over, also beyond the life. */
static uint64_t play_live(void)
{
	const struct play_opts *o = stage.opts;
	uint64_t before, calls;

	sim_run(FLEET_READY_NS);
	before = flaky_store_calls();
	if (o->fault == FAULT_KILL_BEFORE || o->fault == FAULT_KILL_AFTER)
		flaky_store_crash(o->fault_call, o->fault == FAULT_KILL_AFTER);
	else if (o->fault == FAULT_KILL_AND_FAIL)
		flaky_store_crash(o->fault_call, true);
	else if (o->fault)
		flaky_store_break_at(o->fault_call,
				     o->fault == FAULT_FAIL ? "* * fail" : "* * hang", o->away_ns);
	o->live();
	calls = flaky_store_calls() - before;
	while (!flaky_store_is_whole(0))
		sim_run(sim.now_ns + NS_PER_S);
	return calls;
}

struct play_result play(uint64_t seed, const struct play_opts *opts)
{
	struct play_result result;
	uint64_t calls;

	sim_begin(seed);
	flaky_store_new(on_store_crash);
	stage.opts = opts;
	more_new(seed, opts->takeover, &(struct more_env){ .kill = kill_for });
	sim_tracer_armed = check_armed;
	make_fleet(opts->agents ? opts->agents : (int)rng_range(&sim.rng, 1, 8));
	calls = opts->live ? play_live() : 0;
	if (!opts->live)
		play_chance(seed);
	heal();
	sim_run(sim.now_ns + CALM_NS);
	/* a former leader may have left a record when it woke up, and accepted what no caller was told of */
	if (opts->takeover)
		restart_aggregator();
	user_capture_whole();
	user_capture_whole(); /* both need the profilers */
	sim_run(sim.now_ns + NS_PER_S);
	if (!wait_for_requests(200 * NS_PER_S))
		sim_fail("%zu captures do not end", user_waiting());
	check_ends();
	snapshots_check();
	client_stop();
	if (user_has_unanswered_removals())
		restart_aggregator();
	stop_all();
	check_store();
	check_nothing_is_left();
	result = (struct play_result){ !sim.failures, sim.hash, sim.steps, sim.now_ns, calls };
	clear_stage();
	sim_end();
	return result;
}

void play_print_drawn(void)
{
	const char *before = "drawn: ";

	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
		if (!drawn[i])
			continue;
		printf("%s%s %" PRIu64, before, actions[i].name, drawn[i]);
		before = ", ";
	}
	if (*before == ',')
		printf("\n");
	more_print_drawn();
}
