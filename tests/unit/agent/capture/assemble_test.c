/* SPDX-License-Identifier: Apache-2.0 */
/* Parts in raw and in wall clock time become one file in nanoseconds since T0, with stats of the clock. */
#include <sys/stat.h>
#include <unistd.h>

#include "agent/capture/assemble.h"
#include "agent/capture/assemble_curve.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"
#include "tests/lib/xspace_text.h"
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
		.rate_known = true,
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

/* The host's i-th file: it begins at `offset` of the file at `path`. */
static void check_file(const char *path, uint64_t offset, const struct capture_file *file, size_t i)
{
	const uint64_t len = file->bytes;
	static const char *const names[] = { "\nhost host-a\n", "\nhost host-a~2\n",
					     "\nhost host-a~3\n" };
	char *part = xasprintf("%s-part", path);
	uint8_t *bytes = xmalloc(len);
	FILE *in = fopen(path, "rbe"), *out = fopen(part, "wbe");
	char *text;

	CHECK(in && out && !fseek(in, (long)offset, SEEK_SET));
	CHECK(fread(bytes, 1, len, in) == len && fwrite(bytes, 1, len, out) == len);
	CHECK(!fclose(in) && !fclose(out));
	CHECK_EQ(crc32c(0, bytes, len), file->crc32c);
	text = xspace_text_of_file(part);
	CHECK_EQ(text_count(text, names[i]), 1);
	CHECK_EQ(text_count(text, " event "), 2000);
	CHECK_EQ(text_count(text, "\nwarning "), 1);
	CHECK_EQ(text_number(text, "clock_calibrated="), 1);
	free(text);
	unlink(part);
	free(bytes);
	free(part);
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

static int rig_assemble(struct rig *g, struct err *e)
{
	struct assembly *a = &g->a;

	a->bound_ns = assemble_bound_ns(&a->clock, a->t0_ns, a->t1_ns, &a->edges, true);
	return assemble(a, e);
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
	char *text;
	struct err e;

	rig_up(&g);
	add_three_parts(&g);
	CHECK_OK(rig_assemble(&g, &e), e);
	text = xspace_text_of_file(g.path);
	CHECK_EQ(text_first_ns(text, "raw"), 100 * NS_PER_MS);
	CHECK_EQ(text_first_ns(text, "real"), 100 * NS_PER_MS);
	CHECK_EQ(text_first_ns(text, "absolute"), 100 * NS_PER_MS);
	CHECK_EQ(g.a.events, 3);
	CHECK_EQ(text_count(text, "\nhost host-a\n"), 1);
	CHECK_EQ(text_count(text, "\nwarning "), 1);
	CHECK_EQ(text_count(text, "\nplane Task Environment\n"), 1);
	CHECK_EQ(text_number(text, "clock_calibrated="), 1);
	CHECK_EQ(text_number(text, "clock_offset_ns="), RAW + 5 * NS_PER_S - T0);
	CHECK_EQ(text_number(text, "clock_rtt_min_ns="), 1500);
	CHECK_EQ(text_number(text, "clock_rate_ppb="), 0);
	/* 11 s from where the model holds to the window's end, at 1 ns/ms. */
	CHECK_EQ(text_number(text, "clock_bound_ns="), 1000 + 11000 + 2);
	CHECK(strstr(text, "tutti_session=\"2026_11_21_12_00_00_abc123\""));
	CHECK(strstr(text, "clock_method=\"udp-kernel\""));
	CHECK(strstr(text, "profile_options=[2]"));
	free(text);
	rig_down(&g);
}

/* Frameworks start early and end late; always-on tracers cut their rings themselves. */
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
	CHECK_OK(rig_assemble(&g, &e), e);
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
		CHECK_OK(rig_assemble(&g, &e), e);
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
	CHECK_EQ(rig_assemble(&g, &e), ERR_FULL);
	CHECK(access(g.path, F_OK));
	rig_down(&g);
}

/* A part's file that vanished, and one that ends early, cost those parts; the host's file has the others. A
 * host without its file for the sake of one process's trace would have lost more than was lost. */
static void test_part_file_vanished(void)
{
	for (int truncated = 0; truncated <= 1; truncated++) {
		struct rig g;
		char *text;
		struct err e;

		rig_up(&g);
		add_three_parts(&g);
		snprintf(g.parts[2].label, sizeof(g.parts[2].label), "jax 12");
		if (truncated)
			CHECK(!truncate(g.parts[2].path, 7));
		else
			unlink(g.parts[2].path);
		CHECK_OK(rig_assemble(&g, &e), e);
		CHECK_EQ(g.results[0], PART_USED);
		CHECK_EQ(g.results[1], PART_USED);
		CHECK_EQ(g.results[2], truncated ? PART_INVALID : PART_UNREADABLE);
		CHECK_EQ(g.a.events, 2);
		text = xspace_text_of_file(g.path);
		CHECK_EQ(text_count(text, "\nwarning "), 2);
		CHECK(strstr(text, "jax 12: left out: "));
		free(text);
		rig_down(&g);
	}
}

/* 50 ppm over 900 ms are 45 us: the event is moved by itself, in either clock, and the bound does not grow. */
static void test_drifting_clock(void)
{
	for (int real = 0; real <= 1; real++) {
		struct rig g;
		char *text;
		struct err e;
		int64_t want, got, line_ns;

		rig_up(&g);
		g.a.clock.rate = 50e-6;
		g.a.n_parts = 1;
		g.parts[0].base = real ? PART_REAL : PART_RAW;
		g.parts[0].start_real_ns = WALL;
		build(&g.parts[0].bytes, "long", real ? 0 : RAW, 900 * NS_PER_MS);
		want = clock_model_session_of_raw(&g.a.clock, RAW + 900 * NS_PER_MS) - T0;
		CHECK_OK(rig_assemble(&g, &e), e);
		text = xspace_text_of_file(g.path);
		CHECK_EQ(text_count(text, " long "), 1);
		CHECK_EQ(g.a.events, 1);
		got = text_last_ns(text, "long");
		CHECK(llabs(got - want) <= 2);
		line_ns = strstr(text, " @") ? text_number(text, " @") : 0;
		CHECK(llabs(got - line_ns - 900 * NS_PER_MS) > 40000);
		CHECK(text_number(text, "clock_bound_ns=") < 1000 + 11000 + 10);
		free(text);
		rig_down(&g);
	}
}

/* Gathered from a minute before the window on: the clock's 12 us of that minute do not move the event. */
static void test_line_from_long_before(void)
{
	struct rig g;
	char *text;
	struct err e;
	int64_t want;

	rig_up(&g);
	g.a.clock.rate = 200e-9;
	g.a.n_parts = 1;
	g.parts[0].base = PART_RAW;
	build(&g.parts[0].bytes, "early", RAW - 60 * NS_PER_S, 60 * NS_PER_S + 500 * NS_PER_MS);
	want = clock_model_session_of_raw(&g.a.clock, RAW + 500 * NS_PER_MS) - T0;
	CHECK_OK(rig_assemble(&g, &e), e);
	text = xspace_text_of_file(g.path);
	CHECK_EQ(text_count(text, " early "), 1);
	CHECK(llabs(text_last_ns(text, "early") - want) <= 202);
	free(text);
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
		m.knots[i] = (struct clock_knot){ .host_ns = host_ns + far_ns[i],
						  .offset_ns = offset_ns,
						  .lo_ns = offset_ns - 100,
						  .hi_ns = offset_ns + 100 };
	}
	return m;
}

/* Of a line's two events the one that truly lies in the window. */
static void check_sleep(int64_t slept_raw_ns, int64_t window_ns, const int64_t raw_ns[2],
			int64_t want_ns)
{
	struct rig g;
	char *text;
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
	CHECK_OK(rig_assemble(&g, &e), e);
	text = xspace_text_of_file(g.path);
	CHECK_EQ(text_count(text, " event "), 1);
	CHECK(llabs(text_last_ns(text, "line") - want_ns) <= 2);
	free(text);
	rig_down(&g);
}

/* Events before and after a sleep are moved independently. */
static void test_asleep_at_an_edge(void)
{
	const int64_t s = NS_PER_S;

	/* From 1 s before T0 to 3 s after it. */
	check_sleep(RAW - s, 5 * s, (const int64_t[]){ RAW - 3 * s / 2, RAW - s / 2 }, 7 * s / 2);
	/* From half a second before T1 on. */
	check_sleep(RAW + s / 2, s, (const int64_t[]){ RAW + 2 * s / 5, RAW + 3 * s / 5 },
		    2 * s / 5);
}

/* A wall clock that ran as model()'s, known to 5 us up to half a second after T0 and to 90 us from there on. */
static void add_ledger(struct clock_model *m)
{
	const struct ledger_knot knots[] = {
		{ RAW - 100 * NS_PER_S, WALL - 100 * NS_PER_S, 5000, true },
		{ RAW + NS_PER_S / 2, WALL + NS_PER_S / 2, 90000, false },
		{ RAW + 100 * NS_PER_S, WALL + 100 * NS_PER_S, 0, false },
	};

	memcpy(m->ledger.knots, knots, sizeof(knots));
	m->ledger.n_knots = ARRAY_SIZE(knots);
	m->ledger.last.pair = (struct clock_pair){ .raw_ns = RAW + 100 * NS_PER_S,
						   .real_ns = WALL + 100 * NS_PER_S };
}

/* Only a file with times of the wall clock has its error in the bound: that of the window, and in the file, too. */
static void test_bound_has_the_wall_clocks_error(void)
{
	static const struct {
		int64_t end_ns, error_ns;
	} windows[] = { { NS_PER_S / 4, 5000 }, { NS_PER_S, 90000 } };

	for (size_t i = 0; i < ARRAY_SIZE(windows); i++) {
		struct window_edges none = { 0 };
		int64_t t1_ns = T0 + windows[i].end_ns, raw, wall;
		struct rig g;
		char *text;
		struct err e;

		rig_up(&g);
		add_ledger(&g.a.clock);
		raw = assemble_bound_ns(&g.a.clock, T0, t1_ns, &none, false);
		wall = assemble_bound_ns(&g.a.clock, T0, t1_ns, &none, true);
		CHECK_EQ(raw, 1000 + 10000 + windows[i].end_ns / 1000000 + 2);
		CHECK_EQ(wall, raw + windows[i].error_ns);
		g.a.t1_ns = t1_ns;
		add_three_parts(&g);
		CHECK_OK(rig_assemble(&g, &e), e);
		text = xspace_text_of_file(g.path);
		CHECK_EQ(text_number(text, "clock_bound_ns="), wall);
		free(text);
		rig_down(&g);
	}
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
	CHECK_OK(rig_assemble(&g, &e), e);
	CHECK_EQ(g.a.n_files, 3);
	for (size_t i = 0; i < 3; i++) {
		CHECK(g.a.files[i].bytes <= g.a.file_bytes);
		check_file(g.path, sum, &g.a.files[i], i);
		sum += g.a.files[i].bytes;
	}
	CHECK_EQ(sum, g.a.bytes);
	CHECK_EQ(g.a.events, 6000);
	rig_down(&g);
}

/* The other parts are in the file, and a warning names the missing one. */
static void test_plane_too_large(void)
{
	struct rig g;
	char *text;
	struct err e;

	rig_up(&g);
	g.a.n_parts = 2;
	g.a.file_bytes = 30000;
	build_many(&g.parts[0].bytes, RAW, 200);
	build_many(&g.parts[1].bytes, RAW, 20000);
	CHECK_OK(rig_assemble(&g, &e), e);
	CHECK_EQ(g.a.n_files, 1);
	CHECK_EQ(g.results[0], PART_USED);
	CHECK_EQ(g.results[1], PART_TOO_LARGE);
	CHECK_STR(g.a.too_large_plane, "/host:CPU samples");
	text = xspace_text_of_file(g.path);
	CHECK_EQ(text_count(text, " event "), 200);
	CHECK_EQ(text_count(text, "\nerror "), 1);
	free(text);
	rig_down(&g);
}

/* 65,537 empty planes. */
static void build_planes(struct buf *out)
{
	for (int i = 0; i <= XS_MAX_PLANES; i++)
		buf_add(out, "\x0a\x00", 2);
}

/* Trust: one process's XSpace beyond the limits cost the host its other tracers. */
static void test_part_beyond_limits(void)
{
	struct rig g;
	char *text;
	struct err e;

	rig_up(&g);
	g.a.n_parts = 4;
	add_three_parts(&g);
	g.a.n_parts = 4;
	build_planes(&g.parts[3].bytes);
	g.parts[3].base = PART_REAL;
	g.parts[3].pid = 13;
	snprintf(g.parts[3].label, sizeof(g.parts[3].label), "jax 13");
	buf_add_str(&g.parts[1].bytes, "garbage");
	CHECK_OK(rig_assemble(&g, &e), e);
	CHECK_EQ(g.results[0], PART_USED);
	CHECK_EQ(g.results[1], PART_INVALID);
	CHECK_EQ(g.results[2], PART_USED);
	CHECK_EQ(g.results[3], PART_BEYOND_LIMITS);
	CHECK_EQ(g.a.events, 2);
	text = xspace_text_of_file(g.path);
	CHECK_EQ(text_count(text, "\nwarning "), 3);
	CHECK(strstr(text, "jax 13: left out: "));
	free(text);
	rig_down(&g);
}

/* Trust: the spool has space for all but one process's part. */
static void test_part_without_space(void)
{
	struct rig g;
	struct err e;

	rig_up(&g);
	g.a.n_parts = 2;
	g.a.limit_bytes = 30000;
	build_many(&g.parts[0].bytes, RAW, 200);
	build_many(&g.parts[1].bytes, RAW, 20000);
	g.parts[1].pid = 11;
	CHECK_OK(rig_assemble(&g, &e), e);
	CHECK_EQ(g.results[0], PART_USED);
	CHECK_EQ(g.results[1], PART_NO_SPACE);
	CHECK_EQ(g.a.events, 200);
	rig_down(&g);
}

static void test_nothing(void)
{
	struct rig g;
	char *text;
	struct err e;

	rig_up(&g);
	g.a.clock.calibrated = false;
	CHECK_OK(rig_assemble(&g, &e), e);
	text = xspace_text_of_file(g.path);
	CHECK_EQ(text_number(text, "clock_calibrated="), 0);
	CHECK(strstr(text, "clock_method=\"none\""));
	free(text);
	CHECK_EQ(g.a.events, 0);
	rig_down(&g);
}

/* Knots of a long map that zigzag: halving a piece of the window hits none of the bends. */
static void test_curve_bends_at_the_models_knots(void)
{
	struct clock_model m = { .calibrated = true, .n_segments = 1, .n_knots = CLOCK_KNOTS };
	const struct curve_scale s = { .model = &m };
	struct xs_knot *k;
	size_t n;

	m.segments[0].n = CLOCK_KNOTS;
	for (int i = 0; i < CLOCK_KNOTS; i++)
		m.knots[i] = (struct clock_knot){ .host_ns = i * NS_PER_S,
						  .offset_ns = i % 2 ? 500 : -500 };
	k = curve_knots(&s, 255 * NS_PER_S, &n);
	for (size_t i = 0, j = 0; i < CLOCK_KNOTS - 1; i++) {
		while (j + 1 < n && k[j].from_ns < m.knots[i].host_ns)
			j++;
		CHECK_EQ(k[j].from_ns, m.knots[i].host_ns);
		CHECK(llabs(k[j].to_ns - m.knots[i].host_ns + m.knots[i].offset_ns) <= 1);
	}
	free(k);
}

/* How many of 200 instants, 1 us apart around T0 + 1 s, are in a window; all of them within its time. */
static uint64_t count_instants(const struct clock_model *m, int64_t t0_ns,
			       struct window_edges edges)
{
	struct xs_builder *b = xs_builder_new();
	struct rig g;
	struct err e;
	char *text;

	rig_up(&g);
	xs_plane(b, 1, "/host:CPU");
	xs_line(b, 1, "instants", RAW + NS_PER_S - 100 * NS_PER_US);
	for (int64_t i = 0; i < 200; i++)
		xs_event(b, "instant", i * NS_PER_US * 1000, 0);
	xs_finish(b, &g.parts[0].bytes);
	xs_builder_free(b);
	g.parts[0].base = PART_RAW;
	g.a.n_parts = 1;
	g.a.clock = *m;
	g.a.t0_ns = t0_ns;
	g.a.t1_ns = t0_ns + NS_PER_S;
	g.a.edges = edges;
	CHECK_OK(rig_assemble(&g, &e), e);
	text = xspace_text_of_file(g.path);
	if (g.a.events)
		CHECK(text_first_ns(text, "instants") >= 0 &&
		      text_last_ns(text, "instants") < NS_PER_S);
	free(text);
	rig_down(&g);
	return g.a.events;
}

/* Between two windows the clock model moves: no event is in both files, or in none. */
static void test_windows_meet(int64_t moved_ns, double rate)
{
	struct clock_model first = model(), second = model();
	struct edges all = { 0 };
	struct window_edges a, b, none = { 0 };
	uint64_t before, after;

	first.bound_ns = second.bound_ns = 4000;
	first.bound_rate = second.bound_rate = 0;
	first.rate = second.rate = rate;
	first.at_raw_ns = second.at_raw_ns = RAW + NS_PER_S;
	second.offset_ns += moved_ns;
	CHECK(count_instants(&first, T0, none) + count_instants(&second, T0 + NS_PER_S, none) !=
	      200);
	a = edges_place(&all, &first, T0, T0 + NS_PER_S);
	b = edges_place(&all, &second, T0 + NS_PER_S, T0 + 2 * NS_PER_S);
	CHECK_EQ(a.to.raw_ns, b.from.raw_ns);
	before = count_instants(&first, T0, a);
	after = count_instants(&second, T0 + NS_PER_S, b);
	CHECK_EQ(before, 100);
	CHECK_EQ(after, 100);
	CHECK_EQ(assemble_bound_ns(&second, T0 + NS_PER_S, T0 + 2 * NS_PER_S, &b, false),
		 assemble_bound_ns(&second, T0 + NS_PER_S, T0 + 2 * NS_PER_S, &none, false) +
			 llabs(moved_ns));
}

int main(void)
{
	test_curve_bends_at_the_models_knots();
	test_one_timeline();
	test_window();
	test_wild_times();
	test_failures();
	test_part_file_vanished();
	test_drifting_clock();
	test_line_from_long_before();
	test_asleep_at_an_edge();
	test_bound_has_the_wall_clocks_error();
	test_further_files();
	test_plane_too_large();
	test_part_beyond_limits();
	test_part_without_space();
	test_nothing();
	/* lines as wholes; then a clock that is 50 us slow after a second, whose events are moved one by one */
	for (int i = 0; i <= 1; i++) {
		test_windows_meet(5000, i * 50e-6);
		test_windows_meet(-5000, i * 50e-6);
	}
	return 0;
}
