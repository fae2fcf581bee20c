/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real clocks of agents against the aggregator's real time service, in two processes: over
 * loopback, a cable between network namespaces, or through a relay. The truth is known at every
 * instant: the injected error and the wander of the service's clock. One line of JSON reports the
 * errors of the models:
 *
 *   causal    of a model at the time at which it was made
 *   ahead     of a model for a T0 that much later
 *   offline   of the model of a window, made afterwards, as a capture uses it
 *   handover  of two clocks that stamped the two ends of a hand-over through a pipe, against each other
 *   start     how late a timer of the loop fires that is set for a T0
 *   cold      how soon after the first probe the bound is good
 *
 * Run by hand or, with its goals, by tests/clock/run.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/clock/judge.h"
#include "tests/clock/service.h"

#define COLD_NS	   NS_PER_S
#define TAIL_NS	   NS_PER_S /* probes after the window */
#define START_NS   (200 * NS_PER_MS) /* between two starts */
#define OFFLINE_NS (10 * NS_PER_MS)
#define BUSY_MAX   16
#define NEW_CLOCK_NS \
	(7 * NS_PER_S) /* how far another service's session clock is from the first's */

struct conf {
	int64_t for_ns, warm_up_ns, every_ns, lead_ns, offset_ns, good_ns, wander_period_ns;
	int64_t restart_ns, freeze_at_ns, freeze_ns;
	double drift_ppm, wander_ppm;
	int64_t gap_ns;
	bool user, starts;
	int agents, busy, handovers;
	char *listen, *connect, *server_netns;
};

static const struct conf_field fields[] = {
	CONF(struct conf, for_ns, "60s", "length of the measurement"),
	CONF(struct conf, warm_up_ns, "3s", "wait before it"),
	CONF(struct conf, every_ns, "10ms", "time between checks"),
	CONF(struct conf, lead_ns, "0s", "also translate a T0 that much later"),
	CONF(struct conf, agents, "1", "number of clocks, each with another error"),
	CONF(struct conf, offset_ns, "1234567us", "injected offset"),
	CONF(struct conf, drift_ppm, "30", "injected drift"),
	CONF(struct conf, wander_ppm, "0", "peak wander of the service's rate"),
	CONF(struct conf, wander_period_ns, "60s", "period of the wander"),
	CONF(struct conf, gap_ns, "0s",
	     "least time between pairs of probes, as aggregators ask of many hosts"),
	CONF(struct conf, user, NULL, "without stamps of the kernel"),
	CONF(struct conf, busy, "0", "number of busy processes beside it"),
	CONF(struct conf, good_ns, "1500ns", "a good bound"),
	CONF(struct conf, handovers, "0",
	     "number of hand-overs through a pipe between the first two clocks"),
	CONF(struct conf, starts, NULL, "measure timers set for T0s"),
	CONF(struct conf, restart_ns, "0s", "another time service takes over after this"),
	CONF(struct conf, freeze_at_ns, "0s", "stop the clocks' process after this"),
	CONF(struct conf, freeze_ns, "5s", "stop it for this long"),
	CONF(struct conf, listen, "127.0.0.1:0", "where the time service listens"),
	CONF(struct conf, server_netns, NULL, "path of its network namespace"),
	CONF(struct conf, connect, NULL, "host or host:port where the clocks find it"),
	{ 0 }
};

static const struct conf_table table = {
	.prog = "clock_live",
	.summary = "Errors of real clocks.",
	.fields = fields,
};

struct handover {
	int64_t given_raw_ns, taken_raw_ns;
};

struct live {
	struct conf conf;
	struct loop *loop;
	struct service services[2]; /* the second takes over */
	struct service *service; /* that is probed now */
	struct clock **clocks;
	const char *host; /* of the service */
	int port; /* 0 = its own */
	int64_t begin_ns; /* CLOCK_MONOTONIC; the warm-up is over */
	int64_t since_raw_ns, until_raw_ns; /* the part of this service's time that is judged */
	struct judge causal, ahead, offline, start;
	struct loop_timer start_timer;
	int64_t t0_ns; /* session clock */
	struct handover *handovers;
	size_t n_handovers;
	int give_fd, take_fd;
	int64_t cold_ns; /* -1 = not yet */
	uint32_t cold_probes;
};

static struct live live = { .cold_ns = -1 };

/* The linker replaces setsockopt() by this: with --user the kernel stamps nothing. */
int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	if (live.conf.user && level == SOL_SOCKET && name == SO_TIMESTAMPING) {
		errno = ENOPROTOOPT;
		return -1;
	}
	return __real_setsockopt(fd, level, name, value, len);
}

static void die(const char *what, const struct err *e)
{
	fprintf(stderr, "clock_live: %s: %s\n", what, e->msg);
	exit(1);
}

/* ---- the other processes ---- */

static void run_busily(void *arg)
{
	(void)arg;
	for (volatile int i = 0;; i++)
		;
}

static void sleep_ns(int64_t ns)
{
	struct timespec t = { ns / NS_PER_S, ns % NS_PER_S };

	nanosleep(&t, NULL);
}

static void freeze_parent(void *arg)
{
	const struct conf *conf = arg;

	sleep_ns(conf->freeze_at_ns);
	kill(getppid(), SIGSTOP);
	sleep_ns(conf->freeze_ns);
	kill(getppid(), SIGCONT);
}

/* Reads bytes from one pipe and writes the time of each read to another. */
static void stamp_bytes(void *arg)
{
	const int *fds = arg;
	char byte;

	while (read(fds[0], &byte, 1) == 1) {
		int64_t taken_raw_ns = now_raw_ns();

		if (write(fds[1], &taken_raw_ns, sizeof(taken_raw_ns)) < 0)
			return;
	}
}

static pid_t start_taker(void)
{
	int there[2], back[2], fds[2];
	pid_t pid;

	if (pipe(there) || pipe(back))
		exit(1);
	fds[0] = there[0];
	fds[1] = back[1];
	pid = service_fork(stamp_bytes, fds);
	live.give_fd = there[1];
	live.take_fd = back[0];
	return pid;
}

/* ---- clocks ---- */

static void set_peers(void)
{
	struct err e;

	for (int i = 0; i < live.conf.agents; i++) {
		struct clock_peer peer = live.service->peers[i];

		peer.host = live.host;
		peer.port = live.port ? live.port : peer.port;
		if (clock_set_peer(live.clocks[i], &peer, &e))
			die("peer", &e);
	}
}

static void start_service(struct service *s, int64_t ahead_ns)
{
	const struct service_conf conf = {
		.listen = live.conf.listen,
		.netns = live.conf.server_netns,
		.hosts = (size_t)live.conf.agents,
		.ahead_ns = ahead_ns,
		.wander_ppm = live.conf.wander_ppm,
		.wander_s = (double)live.conf.wander_period_ns / 1e9,
	};

	service_start(s, &conf);
}

/* All services, before this process has threads. */
static void start_services(void)
{
	start_service(&live.services[0], 0);
	if (live.conf.restart_ns)
		start_service(&live.services[1], NEW_CLOCK_NS);
	live.service = &live.services[0];
}

/* The first clock has the error of the flags; the others up to 5 s and 50 ppm more. */
static void start_clocks(void)
{
	struct err e;

	live.clocks = xcalloc((size_t)live.conf.agents, sizeof(struct clock *));
	if (loop_new(&live.loop, 1, &e))
		die("loop", &e);
	for (int i = 0; i < live.conf.agents; i++) {
		struct clock_conf conf = { .loop = live.loop };

		conf.test_offset_ns = live.conf.offset_ns + (i * 7 % 11 - (i ? 5 : 0)) * NS_PER_S;
		conf.test_drift_ppm = live.conf.drift_ppm + (i ? i * 37 % 101 - 50 : 0);
		if (clock_new(&live.clocks[i], &conf, &e))
			die("clock", &e);
		clock_probe_densely(live.clocks[i],
				    now_mono_ns() + live.conf.for_ns + live.conf.warm_up_ns +
					    COLD_NS + TAIL_NS,
				    live.conf.gap_ns);
	}
}

static void find_service(void)
{
	char *colon = live.conf.connect ? strrchr(live.conf.connect, ':') : NULL;

	live.host = live.conf.connect ? live.conf.connect : "127.0.0.1";
	if (colon) {
		*colon = '\0';
		live.port = (int)strtol(colon + 1, NULL, 10);
	}
}

/* ---- judging ---- */

static void judge_at(struct judge *j, const struct clock_model *m, int64_t raw_ns)
{
	int64_t truth_ns = service_session_ns(live.service, raw_ns);

	judge_add(j, clock_model_session_of_raw(m, raw_ns) - truth_ns,
		  m->calibrated ? clock_model_bound_at(m, raw_ns) : -1);
}

/* The raw time of T0, as an armed agent needs it. */
static void judge_t0(const struct clock_model *m)
{
	int64_t raw_ns = m->at_raw_ns + live.conf.lead_ns;
	int64_t t0_ns = service_session_ns(live.service, raw_ns);

	judge_add(&live.ahead, clock_model_raw_of_session(m, t0_ns) - raw_ns,
		  m->calibrated ? clock_model_bound_at(m, raw_ns) : -1);
}

static void judge_now(void)
{
	for (int i = 0; i < live.conf.agents; i++) {
		struct clock_model m = clock_model(live.clocks[i]);

		judge_at(&live.causal, &m, m.at_raw_ns);
		if (live.conf.lead_ns)
			judge_t0(&m);
	}
}

static struct clock_model window_model(int i)
{
	return clock_window_model(live.clocks[i], live.since_raw_ns, live.until_raw_ns);
}

/* The window models against this service; before another takes over, and at the end. */
static void judge_windows(void)
{
	for (int i = 0; i < live.conf.agents; i++) {
		struct clock_model m = window_model(i);

		for (int64_t t = live.since_raw_ns; t < live.until_raw_ns; t += OFFLINE_NS)
			judge_at(&live.offline, &m, t);
		clock_model_free(&m);
	}
}

static void hand_over(void)
{
	struct handover *h = &live.handovers[live.n_handovers];

	h->given_raw_ns = now_raw_ns();
	if (write(live.give_fd, "", 1) == 1 &&
	    read(live.take_fd, &h->taken_raw_ns, sizeof(h->taken_raw_ns)) > 0)
		live.n_handovers++;
}

/* As many hand-overs as are due by now. */
static void hand_over_some(int64_t past_ns)
{
	double due = (double)past_ns / (double)live.conf.for_ns * live.conf.handovers;

	while (live.n_handovers < (size_t)live.conf.handovers && (double)live.n_handovers < due)
		hand_over();
}

/* One clock stamped the write, the other the read: the error of the time in between. */
static void judge_handovers(struct judge *j)
{
	struct clock_model a = window_model(0), b = window_model(1);

	for (size_t i = 0; i < live.n_handovers; i++) {
		const struct handover *h = &live.handovers[i];
		int64_t took_ns = clock_model_session_of_raw(&b, h->taken_raw_ns) -
				  clock_model_session_of_raw(&a, h->given_raw_ns);

		judge_add(j, took_ns - (h->taken_raw_ns - h->given_raw_ns),
			  clock_model_bound_at(&a, h->given_raw_ns) +
				  clock_model_bound_at(&b, h->taken_raw_ns));
	}
	clock_model_free(&a);
	clock_model_free(&b);
}

static int64_t best_bound(const struct clock_model *m, int64_t from_ns, int64_t to_ns)
{
	int64_t best = INT64_MAX;

	for (int64_t t = from_ns; m->calibrated && t <= to_ns; t += NS_PER_MS) {
		int64_t bound_ns = clock_model_bound_at(m, t);

		best = bound_ns < best ? bound_ns : best;
	}
	return best;
}

/* The first time at which the model of the window since the first probe has a good bound
 * anywhere. */
static void wait_for_good_bound(void)
{
	int64_t begin_ns = now_raw_ns(), now_ns;

	while (live.cold_ns < 0 && (now_ns = now_raw_ns()) < begin_ns + COLD_NS) {
		struct clock_model m = clock_window_model(live.clocks[0], begin_ns, now_ns);

		if (best_bound(&m, begin_ns, now_ns) <= live.conf.good_ns) {
			live.cold_ns = now_ns - begin_ns;
			live.cold_probes = m.probes;
		}
		clock_model_free(&m);
		loop_turn(live.loop, 5);
	}
}

static void turn_until(int64_t mono_ns)
{
	while (now_mono_ns() < mono_ns)
		loop_turn(live.loop, 5);
}

static void restart_service(void)
{
	live.until_raw_ns = now_raw_ns();
	judge_windows();
	service_stop(live.service);
	live.service = &live.services[1];
	live.since_raw_ns = now_raw_ns();
	set_peers();
	live.conf.restart_ns = 0;
}

/* As the agent begins a window: a timer at the model's raw time of T0. */
static void on_start(void *arg)
{
	struct clock_model m;
	int64_t now_ns = now_raw_ns(), raw_ns;

	(void)arg;
	if (live.t0_ns)
		judge_add(&live.start, service_session_ns(live.service, now_ns) - live.t0_ns, 0);
	m = clock_model(live.clocks[0]);
	live.t0_ns = service_session_ns(live.service, now_ns) + START_NS;
	raw_ns = clock_model_raw_of_session(&m, live.t0_ns);
	loop_timer_in(live.loop, &live.start_timer, raw_ns - now_raw_ns(), on_start, NULL);
}

static void watch(void)
{
	int64_t next_ns = live.begin_ns = now_mono_ns(), past_ns;

	live.since_raw_ns = now_raw_ns();
	if (live.conf.starts)
		on_start(NULL);
	while ((past_ns = now_mono_ns() - live.begin_ns) < live.conf.for_ns) {
		loop_turn(live.loop, 5);
		if (live.conf.restart_ns && past_ns > live.conf.restart_ns)
			restart_service();
		if (live.conf.handovers)
			hand_over_some(past_ns);
		if (now_mono_ns() < next_ns)
			continue;
		next_ns += live.conf.every_ns;
		judge_now();
	}
	hand_over_some(2 * live.conf.for_ns);
	live.until_raw_ns = now_raw_ns();
	loop_timer_cancel(live.loop, &live.start_timer);
	turn_until(now_mono_ns() + TAIL_NS);
}

/* ---- reporting ---- */

static json_t *cold_json(void)
{
	return json_pack("{s:f, s:i}", "ms", (double)live.cold_ns / 1e6, "probes",
			 (int)live.cold_probes);
}

static void report(void)
{
	struct clock_model m = clock_model(live.clocks[0]);
	struct judge handover = { 0 };
	json_t *o;

	judge_windows();
	if (live.conf.handovers)
		judge_handovers(&handover);
	o = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:s, s:f, s:f, s:f, s:f, s:i, s:i}",
		      "causal", judge_json(&live.causal), "ahead", judge_json(&live.ahead),
		      "offline", judge_json(&live.offline), "handover", judge_json(&handover),
		      "start", judge_json(&live.start), "cold", cold_json(), "method",
		      m.method ? m.method : "none", "grade",
		      clock_grade_name(clock_grade_of(&m, m.bound_ns)), "rate_ppm", m.rate * 1e6,
		      "drift_ppm", m.n_segments ? m.segments[m.n_segments - 1].drift * 1e6 : 0,
		      "jitter", (double)m.jitter_ns / 1e3, "rtt", (double)m.rtt_min_ns / 1e3,
		      "probes", (int)m.probes, "bad", (int)m.bad_samples);
	json_dumpf(o, stdout, JSON_REAL_PRECISION(6));
	puts("");
	json_decref(o);
}

int main(int argc, char **argv)
{
	struct conf *conf = &live.conf;
	pid_t pids[BUSY_MAX + 2];
	enum conf_action action;
	struct err e;
	int n = 0;

	argc--;
	if (conf_load(conf, &table, &argc, argv + 1, &action, &e))
		die("flags", &e);
	if (action == CONF_HELP) {
		conf_help(&table, stdout);
		return 0;
	}
	if (conf->handovers)
		pids[n++] = start_taker();
	for (int i = 0; i < conf->busy && i < BUSY_MAX; i++)
		pids[n++] = service_fork(run_busily, NULL);
	conf->agents = conf->handovers && conf->agents < 2 ? 2 : conf->agents;
	live.handovers = xcalloc((size_t)conf->handovers + 1, sizeof(*live.handovers));
	find_service();
	start_services();
	start_clocks();
	set_peers();
	wait_for_good_bound();
	turn_until(now_mono_ns() + live.conf.warm_up_ns);
	if (conf->freeze_at_ns)
		pids[n++] = service_fork(freeze_parent, conf);
	watch();
	report();
	service_stop(live.service);
	while (n-- > 0) {
		kill(pids[n], SIGKILL);
		waitpid(pids[n], NULL, 0);
	}
	for (int i = 0; i < conf->agents; i++)
		clock_free(live.clocks[i]);
	free(live.clocks);
	free(live.handovers);
	loop_free(live.loop);
	conf_release(conf, &table);
	return 0;
}
