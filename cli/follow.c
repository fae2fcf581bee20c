/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/follow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/now.h"
#include "cli/interrupt.h"
#include "cli/result.h"
#include "proto/limits.h"

#define AGAIN_NS (500 * NS_PER_MS)
#define AWAY_NS	 (10 * NS_PER_S) /* an aggregator that restarts is back by then */
#define TAKEN_NS (60 * NS_PER_S) /* another one has taken over by then */
#define GRACES	 10 /* a capture whose hosts wait for each other goes on for so many graces */

/* On a terminal: one line that is redrawn. Else: one line per change. */
struct progress {
	bool tty;
	char last[320];
};

static void queue_line(const json_t *capture, char *line, size_t size)
{
	snprintf(line, size, "%s: queued, number %d, waits for %s",
		 json_get_text(capture, "session"), (int)json_get_int(capture, "position"),
		 json_get_text(capture, "waits_for"));
}

static void state_line(const json_t *capture, char *line, size_t size)
{
	const json_t *hosts = json_object_get(capture, "hosts");
	size_t over = (size_t)(json_get_int(capture, "complete") +
			       json_get_int(capture, "partial") + json_get_int(capture, "failed"));
	char bytes[16];

	human_bytes(json_get_int(capture, "bytes"), bytes);
	snprintf(line, size, "%s: %s, %zu of %zu hosts done (%d failed), %s",
		 json_get_text(capture, "session"), json_get_text(capture, "state"), over,
		 json_array_size(hosts), (int)json_get_int(capture, "failed"), bytes);
}

static void show_progress(struct progress *p, const json_t *capture)
{
	bool queued = !strcmp(json_get_text(capture, "state"), "queued");
	char line[sizeof(p->last)];

	if (queued)
		queue_line(capture, line, sizeof(line));
	else
		state_line(capture, line, sizeof(line));
	if (!strcmp(line, p->last))
		return;
	snprintf(p->last, sizeof(p->last), "%s", line);
	fprintf(stderr, p->tty ? "\r\033[K%s" : "%s\n", line);
}

struct follow {
	struct progress progress;
	json_t *last;
	const char *session;
	int64_t patience_ns;
	int64_t changed_mono_ns; /* when the last event came */
	int64_t away_mono_ns; /* when the stream ended too soon, with no event since; or 0 */
	bool has_given_up; /* nothing has changed for too long */
};

static int on_event(void *arg, const char *event, json_t *data)
{
	struct follow *f = arg;
	const char *state = json_get_text(data, "state");

	if (strcmp(event, "capture"))
		return 0;
	json_decref(f->last);
	f->last = json_incref(data);
	f->changed_mono_ns = now_mono_ns();
	f->away_mono_ns = 0;
	show_progress(&f->progress, data);
	return !strcmp(state, "committed") || !strcmp(state, "failed");
}

static int64_t get_time(const json_t *capture, const char *key, int64_t max_ns)
{
	int64_t ns = json_get_int(capture, key);

	return ns < 0 ? 0 : ns > max_ns ? max_ns : ns;
}

/* How long nothing may change until the aggregator itself ends the capture: docs/wire.md, Grace. A capture in the
 * queue has no such time: the aggregator ends its waiting by queued_until_ns. */
static int64_t longest_calm(const json_t *capture)
{
	if (!strcmp(json_get_text(capture, "state"), "queued"))
		return INT64_MAX / 2;
	if (!strcmp(json_get_text(capture, "state"), "committing"))
		return 0;
	return get_time(capture, "lead_ns", LIMIT_DURATION_NS) +
	       get_time(capture, "duration_ns", LIMIT_DURATION_NS) +
	       GRACES * get_time(capture, "grace_ns", LIMIT_GRACE_NS / GRACES);
}

static bool has_ended(const json_t *host)
{
	const char *state = json_get_text(host, "state");

	return !strcmp(state, "complete") || !strcmp(state, "partial") || !strcmp(state, "failed");
}

/* "host-1 (uploading, 3 of 12 bytes) and 2 more hosts" */
static void describe_missing(const json_t *capture, char *out, size_t size)
{
	const json_t *first = NULL;
	size_t i, missing = 0;
	json_t *host;

	json_array_foreach(json_object_get(capture, "hosts"), i, host)
	{
		if (has_ended(host))
			continue;
		if (!missing++)
			first = host;
	}
	if (!first)
		snprintf(out, size, "the store%s%s", *json_get_text(capture, "error") ? ": " : "",
			 json_get_text(capture, "error"));
	else
		snprintf(out, size, "%s (%s, %" PRId64 " of %" PRId64 " bytes)%s",
			 json_get_text(first, "host"), json_get_text(first, "state"),
			 json_get_int(first, "bytes_done"), json_get_int(first, "bytes"),
			 missing > 1 ? " and others" : "");
}

static int on_waiting(void *arg, struct err *e)
{
	struct follow *f = arg;
	int64_t calm_ns = now_mono_ns() - f->changed_mono_ns;
	char missing[400] = "the aggregator's first word of it";

	if (interrupt_seen())
		return err_set(e, ERR_CANCELLED,
			       "%s goes on without this command. tutti show %s: what became of it; "
			       "tutti stop %s: keep what is recorded; tutti cancel %s: drop it",
			       f->session, f->session, f->session, f->session);
	if (calm_ns < (f->last ? longest_calm(f->last) : 0) + f->patience_ns)
		return 0;
	if (f->last)
		describe_missing(f->last, missing, sizeof(missing));
	f->has_given_up = true;
	return err_set(e, ERR_TIMEOUT,
		       "%s: nothing has changed for %" PRId64 " s: it is %s and waits for %s. It "
		       "goes on without this command: tutti show %s",
		       f->session, calm_ns / NS_PER_S,
		       f->last ? json_get_text(f->last, "state") : "unknown", missing, f->session);
}

/* Whether to open the stream again, after one that began at `began_ns`. Only a proxy may have cut it, or stopped to forward it; or the
 * aggregator restarts. What counts is when it began: a proxy that forwards nothing is found out later than an aggregator is back. */
static bool is_worth_again(struct follow *f, const struct api_conf *api, int rc, int64_t began_ns)
{
	if ((rc != ERR_CLOSED && rc != ERR_TIMEOUT && rc != ERR_PEER) || f->has_given_up)
		return false;
	if (!f->away_mono_ns)
		f->away_mono_ns = now_mono_ns();
	return began_ns - f->away_mono_ns < (api_has_several(api) ? TAKEN_NS : AWAY_NS);
}

/* Each stream begins with the capture as it is: nothing is lost between two of them. */
static int read_events(const struct api_conf *api, struct follow *f, struct err *e)
{
	char *path = xasprintf("/api/v1/captures/%s/events", f->session);
	int64_t began_ns = now_mono_ns();
	int rc = api_events(api, path, on_event, on_waiting, f, e);

	while (is_worth_again(f, api, rc, began_ns)) {
		now_sleep_until_mono(now_mono_ns() + AGAIN_NS);
		began_ns = now_mono_ns();
		api_choose(api);
		rc = api_events(api, path, on_event, on_waiting, f, e);
	}
	free(path);
	return rc;
}

static bool is_committed(const json_t *capture)
{
	return !strcmp(json_get_text(capture, "state"), "committed");
}

int follow_to_end(const struct api_conf *api, const char *session, int64_t patience_ns,
		  json_t **out, struct err *e)
{
	struct follow f = {
		.progress = { .tty = isatty(STDERR_FILENO) },
		.session = session,
		.patience_ns = patience_ns,
		.changed_mono_ns = now_mono_ns(),
	};
	int rc = read_events(api, &f, e);

	if (f.progress.tty && f.last)
		fputc('\n', stderr);
	if (!rc && !f.last)
		rc = err_set(e, ERR_PEER, "the aggregator sent no more events of %s", session);
	/* A restarted aggregator does not know a capture that is committed, only its session. One that is deleted at once was
	 * there nevertheless. */
	*out = NULL;
	if (rc == ERR_NOT_FOUND || (!rc && is_committed(f.last)))
		rc = api_call_on(api, "GET", "sessions", session, "", out, e);
	if (rc == ERR_NOT_FOUND && f.last && is_committed(f.last))
		rc = 0;
	if (!rc && !*out)
		*out = json_incref(f.last);
	json_decref(f.last);
	return rc;
}

int follow_capture(const struct api_conf *api, const char *session, int64_t patience_ns,
		   struct err *e)
{
	json_t *result = NULL;
	int rc;

	interrupt_catch();
	rc = follow_to_end(api, session, patience_ns, &result, e);
	interrupt_release();
	if (!rc) {
		result_print_text(api, result);
		rc = result_exit_code(result);
	}
	json_decref(result);
	return rc;
}
