/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many probes the time service answers, and the CPU time of each. Sends signed trains of probes
 * of many hosts from a few sockets; one line of JSON reports the replies and the CPU time that the
 * service took.
 *
 *   clock_load [--for 3s] [--hosts 10000] [--train 8] [--rate 80000]
 *
 * --rate 0: as many as are answered, with a few trains under way at any time.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <jansson.h>

#include "base/conf.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/socket.h"
#include "proto/probe.h"
#include "tests/clock/service.h"

#define SOCKETS	     64
#define TRAIN_MAX    16
#define UNDER_WAY    256 /* probes; the service's socket holds more */
#define REPLY_MAX_NS (20 * NS_PER_MS) /* a probe without a reply after this is lost */

struct conf {
	int64_t for_ns;
	int hosts, train, rate;
};

static const struct conf_field fields[] = {
	CONF(struct conf, for_ns, "3s", "length of the measurement"),
	CONF(struct conf, hosts, "10000", "number of hosts"),
	CONF(struct conf, train, "8", "probes of a train"),
	CONF(struct conf, rate, "0", "probes a second; 0 = as many as are answered"),
	{ 0 }
};

static const struct conf_table table = {
	.prog = "clock_load",
	.summary = "Probes of thousands of hosts.",
	.fields = fields,
};

struct load {
	struct conf conf;
	struct service service;
	int fds[SOCKETS];
	uint32_t *seqs; /* one per host */
	uint64_t sent, answered;
	int64_t reply_ns;
};

static void send_train(struct load *l, size_t host)
{
	const struct clock_peer *peer = &l->service.peers[host];
	static uint8_t packets[TRAIN_MAX][PROBE_BYTES];
	struct iovec iov[TRAIN_MAX];
	struct mmsghdr msgs[TRAIN_MAX] = { 0 };
	int n;

	for (int i = 0; i < l->conf.train; i++) {
		const struct probe p = {
			.type = PROBE_REQUEST,
			.train = (uint8_t)l->conf.train,
			.index = (uint8_t)i,
			.cookie = peer->cookie,
			.seq = ++l->seqs[host],
			.t1_ns = now_raw_ns(),
		};

		probe_encode(&p, &peer->key, packets[i]);
		iov[i] = (struct iovec){ packets[i], PROBE_BYTES };
		msgs[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
	}
	n = sendmmsg(l->fds[host % SOCKETS], msgs, (unsigned int)l->conf.train, MSG_DONTWAIT);
	l->sent += n > 0 ? (uint64_t)n : 0;
}

static void read_replies(struct load *l)
{
	static uint8_t packets[UNDER_WAY][PROBE_BYTES];
	struct iovec iov[UNDER_WAY];
	struct mmsghdr msgs[UNDER_WAY];

	for (int s = 0; s < SOCKETS; s++) {
		int n;

		for (int i = 0; i < UNDER_WAY; i++) {
			iov[i] = (struct iovec){ packets[i], PROBE_BYTES };
			msgs[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
		}
		n = recvmmsg(l->fds[s], msgs, UNDER_WAY, MSG_DONTWAIT, NULL);
		if (n <= 0)
			continue;
		l->answered += (uint64_t)n;
		l->reply_ns = now_mono_ns();
	}
}

static bool may_send(const struct load *l, uint64_t trains, int64_t past_ns)
{
	if (l->conf.rate)
		return (double)trains * l->conf.train / l->conf.rate * 1e9 <= (double)past_ns;
	return l->sent - l->answered < UNDER_WAY || now_mono_ns() - l->reply_ns > REPLY_MAX_NS;
}

static void run(struct load *l)
{
	int64_t begin_ns = now_mono_ns(), past_ns;
	uint64_t trains = 0, lost = 0;

	l->reply_ns = begin_ns;
	while ((past_ns = now_mono_ns() - begin_ns) < l->conf.for_ns) {
		if (!l->conf.rate && now_mono_ns() - l->reply_ns > REPLY_MAX_NS) {
			lost += l->sent - l->answered;
			l->sent = l->answered;
			l->reply_ns = now_mono_ns();
		}
		for (int i = 0; i < 16 && may_send(l, trains, past_ns); i++)
			send_train(l, trains++ % (size_t)l->conf.hosts);
		read_replies(l);
	}
	l->sent += lost;
}

static void open_sockets(struct load *l)
{
	struct err e;

	for (int i = 0; i < SOCKETS; i++) {
		if (socket_connect("127.0.0.1", l->service.peers[0].port, SOCK_DGRAM, &l->fds[i],
				   &e)) {
			fprintf(stderr, "clock_load: %s\n", e.msg);
			exit(1);
		}
	}
}

static void report(const struct load *l, int64_t cpu_ns)
{
	double seconds = (double)l->conf.for_ns / 1e9, answered = (double)l->answered;
	json_t *o = json_pack("{s:I, s:I, s:f, s:f, s:f}", "sent", (json_int_t)l->sent, "answered",
			      (json_int_t)l->answered, "per_s", answered / seconds, "cores",
			      (double)cpu_ns / 1e9 / seconds, "per_core",
			      answered / ((double)cpu_ns / 1e9));

	json_dumpf(o, stdout, JSON_REAL_PRECISION(6));
	puts("");
	json_decref(o);
}

int main(int argc, char **argv)
{
	struct service_conf service = { .listen = "127.0.0.1:0" };
	struct load l = { 0 };
	enum conf_action action;
	int64_t cpu_ns;
	struct err e;

	argc--;
	if (conf_load(&l.conf, &table, &argc, argv + 1, &action, &e) || action != CONF_RUN ||
	    l.conf.train < 1 || l.conf.train > TRAIN_MAX || l.conf.hosts < 1) {
		fprintf(stderr, "clock_load: wrong flags\n");
		conf_help(&table, stderr);
		return 2;
	}
	service.hosts = (size_t)l.conf.hosts;
	service_start(&l.service, &service);
	l.seqs = xcalloc(service.hosts, sizeof(*l.seqs));
	open_sockets(&l);
	cpu_ns = service_cpu_ns(&l.service);
	run(&l);
	cpu_ns = service_cpu_ns(&l.service) - cpu_ns;
	report(&l, cpu_ns);
	service_stop(&l.service);
	for (int i = 0; i < SOCKETS; i++)
		close(l.fds[i]);
	free(l.seqs);
	conf_release(&l.conf, &table);
	return 0;
}
