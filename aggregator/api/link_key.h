/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links of the aggregator itself to one file of a session, good until an instant: signed with a key that it makes once and keeps in its
 * spool, so that they outlive restarts. No thread of its own; any thread.
 */
#ifndef AGGREGATOR_API_LINK_KEY_H
#define AGGREGATOR_API_LINK_KEY_H

#include <stdint.h>

#include "base/err.h"

struct buf;

#define LINK_KEY_FILE "link-key"

/* Loads the key from the folder; makes it if there is none. The caller frees it with secret_free(). Blocks. */
MUST_CHECK int link_key_load(char **key, const char *folder, struct err *e);

/* Appends "/shared/SESSION/FILE?until=S&sig=...". */
MUST_CHECK int link_make(const char *key, const char *session, const char *file, int64_t until_s,
			 struct buf *out, struct err *e);

/* ERR_DENIED, with a sentence for whoever has the link, unless link_make() made it, or if it has ended. `until` and `sig` are as in the
 * query; NULL if they are missing. */
MUST_CHECK int link_check(const char *key, const char *session, const char *file, const char *until,
			  const char *sig, int64_t now_s, struct err *e);

#endif
