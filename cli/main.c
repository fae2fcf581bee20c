/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean_text.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/nearest.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/reach.h"

static const struct cmd *const commands[] = {
	&cmd_capture, &cmd_snapshot, &cmd_stop,	   &cmd_cancel,	 &cmd_retry,  &cmd_hosts,
	&cmd_clock,   &cmd_sessions, &cmd_show,	   &cmd_delete,	 &cmd_pin,    &cmd_unpin,
	&cmd_export,  &cmd_fetch,    &cmd_share,   &cmd_import,	 &cmd_mark,   &cmd_start,
	&cmd_status,  &cmd_store,    &cmd_audit,   &cmd_inspect, &cmd_pods,   &cmd_jobs,
	&cmd_doctor,  &cmd_context,  &cmd_connect, &cmd_login,	 &cmd_logout, &cmd_token,
	&cmd_revoke,
};

static void usage(FILE *out)
{
	fputs("usage: tutti COMMAND [flags] [arguments]\n\n"
	      "Profiles every host of a cluster at the same instant, on one clock.\n\n",
	      out);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(out, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
	fputs("\nSee also tutti COMMAND --help. With --json, a command prints one JSON document, "
	      "of an error, too.\n"
	      "Short forms: -d --duration, -H --hosts, -o --output, -h --help.\n"
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

/* The field of this name, which may be one of struct api_conf; NULL if the verb has none. */
static const struct conf_field *find_field(const struct cmd *cmd, const char *name)
{
	for (const struct conf_field *f = cmd->fields; f && f->member; f++) {
		const char *dot = strchr(f->member, '.');

		if (!strcmp(dot ? dot + 1 : f->member, name))
			return f;
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

/* Short forms of the flags that are typed most. */
static void expand_short_flags(int argc, char **argv)
{
	static struct {
		const char *brief;
		char full[12];
	} forms[] = { { "-d", "--duration" },
		      { "-H", "--hosts" },
		      { "-h", "--help" },
		      { "-o", "--output" } };

	for (int i = 0; i < argc; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(forms); k++) {
			if (!strcmp(argv[i], forms[k].brief))
				argv[i] = forms[k].full;
		}
	}
}

static int call(const struct cmd *cmd, void *conf, int argc, char **argv, struct err *e)
{
	if (calls_server(cmd))
		api_choose(conf);
	return cmd->run(conf, argc, argv, e);
}

/* `*json` becomes true if the loaded settings, which may be those of a file, ask for JSON. */
static int run_command(const struct cmd *cmd, int argc, char **argv, bool *json, struct err *e)
{
	const struct conf_field *json_field = find_field(cmd, "json");
	char *prog = xasprintf("tutti %s", cmd->name);
	const struct conf_table table = {
		.prog = prog, .args = cmd->args, .summary = cmd->summary, .fields = cmd->fields
	};
	void *conf = xcalloc(1, cmd->conf_size);
	int flags_end = find_flags_end(argc, argv);
	bool has_command = flags_end < argc;
	enum conf_action action;
	struct reached reached;
	int rc;

	expand_short_flags(flags_end, argv);
	rc = reach_server(cmd, flags_end, argv, &reached, e);
	if (rc)
		goto out;
	rc = conf_load(conf, &table, &argc, argv, &action, e);
	if (!rc && json_field && *(const bool *)((const char *)conf + json_field->offset))
		*json = true;
	if (calls_server(cmd))
		((struct api_conf *)conf)->place = &reached.place;
	if (!rc && action == CONF_RUN && cmd->runs_command && argc && !has_command)
		rc = err_set(e, ERR_INVALID, "put -- before the command: tutti %s %s", cmd->name,
			     cmd->args);
	if (!rc && action == CONF_HELP)
		conf_help(&table, stdout);
	else if (!rc && action == CONF_PRINT)
		conf_print(conf, &table, stdout);
	else if (!rc && !(rc = check_args(cmd, argc, e)))
		rc = call(cmd, conf, argc, argv, e);
	conf_release(conf, &table);
	forward_end(&reached.forward);
out:
	free(conf);
	free(prog);
	return rc;
}

/* ---- before the verb ---- */

static const struct conf_field *find_api_field(const char *flag)
{
	size_t len = strcspn(flag, "=");

	for (const struct conf_field *f = api_fields; f->member; f++) {
		const char *name = strchr(f->member, '.') + 1;
		size_t i = 0;

		while (i < len && (name[i] == flag[i] || (name[i] == '_' && flag[i] == '-')))
			i++;
		if (i == len && !name[i])
			return f;
	}
	return NULL;
}

/* The flags of all verbs that call the aggregator may stand before the verb, too: moves the verb to argv[1]. */
static int find_verb(int argc, char **argv, struct err *e)
{
	int verb = 1;
	char *name;

	while (verb < argc && !strncmp(argv[verb], "--", 2)) {
		const struct conf_field *f = find_api_field(argv[verb] + 2);

		if (!f)
			return err_set(e, ERR_INVALID,
				       "unknown flag '%s' before the command; see tutti --help",
				       argv[verb]);
		verb += f->kind == CONF_BOOL || strchr(argv[verb], '=') ? 1 : 2;
	}
	if (verb >= argc)
		return err_set(e, ERR_INVALID, "there is no command; see tutti --help");
	name = argv[verb];
	memmove(&argv[2], &argv[1], (size_t)(verb - 1) * sizeof(*argv));
	argv[1] = name;
	return 0;
}

static int find_command_of(const char *name, const struct cmd **out, struct err *e)
{
	struct nearest n = nearest_to(name);

	*out = find_command(name);
	if (*out)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		nearest_try(&n, commands[i]->name);
	if (*n.word)
		return err_set(e, ERR_INVALID, "unknown command '%s': did you mean '%s'?", name,
			       n.word);
	return err_set(e, ERR_INVALID, "unknown command '%s'; see tutti --help", name);
}

/* ---- errors ---- */

static bool is_true(const char *value)
{
	return !strcmp(value, "true") || !strcmp(value, "1");
}

/* --output of a list; of other verbs it is a folder. */
static bool has_list_output(const struct cmd *cmd)
{
	const struct conf_field *f = find_field(cmd, "output");

	return f && !strcmp(f->value, "table");
}

/* As far as flags and environment tell before they are parsed: an error in them is to be a document, too. `cmd` is NULL
 * where there is no such verb. */
static bool wants_json(const struct cmd *cmd, int argc, char **argv)
{
	const struct conf_field *field = cmd ? find_field(cmd, "json") : NULL;
	const char *env = cmd && (!field || field->once) ? NULL : getenv("TUTTI_JSON");
	bool json = env && is_true(env);
	bool lists = cmd && has_list_output(cmd);
	int end = find_flags_end(argc, argv);

	for (int i = 0; i < end; i++) {
		bool is_output = !strcmp(argv[i], "-o") || !strcmp(argv[i], "--output");

		if (!strcmp(argv[i], "--json"))
			json = true;
		else if (!strncmp(argv[i], "--json=", 7))
			json = is_true(argv[i] + 7);
		if (lists && (!strcmp(argv[i], "--output=json") ||
			      (is_output && i + 1 < end && !strcmp(argv[i + 1], "json"))))
			return true;
	}
	return json;
}

/* With --json there is a document on stdout in any case: the error as the API has it. */
static int report(const struct cmd *cmd, int rc, const struct err *e, bool json)
{
	char sentence[sizeof(e->msg)];

	clean_text(sentence, sizeof(sentence), e->msg, strlen(e->msg));
	fprintf(stderr, "tutti%s%s: %s\n", cmd ? " " : "", cmd ? cmd->name : "", sentence);
	if (json)
		api_print_error(sentence);
	if (rc == ERR_CANCELLED)
		return EXIT_INTERRUPTED;
	return rc == ERR_INVALID ? EXIT_USAGE : EXIT_OTHER;
}

/* What stdout did not take is an error, but for a verb that ends with the exit code of a command. */
static int finish(const struct cmd *cmd, int code)
{
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	fprintf(stderr, "tutti: writing the output: %s\n", strerror(errno));
	return code == EXIT_ALL && !(cmd && cmd->runs_command) ? EXIT_OTHER : code;
}

int main(int argc, char **argv)
{
	const struct cmd *cmd = NULL;
	struct err e = { 0 };
	bool json;
	int rc;

	file_open_standard();
	if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") ||
	    !strcmp(argv[1], "help")) {
		usage(argc < 2 ? stderr : stdout);
		return finish(NULL, argc < 2 ? EXIT_USAGE : EXIT_ALL);
	}
	if (!strcmp(argv[1], "--version")) {
		puts("tutti " TUTTI_VERSION);
		return finish(NULL, EXIT_ALL);
	}
	rc = find_verb(argc, argv, &e);
	if (!rc)
		rc = find_command_of(argv[1], &cmd, &e);
	json = wants_json(cmd, argc, argv);
	if (!rc)
		rc = run_command(cmd, argc - 2, argv + 2, &json, &e);
	return finish(cmd, rc >= 0 ? rc : report(cmd, rc, &e, json));
}
