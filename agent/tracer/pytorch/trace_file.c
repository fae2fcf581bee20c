/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/pytorch/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/random.h"

#define NAME_PREFIX "tutti_"
#define COPY_BYTES  (256U << 10) /* at once */
#define NAMES_MAX   100000 /* of the folder are looked at */
#define TEMPORARY   ".tmp" /* suffix of the name until the file is complete */

static struct far_place far_place(const struct trace_place *place)
{
	return (struct far_place){ .pid = (uint32_t)place->pid, .uid = place->uid };
}

/* If the process has ended, its file is found only if it had the agent's root. */
static int open_trace(struct far_files *ff, const struct trace_place *place, struct far_file *out,
		      struct stat *st, struct err *e)
{
	char path[sizeof(TRACE_FOLDER) + TRACE_NAME_BYTES + 1];
	const struct far_place far = far_place(place);
	int rc;

	snprintf(path, sizeof(path), "%s/%s", TRACE_FOLDER, place->name);
	rc = far_open(ff, &far, path, out, st, e);
	if (rc == ERR_NOT_FOUND)
		rc = far_open_here(ff, &far, path, out, st, e);
	if (rc)
		return rc;
	if (st->st_uid == place->uid && st->st_nlink == 1)
		return 0;
	far_file_close(out);
	return err_set(e, ERR_DENIED, "%s is not a file of user %" PRIu32 " alone", path,
		       place->uid);
}

int trace_file_look(struct far_files *ff, const struct trace_place *place, uint64_t *bytes,
		    struct err *e)
{
	struct far_file file;
	struct stat st;
	int rc = open_trace(ff, place, &file, &st, e);

	if (rc)
		return rc;
	far_file_close(&file);
	*bytes = (uint64_t)st.st_size;
	return 0;
}

static int write_xspace(const char *to, struct xs_builder *b, struct err *e)
{
	struct buf out = BUF_INIT;
	int fd = open(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	int rc;

	xs_finish(b, &out);
	rc = fd < 0 ? err_errno(e, "making %s", to) : file_write_all(fd, out.data, out.len, to, e);
	if (fd >= 0 && rc && ftruncate(fd, end))
		err_prefix(e, "and a part of it stays");
	if (fd >= 0)
		close(fd);
	buf_release(&out);
	return rc;
}

static int convert(int fd, size_t bytes, const char *to, const struct kineto_conf *conf,
		   struct kineto_counts *counts, struct err *e)
{
	struct xs_builder *b;
	void *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	int rc;

	if (data == MAP_FAILED)
		return err_errno(e, "mapping the copy of PyTorch's trace");
	b = xs_builder_new();
	rc = kineto_read(data, bytes, conf, b, counts, e);
	munmap(data, bytes);
	if (rc)
		err_prefix(e, "PyTorch's trace");
	else if (counts->events)
		rc = write_xspace(to, b, e);
	xs_builder_free(b);
	return rc;
}

static int copy(struct far_file *from, int to, uint64_t bytes, struct err *e)
{
	uint8_t *chunk = xmalloc(COPY_BYTES);
	uint64_t done = 0;
	int rc = 0;

	while (!rc && done < bytes) {
		size_t len = bytes - done < COPY_BYTES ? (size_t)(bytes - done) : COPY_BYTES;

		rc = far_file_read(from, done, chunk, len, e);
		if (!rc)
			rc = file_write_all(to, chunk, len, "the copy of PyTorch's trace", e);
		done += len;
	}
	free(chunk);
	return rc;
}

int trace_file_convert(struct far_files *ff, const struct trace_place *place, const char *to,
		       uint64_t max_bytes, uint64_t salt, int64_t start_unix_ns, uint32_t steps,
		       struct kineto_counts *counts, struct err *e)
{
	const struct kineto_conf conf = { .salt = salt,
					  .max_memory = KINETO_MAX_MEMORY,
					  .start_unix_ns = start_unix_ns,
					  .steps = steps };
	struct far_file from;
	struct stat st;
	int rc = open_trace(ff, place, &from, &st, e), fd;
	uint64_t bytes;
	char *name;

	if (rc)
		return rc;
	bytes = (uint64_t)st.st_size;
	name = xasprintf("%s.copy", to);
	fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		rc = err_errno(e, "making %s", name);
	else if (unlink(name)) /* the copy has no name: it vanishes with its descriptor */
		rc = err_errno(e, "removing %s", name);
	else if (!bytes || bytes > max_bytes || bytes > KINETO_MAX_BYTES)
		rc = err_set(e, ERR_LIMIT, "PyTorch's trace has %" PRIu64 " bytes", bytes);
	else
		rc = copy(&from, fd, bytes, e);
	far_file_close(&from);
	if (!rc)
		rc = convert(fd, (size_t)bytes, to, &conf, counts, e);
	if (fd >= 0)
		close(fd);
	free(name);
	return rc;
}

/* ---- names ---- */

void trace_place_name(struct trace_place *place)
{
	uint32_t number;

	random_bytes(&number, sizeof(number));
	snprintf(place->name, sizeof(place->name),
		 NAME_PREFIX "%08" PRIx32 "%08" PRIx32 "_%" PRId32 ".json", place->run, number,
		 place->inner_pid);
}

/* The name may have TEMPORARY at its end. */
static bool is_of_another_tracer(const struct trace_place *place, const char *name)
{
	size_t digits = strlen(NAME_PREFIX), end = digits + 16;
	char run[16], tail[32];

	snprintf(run, sizeof(run), "%08" PRIx32, place->run);
	snprintf(tail, sizeof(tail), "_%" PRId32 ".json", place->inner_pid);
	if (strncmp(name, NAME_PREFIX, digits) != 0 ||
	    strspn(name + digits, "0123456789abcdef") != 16 || !strncmp(name + digits, run, 8))
		return false;
	return !strncmp(name + end, tail, strlen(tail)) &&
	       (!name[end + strlen(tail)] || !strcmp(name + end + strlen(tail), TEMPORARY));
}

/* ---- removing ---- */

static bool remove_name(struct far_files *ff, const struct trace_place *place, const char *name)
{
	const struct far_place far = far_place(place);

	return far_remove(ff, &far, TRACE_FOLDER, name, NULL) > 0;
}

bool trace_file_remove(struct far_files *ff, const struct trace_place *place, bool is_last)
{
	char temporary[TRACE_NAME_BYTES + sizeof(TEMPORARY)];

	snprintf(temporary, sizeof(temporary), "%s" TEMPORARY, place->name);
	if (is_last)
		(void)remove_name(ff, place, temporary);
	return remove_name(ff, place, place->name);
}

size_t trace_file_remove_others(struct far_files *ff, const struct trace_place *place)
{
	const struct far_place far = far_place(place);
	char *names = xmalloc(FAR_LIST_BYTES);
	size_t n = 0, removed = 0;
	ssize_t len = 1;

	while (len > 0 && n < NAMES_MAX) {
		size_t before = n - removed; /* removed ones are not there any more */

		len = far_list(ff, &far, TRACE_FOLDER, before, names, NULL);
		for (ssize_t at = 0; at < len; at += (ssize_t)strlen(names + at) + 1, n++)
			removed += is_of_another_tracer(place, names + at) &&
				   remove_name(ff, place, names + at);
	}
	free(names);
	return removed;
}
