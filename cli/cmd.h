/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: one verb, one file, one struct.
 *
 * To add a verb: write cmd_<verb>.c with a struct for its flags, a table of them, a run function and
 * one `const struct cmd`; add that to commands[] in main.c.
 */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/conf.h"
#include "base/err.h"

/* Exit codes; scripts may rely on them. */
enum exit_code {
	EXIT_ALL = 0, /* done; of a capture: all hosts complete */
	EXIT_OTHER = 1,
	EXIT_USAGE = 2, /* wrong request: nothing was started */
	EXIT_PARTIAL = 3, /* a session was stored, some hosts are missing or incomplete */
	EXIT_NO_HOST = 4, /* no host answered: no session was stored */
	EXIT_INTERRUPTED = 130, /* SIGINT; a capture goes on without the command */

	/* Only of `inspect`: these codes are its own, as env(1) and timeout(1) have them; any other code is
	 * that of the command it ran. */
	EXIT_INSPECT = 125, /* inspect failed before the command began */
	EXIT_CANNOT_RUN = 126, /* the command is no program, or may not be run */
	EXIT_NO_COMMAND = 127, /* there is no such command */
	EXIT_SIGNAL = 128, /* and the number of the signal that ended the command */
};

struct cmd {
	const char *name;
	const char *args; /* usage of the arguments after the flags, or NULL */
	int min_args, max_args;
	bool runs_command; /* the arguments are another program's: they stand behind a "--" */
	const char *summary; /* one line */
	const struct conf_field *fields;
	size_t conf_size;

	/* Returns an enum exit_code, or a negative enum err_code and the sentence in e. */
	int (*run)(const void *conf, int argc, char **argv, struct err *e);
};

extern const struct cmd cmd_capture, cmd_snapshot, cmd_hosts, cmd_sessions, cmd_show, cmd_delete,
	cmd_export, cmd_import, cmd_clock, cmd_pods, cmd_jobs;
extern const struct cmd cmd_store, cmd_pin, cmd_unpin, cmd_fetch, cmd_share;
extern const struct cmd cmd_stop, cmd_cancel, cmd_retry;
extern const struct cmd cmd_mark, cmd_start, cmd_status;
extern const struct cmd cmd_audit, cmd_token, cmd_revoke;
extern const struct cmd cmd_inspect, cmd_doctor, cmd_context, cmd_connect, cmd_login, cmd_logout;

#endif
