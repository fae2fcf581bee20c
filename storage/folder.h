/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders below the root of a file:// store, reached part by part with O_NOFOLLOW: no symbolic
 * link is ever followed, so no key and no stranger's link leads out of the root. These calls speak
 * errno: a descriptor or 0, else -1.
 */
#ifndef STORAGE_FOLDER_H
#define STORAGE_FOLDER_H

#include <stdbool.h>

#include "storage/store.h"

/*
 * The folder that holds the last part of `key`; `*leaf` gets where that part begins. `make` makes
 * missing folders, durably; ENOTDIR if something else has the name. Yours: folder_close().
 */
int folder_of(int root, const char *key, bool make, const char **leaf);

void folder_close(int fd); /* leaves errno alone; -1 is fine */
int folder_sync(int fd);

/* Removes the folders above `key` that are empty, from the innermost outwards. */
void folder_prune(int root, const char *key);

/* One object in it; ENOENT unless it is a regular file. */
int folder_stat(int folder, const char *leaf, struct store_stat *out);
int folder_open_file(int folder, const char *leaf, struct store_stat *out);

/* As store_ops.list. */
MUST_CHECK int folder_list(int root, const struct store_list *list, struct err *e);

/* Removes what puts that never ended left behind before `before_ns` (Unix time); says how many. */
size_t folder_sweep(int root, int64_t before_ns);

#endif
