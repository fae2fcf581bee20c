/* SPDX-License-Identifier: Apache-2.0 */
/* Which server a verb calls, and how it is reached: --server, TUTTI_SERVER, else a context; k8s:// through kubectl. */
#ifndef CLI_REACH_H
#define CLI_REACH_H

#include <stdbool.h>

#include "base/err.h"
#include "cli/forward.h"
#include "cli/login.h"

struct cmd;

struct reached {
	struct forward forward; /* the caller ends it */
	struct login_place place; /* where a sign-in is used; empty where no context is */
};

/* Whether the verb calls an aggregator: then its flags begin with a struct api_conf. */
bool calls_server(const struct cmd *cmd);

/* Before the flags are parsed; argv[0 .. argc) are the verb's flags. Sets TUTTI_ variables from a context, and replaces a
 * k8s:// URL by that of a forwarded port. For a verb that calls no aggregator,
 * and for --help, it does nothing. */
MUST_CHECK int reach_server(const struct cmd *cmd, int argc, char **argv, struct reached *r,
			    struct err *e);

#endif
