/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xspace_rebase IN OUT SHIFT_NS            file to file, through a window
 * xspace_rebase --memory IN OUT SHIFT_NS   the same in memory, files read and written outside the time
 * xspace_rebase --check IN OUT SHIFT_NS    whether OUT's lines are IN's, moved
 *
 * Prints one line: CPU seconds, bytes written, lines, and the process's greatest RSS in bytes.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/now.h"
#include "xspace/xspace.h"

/* CPU time: other programs on the machine change wall times, not this. */
static int64_t cpu_ns(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t)) {
		perror("clock_gettime");
		exit(1);
	}
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static int64_t shift(void *arg, int64_t ns)
{
	return ns + *(int64_t *)arg;
}

static int file_read(void *arg, uint64_t offset, void *out, size_t len, struct err *e)
{
	uint8_t *p = out;

	while (len) {
		ssize_t n = pread(*(int *)arg, p, len, (off_t)offset);

		if (n <= 0)
			return err_errno(e, "read at %" PRIu64, offset);
		p += n;
		len -= (size_t)n;
		offset += (size_t)n;
	}
	return 0;
}

static int file_write(void *arg, const void *data, size_t len, struct err *e)
{
	const uint8_t *p = data;

	while (len) {
		ssize_t n = write(*(int *)arg, p, len);

		if (n <= 0)
			return err_errno(e, "write");
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

static int must_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd < 0) {
		perror(path);
		exit(1);
	}
	return fd;
}

static struct xs_source file_source(int *fd)
{
	struct stat st;

	if (fstat(*fd, &st)) {
		perror("fstat");
		exit(1);
	}
	return (struct xs_source){ .read = file_read, .arg = fd, .size = (uint64_t)st.st_size };
}

static int rebase_files(int in_fd, int out_fd, const struct xs_rebase *how,
			struct xs_counts *counts, int64_t *took_ns, struct err *e)
{
	struct xs_source in = file_source(&in_fd);
	struct xs_sink out = { .write = file_write, .arg = &out_fd };
	int64_t start = cpu_ns();
	int rc = xs_rebase(&in, how, &out, counts, e);

	*took_ns = cpu_ns() - start;
	return rc;
}

static int rebase_memory(int in_fd, int out_fd, const struct xs_rebase *how,
			 struct xs_counts *counts, int64_t *took_ns, struct err *e)
{
	struct xs_source file = file_source(&in_fd), in;
	uint8_t *data = xmalloc((size_t)file.size);
	struct buf bytes = BUF_INIT;
	struct xs_sink out = xs_sink_buf(&bytes);
	int64_t start;
	int rc = file_read(&in_fd, 0, data, (size_t)file.size, e);

	if (!rc) {
		in = xs_source_memory(data, (size_t)file.size);
		start = cpu_ns();
		rc = xs_rebase(&in, how, &out, counts, e);
		*took_ns = cpu_ns() - start;
	}
	if (!rc)
		rc = file_write(&out_fd, bytes.data, bytes.len, e);
	buf_release(&bytes);
	free(data);
	return rc;
}

/* ---- checking ---- */

struct times {
	int64_t *ns;
	size_t n, cap;
};

static int take_line(void *arg, const struct xs_line *l)
{
	struct times *t = arg;

	if (t->n == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 1024;
		t->ns = xrealloc(t->ns, t->cap * sizeof(*t->ns));
	}
	t->ns[t->n++] = l->timestamp_ns;
	return 0;
}

static int check_files(int in_fd, int out_fd, const struct xs_rebase *how, struct xs_counts *counts,
		       int64_t *took_ns, struct err *e)
{
	static const struct xs_visitor visitor = { .line_begin = take_line };
	struct xs_source in = file_source(&in_fd), out = file_source(&out_fd);
	struct times before = { 0 }, after = { 0 };
	int rc = xs_read(&in, &visitor, &before, e);

	if (!rc)
		rc = xs_read(&out, &visitor, &after, e);
	if (!rc && (!before.n || before.n != after.n))
		rc = err_set(e, ERR_INVALID, "%zu lines became %zu", before.n, after.n);
	for (size_t i = 0; !rc && i < before.n; i++) {
		if (after.ns[i] != how->map(how->arg, before.ns[i]))
			rc = err_set(e, ERR_INVALID, "line %zu is at %" PRId64, i, after.ns[i]);
	}
	*took_ns = 0;
	counts->lines = before.n;
	counts->bytes = out.size;
	free(before.ns);
	free(after.ns);
	return rc;
}

/* VmHWM, in bytes; getrusage() would count the program that started this one. */
static uint64_t greatest_rss(void)
{
	char line[256];
	uint64_t kib = 0;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "VmHWM:", 6))
			kib = strtoull(line + 6, NULL, 10);
	}
	if (f)
		fclose(f);
	return kib * 1024;
}

int main(int argc, char **argv)
{
	bool memory = argc == 5 && !strcmp(argv[1], "--memory");
	bool check = argc == 5 && !strcmp(argv[1], "--check");
	int64_t by, took_ns = 0;
	struct xs_rebase how = { .map = shift, .arg = &by };
	struct xs_counts counts = { 0 };
	struct err e = { 0 };
	int in, out, rc;

	if (argc != 4 && !memory && !check) {
		fprintf(stderr, "usage: xspace_rebase [--memory|--check] IN OUT SHIFT_NS\n");
		return 2;
	}
	by = strtoll(argv[argc - 1], NULL, 10);
	in = must_open(argv[argc - 3], O_RDONLY);
	out = must_open(argv[argc - 2], check ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC);
	rc = memory  ? rebase_memory(in, out, &how, &counts, &took_ns, &e)
	     : check ? check_files(in, out, &how, &counts, &took_ns, &e)
		     : rebase_files(in, out, &how, &counts, &took_ns, &e);
	close(in);
	if (close(out) && !rc)
		rc = err_errno(&e, "close");
	if (rc) {
		fprintf(stderr, "xspace_rebase: %s\n", e.msg);
		return 1;
	}
	printf("%.6f %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", (double)took_ns / 1e9, counts.bytes,
	       counts.lines, greatest_rss());
	return 0;
}
