/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/fleet/registry.h"
#include "aggregator/pods/pods_impl.h"
#include "base/buf.h"
#include "base/mem.h"

#include "tests/lib/check.h"

static struct pods *new_pods(struct registry *r)
{
	const struct pods_env env = { .registry = r };
	struct pods *pods;
	struct err e = { 0 };

	CHECK_OK(pods_new(&pods, &env, &e), e);
	return pods;
}

/* What `selector` finds, as "a b c"; or the error's name. */
static const char *found(const struct pods *pods, struct registry *r, const char *selector)
{
	static char text[256];
	struct pods_selection s;
	struct err e = { 0 };
	int rc = pods_select(pods, r, selector, NULL, &s, &e);

	if (rc) {
		CHECK(e.msg[0]);
		return err_name(rc);
	}
	text[0] = '\0';
	for (size_t i = 0; i < s.n_hosts; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? " " : "",
			 s.hosts[i]->name);
	pods_selection_release(&s);
	return text;
}

/* Without discovery. */
static void test_hosts(void)
{
	struct registry *r = registry_new(NULL);
	struct pods *pods = new_pods(r);
	struct host *h;

	CHECK_STR(found(pods, r, "all"), "not-found");
	h = registry_add(r, "tpu-2");
	host_add_label(h, "job", "train");
	host_add_label(h, "zone", "x");
	h = registry_add(r, "tpu-1");
	host_add_label(h, "job", "train");
	host_add_label(h, "eq", "a=b");
	registry_add(r, "cpu");

	CHECK_STR(found(pods, r, "all"), "cpu tpu-1 tpu-2");
	CHECK_STR(found(pods, r, "tpu-2"), "tpu-2");
	CHECK_STR(found(pods, r, "tpu-2,cpu,tpu-2"), "cpu tpu-2");
	CHECK_STR(found(pods, r, "tpu-2,gpu"), "not-found");
	CHECK_STR(found(pods, r, "job=train"), "tpu-1 tpu-2");
	CHECK_STR(found(pods, r, "job=train,zone=x"), "tpu-2");
	CHECK_STR(found(pods, r, "eq=a=b"), "tpu-1");
	CHECK_STR(found(pods, r, "job=trai"), "not-found");
	CHECK_STR(found(pods, r, "jo=train"), "not-found");
	CHECK_STR(found(pods, r, "job="), "not-found");
	CHECK_STR(found(pods, r, "all,cpu"), "not-found");
	CHECK_STR(found(pods, r, "job=train,cpu"), "not-found");
	CHECK_STR(found(pods, r, "job=train,tpu-1,cpu"), "tpu-1");
	CHECK_STR(found(pods, r, "tpu-*"), "tpu-1 tpu-2");
	CHECK_STR(found(pods, r, "tpu-?,cpu"), "cpu tpu-1 tpu-2");
	CHECK_STR(found(pods, r, "*,!tpu-1"), "cpu tpu-2");
	CHECK_STR(found(pods, r, "!tpu-*"), "cpu");
	CHECK_STR(found(pods, r, "!other"), "cpu tpu-1 tpu-2");
	CHECK_STR(found(pods, r, " ! job = tr*n "), "cpu");
	CHECK_STR(found(pods, r, "job!=train"), "cpu");
	CHECK_STR(found(pods, r, "!job!=train"), "tpu-1 tpu-2");
	CHECK_STR(found(pods, r, "zone in (x, y)"), "tpu-2");
	CHECK_STR(found(pods, r, "job=*,zone notin(x,y)"), "tpu-1");
	CHECK_STR(found(pods, r, "!zone in (x)"), "cpu tpu-1");
	CHECK_STR(found(pods, r, "node=cpu"), "cpu");
	CHECK_STR(found(pods, r, "node in (cpu,tpu-*),job=train"), "tpu-1 tpu-2");
	CHECK_STR(found(pods, r, "in,notin"), "not-found");
	CHECK_STR(found(pods, r, "=x"), "invalid");
	CHECK_STR(found(pods, r, ""), "invalid");
	CHECK_STR(found(pods, r, "cpu,"), "invalid");
	CHECK_STR(found(pods, r, ",cpu"), "invalid");
	CHECK_STR(found(pods, r, "a/b"), "invalid");
	CHECK_STR(found(pods, r, "../x"), "invalid");
	pods_free(pods);
	registry_free(r);
}

/* ---- pods ---- */

static void add_pod(struct pods *pods, const char *name, const char *node, const char *job,
		    int rank, const char *phase)
{
	json_t *doc = json_pack("{s:{s:s,s:s,s:s,s:{s:s,s:s,s:s}},s:{s:s},s:{s:s}}", "metadata",
				"uid", name, "name", name, "namespace", "jobs", "labels", "app",
				"web", "tutti.dev/job", job, "tutti.dev/rank", "", "spec",
				"nodeName", node, "status", "phase", phase);
	char text[16];
	struct pod *p;
	struct err e = { 0 };

	CHECK(doc);
	snprintf(text, sizeof(text), "%d", rank);
	json_object_set_new(json_object_get(json_object_get(doc, "metadata"), "labels"),
			    "tutti.dev/rank", json_string(text));
	/* the uid of these pods is their name in hexadecimal digits */
	CHECK_OK(pod_read(&p, doc, &e), e);
	pod_table_put(&pods->table, p);
	json_decref(doc);
}

/* The pods that `selector` names, as "a b(no host)"; "" after an error. */
static const char *found_pods(const struct pods *pods, struct registry *r, const char *selector)
{
	static char text[256];
	struct pods_selection s;
	struct err e = { 0 };

	text[0] = '\0';
	if (pods_select(pods, r, selector, NULL, &s, &e))
		return text;
	for (size_t i = 0; i < s.n_pods; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s%s", i ? " " : "",
			 s.pods[i].pod->name, s.pods[i].host ? "" : "(no host)");
	pods_selection_release(&s);
	return text;
}

static void test_pods(void)
{
	struct registry *r = registry_new(NULL);
	struct pods *pods = new_pods(r);
	struct host *h = registry_add(r, "other-name");

	host_add_label(h, "node", "n1");
	host_add_label(h, "zone", "x");
	registry_add(r, "n2");
	registry_add(r, "n3");
	pods->state = PODS_WATCHING;
	pods->was_listed = true;
	add_pod(pods, "a0", "n1", "train", 0, "Running");
	add_pod(pods, "a1", "n2", "train", 1, "Running");
	add_pod(pods, "a2", "n4", "train", 2, "Running"); /* no agent is there */
	add_pod(pods, "a3", "n2", "train", 1, "Succeeded");
	add_pod(pods, "b0", "n2", "serve", 0, "Pending");

	CHECK_STR(found(pods, r, "job=train"), "n2 other-name");
	CHECK_STR(found_pods(pods, r, "job=train"), "a0 a1 a2(no host)");
	CHECK_STR(found_pods(pods, r, "job=train,rank=1-9"), "a1 a2(no host)");
	CHECK_STR(found(pods, r, "job=train,!rank=0"), "n2");
	CHECK_STR(found_pods(pods, r, "job=train,zone=x"), "a0");
	CHECK_STR(found_pods(pods, r, "pod=?0,namespace=jobs"), "a0 b0");
	CHECK_STR(found_pods(pods, r, "node=n2,job=*"), "a1 b0");
	CHECK_STR(found(pods, r, "node=n1"), "other-name");
	CHECK_STR(found_pods(pods, r, "other-name,namespace=*"), "a0");
	CHECK_STR(found_pods(pods, r, "!n2,!n4,job=train"), "a0");
	CHECK_STR(found_pods(pods, r, "app in (web,db),node=n1,job=*"), "a0");
	CHECK_STR(found(pods, r, "app in (web,db)"), "n2 other-name");
	CHECK_STR(found(pods, r, "app=web,zone=x"), "other-name");
	CHECK_STR(found(pods, r, "app=web,zone!=x"), "n2");
	CHECK_STR(found(pods, r, "app=db"), "not-found");
	CHECK_STR(found(pods, r, "rank=2,job=train"), "not-found"); /* its node has no agent */
	CHECK_STR(found(pods, r, "!app=*"), "n2 n3 other-name"); /* hosts have no such label */
	CHECK_STR(found(pods, r, "all"), "n2 n3 other-name");
	CHECK_STR(found_pods(pods, r, "all"), ""); /* it asks for no pods */
	CHECK_STR(found_pods(pods, r, "app=web"), "");

	pod_table_begin_listing(&pods->table);
	add_pod(pods, "a1", "n3", "train", 1, "Running"); /* moved */
	pod_table_end_listing(&pods->table);
	CHECK_STR(found_pods(pods, r, "job=train"), "a1");
	CHECK_STR(found(pods, r, "job=train"), "n3");
	CHECK_EQ(pods->table.n, 1);
	pods->was_listed = false;
	CHECK_STR(found(pods, r, "job=other"), "busy");
	pod_table_remove(&pods->table, "a1");
	pod_table_remove(&pods->table, "a1");
	CHECK_EQ(pods->table.n, 0);
	CHECK_EQ(pods->table.bytes, 0);
	pods_free(pods);
	registry_free(r);
}

/* What a caller who may see these namespaces finds, as "a b: spaces"; or the error's sentence. */
static const char *found_within(const struct pods *pods, struct registry *r, const char *selector,
				const char *namespaces)
{
	static char text[600];
	struct pods_selection s;
	struct spaces within;
	struct err e = { 0 };

	CHECK_OK(spaces_parse(&within, namespaces, &e), e);
	text[0] = '\0';
	if (pods_select(pods, r, selector, &within, &s, &e)) {
		snprintf(text, sizeof(text), "%s", e.msg);
	} else {
		for (size_t i = 0; i < s.n_hosts; i++)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
				 i ? " " : "", s.hosts[i]->name);
		for (size_t i = 0; i < s.spaces.n; i++)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
				 i ? "," : ": ", s.spaces.names[i]);
		pods_selection_release(&s);
	}
	spaces_release(&within);
	return text;
}

/* A caller of some namespaces finds what is in them, and does not learn that there is more. */
static void test_within(void)
{
	struct registry *r = registry_new(NULL);
	struct pods *pods = new_pods(r);

	registry_add(r, "n1");
	registry_add(r, "n2");
	host_add_label(registry_add(r, "bare"), "namespace", "lab");
	host_add_label(registry_add(r, "other"), "namespace", "shop");
	registry_add(r, "shared");
	pods->state = PODS_WATCHING;
	pods->was_listed = true;
	add_pod(pods, "a0", "n1", "train", 0, "Running"); /* of the namespace jobs */

	CHECK_STR(found_within(pods, r, "all", "*"), "bare n1 n2 other shared");
	CHECK_STR(found_within(pods, r, "all", "jobs"), "n1: jobs");
	CHECK_STR(found_within(pods, r, "all", "lab"), "bare: lab");
	CHECK_STR(found_within(pods, r, "all", "jobs,lab"), "bare n1: jobs,lab");
	CHECK_STR(found_within(pods, r, "n1,bare", "jobs,lab"), "bare n1: jobs,lab");
	CHECK_STR(found_within(pods, r, "job=train", "jobs"), "n1: jobs");
	CHECK_STR(found_within(pods, r, "job=train", "lab"),
		  "no host and no pod matches 'job=train'");
	CHECK_STR(found_within(pods, r, "other", "lab"), "no host matches 'other'");
	CHECK_STR(found_within(pods, r, "none", "lab"), "no host matches 'none'");
	CHECK_STR(found_within(pods, r, "shared", "lab"), "no host matches 'shared'");
	pods_free(pods);
	registry_free(r);
}

/* Patterns and terms that would stop the loop are refused; names in any number are not. */
static void test_work(void)
{
	struct registry *r = registry_new(NULL);
	struct pods *pods = new_pods(r);
	struct buf patterns = BUF_INIT, terms = BUF_INIT, names = BUF_INIT;
	char name[32];

	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "host-%05d-aaaaaaaaaaaa", i);
		registry_add(r, name);
	}
	buf_add_str(&patterns, "pod in (x");
	buf_add_str(&names, "pod in (x");
	buf_add_str(&terms, "job=x");
	for (int i = 0; i < 200; i++) {
		buf_addf(&patterns, ",*??????????????????????????z%d", i);
		buf_addf(&names, ",abcdefghijklmnopqrstuvwxyz-%d", i);
		buf_addf(&terms, ",!job=%d", i);
	}
	buf_add_str(&patterns, ")");
	buf_add_str(&names, ")");
	CHECK_STR(found(pods, r, buf_str(&patterns)), "invalid");
	CHECK_STR(found(pods, r, buf_str(&terms)), "invalid");
	CHECK_STR(found(pods, r, buf_str(&names)), "not-found");
	CHECK_STR(found(pods, r, "host-0000?-*,!*1*,!*2*,!*3*,!*4*,!*5*,!*6*,!*7*,!*8*,!*9*"),
		  "host-00000-aaaaaaaaaaaa");
	buf_release(&patterns);
	buf_release(&names);
	buf_release(&terms);
	pods_free(pods);
	registry_free(r);
}

int main(void)
{
	test_hosts();
	test_pods();
	test_within();
	test_work();
	return 0;
}
