/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "aggregator/views/queries.h"
#include "base/buf.h"
#include "base/mem.h"

#define WORTH_BYTES 1400 /* less fits one packet as it is */
#define GZIP_WINDOW (15 + 16) /* zlib's largest window; with gzip's head */
#define FASTEST	    1

bool view_compress(struct buf *text)
{
	z_stream z = { 0 };
	struct buf out = BUF_INIT;
	bool ok;

	if (text->len < WORTH_BYTES || text->len > UINT32_MAX / 2 ||
	    deflateInit2(&z, FASTEST, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return false;
	buf_reserve(&out, text->len);
	z.next_in = text->data;
	z.avail_in = (uInt)text->len;
	z.next_out = out.data;
	z.avail_out = (uInt)text->len;
	ok = deflate(&z, Z_FINISH) == Z_STREAM_END;
	out.len = z.total_out;
	deflateEnd(&z);
	if (ok) {
		buf_release(text);
		*text = out;
	} else {
		buf_release(&out);
	}
	return ok;
}
