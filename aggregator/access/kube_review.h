/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a Kubernetes cluster says of a token: whose it is (TokenReview), and which verbs its holder may do with
 * `captures.tutti.dev`, in which namespaces (SubjectAccessReview). A role needs its own verbs and those of the roles below it:
 *
 *	viewer    get and list
 *	operator  create
 *	admin     delete
 *
 * Blocks: for workers.
 */
#ifndef AGGREGATOR_ACCESS_KUBE_REVIEW_H
#define AGGREGATOR_ACCESS_KUBE_REVIEW_H

#include <stdatomic.h>
#include <stddef.h>

#include <jansson.h>

#include "aggregator/access/principal.h"
#include "base/err.h"

struct kube_api;

#define KUBE_PERSON_BYTES  ((size_t)64 << 10) /* of an answer about one token; groups are in it */
#define KUBE_SPACES_MOST   500 /* namespaces of a cluster that are asked about one by one */
#define KUBE_SPACES_BYTES  ((size_t)4 << 20) /* of their listing */
#define KUBE_REVIEW_MAX_NS (20 * NS_PER_S) /* all requests about one token together */

struct kube_review {
	const struct kube_api *api;
	const char *audience; /* that the token must be for */
	const _Atomic bool *cancelled;
};

/*
 * The caller has the only reference to `*out`, which may be without any role. ERR_DENIED: the cluster does not
 * know the token, or it is for others. Any other code: it could not be asked now; the sentence says what to grant.
 */
MUST_CHECK int kube_review(const struct kube_review *r, const char *token, struct principal **out,
			   struct err *e);

/* Whose the token is, and nothing more: as kube_read_person(), a new reference. Errors as above. */
MUST_CHECK int kube_review_person(const struct kube_review *r, const char *token, json_t **person,
				  struct err *e);

/* The answer to a TokenReview, for kube_review() and fuzzing: who it is, as a SubjectAccessReview names him (user, uid, groups, extra);
 * a new reference. ERR_DENIED, ERR_PEER. */
MUST_CHECK int kube_read_person(json_t **person, const char *audience, const void *text, size_t len,
				struct err *e);

#endif
