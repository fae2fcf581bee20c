/* SPDX-License-Identifier: Apache-2.0 */
/* What container runtimes and the journal write around lines, where lines come from, and which time they get. */
#include "agent/tracer/logs/journal_entry.h"
#include "agent/tracer/logs/origin.h"
#include "agent/tracer/logs/reading.h"
#include "agent/tracer/logs/runtime.h"
#include "agent/tracer/logs/split.h"
#include "base/mem.h"
#include "tests/lib/check.h"

#define S  NS_PER_S
#define AT (INT64_C(1795350336) * S) /* 2026-11-22T12:25:36Z */

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* ---- origin ---- */

static void check_origins(void)
{
	static const struct {
		const char *path, *kind, *name, *namespace, *pod, *container;
	} rows[] = {
		{ "/var/log/pods/ml_train-0_1a2b-3c/main/0.log", "container", "train-0/main", "ml",
		  "train-0", "main" },
		{ "/var/log/containers/train-0_ml_main-x-" ID ".log", "container", "train-0/main-x",
		  "ml", "train-0", "main-x" },
		{ "/var/lib/docker/containers/" ID "/" ID "-json.log", "container", "0123456789ab",
		  "", "", "0123456789ab" },
		{ "/var/log/pods/half", "file", "/var/log/pods/half", "", "", "" },
		{ "/var/log/containers/a_b_c.log", "file", "/var/log/containers/a_b_c.log", "", "",
		  "" },
		{ "/a/\x1b[1m\xff.log", "file", "/a/ [1m?.log", "", "", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct log_origin origin;

		origin_of_path(rows[i].path, &origin);
		CHECK_STR(origin.kind, rows[i].kind);
		CHECK_STR(origin.name, rows[i].name);
		CHECK_STR(origin.namespace, rows[i].namespace);
		CHECK_STR(origin.pod, rows[i].pod);
		CHECK_STR(origin.container, rows[i].container);
	}
}

/* ---- runtimes ---- */

struct seen {
	char text[256]; /* "TEXT|TEXT|" */
	int64_t time_ns; /* the runtime's, of the last */
	enum severity severity;
};

static void on_line(void *arg, const struct log_line *line, const struct log_time *time)
{
	struct seen *seen = arg;
	size_t at = strlen(seen->text);

	snprintf(seen->text + at, sizeof(seen->text) - at, "%s|", line->text);
	seen->time_ns = time->clock ? time->ns : 0;
	seen->severity = line->severity;
}

static void add_line(struct runtime *r, struct seen *seen, const char *line)
{
	runtime_add(r, line, strlen(line), on_line, seen);
}

static void check_runtimes(void)
{
	struct runtime r = { 0 };
	struct seen seen = { 0 };

	add_line(&r, &seen, "2026-11-22T12:25:36.000000001Z stdout F WARNING: hot");
	CHECK_STR(seen.text, "WARNING: hot|");
	CHECK_EQ(seen.time_ns, AT + 1);
	CHECK_EQ(seen.severity, SEVERITY_WARNING);
	*seen.text = '\0';
	add_line(&r, &seen, "2026-11-22T12:25:36.2Z stderr P one ");
	add_line(&r, &seen, "2026-11-22T12:25:36.3Z stderr P two ");
	CHECK_STR(seen.text, "");
	add_line(&r, &seen, "2026-11-22T12:25:36.4Z stderr F three");
	CHECK_STR(seen.text, "one two three|");
	CHECK_EQ(seen.time_ns, AT + S / 5);
	*seen.text = '\0';
	add_line(&r, &seen,
		 "{\"log\":\"a\",\"stream\":\"stdout\",\"time\":\"2026-11-22T12:25:36.5Z\"}");
	CHECK_STR(seen.text, "");
	add_line(&r, &seen,
		 "{\"log\":\"b\\n\",\"stream\":\"stdout\",\"time\":\"2026-11-22T12:25:37Z\"}");
	CHECK_STR(seen.text, "ab|");
	CHECK_EQ(seen.time_ns, AT + S / 2);
	*seen.text = '\0';
	add_line(&r, &seen, "2026-11-22T12:25:36.4Z stdin F no runtime's");
	add_line(&r, &seen, "2026-11-22T12:25:36.4Z stdout X");
	add_line(&r, &seen, "{\"log\":1}");
	CHECK_STR(seen.text, "2026-11-22T12:25:36.4Z stdin F no runtime's|"
			     "2026-11-22T12:25:36.4Z stdout X|{\"log\":1}|");
	CHECK_EQ(seen.time_ns, 0);
	for (int i = 0; i < 100; i++) { /* parts without an end */
		char part[2000];

		snprintf(part, sizeof(part), "2026-11-22T12:25:36.4Z stdout P %01900d", 0);
		add_line(&r, &seen, part);
	}
	CHECK_EQ(r.joined.len, LOG_LINE_BYTES);
	runtime_release(&r);
}

/* ---- lines ---- */

static void on_split(void *arg, const char *line, size_t len)
{
	struct seen *seen = arg;
	size_t at = strlen(seen->text);

	snprintf(seen->text + at, sizeof(seen->text) - at, "%.*s|", (int)(len < 40 ? len : 40),
		 line);
	seen->time_ns = (int64_t)len;
}

static void check_split(void)
{
	static const char text[] = "one\n\ntwo\r\n  3%\r  4%\rlast";
	char big[1000];
	struct seen seen;

	for (size_t step = 1; step < sizeof(text); step++) {
		struct split s = { 0 };

		seen = (struct seen){ 0 };
		for (size_t at = 0; at < sizeof(text) - 1; at += step)
			split_add(&s, text + at,
				  sizeof(text) - 1 - at < step ? sizeof(text) - 1 - at : step,
				  on_split, &seen);
		CHECK_STR(seen.text, "one|two|  3%|  4%|");
		split_flush(&s, on_split, &seen);
		CHECK_STR(seen.text, "one|two|  3%|  4%|last|");
		split_release(&s);
	}
	{
		struct split s = { .skips = true };

		seen = (struct seen){ 0 };
		memset(big, 'x', sizeof(big));
		split_add(&s, "rest of a line\nnext\n", 20, on_split, &seen);
		CHECK_STR(seen.text, "next|");
		for (int i = 0; i < 100; i++)
			split_add(&s, big, sizeof(big), on_split, &seen);
		split_add(&s, "\nafter\n", 1, on_split, &seen);
		CHECK_EQ(seen.time_ns, LOG_LINE_BYTES);
		split_release(&s);
	}
}

/* ---- the journal ---- */

static void check_journal(void)
{
	static const char whole[] =
		"{\"MESSAGE\":\"Started x\",\"PRIORITY\":\"3\",\"_SYSTEMD_UNIT\":\"x.service\","
		"\"SYSLOG_IDENTIFIER\":\"y\",\"__MONOTONIC_TIMESTAMP\":\"5000000\","
		"\"__REALTIME_TIMESTAMP\":\"1795350336000500\","
		"\"_SOURCE_REALTIME_TIMESTAMP\":\"1795350336000000\"}";
	static const char kernel[] = "{\"MESSAGE\":[72,105,255],\"_TRANSPORT\":\"kernel\","
				     "\"__MONOTONIC_TIMESTAMP\":\"99999999999999999999\"}";
	struct journal_entry entry;

	CHECK(journal_entry_read(whole, strlen(whole), &entry));
	CHECK_STR(entry.origin.name, "x.service");
	CHECK_STR(entry.line.text, "Started x");
	CHECK_EQ(entry.line.severity, SEVERITY_ERROR);
	CHECK_EQ(entry.time.clock, LOG_CLOCK_MONO);
	CHECK_EQ(entry.time.ns, 5 * S - 500 * NS_PER_US);
	CHECK(journal_entry_read(kernel, strlen(kernel), &entry));
	CHECK_STR(entry.origin.name, "kernel");
	CHECK_STR(entry.line.text, "Hi?");
	CHECK_EQ(entry.time.clock, LOG_CLOCK_NONE);
	CHECK(journal_entry_read("{\"MESSAGE\":null}", 16, &entry));
	CHECK(strstr(entry.line.text, "more than 4096"));
	CHECK(!journal_entry_read("{\"MESSAGE\"", 10, &entry));
	CHECK(!journal_entry_read("{\"PRIORITY\":\"3\"}", 16, &entry));
	CHECK(!journal_entry_read("[]", 2, &entry));
}

/* ---- times ---- */

struct placed {
	int64_t raw_ns;
	enum log_stamp stamp;
	char text[32];
};

static void on_row(void *arg, int64_t raw_ns, const void *data, size_t len)
{
	struct placed *p = arg;
	struct log_record record = record_unpack(data);

	(void)len;
	p->raw_ns = raw_ns;
	p->stamp = record.stamp;
	snprintf(p->text, sizeof(p->text), "%s", record.text);
}

static struct placed place(struct reading *r, enum log_clock text, int64_t text_ns,
			   enum log_clock source, int64_t source_ns)
{
	struct log_origin origin = { .kind = "file", .name = "f" };
	struct log_line line = { .text = "a line", .time = { text, text_ns, 6 } };
	struct log_time time = { source, source_ns, 6 };
	struct placed p = { 0 };

	buf_reset(&r->rows);
	reading_add(r, &origin, &line, &time, STAMP_RUNTIME);
	record_row_each(&r->rows, on_row, &p);
	return p;
}

static void check_place(struct placed p, int64_t raw_ns, enum log_stamp stamp)
{
	CHECK_EQ(p.raw_ns, raw_ns);
	CHECK_STR(stamp_name(p.stamp), stamp_name(stamp));
	CHECK_STR(p.text, "a line");
}

static void check_times(void)
{
	struct reading r = { .pair = { .raw_ns = 1000 * S, .real_ns = AT },
			     .mono_ns = 500 * S,
			     .lines_left = 100 };

	check_place(place(&r, LOG_CLOCK_UNIX, AT - S, LOG_CLOCK_UNIX, AT), 999 * S, STAMP_TEXT);
	check_place(place(&r, LOG_CLOCK_OF_DAY, 635 * S, LOG_CLOCK_NONE, 0), 999 * S, STAMP_TEXT);
	check_place(place(&r, LOG_CLOCK_NONE, 0, LOG_CLOCK_UNIX, AT - 2 * S), 998 * S,
		    STAMP_RUNTIME);
	check_place(place(&r, LOG_CLOCK_NONE, 0, LOG_CLOCK_MONO, 497 * S), 997 * S, STAMP_RUNTIME);
	check_place(place(&r, LOG_CLOCK_NONE, 0, LOG_CLOCK_NONE, 0), 1000 * S, STAMP_READ);
	/* Not the line's time: too far behind, or ahead. */
	check_place(place(&r, LOG_CLOCK_UNIX, AT - 61 * S, LOG_CLOCK_UNIX, AT), 1000 * S,
		    STAMP_RUNTIME);
	check_place(place(&r, LOG_CLOCK_UNIX, AT + 2 * S, LOG_CLOCK_NONE, 0), 1000 * S, STAMP_READ);
	/* The wall clock was set: only CLOCK_MONOTONIC says when it was. */
	r.stepped = true;
	check_place(place(&r, LOG_CLOCK_UNIX, AT - S, LOG_CLOCK_MONO, 499 * S), 999 * S,
		    STAMP_RUNTIME);
	check_place(place(&r, LOG_CLOCK_UNIX, AT - S, LOG_CLOCK_UNIX, AT), 1000 * S, STAMP_READ);
	r.lines_left = 0;
	r.lost = 0;
	CHECK_STR(place(&r, LOG_CLOCK_NONE, 0, LOG_CLOCK_NONE, 0).text, "");
	CHECK_EQ(r.lost, 1);
	reading_release(&r);
}

int main(void)
{
	check_origins();
	check_runtimes();
	check_split();
	check_journal();
	check_times();
	return 0;
}
