/* SPDX-License-Identifier: Apache-2.0 */
/* Which server a verb calls, and how it is reached: --server, TUTTI_SERVER, else a context; k8s:// through kubectl. */
#ifndef CLI_REACH_H
#define CLI_REACH_H

#include "base/err.h"
#include "cli/forward.h"

struct cmd;

/* Before the flags are parsed; argv[0 .. argc) are the verb's flags. Sets TUTTI_ variables from a context, and replaces a
 * k8s:// URL by that of a forwarded port, which the caller ends with forward_end(f). For a verb that calls no aggregator,
 * and for --help, it does nothing. */
MUST_CHECK int reach_server(const struct cmd *cmd, int argc, char **argv, struct forward *f,
			    struct err *e);

#endif
