/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens that a cluster is asked about, by workers, some at a time. Callers with the same token share a check; a token that was
 * refused is refused for some time without asking again; what has not the form of a token is never asked about. So callers without
 * a good token cost little. Loop thread.
 */
#ifndef AGGREGATOR_KUBE_KUBE_CHECKS_H
#define AGGREGATOR_KUBE_KUBE_CHECKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"

struct jobs;
struct kube_api;
struct kube_checks;

struct kube_checks_env {
	const char *server, *token_file, *ca_file; /* as of kube_api_open() */
	struct jobs *jobs;
	void (*work)(struct jobs *j, loop_fn run, loop_fn done,
		     void *arg); /* jobs_work(), or jobs_request() */
	size_t waiting_most, at_once; /* callers; tokens that workers ask about, the others wait */
	int64_t refuse_ns; /* how long a refusal is remembered */

	/* Asks the cluster, until *cancelled. Any thread. ERR_DENIED: the token is not good; any other code: it could not be checked now. */
	int (*ask)(void *arg, const struct kube_api *api, const _Atomic bool *cancelled,
		   const char *token, void **found, struct err *e);
	void (*drop)(void *found); /* what ask() has found, or NULL; after all who wait were told */
	void *arg;
};

/* Errors as of kube_api_open(). Asks nothing yet. The texts of `env` are copied or read now. */
MUST_CHECK int kube_checks_new(struct kube_checks **out, const struct kube_checks_env *env,
			       struct err *e);
void kube_checks_stop(struct kube_checks *k); /* cancels what workers ask; NULL is fine */
void kube_checks_free(struct kube_checks *k); /* all jobs are done; NULL is fine */

/* `found` is borrowed, and NULL if the token is not good: `why` says so, with ERR_DENIED; ERR_BUSY: it could not be checked now. */
typedef void (*kube_checks_fn)(void *arg, void *found, const struct err *why);

/* Calls fn once, later. ERR_DENIED or ERR_BUSY, and fn is not called, for what can be no token, for one that was refused a moment
 * ago, and for too many callers at a time. The token is copied. */
MUST_CHECK int kube_checks_ask(struct kube_checks *k, const char *token, kube_checks_fn fn,
			       void *arg, struct err *e);

/* Who waits with this `arg` goes: true, and its fn is not called. A token without a waiting caller is not asked about any more.
 * False if there is none. */
bool kube_checks_leave(struct kube_checks *k, const void *arg);

#endif
