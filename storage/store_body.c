/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on their way into a file descriptor. */
#include <errno.h>
#include <unistd.h>

#include "base/mem.h"
#include "storage/kinds.h"

#define COPY_BYTES  ((size_t)256 << 10)
#define RANGE_BYTES ((uint64_t)1 << 30) /* one copy_file_range(); its limit is near 2 GiB */

int store_write_all(int fd, const void *data, uint64_t len, struct err *e)
{
	const uint8_t *p = data;

	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(e, "write");
		p += n;
		len -= (uint64_t)n;
	}
	return 0;
}

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
		ssize_t n = pread(body->fd, chunk, left < COPY_BYTES ? left : COPY_BYTES,
				  (off_t)(body->offset + done));

		if (n > 0) {
			rc = store_write_all(fd, chunk, (uint64_t)n, e);
			done += (uint64_t)n;
		} else if (n == 0) {
			rc = store_body_short(body, done, e);
		} else if (errno != EINTR) {
			rc = err_errno(e, "read the file to put");
		}
	}
	free(chunk);
	return rc;
}

int store_body_write(const struct store_body *body, int fd, struct err *e)
{
	uint64_t done = 0;
	int rc;

	if (body->fd < 0)
		return store_write_all(fd, body->data, body->len, e);
	if (body->len > INT64_MAX || body->offset > INT64_MAX - body->len)
		return err_set(e, ERR_INVALID, "the range to put lies beyond any file");
	rc = copy_in_kernel(body, fd, &done, e);
	if (rc || done == body->len)
		return rc;
	return copy_by_hand(body, fd, done, e);
}
