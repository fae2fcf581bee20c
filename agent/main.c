/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>

#include "agent/agent.h"
#include "base/log.h"
#include "base/loop.h"

#define WORKERS 3

static void on_stop_signal(void *arg)
{
	struct agent *a = arg;

	log_info("AGT-STOP", "host=%s", a->conf.host);
	loop_stop(a->loop);
}

static int run(struct agent *a)
{
	struct err e;
	int rc = loop_new(&a->loop, WORKERS, &e);

	if (!rc)
		rc = loop_on_stop_signal(a->loop, on_stop_signal, a, &e);
	if (rc)
		log_error("AGT-PART", "part=loop state=failed reason=\"%s\"", e.msg);
	else
		rc = agent_start(a, &e);
	if (!rc) {
		log_info("AGT-UP", "host=%s version=%s", a->conf.host, TUTTI_VERSION);
		loop_run(a->loop);
		agent_stop(a);
	}
	loop_free(a->loop);
	return rc ? 1 : 0;
}

static int set_up(struct agent *a, struct err *e)
{
	enum log_level level;
	int rc = log_level_parse(a->conf.log_level, &level, e);

	if (rc)
		return rc;
	log_set_level(level);
	return agent_conf_finish(&a->conf, e);
}

int main(int argc, char **argv)
{
	struct agent agent = { 0 };
	enum conf_want want;
	struct err e;
	int status = 0;
	int rc;

	/* Whoever reads our log, or talks to us, may leave: that is an error of a write, no more. */
	signal(SIGPIPE, SIG_IGN);
	argc--;
	rc = conf_load(&agent.conf, &agent_conf_table, &argc, argv + 1, &want, &e);
	if (!rc && argc && want != CONF_HELP)
		rc = err_set(&e, ERR_INVALID, "unknown argument '%s'", argv[1]);
	if (!rc && want != CONF_HELP)
		rc = set_up(&agent, &e);
	if (rc) {
		fprintf(stderr, "tutti-agent: %s\n", e.msg);
		status = 2;
	} else if (want == CONF_HELP) {
		conf_help(&agent_conf_table, stdout);
	} else if (want == CONF_PRINT) {
		conf_print(&agent.conf, &agent_conf_table, stdout);
	} else {
		status = run(&agent);
	}
	conf_release(&agent.conf, &agent_conf_table);
	return status;
}
