/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean_text.h"
#include "base/mem.h"
#include "cli/cmd.h"

static const struct cmd *const commands[] = {
	&cmd_capture, &cmd_snapshot, &cmd_stop,	   &cmd_cancel, &cmd_retry, &cmd_hosts,
	&cmd_clock,   &cmd_sessions, &cmd_show,	   &cmd_delete, &cmd_pin,   &cmd_unpin,
	&cmd_export,  &cmd_fetch,    &cmd_share,   &cmd_import, &cmd_mark,  &cmd_start,
	&cmd_status,  &cmd_store,    &cmd_inspect,
};

static void usage(FILE *out)
{
	fputs("usage: tutti COMMAND [flags] [arguments]\n\n"
	      "Profiles every host of a cluster at the same instant, on one clock.\n\n",
	      out);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(out, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
	fputs("\nSee also tutti COMMAND --help. With --json, one JSON document goes to stdout.\n"
	      "Exit codes: 0 all hosts complete, 3 some, 4 none, 2 wrong usage, 1 anything else;\n"
	      "inspect: that of its command, or 125 to 127 if the command did not run.\n",
	      out);
}

static const struct cmd *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	}
	return NULL;
}

static int check_args(const struct cmd *cmd, int argc, struct err *e)
{
	if (argc < cmd->min_args)
		return err_set(e, ERR_INVALID, "missing %s; see tutti %s --help", cmd->args,
			       cmd->name);
	if (argc > cmd->max_args)
		return err_set(e, ERR_INVALID, "too many arguments; see tutti %s --help",
			       cmd->name);
	return 0;
}

/* The index of the first "--", behind which no argument is a flag. */
static int find_flags_end(int argc, char **argv)
{
	int i = 0;

	while (i < argc && strcmp(argv[i], "--") != 0)
		i++;
	return i;
}

/* -o is the only short flag, because it is common. */
static void expand_short_flags(int argc, char **argv)
{
	static char output[] = "--output";

	for (int i = 0; i < argc; i++) {
		if (!strcmp(argv[i], "-o"))
			argv[i] = output;
	}
}

static int run_command(const struct cmd *cmd, int argc, char **argv, struct err *e)
{
	char *prog = xasprintf("tutti %s", cmd->name);
	const struct conf_table table = {
		.prog = prog, .args = cmd->args, .summary = cmd->summary, .fields = cmd->fields
	};
	void *conf = xcalloc(1, cmd->conf_size);
	int flags_end = find_flags_end(argc, argv);
	bool has_command = flags_end < argc;
	enum conf_action action;
	int rc;

	expand_short_flags(flags_end, argv);
	rc = conf_load(conf, &table, &argc, argv, &action, e);
	if (!rc && action == CONF_RUN && cmd->runs_command && argc && !has_command)
		rc = err_set(e, ERR_INVALID, "put -- before the command: tutti %s %s", cmd->name,
			     cmd->args);
	if (!rc && action == CONF_HELP)
		conf_help(&table, stdout);
	else if (!rc && action == CONF_PRINT)
		conf_print(conf, &table, stdout);
	else if (!rc && !(rc = check_args(cmd, argc, e)))
		rc = cmd->run(conf, argc, argv, e);
	conf_release(conf, &table);
	free(conf);
	free(prog);
	return rc;
}

int main(int argc, char **argv)
{
	struct err e = { 0 };
	char sentence[sizeof(e.msg)];
	const struct cmd *cmd;
	int rc;

	if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") ||
	    !strcmp(argv[1], "help")) {
		usage(argc < 2 ? stderr : stdout);
		return argc < 2 ? EXIT_USAGE : EXIT_ALL;
	}
	if (!strcmp(argv[1], "--version")) {
		puts("tutti " TUTTI_VERSION);
		return EXIT_ALL;
	}
	cmd = find_command(argv[1]);
	if (!cmd) {
		fprintf(stderr, "tutti: unknown command '%s'; see tutti --help\n", argv[1]);
		return EXIT_USAGE;
	}
	rc = run_command(cmd, argc - 2, argv + 2, &e);
	if (rc >= 0)
		return rc;
	clean_text(sentence, sizeof(sentence), e.msg, strlen(e.msg));
	fprintf(stderr, "tutti %s: %s\n", cmd->name, sentence);
	return rc == ERR_INVALID ? EXIT_USAGE : EXIT_OTHER;
}
