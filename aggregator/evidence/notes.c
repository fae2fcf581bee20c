/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/evidence/notes.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "storage/store.h"
#include "xspace/xspace.h"

static void build_notes(char *const *texts, size_t n, struct buf *out)
{
	struct xs_builder *b = xs_builder_new();

	for (size_t i = 0; i < n; i++)
		xs_warning(b, texts[i]);
	xs_finish(b, out);
	xs_builder_free(b);
}

static int ends_with(int fd, uint64_t size, const struct buf *notes, bool *yes, struct err *e)
{
	uint8_t *end;
	int rc;

	*yes = false;
	if (size < notes->len)
		return 0;
	end = xmalloc(notes->len + 1);
	rc = file_read_exact(fd, size - notes->len, end, notes->len, "the end of the file", e);
	*yes = !rc && !memcmp(end, notes->data, notes->len);
	free(end);
	return rc;
}

/* Makes a copy of the first `size` bytes with the warnings at its end, since a store takes only whole objects. */
static int put_copy(const struct notes_file *f, int fd, uint64_t size, const struct buf *notes,
		    struct err *e)
{
	struct store_put put = {
		.key = f->key,
		.fd = file_open_nameless(f->spool),
		.len = size + notes->len,
		.deadline_mono_ns = store_within(STORE_FILE_PATIENCE_NS),
	};
	int rc;

	if (put.fd < 0)
		return err_errno(e, "a copy in %s", f->spool);
	rc = file_copy(fd, put.fd, size, "the file", e);
	if (!rc)
		rc = file_write_all(put.fd, notes->data, notes->len, "the copy of the file", e);
	if (!rc && f->may_replace)
		rc = f->may_replace(f->arg, e);
	if (!rc)
		rc = store_put(f->store, &put, NULL, e);
	close(put.fd);
	return rc;
}

/* A put that fails may have taken place; or there are other warnings still, and `*size` is unknown then, too. */
static int put_certainly(const struct notes_file *f, int fd, const struct buf *notes,
			 uint64_t *size, struct err *e)
{
	uint64_t with_notes = *size + notes->len;
	struct store_stat st = { 0 };
	struct err unknown;
	int rc = put_copy(f, fd, *size, notes, e);

	if (!rc)
		*size = with_notes;
	else if (store_stat(f->store, f->key, store_within(STORE_PATIENCE_NS), &st, &unknown) ||
		 (st.size != *size && st.size != with_notes))
		*size = 0;
	else
		*size = st.size;
	return rc;
}

int notes_put(const struct notes_file *f, char *const *texts, size_t n, uint64_t *size,
	      uint32_t *sum, struct err *e)
{
	const uint64_t without_notes = *size;
	struct buf notes = BUF_INIT;
	bool has_them = false;
	uint64_t found;
	int fd, rc = store_open_fd(f->store, f->key, store_within(STORE_FILE_PATIENCE_NS), &fd,
				   &found, e);

	if (rc) {
		*size = rc == ERR_NOT_FOUND ? *size : 0;
		return rc;
	}
	if (n)
		build_notes(texts, n, &notes);
	if (found == without_notes + notes.len)
		rc = ends_with(fd, found, &notes, &has_them, e);
	if (has_them)
		*size = found;
	else if (!rc)
		rc = put_certainly(f, fd, &notes, size, e);
	close(fd);
	if (sum && *size == without_notes + notes.len)
		*sum = crc32c(*sum, notes.data, notes.len);
	buf_release(&notes);
	return rc;
}
