/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "aggregator/aggregator.h"
#include "base/mem.h"
#include "tests/sim/daemon_impl.h"

static int load(struct aggregator *agg, const char *dir, const struct daemon_opts *opts,
		struct err *e)
{
	char *spool = xasprintf("--spool=%s/spool", dir);
	char *url = daemon_store_url(dir), *store = xasprintf("--store=%s", url);
	char *grace = xasprintf("--grace=%lldms", (long long)(opts->grace_ns / NS_PER_MS));
	char *lead = xasprintf("--lead=%lldms", (long long)(opts->lead_ns / NS_PER_MS));
	char *args[] = { spool, store, grace, lead };
	int n = ARRAY_SIZE(args);
	enum conf_action action;
	int rc = conf_load(&agg->conf, &aggregator_conf_table, &n, args, &action, e);

	free(lead);
	free(grace);
	free(store);
	free(url);
	free(spool);
	return rc;
}

/* As the lease tells (aggregator/replica.c). */
static int check_leads(void *host, struct err *e)
{
	return host == sim.hosts[0] ? 0 : err_set(e, ERR_DENIED, "this aggregator leads no more");
}

static int fence(struct aggregator *agg, struct err *e)
{
	(void)e;
	store_set_fence(agg->store.store, &(struct store_fence){ check_leads, sim.host });
	return 0;
}

static int start(void **self, const char *dir, const struct daemon_opts *opts, struct loop *loop,
		 struct err *e)
{
	struct aggregator *agg = xcalloc(1, sizeof(*agg));
	int rc = load(agg, dir, opts, e);

	agg->loop = loop;
	if (opts->n_aggregators > 1) {
		agg->term = (uint64_t)sim.now_ns + 1; /* a later one is higher */
		agg->store_opened = fence;
	}
	*self = agg;
	return rc ? rc : aggregator_start(agg, e);
}

static void stop(void *self)
{
	aggregator_stop(self);
}

static void release(void *self)
{
	struct aggregator *agg = self;

	conf_release(&agg->conf, &aggregator_conf_table);
	free(agg);
}

const struct daemon_kind aggregator_kind = {
	.workers = 16,
	.stop_limit_ns = 10 * NS_PER_S, /* the default */
	.start = start,
	.stop = stop,
	.free = release,
};
