/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/crash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tests/sim/play.h"
#include "tests/sim/sim.h"
#include "tests/sim/user.h"

#define SEED   1
#define AGENTS 3

/* ---- lives ---- */

static void wait_for_end(void)
{
	for (int i = 0; i < 60 && user_waiting(); i++)
		sim_run(sim.now_ns + NS_PER_S);
}

static void live_plain(void)
{
	user_capture_all(500 * NS_PER_MS);
	sim_run(sim.now_ns + 5 * NS_PER_S);
}

static void live_stop(void)
{
	user_capture_all(4 * NS_PER_S);
	sim_run(sim.now_ns + 2 * NS_PER_S);
	user_stop();
	sim_run(sim.now_ns + 5 * NS_PER_S);
}

static void live_cancel(void)
{
	user_capture_all(4 * NS_PER_S);
	sim_run(sim.now_ns + 2 * NS_PER_S);
	user_cancel();
	sim_run(sim.now_ns + 5 * NS_PER_S);
}

/* One host misses the capture; the retry records it. */
static void live_retry(void)
{
	host_cut(sim.hosts[1], 12 * NS_PER_S);
	sim_run(sim.now_ns + 100 * NS_PER_MS);
	user_capture_all(500 * NS_PER_MS);
	sim_run(sim.now_ns + 15 * NS_PER_S);
	wait_for_end();
	user_retry();
	sim_run(sim.now_ns + 5 * NS_PER_S);
}

static void live_delete(void)
{
	user_capture_all(500 * NS_PER_MS);
	sim_run(sim.now_ns + 5 * NS_PER_S);
	wait_for_end();
	user_delete();
	sim_run(sim.now_ns + 5 * NS_PER_S);
}

/* The second capture waits for the profilers of the first. */
static void live_queue(void)
{
	user_capture_all(2 * NS_PER_S);
	sim_run(sim.now_ns + 100 * NS_PER_MS);
	user_capture_all(500 * NS_PER_MS);
	sim_run(sim.now_ns + 10 * NS_PER_S);
}

static void live_steps(void)
{
	user_capture_steps();
	sim_run(sim.now_ns + 10 * NS_PER_S);
}

static const struct life {
	const char *name;
	void (*live)(void);
} lives[] = {
	{ "capture", live_plain }, { "stop", live_stop },     { "cancel", live_cancel },
	{ "retry", live_retry },   { "delete", live_delete }, { "queue", live_queue },
	{ "steps", live_steps },
};

static const struct life *the_life;

static void live(void)
{
	the_life->live();
	wait_for_end();
}

/* ---- what happens at a call ---- */

static const struct variant {
	const char *name;
	enum call_fault fault;
	int64_t away_ns;
} variants[] = {
	{ "kill-before", FAULT_KILL_BEFORE, 0 },
	{ "kill-after", FAULT_KILL_AFTER, 0 },
	{ "fail-1s", FAULT_FAIL, NS_PER_S },
	{ "fail-10s", FAULT_FAIL, 10 * NS_PER_S },
	{ "fail-60s", FAULT_FAIL, 60 * NS_PER_S },
	{ "fail-600s", FAULT_FAIL, 600 * NS_PER_S },
	{ "hang-1s", FAULT_HANG, NS_PER_S },
	{ "hang-10s", FAULT_HANG, 10 * NS_PER_S },
	{ "hang-60s", FAULT_HANG, 60 * NS_PER_S },
	{ "hang-600s", FAULT_HANG, 600 * NS_PER_S },
	{ "kill-away-1s", FAULT_KILL_AND_FAIL, NS_PER_S },
	{ "kill-away-10s", FAULT_KILL_AND_FAIL, 10 * NS_PER_S },
	{ "kill-away-60s", FAULT_KILL_AND_FAIL, 60 * NS_PER_S },
	{ "kill-away-600s", FAULT_KILL_AND_FAIL, 600 * NS_PER_S },
};

static struct play_result play_fault(enum call_fault fault, uint64_t call, int64_t away_ns)
{
	const struct play_opts opts = {
		.agents = AGENTS,
		.live = live,
		.fault = fault,
		.fault_call = call,
		.away_ns = away_ns,
	};

	return play(SEED, &opts);
}

static bool play_variant(const struct variant *v, uint64_t call)
{
	bool ok = play_fault(v->fault, call, v->away_ns).ok;

	if (!ok)
		fprintf(stderr, "again: tutti-sim --crash %s/%s/%" PRIu64 " --verbose 2\n",
			the_life->name, v->name, call);
	return ok;
}

/* ---- the table ---- */

static unsigned int play_row(const struct variant *v, uint64_t calls, int every)
{
	unsigned int failed = 0, played = 0;

	for (uint64_t call = 0; call < calls; call += (uint64_t)every, played++)
		failed += !play_variant(v, call);
	printf("%-8s %-15s %6u %6u\n", the_life->name, v->name, played, failed);
	fflush(stdout);
	return failed;
}

static unsigned int play_life(const struct life *l, int every)
{
	unsigned int failed = 0;
	uint64_t calls;

	the_life = l;
	calls = play_fault(FAULT_NONE, 0, 0).calls;
	for (size_t i = 0; i < ARRAY_SIZE(variants); i++)
		failed += play_row(&variants[i], calls, every);
	return failed;
}

static const struct life *life_find(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(lives); i++) {
		if (strlen(lives[i].name) == len && !strncmp(lives[i].name, name, len))
			return &lives[i];
	}
	fprintf(stderr, "there is no life %s\n", name);
	exit(2);
}

/* "LIFE/VARIANT/CALL" */
static bool play_one_call(const char *which, const char *slash)
{
	char name[32];
	uint64_t call;

	the_life = life_find(which, (size_t)(slash - which));
	if (sscanf(slash, "/%31[^/]/%" SCNu64, name, &call) == 2) {
		for (size_t i = 0; i < ARRAY_SIZE(variants); i++) {
			if (!strcmp(variants[i].name, name))
				return play_variant(&variants[i], call);
		}
	}
	fprintf(stderr, "%s is not LIFE/VARIANT/CALL\n", which);
	exit(2);
}

bool crash_campaign(const char *which, int every)
{
	const char *slash = strchr(which, '/');
	unsigned int failed = 0;

	if (slash)
		return play_one_call(which, slash);
	printf("%-8s %-15s %6s %6s\n", "life", "at each call", "played", "failed");
	if (strcmp(which, "all"))
		return !play_life(life_find(which, strlen(which)), every);
	for (size_t i = 0; i < ARRAY_SIZE(lives); i++)
		failed += play_life(&lives[i], every);
	printf("%u failed\n", failed);
	return !failed;
}
