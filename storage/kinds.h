/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the back ends and store.c. Private to storage/. */
#ifndef STORAGE_KINDS_H
#define STORAGE_KINDS_H

#include <stdbool.h>
#include <stddef.h>

#include "storage/store.h"

extern const struct store_ops store_file_ops;
extern const struct store_ops store_mem_ops;
extern const struct store_ops store_s3_ops;
extern const struct store_ops store_gs_ops;
extern const struct store_ops store_az_ops;
extern const struct store_ops store_fault_ops;

/* Whether this is a valid part of a key, between two '/'. */
bool store_part_is_valid(const char *part, size_t len);

#define STORE_TEMP_PREFIX ".tmp-"

/* Writes the bytes of `put` to `fd` from its position on; a file ending before `len` is ERR_INVALID. */
MUST_CHECK int store_put_write(const struct store_put *put, int fd, struct err *e);

/* Sets and returns the error for a put whose file ended after `done` bytes. */
int store_put_short(const struct store_put *put, uint64_t done, struct err *e);

/* ERR_TIMEOUT if the deadline has passed. */
MUST_CHECK int store_check_deadline(int64_t deadline_mono_ns, struct err *e);

/* Whether `key` belongs to a listing of `prefix` after `after`. */
bool store_listed(const char *key, const char *prefix, const char *after);

#endif
