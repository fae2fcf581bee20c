/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of open sessions: made one after the other, shown as they come, closed, damaged, forgotten. A fifo in the place of a
 * kept index holds up whoever makes the view: to open it takes a writer.
 */
#include "aggregator/views/views.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/sessions/sessions.h"
#include "base/file.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "tests/unit/aggregator/views/session.h"

#define ONE    "2026_11_29_01_00_00_one000"
#define TWO    "2026_11_29_01_00_00_two000"
#define PARTLY (250 * NS_PER_MS) /* a view of a part is shown after 0.2 s at the earliest */
#define ALL_PS (INT64_C(1) << 60)

static struct truth *truth;

static void index_path(const struct stage *s, const char *session, const char *file, char out[300])
{
	snprintf(out, 300, "%s/%s/%s.tvx", s->folder, session, file);
}

static bool has_index(const struct stage *s, const char *session, const char *file)
{
	char path[300];

	index_path(s, session, file, path);
	return !access(path, F_OK);
}

static bool has_part(const struct stage *s, const char *session, const char *file)
{
	char path[300], part[310];

	index_path(s, session, file, path);
	snprintf(part, sizeof(part), "%s.part", path);
	return !access(part, F_OK);
}

static void hold_up(const struct stage *s, const char *session, const char *file)
{
	char path[300];
	struct err e;

	snprintf(path, sizeof(path), "%s/%s", s->folder, session);
	CHECK_OK(file_make_folders(path, 0700, 0700, &e), e);
	index_path(s, session, file, path);
	CHECK(!mkfifo(path, 0600));
}

/* Whether the fifo could be opened: whoever waits there goes on. */
static bool let_go(const struct stage *s, const char *session, const char *file)
{
	char path[300];
	int fd;

	index_path(s, session, file, path);
	fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static size_t count_all(const struct view *view)
{
	struct buf out = BUF_INIT;
	json_t *doc;
	size_t n;
	struct err e;

	CHECK_OK(view_write_selection(
			 view, &(struct view_selection){ -ALL_PS, ALL_PS, "all", NULL }, &out, &e),
		 e);
	doc = answer_json(&out);
	n = (size_t)json_get_int(doc, "count");
	json_decref(doc);
	buf_release(&out);
	return n;
}

/* ---- as it comes ---- */

static const char *state_of(const struct view *view, size_t file)
{
	static char text[20];
	struct buf copy = BUF_INIT;
	json_t *doc, *hosts, *host;
	size_t i, n = 0;

	buf_add(&copy, view_catalogue(view)->data, view_catalogue(view)->len);
	doc = answer_json(&copy);
	hosts = json_object_get(doc, "hosts");
	json_array_foreach(hosts, i, host)
	{
		const json_t *files = json_object_get(host, "files");

		if (file >= n && file - n < json_array_size(files))
			snprintf(text, sizeof(text), "%s",
				 json_get_text(json_array_get(files, file - n), "state"));
		n += json_array_size(files);
	}
	json_decref(doc);
	buf_release(&copy);
	return text;
}

static void test_progress(struct stage *s)
{
	struct view *view, *part, *found;
	struct view_progress p;
	char build[64];

	truth_small(truth);
	stage_store(s, truth, ONE, NULL);
	hold_up(s, ONE, "host-a.xplane.pb");
	hold_up(s, ONE, "host-a~2.xplane.pb");
	CHECK(!stage_ask(s, ONE, NULL, &p));
	CHECK_EQ(p.state, VIEW_BUILDING);
	CHECK(!views_find(s->views, ONE, "x"));
	CHECK(!stage_ask(s, TWO, NULL,
			 &p)); /* one at a time; it has the same manifest, which is never read */
	CHECK_EQ(p.state, VIEW_WAITING);
	CHECK_EQ(p.bytes, 0);
	run_for(s->jobs.loop, PARTLY);
	RUN_UNTIL(s->jobs.loop, let_go(s, ONE, "host-a.xplane.pb"));
	/* its lines are whole one after the other: the first part has at least the first of them */
	RUN_UNTIL(s->jobs.loop, (part = stage_ask(s, ONE, NULL, &p)));
	CHECK_EQ(p.state, VIEW_BUILDING);
	CHECK(p.bytes > 300 && p.done <= p.bytes);
	CHECK(!view_is_complete(part));
	CHECK_STR(state_of(part, 0), "building");
	CHECK_STR(state_of(part, 1), "waiting");
	CHECK_STR(state_of(part, 2), "waiting");
	CHECK_EQ(count_all(part), 7);
	snprintf(build, sizeof(build), "%s", view_build(part));
	CHECK(!stage_ask(s, ONE, build, &p)); /* nothing newer than what is known */
	view = stage_ask(s, ONE, "another", &p);
	CHECK(view == part);
	view_release(view);
	found = views_find(s->views, ONE, build);
	CHECK(found == part);
	view_release(found);
	CHECK(!views_find(s->views, TWO, build));
	views_forget(s->views, TWO);

	RUN_UNTIL(s->jobs.loop, let_go(s, ONE, "host-a~2.xplane.pb"));
	view = stage_open(s, ONE);
	CHECK_STR(state_of(view, 0), "ready");
	CHECK_STR(state_of(view, 2), "ready");
	CHECK_EQ(count_all(view), 12);
	CHECK_EQ(count_all(part), 7); /* a view never changes */
	CHECK(strcmp(view_build(view), build) != 0);
	/* complete, it is given also to who knows it; the one before is found until then */
	found = views_find(s->views, ONE, build);
	CHECK(found && found != view);
	view_release(found);
	found = stage_ask(s, ONE, view_build(view), &p);
	CHECK(found == view && p.state == VIEW_READY && p.done == p.bytes);
	view_release(found);
	found = views_find(s->views, ONE, view_build(view));
	CHECK(found == view);
	view_release(found);
	CHECK(!views_find(s->views, ONE, build));
	view_release(part);
	view_release(view);
}

/* ---- which session is open ---- */

/* The same files with another manifest are another view; so are other files with the same one. */
static void test_manifest(struct stage *s)
{
	struct view *first, *second;
	struct view_progress p;
	char build[64];

	first = stage_open(s, ONE);
	snprintf(build, sizeof(build), "%s", view_build(first));
	buf_add_str(&s->manifest, " ");
	CHECK(!stage_ask(s, ONE, NULL, &p));
	CHECK(p.state == VIEW_BUILDING || p.state == VIEW_WAITING);
	second = stage_open(s, ONE);
	CHECK(strcmp(view_build(second), build) != 0);
	CHECK(!views_find(s->views, ONE, build));
	CHECK_EQ(count_all(first), 12); /* it is held: it answers */
	view_release(first);
	view_release(second);
	buf_cut(&s->manifest, s->manifest.len - 1);
	*strstr((char *)s->manifest.data, "beware") = 'B'; /* of the same length */
	second = stage_open(s, ONE);
	CHECK(strcmp(view_build(second), build) != 0);
	view_release(second);
	*strstr((char *)s->manifest.data, "Beware") = 'b';
	first = stage_open(s, ONE);
	CHECK_STR(view_build(first),
		  build); /* and the same state of a session has the same build */
	view_release(first);
}

/* Four stay open; the one that was used longest ago is closed. */
static void test_four(struct stage *s)
{
	char names[5][40], builds[5][64];
	struct view *view;

	for (int i = 0; i < 5; i++) {
		snprintf(names[i], sizeof(names[i]), "2026_11_29_02_00_00_four0%d", i);
		stage_store(s, truth, names[i], NULL);
		view = stage_open(s, names[i]);
		snprintf(builds[i], sizeof(builds[i]), "%s", view_build(view));
		view_release(view);
		if (i != 3)
			continue;
		view = views_find(s->views, names[0], builds[0]); /* it is used again */
		CHECK(view);
		view_release(view);
	}
	for (int i = 0; i < 5; i++) {
		view = views_find(s->views, names[i], builds[i]);
		CHECK_EQ(!view, i == 1);
		view_release(view);
	}
}

/* ---- what is kept, and what happens to it ---- */

static void damage(const struct stage *s, const char *session, const char *file, long at,
		   int whence)
{
	char path[300];
	uint8_t byte;
	int fd;

	index_path(s, session, file, path);
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0 && lseek(fd, at, whence) >= 0);
	at = lseek(fd, 0, SEEK_CUR);
	CHECK(pread(fd, &byte, 1, at) == 1);
	byte ^= 0x55;
	CHECK(pwrite(fd, &byte, 1, at) == 1);
	close(fd);
}

static ino_t inode_of(const struct stage *s, const char *session, const char *file)
{
	char path[300];
	struct stat st;

	index_path(s, session, file, path);
	CHECK(!stat(path, &st));
	return st.st_ino;
}

/* Found damaged while it is read: the question fails, its indexes go, and the next opening makes them anew. */
static void test_damaged_open(struct stage *s)
{
	struct view *view = stage_open(s, ONE);
	struct buf out = BUF_INIT;
	struct err e;
	int rc = 0;

	/* blocks are behind the head; one that was not read yet is checked when it is */
	for (long at = 64; at < 400 && !rc; at += 16) {
		damage(s, ONE, "host-b.xplane.pb", at, SEEK_SET);
		rc = view_write_selection(
			view, &(struct view_selection){ -ALL_PS, ALL_PS, "2.0", NULL }, &out, &e);
	}
	CHECK_EQ(rc, ERR_IO);
	CHECK_EQ(out.len, 0);
	CHECK(has_index(s, ONE, "host-a.xplane.pb") && has_index(s, ONE, "host-b.xplane.pb"));
	view_discard(view);
	CHECK(!has_index(s, ONE, "host-a.xplane.pb") && !has_index(s, ONE, "host-a~2.xplane.pb") &&
	      !has_index(s, ONE, "host-b.xplane.pb"));
	views_drop(s->views, view);
	CHECK(!views_find(s->views, ONE, view_build(view)));
	view_release(view);
	view = stage_open(s, ONE);
	CHECK_EQ(count_all(view), 12);
	view_release(view);
	buf_release(&out);
}

static void close_session(struct stage *s, const char *session)
{
	struct view *view = stage_open(s, session);

	views_drop(s->views, view);
	view_release(view);
}

/* Found damaged when it is opened: only that one is made anew. */
static void test_damaged_closed(struct stage *s)
{
	ino_t whole = inode_of(s, ONE, "host-b.xplane.pb");
	char path[300];
	struct view *view;

	for (int kind = 0; kind < 3; kind++) {
		close_session(s, ONE);
		if (kind == 0)
			damage(s, ONE, "host-a.xplane.pb", -10, SEEK_END);
		index_path(s, ONE, "host-a.xplane.pb", path);
		if (kind == 1)
			CHECK(!truncate(path, 0));
		if (kind == 2)
			CHECK(!truncate(path, 100));
		view = stage_open(s, ONE);
		CHECK_EQ(count_all(view), 12);
		CHECK_EQ(inode_of(s, ONE, "host-b.xplane.pb"), whole);
		view_release(view);
	}
}

/* What an aggregator left unfinished is no obstacle, and is not left over. */
static void test_unfinished(struct stage *s)
{
	struct view *view;
	char path[300], part[310];
	FILE *f;

	close_session(s, ONE);
	index_path(s, ONE, "host-a.xplane.pb", path);
	CHECK(!unlink(path));
	snprintf(part, sizeof(part), "%s.part", path);
	f = fopen(part, "w");
	CHECK(f && fputs("half of it", f) > 0 && !fclose(f));
	view = stage_open(s, ONE);
	CHECK_EQ(count_all(view), 12);
	CHECK(access(part, F_OK) && !access(path, F_OK));
	view_release(view);
}

static bool has_folder(const struct stage *s, const char *session)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/%s", s->folder, session);
	return !access(path, F_OK);
}

static void test_forget(struct stage *s)
{
	struct view *view = stage_open(s, ONE);
	char build[64];

	snprintf(build, sizeof(build), "%s", view_build(view));
	CHECK(has_folder(s, ONE));
	views_forget(s->views, ONE);
	CHECK(!views_find(s->views, ONE, build));
	jobs_drain(&s->jobs);
	CHECK(!has_folder(s, ONE));
	CHECK_EQ(count_all(view), 12); /* who holds it may go on */
	view_release(view);
	views_forget(s->views, "2026_11_29_01_00_00_never0");
	jobs_drain(&s->jobs);
}

/* ---- what cannot be shown ---- */

static void wait_failed(struct stage *s, const char *session, struct view_progress *p)
{
	RUN_UNTIL(s->jobs.loop, !stage_ask(s, session, NULL, p) && p->state == VIEW_FAILED);
}

static void test_malformed(struct stage *s)
{
	static const char bad[] = "\x0a\xff\xff no XSpace";
	struct buf bytes = BUF_INIT;
	struct view_progress p;

	buf_add(&bytes, bad, sizeof(bad));
	stage_store(s, truth, "2026_11_29_03_00_00_bad000", &bytes);
	wait_failed(s, "2026_11_29_03_00_00_bad000", &p);
	CHECK_EQ(p.fault, FAULT_FILES);
	CHECK(strstr(p.why.msg, "host-a.xplane.pb"));
	CHECK(!has_index(s, "2026_11_29_03_00_00_bad000", "host-a.xplane.pb"));
	CHECK(!has_part(s, "2026_11_29_03_00_00_bad000", "host-a.xplane.pb"));
	/* the next call begins again */
	CHECK(!stage_ask(s, "2026_11_29_03_00_00_bad000", NULL, &p));
	CHECK(p.state == VIEW_BUILDING || p.state == VIEW_WAITING);
	wait_failed(s, "2026_11_29_03_00_00_bad000", &p);
	buf_release(&bytes);
}

/* Of one file that is malformed there is the reason; the others are shown. */
static void test_one_malformed(struct stage *s)
{
	static const char session[] = "2026_11_29_03_00_00_bad001";
	char key[SESSION_KEY_BYTES];
	struct buf copy = BUF_INIT;
	struct view *view;

	stage_store(s, truth, session, NULL);
	session_file_key(session, "", "host-a~2", key);
	store_put_text(s->sessions.store, key, "\x0a\xff\xff no XSpace");
	view = stage_open(s, session);
	CHECK_STR(state_of(view, 0), "ready");
	CHECK_STR(state_of(view, 1), "failed");
	CHECK_STR(state_of(view, 2), "ready");
	buf_add(&copy, view_catalogue(view)->data, view_catalogue(view)->len);
	CHECK(strstr(buf_str(&copy), "\"error\":\"host-a~2.xplane.pb: "));
	CHECK_EQ(count_all(view), 10);
	view_release(view);
	buf_release(&copy);
}

static void test_store(struct stage *s)
{
	static const char session[] = "2026_11_29_03_00_00_away00";
	struct view_progress p;
	struct view *view;

	stage_store(s, truth, session, NULL);
	store_set_rules(s->sessions.store, "open *host-b.xplane.pb fail");
	wait_failed(s, session, &p);
	CHECK_EQ(p.fault, FAULT_STORE);
	store_set_rules(s->sessions.store, "open * full");
	wait_failed(s, session, &p);
	CHECK_EQ(p.fault, FAULT_OURS);
	store_set_rules(s->sessions.store, "");
	view = stage_open(s, session);
	CHECK_EQ(count_all(view), 12);
	view_release(view);
	/* the folder of indexes cannot be made */
	stage_store(s, truth, "2026_11_29_03_00_00_full00", NULL);
	{
		char path[300];
		FILE *f;

		snprintf(path, sizeof(path), "%s/2026_11_29_03_00_00_full00", s->folder);
		f = fopen(path, "w");
		CHECK(f && !fclose(f));
	}
	wait_failed(s, "2026_11_29_03_00_00_full00", &p);
	CHECK_EQ(p.fault, FAULT_OURS);
	buf_reset(&s->manifest);
	buf_add_str(&s->manifest, "{");
	wait_failed(s, "2026_11_29_03_00_00_none00", &p);
	CHECK_EQ(p.fault, FAULT_OURS);
	CHECK(strstr(p.why.msg, "the manifest"));
}

/* ---- how much is kept ---- */

/* The indexes of sessions go that were opened longest ago; never those of the one that was opened now. */
static void test_bound(void)
{
	static const char *const names[] = { "2026_11_29_04_00_00_kept00",
					     "2026_11_29_04_00_00_kept01",
					     "2026_11_29_04_00_00_kept02",
					     "2026_11_29_04_00_00_kept03" };
	struct stage s;
	struct view *view;
	struct stat st;
	char path[300];
	uint64_t one = 0;

	stage_start(&s, 0); /* what one session takes */
	stage_store(&s, truth, names[0], NULL);
	view_release(stage_open(&s, names[0]));
	for (uint32_t i = 0; i < truth->n_files; i++) {
		index_path(&s, names[0], truth->files[i], path);
		CHECK(!stat(path, &st));
		one += (uint64_t)st.st_size;
	}
	stage_stop(&s);

	stage_start(&s, 2 * one);
	for (int i = 0; i < 3; i++) {
		struct timespec times[2] = { { .tv_sec = 1000 - i }, { .tv_sec = 1000 - i } };

		stage_store(&s, truth, names[i], NULL);
		view = stage_open(&s, names[i]);
		for (int k = 0; k < 3; k++)
			CHECK_EQ(has_folder(&s, names[k]), k <= i && !(i == 2 && k == 1));
		views_drop(s.views, view);
		view_release(view);
		snprintf(path, sizeof(path), "%s/%s", s.folder, names[i]);
		CHECK(!utimensat(AT_FDCWD, path, times, 0)); /* the later one was opened earlier */
	}
	view_release(stage_open(&s, names[2])); /* opened again: it is the latest */
	stage_store(&s, truth, names[3], NULL);
	view_release(stage_open(&s, names[3]));
	CHECK(!has_folder(&s, names[0]) && has_folder(&s, names[2]) && has_folder(&s, names[3]));
	stage_stop(&s);

	stage_start(&s, 1); /* less than one takes */
	stage_store(&s, truth, names[0], NULL);
	view = stage_open(&s, names[0]);
	CHECK(has_folder(&s, names[0]));
	CHECK_EQ(count_all(view), 12);
	view_release(view);
	stage_stop(&s);
}

/* ---- the end ---- */

/* Stopped while one is being made and another one waits: both end without a view, and nothing is left half-made. */
static void test_stop(void)
{
	struct view_progress p;
	struct stage s;

	stage_start(&s, 0);
	truth_large(truth);
	stage_store(&s, truth, ONE, NULL);
	hold_up(&s, ONE, "host-a.xplane.pb");
	hold_up(&s, ONE, "host-a~2.xplane.pb");
	CHECK(!stage_ask(&s, ONE, NULL, &p));
	CHECK(!stage_ask(&s, TWO, NULL, &p));
	RUN_UNTIL(s.jobs.loop, let_go(&s, ONE, "host-a.xplane.pb"));
	views_stop(s.views);
	RUN_UNTIL(s.jobs.loop, (let_go(&s, ONE, "host-a~2.xplane.pb"), !s.jobs.n));
	CHECK(!stage_ask(&s, ONE, NULL, &p));
	CHECK_EQ(p.state, VIEW_FAILED);
	CHECK(strstr(p.why.msg, "stopped"));
	CHECK(!has_index(&s, ONE, "host-a.xplane.pb.part") &&
	      !has_index(&s, ONE, "host-b.xplane.pb"));
	CHECK(!stage_ask(&s, TWO, NULL, &p));
	CHECK_EQ(p.state, VIEW_WAITING);
	stage_stop(&s);
}

int main(void)
{
	struct stage s;

	truth = xcalloc(1, sizeof(*truth));
	stage_start(&s, 0);
	test_progress(&s);
	test_manifest(&s);
	test_damaged_open(&s);
	test_damaged_closed(&s);
	test_unfinished(&s);
	test_forget(&s);
	test_four(&s);
	test_malformed(&s);
	test_one_malformed(&s);
	test_store(&s);
	stage_stop(&s);
	test_bound();
	test_stop();
	free(truth);
	return 0;
}
