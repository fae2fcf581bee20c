/* SPDX-License-Identifier: Apache-2.0 */
/* CPU time of selectors over the pods of a cluster: pods_bench PODS HOSTS REPEATS. See tests/bench/pods. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "aggregator/fleet/registry.h"
#include "aggregator/pods/pods_impl.h"
#include "base/mem.h"
#include "base/now.h"

#define GOAL_MS	      5
#define RANKS	      100 /* of each job */
#define REPEATS_MOST  1000
#define NAMESPACES    10
#define ELSEWHERE_PER 50 /* one pod of so many is on a node without an agent */

static const char *const selectors[] = {
	"all",
	"host-*,!host-00007",
	"job=job-3",
	"job=job-3,rank=0-7",
	"namespace=team-*", /* all pods */
	"namespace=team-*,job=job-*,app in (web,train),pod=job-*", /* all pods, by four terms */
	"zone=z1,job=*,rank in (0-7,12),namespace!=team-3", /* the hosts' label first */
	"!job=job-3,zone in (z1,z2),app=train,rank=0-50",
	"tier=gold,shelf=7,row!=3,zone=*", /* labels that no pod has */
};

static int fail(const char *what, const struct err *e)
{
	fprintf(stderr, "pods_bench: %s: %s\n", what, e->msg);
	return 1;
}

static void add_hosts(struct registry *r, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char name[32], zone[16];
		struct host *h;

		snprintf(name, sizeof(name), "host-%05zu", i);
		h = registry_add(r, name);
		snprintf(name, sizeof(name), "n%zu", i);
		snprintf(zone, sizeof(zone), "z%zu", i % 4);
		host_add_label(h, "rack", name);
		host_add_label(h, "zone", zone);
		host_add_label(h, "tier", i % 2 ? "gold" : "silver");
		host_add_label(h, "shelf", "7");
		host_add_label(h, "row", zone + 1);
		host_add_label(h, "node", name);
	}
}

static int add_pod(struct pods *pods, size_t i, size_t n_hosts, struct err *e)
{
	char uid[48], name[64], space[32], job[32], rank[16], node[32];
	struct pod *p;
	json_t *doc;
	int rc;

	snprintf(uid, sizeof(uid), "%08zx-0000-4000-8000-0123456789ab", i);
	snprintf(job, sizeof(job), "job-%zu", i / RANKS);
	snprintf(rank, sizeof(rank), "%zu", i % RANKS);
	snprintf(name, sizeof(name), "%s-%s-x%03zu", job, rank, i * 7 % 1000);
	snprintf(space, sizeof(space), "team-%zu", i / RANKS % NAMESPACES);
	snprintf(node, sizeof(node), i % ELSEWHERE_PER ? "n%zu" : "other-%zu", i % n_hosts);
	doc = json_pack("{s:{s:s,s:s,s:s,s:{s:s,s:s,s:s,s:s}},s:{s:s},s:{s:s,s:s}}", "metadata",
			"uid", uid, "name", name, "namespace", space, "labels", "app", "train",
			"pod-template-hash", "5d9c7b8f4", "batch.kubernetes.io/job-name", job,
			"batch.kubernetes.io/job-completion-index", rank, "spec", "nodeName", node,
			"status", "phase", "Running", "podIP", "10.0.0.9");
	rc = pod_read(&p, doc, e);
	json_decref(doc);
	if (!rc)
		pod_table_put(&pods->table, p);
	return rc;
}

static int64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static int compare_times(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* 1 if the median is above the goal. */
static int measure(const struct pods *pods, struct registry *r, const char *selector,
		   size_t repeats)
{
	int64_t times[REPEATS_MOST];
	size_t n_hosts = 0, n_pods = 0;
	double median_ms;

	for (size_t i = 0; i < repeats; i++) {
		int64_t begin_ns = cpu_ns();
		struct pods_selection s;
		struct err e = { 0 };

		if (pods_select(pods, r, selector, NULL, &s, &e))
			return fail(selector, &e);
		n_hosts = s.n_hosts;
		n_pods = s.n_pods;
		pods_selection_release(&s);
		times[i] = cpu_ns() - begin_ns;
	}
	sort_array(times, repeats, sizeof(times[0]), compare_times);
	median_ms = (double)times[repeats / 2] / NS_PER_MS;
	printf("%-58s %6zu %6zu %8.2f %8.2f%s\n", selector, n_hosts, n_pods, median_ms,
	       (double)times[repeats - 1] / NS_PER_MS, median_ms > GOAL_MS ? "  MISSED" : "");
	return median_ms > GOAL_MS;
}

static size_t number(const char *text)
{
	return strtoul(text, NULL, 10);
}

int main(int argc, char **argv)
{
	struct registry *r = registry_new(NULL);
	const struct pods_env env = { .registry = r };
	struct pods *pods;
	struct err e = { 0 };
	size_t n_pods, n_hosts, repeats;
	int missed = 0;

	if (argc != 4)
		return err_set(&e, ERR_INVALID, "use: PODS HOSTS REPEATS"), fail("arguments", &e);
	n_pods = number(argv[1]);
	n_hosts = number(argv[2]);
	repeats = number(argv[3]);
	if (!n_hosts || !repeats || repeats > REPEATS_MOST)
		return err_set(&e, ERR_INVALID, "1 to %d repeats, 1 host or more", REPEATS_MOST),
		       fail("arguments", &e);
	if (pods_new(&pods, &env, &e))
		return fail("pods_new", &e);
	add_hosts(r, n_hosts);
	for (size_t i = 0; i < n_pods; i++)
		if (add_pod(pods, i, n_hosts, &e))
			return fail("add_pod", &e);
	printf("%zu pods (%.1f MB), %zu hosts\n%-58s %6s %6s %8s %8s\n", pods->table.n,
	       (double)pods->table.bytes / 1e6, n_hosts, "selector", "hosts", "pods", "CPU ms",
	       "most");
	for (size_t i = 0; i < ARRAY_SIZE(selectors); i++)
		missed |= measure(pods, r, selectors[i], repeats);
	pods_free(pods);
	registry_free(r);
	return missed;
}
