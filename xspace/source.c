/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/xspace.h"

struct xs_source xs_source_memory(const void *data, size_t len)
{
	return (struct xs_source){ .size = len, .memory = data };
}

static int buf_sink_write(void *arg, const void *data, size_t len, struct err *e)
{
	(void)e;
	buf_add(arg, data, len);
	return 0;
}

static void buf_sink_expect(void *arg, uint64_t bytes)
{
	buf_reserve_all(arg, (size_t)bytes);
}

struct xs_sink xs_sink_buf(struct buf *b)
{
	return (struct xs_sink){ .write = buf_sink_write, .arg = b, .expect = buf_sink_expect };
}
