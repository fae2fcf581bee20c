/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/reach.h"

#include <stdbool.h>
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

static bool calls_server(const struct cmd *cmd, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (!strcmp(argv[i], "--help"))
			return false;
	for (const struct conf_field *f = cmd->fields; f && f->member; f++)
		if (!strcmp(f->member, "api.server"))
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

int reach_server(const struct cmd *cmd, int argc, char **argv, struct forward *f, struct err *e)
{
	const char *context, *server;
	int at, rc;

	*f = (struct forward){ 0 };
	if (!calls_server(cmd, argc, argv))
		return 0;
	server = find_flag(argc, argv, SERVER, &at);
	if (server)
		return forward_is_wanted(server) ? forward_flag(argv, at, server, f, e) : 0;
	context = find_flag(argc, argv, "--context", &at);
	if (!context)
		context = getenv("TUTTI_CONTEXT");
	rc = context_apply(context, e);
	server = getenv("TUTTI_SERVER");
	if (!rc && server && forward_is_wanted(server)) {
		rc = forward_begin(f, server, e);
		if (!rc)
			setenv("TUTTI_SERVER", f->url, 1);
	}
	return rc;
}
