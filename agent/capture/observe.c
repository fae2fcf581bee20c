/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/capture/observe.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "proto/limits.h"
#include "xspace/causality.h"

#define WINDOW_BYTES (256 << 10)
/* A file up to this size is read at once: the reader jumps about, and asks for a few kilobytes at each place. */
#define WHOLE_BYTES (1 << 20)
#define HEAD_BYTES  128 /* of the packed observations, before the first one */

static int read_file(void *arg, uint64_t offset, void *out, size_t len, struct err *e)
{
	return file_read_exact(*(const int *)arg, offset, out, len, "the capture's file", e);
}

static int observe(const struct xs_source *in, int64_t window_ns, struct buf *out, struct err *e)
{
	struct xs_causality *c = xs_causality_new();
	int rc;

	xs_causality_set_window(c, window_ns);
	rc = xs_causality_add(c, in, 0, e);
	if (!rc)
		xs_causality_pack(c, LIMIT_OBSERVATION_BYTES - HEAD_BYTES, out);
	xs_causality_free(c);
	return rc;
}

int observe_file(const char *path, uint64_t bytes, int64_t window_ns, struct buf *out,
		 struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct xs_source in = {
		.read = read_file, .arg = &fd, .size = bytes, .window_bytes = WINDOW_BYTES
	};
	uint8_t *whole = NULL;
	int rc = 0;

	if (fd < 0)
		return err_errno(e, "%s", path);
	if (bytes <= WHOLE_BYTES) {
		whole = xmalloc((size_t)bytes + 1);
		rc = read_file(&fd, 0, whole, (size_t)bytes, e);
		in = xs_source_memory(whole, (size_t)bytes);
	}
	if (!rc)
		rc = observe(&in, window_ns, out, e);
	free(whole);
	close(fd);
	return rc;
}
