/* SPDX-License-Identifier: Apache-2.0 */
/* One session, or all of a run or of an age. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/now.h"
#include "cli/api.h"
#include "cli/cmd.h"

#define PAGE_SESSIONS 1000

struct conf {
	struct api_conf api;
	char *run;
	int64_t older_than_ns;
	bool dry_run, yes;
};

static const struct conf_field fields[] = {
	CONF_ONCE(struct conf, run, NULL,
		  "all sessions of this run that are not pinned; '' = those without a run"),
	CONF_ONCE(struct conf, older_than_ns, "0",
		  "only sessions whose window began longer ago, like 7d"),
	CONF_ONCE(struct conf, dry_run, NULL, "only say what would be deleted"),
	CONF_ONCE(struct conf, yes, NULL, "do not ask before several are deleted"),
	API_FIELDS(struct conf),
	{ 0 }
};

/* ---- which ---- */

struct choice {
	json_t *sessions; /* their summaries, newest first */
	json_t *kept; /* pinned ones that would be among them */
	int64_t bytes;
};

static void consider(const struct conf *conf, struct choice *c, json_t *summary)
{
	int64_t age_ns = now_real_ns() - json_get_int(summary, "t0_ns");

	if (conf->older_than_ns && age_ns <= conf->older_than_ns)
		return;
	if (json_is_true(json_object_get(summary, "pinned"))) {
		json_array_append(c->kept, summary);
		return;
	}
	json_array_append(c->sessions, summary);
	c->bytes += json_get_int(summary, "bytes");
}

static char *page_path(const struct conf *conf, const char *after)
{
	char *run = api_escape(conf->run ? conf->run : "");
	char *path = xasprintf("/api/v1/sessions?limit=%d%s%s%s%s", PAGE_SESSIONS,
			       conf->run ? "&run=" : "", run, *after ? "&after=" : "", after);

	free(run);
	return path;
}

/* `*after` becomes the last session of the page, or "" if it was the last page. */
static int read_page(const struct conf *conf, struct choice *c, char **after, struct err *e)
{
	char *path = page_path(conf, *after);
	json_t *doc = NULL, *summary;
	const json_t *sessions;
	int rc = api_call(&conf->api, "GET", path, NULL, &doc, e);
	size_t i;

	free(path);
	if (rc)
		return rc;
	sessions = json_object_get(doc, "sessions");
	json_array_foreach(sessions, i, summary) consider(conf, c, summary);
	free(*after);
	*after = xstrdup(
		i < PAGE_SESSIONS ? "" : json_get_text(json_array_get(sessions, i - 1), "session"));
	json_decref(doc);
	return 0;
}

static int choose(const struct conf *conf, struct choice *c, struct err *e)
{
	char *after = xstrdup("");
	int rc;

	do {
		rc = read_page(conf, c, &after, e);
	} while (!rc && *after);
	free(after);
	return rc;
}

/* ---- deleting ---- */

static int delete_one(const struct conf *conf, const char *session, struct err *e)
{
	return api_call_on(&conf->api, "DELETE", "sessions", session, "", NULL, e);
}

/* Only a person at a terminal is asked; anybody else says --yes. */
static int ask(const struct conf *conf, const struct choice *c, struct err *e)
{
	char bytes[16], answer[8] = "";

	if (conf->yes || !json_array_size(c->sessions))
		return 0;
	if (!isatty(STDIN_FILENO) || conf->api.json)
		return err_set(e, ERR_INVALID,
			       "this deletes %zu sessions: say --yes, or look first with --dry-run",
			       json_array_size(c->sessions));
	human_bytes(c->bytes, bytes);
	fprintf(stderr, "delete %zu sessions, %s? [y/N] ", json_array_size(c->sessions), bytes);
	if (!fgets(answer, sizeof(answer), stdin) || (*answer != 'y' && *answer != 'Y'))
		return err_set(e, ERR_DENIED, "nothing was deleted");
	return 0;
}

/* A session that another caller has deleted meanwhile is fine. One that cannot be deleted does not keep the others. */
static int delete_all(const struct conf *conf, const struct choice *c, json_t *deleted,
		      struct err *e)
{
	const json_t *summary;
	size_t i;
	int rc = 0;

	json_array_foreach(c->sessions, i, summary)
	{
		const char *session = json_get_text(summary, "session");
		struct err why;
		int one = delete_one(conf, session, &why);

		if (one && one != ERR_NOT_FOUND) {
			fprintf(stderr, "%s: %s\n", session, why.msg);
			rc = one;
			continue;
		}
		json_array_append_new(deleted, json_string(session));
		if (!conf->api.json)
			printf("deleted %s\n", session);
	}
	return rc ? err_set(e, rc, "%zu of %zu sessions were not deleted",
			    json_array_size(c->sessions) - json_array_size(deleted),
			    json_array_size(c->sessions))
		  : 0;
}

static void print_choice(const struct conf *conf, const struct choice *c, json_t *deleted)
{
	char bytes[16];
	const json_t *summary;
	json_t *doc;
	size_t i;

	human_bytes(c->bytes, bytes);
	if (!conf->api.json && conf->dry_run) {
		json_array_foreach(c->sessions, i, summary)
			printf("would delete %s\n", json_get_text(summary, "session"));
		printf("%zu sessions, %s\n", json_array_size(c->sessions), bytes);
	}
	if (!conf->api.json && json_array_size(c->kept))
		printf("%zu pinned sessions stay\n", json_array_size(c->kept));
	if (!conf->api.json)
		return;
	doc = json_object();
	json_put(doc, conf->dry_run ? "would_delete" : "deleted",
		 json_incref(conf->dry_run ? c->sessions : deleted));
	json_put(doc, "pinned", json_incref(c->kept));
	json_put_int(doc, "bytes", c->bytes);
	api_print(doc);
	json_decref(doc);
}

static int run_many(const struct conf *conf, struct err *e)
{
	struct choice c = { .sessions = json_array(), .kept = json_array() };
	json_t *deleted = json_array();
	int rc = choose(conf, &c, e);

	if (!rc && !conf->dry_run)
		rc = ask(conf, &c, e);
	if (!rc && !conf->dry_run)
		rc = delete_all(conf, &c, deleted, e);
	if (!rc || json_array_size(deleted))
		print_choice(conf, &c, deleted);
	json_decref(c.sessions);
	json_decref(c.kept);
	json_decref(deleted);
	return rc;
}

static int run_one(const struct conf *conf, const char *session, struct err *e)
{
	json_t *doc = NULL;
	int rc = api_call_on(&conf->api, "DELETE", "sessions", session, "", &doc, e);

	if (!rc && conf->api.json)
		api_print(doc);
	else if (!rc)
		printf("deleted %s\n", session);
	json_decref(doc);
	return rc;
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	bool is_many = conf->run || conf->older_than_ns;

	if (conf->older_than_ns < 0)
		return err_set(e, ERR_INVALID, "older-than: a time is not negative");
	if (is_many == (argc == 1))
		return err_set(e, ERR_INVALID,
			       "name one SESSION, or say which with --run and --older-than");
	if (!is_many && conf->dry_run)
		return err_set(e, ERR_INVALID, "dry-run goes with --run or --older-than");
	return is_many ? run_many(conf, e) : run_one(conf, argv[0], e);
}

const struct cmd cmd_delete = {
	.name = "delete",
	.args = "[SESSION]",
	.max_args = 1,
	.summary = "remove a session and its files, or all of a run or an age",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
