/* SPDX-License-Identifier: Apache-2.0 */
/* Pods as each system makes them: what they are a part of, and as which rank. */
#include "aggregator/pods/pod.h"
#include "base/mem.h"
#include "json/json_text.h"

#include "tests/lib/check.h"

static const struct {
	const char *metadata, *expected;
} rows[] = {
	{ "{}", "//" },
	{ "{'labels': {'app': 'web'}}", "//" },
	{ "{'labels': {'tutti.dev/job': 'mine', 'tutti.dev/rank': '3', 'job-name': 'x'}}",
	  "mine/job/3" },
	{ "{'annotations': {'tutti.dev/job': 'mine'}}", "mine/job/" },
	{ "{'labels': {'jobset.sigs.k8s.io/jobset-name': 'js', 'jobset.sigs.k8s.io/job-index': '0',"
	  " 'batch.kubernetes.io/job-name': 'js-workers-0',"
	  " 'batch.kubernetes.io/job-completion-index': '5'}}",
	  "js/JobSet/5" },
	{ "{'labels': {'jobset.sigs.k8s.io/jobset-name': 'js', 'jobset.sigs.k8s.io/job-index': '1',"
	  " 'batch.kubernetes.io/job-completion-index': '5'}}",
	  "js/JobSet/" },
	{ "{'labels': {'jobset.sigs.k8s.io/jobset-name': 'js',"
	  " 'jobset.sigs.k8s.io/job-global-index': '7'}}",
	  "js/JobSet/7" },
	{ "{'labels': {'training.kubeflow.org/job-name': 'pt', "
	  "'training.kubeflow.org/replica-index': '0',"
	  " 'training.kubeflow.org/replica-type': 'master'},"
	  " 'ownerReferences': [{'kind': 'PyTorchJob', 'name': 'pt', 'controller': true}]}",
	  "pt/PyTorchJob/0" },
	{ "{'labels': {'training.kubeflow.org/job-name': 'pt', "
	  "'training.kubeflow.org/replica-index': '2',"
	  " 'training.kubeflow.org/replica-type': 'worker'},"
	  " 'ownerReferences': [{'kind': 'PyTorchJob', 'name': 'pt', 'controller': true}]}",
	  "pt/PyTorchJob/3" },
	{ "{'labels': {'training.kubeflow.org/job-name': 'tf', "
	  "'training.kubeflow.org/replica-index': '2',"
	  " 'training.kubeflow.org/replica-type': 'worker'},"
	  " 'ownerReferences': [{'kind': 'TFJob', 'name': 'tf', 'controller': true}]}",
	  "tf/TFJob/2" },
	{ "{'labels': {'leaderworkerset.sigs.k8s.io/name': 'lws',"
	  " 'leaderworkerset.sigs.k8s.io/group-index': '2',"
	  " 'leaderworkerset.sigs.k8s.io/worker-index': '1'},"
	  " 'annotations': {'leaderworkerset.sigs.k8s.io/size': '4'}}",
	  "lws/LeaderWorkerSet/9" },
	{ "{'labels': {'ray.io/cluster': 'ray'}}", "ray/RayCluster/" },
	{ "{'labels': {'volcano.sh/job-name': 'v', 'volcano.sh/task-index': '3'}}",
	  "v/VolcanoJob/3" },
	{ "{'labels': {'batch.kubernetes.io/job-name': 'train',"
	  " 'batch.kubernetes.io/job-completion-index': '2'}}",
	  "train/Job/2" },
	{ "{'labels': {'job-name': 'old'}, 'annotations': "
	  "{'batch.kubernetes.io/job-completion-index':"
	  " '1'}}",
	  "old/Job/1" },
	{ "{'labels': {'apps.kubernetes.io/pod-index': '4'},"
	  " 'ownerReferences': [{'kind': 'StatefulSet', 'name': 'db', 'controller': true}]}",
	  "db/StatefulSet/4" },
	{ "{'ownerReferences': [{'kind': 'ReplicaSet', 'name': 'web-1', 'controller': true}]}",
	  "//" },
	{ "{'labels': {'job-name': 'x', 'batch.kubernetes.io/job-completion-index': '-1'}}",
	  "x/Job/" },
	{ "{'labels': {'job-name': 'x', 'batch.kubernetes.io/job-completion-index': '99999999'}}",
	  "x/Job/" },
};

static struct pod *read_pod(const char *text)
{
	char *quoted = xstrdup(text);
	json_t *doc;
	struct pod *p = NULL;
	struct err e = { 0 };

	for (char *c = quoted; *c; c++)
		*c = *c == '\'' ? '"' : *c;
	CHECK_OK(json_parse(&doc, quoted, strlen(quoted), &e), e);
	if (pod_read(&p, doc, &e))
		CHECK_EQ(e.code, ERR_PEER);
	json_decref(doc);
	free(quoted);
	return p;
}

static void test_systems(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char *text = xasprintf(
			"{'metadata': %.*s%s'uid': '%zx', 'name': 'p', 'namespace': 'n'}}",
			(int)strlen(rows[i].metadata) - 1, rows[i].metadata,
			strlen(rows[i].metadata) > 2 ? ", " : "", i);
		struct pod *p = read_pod(text);
		char found[200];

		CHECK(p);
		snprintf(found, sizeof(found), "%s/%s/%s", p->job, p->kind, p->rank);
		CHECK_STR(found, rows[i].expected);
		pod_unref(p);
		free(text);
	}
}

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_pod(void)
{
	struct pod *p = read_pod(
		"{'metadata': {'uid': '3f2c1a2b-0000', 'name': 'p', 'namespace': 'n', 'labels': "
		"{'a': 'b',"
		" 'c': 3}, 'annotations': {'tutti.dev/profile': 'false', "
		"'tutti.dev/profiler-port': '9012'},"
		" 'deletionTimestamp': '2026-11-22T00:00:00Z'}, 'spec': {'nodeName': 'n1'},"
		" 'status': {'phase': 'Running', 'podIP': '10.0.0.7', 'containerStatuses': "
		"[{'name': 'main',"
		" 'containerID': 'containerd://" ID "', 'restartCount': 2}, {'name': 'side',"
		" 'containerID': 'docker://xyz', 'restartCount': -1}]}}");

	CHECK_STR(p->uid, "3f2c1a2b-0000");
	CHECK_STR(p->node, "n1");
	CHECK_STR(p->ip, "10.0.0.7");
	CHECK(p->is_ending && p->opted_out && !p->is_over);
	CHECK_EQ(p->profiler_port, 9012);
	CHECK_EQ(p->n_labels, 1);
	CHECK_STR(pod_label(p, "a"), "b");
	CHECK(!pod_label(p, "c"));
	CHECK_EQ(p->n_containers, 2);
	CHECK_STR(p->containers[0].id, ID);
	CHECK_STR(p->containers[1].id, "");
	CHECK_EQ(pod_restarts(p), 2);
	pod_unref(p);
	CHECK(!read_pod("{'metadata': {'uid': '', 'name': 'p', 'namespace': 'n'}}"));
	CHECK(!read_pod("{'metadata': {'uid': '../x', 'name': 'p', 'namespace': 'n'}}"));
	CHECK(!read_pod("{'metadata': {'uid': 'a', 'name': 'p'}}"));
	CHECK(!read_pod("[]"));
}

#define K63	    "abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz.012345678"
#define LONGEST_KEY K63 K63 K63 K63 "a/" K63

/* Labels as long as Kubernetes has them are kept. */
static void test_longest_label(void)
{
	struct pod *p = read_pod("{'metadata': {'uid': 'a', 'name': 'p', 'namespace': 'n', "
				 "'labels': {'" LONGEST_KEY "': '" K63 "'}}}");

	CHECK_EQ(strlen(LONGEST_KEY), 253 + 1 + 63);
	CHECK_STR(pod_label(p, LONGEST_KEY), K63);
	pod_unref(p);
}

int main(void)
{
	test_longest_label();
	test_systems();
	test_pod();
	return 0;
}
