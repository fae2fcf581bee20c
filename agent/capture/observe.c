/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/capture/observe.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "proto/limits.h"
#include "xspace/causality.h"

#define WINDOW_BYTES (256 << 10)
#define HEAD_BYTES   128 /* of the packed observations, before the first one */

static int read_file(void *arg, uint64_t offset, void *out, size_t len, struct err *e)
{
	return file_read_exact(*(const int *)arg, offset, out, len, "the capture's file", e);
}

int observe_file(const char *path, uint64_t bytes, int64_t window_ns, struct buf *out,
		 struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	const struct xs_source in = {
		.read = read_file, .arg = &fd, .size = bytes, .window_bytes = WINDOW_BYTES
	};
	struct xs_causality *c;
	int rc;

	if (fd < 0)
		return err_errno(e, "%s", path);
	c = xs_causality_new();
	xs_causality_set_window(c, window_ns);
	rc = xs_causality_add(c, &in, 0, e);
	if (!rc)
		xs_causality_pack(c, LIMIT_OBSERVATION_BYTES - HEAD_BYTES, out);
	xs_causality_free(c);
	close(fd);
	return rc;
}
