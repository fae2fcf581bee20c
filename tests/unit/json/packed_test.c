/* SPDX-License-Identifier: Apache-2.0 */
#include "json/packed.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "tests/lib/check.h"

static json_t *host(const char *name)
{
	return json_pack("{s:s, s:{s:i}}", "host", name, "clock", "bound_ns", 7);
}

/* As a stored document has them: "hosts" of the document, and of the document of its end. */
static json_t *document(void (*append)(json_t *array, json_t *object))
{
	json_t *hosts = json_array(), *results = json_array();
	json_t *o = json_pack("{s:s, s:o, s:o, s:{s:s, s:{s:i, s:o}}}", "a\"b", "c\n", "hosts",
			      hosts, "none", json_array(), "end", "state", "committed", "document",
			      "n", 2, "hosts", results);

	append(hosts, host("a"));
	append(hosts, host("b \"c\" \\"));
	append(results, host("\xc3\xa4"));
	return o;
}

static void append_plain(json_t *array, json_t *object)
{
	json_array_append_new(array, object);
}

static void check_text(const json_t *doc, const json_t *plain)
{
	struct buf text = BUF_INIT, want = BUF_INIT;

	packed_write(&text, doc);
	json_append(&want, plain, 0);
	CHECK_STR(buf_str(&text), buf_str(&want));
	buf_release(&text);
	buf_release(&want);
}

static void test_write(void)
{
	json_t *plain = document(append_plain), *packed = document(packed_append);

	CHECK(json_is_string(json_array_get(json_object_get(packed, "hosts"), 0)));
	check_text(packed, plain);
	check_text(plain, plain);
	json_decref(plain);
	json_decref(packed);
}

/* The same code reads and changes both kinds. */
static void test_change(void (*append)(json_t *array, json_t *object))
{
	json_t *doc = document(append), *hosts = json_object_get(doc, "hosts"), *h, *again;

	h = packed_get(hosts, 1);
	CHECK_STR(json_get_text(h, "host"), "b \"c\" \\");
	json_put_int(h, "steps", 5);
	packed_set(hosts, 1, h);
	again = packed_get(hosts, 1);
	CHECK_EQ(json_get_int(again, "steps"), 5);
	json_decref(again);
	CHECK_EQ(json_array_size(hosts), 2);
	json_decref(doc);
}

/* By the objects, since white space is packed as it is. */
static void check_same(const json_t *packed, const json_t *plain)
{
	struct buf text = BUF_INIT;
	json_t *again;
	struct err e = { 0 };

	packed_write(&text, packed);
	CHECK_OK(json_parse(&again, text.data, text.len, &e), e);
	CHECK(json_equal(again, plain));
	json_decref(again);
	buf_release(&text);
}

static json_t *read_text(const char *text)
{
	return packed_read(text, strlen(text));
}

/* What is read is what was written, with these arrays packed, and only these. */
static void test_read(void)
{
	json_t *plain = document(append_plain), *doc, *deep;
	struct buf text = BUF_INIT;

	json_append(&text, plain, JSON_INDENT(2));
	buf_add_str(&text, " \r\n\t");
	doc = packed_read(text.data, text.len);
	CHECK(doc);
	CHECK(packed_text(json_object_get(doc, "hosts"), 1));
	CHECK(!packed_text(json_object_get(plain, "hosts"), 1));
	CHECK_EQ(json_get_int(json_object_get(json_object_get(doc, "end"), "document"), "n"), 2);
	check_same(doc, plain);
	deep = read_text(
		"{\"end\":{\"document\":{\"end\":{\"hosts\":[{}]},\"hosts\":[]}},\"hosts\":5}");
	CHECK(deep);
	CHECK_EQ(json_get_int(deep, "hosts"), 5);
	json_decref(deep);
	json_decref(doc);
	json_decref(plain);
	buf_release(&text);
}

static void test_read_damaged(void)
{
	static const char text[] = "{\"hosts\":[{\"a\":1},{}],\"end\":{\"x\":-1.5e3}}";
	static const char *const bad[] = {
		"",
		"[]",
		"{}{}",
		"{} x",
		"{\"a\"}",
		"{\"a\":}",
		"{\"a\":1,}",
		"{1:1}",
		"{\"hosts\":[1]}",
		"{\"hosts\":[\"{}\"]}",
		"{\"hosts\":[{},]}",
		"{\"hosts\":[{}{}]}",
		"{\"hosts\":[{]}",
		"{\"a\":\"\xff\"}",
		"{\"end\":{\"hosts\":[[]]}}",
	};
	json_t *doc = read_text(text);

	CHECK(doc);
	json_decref(doc);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(!read_text(bad[i]));
	for (size_t len = 0; len < sizeof(text) - 1; len++) {
		char *part = xstrndup(text, len);

		CHECK(!packed_read(part, len));
		free(part);
	}
	CHECK(!packed_read("{}\0", 3));
}

static bool is_whole(const char *text)
{
	return json_is_whole(text, strlen(text));
}

static void test_whole(void)
{
	static const char text[] = "{\"a}\\\"\":[1,{\"b\":\"]\\\\\"}]}";

	CHECK(is_whole(text) && is_whole("{}"));
	for (size_t len = 0; len < sizeof(text) - 1; len++)
		CHECK(!json_is_whole(text, len));
	CHECK(!is_whole("[]") && !is_whole("{}}") && !is_whole("{}{}") && !is_whole("}{"));
	CHECK(!is_whole("{\"") && !is_whole("{\"\\") && !is_whole("x"));
}

int main(void)
{
	test_write();
	test_change(append_plain);
	test_change(packed_append);
	test_read();
	test_read_damaged();
	test_whole();
	return 0;
}
