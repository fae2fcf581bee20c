/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/refined.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/api.h"
#include "xspace/xspace.h"

int refined_check(const json_t *manifest, struct err *e)
{
	const json_t *refined = json_object_get(manifest, "refined");
	const char *reason = json_get_text(refined, "reason");

	if (!refined)
		return err_set(e, ERR_INVALID, "%s was captured without --refine",
			       json_get_text(manifest, "session"));
	return *reason ? err_set(e, ERR_INVALID, "%s could not be refined: %s",
				 json_get_text(manifest, "session"), reason)
		       : 0;
}

static int64_t moved(void *arg, int64_t timestamp_ns)
{
	int64_t out;

	/* Saturates: such a time is outside the window anyway. */
	return __builtin_add_overflow(timestamp_ns, *(int64_t *)arg, &out) ? INT64_MIN : out;
}

static int write_out(void *arg, const void *data, size_t len, struct err *e)
{
	return fwrite(data, 1, len, arg) == len ? 0 : err_errno(e, "writing");
}

/* Concatenated XSpaces are one XSpace, so appending a second one adds its warning to the first. */
static int write_warning(const struct xs_sink *out, const json_t *refined, struct err *e)
{
	struct xs_builder *b = xs_builder_new();
	struct buf bytes = BUF_INIT;
	char text[160];
	int rc;

	snprintf(text, sizeof(text),
		 "all times were moved by %" PRId64
		 " ns, computed from events of several hosts; the error is at most %" PRId64
		 " ns if those are right",
		 json_get_int(refined, "offset_ns"), json_get_int(refined, "bound_ns"));
	xs_warning(b, text);
	xs_finish(b, &bytes);
	rc = out->write(out->arg, bytes.data, bytes.len, e);
	xs_builder_free(b);
	buf_release(&bytes);
	return rc;
}

static int move_all(const struct xs_source *in, FILE *file, const json_t *manifest,
		    const json_t *refined, struct err *e)
{
	int64_t offset_ns = json_get_int(refined, "offset_ns");
	const struct xs_rebase how = {
		.map = moved,
		.arg = &offset_ns,
		.window_ns = json_get_int(manifest, "duration_ns"),
	};
	const struct xs_sink out = { .write = write_out, .arg = file };
	int rc = xs_rebase(in, &how, &out, NULL, e);

	return rc ? rc : write_warning(&out, refined, e);
}

static int map_file(const char *path, struct xs_source *out, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *data = MAP_FAILED;

	if (fd >= 0 && !fstat(fd, &st))
		data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		err_errno(e, "%s", path);
	if (fd >= 0)
		close(fd);
	if (data == MAP_FAILED)
		return e->code;
	*out = xs_source_memory(data, (size_t)st.st_size);
	return 0;
}

int refined_move(const char *path, const json_t *manifest, const json_t *host, struct err *e)
{
	const json_t *refined = json_object_get(host, "refined");
	struct xs_source in = { 0 };
	char *part = NULL;
	FILE *file = NULL;
	int rc;

	if (!refined)
		return 0;
	part = xasprintf("%s.part", path);
	rc = map_file(path, &in, e);
	if (rc)
		goto out;
	file = fopen(part, "we");
	if (!file) {
		rc = err_errno(e, "%s", part);
		goto out;
	}
	rc = move_all(&in, file, manifest, refined, e);
	if (fclose(file) && !rc)
		rc = err_errno(e, "%s", part);
	if (!rc && rename(part, path))
		rc = err_errno(e, "%s", path);
	if (rc)
		unlink(part);
out:
	if (in.memory)
		munmap((void *)(uintptr_t)in.memory, in.size);
	free(part);
	return rc;
}
