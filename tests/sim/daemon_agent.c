/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "agent/agent.h"
#include "agent/tracer/set.h"
#include "base/mem.h"
#include "tests/sim/burst.h"
#include "tests/sim/daemon_impl.h"

struct daemon_agent {
	struct agent_conf conf;
	struct agent *agent;
};

static int load(struct agent_conf *conf, const char *dir, const struct daemon_opts *opts,
		struct err *e)
{
	char *spool = xasprintf("--spool=%s", dir);
	char *host = xasprintf("--host=%s", sim.host->name);
	char *limit = xasprintf("--spool-limit=%lld", (long long)opts->spool_limit_bytes);
	char *file_limit = xasprintf("--file-limit=%lld", (long long)opts->file_limit_bytes);
	char *args[] = {
		spool,
		host,
		limit,
		file_limit,
		(char *)(opts->n_aggregators > 1 ? "--aggregator=agg:7401,agg2:7401"
						 : "--aggregator=agg:7401"),
		(char *)"--listen=",
		(char *)"--local-socket=",
	};
	int n = ARRAY_SIZE(args);
	enum conf_action action;
	int rc = conf_load(conf, &agent_conf_table, &n, args, &action, e);

	free(file_limit);
	free(limit);
	free(host);
	free(spool);
	return rc ? rc : agent_conf_finish(conf, e);
}

static int start(void **self, const char *dir, const struct daemon_opts *opts, struct loop *loop,
		 struct err *e)
{
	struct daemon_agent *d = xcalloc(1, sizeof(*d));
	int rc = load(&d->conf, dir, opts, e);

	d->conf.drivers = sim_tracers;
	d->conf.driver_confs = tracer_confs_new(sim_tracers);
	*self = d;
	return rc ? rc : agent_new(&d->agent, &d->conf, loop, e);
}

static void stop(void *self)
{
	agent_free(((struct daemon_agent *)self)->agent);
}

static void release(void *self)
{
	struct daemon_agent *d = self;

	conf_release(&d->conf, &agent_conf_table);
	tracer_confs_free(d->conf.driver_confs);
	free(d);
}

const struct daemon_kind agent_kind = {
	.workers = 3, .start = start, .stop = stop, .free = release
};
