/* SPDX-License-Identifier: Apache-2.0 */
/* Percent-encoding, as URLs have it. */
#ifndef BASE_PERCENT_H
#define BASE_PERCENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* %XX to bytes, and '+' to a space if `plus_is_space`. `out` needs len + 1 bytes. ERR_INVALID for a bad
 * escape or a NUL. */
MUST_CHECK int percent_decode(const char *text, size_t len, bool plus_is_space, char *out,
			      struct err *e);

/* Appends the text; every byte but letters, digits, "-_.~" and those in `keep` becomes %XX (upper case). */
void percent_encode(struct buf *out, const char *text, const char *keep);

#endif
