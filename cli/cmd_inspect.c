/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clean_text.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/follow.h"
#include "cli/inspect_command.h"
#include "cli/inspect_daemons.h"
#include "cli/request.h"
#include "cli/result.h"
#include "proto/limits.h"

#define READY_NS     (30 * NS_PER_S) /* longest time until the agent takes part */
#define CALIBRATE_NS (5 * NS_PER_S) /* of it, for measuring its clock */
#define LOOK_NS	     (20 * NS_PER_MS)
#define GRACE_NS     (60 * NS_PER_S)

/* PyTorch must be told beforehand how long to record, except where a hook ends the recording: it records pieces of 10 s. */
#define PIECES "pytorch.piece_s", "10"

struct conf {
	char *output;
	char *run;
	struct conf_list set;
	bool json;
};

static const struct conf_field fields[] = {
	CONF_ONCE(struct conf, output, "tutti-inspect", "folder for sessions"),
	CONF_ONCE(struct conf, run, NULL, "name of the run that the session belongs to"),
	CONF_ONCE(struct conf, set, NULL,
		  "KEY=VALUE for the tracers, like pytorch.open_s=60, pytorch.piece_s=30: PyTorch "
		  "records in "
		  "pieces of so many seconds, Python programs and others; 30 and 10 without it"),
	CONF_ONCE(struct conf, json, NULL,
		  "print the session as one JSON document on stdout, behind the command's output"),
	{ 0 }
};

struct inspection {
	const struct conf *conf;
	struct api_conf api; /* of the own aggregator */
	struct daemons daemons;
	struct command command;
	char *session; /* the capture under way; NULL = none */
	int64_t t0_ns;
	bool is_lost; /* it failed: the daemons' logs stay */
};

static void say(const char *text)
{
	char clean[sizeof(((struct err *)0)->msg)];

	clean_text(clean, sizeof(clean), text, strlen(text));
	fprintf(stderr, "tutti inspect: %s\n", clean);
}

/* ---- the capture ---- */

/* What the aggregator says about inspect's own agent, a new reference; NULL = nothing yet. */
static json_t *find_host(const struct inspection *in)
{
	json_t *hosts = NULL, *host;

	if (api_call(&in->api, "GET", "/api/v1/hosts", NULL, &hosts, NULL))
		return NULL;
	host = json_incref(json_array_get(json_object_get(hosts, "hosts"), 0));
	json_decref(hosts);
	return host;
}

/* Waits until the agent takes part in captures, and up to CALIBRATE_NS for its clock to be calibrated. */
static int wait_for_host(const struct inspection *in, struct err *e)
{
	int64_t begin_ns = now_mono_ns();

	for (;;) {
		json_t *host = find_host(in);
		bool connected = !strcmp(json_get_text(host, "state"), "connected");
		bool calibrated = json_get_bool(json_object_get(host, "clock"), "calibrated");

		json_decref(host);
		if (connected && (calibrated || now_mono_ns() - begin_ns > CALIBRATE_NS))
			return 0;
		if (now_mono_ns() - begin_ns > READY_NS)
			return err_set(e, ERR_TIMEOUT,
				       "its agent does not connect; the logs are in %s",
				       in->daemons.folder.path);
		now_sleep_until_mono(now_mono_ns() + LOOK_NS);
	}
}

static void put_default(json_t *settings, const char *name, const char *value)
{
	if (!json_object_get(settings, name))
		json_put_text(settings, name, value);
}

static int make_request(const struct conf *conf, json_t **out, struct err *e)
{
	json_t *request = json_object();
	int rc = request_put_settings(request, &conf->set, e);

	put_default(json_object_get(request, "settings"), PIECES);
	json_put(request, "duration_ns", json_integer(LIMIT_DURATION_NS));
	json_put(request, "grace_ns", json_integer(GRACE_NS));
	if (!rc && conf->run)
		rc = request_put_text(request, "run", "--run", conf->run, e);
	if (rc)
		json_decref(request);
	else
		*out = request;
	return rc;
}

/* Until the window has begun, and the agent records it. `*failed`: it did not answer in time, as on a busy machine. */
static int wait_for_window(const struct inspection *in, int64_t until_ns, bool *failed,
			   struct err *e)
{
	for (;;) {
		json_t *capture = NULL, *host;
		bool running;
		int rc = api_call_on(&in->api, "GET", "captures", in->session, "", &capture, e);

		host = json_array_get(json_object_get(capture, "hosts"), 0);
		running = !strcmp(json_get_text(capture, "state"), "running") &&
			  strcmp(json_get_text(host, "state"), "arming") != 0;
		*failed = !strcmp(json_get_text(capture, "state"), "failed") ||
			  !strcmp(json_get_text(host, "state"), "failed");
		json_decref(capture);
		if (rc || running || *failed)
			return rc;
		if (now_mono_ns() > until_ns)
			return err_set(e, ERR_TIMEOUT, "the window of %s does not begin",
				       in->session);
		now_sleep_until_mono(now_mono_ns() + LOOK_NS);
	}
}

static int try_capture(struct inspection *in, const json_t *request, int64_t until_ns, bool *failed,
		       struct err *e)
{
	json_t *capture = NULL;
	int rc = api_call(&in->api, "POST", "/api/v1/captures", request, &capture, e);

	free(in->session);
	in->session = NULL;
	if (!rc) {
		in->session = xstrdup(json_get_text(capture, "session"));
		in->t0_ns = json_get_int(capture, "t0_ns");
		rc = wait_for_window(in, until_ns, failed, e);
	}
	json_decref(capture);
	return rc;
}

/* A session that begins, and ends with the command. */
static int begin_capture(struct inspection *in, struct err *e)
{
	int64_t until_ns = now_mono_ns() + READY_NS;
	json_t *request = NULL;
	bool failed = true;
	int rc = make_request(in->conf, &request, e);

	while (!rc && failed && now_mono_ns() < until_ns)
		rc = try_capture(in, request, until_ns, &failed, e);
	if (!rc && failed)
		rc = err_set(e, ERR_TIMEOUT,
			     "its agent does not begin to record; the logs are in %s",
			     in->daemons.folder.path);
	json_decref(request);
	return rc;
}

static void cancel_capture(struct inspection *in)
{
	json_t *end = NULL;

	if (!in->session)
		return;
	if (!api_call_on(&in->api, "DELETE", "captures", in->session, "", NULL, NULL) &&
	    !follow_to_end(&in->api, in->session, FOLLOW_PATIENCE_NS, &end, NULL))
		json_decref(end);
}

/* ---- the run ---- */

/* The folder for sessions: made where it is missing, and checked before anything begins. */
static int make_output(const char *path, struct err *e)
{
	struct stat st;
	int rc = file_make_folders(path, 0777, 0777, e);

	if (rc)
		return rc;
	if (stat(path, &st))
		return err_errno(e, "-o %s", path);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ERR_EXISTS, "-o %s is no folder", path);
	return access(path, W_OK | X_OK) ? err_errno(e, "-o %s, the folder for sessions", path) : 0;
}

/* Returns an enum exit_code of inspect, and the sentence; 0: the command runs. */
static int begin(struct inspection *in, struct err *e)
{
	int sig, rc = command_check(&in->command, e);

	if (rc)
		return rc;
	command_hold_signals();
	rc = make_output(in->conf->output, e);
	if (!rc) {
		char *store = realpath(in->conf->output, NULL);

		rc = store ? daemons_start(&in->daemons, store, e)
			   : err_errno(e, "%s", in->conf->output);
		free(store);
		in->is_lost = rc != 0;
	}
	in->api.server = in->daemons.server;
	if (!rc)
		rc = wait_for_host(in, e);
	if (!rc)
		rc = begin_capture(in, e);
	if (rc)
		return rc == ERR_INVALID ? EXIT_USAGE : EXIT_INSPECT;
	sig = command_pending_signal();
	if (sig) {
		err_set(e, ERR_CANCELLED, "ended by a signal before the command began");
		return EXIT_SIGNAL + sig;
	}
	command_set_environment(&in->daemons);
	return command_start(&in->command, e);
}

static void say_what_is_left(const struct inspection *in)
{
	int left = command_count_left(&in->daemons);

	if (left)
		fprintf(stderr,
			"tutti inspect: the command has ended; %d of its processes still run, and "
			"are "
			"recorded until now\n",
			left);
}

static bool is_over(const struct inspection *in)
{
	return now_real_ns() - in->t0_ns >= LIMIT_DURATION_NS;
}

/* `*session` is the manifest, or the capture that failed. */
static int end_capture(struct inspection *in, json_t **session, struct err *e)
{
	int rc = 0;

	if (is_over(in))
		say("a session has an hour at most: what the command did later is not recorded");
	else
		rc = api_call_on(&in->api, "POST", "captures", in->session, "/stop", NULL, e);
	return rc ? rc : follow_to_end(&in->api, in->session, FOLLOW_PATIENCE_NS, session, e);
}

static void print_session(const struct inspection *in, const json_t *session)
{
	if (in->conf->json)
		api_print(session);
	result_print(session, stderr);
	if (result_exit_code(session) != EXIT_NO_HOST)
		fprintf(stderr, "open it: xprof --logdir %s/profiles\n", in->conf->output);
}

static void run_to_end(struct inspection *in)
{
	const char *daemon = command_wait(&in->command, &in->daemons);
	json_t *session = NULL;
	struct err e = { 0 };

	command_let_signals_end(&in->daemons);
	say_what_is_left(in);
	if (daemon)
		err_set(&e, ERR_CLOSED, "%s ended before the command", daemon);
	else if (!end_capture(in, &session, &e))
		print_session(in, session);
	if (!session) {
		in->is_lost = true;
		fprintf(stderr, "tutti inspect: the recording is lost: %s; the logs are in %s\n",
			e.msg, in->daemons.folder.path);
	}
	json_decref(session);
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	struct inspection in = { .conf = arg };
	int code;

	in.command.argv = xcalloc((size_t)argc + 1, sizeof(*argv));
	memcpy(in.command.argv, argv, (size_t)argc * sizeof(*argv));
	code = begin(&in, e);
	if (code) {
		say(e->msg);
		cancel_capture(&in);
	} else {
		run_to_end(&in);
		code = command_exit_code(&in.command);
	}
	daemons_end(&in.daemons, in.is_lost);
	free(in.session);
	free(in.command.argv);
	return code;
}

const struct cmd cmd_inspect = {
	.name = "inspect",
	.args = "-- COMMAND [ARGUMENTS]",
	.min_args = 1,
	.max_args = INT_MAX,
	.runs_command = true,
	.summary = "run a command and record this host from its start to its end",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
