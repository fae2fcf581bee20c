/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/cloud_settings.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/percent.h"
#include "storage/store.h"

static int no_such_setting(const char *name, size_t len, const char *const names[], size_t n,
			   struct err *e)
{
	struct buf known = BUF_INIT;
	int rc;

	for (size_t i = 0; i < n; i++)
		buf_addf(&known, "%s%s", i ? ", " : "", names[i]);
	rc = err_set(e, ERR_INVALID, "unknown setting \"%.*s\"; there are %s",
		     (int)(len < 40 ? len : 40), name, buf_str(&known));
	buf_release(&known);
	return rc;
}

/* "name=value" of `len` characters. */
static int read_pair(const char *pair, size_t len, const char *const names[], size_t n,
		     char *values[], struct err *e)
{
	const char *eq = memchr(pair, '=', len);
	size_t name_len = eq ? (size_t)(eq - pair) : len;

	for (size_t i = 0; i < n; i++) {
		if (strlen(names[i]) != name_len || memcmp(names[i], pair, name_len))
			continue;
		if (!eq || name_len + 1 == len || values[i])
			return err_set(e, ERR_INVALID, "%s: give one value", names[i]);
		values[i] = xmalloc(len);
		return percent_decode(eq + 1, len - name_len - 1, false, values[i], e);
	}
	return no_such_setting(pair, name_len, names, n, e);
}

int cloud_read_settings(const char *query, const char *const names[], size_t n, char *values[],
			struct err *e)
{
	int rc = 0;

	while (!rc && *query) {
		size_t len = strcspn(query, "&");

		rc = read_pair(query, len, names, n, values, e);
		query += len + (query[len] == '&');
	}
	return rc;
}

int cloud_take_prefix(char **out, const char *text, size_t len, struct err *e)
{
	char *prefix = xstrndup(text, len);
	int rc = 0;

	if (len && prefix[len - 1] == '/')
		prefix[--len] = '\0';
	if (len)
		rc = store_check_key(prefix, e);
	*out = len ? xasprintf("%s/", prefix) : xstrdup("");
	free(prefix);
	return rc;
}

int cloud_check_endpoint(char *endpoint, struct err *e)
{
	size_t len = strlen(endpoint);
	const char *host;

	if (len && endpoint[len - 1] == '/')
		endpoint[len - 1] = '\0';
	host = !strncmp(endpoint, "http://", 7)	   ? endpoint + 7
	       : !strncmp(endpoint, "https://", 8) ? endpoint + 8
						   : NULL;
	if (!host || !*host ||
	    strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]") !=
		    strlen(host))
		return err_set(
			e, ERR_INVALID,
			"endpoint \"%.80s\": expected http://HOST[:PORT] or https://HOST[:PORT]",
			endpoint);
	return 0;
}
