/* SPDX-License-Identifier: Apache-2.0 */
/* A secret that two sides share, in a file of each: never an argument, which everybody on a host can read. */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include <stdbool.h>

#include "base/err.h"

#define SECRET_LEAST_BYTES 16
#define SECRET_MOST_BYTES  1024

/* The first line of a file, without blanks around it: printable ASCII. `*out` is yours: secret_free().
 * ERR_INVALID for one that is too short, too long or anything else. */
MUST_CHECK int secret_load(char **out, const char *path, struct err *e);

/* Overwrites it first. NULL is fine. */
void secret_free(char *secret);

/* Takes as long for any text of the same length. */
bool secret_equal(const char *secret, const char *text);

#endif
