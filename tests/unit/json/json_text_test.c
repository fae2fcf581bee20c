/* SPDX-License-Identifier: Apache-2.0 */
#include "json/json_text.h"

#include "base/buf.h"
#include "tests/lib/check.h"

static void check_text(const char *in, const char *expected)
{
	json_t *s = json_text(in);

	CHECK_STR(json_string_value(s), expected);
	json_decref(s);
}

static void test_text(void)
{
	check_text(NULL, "");
	check_text("", "");
	check_text("plain", "plain");
	check_text("stra\xc3\x9f"
		   "e",
		   "stra\xc3\x9f"
		   "e");
	check_text("stra\xdf"
		   "e \xc3\x9f",
		   "stra?e ??");
}

static void test_members(void)
{
	json_t *o = json_object();
	struct buf text = BUF_INIT;

	json_put_text(o, "text", "a \xff");
	json_put_int(o, "int", INT64_MIN);
	json_put_bool(o, "yes", true);
	json_put(o, "list", json_array());
	CHECK_STR(json_get_text(o, "text"), "a ?");
	CHECK_EQ(json_get_int(o, "int"), INT64_MIN);
	CHECK(json_get_bool(o, "yes"));
	CHECK_STR(json_get_text(o, "int"), "");
	CHECK_STR(json_get_text(NULL, "text"), "");
	CHECK_EQ(json_get_int(o, "text"), 0);
	CHECK_EQ(json_get_int(o, "none"), 0);
	CHECK(!json_get_bool(o, "int") && !json_get_bool(o, "none"));
	buf_add_str(&text, "x");
	json_append(&text, json_object_get(o, "list"), JSON_ENCODE_ANY);
	json_write(&text, o, JSON_EMBED);
	CHECK_STR(buf_str(&text),
		  "x[]\"text\":\"a ?\",\"int\":-9223372036854775808,\"yes\":true,\"list\":[]");
	buf_release(&text);
}

static void check_refused(const char *text, size_t len)
{
	struct err e = { 0 };
	json_t *doc = (json_t *)&e;

	CHECK_EQ(json_parse(&doc, text, len, &e), ERR_INVALID);
	CHECK(!doc && !strncmp(e.msg, "no JSON: line 1: ", strlen("no JSON: line 1: ")));
	CHECK_EQ(json_parse(&doc, text, len, NULL), ERR_INVALID);
}

static void test_parse(void)
{
	static const char text[] = "{\"a\": [1, 2]}, and more";
	struct err e;
	json_t *doc;

	CHECK_OK(json_parse(&doc, text, strlen("{\"a\": [1, 2]}"), &e), e);
	CHECK_EQ(json_array_size(json_object_get(doc, "a")), 2);
	json_decref(doc);
	check_refused(text, strlen(text));
	check_refused(text, 5);
	check_refused("", 0);
	check_refused("{\"a\": 1, \"a\": 2}", 16);
	check_refused("\"\xff\"", 3);
}

/* Nothing in it controls a terminal any more; the document itself stays. */
static void test_clean(void)
{
	static const char text[] = "{\"a\\u001b[2J\": [\"\\u009bx\", 7, null, {\"b\": \"c\\n\"}]}";
	struct buf out = BUF_INIT;
	struct err e = { 0 };
	json_t *doc;

	CHECK_OK(json_parse(&doc, text, strlen(text), &e), e);
	json_write(&out, json_clean(doc), 0);
	CHECK_STR(buf_str(&out), "{\"a [2J\":[\" x\",7,null,{\"b\":\"c \"}]}");
	CHECK(json_object_get(doc, "a\x1b[2J"));
	json_decref(doc);
	buf_release(&out);
}

int main(void)
{
	test_clean();
	test_text();
	test_members();
	test_parse();
	return 0;
}
