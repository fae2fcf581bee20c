/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clean_text.h"
#include "base/hex.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "tests/lib/check.h"

static size_t len_of(const char *text, size_t left)
{
	return utf8_len((const uint8_t *)text, left);
}

static void test_characters(void)
{
	static const struct {
		const char *text;
		size_t len;
	} cases[] = {
		{ "a", 1 },
		{ "\x7f", 1 },
		{ "\xc2\x80", 2 },
		{ "\xdf\xbf", 2 },
		{ "\xe0\xa0\x80", 3 },
		{ "\xed\x9f\xbf", 3 },
		{ "\xee\x80\x80", 3 },
		{ "\xf0\x90\x80\x80", 4 },
		{ "\xf4\x8f\xbf\xbf", 4 },
		{ "\x80", 0 }, /* begins in the middle */
		{ "\xc0\x80", 0 }, /* longer than it needs to be */
		{ "\xc1\xbf", 0 },
		{ "\xe0\x9f\xbf", 0 },
		{ "\xf0\x8f\xbf\xbf", 0 },
		{ "\xed\xa0\x80", 0 }, /* a surrogate */
		{ "\xf4\x90\x80\x80", 0 }, /* above U+10FFFF */
		{ "\xf8\x88\x80\x80\x80", 0 },
		{ "\xff", 0 },
		{ "\xc3\x28", 0 }, /* the next byte is no continuation */
		{ "\xe2\x82\x28", 0 },
		{ "\xf0\x9f\x92\x28", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		CHECK_EQ(len_of(cases[i].text, strlen(cases[i].text)), cases[i].len);
	for (size_t left = 1; left < 4; left++) {
		CHECK_EQ(len_of("\xf0\x9f\x92\xa9", left), 0);
		CHECK_EQ(len_of("\xe2\x82\xac", left), left < 3 ? 0 : 3);
	}
	CHECK_EQ(len_of("", 1), 1); /* NUL is a character */
}

static void check_clean(const char *text, size_t size, const char *expected)
{
	char out[32];

	CHECK_EQ(clean_text(out, size, text, strlen(text)), strlen(expected));
	CHECK_STR(out, expected);
}

static void test_clean(void)
{
	char out[8];

	check_clean("plain", 32, "plain");
	check_clean("a\tb\nc\x7f", 32, "a b c ");
	check_clean("a\xc2\x9b"
		    "2J\xc2\xa0",
		    32, "a 2J\xc2\xa0"); /* U+009B is ESC [ to a terminal, U+00A0 a blank */
	check_clean("a\xe2\x80\xae"
		    "b\xe2\x81\xa6"
		    "c\xe2\x82\xac",
		    32, "a b c\xe2\x82\xac"); /* nothing turns the text around; a euro is a euro */
	check_clean("a\xff\xc3\xa4\xc3", 32, "a?\xc3\xa4?");
	check_clean("ab\xc3\xa4", 4, "ab"); /* no half of a character */
	check_clean("ab\xc3\xa4", 5, "ab\xc3\xa4");
	check_clean("abc", 1, "");
	check_clean("eight by eight: ~", 32, "eight by eight: ~");
	check_clean("eight by eight", 9, "eight by");
	check_clean("eight by eight", 8, "eight b");
	for (int i = 0; i < 16; i++) { /* wherever it is */
		for (const char *c = "\x01\x1f\x7f\x80\xff"; *c; c++) {
			char text[] = "sixteen letters.", want[sizeof(text)];

			memcpy(want, text, sizeof(text));
			text[i] = *c;
			want[i] = (uint8_t)*c >= 0x80 ? '?' : ' ';
			check_clean(text, 32, want);
		}
	}
	CHECK_EQ(clean_text(out, sizeof(out), "ab\0cd", 5), 2);
	CHECK_EQ(clean_text(out, sizeof(out), "abcdef", 3), 3);
	CHECK_STR(out, "abc");
}

static void test_hex(void)
{
	static const uint8_t bytes[] = { 0x00, 0x9a, 0xff };
	char out[7];

	hex_text(out, bytes, sizeof(bytes));
	CHECK_STR(out, "009aff");
	hex_text(out, bytes, 0);
	CHECK_STR(out, "");
	for (int i = 0; i < 16; i++) {
		CHECK_EQ(hex_digit("0123456789abcdef"[i]), i);
		CHECK_EQ(hex_digit("0123456789ABCDEF"[i]), i);
	}
	CHECK_EQ(hex_digit('g'), -1);
	CHECK_EQ(hex_digit('/'), -1);
	CHECK_EQ(hex_digit(':'), -1);
	CHECK_EQ(hex_digit('@'), -1);
	CHECK_EQ(hex_digit('`'), -1);
	CHECK_EQ(hex_digit('\0'), -1);
}

/* A reader need not guess how a word, or a character, went on. */
static void test_sentences(void)
{
	static const struct {
		const char *text, *expected;
	} cases[] = {
		{ "cannot open the file", "cannot open the file" },
		{ "cannot open the files, as", "cannot open the..." },
		{ "cannot open file: denied", "cannot open file..." },
		{ "xxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "xxxxxxxxxxxxxxxxx..." },
		{ "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
		  "\xc3\xa4",
		  "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4..." },
	};
	char out[21];
	struct err e;
	char longest[300];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		clean_sentence(out, sizeof(out), cases[i].text, strlen(cases[i].text));
		CHECK_STR(out, cases[i].expected);
	}
	memset(longest, 'w', sizeof(longest));
	memcpy(longest + 240, " and so on for ever", 20);
	err_set(&e, ERR_IO, "%s", longest);
	CHECK_STR(e.msg + 240, " and so on...");
}

int main(void)
{
	test_hex();
	test_sentences();
	test_characters();
	test_clean();
	return 0;
}
