/* SPDX-License-Identifier: Apache-2.0 */
/* One import; private to this folder. */
#ifndef AGGREGATOR_IMPORTS_IMPORT_IMPL_H
#define AGGREGATOR_IMPORTS_IMPORT_IMPL_H

#include <stdbool.h>

#include "aggregator/imports/imports.h"
#include "base/loop.h"
#include "proto/limits.h"

struct store;

/* A file, in order of its name: the files of a host lie together, its first one first. */
struct import_file {
	char *host;
	char *name; /* "host~2.xplane.pb" */
	char *source; /* what it was made of, for people */
	uint64_t offset, bytes; /* in the spool */
	uint32_t crc32c;
	uint64_t received; /* from the begin on */
	bool writing;
	uint64_t events; /* once it is checked */
};

struct import {
	struct imports *all;
	char session[LIMIT_SESSION_NAME];
	char *run, *peer;
	int64_t t0_ns, duration_ns;
	struct import_file *files;
	size_t n_files;
	uint64_t bytes; /* of all files */
	json_t *warnings; /* texts, from the request */
	int fd; /* of the spool: a file without a name */
	unsigned int writes; /* under way */
	bool committing;
	struct loop_timer idle;
	struct import *next;
};

/* Fills a new import from the request; ERR_INVALID names the member. The caller frees it with import_free(). */
MUST_CHECK int import_read(struct import **out, const json_t *request, struct err *e);
void import_free(struct import *im); /* NULL is fine */

/* Checks, stores, commits; `*manifest` is a new reference. `*begun`: as of session_put_whole(). Blocks. */
MUST_CHECK int import_store(struct import *im, struct store *s, const char *nonce,
			    json_t **manifest, bool *begun, struct err *e);

#endif
