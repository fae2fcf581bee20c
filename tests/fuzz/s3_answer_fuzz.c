/* SPDX-License-Identifier: Apache-2.0 */
/* What S3 servers answer: an error, a page of a listing, headers. What is taken from it is bounded and ends with NUL. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "storage/s3_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_page(const uint8_t *data, size_t size)
{
	struct s3_page page = { 0 };
	struct err e = { 0 };
	int rc = s3_page_read(&page, data, size, &e);

	assert(rc == 0 || rc == ERR_PEER || rc == ERR_LIMIT || rc == ERR_INVALID);
	assert(!rc == !e.code);
	assert(page.n <= S3_PAGE_KEYS);
	for (size_t i = 0; !rc && i < page.n; i++)
		assert(page.items[i].key && strlen(page.items[i].st.tag) <= STORE_TAG_MAX);
	assert(rc || !page.truncated || *page.next);
	s3_page_release(&page);
}

static void try_error(const uint8_t *data, size_t size)
{
	struct s3_answer a = { 0 };

	buf_add(&a.body, data, size);
	s3_answer_read_error(&a);
	assert(strlen(a.code) < sizeof(a.code) && strlen(a.message) < sizeof(a.message));
	assert(!strpbrk(a.message, "\n\033"));
	s3_answer_release(&a);
}

static void try_headers(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "etag",
					     "last-modified",
					     "date",
					     "content-range",
					     "x-amz-meta-tutti-put",
					     "content-length",
					     "x-amz-bucket-region" };
	char *text = xstrndup(size ? (const char *)data : "", size);
	struct s3_answer a = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		s3_answer_header(&a, names[i], text);
	assert(strlen(a.tag) <= STORE_TAG_MAX && strlen(a.nonce) <= S3_NONCE_CHARS);
	assert(strlen(a.region) < sizeof(a.region));
	iso_time_read(text);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_page(data, size);
	try_error(data, size);
	try_headers(data, size);
	return 0;
}
