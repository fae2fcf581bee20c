/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/kube/kube_checks.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "aggregator/kube/kube_api.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/secret.h"
#include "net/digest.h"

#define REFUSED_MOST 1024 /* places for tokens that were refused; a later one may take another's */

struct waiter {
	kube_checks_fn fn;
	void *arg;
	STAILQ_ENTRY(waiter) next;
};

/* A token, and who waits for what the cluster says of it. */
struct check {
	struct kube_checks *checks;
	char *token;
	char digest[DIGEST_HEX_BYTES];
	bool is_running;
	STAILQ_HEAD(, waiter) waiters;
	TAILQ_ENTRY(check) next;
	void *found; /* the worker's until it is done, as the next two */
	int rc;
	struct err e;
};

struct refused {
	char digest[DIGEST_HEX_BYTES];
	int64_t until_mono_ns;
	struct err why;
};

struct kube_checks {
	struct kube_checks_env env;
	struct kube_api api;
	_Atomic bool cancelled;
	TAILQ_HEAD(, check)
	checks; /* those that run, and those that wait, in the order of their begin */
	size_t n_waiters, n_running;
	struct refused refused[REFUSED_MOST];
};

/* ---- tokens that were refused ---- */

static struct refused *place_of(struct kube_checks *k, const char *digest)
{
	const char begin[] = { digest[0], digest[1], digest[2], digest[3], '\0' };

	return &k->refused[strtoul(begin, NULL, 16) % REFUSED_MOST];
}

static int check_refused(struct kube_checks *k, const char *digest, struct err *e)
{
	const struct refused *r = place_of(k, digest);

	if (strcmp(r->digest, digest) != 0 || now_mono_ns() >= r->until_mono_ns)
		return 0;
	*e = r->why;
	return r->why.code;
}

static void keep_refused(struct kube_checks *k, const struct check *c)
{
	struct refused *r = place_of(k, c->digest);

	*r = (struct refused){ .until_mono_ns = now_mono_ns() + k->env.refuse_ns, .why = c->e };
	memcpy(r->digest, c->digest, sizeof(r->digest));
}

/* ---- checks ---- */

static void begin_checks(struct kube_checks *k);

static void run_check(void *arg)
{
	struct check *c = arg;
	const struct kube_checks *k = c->checks;

	c->rc = k->env.ask(k->env.arg, &k->api, &k->cancelled, c->token, &c->found, &c->e);
}

static void check_free(struct check *c)
{
	secret_free(c->token);
	free(c);
}

static void tell(struct check *c)
{
	struct kube_checks *k = c->checks;
	struct waiter *w;

	while ((w = STAILQ_FIRST(&c->waiters)) != NULL) {
		STAILQ_REMOVE_HEAD(&c->waiters, next);
		k->n_waiters--;
		w->fn(w->arg, c->found, c->rc ? &c->e : NULL);
		free(w);
	}
}

static void done_check(void *arg)
{
	struct check *c = arg;
	struct kube_checks *k = c->checks;

	TAILQ_REMOVE(&k->checks, c, next);
	k->n_running--;
	if (c->rc == ERR_DENIED)
		keep_refused(k, c);
	else if (c->rc)
		c->e.code = ERR_BUSY;
	begin_checks(k);
	tell(c);
	k->env.drop(c->found);
	check_free(c);
}

static void begin_checks(struct kube_checks *k)
{
	struct check *c;

	TAILQ_FOREACH (c, &k->checks, next) {
		if (k->n_running == k->env.at_once)
			return;
		if (c->is_running)
			continue;
		c->is_running = true;
		k->n_running++;
		k->env.work(k->env.jobs, run_check, done_check, c);
	}
}

static struct check *find_check(struct kube_checks *k, const char *token, const char *digest)
{
	struct check *c;

	TAILQ_FOREACH (c, &k->checks, next) {
		if (!strcmp(c->digest, digest))
			return c;
	}
	c = xcalloc(1, sizeof(*c));
	*c = (struct check){ .checks = k, .token = xstrdup(token) };
	memcpy(c->digest, digest, sizeof(c->digest));
	STAILQ_INIT(&c->waiters);
	TAILQ_INSERT_TAIL(&k->checks, c, next);
	return c;
}

/* Printable ASCII without blanks, as any bearer token. */
static bool has_form(const char *token)
{
	size_t len = 0;

	while (token[len] > ' ' && token[len] < 0x7f)
		len++;
	return len && !token[len] && len <= KUBE_TOKEN_BYTES;
}

int kube_checks_ask(struct kube_checks *k, const char *token, kube_checks_fn fn, void *arg,
		    struct err *e)
{
	char digest[DIGEST_HEX_BYTES];
	struct waiter *w;
	int rc;

	if (!has_form(token))
		return err_set(e, ERR_DENIED, "this is no token");
	digest_sha256(token, strlen(token), digest);
	rc = check_refused(k, digest, e);
	if (rc)
		return rc;
	if (k->n_waiters == k->env.waiting_most)
		return err_set(e, ERR_BUSY, "%zu callers wait for the Kubernetes API: try again",
			       k->env.waiting_most);
	w = xcalloc(1, sizeof(*w));
	*w = (struct waiter){ .fn = fn, .arg = arg };
	STAILQ_INSERT_TAIL(&find_check(k, token, digest)->waiters, w, next);
	k->n_waiters++;
	begin_checks(k);
	return 0;
}

bool kube_checks_leave(struct kube_checks *k, const void *arg)
{
	struct check *c;
	struct waiter *w;

	TAILQ_FOREACH (c, &k->checks, next) {
		STAILQ_FOREACH(w, &c->waiters, next)
		{
			if (w->arg != arg)
				continue;
			STAILQ_REMOVE(&c->waiters, w, waiter, next);
			k->n_waiters--;
			free(w);
			if (STAILQ_EMPTY(&c->waiters) && !c->is_running) {
				TAILQ_REMOVE(&k->checks, c, next);
				check_free(c);
			}
			return true;
		}
	}
	return false;
}

/* ---- life ---- */

int kube_checks_new(struct kube_checks **out, const struct kube_checks_env *env, struct err *e)
{
	struct kube_checks *k = xcalloc(1, sizeof(*k));
	int rc;

	k->env = *env;
	TAILQ_INIT(&k->checks);
	rc = kube_api_open(&k->api, env->server, env->token_file, env->ca_file, e);
	if (rc)
		kube_checks_free(k);
	else
		*out = k;
	return rc;
}

void kube_checks_stop(struct kube_checks *k)
{
	if (k)
		atomic_store(&k->cancelled, true);
}

void kube_checks_free(struct kube_checks *k)
{
	if (k)
		kube_api_close(&k->api);
	free(k);
}
