/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/retention/quotas.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/captures/capture.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/sessions/sessions.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "json/json_text.h"
#include "proto/names.h"

#define FIRST_LOOK_NS (NS_PER_S / 5) /* until the store is ready; where one is asked for */
#define ALL	      UINT32_MAX /* the run of a session that no rule is for */

struct quota {
	char *run; /* NULL = all sessions; "" = those without a run */
	uint64_t bytes, sessions; /* at most; 0 = any number */
	uint64_t used_bytes, used_sessions;
};

/* A stored session. */
struct entry {
	char session[SESSION_NAME_BYTES];
	uint64_t bytes;
	uint32_t quota; /* that of its run, or ALL */
};

struct entries {
	struct entry *items; /* in any order */
	size_t n, cap;
};

struct quotas {
	struct quotas_env env;
	struct quota *quotas; /* the first is that of all sessions */
	size_t n;
	struct entries stored;
	json_t *pending; /* session: run, of captures under way; of a retry null */
	bool known; /* a look has succeeded */
	bool changed; /* since the look under way began: its result is out of date */
	bool looking;
	bool is_asked; /* a look that begins now or later must succeed soon */
	bool stopping;
	struct loop_timer timer;
};

/* ---- settings ---- */

static struct quota *add_quota(struct quotas *q, char *run_taken)
{
	q->quotas = xrealloc(q->quotas, (q->n + 1) * sizeof(*q->quotas));
	q->quotas[q->n] = (struct quota){ .run = run_taken };
	return &q->quotas[q->n++];
}

static int add_run(struct quotas *q, const char *text, struct err *e)
{
	const char *sign = strrchr(text, '='), *comma = sign ? strchr(sign, ',') : NULL;
	char *run, *bytes, *end = NULL;
	unsigned long long sessions;
	struct quota *quota;
	int rc;

	if (!comma)
		return err_set(e, ERR_INVALID,
			       "quota-run '%.100s': use RUN=BYTES,SESSIONS, like nightly=200G,50",
			       text);
	run = xasprintf("%.*s", (int)(sign - text), text);
	bytes = xasprintf("%.*s", (int)(comma - sign - 1), sign + 1);
	quota = add_quota(q, run);
	sessions = strtoull(comma + 1, &end, 10);
	quota->sessions = sessions;
	rc = *run ? name_check_run(run, e) : 0;
	if (!rc)
		rc = conf_parse_size(bytes, &quota->bytes, e);
	if (!rc && (comma[1] < '0' || comma[1] > '9' || *end))
		rc = err_set(e, ERR_INVALID, "'%.40s' is no number of sessions", comma + 1);
	free(bytes);
	return rc ? err_prefix(e, "quota-run '%.100s'", text) : 0;
}

int quotas_new(struct quotas **out, const struct quotas_conf *conf, struct err *e)
{
	struct quotas *q = xcalloc(1, sizeof(*q));
	struct quota *all = add_quota(q, NULL);
	int rc = 0;

	all->bytes = conf->bytes;
	all->sessions = conf->sessions;
	q->pending = json_object();
	for (size_t i = 0; i < conf->runs->n && !rc; i++)
		rc = add_run(q, conf->runs->items[i], e);
	if (rc)
		quotas_free(q);
	else
		*out = q;
	return rc;
}

void quotas_free(struct quotas *q)
{
	if (!q)
		return;
	for (size_t i = 0; i < q->n; i++)
		free(q->quotas[i].run);
	free(q->quotas);
	free(q->stored.items);
	json_decref(q->pending);
	free(q);
}

static bool has_quota(const struct quotas *q)
{
	return q->n > 1 || q->quotas[0].bytes || q->quotas[0].sessions;
}

static uint32_t quota_of_run(const struct quotas *q, const char *run)
{
	for (size_t i = 1; i < q->n; i++) {
		if (!strcmp(q->quotas[i].run, run))
			return (uint32_t)i;
	}
	return ALL;
}

/* ---- what is stored ---- */

static struct entry *find_entry(const struct entries *all, const char *session)
{
	for (size_t i = all->n; i-- > 0;) {
		if (!strcmp(all->items[i].session, session))
			return &all->items[i];
	}
	return NULL;
}

static struct entry *add_entry(struct entries *all, const char *session)
{
	if (all->n == all->cap) {
		all->cap = all->cap ? all->cap * 2 : 64;
		all->items = xrealloc(all->items, all->cap * sizeof(*all->items));
	}
	all->items[all->n] = (struct entry){ .bytes = 0 };
	snprintf(all->items[all->n].session, SESSION_NAME_BYTES, "%s", session);
	return &all->items[all->n++];
}

static void count(struct quotas *q)
{
	for (size_t i = 0; i < q->n; i++)
		q->quotas[i].used_bytes = q->quotas[i].used_sessions = 0;
	for (size_t i = 0; i < q->stored.n; i++) {
		const struct entry *entry = &q->stored.items[i];

		q->quotas[0].used_bytes += entry->bytes;
		q->quotas[0].used_sessions++;
		if (entry->quota != ALL) {
			q->quotas[entry->quota].used_bytes += entry->bytes;
			q->quotas[entry->quota].used_sessions++;
		}
	}
}

void quotas_add(struct quotas *q, const char *session, const char *run, uint64_t bytes)
{
	struct entry *entry = find_entry(&q->stored, session);

	if (!has_quota(q))
		return;
	if (!entry)
		entry = add_entry(&q->stored, session);
	entry->bytes = bytes;
	entry->quota = quota_of_run(q, run);
	q->changed = true;
	count(q);
}

void quotas_remove(struct quotas *q, const char *session)
{
	struct entry *entry = find_entry(&q->stored, session);

	if (!entry)
		return;
	*entry = q->stored.items[--q->stored.n];
	q->changed = true;
	count(q);
}

static uint64_t bytes_of(const struct capture *c)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < c->n_hosts; i++)
		bytes += c->hosts[i].stored ? c->hosts[i].bytes : 0;
	return bytes;
}

void quotas_note(struct quotas *q, const struct capture *c)
{
	if (!has_quota(q))
		return;
	if (!capture_has_ended(c)) { /* a retry's session is there already */
		json_put(q->pending, c->session, c->revision > 1 ? json_null() : json_text(c->run));
		return;
	}
	/* an ended capture may change once more, when its hosts release their files */
	if (!json_object_get(q->pending, c->session))
		return;
	json_object_del(q->pending, c->session);
	if (!capture_has_failed(c))
		quotas_add(q, c->session, c->run, bytes_of(c));
}

static void on_capture(void *arg, struct capture *c)
{
	quotas_note(arg, c);
}

/* ---- checking ---- */

static uint64_t count_pending(const struct quotas *q, const struct quota *quota)
{
	const char *session;
	json_t *run;
	uint64_t n = 0;

	json_object_foreach(q->pending, session, run)
	{
		if (json_is_string(run) &&
		    (!quota->run || !strcmp(json_string_value(run), quota->run)))
			n++;
	}
	return n;
}

static const char *name_of(const struct quota *quota, char out[160])
{
	if (!quota->run)
		return "the store";
	if (!*quota->run)
		return "the run '' (sessions without a run)";
	snprintf(out, 160, "the run '%.128s'", quota->run);
	return out;
}

static int check(const struct quotas *q, const struct quota *quota, uint64_t bytes, struct err *e)
{
	uint64_t sessions = quota->used_sessions;
	char name[160];

	if (quota->sessions)
		sessions += count_pending(q, quota);
	if (quota->sessions && sessions >= quota->sessions)
		return err_set(e, ERR_FULL,
			       "%s has %" PRIu64 " of %" PRIu64
			       " sessions of its quota: delete some (tutti delete), or raise it",
			       name_of(quota, name), sessions, quota->sessions);
	if (quota->bytes &&
	    (quota->used_bytes >= quota->bytes || bytes > quota->bytes - quota->used_bytes))
		return err_set(e, ERR_FULL,
			       "%s has %" PRIu64 " of %" PRIu64
			       " bytes of its quota: delete sessions (tutti delete), or raise it",
			       name_of(quota, name), quota->used_bytes, quota->bytes);
	return 0;
}

int quotas_check(const struct quotas *q, const char *run, uint64_t bytes, struct err *e)
{
	uint32_t own = quota_of_run(q, run);
	int rc;

	if (!has_quota(q))
		return 0;
	if (!q->known)
		return err_set(e, ERR_BUSY,
			       "the store has a quota, and how much it holds is not known yet: try "
			       "again soon");
	rc = check(q, &q->quotas[0], bytes, e);
	return rc || own == ALL ? rc : check(q, &q->quotas[own], bytes, e);
}

json_t *quotas_json(const struct quotas *q)
{
	json_t *list = json_array();

	for (size_t i = 0; i < q->n && q->known; i++) {
		const struct quota *quota = &q->quotas[i];
		json_t *o;

		if (!quota->bytes && !quota->sessions)
			continue;
		o = json_object();
		if (quota->run)
			json_put_text(o, "run", quota->run);
		json_put_int(o, "bytes", (int64_t)quota->used_bytes);
		json_put_int(o, "sessions", (int64_t)quota->used_sessions);
		json_put_int(o, "max_bytes", (int64_t)quota->bytes);
		json_put_int(o, "max_sessions", (int64_t)quota->sessions);
		json_array_append_new(list, o);
	}
	return list;
}

/* ---- looking ---- */

/* The worker uses `store`, the settings of `quotas`, which do not change, and what it sets. */
struct look {
	struct quotas *quotas;
	struct store *store;
	struct entries found;
	bool is_asked;
	int rc;
	struct err e;
};

/* A session that was deleted meanwhile, or that is damaged, has no bytes and no run. */
static bool on_session(void *arg, const char *session, const struct session_line *line)
{
	struct look *l = arg;
	struct entry *entry = add_entry(&l->found, session);
	struct session_line loaded = { 0 };
	int rc = line ? 0 : session_load_line(l->store, session, &loaded, &l->e);

	if (rc && rc != ERR_NOT_FOUND && rc != ERR_INVALID)
		l->rc = rc;
	if (!line)
		line = &loaded;
	entry->quota = rc ? ALL : quota_of_run(l->quotas, line->run);
	entry->bytes = (uint64_t)line->bytes;
	return !l->rc;
}

static void run_look(void *arg)
{
	struct look *l = arg;
	int rc = session_each(l->store, NULL, on_session, l, &l->e);

	l->rc = l->rc ? l->rc : rc;
}

static void begin_look(void *arg);

static void look_in(struct quotas *q, int64_t ns)
{
	if (!q->stopping)
		loop_timer_in(q->env.jobs->loop, &q->timer, ns, begin_look, q);
}

static void take(struct quotas *q, struct look *l)
{
	free(q->stored.items);
	q->stored = l->found;
	l->found = (struct entries){ 0 };
	q->known = true;
	count(q);
}

static void done_look(void *arg)
{
	struct look *l = arg;
	struct quotas *q = l->quotas;
	bool is_late = q->changed && !q->known; /* it lacks something, but is the first one */
	bool is_taken = !l->rc && (!q->changed || is_late), is_soon = l->rc || is_late;

	q->looking = false;
	if (l->rc)
		log_error("AGG-QUOTA", "action=look reason=\"%s\"", l->e.msg);
	if (is_taken)
		take(q, l);
	q->is_asked = q->is_asked || (l->is_asked && !is_taken);
	look_in(q, random_pause_ns(is_soon || q->is_asked ? NS_PER_S : q->env.period_ns));
	free(l->found.items);
	free(l);
}

static void begin_look(void *arg)
{
	struct quotas *q = arg;
	struct look *l;

	if (!q->env.store->ready) {
		look_in(q, FIRST_LOOK_NS);
		return;
	}
	l = xcalloc(1, sizeof(*l));
	l->quotas = q;
	l->store = q->env.store->store;
	l->is_asked = q->is_asked;
	q->is_asked = q->changed = false;
	q->looking = true;
	jobs_work(q->env.jobs, run_look, done_look, l);
}

void quotas_look(struct quotas *q)
{
	if (!has_quota(q))
		return;
	q->is_asked = true;
	if (!q->looking)
		look_in(q, FIRST_LOOK_NS);
}

void quotas_start(struct quotas *q, const struct quotas_env *env)
{
	q->env = *env;
	if (!has_quota(q))
		return;
	captures_watch(env->captures, on_capture, q);
	begin_look(q);
}

void quotas_stop(struct quotas *q)
{
	q->stopping = true;
	if (q->env.jobs)
		loop_timer_cancel(q->env.jobs->loop, &q->timer);
}
