/* SPDX-License-Identifier: Apache-2.0 */
/* Exported cloud logs: objects in lines and arrays, what cannot be used, the planes and lines that come of them. */
#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/import_index.h"
#include "cli/import_space.h"
#include "cli/import_split.h"
#include "json/json_text.h"
#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"
#include "tests/lib/xspace_text.h"

#define MS INT64_C(1000000)
#define AT (INT64_C(1795350336000) * MS) /* 2026-11-22T12:25:36Z */

struct bed {
	char *path;
	int fd;
	struct import_index index;
	struct buf space;
	char *text; /* of the space */
};

static void open_bed(struct bed *b, const char *file)
{
	struct err e;

	*b = (struct bed){ .path = xasprintf("%s/logs.json", temp_dir()) };
	b->fd = open(b->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(b->fd >= 0);
	CHECK_OK(file_write_all(b->fd, file, strlen(file), b->path, &e), e);
}

static void close_bed(struct bed *b)
{
	import_index_release(&b->index);
	buf_release(&b->space);
	close(b->fd);
	free(b->path);
	free(b->text);
}

/* The sentence of the error, without the name of the file; "" if there is none. */
static const char *read_file(struct bed *b, struct err *e)
{
	*e = (struct err){ 0 };
	if (!import_index_read(&b->index, b->fd, "FILE", e))
		return "";
	CHECK(!strncmp(e->msg, "FILE: ", 6));
	return e->msg + 6;
}

static int write_space(struct bed *b, struct import_space *space, struct err *e)
{
	struct xs_sink sink = xs_sink_buf(&b->space);
	int rc;

	space->name = "FILE";
	space->hostname = "imported-logs";
	import_index_sort(&b->index);
	rc = import_space_write(space, &b->index, b->fd, &sink, e);
	if (!rc)
		b->text = xspace_text(b->space.data, b->space.len);
	return rc;
}

#define POD(job, pod) \
	"\"resource\":{\"type\":\"k8s_container\",\"labels\":{\"pod_name\":\"" pod \
	"\",\"namespace_name\":\"ml\",\"container_name\":\"main\"}}," \
	"\"labels\":{\"k8s-pod/jobset_sigs_k8s_io/jobset-name\":\"" job \
	"\",\"compute.googleapis.com/resource_name\":\"node-a\"}}\n"

static const char export[] =
	"{\"timestamp\":\"2026-11-22T12:25:36.500000000Z\",\"severity\":\"ERROR\","
	"\"textPayload\":\"no memory\"," POD(
		"train",
		"train-0") "{\"timestamp\":\"2026-11-22T12:25:36.100Z\",\"severity\":\"INFO\","
			   "\"jsonPayload\":{\"message\":\"up\"}," POD(
				   "train",
				   "train-0") "\n"
					      "{\"severity\":\"INFO\",\"textPayload\":\"when?"
					      "\"," POD(
						      "train",
						      "train-0") "{\"timestamp\":\"2026-11-"
								 "22T12:25:36.300Z\","
								 "\"textPayload\":\"WARNING: "
								 "hot\"," POD(
									 "train",
									 "train-1") "{\"t"
										    "imes"
										    "tamp"
										    "\":"
										    "\"20"
										    "26-"
										    "11-"
										    "22T1"
										    "2:"
										    "25:"
										    "36."
										    "200Z"
										    "\","
										    "\"se"
										    "veri"
										    "ty\""
										    ":\"I"
										    "NFO"
										    "\","
										    "\"js"
										    "onPa"
										    "yloa"
										    "d\":"
										    "{\"s"
										    "tep"
										    "\":"
										    "7}"
										    "," POD("train",
											    "train-"
											    "0") "{"
												 "\"timestamp\":\"2026-11-22T12:25:36Z\",\"severity\":\"INFO\",\"message\":\"plain\","
												 "\"labels\":{\"job\":\"eval\",\"pod\":\"eval-0\"}}\n";

static void an_export_becomes_planes(void)
{
	struct import_space space = { .t0_ns = AT, .t1_ns = AT + 1000 * MS };
	struct bed b;
	struct err e;

	open_bed(&b, export);
	CHECK_STR(read_file(&b, &e), "");
	CHECK_EQ(b.index.n, 5);
	CHECK_EQ(b.index.skipped, 1);
	CHECK_EQ(b.index.skipped_line, 4);
	CHECK_STR(b.index.skipped_why, "no timestamp");
	CHECK_OK(write_space(&b, &space, &e), e);
	puts(b.text);
	CHECK_EQ(space.entries, 5);
	CHECK_EQ(space.jobs, 2);
	CHECK_EQ(space.lines, 4);
	CHECK_EQ(text_count(b.text, "plane /host:CPU logs eval\n"), 1);
	CHECK_EQ(text_count(b.text, "plane /host:CPU logs train\n"), 1);
	CHECK(strstr(b.text, "train-0 INFO #1: up 100-100 {"));
	CHECK(strstr(b.text, "{\"step\":7} 200-200 {"));
	CHECK(strstr(b.text,
		     "train-0 ERROR #2: no memory 500-500 {severity=\"ERROR\" source=\"cloud\" "
		     "namespace=\"ml\" pod=\"train-0\" container=\"main\" node=\"node-a\" "
		     "time=\"node\"}"));
	CHECK(strstr(b.text, "train-1 WARNING #3: WARNING: hot 300-300 {"));
	CHECK(strstr(b.text, "eval-0 INFO #1: plain 0-0 {"));
	CHECK_EQ(text_count(b.text, "host imported-logs"), 1);
	CHECK_EQ((uint64_t)text_number(b.text, "profile_start_time="), AT);
	close_bed(&b);
}

/* Beside a session: only its window, on its clock. */
static void entries_are_moved_to_the_session(void)
{
	struct import_space space = { .t0_ns = AT + 50 * MS, .t1_ns = AT + 350 * MS };
	json_t *host = json_object(), *clock = json_object(), *hosts = json_array();
	struct bed b;
	struct err e;

	json_put_text(host, "host", "node-a");
	json_put_bool(clock, "calibrated", true);
	json_put_int(clock, "offset_ns", 150 * MS);
	json_put(host, "clock", clock);
	json_array_append_new(hosts, host);
	space.hosts = hosts;
	open_bed(&b, export);
	CHECK_STR(read_file(&b, &e), "");
	CHECK_OK(write_space(&b, &space, &e), e);
	CHECK_EQ(space.entries, 2);
	CHECK_EQ(space.moved, 2);
	CHECK_EQ(space.outside, 3);
	CHECK(strstr(b.text, "WARNING: hot 100-100 {"));
	CHECK(strstr(b.text, "no memory 300-300 {") == NULL); /* at 350 ms: the window has ended */
	CHECK(strstr(b.text, "time=\"node, moved\""));
	close_bed(&b);
	open_bed(&b, export);
	CHECK_STR(read_file(&b, &e), "");
	space = (struct import_space){ .t0_ns = AT - 2 * MS, .t1_ns = AT - MS };
	CHECK_EQ(write_space(&b, &space, &e), ERR_NOT_FOUND);
	close_bed(&b);
	json_decref(hosts);
}

static void an_array_is_read(void)
{
	struct bed b;
	struct err e;

	open_bed(&b, "[\n  {\n    \"timestamp\": \"2026-11-22T12:25:36Z\",\n"
		     "    \"textPayload\": \"a } in a \\\" text\"\n  },\n"
		     "  {\"timestamp\": 1795350336.5, \"msg\": \"x\"}\n]\n");
	CHECK_STR(read_file(&b, &e), "");
	CHECK_EQ(b.index.n, 2);
	CHECK_EQ(b.index.slots[1].unix_ns, AT + 500 * MS);
	close_bed(&b);
}

static void errors_name_the_line(void)
{
	static const struct {
		const char *file, *error;
	} rows[] = {
		{ "{}\n\nhello\n", "line 3: no JSON object begins here" },
		{ "{}\n{\"a\":\n1,,}\n", "line 3: no JSON: " },
		{ "{}\n{\"a\":1\n", "line 2: the object that begins here has no end" },
		{ "\"text\"", "line 1: no JSON object begins here" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct bed b;
		struct err e;

		open_bed(&b, rows[i].file);
		CHECK(!strncmp(read_file(&b, &e), rows[i].error, strlen(rows[i].error)));
		CHECK_EQ(e.code, ERR_INVALID);
		close_bed(&b);
	}
}

static int count_object(void *arg, const struct import_object *object, struct err *e)
{
	(void)object;
	(void)e;
	++*(int *)arg;
	return 0;
}

static void an_object_is_bounded(void)
{
	struct import_split s = { 0 };
	char piece[4096];
	struct err e;
	int n = 0, rc = 0;

	memset(piece, ' ', sizeof(piece));
	piece[0] = '{';
	for (int i = 0; i <= IMPORT_OBJECT_BYTES / (int)sizeof(piece) && !rc; i++) {
		rc = import_split_add(&s, piece, sizeof(piece), count_object, &n, &e);
		piece[0] = ' ';
	}
	CHECK_EQ(rc, ERR_LIMIT);
	CHECK(strstr(e.msg, "line 1: an object of more than 1048576 bytes"));
	CHECK_EQ(n, 0);
	import_split_release(&s);
}

int main(void)
{
	an_export_becomes_planes();
	entries_are_moved_to_the_session();
	an_array_is_read();
	errors_name_the_line();
	an_object_is_bounded();
	return 0;
}
