/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's clock against the aggregator's time service, both real, in two processes that talk over
 * loopback (or any address that reaches this machine). Both read one physical clock, so the truth is
 * known at every instant: the injected error. Prints how far the model was off, as it was then (causal)
 * and as a capture would use it afterwards (offline), and whether the truth was always inside the bound.
 *
 *   clock_live [--for 60s] [--offset 1234567us] [--drift-ppm 30] [--user] [--busy N]
 *              [--listen 127.0.0.1:7403 --connect 127.0.0.2:7403]
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/clock.h"
#include "aggregator/aggregator.h"
#include "aggregator/registry.h"
#include "aggregator/time_service.h"
#include "base/conf.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/address.h"

#define WARM_UP_NS (3 * NS_PER_S)
#define EVERY_NS   (10 * NS_PER_MS)

struct conf {
	int64_t for_ns, offset_ns;
	double drift_ppm;
	bool user;
	int busy;
	char *listen, *connect;
};

static const struct conf_field fields[] = {
	CONF(struct conf, for_ns, "60s", "how long to look"),
	CONF(struct conf, offset_ns, "1234567us", "injected offset"),
	CONF(struct conf, drift_ppm, "30", "injected drift"),
	CONF(struct conf, user, NULL, "as where kernels stamp nothing"),
	CONF(struct conf, busy, "0", "busy processes beside"),
	CONF(struct conf, listen, "127.0.0.1:0", "where the time service listens"),
	CONF(struct conf, connect, NULL, "where the agent finds it, if elsewhere"),
	{ 0 }
};

static const struct conf_table table = { "clock_live", NULL, "Errors of a real clock.", fields };

/* What a Welcome would say. */
struct welcome {
	struct clock_peer peer;
	int64_t shift_ns;
};

struct instant {
	int64_t raw_ns, error_ns, bound_ns;
};

static struct conf conf;
static struct instant *instants;
static size_t n_instants;

/* The linker puts this in the place of setsockopt(): a kernel without stamps, if asked for. */
int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	if (conf.user && level == SOL_SOCKET && name == SO_TIMESTAMPING) {
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

static pid_t start(void (*fn)(int), int arg)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fn(arg);
	_exit(0);
}

static void be_busy(int arg)
{
	for (volatile int i = arg;; i++)
		;
}

static void serve(int to_parent)
{
	struct aggregator agg = { .conf.probe = conf.listen, .clock_epoch = 4711 };
	struct welcome w = { .peer.epoch = 4711 };
	struct host *h;
	struct err e;
	int64_t raw_ns, real_ns;

	if (loop_new(&agg.loop, 1, &e))
		die("loop", &e);
	now_pair_ns(&raw_ns, &real_ns, NULL);
	agg.session_clock_shift_ns = w.shift_ns = real_ns - raw_ns;
	agg.registry = registry_new(agg.loop);
	h = registry_add(agg.registry, "host");
	host_new_cookie(h);
	if (time_service_start(&agg, &e))
		die("time service", &e);
	h->seen_real_ns = INT64_MAX / 2;
	w.peer.port = agg.probe_port;
	w.peer.cookie = h->probe_cookie;
	w.peer.key = h->probes.key;
	if (write(to_parent, &w, sizeof(w)) != sizeof(w))
		return;
	loop_run(agg.loop);
}

/* ---- looking ---- */

static int64_t error_at(const struct clock_model *m, int64_t raw_ns, int64_t shift_ns)
{
	return llabs(clock_model_session_of_raw(m, raw_ns) - (raw_ns + shift_ns));
}

static int by_error(const void *a, const void *b)
{
	const struct instant *x = a, *y = b;

	return (x->error_ns > y->error_ns) - (x->error_ns < y->error_ns);
}

static void report(const char *what)
{
	int64_t bound_max = 0, bound_sum = 0;
	size_t inside = 0;

	for (size_t i = 0; i < n_instants; i++) {
		inside += instants[i].error_ns <= instants[i].bound_ns;
		bound_sum += instants[i].bound_ns;
		if (instants[i].bound_ns > bound_max)
			bound_max = instants[i].bound_ns;
	}
	qsort(instants, n_instants, sizeof(*instants), by_error);
	printf("%-8s error p50 %.3f p99 %.3f max %.3f us, bound mean %.3f max %.3f us, inside %zu "
	       "of %zu\n",
	       what, (double)instants[n_instants / 2].error_ns / 1e3,
	       (double)instants[n_instants * 99 / 100].error_ns / 1e3,
	       (double)instants[n_instants - 1].error_ns / 1e3,
	       (double)bound_sum / (double)n_instants / 1e3, (double)bound_max / 1e3, inside,
	       n_instants);
}

static void look(struct loop *loop, struct clock *c, int64_t shift_ns)
{
	int64_t begin_ns = now_mono_ns(), next_ns = begin_ns + WARM_UP_NS;
	struct clock_model m;
	int64_t from_ns, to_ns;

	clock_hurry(c, begin_ns + conf.for_ns + WARM_UP_NS);
	while (now_mono_ns() < begin_ns + conf.for_ns + WARM_UP_NS) {
		loop_turn(loop, 5);
		if (now_mono_ns() < next_ns)
			continue;
		next_ns += EVERY_NS;
		m = clock_model(c);
		instants[n_instants].raw_ns = m.at_raw_ns;
		instants[n_instants].error_ns = error_at(&m, m.at_raw_ns, shift_ns);
		instants[n_instants++].bound_ns = m.calibrated ? m.bound_ns : -1;
	}
	from_ns = instants[0].raw_ns;
	to_ns = instants[n_instants - 1].raw_ns;
	report("causal");
	m = clock_model_over(c, from_ns, to_ns);
	n_instants = 0;
	for (int64_t raw_ns = from_ns; raw_ns < to_ns; raw_ns += EVERY_NS)
		instants[n_instants++] = (struct instant){ raw_ns, error_at(&m, raw_ns, shift_ns),
							   clock_model_bound_at(&m, raw_ns) };
	report("offline");
	printf("method %s grade %s rate %.1f ppb jitter %" PRId64 " ns rtt %" PRId64
	       " ns probes %u bad %u\n",
	       m.method, clock_grade_name(clock_grade_of(&m, m.bound_ns)), m.rate * 1e9,
	       m.jitter_ns, m.rtt_min_ns, m.probes, m.bad);
}

static void listen_in(const struct welcome *w)
{
	struct clock_conf clock_conf = { .test_offset_ns = conf.offset_ns,
					 .test_drift_ppm = conf.drift_ppm };
	struct clock_peer peer = w->peer;
	struct clock *c;
	struct err e;

	if (loop_new(&clock_conf.loop, 1, &e) || clock_new(&c, &clock_conf, &e))
		die("clock", &e);
	peer.host = "127.0.0.1";
	if (conf.connect) {
		char *colon = strrchr(conf.connect, ':');

		peer.host = conf.connect;
		peer.port = colon ? (int)strtol(colon + 1, NULL, 10) : peer.port;
		if (colon)
			*colon = '\0';
	}
	if (clock_set_peer(c, &peer, &e))
		die("peer", &e);
	look(clock_conf.loop, c, w->shift_ns);
	clock_free(c);
	loop_free(clock_conf.loop);
}

int main(int argc, char **argv)
{
	enum conf_want want;
	struct welcome w;
	struct err e;
	pid_t pids[65];
	int pipe_fds[2], n = 0;

	argc--;
	if (conf_load(&conf, &table, &argc, argv + 1, &want, &e))
		die("flags", &e);
	instants = xcalloc((size_t)(conf.for_ns / EVERY_NS) + 2, sizeof(*instants));
	if (pipe(pipe_fds))
		return 1;
	pids[n++] = start(serve, pipe_fds[1]);
	for (; n <= conf.busy && n < 65; n++)
		pids[n] = start(be_busy, 0);
	if (read(pipe_fds[0], &w, sizeof(w)) != sizeof(w))
		return 1;
	listen_in(&w);
	while (n-- > 0) {
		kill(pids[n], SIGKILL);
		waitpid(pids[n], NULL, 0);
	}
	free(instants);
	return 0;
}
