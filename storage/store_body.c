/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a body into a file descriptor. */
#include <errno.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "storage/kinds.h"

#define COPY_BYTES ((size_t)256 << 10)
/* bytes of one copy_file_range(); the deadline is checked between two */
#define RANGE_BYTES ((uint64_t)64 << 20)

int store_put_short(const struct store_put *put, uint64_t done, struct err *e)
{
	return err_set(e, ERR_INVALID, "the file to put ends after %llu of %llu bytes",
		       (unsigned long long)done, (unsigned long long)put->len);
}

/* Lets the kernel copy; `*done` is how many bytes it copied. Where it cannot copy, that is no error: the
 * caller goes on. */
static int copy_in_kernel(const struct store_put *put, int fd, uint64_t *done, struct err *e)
{
	while (*done < put->len) {
		uint64_t left = put->len - *done;
		loff_t from = (loff_t)(put->offset + *done);
		ssize_t n = copy_file_range(put->fd, &from, fd, NULL,
					    left < RANGE_BYTES ? left : RANGE_BYTES, 0);

		if (n > 0)
			*done += (uint64_t)n;
		else if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO))
			return err_errno(e, "copy_file_range");
		else if (n == 0 || errno != EINTR)
			break; /* other file system, /proc, a kernel without it, or the end */
		if (store_check_deadline(put->deadline_mono_ns, e))
			return ERR_TIMEOUT;
	}
	return 0;
}

static int copy_by_hand(const struct store_put *put, int fd, uint64_t done, struct err *e)
{
	uint8_t *chunk = xmalloc(COPY_BYTES);
	int rc = 0;

	while (!rc && done < put->len) {
		uint64_t left = put->len - done;
		size_t want = left < COPY_BYTES ? left : COPY_BYTES;
		ssize_t n = file_read_up_to(put->fd, put->offset + done, chunk, want);

		if (n < 0)
			rc = err_errno(e, "reading the file to put");
		else if ((size_t)n < want)
			rc = store_put_short(put, done + (uint64_t)n, e);
		else
			rc = file_write_all(fd, chunk, want, "the object", e);
		if (!rc)
			rc = store_check_deadline(put->deadline_mono_ns, e);
		done += want;
	}
	free(chunk);
	return rc;
}

int store_put_write(const struct store_put *put, int fd, struct err *e)
{
	uint64_t done = 0;
	int rc;

	if (put->fd < 0)
		return file_write_all(fd, put->data, put->len, "the object", e);
	if (put->len > INT64_MAX || put->offset > INT64_MAX - put->len)
		return err_set(e, ERR_INVALID, "the range to put lies beyond any file");
	rc = copy_in_kernel(put, fd, &done, e);
	if (rc || done == put->len)
		return rc;
	return copy_by_hand(put, fd, done, e);
}
