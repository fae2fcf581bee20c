/* SPDX-License-Identifier: Apache-2.0 */
/* Imports from their begin to their end: in order, in every wrong order, beside each other, left alone, and what is no XSpace. */
#include "aggregator/imports/imports.h"

#include <dirent.h>

#include "aggregator/sessions/session_store.h"
#include "aggregator/sessions/sessions.h"
#include "base/buf.h"
#include "base/crc32c.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "proto/limits.h"
#include "tests/lib/run_until.h"
#include "tests/lib/store.h"
#include "tests/lib/temp_dir.h"
#include "tests/lib/virtual_time.h"
#include "xspace/xspace.h"

#define T0   INT64_C(1790000000000000000)
#define NONE "2026_11_29_01_00_00_none00"

struct bed {
	struct jobs jobs;
	struct session_store sessions;
	struct imports *imports;
	const char *spool;
	/* the last answer */
	bool is_done;
	int rc;
	char error[400];
	json_t *doc;
};

static void bed_start(struct bed *b)
{
	json_t *left = json_array();
	struct err e;

	*b = (struct bed){ .spool = temp_dir() };
	CHECK_OK(loop_new(&b->jobs.loop, 2, &e), e);
	CHECK_OK(session_store_open(&b->sessions, &b->jobs, "mem://test", left, &e), e);
	b->sessions.store = store_fault_wrap(
		b->sessions.store, &(struct store_fault_env){ .wait = virtual_worker_wait });
	b->sessions.ready = true;
	b->imports = imports_new(&(struct imports_env){ &b->jobs, &b->sessions, b->spool });
	json_decref(left);
}

static void bed_stop(struct bed *b)
{
	session_store_stop(&b->sessions);
	jobs_drain(&b->jobs);
	imports_free(b->imports);
	session_store_close(&b->sessions);
	loop_free(b->jobs.loop);
	json_decref(b->doc);
}

static void on_done(void *arg, const json_t *doc, const struct err *e)
{
	struct bed *b = arg;

	CHECK(!doc != !e && !b->is_done);
	json_decref(b->doc);
	b->doc = doc ? json_deep_copy(doc) : NULL;
	b->rc = e ? e->code : 0;
	snprintf(b->error, sizeof(b->error), "%s", e ? e->msg : "");
	b->is_done = true;
}

static int answer(struct bed *b)
{
	RUN_UNTIL(b->jobs.loop, b->is_done);
	b->is_done = false;
	return b->rc;
}

/* ---- files ---- */

/* An XSpace of `n` events that says when its session began; 0: it does not. */
static void write_space(struct buf *out, int64_t t0_ns, int n)
{
	struct xs_builder *b = xs_builder_new();

	if (t0_ns) {
		xs_plane(b, 1, "Task Environment");
		xs_stat_uint(b, "profile_start_time", (uint64_t)t0_ns);
	}
	xs_plane(b, 2, "/host:CPU");
	xs_line(b, 1, "main", 0);
	for (int i = 0; i < n; i++)
		xs_event(b, "step", 1000 * i, 500);
	xs_finish(b, out);
	xs_builder_free(b);
}

struct one {
	const char *name, *source;
	struct buf bytes;
};

static json_t *request_of(const char *run, const struct one *files, size_t n)
{
	json_t *list = json_array(), *o;

	for (size_t i = 0; i < n; i++) {
		char crc[9];

		snprintf(crc, sizeof(crc), "%08x",
			 crc32c(0, files[i].bytes.data, files[i].bytes.len));
		o = json_pack("{s:s, s:I, s:s}", "file", files[i].name, "bytes",
			      (json_int_t)files[i].bytes.len, "crc32c", crc);
		if (files[i].source)
			json_put_text(o, "source", files[i].source);
		json_array_append_new(list, o);
	}
	return json_pack("{s:s, s:I, s:I, s:[s], s:o}", "run", run, "t0_ns", (json_int_t)T0,
			 "duration_ns", (json_int_t)NS_PER_S, "warnings", "old", "files", list);
}

static int begin(struct bed *b, const json_t *request)
{
	imports_begin(b->imports, request, "10.0.0.1", on_done, b);
	return answer(b);
}

/* The session that was begun; the text lives until the next call. */
static const char *begun(struct bed *b, const json_t *request)
{
	static char names[8][LIMIT_SESSION_NAME];
	static int n;
	char *name = names[n++ % 8];

	CHECK_EQ(begin(b, request), 0);
	snprintf(name, LIMIT_SESSION_NAME, "%s", json_get_text(b->doc, "session"));
	CHECK(!strncmp(name, "2026_09_21_", 11)); /* T0's day */
	return name;
}

static int add(struct bed *b, const char *session, const char *file, uint64_t at, const void *data,
	       size_t len)
{
	imports_add(b->imports, session, file, at, data, len, on_done, b);
	return answer(b);
}

static int add_all(struct bed *b, const char *session, const struct one *f)
{
	return add(b, session, f->name, 0, f->bytes.data, f->bytes.len);
}

static int commit(struct bed *b, const char *session)
{
	imports_commit(b->imports, session, on_done, b);
	return answer(b);
}

static int cancel(struct bed *b, const char *session)
{
	imports_cancel(b->imports, session, on_done, b);
	return answer(b);
}

static bool is_there(const struct bed *b, const char *session)
{
	const char *run;
	uint64_t bytes;

	return imports_look(b->imports, session, &run, &bytes);
}

static bool count_key(void *arg, const char *key, const struct store_stat *st)
{
	size_t *n = arg;

	(void)key;
	(void)st;
	++*n;
	return true;
}

static size_t stored_keys(struct bed *b)
{
	size_t n = 0;
	struct err e;

	CHECK_OK(list_keys(b->sessions.store, "", NULL, count_key, &n, &e), e);
	return n;
}

/* A name of a file would outlive the aggregator. */
static size_t spool_files(const struct bed *b)
{
	DIR *dir = opendir(b->spool);
	struct dirent *entry;
	size_t n = 0;

	CHECK(dir);
	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

static struct one files[] = {
	{ "host-b.xplane.pb", NULL, BUF_INIT },
	{ "host-a~2.xplane.pb", NULL, BUF_INIT },
	{ "host-a.xplane.pb", "/old/a.pb", BUF_INIT },
};

/* ---- in order ---- */

static void check_text(const json_t *doc, const char *member, const char *document)
{
	char *text = xstrdup(document);
	json_t *want;
	struct err e;

	for (char *p = text; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	CHECK_OK(json_parse(&want, text, strlen(text), &e), e);
	if (!json_equal(json_object_get(doc, member), want)) {
		fprintf(stderr, "%s should be %s, is\n", member, document);
		json_dumpf(json_object_get(doc, member), stderr, JSON_ENCODE_ANY);
		exit(1);
	}
	json_decref(want);
	free(text);
}

static void check_manifest(const json_t *m, const char *session)
{
	const json_t *hosts = json_object_get(m, "hosts"), *a = json_array_get(hosts, 0),
		     *b = json_array_get(hosts, 1);
	int64_t bytes_a = (int64_t)(files[1].bytes.len + files[2].bytes.len);

	CHECK_STR(json_get_text(m, "session"), session);
	CHECK_STR(json_get_text(m, "run"), "before");
	CHECK_STR(json_get_text(m, "state"), "committed");
	CHECK_STR(json_get_text(m, "origin"), "import");
	CHECK(json_get_bool(m, "imported"));
	CHECK_EQ(json_get_int(m, "t0_ns"), T0);
	CHECK_EQ(json_get_int(m, "duration_ns"), NS_PER_S);
	CHECK_EQ(json_get_int(m, "complete"), 2);
	CHECK_EQ(json_get_int(m, "bytes"), bytes_a + (int64_t)files[0].bytes.len);
	check_text(m, "warnings", "['old']");
	CHECK_EQ(json_array_size(hosts), 2);
	CHECK_STR(json_get_text(a, "host"), "host-a");
	CHECK_STR(json_get_text(b, "host"), "host-b");
	check_text(a, "files", "['host-a.xplane.pb', 'host-a~2.xplane.pb']");
	CHECK_EQ(json_get_int(a, "bytes"), bytes_a);
	CHECK_EQ(json_get_int(a, "events"), 2 + 3);
	CHECK_EQ(json_get_int(b, "events"), 4);
	CHECK_STR(json_get_text(a, "detail"), "imported from /old/a.pb; its clock is unknown");
	CHECK_STR(json_get_text(b, "detail"), "imported; its clock is unknown");
	CHECK(json_is_null(json_object_get(a, "clock_bound_ns")));
	for (int i = 0; i < 2; i++) {
		const char *crc = json_string_value(
			json_array_get(json_object_get(a, "crc32c"), (size_t)i));

		CHECK_EQ(strtoul(crc, NULL, 16),
			 crc32c(0, files[2 - i].bytes.data, files[2 - i].bytes.len));
	}
}

static void check_stored(struct bed *b, const char *session)
{
	struct session_line line;
	struct err e;

	CHECK_OK(session_load_line(b->sessions.store, session, &line, &e), e);
	CHECK_STR(line.run, "before");
	CHECK_EQ(line.hosts, 2);
	CHECK_EQ(line.complete, 2);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct session_file found;
		struct buf got = BUF_INIT;

		CHECK_OK(session_find_file(b->sessions.store, session, files[i].name, &found, &e),
			 e);
		CHECK_OK(store_get_bytes(b->sessions.store, found.key, 1 << 20, any_time(), &got,
					 &e),
			 e);
		CHECK(got.len == files[i].bytes.len &&
		      !memcmp(got.data, files[i].bytes.data, got.len));
		buf_release(&got);
	}
}

static void test_life(struct bed *b)
{
	json_t *request = request_of("before", files, 3);
	const char *session = begun(b, request), *run;
	const struct buf *first = &files[0].bytes;
	uint64_t bytes;

	/* in the order of the manifest, whatever that of the request */
	CHECK_STR(json_get_text(json_array_get(json_object_get(b->doc, "files"), 0), "file"),
		  "host-a.xplane.pb");
	CHECK_STR(json_get_text(json_array_get(json_object_get(b->doc, "files"), 1), "file"),
		  "host-a~2.xplane.pb");
	CHECK_STR(json_get_text(json_array_get(json_object_get(b->doc, "files"), 2), "file"),
		  "host-b.xplane.pb");
	CHECK_EQ(json_get_int(json_array_get(json_object_get(b->doc, "files"), 2), "bytes"),
		 first->len);
	CHECK_EQ(json_get_int(json_array_get(json_object_get(b->doc, "files"), 2), "received"), 0);
	CHECK(imports_look(b->imports, session, &run, &bytes));
	CHECK_STR(run, "before");
	CHECK_EQ(bytes, first->len + files[1].bytes.len + files[2].bytes.len);
	CHECK_EQ(add(b, session, "host-b.xplane.pb", 0, first->data, 10), 0);
	CHECK_EQ(json_get_int(b->doc, "received"), 10);
	CHECK_EQ(json_get_int(b->doc, "bytes"), first->len);
	CHECK_EQ(add_all(b, session, &files[1]), 0);
	CHECK_EQ(add(b, session, "host-b.xplane.pb", 10, "", 0), 0);
	CHECK_EQ(add(b, session, "host-b.xplane.pb", 10, first->data + 10, first->len - 10), 0);
	CHECK_EQ(add_all(b, session, &files[2]), 0);
	CHECK_EQ(spool_files(b), 0);
	CHECK_EQ(stored_keys(b), 0); /* nothing of it until it is whole */
	CHECK_EQ(commit(b, session), 0);
	check_manifest(b->doc, session);
	check_stored(b, session);
	/* it is over */
	CHECK(!is_there(b, session));
	CHECK_EQ(commit(b, session), ERR_NOT_FOUND);
	CHECK_EQ(add_all(b, session, &files[0]), ERR_NOT_FOUND);
	json_decref(request);
}

/* ---- in a wrong order ---- */

static void test_wrong_pieces(struct bed *b)
{
	json_t *request = request_of("", files, 3);
	const char *session = begun(b, request);
	const struct buf *f = &files[0].bytes;
	size_t before = stored_keys(b);

	CHECK_EQ(add(b, NONE, "host-b.xplane.pb", 0, "x", 1), ERR_NOT_FOUND);
	CHECK_EQ(add(b, session, "host-c.xplane.pb", 0, "x", 1), ERR_NOT_FOUND);
	CHECK_EQ(add(b, session, "host-b.xplane.pb", 1, "x", 1), ERR_EXISTS);
	CHECK(strstr(b->error, "goes on at offset 0"));
	CHECK_EQ(add(b, session, "host-b.xplane.pb", 0, f->data, 5), 0);
	CHECK_EQ(add(b, session, "host-b.xplane.pb", 0, f->data, 5), ERR_EXISTS);
	CHECK(strstr(b->error, "goes on at offset 5"));
	CHECK_EQ(add(b, session, "host-b.xplane.pb", 6, f->data, 1), ERR_EXISTS);
	{
		uint8_t *more = xcalloc(1, f->len);

		CHECK_EQ(add(b, session, "host-b.xplane.pb", 5, more, f->len - 4), ERR_LIMIT);
		free(more);
	}
	/* not all of it has come: the import is gone with the attempt */
	CHECK_EQ(commit(b, session), ERR_INVALID);
	CHECK(strstr(b->error, "host-a.xplane.pb: 0 of its"));
	CHECK(!is_there(b, session));
	CHECK_EQ(stored_keys(b), before);
	CHECK_EQ(commit(b, NONE), ERR_NOT_FOUND);
	CHECK_EQ(cancel(b, NONE), ERR_NOT_FOUND);
	session = begun(b, request);
	CHECK_EQ(cancel(b, session), 0);
	CHECK_STR(json_get_text(b->doc, "deleted"), session);
	CHECK_EQ(cancel(b, session), ERR_NOT_FOUND);
	json_decref(request);
}

/* While a piece is written, or all is stored: what would pull it away is refused. */
static void test_busy(struct bed *b)
{
	json_t *request = request_of("", files, 3);
	const char *session = begun(b, request);
	struct bed second = { .jobs.loop = b->jobs.loop };
	const struct buf *f = &files[0].bytes;

	imports_add(b->imports, session, files[0].name, 0, f->data, 5, on_done, b);
	CHECK(!b->is_done);
	imports_add(b->imports, session, files[0].name, 0, f->data, 5, on_done, &second);
	CHECK(second.is_done && second.rc == ERR_BUSY);
	second.is_done = false;
	imports_commit(b->imports, session, on_done, &second);
	CHECK(second.is_done && second.rc == ERR_BUSY);
	second.is_done = false;
	imports_cancel(b->imports, session, on_done, &second);
	CHECK(second.is_done && second.rc == ERR_BUSY);
	second.is_done = false;
	/* another file may be written meanwhile */
	imports_add(b->imports, session, files[1].name, 0, files[1].bytes.data, files[1].bytes.len,
		    on_done, &second);
	CHECK(!second.is_done);
	CHECK_EQ(answer(b), 0);
	CHECK_EQ(answer(&second), 0);
	CHECK_EQ(add(b, session, files[0].name, 5, f->data + 5, f->len - 5), 0);
	CHECK_EQ(add_all(b, session, &files[2]), 0);

	imports_commit(b->imports, session, on_done, b);
	CHECK(!b->is_done && !is_there(b, session));
	imports_commit(b->imports, session, on_done, &second);
	CHECK(second.is_done && second.rc == ERR_BUSY);
	second.is_done = false;
	imports_cancel(b->imports, session, on_done, &second);
	CHECK(second.is_done && second.rc == ERR_BUSY);
	second.is_done = false;
	imports_add(b->imports, session, files[0].name, f->len, "", 0, on_done, &second);
	CHECK(second.is_done && second.rc == ERR_BUSY);
	CHECK_EQ(answer(b), 0);
	json_decref(second.doc);
	json_decref(request);
}

/* ---- what is asked for ---- */

static const struct {
	const char *request, *error; /* NULL = it is taken */
} requests[] = {
#define OPEN	    "{'t0_ns': 1790000000000000000, 'duration_ns': 1000, "
#define FILES	    "'files': [{'file': 'a.xplane.pb', 'bytes': 1, 'crc32c': '00000000'}]}"
#define NAMED(name) OPEN "'files': [{'file': '" name "', 'bytes': 1, 'crc32c': '00000000'}]}"
#define SIZED(size) \
	OPEN "'files': [{'file': 'a.xplane.pb', 'bytes': " size ", 'crc32c': '00000000'}]}"
#define SUMMED(crc) OPEN "'files': [{'file': 'a.xplane.pb', 'bytes': 1, 'crc32c': " crc "}]}"
	{ OPEN FILES, NULL },
	{ OPEN "'run': 'team/exp.1', " FILES, NULL },
	{ OPEN "'run': '../x', " FILES, "run name" },
	{ "{'t0_ns': 0, 'duration_ns': 1, " FILES, NULL },
	{ "{'t0_ns': -1, 'duration_ns': 1, " FILES, "t0_ns" },
	{ "{'t0_ns': 4000000000000000000, 'duration_ns': 1, " FILES, NULL },
	{ "{'t0_ns': 4000000000000000001, 'duration_ns': 1, " FILES, "t0_ns" },
	{ "{'t0_ns': 1, 'duration_ns': 0, " FILES, "a session has 3600 s at most" },
	{ "{'t0_ns': 1, 'duration_ns': -1, " FILES, "a session has 3600 s at most" },
	{ "{'t0_ns': 1, " FILES, "a session has 3600 s at most" },
	{ "{'t0_ns': 1, 'duration_ns': 3600000000000, " FILES, NULL },
	{ "{'t0_ns': 1, 'duration_ns': 3600000000001, " FILES, "these files span 3600 s" },
	{ OPEN "'files': []}", "there are 0 files" },
	{ OPEN "'files': 7}", "there are 0 files" },
	{ OPEN "'files': [7]}", "files[0]: '' is no HOST.xplane.pb" },
	{ NAMED(".xplane.pb"), "is no HOST" },
	{ NAMED("a.xplane.pb2"), "is no HOST" },
	{ NAMED("../a.xplane.pb"), "is no HOST" },
	{ NAMED("a/b.xplane.pb"), "is no HOST" },
	{ NAMED("ALL_HOSTS.xplane.pb"), "is no HOST" },
	{ NAMED("a~.xplane.pb"), "is no HOST" },
	{ NAMED("a~1.xplane.pb"), "is no HOST" },
	{ NAMED("a~02.xplane.pb"), "is no HOST" },
	{ NAMED("a~2x.xplane.pb"), "is no HOST" },
	{ NAMED("a~0.xplane.pb"), "is no HOST" },
	{ NAMED("a~64.xplane.pb"), "a~64.xplane.pb is there, a.xplane.pb is not" },
	{ NAMED("a~65.xplane.pb"), "is no HOST" },
	{ SIZED("0"), "files[0]: 0 bytes" },
	{ SIZED("-1"), "files[0]: -1 bytes" },
	{ SIZED("2000000000"), NULL },
	{ SIZED("2000000001"), "readers refuse larger files" },
	{ SIZED("'1'"), "files[0]: 0 bytes" },
	{ SUMMED("'0000000'"), "use eight hex digits" },
	{ SUMMED("'000000000'"), "use eight hex digits" },
	{ SUMMED("'0000000G'"), "use eight hex digits" },
	{ SUMMED("'0x000000'"), "use eight hex digits" },
	{ SUMMED("'ABCDEF00'"), "use eight hex digits" },
	{ SUMMED("7"), "use eight hex digits" },
	{ SUMMED("'abcdef09'"), NULL },
	{ OPEN "'files': [{'file': 'a.xplane.pb', 'bytes': 1, 'crc32c': '00000000'}, "
	       "{'file': 'a.xplane.pb', 'bytes': 1, 'crc32c': '00000000'}]}",
	  "a.xplane.pb is there, a~2.xplane.pb is not" },
	{ OPEN "'files': [{'file': 'a~3.xplane.pb', 'bytes': 1, 'crc32c': '00000000'}, "
	       "{'file': 'a.xplane.pb', 'bytes': 1, 'crc32c': '00000000'}]}",
	  "a~3.xplane.pb is there, a~2.xplane.pb is not" },
	{ OPEN "'files': [{'file': 'b.xplane.pb', 'bytes': 1, 'crc32c': '0000000'}, "
	       "{'file': 'a.xplane.pb', 'bytes': 1, 'crc32c': '00000000'}]}",
	  "files[0]" },
	{ OPEN "'files': [{'file': 'b.xplane.pb', 'bytes': 1, 'crc32c': '00000000'}, "
	       "{'file': 'a.xplane.pb', 'bytes': 1, 'crc32c': '0000000'}]}",
	  "files[1]" },
};

static json_t *parse(const char *text)
{
	char *quoted = xstrdup(text);
	json_t *doc;
	struct err e;

	for (char *p = quoted; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	CHECK_OK(json_parse(&doc, quoted, strlen(quoted), &e), e);
	free(quoted);
	return doc;
}

static void test_requests(struct bed *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		json_t *request = parse(requests[i].request);
		int rc = begin(b, request);

		if (rc != (requests[i].error ? ERR_INVALID : 0) ||
		    (rc && !strstr(b->error, requests[i].error))) {
			fprintf(stderr, "%s: %s\n", requests[i].request,
				rc ? b->error : "is taken");
			exit(1);
		}
		if (!rc) {
			char session[LIMIT_SESSION_NAME];

			snprintf(session, sizeof(session), "%s", json_get_text(b->doc, "session"));
			CHECK_EQ(cancel(b, session), 0);
		}
		json_decref(request);
	}
}

/* The most files, eleven of them of one host: "a~10" comes behind "a~9". */
static void test_many_files(struct bed *b)
{
	json_t *list = json_array(), *request;
	const char *session;
	char name[40];

	for (int i = 11; i > 0; i--) {
		snprintf(name, sizeof(name), i > 1 ? "a~%d.xplane.pb" : "a.xplane.pb", i);
		json_array_append_new(list, json_pack("{s:s, s:i, s:s}", "file", name, "bytes", 1,
						      "crc32c", "00000000"));
	}
	for (int i = 11; i < IMPORT_FILES_MAX; i++) {
		snprintf(name, sizeof(name), "b%d.xplane.pb", i);
		json_array_append_new(list, json_pack("{s:s, s:i, s:s}", "file", name, "bytes", 1,
						      "crc32c", "00000000"));
	}
	request = json_pack("{s:I, s:i, s:o}", "t0_ns", (json_int_t)T0, "duration_ns", 1, "files",
			    list);
	session = begun(b, request);
	CHECK_STR(json_get_text(json_array_get(json_object_get(b->doc, "files"), 8), "file"),
		  "a~9.xplane.pb");
	CHECK_STR(json_get_text(json_array_get(json_object_get(b->doc, "files"), 10), "file"),
		  "a~11.xplane.pb");
	CHECK_EQ(cancel(b, session), 0);
	json_array_append_new(list, json_pack("{s:s, s:i, s:s}", "file", "c.xplane.pb", "bytes", 1,
					      "crc32c", "00000000"));
	CHECK_EQ(begin(b, request), ERR_INVALID);
	CHECK(strstr(b->error, "there are 4097 files"));
	json_decref(request);
}

/* ---- beside each other ---- */

static void test_two(struct bed *b)
{
	json_t *request = request_of("", files, 3);
	const char *one = begun(b, request), *two = begun(b, request);

	CHECK(strcmp(one, two) != 0);
	for (size_t i = 0; i < 3; i++) {
		CHECK_EQ(add_all(b, one, &files[i]), 0);
		CHECK_EQ(add_all(b, two, &files[2 - i]), 0);
	}
	CHECK_EQ(commit(b, two), 0);
	CHECK_STR(json_get_text(b->doc, "session"), two);
	CHECK_EQ(commit(b, one), 0);
	CHECK_STR(json_get_text(b->doc, "session"), one);
	json_decref(request);
}

static void test_limit(struct bed *b)
{
	json_t *request = request_of("", files, 3);
	char sessions[IMPORTS_MAX][LIMIT_SESSION_NAME];

	for (int i = 0; i < IMPORTS_MAX; i++)
		snprintf(sessions[i], sizeof(sessions[i]), "%s", begun(b, request));
	CHECK_EQ(begin(b, request), ERR_LIMIT);
	CHECK(strstr(b->error, "16 imports are under way already"));
	CHECK_EQ(cancel(b, sessions[3]), 0);
	snprintf(sessions[3], sizeof(sessions[3]), "%s", begun(b, request));
	for (int i = 0; i < IMPORTS_MAX; i++)
		CHECK_EQ(cancel(b, sessions[i]), 0);
	b->sessions.ready = false;
	err_set(&b->sessions.not_ready, ERR_CLOSED, "it is away");
	CHECK_EQ(begin(b, request), ERR_BUSY);
	CHECK(strstr(b->error, "it is away"));
	b->sessions.ready = true;
	json_decref(request);
}

/* ---- gone on with ---- */

static void test_resume(struct bed *b)
{
	static const char *const others[] = { "t0_ns", "duration_ns" };
	json_t *request = request_of("before", files, 3), *other, *list;
	char session[LIMIT_SESSION_NAME];

	json_put_bool(request, "resume", true);
	snprintf(session, sizeof(session), "%s", begun(b, request)); /* there is none: a new one */
	CHECK_EQ(add(b, session, files[0].name, 0, files[0].bytes.data, 7), 0);
	CHECK_STR(begun(b, request), session);
	CHECK_EQ(json_get_int(json_array_get(json_object_get(b->doc, "files"), 2), "received"), 7);
	for (size_t i = 0; i < 7; i++) {
		json_t *file;

		other = json_deep_copy(request);
		list = json_object_get(other, "files");
		file = json_array_get(list, 1);
		if (i < 2)
			json_put_int(other, others[i], json_get_int(other, others[i]) + 1);
		else if (i == 2)
			json_put_text(other, "run", "other");
		else if (i == 3)
			json_put_text(file, "crc32c", "00000000");
		else if (i == 4)
			json_put_int(file, "bytes", 1);
		else if (i == 5)
			json_array_remove(list, 1);
		else
			json_put_bool(other, "resume", false);
		CHECK(strcmp(begun(b, other), session) != 0);
		CHECK_EQ(cancel(b, json_get_text(b->doc, "session")), 0);
		json_decref(other);
	}
	/* what is being stored is not gone on with */
	CHECK_EQ(add(b, session, files[0].name, 7, files[0].bytes.data + 7, files[0].bytes.len - 7),
		 0);
	CHECK_EQ(add_all(b, session, &files[1]), 0);
	CHECK_EQ(add_all(b, session, &files[2]), 0);
	{
		struct bed second = { .jobs.loop = b->jobs.loop };

		imports_commit(b->imports, session, on_done, &second);
		CHECK(strcmp(begun(b, request), session) != 0);
		CHECK_EQ(answer(&second), 0);
		json_decref(second.doc);
		CHECK_EQ(cancel(b, json_get_text(b->doc, "session")), 0);
	}
	json_decref(request);
}

/* ---- never finished ---- */

#ifndef __SANITIZE_THREAD__ /* there waiting is real */
static void test_idle(struct bed *b)
{
	json_t *request = request_of("", files, 3);
	char session[LIMIT_SESSION_NAME];

	json_put_bool(request, "resume", true);
	snprintf(session, sizeof(session), "%s", begun(b, request));
	run_for(b->jobs.loop, IMPORT_IDLE_NS - NS_PER_S);
	CHECK(is_there(b, session));
	CHECK_EQ(add(b, session, files[0].name, 0, files[0].bytes.data, 7),
		 0); /* a piece: it lives on */
	run_for(b->jobs.loop, IMPORT_IDLE_NS - NS_PER_S);
	CHECK_STR(begun(b, request), session);
	run_for(b->jobs.loop, IMPORT_IDLE_NS - NS_PER_S);
	CHECK(is_there(b, session));
	CHECK_EQ(add(b, session, files[0].name, 0, "x", 1),
		 ERR_EXISTS); /* what is refused is no piece */
	run_for(b->jobs.loop, 2 * NS_PER_S);
	CHECK(!is_there(b, session));
	CHECK_EQ(commit(b, session), ERR_NOT_FOUND);
	json_decref(request);
}

/* No piece comes while all is stored, and that may take long. */
static void test_slow_store(struct bed *b)
{
	json_t *request = request_of("", files, 3);
	const char *session = begun(b, request);

	for (size_t i = 0; i < 3; i++)
		CHECK_EQ(add_all(b, session, &files[i]), 0);
	run_for(b->jobs.loop, IMPORT_IDLE_NS / 2);
	store_set_rules(b->sessions.store, "write *host-a.xplane.pb delay=400");
	imports_commit(b->imports, session, on_done, b);
	run_for(b->jobs.loop, IMPORT_IDLE_NS / 2 + NS_PER_S);
	CHECK(!b->is_done);
	run_for(b->jobs.loop, IMPORT_IDLE_NS);
	CHECK_EQ(answer(b), 0);
	CHECK_STR(json_get_text(b->doc, "session"), session);
	store_set_rules(b->sessions.store, "");
	json_decref(request);
}
#endif

/* ---- what is no XSpace of this session ---- */

static void check_refused(struct bed *b, const struct buf *bytes, const char *wrong_crc,
			  const char *error)
{
	struct one f = { "a.xplane.pb", NULL, *bytes };
	json_t *request = request_of("", &f, 1);
	size_t before = stored_keys(b);
	const char *session;

	if (wrong_crc)
		json_put_text(json_array_get(json_object_get(request, "files"), 0), "crc32c",
			      wrong_crc);
	session = begun(b, request);
	CHECK_EQ(add_all(b, session, &f), 0);
	CHECK_EQ(commit(b, session), ERR_INVALID);
	if (strncmp(b->error, "a.xplane.pb: ", 13) || !strstr(b->error, error)) {
		fprintf(stderr, "%s: expected %s\n", b->error, error);
		exit(1);
	}
	CHECK(!is_there(b, session));
	CHECK_EQ(stored_keys(b), before);
	json_decref(request);
}

static void test_no_xspace(struct bed *b)
{
	struct buf bytes = BUF_INIT;

	buf_add_str(&bytes, "this is a text");
	check_refused(b, &bytes, NULL, "at byte");
	buf_reset(&bytes);
	write_space(&bytes, T0, 3);
	check_refused(b, &bytes, "deadbeef", "and not deadbeef as was announced");
	buf_cut(&bytes, bytes.len - 1);
	check_refused(b, &bytes, NULL, "at byte");
	buf_reset(&bytes);
	write_space(&bytes, T0 + 1, 3);
	check_refused(b, &bytes, NULL,
		      "has the begin 1790000000000000001, the session's is 1790000000000000000");
	buf_reset(&bytes);
	write_space(&bytes, 0, 3);
	check_refused(b, &bytes, NULL, "has the begin 0");
	buf_reset(&bytes);
	write_space(&bytes, T0, 3);
	memcpy(memmem(bytes.data, bytes.len, "step", 4),
	       "st\xff"
	       "p",
	       4);
	check_refused(b, &bytes, NULL, "UTF-8");
	buf_release(&bytes);
}

/* ---- a store that has something, or fails ---- */

static void test_exists(struct bed *b)
{
	json_t *request = request_of("", files, 3);
	const char *session = begun(b, request);
	char key[SESSION_KEY_BYTES];

	for (size_t i = 0; i < 3; i++)
		CHECK_EQ(add_all(b, session, &files[i]), 0);
	session_file_key(session, "", "host-a~2", key);
	store_put_text(b->sessions.store, key, "another writer's");
	CHECK_EQ(commit(b, session), ERR_EXISTS);
	CHECK(!is_there(b, session));
	{
		struct session_line line;
		struct err e;

		CHECK_EQ(session_load_line(b->sessions.store, session, &line, &e), ERR_NOT_FOUND);
	}
	json_decref(request);
}

/* What was stored of it already is removed again, once the store allows that. */
static void test_store_fails(struct bed *b)
{
	json_t *request = request_of("", files, 3);
	const char *session = begun(b, request);
	size_t before = stored_keys(b);

	for (size_t i = 0; i < 3; i++)
		CHECK_EQ(add_all(b, session, &files[i]), 0);
	store_set_rules(b->sessions.store, "write *host-a.xplane.pb fail\nremove * fail");
	CHECK_EQ(commit(b, session), ERR_IO);
	CHECK(!is_there(b, session));
	store_set_rules(b->sessions.store, "");
	CHECK(stored_keys(b) > before);
	RUN_UNTIL(b->jobs.loop, stored_keys(b) <= before);
	json_decref(request);
}

int main(void)
{
	json_t *request;
	struct bed b;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		write_space(&files[i].bytes, T0, 4 - (int)i);
	bed_start(&b);
	test_life(&b);
	test_wrong_pieces(&b);
	test_busy(&b);
	test_requests(&b);
	test_many_files(&b);
	test_two(&b);
	test_limit(&b);
	test_resume(&b);
#ifndef __SANITIZE_THREAD__
	test_idle(&b);
	test_slow_store(&b);
#endif
	test_no_xspace(&b);
	test_exists(&b);
	test_store_fails(&b);
	request = parse(requests[0].request);
	CHECK_EQ(begin(&b, request), 0); /* one is left at the end */
	json_decref(request);
	bed_stop(&b);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		buf_release(&files[i].bytes);
	return 0;
}
