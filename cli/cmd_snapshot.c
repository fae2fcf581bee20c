/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes one snapshot, or a series: windows of length --every, one after the other without a gap. If a window
 * cannot be captured now (the aggregator restarts), it is tried again for as long as the rings still have it;
 * the aggregator refuses it until all hosts of the previous window are known again, or have been away for too long: then they
 * are in the session as unreachable.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/now.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/follow.h"
#include "cli/instant.h"
#include "cli/interrupt.h"
#include "cli/request.h"
#include "cli/result.h"

/* A window of a series is asked for so long after its end, for marks and log lines that come late; the clocks of this
 * program and the aggregator drift apart by less than this during a series. */
#define AFTER_END_NS (500 * NS_PER_MS)
#define RETRY_NS     NS_PER_S
/* how long agents may take to connect to a restarted aggregator */
#define COMEBACK_NS (35 * NS_PER_S)
#define FORGET_NS   (600 * NS_PER_S) /* as an aggregator forgets hosts that do not come back */
#define LAST_TRIES  10 /* how often deletions are tried when the series has ended */

struct conf {
	struct api_conf api;
	char *hosts, *run, *refine, *ending_at;
	int64_t last_ns, grace_ns, patience_ns, every_ns, for_ns;
	struct conf_list set, tracer;
	int keep;
	uint64_t keep_total_bytes;
};

static const struct conf_field fields[] = {
	CONF(struct conf, hosts, "all",
	     "hosts to cut: all, NAME,NAME, LABEL=VALUE, ... (docs/selectors.md)"),
	CONF(struct conf, last_ns, "30s", "length of the window"),
	CONF_ONCE(struct conf, ending_at, "now",
		  "end of the window: now, now-20s, 14:02:11.5 (today) or 2026-11-22T14:02:11.5Z"),
	CONF(struct conf, run, NULL, "name of the run that the session belongs to"),
	CONF(struct conf, tracer, NULL, "cut this tracer's ring only"),
	CONF(struct conf, set, NULL,
	     "KEY=VALUE for the tracers; see tutti capture --help-settings"),
	CONF_ONCE(struct conf, refine, NULL,
		  "events: compute from flows and barriers how far to move hosts' times"),
	CONF(struct conf, grace_ns, "0s",
	     "wait for hosts, 1s to 2h; 0s = 60s, or twice the window"),
	CONF_ONCE(struct conf, every_ns, NULL,
		  "take a series: windows of this length, one after the other"),
	CONF_ONCE(struct conf, for_ns, NULL, "length of the series; without it, until interrupted"),
	CONF_ONCE(struct conf, keep, NULL, "of a series: delete all but the last N sessions"),
	CONF_ONCE(struct conf, keep_total_bytes, NULL,
		  "of a series: delete the oldest sessions beyond this size"),
	FOLLOW_FIELD(struct conf),
	API_FIELDS(struct conf),
	{ 0 }
};

static int fill_request(json_t *request, const struct conf *conf, const struct instant *end,
			struct err *e)
{
	int rc = request_put_text(request, "hosts", "--hosts", conf->hosts, e);

	if (!rc)
		rc = request_put_text(request, "run", "--run", conf->run ? conf->run : "", e);
	if (!rc && conf->refine)
		rc = request_put_text(request, "refine", "--refine", conf->refine, e);
	json_put_int(request, "last_ns", conf->every_ns ? conf->every_ns : conf->last_ns);
	if (end->unix_ns)
		json_put_int(request, "ending_at_ns", end->unix_ns);
	else
		json_put_int(request, "ago_ns", end->ago_ns);
	if (conf->grace_ns)
		json_put_int(request, "grace_ns", conf->grace_ns);
	if (!rc)
		rc = request_put_settings(request, &conf->set, e);
	return rc ? rc : request_put_tracers(request, &conf->tracer, e);
}

/* ---- a series ---- */

struct member {
	char *session;
	uint64_t bytes;
	bool stays; /* it could not be deleted, and that was said */
};

struct series {
	const struct conf *conf;
	struct member *members; /* the sessions of the series that are kept; the oldest first */
	size_t n, cap;
	uint64_t bytes;
	uint64_t number; /* number of the next window, from 1 on */
	int64_t end_ns; /* end of the next window; session clock */
	int64_t due_mono_ns; /* CLOCK_MONOTONIC: the next window is over by then */
	json_t *list; /* what --json prints */
	json_t *hosts; /* name: end of the last window in which that host took part */
	int64_t hosts_ns; /* end of the last window; the first one's before there is any: then they are the connected hosts */
	int worst; /* enum exit_code */
};

/* False: the session is still there: the store is away, or it is pinned. */
static bool drop(const struct series *s, struct member *m)
{
	struct err e;

	if (!api_call_on(&s->conf->api, "DELETE", "sessions", m->session, "", NULL, &e) ||
	    e.code == ERR_NOT_FOUND)
		return true;
	if (!m->stays)
		fprintf(stderr, "tutti snapshot: %s could not be deleted yet: %s\n", m->session,
			e.msg);
	m->stays = true;
	return false;
}

/* How many of the oldest sessions are beyond --keep and --keep-total; never the last one. */
static size_t count_surplus(const struct series *s)
{
	const struct conf *conf = s->conf;
	uint64_t bytes = s->bytes;
	size_t n = 0;

	while (n + 1 < s->n && ((conf->keep && s->n - n > (size_t)conf->keep) ||
				(conf->keep_total_bytes && bytes > conf->keep_total_bytes)))
		bytes -= s->members[n++].bytes;
	return n;
}

/* Deletes what is too much. False: some could not be deleted; the next call tries them again, and they keep no other one. */
static bool enforce_retention(struct series *s)
{
	size_t surplus = count_surplus(s), left = 0;

	for (size_t i = 0; i < surplus; i++) {
		struct member m = s->members[i];

		if (drop(s, &m)) {
			s->bytes -= m.bytes;
			free(m.session);
		} else {
			s->members[left++] = m;
		}
	}
	memmove(s->members + left, s->members + surplus, (s->n - surplus) * sizeof(*s->members));
	s->n -= surplus - left;
	return !left;
}

static void add_member(struct series *s, const json_t *result)
{
	struct member m = { .session = xstrdup(json_get_text(result, "session")),
			    .bytes = (uint64_t)json_get_int(result, "bytes") };

	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 16;
		s->members = xrealloc(s->members, s->cap * sizeof(*s->members));
	}
	s->members[s->n++] = m;
	s->bytes += m.bytes;
}

static void report(struct series *s, const json_t *result)
{
	int code = result_exit_code(result);
	json_t *row = json_object();

	if (s->worst == EXIT_ALL || (s->worst == EXIT_PARTIAL && code == EXIT_NO_HOST))
		s->worst = code;
	if (!s->conf->api.json)
		printf("%" PRIu64 " %s %s: %" PRId64 " complete, %" PRId64 " partial, %" PRId64
		       " failed\n",
		       s->number, json_get_text(result, "session"), json_get_text(result, "state"),
		       json_get_int(result, "complete"), json_get_int(result, "partial"),
		       json_get_int(result, "failed"));
	fflush(stdout);
	json_put_int(row, "number", (int64_t)s->number);
	json_put_text(row, "session", json_get_text(result, "session"));
	json_put_text(row, "state", json_get_text(result, "state"));
	json_put_int(row, "t0_ns", json_get_int(result, "t0_ns"));
	json_put_int(row, "duration_ns", json_get_int(result, "duration_ns"));
	json_array_append_new(s->list, row);
}

/* A host that was away keeps the window in which it took part last. */
static void remember_hosts(struct series *s, const json_t *result)
{
	size_t i;
	json_t *host;

	json_array_foreach(json_object_get(result, "hosts"), i, host)
	{
		const char *name = json_get_text(host, "host");

		if (strcmp(json_get_text(host, "reason"), "unreachable") != 0 ||
		    !json_object_get(s->hosts, name))
			json_put_int(s->hosts, name, s->end_ns);
	}
	s->hosts_ns = s->end_ns;
}

/* The hosts of the windows before. While `waits`, those of the last one must be known; who is gone since less than FORGET_NS is
 * in the session in any case. Which of the connected hosts a selector means is known from the first window on. */
static void put_hosts(const struct series *s, json_t *request, bool waits)
{
	bool has_chosen = s->number > 1 || !strcmp(s->conf->hosts, "all");
	json_t *known = json_array(), *expected = json_array(), *seen;
	const char *name;

	json_object_foreach(s->hosts, name, seen)
	{
		if (waits && json_integer_value(seen) == s->hosts_ns)
			json_array_append_new(known, json_string(name));
		if (has_chosen && s->end_ns - json_integer_value(seen) < FORGET_NS)
			json_array_append_new(expected, json_string(name));
	}
	json_put(request, "known", known);
	json_put(request, "expected", expected);
}

/* `*capture` is the answer, a new reference. The first request of a series waits for no host: what is wrong with it is said at
 * once. */
static int ask(const struct series *s, const struct instant *end, bool again, bool waits,
	       json_t **capture, struct err *e)
{
	json_t *request = json_object();
	int rc = fill_request(request, s->conf, end, e);

	if (s->number > 1 || again)
		put_hosts(s, request, waits);
	if (!rc)
		rc = api_call(&s->conf->api, "POST", "/api/v1/snapshots", request, capture, e);
	json_decref(request);
	return rc;
}

/* A failed capture is reported if `may_fail`; else returns ERR_NOT_FOUND, and the caller tries the window
 * again. */
static int finish_one(struct series *s, const char *session, bool may_fail, struct err *e)
{
	json_t *result = NULL;
	int rc = follow_to_end(&s->conf->api, session, s->conf->patience_ns, &result, e);
	bool committed = !rc && !strcmp(json_get_text(result, "state"), "committed");

	if (!rc && !committed && !may_fail) {
		rc = err_set(e, ERR_NOT_FOUND, "%s failed: %s", session,
			     json_get_text(result, "error"));
	} else if (!rc) {
		report(s, result);
		remember_hosts(s, result);
		if (committed)
			add_member(s, result);
		enforce_retention(s);
	}
	json_decref(result);
	return rc;
}

static bool is_window(const struct series *s, const json_t *doc)
{
	const char *run = s->conf->run ? s->conf->run : "";

	return json_get_int(doc, "duration_ns") == s->conf->every_ns &&
	       json_get_int(doc, "t0_ns") + s->conf->every_ns == s->end_ns &&
	       !strcmp(json_get_text(doc, "run"), run) &&
	       strcmp(json_get_text(doc, "state"), "failed");
}

/* An aggregator may have begun the snapshot and then ended before it answered. Finds the session of that
 * snapshot among these captures; NULL if there is none. The caller frees it. */
static char *find_begun(const struct series *s, const char *kind)
{
	char *path = xasprintf("/api/v1/%s", kind), *session = NULL;
	json_t *answer = NULL, *doc;
	struct err e;
	size_t i;

	if (!api_call(&s->conf->api, "GET", path, NULL, &answer, &e)) {
		json_array_foreach(json_object_get(answer, kind), i, doc)
		{
			if (!session && is_window(s, doc))
				session = xstrdup(json_get_text(doc, "session"));
		}
	}
	json_decref(answer);
	free(path);
	return session;
}

/* A window of the series and the attempts to capture it. */
struct
try {
	/* the session of its first attempt, or NULL; later attempts continue it, so that no window becomes
	 * two sessions */
	char *session;
	/* until when an attempt needs all hosts of the window before; 0 = no attempt has failed yet */
	int64_t until_mono_ns;
};

static int attempt(struct series *s, const struct instant *end, struct try *t, struct err *e)
{
	bool again = t->until_mono_ns, waits = !again || now_mono_ns() < t->until_mono_ns;
	json_t *capture = NULL;
	int rc = 0;

	if (again && !t->session)
		t->session = find_begun(s, "captures");
	if (again && !t->session)
		t->session = find_begun(s, "sessions");
	if (!t->session)
		rc = ask(s, end, again, waits, &capture, e);
	if (capture) {
		t->session = xstrdup(json_get_text(capture, "session"));
		s->end_ns = json_get_int(capture, "t0_ns") + json_get_int(capture, "duration_ns");
	}
	json_decref(capture);
	return rc ? rc : finish_one(s, t->session, !waits, e);
}

/* Whether the aggregator may have ended, or its machine. */
static bool is_away(int rc)
{
	return rc == ERR_CLOSED || rc == ERR_TIMEOUT;
}

/* No ring has that window any more; or no host has come back, or the request is refused, for so long that it will be. */
static bool is_hopeless(const struct try *t, int rc)
{
	return rc == ERR_INVALID || (t->until_mono_ns && now_mono_ns() > t->until_mono_ns &&
				     rc != ERR_BUSY && !is_away(rc));
}

/*
 * Captures one window of the series. Waits for a restarted aggregator and for the agents to connect to it
 * again. A window that no ring has any more is left out, with a message. What is wrong with the very first request ends the
 * series. ERR_CANCELLED after SIGINT.
 */
static int take_one(struct series *s, const struct instant *end, struct err *e)
{
	struct try t = { 0 };
	int rc;

	for (;;) {
		rc = attempt(s, end, &t, e);
		if (!rc || (s->number == 1 && !t.session && !t.until_mono_ns && !is_away(rc)))
			break;
		fprintf(stderr, "tutti snapshot: number %" PRIu64 ": %s\n", s->number, e->msg);
		if (interrupt_seen()) {
			rc = err_set(e, ERR_CANCELLED, "interrupted");
			break;
		}
		if (is_hopeless(&t, rc)) {
			s->worst = EXIT_PARTIAL;
			rc = 0;
			break;
		}
		if (rc == ERR_NOT_FOUND) { /* no session was made of it */
			free(t.session);
			t.session = NULL;
		}
		if (!t.until_mono_ns || is_away(rc))
			t.until_mono_ns = now_mono_ns() + COMEBACK_NS;
		interrupt_sleep_until_mono(now_mono_ns() + RETRY_NS);
	}
	free(t.session);
	return rc;
}

/* Learns which hosts are connected: a restarted aggregator does not know. */
static int learn_fleet(struct series *s, struct err *e)
{
	json_t *answer = NULL, *host;
	size_t i;
	int rc = api_call(&s->conf->api, "GET", "/api/v1/hosts", NULL, &answer, e);

	json_array_foreach(json_object_get(answer, "hosts"), i, host)
	{
		if (!strcmp(json_get_text(host, "state"), "connected"))
			json_put_int(s->hosts, json_get_text(host, "host"), s->end_ns);
	}
	s->hosts_ns = s->end_ns;
	json_decref(answer);
	return rc;
}

/* The first window ends now, by the aggregator's clock; an instant that is known before the window is asked for lets an attempt
 * whose answer was lost be found. The others follow without a gap. */
static int take_first(struct series *s, struct err *e)
{
	json_t *answer = NULL;
	int rc = api_call(&s->conf->api, "GET", "/api/v1/captures", NULL, &answer, e);

	s->due_mono_ns = now_mono_ns();
	s->end_ns = json_get_int(answer, "now_ns");
	json_decref(answer);
	if (!rc)
		rc = learn_fleet(s, e);
	return rc ? rc : take_one(s, &(struct instant){ .unix_ns = s->end_ns }, e);
}

static int take_next(struct series *s, struct err *e)
{
	s->number++;
	s->end_ns += s->conf->every_ns;
	s->due_mono_ns += s->conf->every_ns;
	interrupt_sleep_until_mono(s->due_mono_ns + AFTER_END_NS);
	if (interrupt_seen())
		return err_set(e, ERR_CANCELLED, "interrupted");
	return take_one(s, &(struct instant){ .unix_ns = s->end_ns }, e);
}

static void print_series(const struct series *s)
{
	json_t *doc = json_object();

	json_put(doc, "snapshots", json_incref(s->list));
	api_print(doc);
	json_decref(doc);
}

static int take_series(const struct conf *conf, struct err *e)
{
	struct series s = {
		.conf = conf, .number = 1, .list = json_array(), .hosts = json_object()
	};
	int64_t last = conf->for_ns ? conf->for_ns / conf->every_ns : INT64_MAX;
	int rc;

	interrupt_catch();
	rc = take_first(&s, e);
	while (!rc && (int64_t)s.number < last)
		rc = take_next(&s, e);
	for (int i = 0; !rc && i < LAST_TRIES && !enforce_retention(&s) && !interrupt_seen(); i++)
		interrupt_sleep_until_mono(now_mono_ns() + RETRY_NS);
	if (interrupt_seen()) {
		fprintf(stderr,
			"tutti snapshot: interrupted in number %" PRIu64
			"; %zu windows have a session\n",
			s.number, json_array_size(s.list));
		rc = EXIT_INTERRUPTED;
	}
	interrupt_release();
	if (conf->api.json && rc >= 0)
		print_series(&s);
	json_decref(s.list);
	json_decref(s.hosts);
	for (size_t i = 0; i < s.n; i++)
		free(s.members[i].session);
	free(s.members);
	return rc ? rc : s.worst;
}

/* ---- the command ---- */

static int check_window(const struct conf *conf, struct err *e)
{
	if (conf->last_ns <= 0)
		return err_set(e, ERR_INVALID, "--last: use a length above 0");
	if (!conf->every_ns && (conf->for_ns || conf->keep || conf->keep_total_bytes))
		return err_set(e, ERR_INVALID,
			       "--for, --keep and --keep-total are of a series: add --every");
	if (!conf->every_ns)
		return 0;
	if (conf->every_ns < NS_PER_S)
		return err_set(e, ERR_INVALID, "--every: use 1s or more");
	if (conf->for_ns && conf->for_ns < conf->every_ns)
		return err_set(e, ERR_INVALID, "--for is shorter than --every");
	if (strcmp(conf->ending_at, "now"))
		return err_set(e, ERR_INVALID, "a series begins now: drop --ending-at");
	if (conf->keep < 0)
		return err_set(e, ERR_INVALID, "--keep %d: use 1 or more", conf->keep);
	return 0;
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	json_t *request, *capture = NULL;
	struct instant end;
	int rc = check_window(conf, e);

	(void)argc;
	(void)argv;
	if (rc)
		return rc;
	rc = instant_parse(conf->ending_at, now_real_ns(), &end, e);
	if (rc)
		return err_prefix(e, "--ending-at");
	if (conf->every_ns)
		return take_series(conf, e);
	request = json_object();
	rc = fill_request(request, conf, &end, e);
	if (!rc)
		rc = request_post(&conf->api, "snapshot", "/api/v1/snapshots", request, &capture,
				  e);
	json_decref(request);
	if (!rc)
		rc = follow_capture(&conf->api, json_get_text(capture, "session"),
				    conf->patience_ns, e);
	json_decref(capture);
	return rc;
}

const struct cmd cmd_snapshot = {
	.name = "snapshot",
	.summary = "store what all hosts' rings have of a window that is over",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
