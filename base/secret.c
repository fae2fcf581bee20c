/* SPDX-License-Identifier: Apache-2.0 */
#include "base/secret.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

#define BLANKS " \t\r\n"

static int check(const char *text, size_t len, const char *path, struct err *e)
{
	if (len < SECRET_LEAST_BYTES || len > SECRET_MOST_BYTES)
		return err_set(e, ERR_INVALID, "%s: a secret of %zu bytes: use %d to %d", path, len,
			       SECRET_LEAST_BYTES, SECRET_MOST_BYTES);
	for (size_t i = 0; i < len; i++) {
		if (text[i] <= ' ' || text[i] > '~')
			return err_set(e, ERR_INVALID,
				       "%s: use one word of printable ASCII as the secret", path);
	}
	return 0;
}

/* A user who can read or write the file can do everything that the secret protects. */
static int check_mode(FILE *f, const char *path, struct err *e)
{
	struct stat st;

	if (fstat(fileno(f), &st))
		return err_errno(e, "%s", path);
	if (S_ISREG(st.st_mode) && st.st_mode & S_IRWXO)
		return err_set(e, ERR_DENIED,
			       "%s is a secret that every user of this host can open: chmod o= %s",
			       path, path);
	return 0;
}

int secret_load(char **out, const char *path, struct err *e)
{
	char line[SECRET_MOST_BYTES + 8] = "";
	FILE *f = fopen(path, "re");
	const char *text;
	size_t len;
	int rc;

	if (!f)
		return err_errno(e, "%s", path);
	rc = check_mode(f, path, e);
	if (rc || !fgets(line, sizeof(line), f))
		line[0] = '\0';
	fclose(f);
	if (rc)
		return rc;
	text = line + strspn(line, BLANKS);
	len = strlen(text);
	while (len && strchr(BLANKS, text[len - 1]))
		len--;
	rc = check(text, len, path, e);
	if (!rc)
		*out = xstrndup(text, len);
	explicit_bzero(line, sizeof(line));
	return rc;
}

void secret_free(char *secret)
{
	if (secret)
		explicit_bzero(secret, strlen(secret));
	free(secret);
}

bool secret_equal(const char *secret, const char *text)
{
	size_t len = strlen(secret), given = strlen(text);
	unsigned char differs = len != given;

	for (size_t i = 0; i < given; i++)
		differs |= (unsigned char)(secret[len ? i % len : 0] ^ text[i]);
	return !differs;
}

bool secret_is_bearer(const char *secret, const char *authorization)
{
	static const char scheme[] = "Bearer ";

	return authorization && !strncasecmp(authorization, scheme, strlen(scheme)) &&
	       secret_equal(secret, authorization + strlen(scheme));
}
