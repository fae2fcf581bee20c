/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/log_json.h"

#include <stdbool.h>
#include <unistd.h>

#include "tests/lib/check.h"

static int real_stderr;
static FILE *caught;

static void catch_begin(void)
{
	caught = tmpfile();
	CHECK(caught);
	real_stderr = dup(STDERR_FILENO);
	dup2(fileno(caught), STDERR_FILENO);
}

/* What was written to stderr since, up to `size` bytes. */
static void catch_end(char *out, size_t size)
{
	size_t n;

	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	rewind(caught);
	n = fread(out, 1, size - 1, caught);
	out[n] = '\0';
	fclose(caught);
}

/* "2026-11-21T10:03:59.123Z " */
static bool has_stamp(const char *line)
{
	static const char shape[] = "dddd-dd-ddTdd:dd:dd.dddZ ";

	for (size_t i = 0; shape[i]; i++) {
		bool digit = line[i] >= '0' && line[i] <= '9';

		if (shape[i] == 'd' ? !digit : line[i] != shape[i])
			return false;
	}
	return true;
}

static void test_line(void)
{
	char text[4096];

	catch_begin();
	log_warn("TEST-ID", "peer=%s n=%d", "10.0.0.7", 3);
	catch_end(text, sizeof(text));
	CHECK(has_stamp(text));
	CHECK_STR(text + 25, "W TEST-ID peer=10.0.0.7 n=3\n");
}

/* Text from outside cannot make a second line, nor speak to the terminal. */
static void test_hostile_text(void)
{
	char text[4096];

	catch_begin();
	log_error("TEST-BAD", "reason=\"%s\"", "a\nE FAKE-ID x\r\x1b[31m\x7f%n");
	catch_end(text, sizeof(text));
	CHECK_STR(text + 25, "E TEST-BAD reason=\"a E FAKE-ID x  [31m %n\"\n");
}

static void test_json(void)
{
	static const struct {
		const char *text, *fields;
	} cases[] = {
		{ "peer=10.0.0.7 n=3", "\"peer\":\"10.0.0.7\",\"n\":\"3\"" },
		{ "reason=\"a \"b\" c\" n=1", "\"reason\":\"a \\\"b\\\" c\",\"n\":\"1\"" },
		{ "reason=\"no end", "\"reason\":\"no end\"" },
		{ "path=a\\b empty= q=\"\"", "\"path\":\"a\\\\b\",\"empty\":\"\",\"q\":\"\"" },
		{ "n=1 and a sentence", "\"n\":\"1\",\"text\":\"and a sentence\"" },
		{ "", "" },
	};
	char out[400], expected[400], small[80];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t len = log_json(out, sizeof(out), "T", "info", "ID", cases[i].text);

		snprintf(expected, sizeof(expected),
			 "{\"time\":\"T\",\"level\":\"info\",\"id\":\"ID\",\"fields\":{%s}}",
			 cases[i].fields);
		CHECK_STR(out, expected);
		CHECK_EQ(len, strlen(expected));
	}
	/* What has no room is left out as a whole. */
	log_json(small, sizeof(small), "T", "info", "ID",
		 "n=1 long=0123456789012345678901234567890");
	CHECK_STR(small,
		  "{\"time\":\"T\",\"level\":\"info\",\"id\":\"ID\",\"fields\":{\"n\":\"1\"}}");
}

static void test_long_line(void)
{
	char text[4096], words[3000];

	memset(words, 'x', sizeof(words) - 1);
	words[sizeof(words) - 1] = '\0';
	catch_begin();
	log_info("TEST-LONG", "%s", words);
	log_info("TEST-NEXT", "%s", "");
	catch_end(text, sizeof(text));
	CHECK(strchr(text, '\n') - text <= 1024);
	CHECK(strstr(text, "x\n2"));
	CHECK(strstr(text, "I TEST-NEXT \n"));
}

static void test_levels(void)
{
	enum log_level level;
	struct err e;
	char text[4096];

	catch_begin();
	log_debug("TEST-DEBUG", "no");
	CHECK(!log_level_parse("debug", &level, &e));
	log_set_level(level);
	log_debug("TEST-DEBUG", "yes");
	log_set_level(LOG_ERROR);
	log_warn("TEST-WARN", "no");
	log_set_level(LOG_INFO);
	catch_end(text, sizeof(text));
	CHECK_STR(text + 25, "D TEST-DEBUG yes\n");
	CHECK_EQ(log_level_parse("loud", &level, &e), ERR_INVALID);
	CHECK(strstr(e.msg, "'loud'"));
}

int main(void)
{
	test_line();
	test_hostile_text();
	test_json();
	test_long_line();
	test_levels();
	return 0;
}
