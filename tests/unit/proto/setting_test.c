/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/setting.h"

#include "proto/control_check.h"
#include "proto/limits.h"
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

static void texts_have_a_length(void)
{
	static const struct setting s = { "name", SETTING_TEXT, 0, 4, 0, "which" };

	check_value(&s, "", 0);
	check_value(&s, "1 /b", 4);
	check_refused(&s, "abcde", "'abcde' has 5 bytes: use 0 to 4");
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
	CHECK(setting_kind_parse("text", &kind) && kind == SETTING_TEXT);
	CHECK(!setting_kind_parse("float", &kind));
	CHECK_STR(setting_kind_name(SETTING_INT), "int");
}

/* ---- what an agent lists in Hello ---- */

static int unpack_hello(const Tutti__V1__TracerSetting *setting, size_t n, struct err *e)
{
	static Tutti__V1__TracerSetting copies[LIMIT_TRACER_SETTINGS + 1];
	Tutti__V1__TracerSetting *pointers[LIMIT_TRACER_SETTINGS + 1];
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT, *out;
	Tutti__V1__Hello hello = TUTTI__V1__HELLO__INIT;
	static uint8_t bytes[1 << 16];
	size_t len;
	int rc;

	for (size_t i = 0; i < n; i++) {
		copies[i] = *setting;
		pointers[i] = &copies[i];
	}
	hello.host = (char *)"host-a";
	hello.n_settings = n;
	hello.settings = pointers;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_HELLO;
	m.hello = &hello;
	CHECK(tutti__v1__agent_message__get_packed_size(&m) <= sizeof(bytes));
	len = tutti__v1__agent_message__pack(&m, bytes);
	rc = control_unpack_from_agent(&out, bytes, len, e);
	if (!rc)
		tutti__v1__agent_message__free_unpacked(out, NULL);
	return rc;
}

static Tutti__V1__TracerSetting good_setting(void)
{
	Tutti__V1__TracerSetting s = TUTTI__V1__TRACER_SETTING__INIT;

	s.tracer = (char *)"cpu";
	s.name = (char *)"max_depth";
	s.type = (char *)"int";
	s.min = 1;
	s.max = s.value = 256;
	s.help = (char *)"frames of each stack";
	return s;
}

static void lists_of_agents_are_checked(void)
{
	char long_help[LIMIT_LABEL_BYTES + 2];
	struct err e;
	const struct {
		const char *tracer, *name, *type, *help;
		int64_t min, max, value;
	} bad[] = {
		{ "", "n", "int", "h", 0, 1, 0 },
		{ "a.b", "n", "int", "h", 0, 1, 0 },
		{ "cpu", "", "int", "h", 0, 1, 0 },
		{ "cpu", "n", "int", "", 0, 1, 0 },
		{ "cpu", "n\n", "int", "h", 0, 1, 0 },
		{ "cpu", "n", "float", "h", 0, 1, 0 },
		{ "cpu", "n", "int", "h", 2, 1, 1 },
		{ "cpu", "n", "int", "h", 0, 1, 2 },
		{ "cpu", "n", "int", "\033[2J", 0, 1, 0 },
		{ "cpu", "n", "int", long_help, 0, 1, 0 },
	};
	Tutti__V1__TracerSetting s = good_setting();

	memset(long_help, 'x', sizeof(long_help) - 1);
	long_help[sizeof(long_help) - 1] = '\0';
	CHECK_OK(unpack_hello(&s, LIMIT_TRACER_SETTINGS, &e), e);
	CHECK_EQ(unpack_hello(&s, LIMIT_TRACER_SETTINGS + 1, &e), ERR_INVALID);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		s.tracer = (char *)bad[i].tracer;
		s.name = (char *)bad[i].name;
		s.type = (char *)bad[i].type;
		s.help = (char *)bad[i].help;
		s.min = bad[i].min;
		s.max = bad[i].max;
		s.value = bad[i].value;
		CHECK_EQ(unpack_hello(&s, 1, &e), ERR_INVALID);
		CHECK(strstr(e.msg, "settings."));
	}
}

int main(void)
{
	numbers_are_in_their_range();
	bools_are_words_or_digits();
	texts_have_a_length();
	keys_have_a_tracer();
	kinds_have_names();
	lists_of_agents_are_checked();
	return 0;
}
