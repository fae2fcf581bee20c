/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: aggregators by name, with what is needed to reach them, in one file of the user. The current one is used by
 * every verb that calls an aggregator, unless a flag or a TUTTI_ variable names a server: then nothing of it is used, so
 * that no token is sent to another server.
 *
 * The file: $TUTTI_CONTEXTS, else tutti/contexts.json below $XDG_CONFIG_HOME or ~/.config; mode 0600, never a link.
 */
#ifndef CLI_CONTEXT_H
#define CLI_CONTEXT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

#define CONTEXT_NAME_BYTES 64

/* Where the file is; the caller frees it. */
char *contexts_path(void);

/* {"current": NAME or "", "contexts": {NAME: {"server", "ca", "cert", "key", "token_file"}}}; a new reference. An empty
 * one if there is no file. ERR_DENIED for a file that others can open, ERR_INVALID for one that is not such a document. */
MUST_CHECK int contexts_load(json_t **out, struct err *e);

/* Replaces the file, in one step. */
MUST_CHECK int contexts_store(const json_t *doc, struct err *e);

/* A context's name: letters, digits, '.', '_', '-'. */
bool context_name_is_good(const char *name);

/* Sets TUTTI_SERVER and so on from the context `name`, or from the current one if it is NULL; `used` gets its name. Does
 * nothing, and `used` is "", if TUTTI_SERVER is set, or if there is no current context. ERR_NOT_FOUND for a name that is none. */
MUST_CHECK int context_apply(const char *name, char used[CONTEXT_NAME_BYTES], struct err *e);

#endif
