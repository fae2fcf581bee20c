/* SPDX-License-Identifier: Apache-2.0 */
/* JSON documents of the user that no one else may open: contexts, sign-ins. Mode 0600, never a link. */
#ifndef CLI_PRIVATE_FILE_H
#define CLI_PRIVATE_FILE_H

#include <jansson.h>

#include "base/err.h"

/* `*out` is a new reference, or NULL if there is no file. ERR_DENIED for a file that others can open, or own. */
MUST_CHECK int private_file_load(json_t **out, const char *path, struct err *e);

/* Replaces the file, in one step; makes the folders above it, mode 0700. */
MUST_CHECK int private_file_store(const json_t *doc, const char *path, struct err *e);

/* Waits until no other process has the lock of this name, makes its file, and has it until `*fd` is closed. */
MUST_CHECK int private_file_lock(const char *path, int *fd, struct err *e);

#endif
