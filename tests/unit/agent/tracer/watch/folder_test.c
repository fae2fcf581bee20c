/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles that programs write: taken once, when they are whole; nothing else in the folder is read. */
#include "agent/tracer/watch/folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"
#include "xspace/xspace.h"

struct seen {
	size_t n;
	struct watch_profile last;
};

static const char *root; /* the watched folder */
static int64_t start_ns;

static void on_profile(void *arg, const struct watch_profile *p)
{
	struct seen *s = arg;

	s->n++;
	s->last = *p;
}

static size_t look(struct watch_folder *f, struct seen *s)
{
	s->n = 0;
	watch_folder_look(f, now_real_ns(), on_profile, s);
	return s->n;
}

/* A path in the watched folder; `name` as "RUN/FILE". */
static const char *path_of(const char *name)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/plugins/profile/%s", root, name);
	return path;
}

static void make_run(const char *name)
{
	CHECK(!mkdir(path_of(name), 0700));
}

static void make_profile(struct buf *out, bool dated)
{
	struct xs_builder *b = xs_builder_new();

	xs_plane(b, 0, "Task Environment");
	if (dated) {
		xs_stat_uint(b, "profile_start_time", (uint64_t)start_ns);
		xs_stat_uint(b, "profile_stop_time", (uint64_t)start_ns + 5000000);
	}
	xs_plane(b, 1, "/host:CPU");
	xs_line(b, 1, "main", 0);
	xs_event(b, "step", 0, 1000000);
	xs_finish(b, out);
	xs_builder_free(b);
}

static void put(const char *name, const void *data, size_t len)
{
	int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	CHECK(fd >= 0 && write(fd, data, len) == (ssize_t)len);
	close(fd);
}

/* Written in two halves; then again, another one. */
static void test_written(struct watch_folder *f)
{
	struct buf b = BUF_INIT;
	struct seen s;

	make_profile(&b, true);
	make_run("first");
	put("first/host.xplane.pb", b.data, b.len / 2);
	CHECK_EQ(look(f, &s), 0u);
	CHECK_EQ(look(f, &s), 0u); /* it has settled, and is no XSpace: it may go on */
	put("first/host.xplane.pb", b.data, b.len);
	CHECK_EQ(look(f, &s), 0u);
	CHECK_EQ(look(f, &s), 1u);
	CHECK_STR(s.last.run, "first");
	CHECK_STR(s.last.file, "host.xplane.pb");
	CHECK_EQ(s.last.from_real_ns, start_ns);
	CHECK_EQ(s.last.to_real_ns, start_ns + 5000000);
	CHECK_EQ(look(f, &s), 0u);
	buf_release(&b);
}

static void test_copied(struct watch_folder *f)
{
	char *to = xasprintf("%s/copy", root);
	struct buf b = BUF_INIT;
	struct seen s;
	struct stat st;
	struct err e;

	make_profile(&b, true);
	make_run("copied");
	put("copied/host.xplane.pb", b.data, b.len);
	look(f, &s);
	CHECK_EQ(look(f, &s), 1u);
	CHECK_OK(watch_profile_copy(&s.last, to, &e), e);
	CHECK(!stat(to, &st) && (size_t)st.st_size == b.len);
	CHECK(!unlink(to));
	start_ns++; /* another profile, of the same size */
	buf_reset(&b);
	make_profile(&b, true);
	put("copied/host.xplane.pb", b.data, b.len);
	CHECK(watch_profile_copy(&s.last, to, &e) == ERR_INVALID && stat(to, &st));
	CHECK(!unlink(path_of("copied/host.xplane.pb")));
	CHECK(watch_profile_copy(&s.last, to, &e) == ERR_INVALID && stat(to, &st));
	buf_release(&b);
	free(to);
}

/* Whatever it is, it is not opened, or not taken; and nothing waits. */
static void test_hostile(struct watch_folder *f)
{
	const struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	char *real = xasprintf("%s/real", root), *other;
	struct buf b = BUF_INIT, undated = BUF_INIT;
	struct seen s;

	make_profile(&b, true);
	make_profile(&undated, false);
	make_run("bad");
	make_run("bad/folder.xplane.pb");
	CHECK(!mkfifo(path_of("bad/fifo.xplane.pb"), 0600));
	put("../../real", b.data, b.len);
	CHECK(!symlink(real, path_of("bad/link.xplane.pb")));
	CHECK(!link(real, path_of("bad/hard.xplane.pb")));
	CHECK(!symlink("first", path_of("linked")));
	put("bad/garbage.xplane.pb", "garbage", 7);
	put("bad/empty.xplane.pb", "", 0);
	put("bad/huge.xplane.pb", "x", 1);
	CHECK(!truncate(path_of("bad/huge.xplane.pb"), LIMIT_XSPACE_FILE_BYTES + 1));
	put("bad/undated.xplane.pb", undated.data, undated.len);
	put("bad/old.xplane.pb", b.data, b.len);
	CHECK(!utimensat(AT_FDCWD, path_of("bad/old.xplane.pb"), old, 0));
	put("bad/other-name.pb", b.data, b.len);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(look(f, &s), 0u);
	other = xstrdup(path_of("bad/one~a line\n.xplane.pb"));
	CHECK(!rename(path_of("bad/old.xplane.pb"), other));
	free(other);
	CHECK_EQ(look(f, &s), 0u);
	buf_release(&undated);
	buf_release(&b);
	free(real);
}

/* More files than are known at once: the others are left out, and come when those are old. */
static void test_many(struct watch_folder *f)
{
	struct buf b = BUF_INIT;
	char name[64];
	struct seen s;

	make_profile(&b, true);
	make_run("many");
	for (int i = 0; i < WATCH_FILES_MAX + 50; i++) {
		snprintf(name, sizeof(name), "many/host-%d.xplane.pb", i);
		put(name, b.data, b.len);
	}
	look(f, &s);
	look(f, &s);
	CHECK(s.n > 0 && s.n <= WATCH_FILES_MAX);
	buf_release(&b);
}

int main(void)
{
	struct watch_folder *f;
	struct seen s;
	char *path;

	root = temp_dir();
	start_ns = now_real_ns() - NS_PER_S;
	f = watch_folder_new(root, now_real_ns() - NS_PER_S);
	CHECK_EQ(look(f, &s), 0u); /* there is nothing yet */
	path = xasprintf("%s/plugins", root);
	CHECK(!mkdir(path, 0700));
	free(path);
	CHECK(!mkdir(path_of(""), 0700));
	test_written(f);
	test_copied(f);
	test_hostile(f);
	test_many(f);
	watch_folder_free(f);
	return 0;
}
