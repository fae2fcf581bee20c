/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what an S3 server answers: headers, errors, pages of a listing. No I/O. Private to storage/. */
#ifndef STORAGE_S3_ANSWER_H
#define STORAGE_S3_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "storage/store.h"

#define S3_NONCE_CHARS 32
#define S3_PAGE_KEYS   1000 /* what a server gives at most */

/* Begins zeroed; s3_answer_release(). */
struct s3_answer {
	int status; /* 0: no whole answer came */
	char tag[STORE_TAG_MAX + 1]; /* ETag without its quotes */
	int64_t modified_ns; /* whole seconds; 0 if not given */
	uint64_t length; /* Content-Length */
	bool has_total;
	uint64_t total; /* size of the whole object, from Content-Range */
	char nonce[S3_NONCE_CHARS + 1]; /* x-amz-meta-tutti-put */
	char region[64]; /* x-amz-bucket-region */
	int64_t date_s; /* the server's clock; 0 if not given */
	char code[64], message[160]; /* of an error; "" if the server gave none */
	struct buf body; /* if it was collected */
};

void s3_answer_release(struct s3_answer *a);

/* Takes one header. */
void s3_answer_header(struct s3_answer *a, const char *name, const char *value);

/* Fills `code` and `message` from the body, if it has them; both are cleaned. */
void s3_answer_read_error(struct s3_answer *a);

struct s3_listed {
	char *key; /* decoded; any bytes but NUL */
	struct store_stat st;
};

/* Begins zeroed; s3_page_release(). */
struct s3_page {
	struct s3_listed *items;
	size_t n, cap;
	bool truncated; /* there is a next page */
	char *next; /* its token */
};

/* The answer to ListObjectsV2 with encoding-type=url. ERR_PEER for what is none, ERR_LIMIT for more than S3_PAGE_KEYS. */
MUST_CHECK int s3_page_read(struct s3_page *page, const void *data, size_t len, struct err *e);
void s3_page_release(struct s3_page *page);

/* "2013-05-24T00:00:00.000Z" to Unix seconds; -1 if it is none. */
int64_t iso_time_read(const char *text);

#endif
