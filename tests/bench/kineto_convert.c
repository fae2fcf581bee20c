/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kineto_convert IN OUT [REPEAT]: a kineto file as an XSpace. Prints events, left out, unfinished, the Unix ns
 * of the first event's begin and of the last one's end, the CPU seconds of one conversion, and the most
 * memory in KiB that this program had beside the file.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "xspace/kineto.h"

static double cpu_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* The file is in memory, too. */
static long peak_kib(size_t file_bytes)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss - (long)(file_bytes >> 10);
}

static int convert(const struct buf *in, struct buf *out, struct kineto_counts *counts,
		   struct err *e)
{
	struct kineto_conf conf = { .salt = 1, .max_memory = KINETO_MAX_MEMORY };
	struct xs_builder *b = xs_builder_new();
	int rc = kineto_read(in->data, in->len, &conf, b, counts, e);

	buf_reset(out);
	if (!rc)
		xs_finish(b, out);
	xs_builder_free(b);
	return rc;
}

static int run(const char *from, const char *to, int repeat, struct err *e)
{
	struct buf in = BUF_INIT, out = BUF_INIT;
	struct kineto_counts counts;
	double begin = 0;
	int rc = file_load(from, KINETO_MAX_BYTES, &in, e), fd;

	begin = cpu_s();
	for (int i = 0; !rc && i < repeat; i++)
		rc = convert(&in, &out, &counts, e);
	if (!rc) {
		printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %.6f %ld\n",
		       counts.events, counts.left_out, counts.unfinished, counts.start_unix_ns,
		       counts.end_unix_ns, (cpu_s() - begin) / repeat, peak_kib(in.len));
		fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
		rc = fd < 0 ? err_errno(e, "opening %s", to)
			    : file_write_all(fd, out.data, out.len, to, e);
		if (fd >= 0)
			close(fd);
	}
	buf_release(&in);
	buf_release(&out);
	return rc;
}

int main(int argc, char **argv)
{
	struct err e = { 0 };

	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: kineto_convert IN OUT [REPEAT]\n");
		return 2;
	}
	if (!run(argv[1], argv[2], argc > 3 ? (int)strtol(argv[3], NULL, 10) : 1, &e))
		return 0;
	fprintf(stderr, "%s: %s\n", argv[1], e.msg);
	return 1;
}
