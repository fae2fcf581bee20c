/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api/link_key.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/hex.h"
#include "base/mem.h"
#include "base/percent.h"
#include "base/random.h"
#include "base/secret.h"
#include "net/shared_key.h"

#define KEY_BYTES 32

/* ---- the key ---- */

/* Hexadecimal digits, which are base64, too. */
static int write_key(const char *path, struct err *e)
{
	char text[2 * KEY_BYTES + 1];
	uint8_t random[KEY_BYTES];
	int rc;

	random_bytes(random, sizeof(random));
	hex_text(text, random, sizeof(random));
	rc = file_replace(path, 0600, text, strlen(text), e);
	explicit_bzero(random, sizeof(random));
	explicit_bzero(text, sizeof(text));
	return rc;
}

int link_key_load(char **key, const char *folder, struct err *e)
{
	char *path = xasprintf("%s/" LINK_KEY_FILE, folder);
	int rc = access(path, F_OK) ? write_key(path, e) : 0;

	if (!rc)
		rc = secret_load(key, path, e);
	if (!rc && strspn(*key, "0123456789abcdef") != 2 * KEY_BYTES) {
		secret_free(*key);
		*key = NULL;
		rc = err_set(e, ERR_INVALID,
			     "%s is damaged: remove it; links that were given away end then", path);
	}
	free(path);
	return rc;
}

/* ---- links ---- */

/* The signature as it stands in a URL: '-', '_' and no '='. */
static int sign(const char *key, const char *session, const char *file, const char *until,
		char out[SHARED_KEY_MAC_BYTES], struct err *e)
{
	char *text = xasprintf("tutti-link\n%s\n%s\n%s\n", session, file, until);
	int rc = shared_key_mac(key, text, out, e);

	for (char *c = out; !rc && *c; c++)
		*c = (char)(*c == '+' ? '-' : *c == '/' ? '_' : *c == '=' ? '\0' : *c);
	free(text);
	return rc;
}

int link_make(const char *key, const char *session, const char *file, int64_t until_s,
	      struct buf *out, struct err *e)
{
	char until[24], sig[SHARED_KEY_MAC_BYTES];
	int rc;

	snprintf(until, sizeof(until), "%" PRId64, until_s);
	rc = sign(key, session, file, until, sig, e);
	if (rc)
		return rc;
	buf_addf(out, "/shared/%s/", session);
	percent_encode(out, file, "");
	buf_addf(out, "?until=%s&sig=%s", until, sig);
	return 0;
}

static int not_ours(struct err *e)
{
	return err_set(e, ERR_DENIED,
		       "this link is not complete, or not of this aggregator: ask "
		       "for another one");
}

int link_check(const char *key, const char *session, const char *file, const char *until,
	       const char *sig, int64_t now_s, struct err *e)
{
	char expected[SHARED_KEY_MAC_BYTES];
	int rc;

	if (!until || !sig)
		return not_ours(e);
	rc = sign(key, session, file, until, expected, e);
	if (!rc && !secret_equal(expected, sig))
		rc = not_ours(e);
	if (!rc && strtoll(until, NULL, 10) <= now_s)
		rc = err_set(e, ERR_DENIED, "this link has ended: ask for another one");
	explicit_bzero(expected, sizeof(expected));
	return rc;
}
