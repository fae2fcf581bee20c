/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/follow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/result.h"

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
};

static int on_event(void *arg, const char *event, json_t *data)
{
	struct follow *f = arg;
	const char *state = json_get_text(data, "state");

	if (strcmp(event, "capture"))
		return 0;
	json_decref(f->last);
	f->last = json_incref(data);
	show_progress(&f->progress, data);
	return !strcmp(state, "committed") || !strcmp(state, "failed");
}

int follow_to_end(const struct api_conf *api, const char *session, json_t **out, struct err *e)
{
	struct follow f = { .progress = { .tty = isatty(STDERR_FILENO) } };
	char *path = xasprintf("/api/v1/captures/%s/events", session);
	int rc = api_events(api, path, on_event, &f, e);

	free(path);
	if (f.progress.tty && f.last)
		fputc('\n', stderr);
	if (!rc && !f.last)
		rc = err_set(e, ERR_PEER, "the aggregator sent no more events of %s", session);
	/* A restarted aggregator does not know a capture that is committed, only its session. */
	if (rc == ERR_NOT_FOUND || (!rc && !strcmp(json_get_text(f.last, "state"), "committed")))
		rc = api_call_on(api, "GET", "sessions", session, "", out, e);
	else if (!rc)
		*out = json_incref(f.last);
	json_decref(f.last);
	return rc;
}

int follow_capture(const struct api_conf *api, const char *session, struct err *e)
{
	json_t *result = NULL;
	int rc = follow_to_end(api, session, &result, e);

	if (!rc) {
		result_print_text(api, result);
		rc = result_exit_code(result);
	}
	json_decref(result);
	return rc;
}
