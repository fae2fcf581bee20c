/* SPDX-License-Identifier: Apache-2.0 */
/* What object stores answer: an error, a page of a listing, an object, headers. What is taken from it is bounded and ends with NUL. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "storage/cloud_page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef int (*read_fn)(struct cloud_page *page, const void *data, size_t len, struct err *e);

static void try_page(read_fn read, const uint8_t *data, size_t size)
{
	struct cloud_page page = { 0 };
	struct err e = { 0 };
	int rc = read(&page, data, size, &e);

	assert(rc == 0 || rc == ERR_PEER || rc == ERR_LIMIT || rc == ERR_INVALID);
	assert(!rc == !e.code);
	assert(page.n <= CLOUD_PAGE_KEYS);
	for (size_t i = 0; !rc && i < page.n; i++)
		assert(page.items[i].key && strlen(page.items[i].st.tag) <= STORE_TAG_MAX);
	assert(rc || !page.next || *page.next);
	cloud_page_release(&page);
}

static void try_object(const uint8_t *data, size_t size)
{
	struct cloud_answer a = { 0 };
	struct err e = { 0 };
	int rc = gs_object_read(&a, data, size, &e);

	assert(rc == 0 || rc == ERR_PEER);
	assert(strlen(a.tag) <= STORE_TAG_MAX && strlen(a.nonce) <= CLOUD_NONCE_CHARS);
	cloud_answer_release(&a);
}

static void try_error(const uint8_t *data, size_t size)
{
	struct cloud_answer a = { 0 };

	buf_add(&a.body, data, size);
	cloud_answer_read_error(&a);
	assert(strlen(a.code) < sizeof(a.code) && strlen(a.message) < sizeof(a.message));
	assert(!strpbrk(a.message, "\n\033") && !strpbrk(a.code, "\n\033"));
	cloud_answer_release(&a);
}

static void try_headers(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "etag",
					     "last-modified",
					     "date",
					     "content-range",
					     "x-amz-meta-tutti-put",
					     "content-length",
					     "x-amz-bucket-region",
					     "x-goog-generation",
					     "x-ms-error-code",
					     "location" };
	char *text = xstrndup(size ? (const char *)data : "", size);
	struct cloud_answer a = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		cloud_answer_header(&a, names[i], text);
	assert(strlen(a.tag) <= STORE_TAG_MAX && strlen(a.nonce) <= CLOUD_NONCE_CHARS);
	assert(strlen(a.region) < sizeof(a.region));
	cloud_answer_release(&a);
	iso_time_read(text);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_page(s3_page_read, data, size);
	try_page(az_page_read, data, size);
	try_page(gs_page_read, data, size);
	try_object(data, size);
	s3_removed_read(data, size, 1);
	try_error(data, size);
	try_headers(data, size);
	return 0;
}
