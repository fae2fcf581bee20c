/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command that `tutti inspect` runs: its environment, its start, its end. SIGINT, SIGTERM, SIGHUP and SIGQUIT that
 * another process sends to this process are passed on to the command (a terminal sends its own to both). Descendants of
 * the command whose parent has ended become children of this process, so that they can be counted.
 */
#ifndef CLI_INSPECT_COMMAND_H
#define CLI_INSPECT_COMMAND_H

#include <sys/types.h>

#include "base/err.h"
#include "cli/inspect_daemons.h"

struct command {
	char **argv; /* ends with NULL; borrowed */
	pid_t pid; /* 0 = it does not run */
	int status; /* of wait(), when it has ended */
};

/* Checks that argv[0] can be run: 0, or an enum exit_code of inspect and a sentence. */
MUST_CHECK int command_check(const struct command *c, struct err *e);

/* From now on signals wait for command_wait(), and descendants that lose their parent become this process's. */
void command_hold_signals(void);

/* Whether the user has asked for the end meanwhile: the signal, or 0. */
int command_pending_signal(void);

/* Sets what makes programs record, in this process's environment: the command inherits it. */
void command_set_environment(const struct daemons *d);

/* 0, or an enum exit_code of inspect and a sentence. */
MUST_CHECK int command_start(struct command *c, struct err *e);

/* Until the command has ended. A daemon that ends meanwhile is forgotten, and its name is returned; NULL = none. */
const char *command_wait(struct command *c, struct daemons *d);

/* The command has ended, and its session is being finished: the second signal from now on ends the daemons, and so the
 * session. */
void command_let_signals_end(const struct daemons *d);

/* What a shell would call its end: its code, or 128 and the number of the signal. */
int command_exit_code(const struct command *c);

/* How many of its descendants still run; the daemons are not counted. */
int command_count_left(const struct daemons *d);

#endif
