/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every route of the HTTP API: docs/wire.md names it and its verb, docs/security.md says who may, and each caller is asked in
 * turn. What a cell must answer follows from the two pages alone; a route that they lack has none, and fails.
 */
#include "base/file.h"
#include "base/mem.h"

#include "aggregator/access/verbs.h"
#include "aggregator/api/api_impl.h"
#include "tests/lib/store.h"
#include "tests/unit/aggregator/people.h"

#define PAGE_BYTES  (1 << 20)
#define CALLS_MOST  100
#define RULES_MOST  40
#define CELLS_LEAST 500 /* fewer: the pages were not understood */

/* A row of the table of verbs: `own` is the role that is enough for what he began himself. */
struct rule {
	char verb[16], about[48];
	int lowest, own;
};

/* A call of the table of calls; `path` as routes have it. */
struct call {
	char method[8], path[80], verb[32];
	int n_routes;
};

static struct rule rules[RULES_MOST];
static struct call calls[CALLS_MOST];
static size_t n_rules, n_calls;

/* ---- the pages ---- */

/* The next cell of a row, without the blanks around it; false at the row's end. */
static bool next_cell(const char **at, char *out, size_t size)
{
	const char *begin = *at + strspn(*at, " "), *end = strchr(begin, '|');
	size_t len;

	if (!end)
		return false;
	*at = end + 1;
	for (len = (size_t)(end - begin); len && begin[len - 1] == ' ';)
		len--;
	CHECK(len < size);
	memcpy(out, begin, len);
	out[len] = '\0';
	return true;
}

/* Calls fn with each row of the table that has this head. */
static void each_row(const char *page, const char *head, void (*fn)(const char *row))
{
	struct buf text = BUF_INIT;
	char *line, *rest, *start;
	struct err e;
	int n = 0;

	CHECK_OK(file_load(page, PAGE_BYTES, &text, &e), e);
	start = strstr(buf_str(&text), head);
	CHECK(start);
	for (line = strtok_r(start, "\n", &rest); line && *line == '|';
	     line = strtok_r(NULL, "\n", &rest)) {
		if (n++ >= 2) /* the head, and the line below it */
			fn(line + 1);
		if (rest && *rest == '\n') /* strtok_r() skips the empty line that ends the table */
			break;
	}
	CHECK(n > 2);
	buf_release(&text);
}

static int role_of(const char *name)
{
	static const char *const names[] = { "", "viewer", "operator", "admin" };

	for (int i = 0; i < (int)ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return i;
	CHECK(!"a role");
	return 0;
}

static void strip_ticks(char *text)
{
	size_t len = strlen(text);

	CHECK(len > 2 && text[0] == '`' && text[len - 1] == '`');
	memmove(text, text + 1, len - 2);
	text[len - 2] = '\0';
}

/* "| `delete` | ... | admin; operator of his own | a session |" */
static void read_rule(const char *row)
{
	static const char own[] = " of his own";
	struct rule *r = &rules[n_rules++];
	char requests[256], role[64], *more;

	CHECK(n_rules < RULES_MOST);
	CHECK(next_cell(&row, r->verb, sizeof(r->verb)));
	CHECK(next_cell(&row, requests, sizeof(requests)));
	CHECK(next_cell(&row, role, sizeof(role)));
	CHECK(next_cell(&row, r->about, sizeof(r->about)));
	strip_ticks(r->verb);
	r->about[strcspn(r->about, ":")] = '\0';
	more = strstr(role, "; ");
	if (more) {
		*more = '\0';
		more += 2;
		CHECK(strlen(more) > strlen(own) &&
		      !strcmp(more + strlen(more) - strlen(own), own));
		more[strlen(more) - strlen(own)] = '\0';
	}
	r->lowest = role_of(role);
	r->own = more ? role_of(more) : 0;
}

/* "GET /api/v1/sessions/ID/files/NAME?offset=N": ID and NAME are any one part. */
static void read_call(char *text, const char *verb)
{
	struct call *c = &calls[n_calls++];
	char *path = strchr(text, ' ');
	size_t len = 0;

	CHECK(n_calls < CALLS_MOST && path);
	*path++ = '\0';
	path[strcspn(path, "?")] = '\0';
	snprintf(c->method, sizeof(c->method), "%s", text);
	snprintf(c->verb, sizeof(c->verb), "%s", verb);
	for (; *path; path++) {
		CHECK(len + 1 < sizeof(c->path));
		if (*path < 'A' || *path > 'Z')
			c->path[len++] = *path;
		else if (c->path[len - 1] != '*')
			c->path[len++] = '*';
	}
}

/* "| `GET /healthz`, `GET /readyz` | `public` | ... |" */
static void read_calls(const char *row)
{
	char cell[160], verb[32], *one, *rest;

	CHECK(next_cell(&row, cell, sizeof(cell)));
	CHECK(next_cell(&row, verb, sizeof(verb)));
	strip_ticks(verb);
	for (one = strtok_r(cell, "`", &rest); one; one = strtok_r(NULL, "`", &rest))
		if (strcmp(one, ", ") != 0)
			read_call(one, verb);
}

static const struct rule *find_rule(const char *verb)
{
	for (size_t i = 0; i < n_rules; i++)
		if (!strcmp(rules[i].verb, verb))
			return &rules[i];
	return NULL;
}

/* ---- the table of routes ---- */

static struct call *find_call(const struct route *route)
{
	for (size_t i = 0; i < n_calls; i++)
		if (!strcmp(calls[i].method, route->method) && !strcmp(calls[i].path, route->path))
			return &calls[i];
	fprintf(stderr, "docs/wire.md has no call %s %s\n", route->method, route->path);
	exit(1);
}

/* What the verb asks for is what its row says. */
static void check_verb(const struct verb *v, const struct rule *r)
{
	static const char *const about[] = { [VERB_PUBLIC] = "nothing of the fleet",
					     [VERB_OWN_PART] = "what he may see",
					     [VERB_SESSION] = "a session",
					     [VERB_FLEET] = "the fleet" };

	CHECK_STR(v->name, r->verb);
	CHECK_STR(about[v->object], r->about);
	CHECK_EQ(v->role, r->lowest);
	CHECK_EQ(v->owner_role, r->own);
}

/* The guard takes the first part that '*' matches for a session's id: where a verb is about a session, it must be one. */
static bool begins_with_session(const char *path)
{
	const char *star = strchr(path, '*');

	return star && (!strncmp(path, "/api/v1/sessions/*", (size_t)(star - path) + 1) ||
			!strncmp(path, "/api/v1/captures/*", (size_t)(star - path) + 1));
}

static void check_route(const struct route *route)
{
	struct call *c = find_call(route);
	const struct rule *r = find_rule(c->verb);
	bool is_get = !strcmp(route->method, "GET"), is_public;

	c->n_routes++;
	CHECK(r);
	CHECK_STR(route->verb->name, c->verb);
	check_verb(route->verb, r);
	is_public = !r->lowest;
	CHECK_EQ(begins_with_session(route->path), !strcmp(r->about, "a session"));
	CHECK_EQ(route->verb->is_audited, !is_get && !is_public); /* what changes something */
	CHECK(!(route->reads && route->verb->is_audited)); /* a follower changes nothing */
}

static void test_table(void)
{
	const struct route *routes;
	size_t n;

	routes = api_routes(&n);
	for (size_t i = 0; i < n; i++)
		check_route(&routes[i]);
	for (size_t i = 0; i < n_calls; i++) {
		if (calls[i].n_routes != 1)
			fprintf(stderr, "%s %s of docs/wire.md\n", calls[i].method, calls[i].path);
		CHECK_EQ(calls[i].n_routes, 1);
	}
	for (size_t i = 0; i < n_rules; i++) { /* no row is about nothing */
		bool is_used = false;

		for (size_t k = 0; k < n_calls; k++)
			is_used |= !strcmp(calls[k].verb, rules[i].verb);
		CHECK(is_used);
	}
}

/* ---- every cell ---- */

/* A stored session of these namespaces, as a JSON array. */
struct stored {
	const char *session, *namespaces;
	bool is_red; /* all of it */
};

static const struct stored sessions[] = {
	{ "2026_11_21_12_00_00_aaaaaa", "[\"red\"]", true },
	{ "2026_11_21_12_00_01_bbbbbb", "[\"blue\"]", false },
	{ "2026_11_21_12_00_02_cccccc", "[\"blue\", \"red\"]", false },
	{ "2026_11_21_12_00_03_dddddd", NULL, false },
};

static void put_session(struct fleet *f, const struct stored *s)
{
	char *key = xasprintf("tutti/sessions/%s/manifest.json", s->session);
	char *text = xasprintf("{\"version\": 1, \"session\": \"%s\", \"run\": \"\", \"bytes\": 0, "
			       "\"t0_ns\": 1, \"owner\": \"someone\"%s%s}",
			       s->session, s->namespaces ? ", \"namespaces\": " : "",
			       s->namespaces ? s->namespaces : "");

	store_put_text(f->agg.store.store, key, text);
	free(text);
	free(key);
}

/* 401, 403 or 404; 0: he may. */
static int expected(const struct rule *r, const struct person *p, const struct stored *s)
{
	if (!r->lowest)
		return 0;
	if (!p->role)
		return 401;
	if (!strcmp(r->about, "a session") && !p->is_everywhere && !s->is_red)
		return 404;
	if (!strcmp(r->about, "the fleet") && !p->is_everywhere)
		return 403;
	return p->role >= r->lowest ? 0 : 403;
}

/* The route's path, with this session for its first part. */
static char *path_of(const struct route *route, const char *session)
{
	struct buf path = BUF_INIT;
	size_t len;
	int n = 0;

	for (const char *c = route->path; *c; c++) {
		if (*c == '*')
			buf_add_str(&path, n++ ? "a" : session);
		else
			buf_add(&path, c, 1);
	}
	buf_add(&path, "", 1);
	return (char *)buf_detach(&path, &len);
}

/* What he may do is tried where it changes nothing and ends. */
static bool is_tried(const struct route *route)
{
	const char *end = strstr(route->path, "/events");

	return !strcmp(route->method, "GET") && !(end && !strcmp(end, "/events"));
}

static int check_cell(struct fleet *f, const struct route *route, const struct person *p,
		      const struct stored *s)
{
	const struct rule *r = find_rule(find_call(route)->verb);
	int wanted = expected(r, p, s), status;
	char *path = path_of(route, s->session);
	bool is_good;

	if (!wanted && !is_tried(route)) {
		free(path);
		return 0;
	}
	status = person_ask(f, p, route->method, path, NULL, NULL);
	/* a link is refused for its signature */
	is_good = wanted ? status == wanted : status != 401 && (status != 403 || !r->lowest);
	if (!is_good)
		fprintf(stderr, "%s: %s %s (%s): %d, expected %d\n", p->name, route->method, path,
			s->namespaces ? s->namespaces : "the fleet", status, wanted);
	CHECK(is_good);
	free(path);
	return 1;
}

static void test_cells(void)
{
	const struct route *routes;
	struct fleet f;
	size_t n;
	int cells = 0;

	routes = api_routes(&n);
	people_start(&f, NULL);
	for (size_t k = 0; k < ARRAY_SIZE(sessions); k++)
		put_session(&f, &sessions[k]);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < (strchr(routes[i].path, '*') ? ARRAY_SIZE(sessions) : 1);
		     k++)
			for (size_t j = 0; j < PEOPLE; j++)
				cells += check_cell(&f, &routes[i], &people[j], &sessions[k]);
	CHECK(cells >= CELLS_LEAST);
	people_stop(&f);
}

int main(int argc, char **argv)
{
	CHECK_EQ(argc, 3);
	each_row(argv[1], "| call | verb | answer | schema |\n", read_calls);
	each_row(argv[2], "| verb | requests | lowest role | about |\n", read_rule);
	test_table();
	test_cells();
	return 0;
}
