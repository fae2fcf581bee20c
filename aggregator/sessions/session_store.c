/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/sessions/session_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/sessions/sessions_impl.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "storage/store.h"

/* Their sum is below 5 s, the longest time after which /readyz may notice a failure. */
#define PROBE_EVERY_NS (2 * NS_PER_S)
#define PROBE_LIMIT_NS (2500 * NS_PER_MS)
#define ROUND_FIRST_NS NS_PER_S
#define ROUND_MAX_NS   (10 * NS_PER_S)
#define READY_KEY      "tutti/ready"

/* ---- readiness ---- */

struct probe_job {
	struct session_store *sessions;
	struct store *store;
	int rc;
	struct err e;
};

static void begin_round(void *arg);

static int try_write(struct store *s, struct err *e)
{
	int64_t deadline_ns = store_within(PROBE_LIMIT_NS);
	int rc = store_put_bytes(s, READY_KEY, "ok\n", 3, 0, deadline_ns, e);

	return rc ? rc : store_remove(s, READY_KEY, deadline_ns, e);
}

static void update_ready(struct session_store *s)
{
	bool ready = s->writable && s->listed;

	if (ready && !s->ready)
		log_info("AGG-STORE", "ready=1");
	s->ready = ready;
}

/* A store that is full takes no records, but a removal that a kill broke off gives it room. */
static bool can_recover(const struct session_store *s)
{
	return s->writable || s->not_ready.code == ERR_FULL;
}

static void set_writable(struct session_store *s, int rc, const struct err *e)
{
	bool was = s->writable, could = can_recover(s);

	s->writable = !rc;
	if (rc)
		s->not_ready = *e;
	if (rc && (was || s->ready))
		log_error("AGG-STORE", "ready=0 reason=\"%s\"", e->msg);
	if (((!was && s->writable) || (!could && can_recover(s))) && s->heir.take && !s->swept)
		loop_timer_in(s->jobs->loop, &s->round_timer, 0, begin_round, s);
	update_ready(s);
}

static void begin_probe(void *arg);

static void run_probe(void *arg)
{
	struct probe_job *job = arg;

	job->rc = try_write(job->store, &job->e);
}

static void done_probe(void *arg)
{
	struct probe_job *job = arg;
	struct session_store *s = job->sessions;

	s->probing = false;
	if (!s->stopping) {
		set_writable(s, job->rc, &job->e);
		loop_timer_in(s->jobs->loop, &s->probe_timer, PROBE_EVERY_NS, begin_probe, s);
	}
	free(job);
}

/* The probe's own deadline is not enough: a system call that hangs ignores it. */
static void on_probe_limit(void *arg)
{
	struct session_store *s = arg;
	struct err e;

	err_set(&e, ERR_TIMEOUT, "the store does not answer");
	set_writable(s, e.code, &e);
}

static void begin_probe(void *arg)
{
	struct session_store *s = arg;
	struct probe_job *job = xcalloc(1, sizeof(*job));

	*job = (struct probe_job){ .sessions = s, .store = s->store };
	s->probing = true;
	loop_timer_in(s->jobs->loop, &s->probe_timer, PROBE_LIMIT_NS, on_probe_limit, s);
	jobs_work(s->jobs, run_probe, done_probe, job);
}

/* ---- what an earlier run left ---- */

/* Lists the sessions that are left, or recovers one of them. */
struct recovery {
	struct session_store *sessions;
	struct store *store;
	char *session; /* NULL: it lists */
	struct session_keys left;
	void *(*read)(const json_t *recoverable); /* NULL before session_store_start() */
	json_t *found; /* can be carried on, and is not read; or NULL */
	void *was_read; /* what `read` made of it, or NULL */
	int rc;
	struct err e;
};

static bool has_key(const struct session_keys *keys, const char *session)
{
	for (size_t i = 0; i < keys->n; i++) {
		if (!strcmp(keys->items[i], session))
			return true;
	}
	return false;
}

/* It is there. */
static void remove_key(struct session_keys *keys, const char *session)
{
	size_t i = 0;

	while (strcmp(keys->items[i], session))
		i++;
	free(keys->items[i]);
	memmove(keys->items + i, keys->items + i + 1, (--keys->n - i) * sizeof(*keys->items));
}

static void note_recovery(struct session_store *s, struct recovery *r)
{
	if (r->rc) {
		log_error("AGG-STORE", "action=recover session=%s reason=\"%s\"",
			  r->session ? r->session : "", r->e.msg);
		if (!r->session)
			s->not_ready = r->e;
	} else if (r->session) {
		remove_key(&s->left, r->session);
	} else {
		s->listed = true;
		s->left = r->left;
	}
	s->swept = s->listed && !s->left.n;
	free(r->session);
	free(r);
}

static void schedule_round(struct session_store *s)
{
	int64_t pause_ns = ROUND_FIRST_NS;

	for (unsigned int i = 0; i < s->failed_rounds && pause_ns < ROUND_MAX_NS; i++)
		pause_ns *= 2;
	s->failed_rounds++;
	loop_timer_in(s->jobs->loop, &s->round_timer,
		      random_pause_ns(pause_ns < ROUND_MAX_NS ? pause_ns : ROUND_MAX_NS),
		      begin_round, s);
}

static void run_recovery(void *arg)
{
	struct recovery *r = arg;

	r->rc = r->session ? session_recover(r->store, r->session, &r->found, &r->e)
			   : session_list_left(r->store, &r->left, &r->e);
	if (r->rc || !r->found || !r->read)
		return;
	r->was_read = r->read(r->found);
	json_decref(r->found);
	r->found = NULL;
}

/* What was awaited is committed since then. */
static void note_settled(struct session_store *s, const char *session)
{
	if (has_key(&s->released, session))
		remove_key(&s->released, session);
	else if (s->heir.settled && !s->stopping)
		s->heir.settled(s->heir.arg, session);
}

static void done_recovery(void *arg)
{
	struct recovery *r = arg;
	struct session_store *s = r->sessions;
	bool has_listed = !r->session && !r->rc;
	void *was_read = r->was_read;

	if (r->session && !r->rc && !was_read)
		note_settled(s, r->session);
	note_recovery(s, r);
	s->recovering--;
	if (!s->stopping)
		update_ready(s);
	if (was_read)
		s->heir.take(s->heir.arg, was_read);
	if (s->stopping)
		return;
	if (s->swept)
		s->failed_rounds = 0;
	if (s->recovering || s->swept)
		return;
	if (has_listed)
		begin_round(s);
	else
		schedule_round(s);
}

static struct recovery *recovery_new(struct session_store *s, const char *session)
{
	struct recovery *r = xcalloc(1, sizeof(*r));

	*r = (struct recovery){ .sessions = s, .store = s->store, .read = s->heir.read };
	r->session = session ? xstrdup(session) : NULL;
	return r;
}

static void begin_recovery(struct session_store *s, const char *session)
{
	s->recovering++;
	jobs_work(s->jobs, run_recovery, done_recovery, recovery_new(s, session));
}

/* Does nothing while the store takes no writes and is not just full; the next round begins when it does, or is. */
static void begin_round(void *arg)
{
	struct session_store *s = arg;

	if (s->recovering || !can_recover(s))
		return;
	if (!s->listed)
		begin_recovery(s, NULL);
	for (size_t i = 0; s->listed && i < s->left.n; i++) {
		if (!has_key(&s->awaited, s->left.items[i]))
			begin_recovery(s, s->left.items[i]);
	}
}

/* The first round, before there is a loop that turns. */
static void recover_now(struct session_store *s, json_t *recoverable)
{
	struct recovery *r = recovery_new(s, NULL);
	size_t i = 0;

	run_recovery(r);
	note_recovery(s, r);
	while (i < s->left.n) {
		size_t n = s->left.n;
		json_t *found;

		r = recovery_new(s, s->left.items[i]);
		run_recovery(r);
		found = r->found;
		note_recovery(s, r);
		if (found)
			json_array_append_new(recoverable, found);
		i += s->left.n == n; /* if this session is still left, goes on with the next */
	}
}

/* ---- life ---- */

static void make_nonce(char out[17])
{
	uint64_t n;

	random_bytes(&n, sizeof(n));
	snprintf(out, 17, "%016" PRIx64, n);
}

int session_store_open(struct session_store *s, struct jobs *jobs, const char *url,
		       json_t *recoverable, struct err *e)
{
	struct err failure = { 0 };
	int rc = store_open(&s->store, url, e);

	if (rc)
		return rc;
	s->jobs = jobs;
	make_nonce(s->nonce);
	rc = try_write(s->store, &failure);
	s->writable = !rc;
	if (rc) {
		s->not_ready = failure;
		log_error("AGG-STORE", "ready=0 reason=\"%s\"", failure.msg);
	} else {
		recover_now(s, recoverable);
	}
	s->ready = s->writable && s->listed;
	log_info("AGG-PART", "part=store state=up url=%s ready=%d left=%zu", url, s->ready,
		 s->left.n);
	return 0;
}

int session_store_open_reads(struct session_store *s, struct jobs *jobs, const char *url,
			     struct err *e)
{
	s->jobs = jobs;
	return store_open(&s->store, url, e);
}

void session_store_start(struct session_store *s, const struct session_heir *heir)
{
	s->heir = *heir;
	loop_timer_in(s->jobs->loop, &s->probe_timer, PROBE_EVERY_NS, begin_probe, s);
	if (!s->swept)
		schedule_round(s);
}

bool session_store_has_left(const struct session_store *s, const char *session)
{
	return has_key(&s->left, session);
}

static void add_left(struct session_store *s, const char *session)
{
	session_keys_add(&s->left, session, NULL);
	s->swept = false;
}

void session_store_take_up(struct session_store *s, const char *session)
{
	if (s->stopping || !s->listed || session_store_has_left(s, session))
		return;
	add_left(s, session);
	if (!s->recovering)
		schedule_round(s);
}

void session_store_await(struct session_store *s, const char *session)
{
	if (!s->listed || session_store_has_left(s, session))
		return;
	add_left(s, session);
	session_keys_add(&s->awaited, session, NULL);
}

void session_store_release(struct session_store *s, const char *session)
{
	if (!has_key(&s->awaited, session))
		return;
	remove_key(&s->awaited, session);
	session_keys_add(&s->released, session, NULL);
	if (!s->recovering && !s->stopping)
		schedule_round(s);
}

void session_store_stop(struct session_store *s)
{
	s->stopping = true;
	loop_timer_cancel(s->jobs->loop, &s->probe_timer);
	loop_timer_cancel(s->jobs->loop, &s->round_timer);
}

void session_store_close(struct session_store *s)
{
	session_keys_release(&s->left);
	session_keys_release(&s->awaited);
	session_keys_release(&s->released);
	store_free(s->store);
	s->store = NULL;
}
