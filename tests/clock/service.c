/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/clock/service.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "aggregator/fleet/registry.h"
#include "aggregator/time/session_clock.h"
#include "aggregator/time/time_service.h"
#include "base/child.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"

#define START_MS 30000

/* What the child writes to the parent first; the peers follow. */
struct greeting {
	int64_t shift_ns, begin_raw_ns;
};

struct child {
	const struct service_conf *conf;
	int fd;
};

static void die(const char *what)
{
	fprintf(stderr, "time service: %s\n", what);
	exit(1);
}

pid_t service_fork(void (*fn)(void *arg), void *arg)
{
	pid_t pid = child_fork(SIGKILL);

	if (pid < 0)
		die("cannot fork");
	if (pid)
		return pid;
	fn(arg);
	_exit(0);
}

/* ---- in the child ---- */

static void enter_netns(const char *netns)
{
	int fd = netns ? open(netns, O_RDONLY | O_CLOEXEC) : -1;

	if (!netns)
		return;
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die("no such network namespace");
	close(fd);
}

static int64_t wander_ns(const struct service_conf *conf, int64_t since_ns)
{
	double turn = 2 * M_PI / (conf->wander_s * 1e9);

	if (conf->wander_ppm == 0)
		return 0;
	return llround(conf->wander_ppm * 1e-6 / turn * sin(turn * (double)since_ns));
}

static void write_to_parent(int fd, const void *data, size_t len)
{
	struct err e;

	if (file_write_all(fd, data, len, "the parent's pipe", &e))
		die(e.msg);
}

static void register_hosts(const struct time_env *env, int port, const struct child *child)
{
	for (size_t i = 0; i < child->conf->hosts; i++) {
		struct clock_peer peer = { .epoch = env->clock->epoch, .port = port };
		char name[32];
		struct host *h;

		snprintf(name, sizeof(name), "host-%06zu", i);
		h = registry_add(env->registry, name);
		host_renew_cookie(h);
		h->seen_real_ns = INT64_MAX / 2;
		peer.cookie = h->probe_cookie;
		peer.key = h->probes.key;
		write_to_parent(child->fd, &peer, sizeof(peer));
	}
	close(child->fd);
}

/* The shift in a reply is up to one turn old: the sine moves by 8 ppm of a millisecond, 8 ns, at
 * most. */
static void serve(void *arg)
{
	const struct child *child = arg;
	struct session_clock clock = { 0 };
	struct time_env env = { .clock = &clock, .registry = registry_new(NULL) };
	struct time_service *ts;
	struct greeting hello;
	int64_t raw_ns, real_ns;
	struct err e;
	int port;

	enter_netns(child->conf->netns);
	if (loop_new(&env.loop, 1, &e))
		die(e.msg);
	random_bytes(&clock.epoch, sizeof(clock.epoch));
	now_pair_ns(&raw_ns, &real_ns, NULL);
	hello = (struct greeting){ real_ns - raw_ns + child->conf->ahead_ns, raw_ns };
	clock.shift_ns = hello.shift_ns;
	ts = time_service_new(&env);
	if (time_service_listen(ts, child->conf->listen, &port, &e))
		die(e.msg);
	write_to_parent(child->fd, &hello, sizeof(hello));
	register_hosts(&env, port, child);
	if (child->conf->wander_ppm == 0)
		loop_run(env.loop);
	for (;;) {
		clock.shift_ns = hello.shift_ns +
				 wander_ns(child->conf, now_raw_ns() - hello.begin_raw_ns);
		loop_turn(env.loop, 1);
	}
}

/* ---- in the parent ---- */

static void read_from_child(int fd, void *data, size_t len)
{
	for (size_t done = 0; done < len;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n = poll(&p, 1, START_MS) == 1 ? read(fd, (char *)data + done, len - done)
						       : -1;

		if (n <= 0)
			die("the service did not start");
		done += (size_t)n;
	}
}

void service_start(struct service *s, const struct service_conf *conf)
{
	struct greeting hello;
	struct child child = { .conf = &s->conf };
	int fds[2];

	s->conf = *conf;
	s->peers = xcalloc(conf->hosts, sizeof(*s->peers));
	if (pipe2(fds, O_CLOEXEC))
		die("cannot make a pipe");
	child.fd = fds[1];
	s->pid = service_fork(serve, &child);
	close(fds[1]);
	read_from_child(fds[0], &hello, sizeof(hello));
	read_from_child(fds[0], s->peers, conf->hosts * sizeof(*s->peers));
	close(fds[0]);
	s->shift_ns = hello.shift_ns;
	s->begin_raw_ns = hello.begin_raw_ns;
}

static int64_t ns_of(struct timeval t)
{
	return t.tv_sec * NS_PER_S + t.tv_usec * NS_PER_US;
}

int64_t service_stop(struct service *s)
{
	struct rusage used;

	kill(s->pid, SIGKILL);
	if (wait4(s->pid, NULL, 0, &used) != s->pid)
		die("the service is gone");
	free(s->peers);
	s->peers = NULL;
	return ns_of(used.ru_utime) + ns_of(used.ru_stime);
}

int64_t service_cpu_ns(const struct service *s)
{
	struct timespec t = { 0 };
	clockid_t id;

	if (!clock_getcpuclockid(s->pid, &id))
		clock_gettime(id, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t service_session_ns(const struct service *s, int64_t raw_ns)
{
	return raw_ns + s->shift_ns + wander_ns(&s->conf, raw_ns - s->begin_raw_ns);
}
