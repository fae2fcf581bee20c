/* SPDX-License-Identifier: Apache-2.0 */
/* What lines say of their severity and time, as glog, Python, Go, JSON loggers and others write them. */
#include "base/mem.h"
#include "logs/log_line.h"
#include "tests/lib/check.h"

#define S INT64_C(1000000000)

/* 2026-11-22T12:25:36Z */
#define AT (INT64_C(1795350336) * S)

/* The same as a time of day. */
#define NOON ((12 * 3600 + 25 * 60 + 36) * S)

static void check_lines(void)
{
	static const struct {
		const char *line;
		enum severity severity;
		enum log_clock clock;
		int64_t ns;
		const char *text; /* NULL = the line */
	} rows[] = {
		{ "I1122 12:25:36.123456 4711 a.cc:1] up", SEVERITY_INFO, LOG_CLOCK_OF_DAY,
		  NOON + 123456000, NULL },
		{ "W20261122 12:25:36.123456 4711 a.cc:1] x", SEVERITY_WARNING, LOG_CLOCK_OF_DAY,
		  NOON + 123456000, NULL },
		{ "F0000 00:00:1795350336.5 4711 a.cc:1] x", SEVERITY_CRITICAL, LOG_CLOCK_NONE, 0,
		  NULL }, /* a tenth is too coarse */
		{ "E0000 00:00:1795350336.123456 7 a.cc:1] x", SEVERITY_ERROR, LOG_CLOCK_UNIX,
		  AT + 123456000, NULL },
		{ "I11 is a number", SEVERITY_DEFAULT, LOG_CLOCK_NONE, 0, NULL },
		{ "2026-11-22 12:25:36,123 - root - ERROR - no", SEVERITY_ERROR, LOG_CLOCK_LOCAL,
		  AT + 123000000, NULL },
		{ "[2026-11-22 12:25:36,123] INFO up", SEVERITY_INFO, LOG_CLOCK_LOCAL,
		  AT + 123000000, NULL },
		{ "2026-11-22T13:25:36.5001+01:00 x", SEVERITY_DEFAULT, LOG_CLOCK_UNIX,
		  AT + 500100000, NULL },
		{ "2026-11-22T12:25:36Z coarse", SEVERITY_DEFAULT, LOG_CLOCK_NONE, 0, NULL },
		{ "2026/11/22 12:25:36.123456 go", SEVERITY_DEFAULT, LOG_CLOCK_LOCAL,
		  AT + 123456000, NULL },
		{ "2026-13-22T12:25:36.123Z no month", SEVERITY_DEFAULT, LOG_CLOCK_NONE, 0, NULL },
		{ "WARNING:root:hot", SEVERITY_WARNING, LOG_CLOCK_NONE, 0, NULL },
		{ "[error] nginx", SEVERITY_ERROR, LOG_CLOCK_NONE, 0, NULL },
		{ "ts=1 level=warn msg=x", SEVERITY_WARNING, LOG_CLOCK_NONE, 0, NULL },
		{ "ts=1 level=\"err\" msg=x", SEVERITY_ERROR, LOG_CLOCK_NONE, 0, NULL },
		{ "error: no such file", SEVERITY_ERROR, LOG_CLOCK_NONE, 0, NULL },
		{ "there was no error in it", SEVERITY_DEFAULT, LOG_CLOCK_NONE, 0, NULL },
		{ "there was no error: all is well", SEVERITY_DEFAULT, LOG_CLOCK_NONE, 0, NULL },
		{ "INFORMAL words", SEVERITY_DEFAULT, LOG_CLOCK_NONE, 0, NULL },
		{ "Traceback (most recent call last):", SEVERITY_ERROR, LOG_CLOCK_NONE, 0, NULL },
		{ "\x1b[31mERROR\x1b[0m red", SEVERITY_ERROR, LOG_CLOCK_NONE, 0, "ERROR red" },
		{ "bell\x07 and \xff byte \x1b", SEVERITY_DEFAULT, LOG_CLOCK_NONE, 0,
		  "bell  and ? byte" },
		{ "{\"severity\":\"ERROR\",\"message\":\"bad\",\"timestamp\":\"2026-11-22T12:25:36."
		  "250Z\"}",
		  SEVERITY_ERROR, LOG_CLOCK_UNIX, AT + 250000000, "bad" },
		{ "{\"level\":\"warn\",\"msg\":\"zap\",\"ts\":1795350336.25}", SEVERITY_WARNING,
		  LOG_CLOCK_UNIX, AT + 250000000, "zap" },
		{ "{\"level\":30,\"msg\":\"a number\",\"time\":1795350336250}", SEVERITY_DEFAULT,
		  LOG_CLOCK_UNIX, AT + 250000000, "a number" },
		{ "{\"no\":\"message\"}", SEVERITY_DEFAULT, LOG_CLOCK_NONE, 0, NULL },
		{ "{not JSON, with an ERROR", SEVERITY_ERROR, LOG_CLOCK_NONE, 0, NULL },
		{ "", SEVERITY_DEFAULT, LOG_CLOCK_NONE, 0, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct log_line line;

		log_line_read(rows[i].line, strlen(rows[i].line), &line);
		CHECK_STR(line.text, rows[i].text ? rows[i].text : rows[i].line);
		CHECK_STR(severity_name(line.severity), severity_name(rows[i].severity));
		CHECK_EQ(line.time.clock, rows[i].clock);
		if (line.time.clock)
			CHECK_EQ(line.time.ns, rows[i].ns);
	}
}

/* A local time without a zone: the nearest, wherever the program runs. */
static void check_zones(void)
{
	struct log_time t;

	CHECK_EQ(log_time_parse("2026-11-22 18:10:35,900 x", 25, &t), 23); /* 5:45 ahead */
	CHECK_EQ(log_time_unix(&t, AT), AT - S / 10);
	CHECK_EQ(log_time_parse("2026-11-21 23:25:36,100", 23, &t), 23); /* 13 h behind */
	CHECK_EQ(log_time_unix(&t, AT), AT + S / 10);
	CHECK_EQ(log_time_parse("2019-11-22 12:25:36,100", 23, &t), 23);
	CHECK(log_time_unix(&t, AT) < AT - 1000 * S); /* no time of now */
	CHECK_EQ(log_time_parse_of_day("12:29:59.900", 12, &t), 12);
	CHECK_EQ(log_time_unix(&t, AT + 264 * S), AT + 264 * S - S / 10); /* at 12:30:00 */
	CHECK_EQ(log_time_parse_of_day("12:30:00.100", 12, &t), 12);
	CHECK_EQ(log_time_unix(&t, AT + 263 * S), AT + 264 * S + S / 10); /* at 12:29:59 */
	CHECK_EQ(log_time_parse_of_day("23:59:59.900", 12, &t), 12);
	CHECK_EQ(log_time_unix(&t, AT - NOON), AT - NOON - S / 10); /* at midnight */
}

static void check_bounds(void)
{
	char big[3 * LOG_TEXT_BYTES];
	struct log_line line;

	memset(big, 'x', sizeof(big));
	log_line_read(big, sizeof(big), &line);
	CHECK_EQ(strlen(line.text), LOG_TEXT_BYTES - 1);
	memset(big, '\0', sizeof(big));
	log_line_read(big, sizeof(big), &line);
	log_line_read("err\0xyz:", 8, &line);
	CHECK_STR(line.text, "err xyz:");
}

static void check_priorities(void)
{
	CHECK_EQ(severity_of_priority(0), SEVERITY_EMERGENCY);
	CHECK_EQ(severity_of_priority(3), SEVERITY_ERROR);
	CHECK_EQ(severity_of_priority(7), SEVERITY_DEBUG);
	CHECK_EQ(severity_of_priority(8), SEVERITY_DEFAULT);
	CHECK_EQ(severity_of_priority(-1), SEVERITY_DEFAULT);
	CHECK_EQ(severity_of_word("err\0xyz", 7), SEVERITY_DEFAULT);
}

int main(void)
{
	check_lines();
	check_zones();
	check_bounds();
	check_priorities();
	return 0;
}
