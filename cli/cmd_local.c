/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs for this host's own agent, over its local socket: mark, start, status. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/now.h"
#include "base/secret.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/local.h"
#include "proto/limits.h"

struct conf {
	char *local_socket;
	bool json;
	char *hosts;
	char *run;
	int64_t duration_ns;
	char *step;
	char *token_file;
};

#define SOCKET_FIELD \
	CONF(struct conf, local_socket, "ipc:///run/tutti/agent.ipc", "the agent's local socket")

static const struct conf_field local_fields[] = { SOCKET_FIELD, { 0 } };
static const struct conf_field mark_fields[] = {
	CONF_ONCE(struct conf, step, NULL,
		  "mark the begin of the training step with this number; TEXT is its name"),
	SOCKET_FIELD,
	{ 0 }
};
static const struct conf_field start_fields[] = {
	CONF(struct conf, hosts, NULL,
	     "hosts to capture: a selector (docs/selectors.md); without it, this host"),
	CONF(struct conf, run, NULL, "name of the run that the session belongs to"),
	CONF(struct conf, duration_ns, "10m", "end by itself after this time"),
	CONF(struct conf, token_file, NULL,
	     "file with the aggregator's token, which other hosts than this one need"),
	SOCKET_FIELD,
	CONF(struct conf, json, NULL, "print one JSON document on stdout"),
	{ 0 }
};

static bool is_step(const char *text)
{
	char *end;

	errno = 0;
	return isdigit((unsigned char)*text) && strtoll(text, &end, 10) <= LIMIT_STEP && !*end &&
	       !errno;
}

/* The step is metadata at the end of the text, as in annotations (docs/wire.md, Training steps). */
static int mark_text(const struct conf *conf, const char *word, char text[LIMIT_MARK_BYTES + 1],
		     struct err *e)
{
	int len;

	if (!conf->step && !word)
		return err_set(e, ERR_INVALID, "missing TEXT; see tutti mark --help");
	if (conf->step && !is_step(conf->step))
		return err_set(e, ERR_INVALID, "--step '%s': not a number from 0 to %lld",
			       conf->step, LIMIT_STEP);
	if (conf->step)
		len = snprintf(text, LIMIT_MARK_BYTES + 1, "%s#step_num=%s#", word ? word : "train",
			       conf->step);
	else
		len = snprintf(text, LIMIT_MARK_BYTES + 1, "%s", word);
	if (len > LIMIT_MARK_BYTES)
		return err_set(e, ERR_INVALID, "the text is longer than %d bytes",
			       LIMIT_MARK_BYTES);
	return 0;
}

static int run_mark(const void *arg, int argc, char **argv, struct err *e)
{
	int64_t instant_ns = now_raw_ns(); /* the time is read first, so that it is exact */
	const struct conf *conf = arg;
	Tutti__V1__LocalRequest request = TUTTI__V1__LOCAL_REQUEST__INIT;
	Tutti__V1__LocalMark mark = TUTTI__V1__LOCAL_MARK__INIT;
	Tutti__V1__LocalReply *reply;
	char text[LIMIT_MARK_BYTES + 1];
	int rc = mark_text(conf, argc > 0 ? argv[0] : NULL, text, e);

	if (rc)
		return rc;
	mark.text = text;
	mark.raw_ns = instant_ns;
	mark.pid = (int32_t)getppid(); /* the mark belongs to the process that ran this command */
	mark.tid = mark.pid;
	request.kind_case = TUTTI__V1__LOCAL_REQUEST__KIND_MARK;
	request.mark = &mark;
	rc = local_call(conf->local_socket, &request, &reply, e);
	if (!rc)
		tutti__v1__local_reply__free_unpacked(reply, NULL);
	return rc;
}

static int run_start(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	Tutti__V1__LocalRequest request = TUTTI__V1__LOCAL_REQUEST__INIT;
	Tutti__V1__LocalStart start = TUTTI__V1__LOCAL_START__INIT;
	Tutti__V1__LocalReply *reply;
	char *token = NULL;
	json_t *doc;
	int rc;

	(void)argc;
	(void)argv;
	if (conf->hosts)
		start.hosts = conf->hosts;
	if (conf->run)
		start.run = conf->run;
	if (conf->token_file && *conf->token_file) {
		rc = secret_load(&token, conf->token_file, e);
		if (rc)
			return rc;
		start.token = token;
	}
	start.duration_ns = conf->duration_ns;
	request.kind_case = TUTTI__V1__LOCAL_REQUEST__KIND_START;
	request.start = &start;
	rc = local_call(conf->local_socket, &request, &reply, e);
	secret_free(token);
	if (rc)
		return rc;
	if (conf->json) {
		doc = json_object();
		json_put_text(doc, "session", reply->session);
		api_print(doc);
		json_decref(doc);
	} else {
		puts(reply->session);
	}
	tutti__v1__local_reply__free_unpacked(reply, NULL);
	return EXIT_ALL;
}

static int run_status(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	Tutti__V1__LocalRequest request = TUTTI__V1__LOCAL_REQUEST__INIT;
	Tutti__V1__LocalStatus status = TUTTI__V1__LOCAL_STATUS__INIT;
	Tutti__V1__LocalReply *reply;
	int rc;

	(void)argc;
	(void)argv;
	request.kind_case = TUTTI__V1__LOCAL_REQUEST__KIND_STATUS;
	request.status = &status;
	rc = local_call(conf->local_socket, &request, &reply, e);
	if (rc)
		return rc;
	puts(reply->json);
	tutti__v1__local_reply__free_unpacked(reply, NULL);
	return EXIT_ALL;
}

const struct cmd cmd_mark = {
	.name = "mark",
	.args = "TEXT",
	.min_args = 0,
	.max_args = 1,
	.summary = "put an instant event on this host's timeline, now",
	.fields = mark_fields,
	.conf_size = sizeof(struct conf),
	.run = run_mark,
};

const struct cmd cmd_start = {
	.name = "start",
	.summary = "begin a capture from this host, which `stop` ends; prints the session",
	.fields = start_fields,
	.conf_size = sizeof(struct conf),
	.run = run_start,
};

const struct cmd cmd_status = {
	.name = "status",
	.summary = "print the state of this host's agent, as JSON",
	.fields = local_fields,
	.conf_size = sizeof(struct conf),
	.run = run_status,
};
