/* SPDX-License-Identifier: Apache-2.0 */
/* What a host, a run and a session may be called: they become file names and URL parts. */
#ifndef PROTO_NAMES_H
#define PROTO_NAMES_H

#include <stdbool.h>

#include "base/err.h"

/* [A-Za-z0-9._-], no leading dot, 1 to LIMIT_HOST_NAME; so no ',', '/' or ':' that XProf trips on. */
MUST_CHECK int name_check_host(const char *name, struct err *e);

/* The same rule; runs may be nested with '/', each part by the rule. */
MUST_CHECK int name_check_run(const char *name, struct err *e);

/* YYYY_MM_DD_HH_MM_SS_xxxxxx as session_name() of the aggregator makes them. */
bool name_is_session(const char *name);

#endif
