/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders below the root of a file:// store, opened part by part with O_NOFOLLOW: no symbolic link is
 * followed, so neither a key nor a foreign link leads out of the root. These calls return a descriptor
 * or 0, else -1 and errno.
 */
#ifndef STORAGE_FOLDER_H
#define STORAGE_FOLDER_H

#include <stdbool.h>

#include "storage/store.h"

/*
 * Opens the folder of `key`; `*leaf` points at the last part of `key`, the name in that folder. With `make`,
 * missing folders are made, durably. ENOTDIR if another kind of file is in the place of a folder, ELOOP if a
 * link is. The caller closes it with folder_close().
 */
int folder_of(int root, const char *key, bool make, const char **leaf);

void folder_close(int fd); /* keeps errno; -1 is fine */
int folder_sync(int fd);

/* Removes the empty folders above `key`, beginning with the innermost. */
void folder_prune(int root, const char *key);

/* Opens one object in a folder: EISDIR if a folder has its name, ENXIO if another kind of file has, and ELOOP if what
 * is to be opened is a link. */
int folder_stat(int folder, const char *leaf, struct store_stat *out);
int folder_open_file(int folder, const char *leaf, struct store_stat *out);

/* As store_ops.list. */
MUST_CHECK int folder_list(int root, const struct store_list *list, struct err *e);

/* Removes the temporary files that killed puts left: those that no process has locked, and those from before
 * `before_ns` (Unix time), for file systems without locks. Returns how many. */
size_t folder_sweep(int root, int64_t before_ns);

#endif
