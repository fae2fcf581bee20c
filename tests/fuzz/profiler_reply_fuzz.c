/* SPDX-License-Identifier: Apache-2.0 */
/* ProfileResponse in two pieces, cut anywhere, says the same as in one. The first byte is the cut. */
#include <assert.h>
#include <stdint.h>

#include "agent/tracer/profiler/reply.h"
#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int collect(void *arg, const void *data, size_t len, struct err *e)
{
	(void)e;
	buf_add(arg, data, len);
	return 0;
}

static int read_cut(const uint8_t *data, size_t len, size_t cut, struct profiler_reply *r,
		    struct buf *out)
{
	struct err e;
	int rc;

	*r = profiler_reply_of(collect, out);
	rc = profiler_reply_feed(r, data, cut, &e);
	if (!rc)
		rc = profiler_reply_feed(r, data + cut, len - cut, &e);
	return rc ? rc : profiler_reply_end(r, &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profiler_reply one, two;
	struct buf whole = BUF_INIT, pieces = BUF_INIT;
	size_t len = size ? size - 1 : 0;
	const uint8_t *p = size ? data + 1 : (const uint8_t *)"";
	size_t cut = size && len ? data[0] % (len + 1) : 0;
	int rc = read_cut(p, len, 0, &one, &whole);

	assert(read_cut(p, len, cut, &two, &pieces) == rc);
	assert(one.xspace_bytes == two.xspace_bytes && whole.len == pieces.len);
	assert(one.has_xspace == two.has_xspace && one.empty_trace == two.empty_trace);
	assert(whole.len <= len);
	buf_release(&whole);
	buf_release(&pieces);
	return 0;
}
