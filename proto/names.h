/* SPDX-License-Identifier: Apache-2.0 */
/* What a host, a run and a session may be called: they become file names and URL parts. */
#ifndef PROTO_NAMES_H
#define PROTO_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/limits.h"

/* [A-Za-z0-9._-], no leading dot, 1 to LIMIT_HOST_NAME; so no ',', '/' or ':' that XProf trips on. */
MUST_CHECK int name_check_host(const char *name, struct err *e);

/* Characters of what name_of_file() makes, with its NUL. */
#define NAME_FILE_BYTES (LIMIT_HOST_NAME + 16)

/*
 * What the n-th file (1, 2, ...) of a host is called, but for its suffix: the host's name, then "host-a~2",
 * "host-a~3", ... XProf takes each for a host. No host's name has a '~'; and as it sorts behind '.',
 * the first file stays the first, which is where XProf looks for what tools there are.
 */
void name_of_file(const char *host, unsigned int n, char out[NAME_FILE_BYTES]);

/* What name_of_file() can have made, with a suffix that is letters and dots. */
MUST_CHECK int name_check_file(const char *name, struct err *e);

/* The same rule; runs may be nested with '/', each part by the rule. */
MUST_CHECK int name_check_run(const char *name, struct err *e);

/* YYYY_MM_DD_HH_MM_SS_xxxxxx: T0 in UTC and six random letters and digits. */
void name_make_session(int64_t t0_ns, char out[LIMIT_SESSION_NAME]);
bool name_is_session(const char *name);

#endif
