/* SPDX-License-Identifier: Apache-2.0 */
/* A secret that two sides share. Each reads it from a file, never from its arguments, which every user
 * of a host can read. */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include <stdbool.h>

#include "base/err.h"

#define SECRET_LEAST_BYTES 16
#define SECRET_MOST_BYTES  16384 /* a signed token names groups and accounts */

/* Loads the first line of a file, without blanks around it: printable ASCII. The caller frees `*out`
 * with secret_free(). ERR_INVALID for one that is too short, too long or not printable, ERR_DENIED for a file that
 * users other than its owner and group can open. */
MUST_CHECK int secret_load(char **out, const char *path, struct err *e);

/* Overwrites it first. NULL is fine. */
void secret_free(char *secret);

/* Takes the same time for all texts of one length. */
bool secret_equal(const char *secret, const char *text);

/* Whether `authorization` (may be NULL) is "Bearer " and the secret. */
bool secret_is_bearer(const char *secret, const char *authorization);

#endif
