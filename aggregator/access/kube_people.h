/* SPDX-License-Identifier: Apache-2.0 */
/*
 * People by tokens of a Kubernetes cluster. What the cluster says of a token (kube_review.h) holds for hold_ns: so long may it
 * take until a right that was given, or taken, is noticed. A token that it does not know is refused for refuse_ns without asking
 * again. Loop thread.
 */
#ifndef AGGREGATOR_ACCESS_KUBE_PEOPLE_H
#define AGGREGATOR_ACCESS_KUBE_PEOPLE_H

#include <stdint.h>

#include "aggregator/access/principal.h"
#include "aggregator/kube/kube_checks.h"
#include "base/err.h"

struct jobs;
struct kube_people;

#define KUBE_CHECKS_MOST    256 /* callers that wait at the same time */
#define KUBE_CHECKS_AT_ONCE 2 /* tokens that workers ask about; the others wait */

struct kube_people_env {
	struct jobs *jobs;
	const char *server, *token_file, *ca_file; /* as of kube_api_open() */
	const char *audience; /* of tokens */
	int64_t hold_ns, refuse_ns;
};

/* Errors as of kube_api_open(). Asks nothing yet. */
MUST_CHECK int kube_people_new(struct kube_people **out, const struct kube_people_env *env,
			       struct err *e);
void kube_people_stop(struct kube_people *k); /* requests end within a second; NULL is fine */
void kube_people_free(struct kube_people *k); /* stopped, and all jobs are done; NULL is fine */

/* As kube_checks_ask(), which see; what is found is a struct principal. */
MUST_CHECK int kube_people_check(struct kube_people *k, const char *token, kube_checks_fn fn,
				 void *arg, struct err *e);

#endif
