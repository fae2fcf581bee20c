/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work to look at: bursts of CPU work in step with the wall clock, and a mark through the local socket of
 * one or several agents at the instant each burst begins. All agents named get the same stamp of the
 * same instant, so in a right session the marks of one burst stand at one time in all files.
 *
 *   burst [--period 500ms] [--work 100ms] [--for 1h] [--local-socket ipc://...]...
 *         [--barrier] [--shift 5ms --shift-socket ipc://...] [--steps] [--late 20ms]
 *
 * Says on its output what each burst's number was and when it began (raw clock).
 *
 * With --barrier each burst is a barrier, too: all agents are told when it began, and then that it ended.
 * With --steps a burst is a training step, numbered as its period is on the wall clock. Bursts that a busy machine comes too
 * late for are left out; steps are not, they follow late. With --late each begins so much after its time: a slow host.
 * What one of them is told may be shifted in time: a clock that is wrong in a way no probe can see.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/local_socket.h"
#include "proto/tutti/v1/local.pb-c.h"

#define TELL_TIMEOUT_NS (2 * NS_PER_S)

struct conf {
	int64_t period_ns, work_ns, for_ns;
	struct conf_list local_socket;
	bool barrier;
	int64_t shift_ns;
	char *shift_socket;
	bool steps;
	int64_t late_ns;
};

static const struct conf_field fields[] = {
	CONF(struct conf, period_ns, "500ms", "a burst at each multiple of this on the wall clock"),
	CONF(struct conf, work_ns, "100ms", "length of a burst"),
	CONF(struct conf, for_ns, "1h", "end by itself after so long"),
	CONF(struct conf, local_socket, NULL, "an agent's local socket, to be told of each burst"),
	CONF(struct conf, barrier, NULL, "tell of a barrier after each burst"),
	CONF(struct conf, shift_ns, "0s", "how wrong the stamps of barriers are at one socket"),
	CONF(struct conf, shift_socket, NULL, "that socket"),
	CONF(struct conf, steps, NULL, "each burst begins a training step"),
	CONF(struct conf, late_ns, "0s", "begin each burst so much later"),
	{ 0 }
};

static const struct conf_table table = {
	.prog = "burst",
	.summary = "Works in bursts in step with the wall clock.",
	.fields = fields,
};

static volatile double sink;

/* Its name is what CPU samples of a burst show. */
static __attribute__((noinline)) void burst_work(int64_t until_raw_ns)
{
	double x = 1;

	while (now_raw_ns() < until_raw_ns) {
		for (int i = 0; i < 10000; i++)
			x = x * 1.0000001 + 0.5;
	}
	sink = x;
}

/* Sleeps until this multiple of the period on the wall clock, or later as was asked. */
static void wait_for_burst(const struct conf *conf, int64_t number)
{
	const int64_t at_ns = number * conf->period_ns + conf->late_ns;
	struct timespec at = { .tv_sec = (time_t)(at_ns / NS_PER_S), .tv_nsec = at_ns % NS_PER_S };

	while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

static void tell(struct local_client *socket, const char *text, int64_t raw_ns)
{
	Tutti__V1__LocalRequest request = TUTTI__V1__LOCAL_REQUEST__INIT;
	Tutti__V1__LocalMark mark = TUTTI__V1__LOCAL_MARK__INIT;
	struct err e;
	uint8_t bytes[256];
	uint8_t *reply = NULL;
	size_t reply_len;

	mark.text = (char *)text;
	mark.raw_ns = raw_ns;
	mark.pid = getpid();
	mark.tid = (int32_t)syscall(SYS_gettid);
	request.kind_case = TUTTI__V1__LOCAL_REQUEST__KIND_MARK;
	request.mark = &mark;
	if (local_client_call(socket, bytes, tutti__v1__local_request__pack(&request, bytes),
			      TELL_TIMEOUT_NS, &reply, &reply_len, &e))
		fprintf(stderr, "burst: %s\n", e.msg);
	free(reply);
}

static int dial_all(const struct conf *conf, struct local_client **sockets, struct err *e)
{
	for (size_t i = 0; i < conf->local_socket.n; i++) {
		int rc = local_client_open(&sockets[i], conf->local_socket.items[i], e);

		if (rc)
			return rc;
	}
	return 0;
}

/* All stamps of begins are taken before all stamps of ends, as a barrier would have it. */
static void meet(const struct conf *conf, struct local_client *const *sockets, int64_t number)
{
	int64_t begin = now_raw_ns(), end = now_raw_ns();
	char text[64];

	for (size_t i = 0; i < conf->local_socket.n; i++) {
		bool wrong = conf->shift_socket &&
			     !strcmp(conf->local_socket.items[i], conf->shift_socket);
		int64_t shift_ns = wrong ? conf->shift_ns : 0;

		snprintf(text, sizeof(text), "barrier %lld begin", (long long)number);
		tell(sockets[i], text, begin + shift_ns);
		snprintf(text, sizeof(text), "barrier %lld end", (long long)number);
		tell(sockets[i], text, end + shift_ns);
	}
}

static void work(const struct conf *conf, struct local_client *const *sockets)
{
	int64_t end = now_raw_ns() + conf->for_ns, number = 0, start;
	char text[64];

	while (now_raw_ns() < end) {
		number = number && conf->steps ? number + 1 : now_real_ns() / conf->period_ns + 1;
		wait_for_burst(conf, number);
		start = now_raw_ns();
		if (!conf->steps)
			burst_work(start + conf->work_ns);
		snprintf(text, sizeof(text), conf->steps ? "train#step_num=%lld#" : "burst %lld",
			 (long long)number);
		printf("%s %lld\n", text, (long long)start);
		fflush(stdout);
		for (size_t i = 0; i < conf->local_socket.n; i++)
			tell(sockets[i], text, start);
		if (conf->steps)
			burst_work(start + conf->work_ns);
		if (conf->barrier)
			meet(conf, sockets, number);
	}
}

int main(int argc, char **argv)
{
	struct conf conf = { 0 };
	struct local_client **sockets = NULL;
	struct err e = { 0 };
	enum conf_action action;
	int rc;

	argc--;
	rc = conf_load(&conf, &table, &argc, argv + 1, &action, &e);
	if (!rc && action == CONF_HELP) {
		conf_help(&table, stdout);
		goto out;
	}
	sockets = xcalloc(conf.local_socket.n, sizeof(struct local_client *));
	if (!rc)
		rc = dial_all(&conf, sockets, &e);
	if (!rc)
		work(&conf, sockets);
out:
	for (size_t i = 0; sockets && i < conf.local_socket.n; i++)
		local_client_close(sockets[i]);
	if (rc)
		fprintf(stderr, "burst: %s\n", e.msg);
	free(sockets);
	conf_release(&conf, &table);
	return rc ? 1 : 0;
}
