/* SPDX-License-Identifier: Apache-2.0 */
/* What object stores over HTTP answer: headers, errors, times. No I/O. Private to storage/. */
#ifndef STORAGE_CLOUD_ANSWER_H
#define STORAGE_CLOUD_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "storage/store.h"

#define CLOUD_NONCE_CHARS 32

/* Begins zeroed; cloud_answer_release(). */
struct cloud_answer {
	int status; /* 0: no whole answer came */
	char tag[STORE_TAG_MAX +
		 1]; /* ETag without its quotes; where there is one, the generation */
	bool has_generation; /* Google's number of a version */
	int64_t modified_ns; /* whole seconds; 0 if not given */
	uint64_t length; /* Content-Length */
	bool has_total;
	uint64_t total; /* size of the whole object, from Content-Range */
	char nonce[CLOUD_NONCE_CHARS + 1]; /* what the object's put stored with it */
	bool has_crc32c;
	uint32_t crc32c; /* what the object's grant stored with it */
	bool is_object; /* length, tag, time and nonce are those of the object that the call has put */
	char *location; /* of an upload session: who has it may upload; NULL if not given */
	char region[64]; /* x-amz-bucket-region */
	int64_t date_s; /* the server's clock; 0 if not given */
	char code[64], message[160]; /* of an error; "" if the server gave none */
	uint64_t keys_serial; /* of the keys that the request had; 0 = none */
	struct buf body; /* if it was collected */
};

/* Frees what it holds; it is zeroed then. */
void cloud_answer_release(struct cloud_answer *a);

/* Takes one header; the name is in lower case. Each store's own names are known. */
void cloud_answer_header(struct cloud_answer *a, const char *name, const char *value);

/* Fills `code` and `message` from the body, XML or JSON, if it has them; both are cleaned. */
void cloud_answer_read_error(struct cloud_answer *a);

/* An ETag without its quotes. */
void cloud_copy_tag(char out[STORE_TAG_MAX + 1], const char *text);

/* A decimal number and nothing else. */
bool cloud_read_u64(const char *text, uint64_t *out);

/* Unix seconds in nanoseconds; 0 for what is before 1970 or beyond the year 2261. */
int64_t cloud_time_ns(int64_t unix_s);

/* "Fri, 24 May 2013 00:00:00 GMT" to Unix seconds; 0 if it is none. */
int64_t http_time_read(const char *text);

/* "2013-05-24T00:00:00.000Z" to Unix seconds; -1 if it is none. */
int64_t iso_time_read(const char *text);

#endif
