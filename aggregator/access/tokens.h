/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Static tokens: a file with one line a grant, which holds digests of the tokens and not the tokens:
 *
 *	NAME ROLE SHA256 [NAMESPACE,...]     # "alice operator 9f86d0... team-a,team-b"; no namespaces: all of them
 *
 * Lines of one name and digest add up. The file is read again when it changes; a file that is wrong then changes
 * nothing, and is logged.
 */
#ifndef AGGREGATOR_ACCESS_TOKENS_H
#define AGGREGATOR_ACCESS_TOKENS_H

#include <stddef.h>
#include <sys/stat.h>

#include "aggregator/access/principal.h"
#include "base/err.h"
#include "net/digest.h"

#define TOKENS_MOST	 2000 /* lines with a grant */
#define TOKENS_BYTES	 ((size_t)4 << 20) /* of the file */
#define TOKEN_MOST_BYTES 16384 /* of a token that a caller shows */

struct token {
	char digest[DIGEST_HEX_BYTES];
	struct principal *principal;
};

struct tokens {
	char *path;
	struct token *items; /* sorted by digest */
	size_t n;
	struct stat read; /* of the file that was read last */
};

/* ERR_DENIED for a file that users other than its owner and group can open; ERR_INVALID names the line. */
MUST_CHECK int tokens_load(struct tokens *t, const char *path, struct err *e);
void tokens_release(struct tokens *t);

/* Reads the file if it has changed. After an error the earlier tokens hold. */
MUST_CHECK int tokens_reload(struct tokens *t, struct err *e);

/* The lines themselves, for tokens_load() and fuzzing; `path` names the file in errors. */
MUST_CHECK int tokens_read(struct tokens *t, const char *path, const char *text, size_t len,
			   struct err *e);

/* Whose token has this digest; borrowed, NULL = no one's. */
struct principal *tokens_find(const struct tokens *t, const char *digest);

#endif
