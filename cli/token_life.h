/* SPDX-License-Identifier: Apache-2.0 */
/* How long a signed token holds, by what it says itself. It is not checked: that is the aggregator's part. Pure. */
#ifndef CLI_TOKEN_LIFE_H
#define CLI_TOKEN_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#define TOKEN_MOST_BYTES  16384
#define TOKEN_MOST_LIFE_S (366 * 86400)

/* Whether the text can be sent as a token: one word of printable ASCII, at most TOKEN_MOST_BYTES. */
bool token_is_word(const char *token);

/* The seconds from its `iat` to its `exp`, so that this machine's clock does not matter; 1 to TOKEN_MOST_LIFE_S. 0: it does not
 * say, or is no signed token. */
int64_t token_life_s(const char *token);

#endif
