/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grants that the store keeps open whatever life they were made for (Google's upload sessions). They end with the host's part
 * of the capture: one that was not used is revoked with its upload. One that an agent says it has used is kept until the
 * session has ended, because only the commit's listing shows whether the file is there; then those of hosts without a file
 * are revoked. An aggregator that is killed forgets them: what comes by them later is late (late.c).
 */
#include <stdlib.h>
#include <string.h>

#include "aggregator/captures/capture.h"
#include "aggregator/ingest/ingest_impl.h"
#include "aggregator/sessions/session_store.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"

/* A daemon that ends waits so long for a store that is away. */
#define REVOKE_PATIENCE_NS (10 * NS_PER_S)

struct open_grant {
	struct open_session *session; /* NULL once it is to be revoked */
	char *host, *url;
	TAILQ_ENTRY(open_grant) entry;
};

/* The grants of a session under way. */
struct open_session {
	char *session;
	struct open_grant_list grants;
	TAILQ_ENTRY(open_session) entry;
};

/* What one worker has: it revokes them all, or those of the named hosts, and frees all. */
struct revoking {
	struct ingest *ingest;
	struct store *store;
	struct open_grant_list grants;
	bool all;
	char **hosts; /* sorted */
	size_t n_hosts;
	size_t n_revoked, n_left;
	struct err e;
};

static void grant_free(struct open_grant *g)
{
	explicit_bzero(g->url, strlen(g->url));
	free(g->url);
	free(g->host);
	free(g);
}

static void free_all(struct open_grant_list *grants)
{
	struct open_grant *g;

	while ((g = TAILQ_FIRST(grants))) {
		TAILQ_REMOVE(grants, g, entry);
		grant_free(g);
	}
}

static struct open_session *find_session(struct ingest *in, const char *session)
{
	struct open_session *s;

	TAILQ_FOREACH (s, &in->open_sessions, entry) {
		if (!strcmp(s->session, session))
			return s;
	}
	return NULL;
}

static void session_free(struct ingest *in, struct open_session *s)
{
	TAILQ_REMOVE(&in->open_sessions, s, entry);
	free_all(&s->grants);
	free(s->session);
	free(s);
}

/* ---- on a worker ---- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_wanted(const struct revoking *r, const struct open_grant *g)
{
	return r->all || bsearch(&g->host, r->hosts, r->n_hosts, sizeof(*r->hosts), compare_names);
}

/* A store that does not answer is not asked for each. */
static void run_revoke(void *arg)
{
	struct revoking *r = arg;
	struct open_grant *g;

	TAILQ_FOREACH (g, &r->grants, entry) {
		if (!is_wanted(r, g))
			continue;
		if (r->n_left ||
		    store_revoke(r->store, g->url, store_within(REVOKE_PATIENCE_NS), &r->e))
			r->n_left++;
		else
			r->n_revoked++;
	}
	free_all(&r->grants);
	for (size_t i = 0; i < r->n_hosts; i++)
		free(r->hosts[i]);
	free(r->hosts);
}

/* ---- on the loop ---- */

static void revoke_next(struct ingest *in);

static void done_revoke(void *arg)
{
	struct revoking *r = arg;
	struct ingest *in = r->ingest;

	in->stats.grants_revoked += r->n_revoked;
	if (r->n_left)
		log_warn("AGG-UPLOAD", "action=revoke left_open=%zu reason=\"%s\"", r->n_left,
			 r->e.msg);
	if (r->all) {
		in->is_revoking = false;
		revoke_next(in);
	}
	free(r);
}

static struct revoking *revoking_new(struct ingest *in, struct open_grant_list *grants)
{
	struct revoking *r = xcalloc(1, sizeof(*r));

	r->ingest = in;
	r->store = in->env.store->store;
	TAILQ_INIT(&r->grants);
	TAILQ_CONCAT(&r->grants, grants, entry);
	return r;
}

/* One worker at a time: many uploads can fail together. */
static void revoke_next(struct ingest *in)
{
	struct revoking *r;

	if (in->is_revoking || TAILQ_EMPTY(&in->to_revoke))
		return;
	in->is_revoking = true;
	r = revoking_new(in, &in->to_revoke);
	r->all = true;
	jobs_work(in->env.jobs, run_revoke, done_revoke, r);
}

/* The upload's, with its URL; NULL if there is none to revoke. */
static struct open_grant *take_grant(struct upload *u)
{
	struct open_grant *g;

	if (!u->grant.url || !store_revokes(u->ingest->env.store->store))
		return NULL;
	g = xcalloc(1, sizeof(*g));
	g->host = xstrdup(u->host);
	g->url = u->grant.url;
	u->grant.url = NULL;
	return g;
}

static void revoke(struct ingest *in, struct open_grant *g)
{
	g->session = NULL;
	TAILQ_INSERT_TAIL(&in->to_revoke, g, entry);
	revoke_next(in);
}

void open_grant_add(struct upload *u)
{
	struct ingest *in = u->ingest;
	struct open_grant *g = take_grant(u);
	struct open_session *s;

	open_grant_revoke(u);
	if (!g)
		return;
	s = find_session(in, u->session);
	if (!s) {
		s = xcalloc(1, sizeof(*s));
		s->session = xstrdup(u->session);
		TAILQ_INIT(&s->grants);
		TAILQ_INSERT_TAIL(&in->open_sessions, s, entry);
	}
	g->session = s;
	TAILQ_INSERT_TAIL(&s->grants, g, entry);
	u->open_grant = g;
}

void open_grant_used(struct upload *u)
{
	u->open_grant = NULL;
}

void open_grant_revoke(struct upload *u)
{
	struct open_grant *g = u->open_grant;

	if (!g)
		return;
	u->open_grant = NULL;
	TAILQ_REMOVE(&g->session->grants, g, entry);
	revoke(u->ingest, g);
}

void open_grant_drop(struct upload *u)
{
	struct open_grant *g = take_grant(u);

	if (g)
		revoke(u->ingest, g);
}

/* Uploads that are under way still revoke their own. */
static void leave_uploads(struct ingest *in, struct open_session *s)
{
	struct upload *u;

	TAILQ_FOREACH (u, &in->uploads, entry) {
		if (u->open_grant && u->open_grant->session == s)
			open_grant_revoke(u);
	}
}

void open_grants_end(struct ingest *in, const struct capture *c)
{
	struct open_session *s = find_session(in, c->session);
	struct revoking *r;

	if (!s)
		return;
	leave_uploads(in, s);
	r = revoking_new(in, &s->grants);
	session_free(in, s);
	r->hosts = xcalloc(c->n_hosts ? c->n_hosts : 1, sizeof(*r->hosts));
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (!c->hosts[i].stored)
			r->hosts[r->n_hosts++] = xstrdup(c->hosts[i].name);
	}
	jobs_work(in->env.jobs, run_revoke, done_revoke, r);
}

void open_grants_stop(struct ingest *in)
{
	while (!TAILQ_EMPTY(&in->open_sessions))
		session_free(in, TAILQ_FIRST(&in->open_sessions));
	free_all(&in->to_revoke);
}
