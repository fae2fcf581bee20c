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

#include "agent/proc/foreign_file.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/random.h"

#define NAME_PREFIX "tutti_"
#define TEMPORARY   ".tmp" /* suffix of the name until the file is complete */

/* Opens the file: a descriptor, or a negative code. If the process has ended, its file is found only if it
 * had the agent's root. */
static int open_trace(const struct trace_place *place, struct stat *st, struct err *e)
{
	char path[sizeof(TRACE_FOLDER) + TRACE_NAME_BYTES + 1];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", TRACE_FOLDER, place->name);
	fd = foreign_open((uint32_t)place->pid, path, st, e);
	if (fd == ERR_NOT_FOUND)
		fd = foreign_open_here(path, st, e);
	if (fd < 0)
		return fd;
	if (st->st_uid == place->uid && st->st_nlink == 1)
		return fd;
	close(fd);
	return err_set(e, ERR_DENIED, "%s is not a file of user %" PRIu32 " alone", path,
		       place->uid);
}

int trace_file_look(const struct trace_place *place, uint64_t *bytes, struct err *e)
{
	struct stat st;
	int fd = open_trace(place, &st, e);

	if (fd < 0)
		return fd;
	close(fd);
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

int trace_file_convert(const struct trace_place *place, const char *to, uint64_t max_bytes,
		       uint64_t salt, int64_t start_unix_ns, uint32_t steps,
		       struct kineto_counts *counts, struct err *e)
{
	const struct kineto_conf conf = { .salt = salt,
					  .max_memory = KINETO_MAX_MEMORY,
					  .start_unix_ns = start_unix_ns,
					  .steps = steps };
	struct stat st;
	int from = open_trace(place, &st, e), fd, rc;
	uint64_t bytes;
	char *name;

	if (from < 0)
		return from;
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
		rc = file_copy(from, fd, bytes, "PyTorch's trace", e);
	if (!rc)
		rc = convert(fd, (size_t)bytes, to, &conf, counts, e);
	if (fd >= 0)
		close(fd);
	close(from);
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
static bool is_of_another_tracer(void *arg, const char *name)
{
	const struct trace_place *place = arg;
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

bool trace_file_remove(const struct trace_place *place, bool is_last)
{
	char temporary[TRACE_NAME_BYTES + sizeof(TEMPORARY)];

	snprintf(temporary, sizeof(temporary), "%s" TEMPORARY, place->name);
	if (is_last)
		foreign_remove((uint32_t)place->pid, TRACE_FOLDER, temporary, place->uid);
	return foreign_remove((uint32_t)place->pid, TRACE_FOLDER, place->name, place->uid);
}

size_t trace_file_remove_others(const struct trace_place *place)
{
	struct trace_place of = *place;

	return foreign_remove_all((uint32_t)place->pid, TRACE_FOLDER, place->uid,
				  is_of_another_tracer, &of);
}
