/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/logs/files.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/tracer/logs/runtime.h"
#include "agent/tracer/logs/split.h"
#include "base/file.h"
#include "base/mem.h"

#define CHUNK_BYTES (64 << 10)
#define LINE_GUESS  100 /* bytes, of a file of which no line was read */
#define TAIL_BYTES  64

struct log_file {
	dev_t dev;
	ino_t ino;
	int fd;
	bool is_matched; /* at the last look */
	uint64_t offset;
	/* the bytes before the offset: they tell a file that was cut and is longer again */
	uint8_t tail[TAIL_BYTES];
	size_t n_tail;
	int64_t grew_mono_ns;
	uint64_t lines, bytes; /* read */
	struct log_origin origin;
	struct split split;
	struct runtime runtime;
	uint64_t pending; /* bytes to read; within files_read() */
};

struct files {
	char **patterns;
	size_t n_patterns;
	struct log_file *v[FILES_MAX];
	size_t n;
	bool looked;
	char problem[256];
	int error; /* errno of the problem; 0 = none */
	uint8_t chunk[CHUNK_BYTES];
};

struct files *files_new(const char *const *patterns, size_t n)
{
	struct files *f = xcalloc(1, sizeof(*f));

	f->patterns = xcalloc(n, sizeof(*f->patterns));
	for (f->n_patterns = 0; f->n_patterns < n; f->n_patterns++)
		f->patterns[f->n_patterns] = xstrdup(patterns[f->n_patterns]);
	return f;
}

static void close_file(struct log_file *file)
{
	close(file->fd);
	split_release(&file->split);
	runtime_release(&file->runtime);
	free(file);
}

void files_free(struct files *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n; i++)
		close_file(f->v[i]);
	for (size_t i = 0; i < f->n_patterns; i++)
		free(f->patterns[i]);
	free(f->patterns);
	free(f);
}

size_t files_count(const struct files *f)
{
	return f->n;
}

const char *files_problem(const struct files *f)
{
	return f->problem;
}

int files_error(const struct files *f)
{
	return f->error;
}

/* ---- which files ---- */

/* The first one stays. `error` is an errno, or 0. */
static void add_problem(struct files *f, const char *path, int error, const char *why)
{
	if (*f->problem)
		return;
	f->error = error;
	snprintf(f->problem, sizeof(f->problem), "%.150s: %s", path, why);
}

static void add_error(struct files *f, const char *path, int error)
{
	add_problem(f, path, error,
		    error == EACCES ? "permission denied: grant CAP_DAC_READ_SEARCH"
				    : strerror(error));
}

static struct log_file *find(const struct files *f, const struct stat *st)
{
	for (size_t i = 0; i < f->n; i++) {
		if (f->v[i]->ino == st->st_ino && f->v[i]->dev == st->st_dev)
			return f->v[i];
	}
	return NULL;
}

/* Whether a line begins at `offset`. */
static bool is_line_start(int fd, uint64_t offset)
{
	char before = '\n';

	return !offset || file_read_up_to(fd, offset - 1, &before, 1) != 1 || before == '\n';
}

static size_t read_tail(const struct log_file *file, uint8_t out[TAIL_BYTES])
{
	size_t n = file->offset < TAIL_BYTES ? (size_t)file->offset : TAIL_BYTES;
	ssize_t got = file_read_up_to(file->fd, file->offset - n, out, n);

	return got < 0 ? 0 : (size_t)got;
}

static void follow(struct files *f, const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct log_file *file;
	struct stat st;

	if (fd < 0 || fstat(fd, &st)) {
		add_error(f, path, errno);
	} else if (f->n == FILES_MAX) {
		add_problem(f, path, 0, "too many files: only 512 are read; name fewer in --logs");
	} else if (S_ISREG(st.st_mode) && !find(f, &st)) {
		file = xcalloc(1, sizeof(*file));
		*file = (struct log_file){ .dev = st.st_dev,
					   .ino = st.st_ino,
					   .fd = fd,
					   .is_matched = true,
					   .offset = f->looked ? 0 : (uint64_t)st.st_size,
					   .grew_mono_ns = now_mono_ns() };
		file->split.skips = !is_line_start(fd, file->offset);
		file->n_tail = read_tail(file, file->tail);
		origin_of_path(path, &file->origin);
		f->v[f->n++] = file;
		return;
	}
	if (fd >= 0)
		close(fd);
}

/* Files are told apart before they are opened: opening a device may do something. `is_named`: the path itself is asked for, not a
 * pattern. */
static void match(struct files *f, const char *path, bool is_named)
{
	struct log_file *file;
	struct stat st;

	if (stat(path, &st)) {
		if (errno != ENOENT) /* it has just been removed, or is a link to a removed file */
			add_error(f, path, errno);
		return;
	}
	file = find(f, &st);
	if (file)
		file->is_matched = true;
	else if (S_ISREG(st.st_mode))
		follow(f, path);
	else if (is_named)
		add_problem(f, path, 0, "not a regular file: nothing of it is read");
}

static void close_quiet_files(struct files *f)
{
	int64_t now_ns = now_mono_ns();
	size_t kept = 0;

	for (size_t i = 0; i < f->n; i++) {
		struct log_file *file = f->v[i];

		if (!file->is_matched && now_ns - file->grew_mono_ns > FILES_GONE_NS)
			close_file(file);
		else
			f->v[kept++] = file;
	}
	f->n = kept;
}

static void add_no_match(struct files *f, const char *pattern)
{
	struct stat st;

	if (stat(pattern, &st) && errno == EACCES)
		add_error(f, pattern, errno);
	else
		add_problem(f, pattern, 0,
			    "no such file yet, or no permission to list its folder "
			    "(CAP_DAC_READ_SEARCH)");
}

void files_look(struct files *f)
{
	*f->problem = '\0';
	f->error = 0;
	for (size_t i = 0; i < f->n; i++)
		f->v[i]->is_matched = false;
	for (size_t i = 0; i < f->n_patterns; i++) {
		glob_t found = { 0 };

		if (glob(f->patterns[i], GLOB_NOSORT | GLOB_BRACE, NULL, &found) == GLOB_NOMATCH)
			add_no_match(f, f->patterns[i]);
		for (size_t k = 0; k < found.gl_pathc; k++)
			match(f, found.gl_pathv[k], !strcmp(found.gl_pathv[k], f->patterns[i]));
		globfree(&found);
	}
	close_quiet_files(f);
	f->looked = true;
}

/* ---- what they got ---- */

struct taker {
	struct log_file *file;
	struct reading *r;
};

static void on_line(void *arg, const struct log_line *line, const struct log_time *time)
{
	struct taker *t = arg;

	reading_add(t->r, &t->file->origin, line, time, STAMP_RUNTIME);
}

/* A line beyond the limit is only counted, not parsed. */
static void on_split(void *arg, const char *line, size_t len)
{
	struct taker *t = arg;

	t->file->lines++;
	if (t->r->lines_left > 0)
		runtime_add(&t->file->runtime, line, len, on_line, t);
	else
		t->r->lost++;
}

/* Goes on near the end of the file. The number of skipped lines is estimated from the mean length of those that were
 * read. */
static void skip_backlog(struct log_file *file, struct reading *r, uint64_t size)
{
	uint64_t to = size - FILES_BACKLOG_KEPT;
	uint64_t line = file->lines ? file->bytes / file->lines : LINE_GUESS;

	r->lost += (to - file->offset) / (line ? line : 1) + 1;
	file->offset = to;
	file->n_tail = read_tail(file, file->tail);
	buf_reset(&file->split.begun);
	buf_reset(&file->runtime.joined);
	file->split.skips = !is_line_start(file->fd, to);
}

static void keep_tail(struct log_file *file, const uint8_t *data, size_t n)
{
	size_t before = n < TAIL_BYTES ? TAIL_BYTES - n : 0;

	if (before > file->n_tail)
		before = file->n_tail;
	if (n > TAIL_BYTES) {
		data += n - TAIL_BYTES;
		n = TAIL_BYTES;
	}
	memmove(file->tail, file->tail + file->n_tail - before, before);
	memcpy(file->tail + before, data, n);
	file->n_tail = before + n;
}

/* Up to `share` bytes. */
static void read_file(struct files *f, struct log_file *file, struct reading *r, int64_t share)
{
	struct taker t = { file, r };

	while (share > 0 && file->pending) {
		size_t want = share < CHUNK_BYTES ? (size_t)share : CHUNK_BYTES;
		ssize_t n = file_read_up_to(file->fd, file->offset, f->chunk, want);

		if (n <= 0)
			return;
		file->offset += (uint64_t)n;
		file->bytes += (uint64_t)n;
		file->pending -= (uint64_t)n < file->pending ? (uint64_t)n : file->pending;
		file->grew_mono_ns = r->mono_ns;
		r->bytes_left -= n;
		share -= n;
		split_add(&file->split, f->chunk, (size_t)n, on_split, &t);
		keep_tail(file, f->chunk, (size_t)n);
	}
}

/* It is shorter than what was read of it, or has other bytes there. */
static bool was_cut(const struct log_file *file, uint64_t size)
{
	uint8_t tail[TAIL_BYTES];

	if (size <= file->offset || !file->n_tail)
		return size < file->offset;
	return read_tail(file, tail) != file->n_tail || memcmp(tail, file->tail, file->n_tail);
}

/* Sets what is to be read, and takes a line that has waited for its end. */
static void check_size(struct log_file *file, struct reading *r)
{
	struct taker t = { file, r };
	uint64_t size;
	struct stat st;

	file->pending = 0;
	if (fstat(file->fd, &st))
		return;
	size = (uint64_t)st.st_size;
	if (was_cut(file, size)) {
		split_flush(&file->split, on_split, &t);
		file->split.skips = false;
		file->offset = 0;
		file->n_tail = 0;
	}
	file->pending = size - file->offset;
	if (file->split.begun.len && !file->pending &&
	    r->mono_ns - file->grew_mono_ns > FILES_WAIT_NS)
		split_flush(&file->split, on_split, &t);
}

static int by_pending(const void *a, const void *b)
{
	const struct log_file *x = *(struct log_file *const *)a, *y = *(struct log_file *const *)b;

	return (x->pending > y->pending) - (x->pending < y->pending);
}

void files_read(struct files *f, struct reading *r)
{
	struct log_file *ready[FILES_MAX];
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++) {
		check_size(f->v[i], r);
		if (f->v[i]->pending)
			ready[n++] = f->v[i];
	}
	sort_array(ready, n, sizeof(ready[0]), by_pending);
	for (size_t i = 0; i < n; i++) {
		struct log_file *file = ready[i];
		int64_t others = (int64_t)(n - i - 1), lines = r->lines_left;
		int64_t share = lines / (others + 1) + (lines % (others + 1) > 0);

		/* A file has its share of the lines, too; what it leaves is for those after it. */
		r->lines_left = share;
		read_file(f, file, r, r->bytes_left / (others + 1));
		r->lines_left += lines - share;
		if (file->pending > FILES_BACKLOG)
			skip_backlog(file, r, file->offset + file->pending);
	}
}
