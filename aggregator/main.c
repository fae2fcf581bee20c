/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "aggregator/aggregator.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/now.h"

/* Twice UPLOAD_CREDITS, and one: while all uploads with a credit wait for a slow store, half of the workers are left
 * for requests. */
#define WORKERS 16

/* More than a buffer of a large tile, and what two workers free of theirs: a screen makes a dozen tiles, and
 * without this page faults were a fifth of them. */
#define LARGE_BYTES (2 << 20)
#define KEPT_BYTES  (4 << 20)

/* Wrong usage has an exit code of its own, as in the other programs. */
static int fail(const struct err *e, int status)
{
	fprintf(stderr, "tutti-aggregator: %s\n", e->msg);
	return status;
}

static void on_stop_limit(int signal)
{
	static const char text[] =
		"AGG-STOP reason=\"the store does not answer: ended as by SIGKILL\"\n";

	(void)signal;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(1);
	_exit(1);
}

/* The store is being opened, and nothing has been promised since the start. */
static void on_early_stop(int signal)
{
	static const char text[] = "AGG-STOP reason=\"signal before the store was open\"\n";

	(void)signal;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(1);
	_exit(0);
}

/* A store that hangs would delay the end for minutes, because the workers wait for it. So after the limit the
 * process ends as by SIGKILL. */
static void limit_stop(int64_t limit_ns)
{
	const struct itimerval timer = { .it_value = { .tv_sec = limit_ns / NS_PER_S,
						       .tv_usec = limit_ns % NS_PER_S /
								  NS_PER_US } };

	signal(SIGALRM, on_stop_limit);
	setitimer(ITIMER_REAL, &timer, NULL);
}

/* As a crash: agents keep what they have, and the next leader carries on. A stop in good order would write to
 * the store. */
static void on_lease_lost(const char *why)
{
	log_error("AGG-LEASE", "state=lost reason=\"%s: ended as by SIGKILL\"", why);
	_exit(1);
}

static void on_stop(void *arg)
{
	struct aggregator *agg = arg;

	log_info("AGG-STOP", "reason=\"signal\"");
	limit_stop(agg->conf.stop_limit_ns);
	loop_stop(agg->loop);
}

/* Until the store is open, signals end the process at once: a store that hangs would not let it stop. */
static int watch_stop_signals(struct aggregator *agg, struct err *e)
{
	return loop_on_stop_signal(agg->loop, on_stop, agg, e);
}

/* Each agent uses one descriptor, and a second one if it reconnects before its broken link is noticed. */
static void raise_file_limit(void)
{
	struct rlimit files;

	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

static unsigned long long file_limit(void)
{
	struct rlimit files = { 0 };

	getrlimit(RLIMIT_NOFILE, &files);
	return files.rlim_cur;
}

static int run(struct aggregator *agg, struct err *e)
{
	/* one more keeps the lease where there are several aggregators */
	int keepers = conf_is_set(agg->conf.replica) ? 1 : 0;
	struct memory *memory;
	int rc = loop_new(&agg->loop, WORKERS + keepers, e);

	if (rc)
		return rc;
	memory = memory_new(agg->loop);
	signal(SIGINT, on_early_stop);
	signal(SIGTERM, on_early_stop);
	agg->store_opened = watch_stop_signals;
	agg->lease_lost = on_lease_lost;
	rc = aggregator_start(agg, e);
	if (!rc) {
		log_info("AGG-UP", "version=%s http_port=%d grpc_port=%d probe_port=%d files=%llu",
			 TUTTI_VERSION, agg->http_port, agg->grpc_port, agg->probe_port,
			 file_limit());
		loop_run(agg->loop);
		aggregator_stop(agg);
	}
	memory_free(memory);
	loop_free(agg->loop);
	return rc;
}

int main(int argc, char **argv)
{
	struct aggregator agg = { 0 };
	enum conf_action action = CONF_RUN;
	enum log_level level;
	bool json = false;
	struct err e = { 0 };
	int status = 0;
	int rc;

	file_open_standard();
	memory_set_up(LARGE_BYTES, KEPT_BYTES);
	signal(SIGPIPE, SIG_IGN);
	raise_file_limit();
	argc--;
	rc = conf_load(&agg.conf, &aggregator_conf_table, &argc, argv + 1, &action, &e);
	/* This also refuses "--insecure false": --insecure takes no value, so it would be set and open a
	 * plaintext listener. */
	if (!rc && argc && action != CONF_HELP)
		rc = err_set(&e, ERR_INVALID, "unknown argument '%s'", argv[1]);
	if (!rc && action == CONF_RUN)
		rc = log_level_parse(agg.conf.log_level, &level, &e);
	if (!rc && action == CONF_RUN)
		rc = log_format_parse(agg.conf.log_format, &json, &e);
	if (rc) {
		status = fail(&e, 2);
	} else if (action == CONF_HELP) {
		conf_help(&aggregator_conf_table, stdout);
	} else if (action == CONF_PRINT) {
		conf_print(&agg.conf, &aggregator_conf_table, stdout);
	} else {
		log_set_level(level);
		log_set_json(json);
		status = run(&agg, &e) ? fail(&e, 1) : 0;
	}
	conf_release(&agg.conf, &aggregator_conf_table);
	return status;
}
