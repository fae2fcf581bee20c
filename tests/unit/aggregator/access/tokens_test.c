/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces, roles, verbs, and the file of static tokens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "aggregator/access/tokens.h"
#include "aggregator/access/verbs.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/file.h"
#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B64 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static void test_spaces(void)
{
	struct spaces s, other, none = { 0 }, all = { .all = true };
	struct err e;

	CHECK_OK(spaces_parse(&s, "red,blue,red", &e), e);
	CHECK_EQ(s.n, 2);
	CHECK(spaces_have(&s, "red") && spaces_have(&s, "blue") && !spaces_have(&s, "re"));
	CHECK_OK(spaces_parse(&other, "blue", &e), e);
	CHECK(spaces_cover(&s, &other) && !spaces_cover(&other, &s));
	/* what has no namespace is the whole fleet's */
	CHECK(!spaces_cover(&s, &none) && spaces_cover(&all, &none) && !spaces_cover(&s, &all));
	CHECK(!spaces_cover(&none, &none));
	spaces_add_all(&other, &all);
	CHECK(other.all && !other.n && spaces_equal(&other, &all));
	spaces_release(&other);
	spaces_release(&s);
	for (const char *const *bad =
		     (const char *const[]){ "", "a,", ",a", "a,,b", "a b", "*,a", "a\nb", NULL };
	     *bad; bad++) {
		CHECK_EQ(spaces_parse(&s, *bad, &e), ERR_INVALID);
		spaces_release(&s);
	}
}

/* A set that cannot have a name must not be taken for one without it: what is of both would be shown to who sees the others. */
static void test_odd_spaces(void)
{
	static const char *const odd[] = { "", "a,b", "a b", "a\nb", "\xc3\xbc", "*", NULL };
	struct spaces s = { 0 };
	char name[SPACES_NAME_BYTES + 1], number[16];
	json_t *doc = json_pack("[s, s]", "blue", "red");

	spaces_read(&s, doc);
	CHECK_EQ(s.n, 2);
	CHECK(spaces_add(&s, "red"));
	for (size_t i = 0; odd[i]; i++)
		CHECK(!spaces_add(&s, odd[i]));
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	CHECK(!spaces_add(&s, name));
	CHECK_EQ(s.n, 2);
	for (int i = 0; s.n < SPACES_MOST; i++) {
		snprintf(number, sizeof(number), "n%d", i);
		CHECK(spaces_add(&s, number));
	}
	CHECK(spaces_add(&s, "red") && !spaces_add(&s, "one-more"));
	spaces_release(&s);
	json_array_append_new(doc, json_string("a,b"));
	spaces_read(&s, doc);
	CHECK(spaces_are_empty(&s));
	json_decref(doc);
	doc = json_pack("[s, i]", "red", 1);
	spaces_read(&s, doc);
	CHECK(spaces_are_empty(&s));
	json_decref(doc);
}

static int read_text(struct tokens *t, const char *text, struct err *e)
{
	*t = (struct tokens){ 0 };
	return tokens_read(t, "f", text, strlen(text), e);
}

static void test_grants_add_up(void)
{
	struct tokens t;
	struct principal *p;
	struct err e;

	CHECK_OK(read_text(&t,
			   "alice viewer " A64 "\n# a comment\n\n  bob\tadmin " B64
			   " red # here\nalice operator " A64 " red,blue\n",
			   &e),
		 e);
	p = tokens_find(&t, A64);
	CHECK_STR(p->name, "alice");
	CHECK(p->by_role[ROLE_VIEWER].all && !p->by_role[ROLE_OPERATOR].all);
	CHECK_EQ(p->by_role[ROLE_OPERATOR].n, 2);
	CHECK_EQ(principal_role(p), ROLE_OPERATOR);
	CHECK_EQ(principal_role(tokens_find(&t, B64)), ROLE_ADMIN);
	CHECK(!tokens_find(&t, "") && !tokens_find(&t, "a"));
	principal_ref(p);
	tokens_release(&t);
	CHECK(!principal_holds(p)); /* its token was taken back */
	principal_unref(p);
}

static void test_wrong_lines(void)
{
	static const struct {
		const char *text, *complaint;
	} cases[] = {
		{ "alice viewer\n", "line 1: use NAME ROLE" },
		{ "\nalice king " A64, "line 2: 'king' is no role" },
		{ "alice viewer 1234", "line 1: the third word is no SHA-256" },
		{ "alice viewer A" A64, "no SHA-256" },
		{ "alice viewer " A64 " a/b", "'a/b' is not the name of a namespace" },
		{ "alice viewer " A64 " a b", "more than 4 words" },
		{ "alice viewer " A64 "\nbob viewer " A64, "alice and bob have the same token" },
	};
	struct tokens t;
	struct err e;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECK(read_text(&t, cases[i].text, &e) < 0);
		CHECK(strstr(e.msg, cases[i].complaint));
		CHECK_EQ(t.n, 0);
	}
}

static void write_file(const char *path, const char *text, mode_t mode)
{
	struct err e;

	CHECK_OK(file_replace(path, 0600, text, strlen(text), &e), e);
	CHECK(!chmod(path, mode)); /* whatever the umask is */
}

/* A file that is wrong, or that others can change, or that is gone, changes nothing; a good one takes back what it lacks. */
static void test_reload(void)
{
	const char *dir = temp_dir();
	char *path = xasprintf("%s/tokens", dir);
	struct principal *p;
	struct tokens t;
	struct err e;

	write_file(path, "alice viewer " A64 "\n", 0640);
	CHECK_OK(tokens_load(&t, path, &e), e);
	p = principal_ref(tokens_find(&t, A64));
	CHECK_OK(tokens_reload(&t, &e), e);
	CHECK(tokens_find(&t, A64) == p); /* it has not changed */
	write_file(path, "alice king " A64 "\n", 0600);
	CHECK_EQ(tokens_reload(&t, &e), ERR_INVALID);
	CHECK(tokens_find(&t, A64) == p && principal_holds(p));
	CHECK_OK(tokens_reload(&t, &e), e); /* said once */
	for (size_t i = 0; i < 3; i++) {
		write_file(path, "bob admin " B64 "\n", (const mode_t[]){ 0604, 0620, 0602 }[i]);
		CHECK_EQ(tokens_reload(&t, &e), ERR_DENIED);
		CHECK(!tokens_find(&t, B64) && principal_holds(p));
	}
	CHECK(!remove(path));
	CHECK(tokens_reload(&t, &e) < 0);
	CHECK(principal_holds(p));
	write_file(path, "bob admin " B64 "\n", 0600);
	CHECK_OK(tokens_reload(&t, &e), e);
	CHECK(!tokens_find(&t, A64) && tokens_find(&t, B64) && !principal_holds(p));
	principal_unref(p);
	tokens_release(&t);
	free(path);
	temp_dir_remove(dir);
}

/* The answers for each role, in the namespace of the session, in another one, and everywhere. */
static void test_decisions(void)
{
	struct spaces red, blue, both;
	struct session_marks marks = { .owner = "alice", .spaces = &red };
	struct principal *p;
	struct err e;

	CHECK_OK(spaces_parse(&red, "red", &e), e);
	CHECK_OK(spaces_parse(&blue, "blue", &e), e);
	CHECK_OK(spaces_parse(&both, "red,blue", &e), e);
	p = principal_new("alice", "token");
	CHECK_EQ(access_decide(p, &verb_read, &marks), ACCESS_FORBIDDEN);
	principal_grant(p, ROLE_VIEWER, &blue);
	CHECK_EQ(access_decide(p, &verb_read, NULL), ACCESS_NEEDS_MARKS);
	CHECK_EQ(access_decide(p, &verb_read, &marks), ACCESS_HIDDEN);
	principal_grant(p, ROLE_OPERATOR, &red);
	CHECK_EQ(access_decide(p, &verb_read, &marks), ACCESS_GRANTED);
	CHECK_EQ(access_decide(p, &verb_delete, &marks), ACCESS_GRANTED);
	marks.owner = "bob";
	CHECK_EQ(access_decide(p, &verb_delete, &marks), ACCESS_FORBIDDEN);
	CHECK_EQ(access_decide(p, &verb_stop, &marks), ACCESS_GRANTED);
	marks.spaces = &both; /* it may see all of it, and capture in one part of it */
	CHECK_EQ(access_decide(p, &verb_read, &marks), ACCESS_GRANTED);
	CHECK_EQ(access_decide(p, &verb_stop, &marks), ACCESS_FORBIDDEN);
	CHECK_EQ(access_decide(p, &verb_metrics, NULL), ACCESS_FORBIDDEN);
	CHECK_EQ(access_decide(p, &verb_start, NULL), ACCESS_GRANTED);
	principal_grant_all(p, ROLE_ADMIN);
	CHECK_EQ(access_decide(p, &verb_delete, NULL), ACCESS_GRANTED);
	CHECK_EQ(access_decide(p, &verb_import, NULL), ACCESS_GRANTED);
	principal_unref(p);
	spaces_release(&red);
	spaces_release(&blue);
	spaces_release(&both);
}

/* Who can change the file is an admin; who can read it is told apart from all others. */
static void test_modes(void)
{
	static const struct {
		mode_t mode;
		int rc;
	} rows[] = { { 0600, 0 },	   { 0640, 0 },		 { 0660, ERR_DENIED },
		     { 0644, ERR_DENIED }, { 0602, ERR_DENIED }, { 0601, ERR_DENIED } };
	char *path = xasprintf("%s/tokens", temp_dir());
	struct tokens t;
	struct err e;

	CHECK_OK(file_replace(path, 0600, "ann viewer " A64 "\n", strlen("ann viewer " A64 "\n"),
			      &e),
		 e);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CHECK(!chmod(path, rows[i].mode));
		CHECK_EQ(tokens_load(&t, path, &e), rows[i].rc);
		if (rows[i].rc) {
			CHECK(strstr(e.msg, "chmod o=,g-w"));
			continue;
		}
		CHECK(tokens_find(&t, A64) && !tokens_find(&t, B64));
		CHECK(!chmod(path, 0660)); /* a change that makes it wrong: what is known stays */
		CHECK_EQ(tokens_reload(&t, &e), ERR_DENIED);
		CHECK(tokens_find(&t, A64));
		tokens_release(&t);
	}
	free(path);
}

int main(void)
{
	test_modes();
	test_spaces();
	test_odd_spaces();
	test_grants_add_up();
	test_wrong_lines();
	test_reload();
	test_decisions();
	return 0;
}
