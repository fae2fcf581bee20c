/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs for this host's own agent, through its local socket: mark, start, stop, status. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/now.h"
#include "cli/cmd.h"
#include "net/local_socket.h"
#include "proto/limits.h"
#include "proto/tutti/v1/local.pb-c.h"

#define ASK_TIMEOUT_NS (15 * NS_PER_S)

struct conf {
	char *local_socket;
	bool json;
	char *hosts;
	char *run;
	int64_t duration_ns;
	char *step;
};

#define SOCKET_FIELD \
	CONF(struct conf, local_socket, "ipc:///run/tutti/agent.ipc", "the agent's local socket")

static const struct conf_field local_fields[] = { SOCKET_FIELD, { 0 } };
static const struct conf_field mark_fields[] = {
	CONF_ONCE(struct conf, step, NULL,
		  "a training step of this number begins; TEXT is its name"),
	SOCKET_FIELD,
	{ 0 }
};
static const struct conf_field session_fields[] = {
	SOCKET_FIELD, CONF(struct conf, json, NULL, "print one JSON document on stdout"), { 0 }
};
static const struct conf_field start_fields[] = {
	CONF(struct conf, hosts, NULL, "who: all, NAME,NAME or LABEL=VALUE; without it, this host"),
	CONF(struct conf, run, NULL, "name of the run that the session belongs to"),
	CONF(struct conf, duration_ns, "10m", "end by itself after so long"),
	SOCKET_FIELD,
	CONF(struct conf, json, NULL, "print one JSON document on stdout"),
	{ 0 }
};

/* Asks and checks that the answer is a yes; `*out` is then yours. */
static int ask(const struct conf *conf, const Tutti__V1__LocalRequest *request,
	       Tutti__V1__LocalReply **out, struct err *e)
{
	size_t len = tutti__v1__local_request__get_packed_size(request);
	uint8_t *bytes = xmalloc(len);
	struct local_client *socket = NULL;
	uint8_t *answer = NULL;
	size_t answer_len;
	int rc;

	tutti__v1__local_request__pack(request, bytes);
	rc = local_dial(&socket, conf->local_socket, e);
	if (!rc)
		rc = local_ask(socket, bytes, len, ASK_TIMEOUT_NS, &answer, &answer_len, e);
	if (rc)
		goto out;
	*out = tutti__v1__local_reply__unpack(NULL, answer_len, answer);
	if (!*out) {
		rc = err_set(e, ERR_PEER, "%s: the answer makes no sense; is this an agent?",
			     conf->local_socket);
	} else if (!(*out)->ok) {
		rc = err_set(e, ERR_PEER, "%s", (*out)->detail);
		tutti__v1__local_reply__free_unpacked(*out, NULL);
	}
out:
	local_hang_up(socket);
	free(answer);
	free(bytes);
	return rc;
}

/* As annotations have it: agents read step_num there, see docs/wire.md. */
static int mark_text(const struct conf *conf, const char *word, char text[LIMIT_MARK_BYTES + 1],
		     struct err *e)
{
	int len;

	if (!conf->step && !word)
		return err_set(e, ERR_INVALID, "missing TEXT; see tutti mark --help");
	if (conf->step && (!*conf->step || strspn(conf->step, "0123456789") != strlen(conf->step)))
		return err_set(e, ERR_INVALID, "--step '%s': not a number", conf->step);
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
	int64_t here = now_raw_ns(); /* first of all: this is the instant */
	Tutti__V1__LocalRequest request = TUTTI__V1__LOCAL_REQUEST__INIT;
	Tutti__V1__LocalMark mark = TUTTI__V1__LOCAL_MARK__INIT;
	Tutti__V1__LocalReply *reply;
	char text[LIMIT_MARK_BYTES + 1];
	int rc = mark_text(arg, argc > 0 ? argv[0] : NULL, text, e);

	if (rc)
		return rc;
	mark.text = text;
	mark.raw_ns = here;
	mark.pid = (int32_t)getppid(); /* whoever ran this command is what the mark is about */
	mark.tid = mark.pid;
	request.kind_case = TUTTI__V1__LOCAL_REQUEST__KIND_MARK;
	request.mark = &mark;
	rc = ask(arg, &request, &reply, e);
	if (!rc)
		tutti__v1__local_reply__free_unpacked(reply, NULL);
	return rc;
}

static int ask_session(const struct conf *conf, const Tutti__V1__LocalRequest *request,
		       struct err *e)
{
	Tutti__V1__LocalReply *reply;
	int rc = ask(conf, request, &reply, e);

	if (rc)
		return rc;
	printf(conf->json ? "{\"session\": \"%s\"}\n" : "%s\n", reply->session);
	tutti__v1__local_reply__free_unpacked(reply, NULL);
	return EXIT_ALL;
}

static int run_start(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	Tutti__V1__LocalRequest request = TUTTI__V1__LOCAL_REQUEST__INIT;
	Tutti__V1__LocalStart start = TUTTI__V1__LOCAL_START__INIT;

	(void)argc;
	(void)argv;
	if (conf->hosts)
		start.hosts = conf->hosts;
	if (conf->run)
		start.run = conf->run;
	start.duration_ns = conf->duration_ns;
	request.kind_case = TUTTI__V1__LOCAL_REQUEST__KIND_START;
	request.start = &start;
	return ask_session(conf, &request, e);
}

static int run_stop(const void *arg, int argc, char **argv, struct err *e)
{
	Tutti__V1__LocalRequest request = TUTTI__V1__LOCAL_REQUEST__INIT;
	Tutti__V1__LocalStop stop = TUTTI__V1__LOCAL_STOP__INIT;

	(void)argc;
	stop.session = argv[0];
	request.kind_case = TUTTI__V1__LOCAL_REQUEST__KIND_STOP;
	request.stop = &stop;
	return ask_session(arg, &request, e);
}

static int run_status(const void *arg, int argc, char **argv, struct err *e)
{
	Tutti__V1__LocalRequest request = TUTTI__V1__LOCAL_REQUEST__INIT;
	Tutti__V1__LocalStatus status = TUTTI__V1__LOCAL_STATUS__INIT;
	Tutti__V1__LocalReply *reply;
	int rc;

	(void)argc;
	(void)argv;
	request.kind_case = TUTTI__V1__LOCAL_REQUEST__KIND_STATUS;
	request.status = &status;
	rc = ask(arg, &request, &reply, e);
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
	.summary = "begin a capture from this host; prints the session",
	.fields = start_fields,
	.conf_size = sizeof(struct conf),
	.run = run_start,
};

const struct cmd cmd_stop = {
	.name = "stop",
	.args = "SESSION",
	.min_args = 1,
	.max_args = 1,
	.summary = "end a capture that `start` began; the data is kept",
	.fields = session_fields,
	.conf_size = sizeof(struct conf),
	.run = run_stop,
};

const struct cmd cmd_status = {
	.name = "status",
	.summary = "what this host's agent is doing, as JSON",
	.fields = local_fields,
	.conf_size = sizeof(struct conf),
	.run = run_status,
};
