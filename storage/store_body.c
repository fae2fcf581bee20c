/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on their way into a file descriptor. */
#include <errno.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "storage/kinds.h"

#define COPY_BYTES  ((size_t)256 << 10)
#define RANGE_BYTES ((uint64_t)1 << 30) /* one copy_file_range(); its limit is near 2 GiB */

int store_body_short(const struct store_body *body, uint64_t done, struct err *e)
{
	return err_set(e, ERR_INVALID, "the file to put ends after %llu of %llu bytes",
		       (unsigned long long)done, (unsigned long long)body->len);
}

/* Leaves in `*done` what the kernel moved; stops without complaint where it cannot do more. */
static int copy_in_kernel(const struct store_body *body, int fd, uint64_t *done, struct err *e)
{
	while (*done < body->len) {
		uint64_t left = body->len - *done;
		loff_t from = (loff_t)(body->offset + *done);
		ssize_t n = copy_file_range(body->fd, &from, fd, NULL,
					    left < RANGE_BYTES ? left : RANGE_BYTES, 0);

		if (n > 0)
			*done += (uint64_t)n;
		else if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO))
			return err_errno(e, "copy_file_range");
		else if (n == 0 || errno != EINTR)
			break; /* other file system, /proc, a kernel without it, or the end */
	}
	return 0;
}

static int copy_by_hand(const struct store_body *body, int fd, uint64_t done, struct err *e)
{
	uint8_t *chunk = xmalloc(COPY_BYTES);
	int rc = 0;

	while (!rc && done < body->len) {
		uint64_t left = body->len - done;
		size_t want = left < COPY_BYTES ? left : COPY_BYTES;
		ssize_t n = file_read_up_to(body->fd, body->offset + done, chunk, want);

		if (n < 0)
			rc = err_errno(e, "reading the file to put");
		else if ((size_t)n < want)
			rc = store_body_short(body, done + (uint64_t)n, e);
		else
			rc = file_write_all(fd, chunk, want, "the object", e);
		done += want;
	}
	free(chunk);
	return rc;
}

int store_body_write(const struct store_body *body, int fd, struct err *e)
{
	uint64_t done = 0;
	int rc;

	if (body->fd < 0)
		return file_write_all(fd, body->data, body->len, "the object", e);
	if (body->len > INT64_MAX || body->offset > INT64_MAX - body->len)
		return err_set(e, ERR_INVALID, "the range to put lies beyond any file");
	rc = copy_in_kernel(body, fd, &done, e);
	if (rc || done == body->len)
		return rc;
	return copy_by_hand(body, fd, done, e);
}
