/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/reach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/context.h"

#define SERVER "--server"

/* The value of a flag in either form, NULL if it is not given; `*at` is where it stands. */
static const char *find_flag(int argc, char **argv, const char *flag, int *at)
{
	size_t len = strlen(flag);

	for (*at = 0; *at < argc; ++*at) {
		const char *word = argv[*at];

		if (strncmp(word, flag, len) != 0)
			continue;
		if (word[len] == '=')
			return word + len + 1;
		if (!word[len] && *at + 1 < argc)
			return argv[*at + 1];
	}
	return NULL;
}

bool calls_server(const struct cmd *cmd)
{
	for (const struct conf_field *f = cmd->fields; f && f->member; f++)
		if (!strcmp(f->member, "api.server"))
			return true;
	return false;
}

static bool asks_for_help(int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (!strcmp(argv[i], "--help"))
			return true;
	return false;
}

/* In place of the flag's value; "--server=URL" in place of both words would change their number. */
static int forward_flag(char **argv, int at, const char *value, struct forward *f, struct err *e)
{
	static char text[sizeof(f->url) + sizeof(SERVER) + 1];
	bool is_one_word = value != argv[at + 1];
	int rc = forward_begin(f, value, e);

	if (rc)
		return rc;
	if (is_one_word)
		snprintf(text, sizeof(text), SERVER "=%s", f->url);
	argv[is_one_word ? at : at + 1] = is_one_word ? text : f->url;
	return 0;
}

static int reach_context(const char *context, struct reached *r, struct err *e)
{
	int rc = context_apply(context, r->place.context, e);
	const char *server = getenv("TUTTI_SERVER");

	if (rc || !server)
		return rc;
	if (*r->place.context)
		snprintf(r->place.server, sizeof(r->place.server), "%s", server);
	if (forward_is_wanted(server)) {
		rc = forward_begin(&r->forward, server, e);
		if (!rc)
			setenv("TUTTI_SERVER", r->forward.url, 1);
	}
	return rc;
}

int reach_server(const struct cmd *cmd, int argc, char **argv, struct reached *r, struct err *e)
{
	const char *context, *server;
	int at;

	*r = (struct reached){ 0 };
	if (!calls_server(cmd) || asks_for_help(argc, argv))
		return 0;
	server = find_flag(argc, argv, SERVER, &at);
	if (server)
		return forward_is_wanted(server) ? forward_flag(argv, at, server, &r->forward, e)
						 : 0;
	context = find_flag(argc, argv, "--context", &at);
	return reach_context(context ? context : getenv("TUTTI_CONTEXT"), r, e);
}
