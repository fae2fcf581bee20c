/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/kube/kube_checks.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/kube/kube_api.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"

#define WAITING_MOST 8

static struct jobs jobs;
static atomic_int n_asked;
static int n_dropped;

/* What begins with "good" is good, "busy" cannot be asked about; the rest is refused. */
static int ask(void *arg, const struct kube_api *api, const _Atomic bool *cancelled,
	       const char *token, void **found, struct err *e)
{
	(void)arg;
	CHECK(api->url && !atomic_load(cancelled));
	atomic_fetch_add(&n_asked, 1);
	if (!strncmp(token, "busy", 4))
		return err_set(e, ERR_PEER, "the API answers 500");
	if (strncmp(token, "good", 4) != 0)
		return err_set(e, ERR_DENIED, "it is not known");
	*found = xstrdup(token);
	return 0;
}

static void drop(void *found)
{
	n_dropped += found != NULL;
	free(found);
}

struct caller {
	int n_told, code;
	char found[32];
};

static void on_told(void *arg, void *found, const struct err *why)
{
	struct caller *c = arg;

	c->n_told++;
	c->code = why ? why->code : 0;
	snprintf(c->found, sizeof(c->found), "%s", found ? (char *)found : "");
}

static struct kube_checks *begin(int64_t refuse_ns)
{
	const struct kube_checks_env env = { .server = "http://127.0.0.1:1",
					     .jobs = &jobs,
					     .work = jobs_work,
					     .waiting_most = WAITING_MOST,
					     .at_once = 1,
					     .refuse_ns = refuse_ns,
					     .ask = ask,
					     .drop = drop };

	struct kube_checks *k;
	struct err e;

	atomic_store(&n_asked, 0);
	n_dropped = 0;
	CHECK_OK(kube_checks_new(&k, &env, &e), e);
	return k;
}

static void test_form(void)
{
	struct kube_checks *k = begin(NS_PER_S);
	char *is_long = xcalloc(1, KUBE_TOKEN_BYTES + 2);
	const char *const none[] = { "", "a b", "a\n", "\xc3\xa4", "\x7f", is_long };
	struct caller c = { 0 };

	memset(is_long, 'x', KUBE_TOKEN_BYTES + 1);
	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		CHECK_EQ(kube_checks_ask(k, none[i], on_told, &c, NULL), ERR_DENIED);
	jobs_drain(&jobs);
	CHECK_EQ(c.n_told, 0);
	CHECK_EQ(n_asked, 0);
	kube_checks_free(k);
	free(is_long);
}

/* One check for all that show the same token; each is told. */
static void test_shared(void)
{
	struct kube_checks *k = begin(NS_PER_S);
	struct caller c[WAITING_MOST] = { 0 };
	struct err e;

	for (int i = 0; i < WAITING_MOST; i++)
		CHECK_OK(kube_checks_ask(k, i % 2 ? "good-1" : "good-2", on_told, &c[i], &e), e);
	CHECK_EQ(kube_checks_ask(k, "good-1", on_told, &c[0], NULL), ERR_BUSY);
	jobs_drain(&jobs);
	CHECK_EQ(n_asked, 2);
	CHECK_EQ(n_dropped, 2);
	for (int i = 0; i < WAITING_MOST; i++) {
		CHECK_EQ(c[i].n_told, 1);
		CHECK_STR(c[i].found, i % 2 ? "good-1" : "good-2");
	}
	kube_checks_free(k);
}

/* A refusal is remembered for its time; that it could not be asked is not. */
static void test_refused(void)
{
	struct kube_checks *k = begin(3600 * NS_PER_S);
	struct caller c = { 0 };
	struct err e;

	CHECK_OK(kube_checks_ask(k, "bad", on_told, &c, &e), e);
	jobs_drain(&jobs);
	CHECK_EQ(c.code, ERR_DENIED);
	CHECK_EQ(kube_checks_ask(k, "bad", on_told, &c, &e), ERR_DENIED);
	CHECK_STR(e.msg, "it is not known");
	CHECK_EQ(n_asked, 1);
	for (int i = 0; i < 2; i++) {
		CHECK_OK(kube_checks_ask(k, "busy", on_told, &c, &e), e);
		jobs_drain(&jobs);
		CHECK_EQ(c.code, ERR_BUSY);
	}
	CHECK_EQ(n_asked, 3);
	kube_checks_free(k);
	k = begin(0);
	for (int i = 0; i < 2; i++) {
		CHECK_OK(kube_checks_ask(k, "bad", on_told, &c, &e), e);
		jobs_drain(&jobs);
	}
	CHECK_EQ(n_asked, 2);
	kube_checks_free(k);
}

/* Callers that go give their places to others, and their tokens are not asked about. */
static void test_gone(void)
{
	struct kube_checks *k = begin(NS_PER_S);
	struct caller c[WAITING_MOST] = { 0 }, other = { 0 };
	char token[32];
	struct err e;

	for (int i = 0; i < WAITING_MOST; i++) {
		snprintf(token, sizeof(token), "good-%d", i / 2);
		CHECK_OK(kube_checks_ask(k, token, on_told, &c[i], &e), e);
	}
	for (int i = 0; i < WAITING_MOST;
	     i++) { /* the first token is being asked about; one waits for the last */
		if (i != WAITING_MOST - 1)
			CHECK(kube_checks_leave(k, &c[i]));
	}
	CHECK(!kube_checks_leave(k, &c[0]));
	CHECK_OK(kube_checks_ask(k, "good-other", on_told, &other, &e), e);
	jobs_drain(&jobs);
	for (int i = 0; i < WAITING_MOST; i++)
		CHECK_EQ(c[i].n_told, i == WAITING_MOST - 1);
	CHECK_EQ(other.n_told, 1);
	CHECK_EQ(n_asked, 3);
	CHECK_EQ(n_dropped, 3);
	CHECK(!kube_checks_leave(k, &other));
	kube_checks_free(k);
}

/* A token must not travel in plaintext, but on this machine. */
static void test_server(void)
{
	static const struct {
		const char *url;
		int rc;
	} cases[] = {
		{ "https://10.0.0.1:6443", 0 },
		{ "https://api.example/", 0 },
		{ "http://127.0.0.1:8001", 0 },
		{ "http://10.0.0.1:8001", ERR_INVALID },
		{ "http://api.example", ERR_INVALID },
		{ "http://127.0.0.1.evil.example", ERR_INVALID },
		{ "https://", ERR_INVALID },
		{ "10.0.0.1:6443", ERR_INVALID },
		{ "", ERR_INVALID },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct kube_api api = { 0 };

		CHECK_EQ(kube_api_open(&api, cases[i].url, NULL, NULL, NULL), cases[i].rc);
		kube_api_close(&api);
	}
}

int main(void)
{
	struct err e;

	CHECK_OK(loop_new(&jobs.loop, 1, &e), e);
	test_form();
	test_shared();
	test_refused();
	test_gone();
	test_server();
	loop_free(jobs.loop);
	return 0;
}
