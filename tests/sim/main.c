/* SPDX-License-Identifier: Apache-2.0 */
/* tutti-sim: plays seeds, one after the other; exit status 1 if one failed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/conf.h"
#include "base/mem.h"
#include "tests/sim/check.h"
#include "tests/sim/crash.h"
#include "tests/sim/daemon.h"
#include "tests/sim/play.h"
#include "tests/sim/sim.h"

struct sim_conf {
	char *seed;
	char *seeds;
	char *crash;
	int crash_every;
	int agents;
	int minutes;
	bool calm;
	bool snapshots;
	bool whole_store;
	bool takeover;
	bool machines;
	bool twice;
	int verbose;
};

static const struct conf_field fields[] = {
	CONF(struct sim_conf, seed, NULL, "play this one seed"),
	CONF(struct sim_conf, seeds, "1..20", "play these, FROM..TO"),
	CONF(struct sim_conf, crash, NULL,
	     "a kill and outages at each call of the store in a capture's life, instead of seeds: "
	     "all, LIFE or LIFE/VARIANT/CALL"),
	CONF(struct sim_conf, crash_every, "1", "only at every so manieth call"),
	CONF(struct sim_conf, agents, "0", "number of agents; 0: 1 to 8, by the seed"),
	CONF(struct sim_conf, minutes, "0", "of failures, in the cluster's time; 0: by the seed"),
	CONF(struct sim_conf, calm, NULL, "no failures except those of the network"),
	CONF(struct sim_conf, snapshots, NULL,
	     "mostly snapshots, over restarts, sleeps, steps and outages of agents"),
	CONF(struct sim_conf, whole_store, NULL, "the store never fails"),
	CONF(struct sim_conf, takeover, NULL,
	     "two aggregators: the leader is stopped, killed or frozen, and the other one takes "
	     "over"),
	CONF(struct sim_conf, machines, NULL, "with --takeover: they are on two machines"),
	CONF(struct sim_conf, twice, NULL, "play each seed twice: the same must happen"),
	CONF(struct sim_conf, verbose, "0", "1: what happens; 2: with every log line"),
	{ 0 }
};

static const struct conf_table table = {
	.prog = "tutti-sim",
	.summary = "Plays agents and an aggregator on a virtual clock; all chance comes from the "
		   "seed.",
	.fields = fields,
};

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static bool play_one(uint64_t seed, const struct sim_conf *conf, struct play_result *total)
{
	const struct play_opts opts = { .agents = conf->agents,
					.minutes = conf->minutes,
					.calm = conf->calm,
					.snapshots = conf->snapshots,
					.whole_store = conf->whole_store,
					.takeover = conf->takeover,
					.machines = conf->machines };
	struct play_result r = play(seed, &opts), again;

	if (conf->twice) {
		again = play(seed, &opts);
		if (again.hash != r.hash) {
			fprintf(stderr, "seed %" PRIu64 " is not the same twice\n", seed);
			r.ok = false;
		}
	}
	if (!r.ok) {
		fprintf(stderr, "again: tutti-sim --seed %" PRIu64, seed);
		if (conf->agents)
			fprintf(stderr, " --agents %d", conf->agents);
		if (conf->minutes)
			fprintf(stderr, " --minutes %d", conf->minutes);
		fprintf(stderr, "%s%s%s%s%s --verbose 2\n", conf->calm ? " --calm" : "",
			conf->snapshots ? " --snapshots" : "",
			conf->whole_store ? " --whole-store" : "",
			conf->takeover ? " --takeover" : "", conf->machines ? " --machines" : "");
	}
	total->steps += r.steps;
	total->took_ns += r.took_ns;
	total->hash = total->hash * 31 + r.hash;
	return r.ok;
}

static void report(uint64_t n, uint64_t failed, const struct play_result *total, double took)
{
	const struct check_counts *c = &check_counts;

	printf("%" PRIu64 " seeds, %" PRIu64 " failed; %.0f s of cluster time in %.1f s; %" PRIu64
	       " events of the world\n",
	       n, failed, (double)total->took_ns / 1e9, took, total->steps);
	printf("sessions checked: %" PRIu64 "; hosts complete %" PRIu64 ", partial %" PRIu64
	       ", failed %" PRIu64 "; further files %" PRIu64 ", training steps %" PRIu64 "\n",
	       c->sessions, c->complete, c->partial, c->failed, c->more_files, c->steps);
	for (size_t i = 0; i < CHECK_REASONS_MAX && c->reasons[i].n; i++)
		printf("%s %" PRIu64 "%s", c->reasons[i].reason, c->reasons[i].n,
		       i + 1 < CHECK_REASONS_MAX && c->reasons[i + 1].n ? ", " : "\n");
	printf("%" PRIu64 " events of captures inside their bounds, worst error %.1f us; %" PRIu64
	       " edges between windows of hosts, hash %016" PRIx64 "\n",
	       c->events, (double)c->worst_error_ns / 1e3, c->edges, total->hash);
	printf("%" PRIu64 " past windows of hosts, %" PRIu64
	       " lack a part and say so; widest bound %.1f us\n",
	       c->windows, c->gaps, (double)c->worst_bound_ns / 1e3);
	play_print_drawn();
	printf("of them: waited for a profiler %" PRIu64 ", for a step %" PRIu64
	       "; answered by ProfilerService %" PRIu64 "; cancelled while a host was away %" PRIu64
	       ", right after the answer %" PRIu64 "; hosts with several files %" PRIu64
	       "; calls of the store that failed %" PRIu64 ", kills at one %" PRIu64
	       "; spools looked at %" PRIu64 ", after all leases %" PRIu64
	       "; results kept over a retry %" PRIu64 ", of partial hosts %" PRIu64 "\n",
	       c->queued, c->by_step, c->profiled, c->cancelled_away, c->ended_at_once, c->split,
	       c->store_failed, c->store_kills, c->spools, c->spools_late, c->kept,
	       c->kept_partial);
}

static int run(const struct sim_conf *conf)
{
	uint64_t from = 1, to = 1, failed = 0;
	struct play_result total = { .hash = 0 };
	double began = seconds();

	if (conf->seed)
		from = to = strtoull(conf->seed, NULL, 10);
	else if (sscanf(conf->seeds, "%" SCNu64 "..%" SCNu64, &from, &to) != 2)
		return 2;
	sim.verbose = conf->verbose;
	daemon_root_new();
	if (conf->crash) {
		failed = !crash_campaign(conf->crash, conf->crash_every);
		daemon_root_free();
		return (int)failed;
	}
	for (uint64_t seed = from; seed <= to; seed++)
		failed += !play_one(seed, conf, &total);
	daemon_root_free();
	report(to - from + 1, failed, &total, seconds() - began);
	return failed ? 1 : 0;
}

/* A descriptor or two for each agent. */
static void raise_file_limit(void)
{
	struct rlimit files;

	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

int main(int argc, char **argv)
{
	struct sim_conf conf = { 0 };
	enum conf_action action;
	struct err e;
	int status = 0;

	clearenv(); /* TUTTI_* would be settings of the daemons */
	raise_file_limit();
	argc--;
	if (conf_load(&conf, &table, &argc, argv + 1, &action, &e)) {
		fprintf(stderr, "tutti-sim: %s\n", e.msg);
		status = 2;
	} else if (action == CONF_HELP) {
		conf_help(&table, stdout);
	} else {
		status = run(&conf);
	}
	conf_release(&conf, &table);
	return status;
}
