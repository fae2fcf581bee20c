/* SPDX-License-Identifier: Apache-2.0 */
/* The names of hosts, runs and sessions, which become file names and parts of URLs. */
#ifndef PROTO_NAMES_H
#define PROTO_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/limits.h"

/* 1 to LIMIT_HOST_NAME of [A-Za-z0-9._-], no dot first. XProf would misread ',', '/' and ':'. */
MUST_CHECK int name_check_host(const char *name, struct err *e);

/* Size of a name of name_of_file(), with its NUL. */
#define NAME_FILE_BYTES (LIMIT_HOST_NAME + 16)

/*
 * The name of the n-th file (1, 2, ...) of a host, without its suffix: the host's name, then
 * "host-a~2", "host-a~3", ... XProf shows each as a host. No host's name has a '~'. It sorts after '.',
 * so the first file sorts first; XProf takes the list of tools from that one.
 */
void name_of_file(const char *host, unsigned int n, char out[NAME_FILE_BYTES]);

/* A name that name_of_file() can make, with a suffix of letters and dots. */
MUST_CHECK int name_check_file(const char *name, struct err *e);

/* A run's name has one part, or several with '/' between them; each part follows the rule for host names. */
MUST_CHECK int name_check_run(const char *name, struct err *e);

/* YYYY_MM_DD_HH_MM_SS_xxxxxx: T0 in UTC and six random letters and digits. */
void name_make_session(int64_t t0_ns, char out[LIMIT_SESSION_NAME]);
bool name_is_session(const char *name);

#endif
