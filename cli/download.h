/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of sessions: from the store itself, by a link that the aggregator gives for each of them, or else through the
 * aggregator. A store that does not answer from here is not asked again; a line on stderr says so.
 */
#ifndef CLI_DOWNLOAD_H
#define CLI_DOWNLOAD_H

#include <stdbool.h>

#include "base/err.h"

struct api_conf;
struct downloads;

/* `store_ca`: authorities that sign the store's certificate; NULL or "" = the system's. Without `by_links` all bytes pass through the
 * aggregator. The caller frees it with downloads_free(); `api` must outlive it. */
struct downloads *downloads_new(const struct api_conf *api, const char *store_ca, bool by_links);
void downloads_free(struct downloads *d); /* NULL is fine */

/*
 * Adds to the file `part` what it lacks of the file at that path of the API; it begins with the bytes that the file has.
 * ERR_CLOSED, ERR_TIMEOUT: the connection broke, and the same call goes on from there. Any thread.
 */
MUST_CHECK int download_rest(struct downloads *d, const char *path, const char *part,
			     struct err *e);

#endif
