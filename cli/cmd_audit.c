/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the chain of an aggregator's audit log: aggregator/access/audit.h says what a line has. */
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "json/json_text.h"
#include "net/digest.h"

#define LINE_BYTES    65536 /* of one line, at most */
#define PROBLEMS_MOST 100 /* that are told */

struct conf {
	bool json;
};

static const struct conf_field fields[] = {
	CONF(struct conf, json, NULL, "print one JSON document on stdout"), { 0 }
};

/* What is known of the chain so far. */
struct chain {
	const char *file; /* that is being read */
	uint64_t line; /* in it, from 1 on */
	uint64_t first, n; /* the first line of all, and the last one; 0 = none yet */
	char hash[DIGEST_HEX_BYTES]; /* of line n */
	uint64_t lines;
	json_t *problems;
};

static void add_problem(struct chain *c, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void add_problem(struct chain *c, const char *fmt, ...)
{
	json_t *o = json_object();
	va_list ap;
	char *text;

	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	json_put_text(o, "file", c->file);
	json_put_int(o, "line", (int64_t)c->line);
	json_put_text(o, "text", text);
	if (json_array_size(c->problems) < PROBLEMS_MOST)
		json_array_append(c->problems, o);
	json_decref(o);
	free(text);
}

/* ---- lines ---- */

/* Line n follows the one that was read last. */
static void check_follows(struct chain *c, uint64_t n, const char *prev)
{
	if (!c->n) {
		c->first = n;
		if (n == 1 && strspn(prev, "0") != DIGEST_HEX_BYTES - 1)
			add_problem(c, "line 1 has a line before it: it was edited");
		return;
	}
	if (n > c->n + 1)
		add_problem(c, "lines %" PRIu64 " to %" PRIu64 " are missing before it", c->n + 1,
			    n - 1);
	else if (n <= c->n)
		add_problem(c, "line %" PRIu64 " stands after line %" PRIu64 ": out of order", n,
			    c->n);
	else if (strcmp(prev, c->hash) != 0)
		add_problem(c,
			    "its `prev` is not the digest of line %" PRIu64
			    ": that line, or this one, was edited",
			    c->n);
}

static void check_line(struct chain *c, const char *text, size_t len)
{
	json_t *doc = NULL;
	struct err e;
	int64_t n;

	c->lines++;
	if (json_parse(&doc, text, len, &e)) {
		add_problem(c, "%s: it was edited, or cut", e.msg);
		return;
	}
	n = json_get_int(doc, "n");
	if (n < 1) {
		add_problem(c, "it has no number: it was edited");
	} else {
		check_follows(c, (uint64_t)n, json_get_text(doc, "prev"));
		c->n = (uint64_t)n;
		digest_sha256(text, len, c->hash);
	}
	json_decref(doc);
}

/* Reads the file piece by piece: a log may be longer than memory. */
static int check_file(struct chain *c, const char *path, struct err *e)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;
	ssize_t len;

	if (!f)
		return err_errno(e, "%s", path);
	c->file = path;
	c->line = 0;
	while ((len = getline(&text, &size, f)) > 0) {
		c->line++;
		if (text[len - 1] != '\n')
			add_problem(c, "the line is cut: it has no end");
		else if (len > LINE_BYTES)
			add_problem(c, "a line of %zd bytes: it was edited", len);
		else
			check_line(c, text, (size_t)len - 1);
	}
	free(text);
	fclose(f);
	return 0;
}

/* FILE.head says where the log ended. */
static void check_head(struct chain *c, const char *path)
{
	char *head = xasprintf("%s.head", path);
	struct buf text = BUF_INIT;
	json_t *doc = NULL;
	struct err e;
	uint64_t n;
	int rc = file_load(head, LINE_BYTES, &text, &e);

	c->file = head;
	c->line = 1;
	if (!rc && json_parse(&doc, text.data, text.len, NULL)) {
		add_problem(c, "it is damaged");
		goto out;
	}
	if (rc) {
		add_problem(c, "%s: whether lines are missing at the end cannot be told", e.msg);
		goto out;
	}
	n = (uint64_t)json_get_int(doc, "n");
	if (n > c->n)
		add_problem(c, "lines %" PRIu64 " to %" PRIu64 " are missing at the end", c->n + 1,
			    n);
	else if (n == c->n && strcmp(json_get_text(doc, "hash"), c->hash) != 0)
		add_problem(c, "line %" PRIu64 ", the last one, was edited", n);
out:
	json_decref(doc);
	buf_release(&text);
	c->file = path;
	free(head);
}

/* ---- the verb ---- */

/* The earlier files, which are called FILE.000000000123, and the file itself. */
static int check_all(struct chain *c, const char *path, struct err *e)
{
	char *pattern = xasprintf("%s.[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]",
				  path);
	glob_t earlier = { 0 };
	int rc = 0;

	if (!glob(pattern, 0, NULL, &earlier))
		for (size_t i = 0; i < earlier.gl_pathc && !rc; i++)
			rc = check_file(c, earlier.gl_pathv[i], e);
	if (!rc)
		rc = check_file(c, path, e);
	if (!rc)
		check_head(c, path);
	globfree(&earlier);
	free(pattern);
	return rc;
}

static void print_text(const struct chain *c)
{
	json_t *problem;
	size_t i;

	json_array_foreach(c->problems, i, problem)
	{
		printf("%s:%" PRId64 ": %s\n", json_get_text(problem, "file"),
		       json_get_int(problem, "line"), json_get_text(problem, "text"));
	}
	if (!json_array_size(c->problems))
		printf("%" PRIu64 " lines, %" PRIu64 " to %" PRIu64 ": whole\n", c->lines, c->first,
		       c->n);
	if (c->first > 1)
		printf("lines 1 to %" PRIu64 " are in files that are not here\n", c->first - 1);
}

static void print_json(const struct chain *c)
{
	json_t *o = json_object();

	json_put_bool(o, "ok", !json_array_size(c->problems));
	json_put_int(o, "lines", (int64_t)c->lines);
	json_put_int(o, "first", (int64_t)c->first);
	json_put_int(o, "last", (int64_t)c->n);
	json_put_text(o, "hash", c->hash);
	json_put(o, "problems", json_incref(c->problems));
	api_print(o);
	json_decref(o);
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	struct chain c = { 0 };
	bool ok;
	int rc;

	(void)argc;
	if (strcmp(argv[0], "verify"))
		return err_set(e, ERR_INVALID, "'%.40s': expected tutti audit verify FILE",
			       argv[0]);
	c.problems = json_array();
	rc = check_all(&c, argv[1], e);
	ok = !json_array_size(c.problems);
	if (!rc && conf->json)
		print_json(&c);
	else if (!rc)
		print_text(&c);
	json_decref(c.problems);
	return rc ? rc : ok ? EXIT_ALL : EXIT_OTHER;
}

const struct cmd cmd_audit = {
	.name = "audit",
	.args = "verify FILE",
	.min_args = 2,
	.max_args = 2,
	.summary = "check that no line of an aggregator's audit log was changed or removed",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
