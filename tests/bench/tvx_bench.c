/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tvx_bench XSPACE INDEX [2]: builds the index of a file through a window, with 2 in two threads, then draws random screens
 * from it. Prints one line:
 * CPU seconds of the building, greatest RSS in bytes, the index's bytes, events; and of 1000 screens of 30 tracks and 1920
 * pixels, each at a random place and zoom, the CPU time of the median and of the 99th of a hundred in us, and entries.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"
#include "xspace/tvx/tvx.h"

#define SCREENS 1000
#define TRACKS	30
#define PIXELS	1920
#define OUT_MAX (1 << 20)

static void die(const char *what, const struct err *e)
{
	fprintf(stderr, "%s: %s\n", what, e->msg);
	exit(1);
}

static int read_input(void *arg, uint64_t offset, void *out, size_t len, struct err *e)
{
	return file_read_exact(*(int *)arg, offset, out, len, "the input", e);
}

struct output {
	int fd;
	struct buf pending;
};

static int flush(struct output *o, struct err *e)
{
	int rc = file_write_all(o->fd, o->pending.data, o->pending.len, "the index", e);

	buf_reset(&o->pending);
	return rc;
}

static int write_output(void *arg, const void *data, size_t len, struct err *e)
{
	struct output *o = arg;

	buf_add(&o->pending, data, len);
	return o->pending.len < OUT_MAX ? 0 : flush(o, e);
}

static int open_file(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd < 0) {
		perror(path);
		exit(1);
	}
	return fd;
}

static uint64_t size_of(int fd)
{
	struct stat st;

	if (fstat(fd, &st)) {
		perror("fstat");
		exit(1);
	}
	return (uint64_t)st.st_size;
}

/* ---- screens ---- */

static int count_entry(void *arg, const struct tvx_entry *en)
{
	uint64_t *n = arg;

	*n += en->count > 0;
	return 0;
}

static uint64_t draw(uint64_t below)
{
	static uint64_t rng = 88172645463325252;

	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (rng >> 11) % below;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* Zooms from 10 us to the whole span, evenly on a log scale. */
static struct tvx_window draw_window(int64_t first, int64_t last)
{
	unsigned int most = 0, shift;
	int64_t size, from;

	while ((int64_t)PIXELS << most < last - first)
		most++;
	shift = 12 + (unsigned int)draw(most > 12 ? most - 11 : 1);
	size = (int64_t)PIXELS << shift;
	from = first + (last - first > size ? (int64_t)draw((uint64_t)(last - first - size)) : 0);
	return (struct tvx_window){ .from_ps = from, .to_ps = from + size, .shift = shift };
}

static void draw_screens(const struct tvx *x, int64_t *us, uint64_t *entries)
{
	const struct tvx_track *tracks;
	size_t n = tvx_tracks(x, &tracks);
	int64_t first = INT64_MAX, last = INT64_MIN;
	struct err e;

	for (size_t t = 0; t < n; t++) {
		first = tracks[t].events && tracks[t].first_ps < first ? tracks[t].first_ps : first;
		last = tracks[t].events && tracks[t].last_ps > last ? tracks[t].last_ps : last;
	}
	for (int i = 0; i < SCREENS; i++) {
		struct tvx_window w = draw_window(first, last);
		uint32_t from = n > TRACKS ? (uint32_t)draw(n - TRACKS) : 0;
		int64_t begin = now_thread_cpu_ns();

		for (uint32_t t = from; t < n && t < from + TRACKS; t++) {
			if (tvx_query(x, t, &w, count_entry, entries, &e))
				die("query", &e);
		}
		us[i] = (now_thread_cpu_ns() - begin) / NS_PER_US;
	}
	qsort(us, SCREENS, sizeof(*us), by_value);
}

int main(int argc, char **argv)
{
	static int64_t us[SCREENS];
	const struct tvx_track *tracks;
	struct output o = { 0 };
	const struct xs_sink sink = { .write = write_output, .arg = &o };
	const struct tvx_build how = { .in_two_threads = argc == 4 };
	struct xs_source in = { .read = read_input };
	uint64_t entries = 0, events = 0, bytes;
	struct rusage use;
	int64_t cpu_ns;
	struct tvx *x;
	struct err e;
	void *map;
	int fd;

	if (argc != 3 && (argc != 4 || strcmp(argv[3], "2") != 0)) {
		fprintf(stderr, "tvx_bench XSPACE INDEX [2]\n");
		return 2;
	}
	fd = open_file(argv[1], O_RDONLY);
	o.fd = open_file(argv[2], O_RDWR | O_CREAT | O_TRUNC);
	in.arg = &fd;
	in.size = size_of(fd);
	cpu_ns = now_process_cpu_ns();
	if (tvx_build(&in, &how, &sink, &e) || flush(&o, &e))
		die("build", &e);
	cpu_ns = now_process_cpu_ns() - cpu_ns;
	getrusage(RUSAGE_SELF, &use);
	bytes = size_of(o.fd);
	map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, o.fd, 0);
	if (map == MAP_FAILED || tvx_open(&x, map, bytes, in.size, &e))
		die("open", &e);
	draw_screens(x, us, &entries);
	for (size_t t = 0, n = tvx_tracks(x, &tracks); t < n; t++)
		events += tracks[t].events;
	printf("%.3f %ld %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %" PRIu64 "\n",
	       (double)cpu_ns / 1e9, use.ru_maxrss * 1024, bytes, events, us[SCREENS / 2],
	       us[SCREENS * 99 / 100], entries / SCREENS);
	tvx_close(x);
	return 0;
}
