/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/aggregator/people.h"

#include <sys/stat.h>

#include "base/mem.h"
#include "net/digest.h"
#include "net/http_client.h"
#include "tests/lib/temp_dir.h"

const struct person people[PEOPLE] = {
	{ "no-token", 0, false },  { "viewer-red", 1, false }, { "operator-red", 2, false },
	{ "admin-red", 3, false }, { "viewer-all", 1, true },  { "operator-all", 2, true },
	{ "admin-all", 3, true },
};

static const char *dir;
static char *tokens;
static void (*set_more)(struct aggregator_conf *c);

const struct person *person_named(const char *name)
{
	for (size_t i = 0; i < PEOPLE; i++)
		if (!strcmp(people[i].name, name))
			return &people[i];
	CHECK(!"a person of this name");
	return NULL;
}

/* ---- their tokens ---- */

static void set_tokens(struct aggregator_conf *c)
{
	c->tokens = xstrdup(tokens);
	if (set_more)
		set_more(c);
}

static void write_tokens(void)
{
	static const char *const roles[] = { "", "viewer", "operator", "admin" };
	char digest[DIGEST_HEX_BYTES];
	FILE *out = fopen(tokens, "w");

	CHECK(out);
	for (size_t i = 0; i < PEOPLE; i++) {
		const struct person *p = &people[i];

		digest_sha256(p->name, strlen(p->name), digest);
		if (p->role)
			fprintf(out, "%s %s %s%s\n", p->name, roles[p->role], digest,
				p->is_everywhere ? "" : " red");
	}
	CHECK(!fclose(out));
	CHECK(!chmod(tokens, 0600));
}

void people_start(struct fleet *f, void (*set_conf)(struct aggregator_conf *c))
{
	set_more = set_conf;
	dir = temp_dir();
	tokens = xasprintf("%s/tokens", dir);
	write_tokens();
	fleet_set_conf = set_tokens;
	fleet_start(f, 0, 0);
	fleet_set_conf = NULL;
}

void people_stop(struct fleet *f)
{
	fleet_stop(f);
	temp_dir_remove(dir);
	free(tokens);
}

/* ---- what they ask ---- */

struct ask {
	struct http_call call;
	char *url;
	int rc, status;
	struct buf answer;
	struct err e;
	bool done;
};

static void run_ask(void *arg)
{
	struct ask *a = arg;

	a->rc = http_call(&a->call, &a->status, &a->answer, &a->e);
}

static void end_ask(void *arg)
{
	((struct ask *)arg)->done = true;
}

int person_ask(struct fleet *f, const struct person *p, const char *method, const char *path,
	       const char *body, char **text)
{
	struct ask a = { .call = { .method = method,
				   .token = p->role ? p->name : NULL,
				   .body = body,
				   .body_len = body ? strlen(body) : 0,
				   .timeout_ns = 20 * NS_PER_S } };
	size_t len;

	a.url = xasprintf("http://127.0.0.1:%d%s", f->agg.http_port, path);
	a.call.url = a.url;
	loop_work(f->loop, run_ask, end_ask, &a);
	WAIT(f, a.done);
	CHECK_OK(a.rc, a.e);
	if (text)
		*text = (char *)buf_detach(&a.answer, &len);
	buf_release(&a.answer);
	free(a.url);
	return a.status;
}
