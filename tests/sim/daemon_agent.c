/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "agent/agent.h"
#include "base/mem.h"
#include "tests/sim/daemon_impl.h"

static int load(struct agent *a, const char *dir, const struct daemon_opts *opts, struct err *e)
{
	char *spool = xasprintf("--spool=%s", dir);
	char *host = xasprintf("--host=%s", sim.host->name);
	char *limit = xasprintf("--spool-limit=%lld", (long long)opts->spool_limit_bytes);
	char *args[] = {
		spool,
		host,
		limit,
		(char *)"--aggregator=agg:7401",
		(char *)"--listen=",
		(char *)"--local-socket=",
		(char *)"--discover=false",
	};
	int n = ARRAY_SIZE(args);
	enum conf_want want;
	int rc = conf_load(&a->conf, &agent_conf_table, &n, args, &want, e);

	free(limit);
	free(host);
	free(spool);
	return rc ? rc : agent_conf_finish(&a->conf, e);
}

static int start(void **self, const char *dir, const struct daemon_opts *opts, struct loop *loop,
		 struct err *e)
{
	struct agent *a = xcalloc(1, sizeof(*a));
	int rc = load(a, dir, opts, e);

	a->loop = loop;
	*self = a;
	return rc ? rc : agent_start(a, e);
}

static void stop(void *self)
{
	agent_stop(self);
}

static void release(void *self)
{
	struct agent *a = self;

	conf_release(&a->conf, &agent_conf_table);
	free(a);
}

const struct daemon_kind agent_kind = { .start = start, .stop = stop, .free = release };
