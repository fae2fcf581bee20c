/* SPDX-License-Identifier: Apache-2.0 */
/* Parts in raw and in real time become one file in nanoseconds since T0; what it says of the clock. */
#include <sys/stat.h>
#include <unistd.h>

#include "agent/capture/assemble.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"
#include "xspace/xspace.h"

#define T0   INT64_C(1790000000000000000)
#define RAW  (1000 * NS_PER_S) /* raw time of T0 */
#define WALL (T0 + 7 * NS_PER_S) /* this host's wall clock at T0: 7 s wrong */

/* A host whose raw clock reads 5 s too much, as injected, and whose wall clock is off by 7. */
static struct clock_model model(void)
{
	return (struct clock_model){
		.calibrated = true,
		.at_raw_ns = RAW - 10 * NS_PER_S,
		.test_offset_ns = 5 * NS_PER_S,
		.offset_ns = RAW + 5 * NS_PER_S - T0,
		.bound_ns = 1000,
		.bound_rate = 1e-6,
		.rtt_min_ns = 1500,
		.method = "udp-kernel",
		.probes = 16,
		.pair_raw_ns = RAW,
		.pair_real_ns = WALL,
	};
}

/* One line with an event at `offset_ns` after the line's start. */
static void build(struct buf *out, const char *line, int64_t line_ns, int64_t offset_ns)
{
	struct xs_builder *b = xs_builder_new();

	xs_plane(b, 1, "/host:CPU");
	xs_line(b, 1, line, line_ns);
	xs_event(b, line, offset_ns * 1000, 1000);
	xs_finish(b, out);
	xs_builder_free(b);
}

static void build_many(struct buf *out, int64_t line_ns, int n)
{
	struct xs_builder *b = xs_builder_new();

	xs_plane(b, 1, "/host:CPU");
	xs_line(b, 1, "many", line_ns);
	for (int i = 0; i < n; i++)
		xs_event(b, "event", i * INT64_C(1000), 1000);
	xs_finish(b, out);
	xs_builder_free(b);
}

/* ---- what is in the file ---- */

struct stat_name {
	char name[32];
};

struct file {
	struct stat_name names[64];
	char plane[64];
	int64_t offset_ns, bound_ns, rtt_ns, ppb, calibrated;
	char session[64], method[32], host[32];
	size_t options_len;
	struct {
		char name[32];
		int64_t ns;
	} lines[8];
	int64_t last_ns; /* of the event seen last */
	size_t n_lines, n_events, n_warnings, n_errors;
};

static int on_plane(void *arg, const struct xs_plane *p)
{
	struct file *f = arg;

	snprintf(f->plane, sizeof(f->plane), "%s", p->name);
	memset(f->names, 0, sizeof(f->names));
	return 0;
}

static int on_stat_name(void *arg, int64_t id, const char *name, size_t len)
{
	struct file *f = arg;

	if (id >= 0 && id < 64)
		snprintf(f->names[id].name, sizeof(f->names[id].name), "%.*s", (int)len, name);
	return 0;
}

static void take_text(const struct file *f, const struct xs_stat *s, char *out, size_t size)
{
	if (s->kind == XS_REF && s->u < 64)
		snprintf(out, size, "%s", f->names[s->u].name);
	else
		snprintf(out, size, "%.*s", (int)s->len, (const char *)s->bytes);
}

static int on_plane_stat(void *arg, const struct xs_stat *s)
{
	struct file *f = arg;
	const char *name = s->metadata_id < 64 ? f->names[s->metadata_id].name : "";

	if (strcmp(f->plane, "Task Environment"))
		return 0;
	if (!strcmp(name, "clock_offset_ns"))
		f->offset_ns = s->i;
	else if (!strcmp(name, "clock_bound_ns"))
		f->bound_ns = s->i;
	else if (!strcmp(name, "clock_rtt_min_ns"))
		f->rtt_ns = s->i;
	else if (!strcmp(name, "clock_rate_ppb"))
		f->ppb = s->i;
	else if (!strcmp(name, "clock_calibrated"))
		f->calibrated = s->i;
	else if (!strcmp(name, "clock_method"))
		take_text(f, s, f->method, sizeof(f->method));
	else if (!strcmp(name, "tutti_session"))
		take_text(f, s, f->session, sizeof(f->session));
	else if (!strcmp(name, "profile_options"))
		f->options_len = s->len;
	return 0;
}

static int on_line(void *arg, const struct xs_line *l)
{
	struct file *f = arg;

	CHECK(f->n_lines < ARRAY_SIZE(f->lines));
	snprintf(f->lines[f->n_lines].name, sizeof(f->lines[0].name), "%s", l->name);
	f->lines[f->n_lines++].ns = l->timestamp_ns;
	return 0;
}

static int on_event(void *arg, const struct xs_event *ev)
{
	struct file *f = arg;

	f->n_events++;
	f->last_ns = f->lines[f->n_lines - 1].ns + ev->offset_ps / 1000;
	return 0;
}

static int on_text(void *arg, int field, const char *s, size_t len)
{
	struct file *f = arg;

	f->n_warnings += field == 3;
	f->n_errors += field == 2;
	if (field == 4)
		snprintf(f->host, sizeof(f->host), "%.*s", (int)len, s);
	return 0;
}

static int read_fd(void *arg, uint64_t offset, void *buf, size_t len, struct err *e)
{
	if (pread(*(int *)arg, buf, len, (off_t)offset) != (ssize_t)len)
		return err_set(e, ERR_IO, "short read");
	return 0;
}

static struct file read_file(const char *path)
{
	static const struct xs_visitor v = {
		.plane_begin = on_plane,
		.stat_metadata = on_stat_name,
		.plane_stat = on_plane_stat,
		.line_begin = on_line,
		.event = on_event,
		.text = on_text,
	};
	FILE *in = fopen(path, "rbe");
	struct xs_source source = { .read = read_fd };
	struct file f = { 0 };
	struct stat st;
	struct err e;
	int fd;

	CHECK(in && !fstat(fileno(in), &st));
	fd = fileno(in);
	source.arg = &fd;
	source.size = (uint64_t)st.st_size;
	CHECK_OK(xs_read(&source, &v, &f, &e), e);
	fclose(in);
	return f;
}

/* The host's i-th file, which is [offset, offset + len) of what lies at `path`. */
static void check_file(const char *path, uint64_t offset, uint64_t len, size_t i)
{
	static const char *const names[] = { "host-a", "host-a~2", "host-a~3" };
	char *part = xasprintf("%s-part", path);
	uint8_t *bytes = xmalloc(len);
	FILE *in = fopen(path, "rbe"), *out = fopen(part, "wbe");
	struct file f;

	CHECK(in && out && !fseek(in, (long)offset, SEEK_SET));
	CHECK(fread(bytes, 1, len, in) == len && fwrite(bytes, 1, len, out) == len);
	CHECK(!fclose(in) && !fclose(out));
	f = read_file(part);
	CHECK_STR(f.host, names[i]);
	CHECK_EQ(f.n_events, 2000);
	CHECK_EQ(f.n_warnings, 1);
	CHECK_EQ(f.calibrated, 1);
	unlink(part);
	free(bytes);
	free(part);
}

static int64_t line_ns(const struct file *f, const char *name)
{
	for (size_t i = 0; i < f->n_lines; i++) {
		if (!strcmp(f->lines[i].name, name))
			return f->lines[i].ns;
	}
	CHECK(!"no such line");
	return 0;
}

/* ---- tests ---- */

struct rig {
	char *dir, *path;
	struct tracer_part parts[4];
	const struct tracer_part *pointers[4];
	enum part_result results[4];
	struct assembly a;
};

static void rig_up(struct rig *g)
{
	static const char *const warnings[] = { "cpu: 3 records were lost", NULL };

	*g = (struct rig){ 0 };
	g->dir = xstrdup(temp_dir());
	g->path = xasprintf("%s/host-a.xplane.pb", g->dir);
	for (size_t i = 0; i < ARRAY_SIZE(g->parts); i++)
		g->pointers[i] = &g->parts[i];
	g->a = (struct assembly){
		.host = "host-a",
		.session = "2026_11_21_12_00_00_abc123",
		.path = g->path,
		.clock = model(),
		.t0_ns = T0,
		.t1_ns = T0 + NS_PER_S,
		.profile_options = "\x10\x02",
		.profile_options_len = 2,
		.parts = g->pointers,
		.warnings = warnings,
		.limit_bytes = 1 << 20,
		.results = g->results,
	};
}

static void rig_down(struct rig *g)
{
	for (size_t i = 0; i < ARRAY_SIZE(g->parts); i++) {
		buf_release(&g->parts[i].bytes);
		if (g->parts[i].path)
			unlink(g->parts[i].path);
		free(g->parts[i].path);
	}
	unlink(g->path);
	CHECK(!rmdir(g->dir));
	free(g->path);
	free(g->dir);
}

/* The same instant, T0 + 100 ms, stamped in three ways. */
static void add_three_parts(struct rig *g)
{
	struct buf bytes = BUF_INIT;
	FILE *f;

	g->a.n_parts = 3;
	build(&g->parts[0].bytes, "raw", RAW + 100 * NS_PER_MS, 0);
	g->parts[0].base = PART_RAW;
	build(&g->parts[1].bytes, "real", 50 * NS_PER_MS, 0);
	g->parts[1].base = PART_REAL;
	g->parts[1].start_real_ns = WALL + 50 * NS_PER_MS;
	g->parts[1].pid = 11;
	build(&bytes, "absolute", WALL + 100 * NS_PER_MS, 0);
	g->parts[2].base = PART_REAL;
	g->parts[2].start_real_ns = WALL + 50 * NS_PER_MS;
	g->parts[2].pid = 12;
	g->parts[2].path = xasprintf("%s/part", g->dir);
	f = fopen(g->parts[2].path, "wbe");
	CHECK(f && fwrite(bytes.data, 1, bytes.len, f) == bytes.len && !fclose(f));
	buf_release(&bytes);
}

static void test_one_timeline(void)
{
	struct rig g;
	struct file f;
	struct err e;

	rig_up(&g);
	add_three_parts(&g);
	CHECK_OK(assemble(&g.a, &e), e);
	f = read_file(g.path);
	CHECK_EQ(line_ns(&f, "raw"), 100 * NS_PER_MS);
	CHECK_EQ(line_ns(&f, "real"), 100 * NS_PER_MS);
	CHECK_EQ(line_ns(&f, "absolute"), 100 * NS_PER_MS);
	CHECK_EQ(f.n_events, 3);
	CHECK_EQ(g.a.events, 3);
	CHECK_STR(f.host, "host-a");
	CHECK_EQ(f.n_warnings, 1);
	CHECK_EQ(f.calibrated, 1);
	CHECK_EQ(f.offset_ns, RAW + 5 * NS_PER_S - T0);
	CHECK_EQ(f.rtt_ns, 1500);
	CHECK_EQ(f.ppb, 0);
	/* 11 s from where the model holds to the window's end, at 1 ns/ms. */
	CHECK_EQ(f.bound_ns, 1000 + 11000 + 2);
	CHECK_STR(f.session, g.a.session);
	CHECK_STR(f.method, "udp-kernel");
	CHECK_EQ(f.options_len, 2);
	rig_down(&g);
}

/* Frameworks start early and end late; our own tracers cut their rings themselves. */
static void test_window(void)
{
	struct rig g;
	struct err e;

	rig_up(&g);
	g.a.n_parts = 3;
	for (size_t i = 0; i < 3; i++) {
		g.parts[i].base = PART_REAL;
		g.parts[i].start_real_ns = WALL;
		g.parts[i].pid = 11 + (int64_t)i;
	}
	build(&g.parts[0].bytes, "before", 0, -1);
	build(&g.parts[1].bytes, "inside", 0, NS_PER_S - 1);
	build(&g.parts[2].bytes, "after", 0, NS_PER_S);
	CHECK_OK(assemble(&g.a, &e), e);
	CHECK_EQ(g.a.events, 1);
	rig_down(&g);
}

static void test_wild_times(void)
{
	const int64_t wild[] = { INT64_MIN, INT64_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(wild); i++) {
		struct rig g;
		struct err e;

		rig_up(&g);
		g.a.n_parts = 1;
		g.parts[0].base = PART_REAL;
		g.parts[0].start_real_ns = WALL;
		g.parts[0].pid = 1;
		build(&g.parts[0].bytes, "wild", wild[i], 0);
		CHECK_OK(assemble(&g.a, &e), e);
		CHECK_EQ(g.a.events, 0);
		rig_down(&g);
	}
}

static void test_failures(void)
{
	struct rig g;
	struct err e;

	rig_up(&g);
	add_three_parts(&g);
	g.a.limit_bytes = 50;
	CHECK_EQ(assemble(&g.a, &e), ERR_FULL);
	CHECK(access(g.path, F_OK));
	g.a.limit_bytes = 1 << 20;
	unlink(g.parts[2].path);
	CHECK_EQ(assemble(&g.a, &e), ERR_NOT_FOUND);
	CHECK(access(g.path, F_OK));
	rig_down(&g);
}

/* 50 ppm over 900 ms are 45 us: the event is moved by itself, in either clock, and the bound does not grow. */
static void test_drifting_clock(void)
{
	for (int real = 0; real <= 1; real++) {
		struct rig g;
		struct file f;
		struct err e;
		int64_t want;

		rig_up(&g);
		g.a.clock.rate = 50e-6;
		g.a.n_parts = 1;
		g.parts[0].base = real ? PART_REAL : PART_RAW;
		g.parts[0].start_real_ns = WALL;
		build(&g.parts[0].bytes, "long", real ? 0 : RAW, 900 * NS_PER_MS);
		want = clock_model_session_of_raw(&g.a.clock, RAW + 900 * NS_PER_MS) - T0;
		CHECK_OK(assemble(&g.a, &e), e);
		f = read_file(g.path);
		CHECK_EQ(f.n_events, 1);
		CHECK_EQ(g.a.events, 1);
		CHECK(llabs(f.last_ns - want) <= 2);
		CHECK(llabs(f.last_ns - f.lines[0].ns - 900 * NS_PER_MS) > 40000);
		CHECK(f.bound_ns < 1000 + 11000 + 10);
		rig_down(&g);
	}
}

/* Gathered from a minute before the window on: the clock's 12 us of that minute are not the event's. */
static void test_line_from_long_before(void)
{
	struct rig g;
	struct file f;
	struct err e;
	int64_t want;

	rig_up(&g);
	g.a.clock.rate = 200e-9;
	g.a.n_parts = 1;
	g.parts[0].base = PART_RAW;
	build(&g.parts[0].bytes, "early", RAW - 60 * NS_PER_S, 60 * NS_PER_S + 500 * NS_PER_MS);
	want = clock_model_session_of_raw(&g.a.clock, RAW + 500 * NS_PER_MS) - T0;
	CHECK_OK(assemble(&g.a, &e), e);
	f = read_file(g.path);
	CHECK_EQ(f.n_events, 1);
	CHECK(llabs(f.last_ns - want) <= 202);
	rig_down(&g);
}

/* A host that slept for 4 s at this raw time; else model()'s. */
static struct clock_model slept_at(int64_t raw_ns)
{
	struct clock_model m = model();
	int64_t host_ns = raw_ns + m.test_offset_ns;

	m.n_segments = 2;
	m.n_knots = 4;
	for (uint16_t i = 0; i < m.n_knots; i++) {
		static const int64_t far_ns[] = { -100 * NS_PER_S, -NS_PER_US, NS_PER_US,
						  100 * NS_PER_S };
		int64_t offset_ns = m.offset_ns - (i < 2 ? 0 : 4 * NS_PER_S);

		m.segments[i / 2] = (struct clock_segment){ .first = i & ~1U, .n = 2 };
		m.knots[i] = (struct clock_knot){ host_ns + far_ns[i], offset_ns, offset_ns - 100,
						  offset_ns + 100 };
	}
	return m;
}

/* The one of a line's two events that lies in the window, by the truth. */
static void check_sleep(int64_t slept_raw_ns, int64_t window_ns, const int64_t raw_ns[2],
			int64_t want_ns)
{
	struct rig g;
	struct file f;
	struct err e;
	struct xs_builder *b = xs_builder_new();

	rig_up(&g);
	g.a.clock = slept_at(slept_raw_ns);
	g.a.t1_ns = g.a.t0_ns + window_ns;
	g.a.n_parts = 1;
	g.parts[0].base = PART_RAW;
	xs_plane(b, 1, "/host:CPU");
	xs_line(b, 1, "line", RAW - 10 * NS_PER_S);
	for (int i = 0; i < 2; i++)
		xs_event(b, "event", (raw_ns[i] - RAW + 10 * NS_PER_S) * 1000, 1000);
	xs_finish(b, &g.parts[0].bytes);
	xs_builder_free(b);
	CHECK_OK(assemble(&g.a, &e), e);
	f = read_file(g.path);
	CHECK_EQ(f.n_events, 1);
	CHECK(llabs(f.last_ns - want_ns) <= 2);
	rig_down(&g);
}

/* What was before a sleep is not moved with what was after it, and the other way about. */
static void test_asleep_at_an_edge(void)
{
	const int64_t s = NS_PER_S;

	/* From 1 s before T0 to 3 s after it. */
	check_sleep(RAW - s, 5 * s, (const int64_t[]){ RAW - 3 * s / 2, RAW - s / 2 }, 7 * s / 2);
	/* From half a second before T1 on. */
	check_sleep(RAW + s / 2, s, (const int64_t[]){ RAW + 2 * s / 5, RAW + 3 * s / 5 },
		    2 * s / 5);
}

/* Parts of 20 kB, and room for one in a file: three files, one after the other, each whole. */
static void test_further_files(void)
{
	struct rig g;
	struct err e;
	uint64_t sum = 0;

	rig_up(&g);
	g.a.n_parts = 3;
	g.a.file_bytes = 30000;
	for (size_t i = 0; i < 3; i++) {
		build_many(&g.parts[i].bytes, RAW, 2000);
		g.parts[i].base = PART_RAW;
	}
	CHECK_OK(assemble(&g.a, &e), e);
	CHECK_EQ(g.a.n_files, 3);
	for (size_t i = 0; i < 3; i++) {
		CHECK(g.a.files[i] <= g.a.file_bytes);
		check_file(g.path, sum, g.a.files[i], i);
		sum += g.a.files[i];
	}
	CHECK_EQ(sum, g.a.bytes);
	CHECK_EQ(g.a.events, 6000);
	rig_down(&g);
}

/* The others are in the file, and so is the word of what is missing. */
static void test_plane_too_large(void)
{
	struct rig g;
	struct file f;
	struct err e;

	rig_up(&g);
	g.a.n_parts = 2;
	g.a.file_bytes = 30000;
	build_many(&g.parts[0].bytes, RAW, 200);
	build_many(&g.parts[1].bytes, RAW, 20000);
	CHECK_OK(assemble(&g.a, &e), e);
	CHECK_EQ(g.a.n_files, 1);
	CHECK_EQ(g.results[0], PART_USED);
	CHECK_EQ(g.results[1], PART_TOO_LARGE);
	CHECK_STR(g.a.too_large, "/host:CPU samples");
	f = read_file(g.path);
	CHECK_EQ(f.n_events, 200);
	CHECK_EQ(f.n_errors, 1);
	rig_down(&g);
}

static void test_nothing(void)
{
	struct rig g;
	struct file f;
	struct err e;

	rig_up(&g);
	g.a.clock.calibrated = false;
	CHECK_OK(assemble(&g.a, &e), e);
	f = read_file(g.path);
	CHECK_EQ(f.calibrated, 0);
	CHECK_STR(f.method, "none");
	CHECK_EQ(g.a.events, 0);
	rig_down(&g);
}

int main(void)
{
	test_one_timeline();
	test_window();
	test_wild_times();
	test_failures();
	test_drifting_clock();
	test_line_from_long_before();
	test_asleep_at_an_edge();
	test_further_files();
	test_plane_too_large();
	test_nothing();
	return 0;
}
