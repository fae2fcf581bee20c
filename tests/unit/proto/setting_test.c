/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/setting.h"

#include "tests/lib/check.h"

static void check_value(const struct setting *s, const char *text, int64_t expected)
{
	struct err e;
	int64_t v;

	CHECK_OK(setting_parse(s, text, &v, &e), e);
	CHECK_EQ(v, expected);
}

static void check_refused(const struct setting *s, const char *text, const char *words)
{
	struct err e;
	int64_t v;

	CHECK_EQ(setting_parse(s, text, &v, &e), ERR_INVALID);
	CHECK(strstr(e.msg, words));
}

static void numbers_are_in_their_range(void)
{
	static const struct setting s = { "level", SETTING_INT, -5, 16, 0, "how much" };
	static const struct setting any = { "any", SETTING_INT, INT64_MIN, INT64_MAX, 0, "any" };
	static const char *const bad[] = {
		"", "-", "-6", "17", "3x", " 3", "+3", "0x3", "3 ", "--3"
	};

	check_value(&s, "16", 16);
	check_value(&s, "-5", -5);
	check_value(&s, "007", 7);
	check_value(&any, "-9223372036854775808", INT64_MIN);
	check_refused(&any, "9223372036854775808", "'9223372036854775808'");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check_refused(&s, bad[i], "use a number from -5 to 16");
}

static void bools_are_words_or_digits(void)
{
	static const struct setting s = { "on", SETTING_BOOL, 0, 1, 1, "whether" };

	check_value(&s, "true", 1);
	check_value(&s, "1", 1);
	check_value(&s, "false", 0);
	check_value(&s, "0", 0);
	check_refused(&s, "yes", "'yes': use true or false");
	check_refused(&s, "2", "true or false");
}

static void keys_have_a_tracer(void)
{
	CHECK_STR(setting_of_tracer("cpu.max_depth", "cpu"), "max_depth");
	CHECK_STR(setting_of_tracer("cpu.a.b", "cpu"), "a.b");
	CHECK(!setting_of_tracer("cpux.max_depth", "cpu"));
	CHECK(!setting_of_tracer("cpu", "cpu"));
	CHECK(setting_is_of_tracer("cpu.max_depth"));
	CHECK(setting_is_of_tracer("advance.x"));
	CHECK(!setting_is_of_tracer("advanced.x"));
	CHECK(!setting_is_of_tracer("host_tracer_level"));
}

static void kinds_have_names(void)
{
	enum setting_kind kind = SETTING_BOOL;

	CHECK(setting_kind_parse("int", &kind) && kind == SETTING_INT);
	CHECK(setting_kind_parse("bool", &kind) && kind == SETTING_BOOL);
	CHECK(!setting_kind_parse("text", &kind));
	CHECK_STR(setting_kind_name(SETTING_INT), "int");
}

int main(void)
{
	numbers_are_in_their_range();
	bools_are_words_or_digits();
	keys_have_a_tracer();
	kinds_have_names();
	return 0;
}
