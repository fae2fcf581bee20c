/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/ingest/ingest.h"
#include "base/file.h"
#include "xspace/xspace.h"

static int read_file(void *arg, uint64_t offset, void *buf, size_t len, struct err *e)
{
	const struct ingest_file *f = arg;

	return file_read_exact(f->fd, f->offset + offset, buf, len, "the aggregator's spool", e);
}

int ingest_check_xspace(const struct ingest_file *file, struct err *e)
{
	struct ingest_file f = *file;
	struct xs_source source = { .read = read_file, .arg = &f, .size = f.bytes };
	uint64_t start_ns = 0;
	int rc;

	if (f.memory)
		source = xs_source_memory((const uint8_t *)f.memory + f.offset, (size_t)f.bytes);
	rc = xs_profile_start(&source, &start_ns, e);
	if (rc)
		return err_prefix(e, "the file is no XSpace");
	if (!start_ns)
		return err_set(e, ERR_INVALID,
			       "the file lacks the plane Task Environment with profile_start_time");
	return 0;
}
