/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of listings, as each kind of store answers with them. Foreign bytes. No I/O. Private to storage/. */
#ifndef STORAGE_CLOUD_PAGE_H
#define STORAGE_CLOUD_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "storage/cloud_answer.h"

#define CLOUD_PAGE_KEYS 5000 /* what a server gives at most: 1000, Azure 5000 */

struct cloud_listed {
	char *key; /* decoded; any bytes but NUL */
	struct store_stat st;
};

/* Begins zeroed; cloud_page_release(). */
struct cloud_page {
	struct cloud_listed *items;
	size_t n, cap;
	char *next; /* the token of the next page; NULL = this is the last one */
};

void cloud_page_release(struct cloud_page *page);

/* The answers to ListObjectsV2 with encoding-type=url, to Azure's List Blobs, and to objects.list of Google's JSON API.
 * ERR_PEER for what is none, ERR_LIMIT for more than CLOUD_PAGE_KEYS. */
MUST_CHECK int s3_page_read(struct cloud_page *page, const void *data, size_t len, struct err *e);
MUST_CHECK int az_page_read(struct cloud_page *page, const void *data, size_t len, struct err *e);
MUST_CHECK int gs_page_read(struct cloud_page *page, const void *data, size_t len, struct err *e);

/* An object of Google's JSON API: fills length, tag, modified_ns, nonce and the server's own crc32c. ERR_PEER for what is none. */
MUST_CHECK int gs_object_read(struct cloud_answer *a, const void *data, size_t len, struct err *e);

/* Whether the answer to DeleteObjects (quiet) has no error in it. */
bool s3_removed_read(const void *data, size_t len, size_t n);

/* A CRC-32C as that API has it: base64 of its four bytes, the highest first. */
#define GS_CRC32C_BYTES 9
void gs_crc32c_text(uint32_t crc32c, char out[GS_CRC32C_BYTES]);

/* For the readers: a new item at the end; ERR_LIMIT beyond CLOUD_PAGE_KEYS. */
MUST_CHECK int cloud_page_add(struct cloud_page *page, struct cloud_listed **out, struct err *e);

#endif
