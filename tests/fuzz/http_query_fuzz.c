/* SPDX-License-Identifier: Apache-2.0 */
/* The parser behind every query string, and behind the path: what it lets through is bounded and
 * free of NUL, and what it says of a Range is inside the file. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "net/http_parse.h"
#include "net/http_server.h"
#include "proto/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	size_t n, bytes;
};

static void on_pair(void *arg, const char *key, const char *value)
{
	struct seen *seen = arg;

	seen->n++;
	seen->bytes += strlen(key) + strlen(value);
}

static void try_query(const char *text, size_t size)
{
	struct seen seen = { 0 };
	struct err e = { 0 };
	int rc = http_parse_query(text, size, on_pair, &seen, &e);

	assert(rc == 0 || rc == ERR_INVALID || rc == ERR_LIMIT);
	assert(!rc == !e.code);
	assert(seen.n <= LIMIT_HTTP_QUERY_KEYS);
	assert(seen.bytes <= size);
	assert(rc || size <= LIMIT_HTTP_QUERY_BYTES);
}

static void try_path(const char *text, size_t size)
{
	char *out = xmalloc(size + 1);
	int rc = percent_decode(text, size, false, out, NULL);

	assert(rc || strlen(out) <= size);
	free(out);
}

static void try_range(const char *text)
{
	static const uint64_t sizes[] = { 0, 1, 100, UINT64_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint64_t first = 0, len = 0;

		if (range_parse(text, sizes[i], &first, &len) != RANGE_PART)
			continue;
		assert(len > 0 && first < sizes[i] && len <= sizes[i] - first);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = xstrndup(data ? (const char *)data : "", size);

	try_query((const char *)data, size);
	try_path((const char *)data, size);
	try_range(text);
	free(text);
	return 0;
}
