/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/set.h"

#include <stdlib.h>

#include "agent/conf.h"
#include "base/mem.h"

int tracer_set_open(struct tracer ***out, const struct tracer_ops *const *all,
		    const struct tracer_env *env, struct err *e)
{
	struct tracer **set;
	size_t max = 0, n = 0;
	int rc = 0;

	while (all[max])
		max++;
	set = xcalloc(max + 1, sizeof(*set));
	for (size_t i = 0; i < max && !rc; i++) {
		if (!agent_conf_has_tracer(env->conf, all[i]->name))
			continue;
		rc = all[i]->open(&set[n], env, e);
		if (rc)
			err_prefix(e, "tracer %s", all[i]->name);
		else
			n++;
	}
	set[n] = NULL;
	if (rc) {
		tracer_set_close(set);
		return rc;
	}
	*out = set;
	return 0;
}

void tracer_set_close(struct tracer **set)
{
	for (size_t i = 0; set && set[i]; i++)
		set[i]->ops->free(set[i]);
	free(set);
}
