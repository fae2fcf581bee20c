/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/access/kube_people.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "aggregator/access/kube_review.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"

struct kube_people {
	struct kube_people_env env;
	struct kube_checks *checks;
	_Atomic int64_t warned_s; /* the second of the latest line: one in each will do */
};

static void warn(struct kube_people *k, const struct err *e)
{
	int64_t second = now_mono_ns() / NS_PER_S;

	if (atomic_exchange(&k->warned_s, second) != second)
		log_warn("AGG-KUBE-PEOPLE", "state=not-checked reason=\"%s\"", e->msg);
}

static int ask(void *arg, const struct kube_api *api, const _Atomic bool *cancelled,
	       const char *token, void **found, struct err *e)
{
	struct kube_people *k = arg;
	const struct kube_review review = { .api = api,
					    .audience = k->env.audience,
					    .cancelled = cancelled };
	struct principal *p = NULL;
	int rc = kube_review(&review, token, &p, e);

	if (!rc)
		p->until_mono_ns = now_mono_ns() + k->env.hold_ns;
	else if (rc != ERR_DENIED)
		warn(k, e);
	*found = p;
	return rc;
}

static void drop(void *found)
{
	principal_unref(found);
}

int kube_people_check(struct kube_people *k, const char *token, kube_checks_fn fn, void *arg,
		      struct err *e)
{
	return kube_checks_ask(k->checks, token, fn, arg, e);
}

/* ---- life ---- */

int kube_people_new(struct kube_people **out, const struct kube_people_env *env, struct err *e)
{
	struct kube_people *k = xcalloc(1, sizeof(*k));
	const struct kube_checks_env checks = { .server = env->server,
						.token_file = env->token_file,
						.ca_file = env->ca_file,
						.jobs = env->jobs,
						.work = jobs_request,
						.waiting_most = KUBE_CHECKS_MOST,
						.at_once = KUBE_CHECKS_AT_ONCE,
						.refuse_ns = env->refuse_ns,
						.ask = ask,
						.drop = drop,
						.arg = k };
	int rc;

	k->env = *env;
	rc = kube_checks_new(&k->checks, &checks, e);
	if (rc)
		kube_people_free(k);
	else
		*out = k;
	return rc;
}

void kube_people_stop(struct kube_people *k)
{
	if (k)
		kube_checks_stop(k->checks);
}

void kube_people_free(struct kube_people *k)
{
	if (!k)
		return;
	kube_checks_free(k->checks);
	free(k);
}
