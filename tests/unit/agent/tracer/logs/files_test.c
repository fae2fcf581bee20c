/* SPDX-License-Identifier: Apache-2.0 */
/* Files that grow, are rotated, cut, removed, hold anything, or grow too fast. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/tracer/logs/files.h"
#include "base/file.h"
#include "base/mem.h"
#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"

struct bed {
	const char *dir;
	struct files *files;
	struct reading reading;
	char seen[4096]; /* "NAME:TEXT|", without the folder */
	size_t n;
};

static char *path_of(const struct bed *b, const char *name)
{
	return xasprintf("%s/%s", b->dir, name);
}

static void write_flags(const struct bed *b, const char *name, const void *data, size_t len,
			int flags)
{
	char *path = path_of(b, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
	struct err e;

	CHECK(fd >= 0);
	CHECK_OK(file_write_all(fd, data, len, path, &e), e);
	close(fd);
	free(path);
}

static void append(const struct bed *b, const char *name, const char *text)
{
	write_flags(b, name, text, strlen(text), O_APPEND);
}

static void move(const struct bed *b, const char *from, const char *to)
{
	char *old = path_of(b, from), *new = path_of(b, to);

	CHECK(!rename(old, new));
	free(old);
	free(new);
}

static void open_bed(struct bed *b, const char *pattern)
{
	char *path;

	*b = (struct bed){ .dir = temp_dir() };
	path = path_of(b, pattern);
	b->files = files_new((const char *const[]){ path }, 1);
	free(path);
}

static void close_bed(struct bed *b)
{
	files_free(b->files);
	reading_release(&b->reading);
	temp_dir_remove(b->dir);
}

static void on_row(void *arg, int64_t raw_ns, const void *data, size_t len)
{
	struct bed *b = arg;
	struct log_record record = record_unpack(data);
	size_t at = strlen(b->seen);

	(void)raw_ns;
	(void)len;
	b->n++;
	snprintf(b->seen + at, sizeof(b->seen) - at, "%s:%s|", strrchr(record.name, '/') + 1,
		 record.text);
}

/* At an instant `later_ns` after now. */
static void read_later(struct bed *b, int64_t later_ns, int64_t lines, int64_t bytes)
{
	reading_begin(&b->reading, 1);
	b->reading.mono_ns += later_ns;
	b->reading.lines_left = lines;
	b->reading.bytes_left = bytes;
	files_read(b->files, &b->reading);
	*b->seen = '\0';
	b->n = 0;
	record_row_each(&b->reading.rows, on_row, b);
}

static const char *read_all(struct bed *b)
{
	read_later(b, 0, 1000000, 1 << 30);
	CHECK_EQ(b->reading.lost, 0);
	return b->seen;
}

static void a_file_is_followed_from_its_end(void)
{
	struct bed b;

	open_bed(&b, "*.log");
	append(&b, "a.log", "old\nhalf of a line");
	files_look(b.files);
	CHECK_EQ(files_count(b.files), 1);
	CHECK_STR(read_all(&b), "");
	append(&b, "a.log", ", the rest\nnew\n\nbad \xff\x01 bytes\r\n");
	CHECK_STR(read_all(&b), "a.log:new|a.log:bad ?  bytes|");
	append(&b, "b.log", "from the beginning\n"); /* it came later */
	append(&b, "other", "no\n");
	files_look(b.files);
	CHECK_STR(read_all(&b), "b.log:from the beginning|");
	CHECK_STR(files_problem(b.files), "");
	close_bed(&b);
}

static void a_file_is_rotated(void)
{
	struct bed b;

	open_bed(&b, "a.log*");
	append(&b, "a.log", "");
	files_look(b.files);
	append(&b, "a.log", "1\n");
	move(&b, "a.log", "a.log.1"); /* matched, too: not read again */
	append(&b, "a.log.1", "2\n");
	append(&b, "a.log", "3\n");
	files_look(b.files);
	CHECK_EQ(files_count(b.files), 2);
	CHECK_STR(read_all(&b), "a.log:3|a.log:1|a.log:2|");
	append(&b, "a.log.1", "a writer that has it open\n");
	CHECK_STR(read_all(&b), "a.log:a writer that has it open|");
	close_bed(&b);
}

static void a_file_is_cut(void)
{
	struct bed b;

	open_bed(&b, "a.log");
	append(&b, "a.log", "");
	files_look(b.files);
	append(&b, "a.log", "one\ntwo with");
	CHECK_STR(read_all(&b), "a.log:one|");
	write_flags(&b, "a.log", "x\n", 2, O_TRUNC);
	CHECK_STR(read_all(&b), "a.log:two with|a.log:x|");
	write_flags(&b, "a.log", "longer than before\n", 19, O_TRUNC);
	CHECK_STR(read_all(&b), "a.log:longer than before|");
	append(&b, "a.log", "and on\n");
	CHECK_STR(read_all(&b), "a.log:and on|");
	close_bed(&b);
}

static void a_line_without_an_end_is_shown(void)
{
	struct bed b;

	open_bed(&b, "a.log");
	append(&b, "a.log", "");
	files_look(b.files);
	append(&b, "a.log", "Connecting ...");
	CHECK_STR(read_all(&b), "");
	read_later(&b, 2 * FILES_WAIT_NS, 10, 1000);
	CHECK_STR(b.seen, "a.log:Connecting ...|");
	close_bed(&b);
}

static void what_is_no_file_is_left_alone(void)
{
	struct bed b;
	char *fifo;

	open_bed(&b, "*.log");
	files_look(b.files);
	CHECK(strstr(files_problem(b.files), "no such file"));
	fifo = path_of(&b, "fifo.log");
	CHECK(!mkfifo(fifo, 0600));
	free(fifo);
	fifo = path_of(&b, "folder.log");
	CHECK(!mkdir(fifo, 0700));
	free(fifo);
	files_look(b.files);
	CHECK_EQ(files_count(b.files), 0);
	CHECK_STR(files_problem(b.files), "");
	close_bed(&b);
	open_bed(&b, "a.log"); /* by its name: it is told of */
	fifo = path_of(&b, "a.log");
	CHECK(!mkfifo(fifo, 0600));
	free(fifo);
	files_look(b.files);
	CHECK(strstr(files_problem(b.files), "/a.log: not a regular file"));
	close_bed(&b);
}

/* Each file has its share; the rest counts as lost, to the line. */
static void a_loud_file_takes_only_its_share(void)
{
	struct bed b;
	struct buf loud = BUF_INIT;

	open_bed(&b, "*.log");
	append(&b, "loud.log", "");
	append(&b, "quiet.log", "");
	files_look(b.files);
	for (int i = 0; i < 1000; i++)
		buf_addf(&loud, "loud %d\n", i);
	write_flags(&b, "loud.log", loud.data, loud.len, O_APPEND);
	append(&b, "quiet.log", "1\n2\n3\n");
	read_later(&b, 0, 10, 1 << 30);
	CHECK_EQ(b.n, 10);
	CHECK(strstr(b.seen, "quiet.log:1|quiet.log:2|quiet.log:3|loud.log:loud 0|"));
	CHECK_EQ(b.reading.lost, 993);
	buf_release(&loud);
	close_bed(&b);
}

/* A file that is too far behind goes on near its end, at a whole line. */
static void a_backlog_is_skipped(void)
{
	struct bed b;
	struct buf big = BUF_INIT;
	uint64_t lost;

	open_bed(&b, "a.log");
	append(&b, "a.log", "");
	files_look(b.files);
	for (int i = 0; i < 40000; i++)
		buf_addf(&big, "line %044d\n", i); /* 50 bytes */
	write_flags(&b, "a.log", big.data, big.len, O_APPEND);
	read_later(&b, 0, 5000, 100000);
	CHECK_EQ(b.n, 2000);
	lost = b.reading.lost;
	CHECK(lost > 36000 && lost < 38000);
	read_later(&b, 0, 5000, 100000);
	CHECK(b.n > 1200 && b.n < 1320);
	CHECK(strstr(b.seen, "a.log:line 0000"));
	CHECK(b.n + 2000 + lost > 39900 && b.n + 2000 + lost < 40100);
	buf_release(&big);
	close_bed(&b);
}

int main(void)
{
	a_file_is_followed_from_its_end();
	a_file_is_rotated();
	a_file_is_cut();
	a_line_without_an_end_is_shown();
	what_is_no_file_is_left_alone();
	a_loud_file_takes_only_its_share();
	a_backlog_is_skipped();
	return 0;
}
