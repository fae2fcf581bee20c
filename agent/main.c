/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/proc/file_keeper.h"
#include "agent/python/sampler.h"
#include "agent/tracer/set.h"
#include "agent/tracers.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"

/* one of them samples Python programs most of the time, and two may put files into the store (link/put.c) */
#define WORKERS 6

/* A window of a second needs 1 to 4 MiB for a moment, the next one a second later again. */
#define LARGE_BYTES (1 << 20)
#define KEPT_BYTES  (4 << 20)

/* For the end, after what was recorded is delivered; service managers kill after some seconds. */
#define STOP_LIMIT_US 1500000

/* A worker may be in a read that does not come back: of a huge file, or on a disk that does not answer. The
 * spool is made for kills, so nothing is lost. Calls only what signal handlers may. */
static void on_stop_limit(int signal)
{
	static const char line[] = "W AGT-STOP state=cut reason=\"a worker did not end in time\"\n";

	(void)signal;
	(void)!write(STDERR_FILENO, line, sizeof(line) - 1);
	_exit(0);
}

static void stop(void *arg)
{
	const struct itimerval limit = { .it_value = { .tv_sec = STOP_LIMIT_US / 1000000,
						       .tv_usec = STOP_LIMIT_US % 1000000 } };

	signal(SIGALRM, on_stop_limit);
	setitimer(ITIMER_REAL, &limit, NULL);
	loop_stop(arg);
}

static void end_stop_limit(void)
{
	setitimer(ITIMER_REAL, &(const struct itimerval){ 0 }, NULL);
}

struct running {
	struct loop *loop;
	struct agent *agent;
	bool leaving;
};

/* The first signal lets the agent finish what it records; the second one does not, nor does one while the agent starts, or
 * undoes a start that failed. */
static void on_stop_signal(void *arg)
{
	struct running *r = arg;

	if (r->leaving || !r->agent) {
		stop(r->loop);
		return;
	}
	r->leaving = true;
	log_info("AGT-LEAVING", "reason=\"a signal asks for the end\"");
	agent_leave(r->agent, stop, r->loop);
}

static int run_agent(struct running *r, const struct agent_conf *conf)
{
	struct loop *loop = r->loop;
	struct memory *memory;
	struct err e;
	int rc = agent_new(&r->agent, conf, loop, &e);

	if (rc)
		return rc;
	log_info("AGT-UP", "host=%s version=%s", conf->host, TUTTI_VERSION);
	memory = memory_new(loop);
	loop_run(loop);
	memory_free(memory);
	log_info("AGT-STOP", "host=%s", conf->host);
	agent_free(r->agent);
	return 0;
}

static int run(struct agent_conf *conf)
{
	struct running r = { 0 };
	struct err e;
	int rc = file_keeper_start(&conf->files, &python_helper, &e); /* there are no threads yet */

	if (rc) {
		log_error("AGT-PART", "part=files state=failed reason=\"%s\"", e.msg);
		return 1;
	}
	rc = loop_new(&r.loop, WORKERS, &e);

	if (!rc)
		rc = loop_on_stop_signal(r.loop, on_stop_signal, &r, &e);
	if (rc)
		log_error("AGT-PART", "part=loop state=failed reason=\"%s\"", e.msg);
	else
		rc = run_agent(&r, conf);
	loop_free(r.loop); /* ends the workers */
	file_keeper_free(conf->files);
	end_stop_limit();
	return rc ? 1 : 0;
}

static int set_up(struct agent_conf *conf, struct err *e)
{
	enum log_level level;
	bool json = false;
	int rc = log_level_parse(conf->log_level, &level, e);

	if (!rc)
		rc = log_format_parse(conf->log_format, &json, e);
	if (rc)
		return rc;
	log_set_level(level);
	log_set_json(json);
	rc = agent_conf_finish(conf, e);
	if (rc)
		return rc;
	rc = tracer_names_check(conf->tracers, conf->drivers, e);
	return rc ? err_prefix(e, "--tracers") : 0;
}

int main(int argc, char **argv)
{
	struct agent_conf conf = { .drivers = tracers, .driver_confs = tracer_confs_new(tracers) };
	struct conf_table table = agent_conf_table;
	enum conf_action action;
	struct err e;
	int status = 0;
	int rc;

	file_open_standard();
	/* A closed pipe or socket is an error of one write, not the end of the agent. */
	signal(SIGPIPE, SIG_IGN);
	memory_set_up(LARGE_BYTES, KEPT_BYTES);
	argc--;
	table.more = conf.driver_confs;
	rc = conf_load(&conf, &table, &argc, argv + 1, &action, &e);
	if (!rc && argc && action != CONF_HELP)
		rc = err_set(&e, ERR_INVALID, "unknown argument '%s'", argv[1]);
	if (!rc && action != CONF_HELP)
		rc = set_up(&conf, &e);
	if (rc) {
		fprintf(stderr, "tutti-agent: %s\n", e.msg);
		status = 2;
	} else if (action == CONF_HELP) {
		conf_help(&table, stdout);
	} else if (action == CONF_PRINT) {
		conf_print(&conf, &table, stdout);
	} else {
		status = run(&conf);
	}
	conf_release(&conf, &table);
	tracer_confs_free(conf.driver_confs);
	return status;
}
