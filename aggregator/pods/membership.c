/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/pods/membership.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/json_text.h"

#define INDEX_MOST  1000000
#define NOT_KNOWN   -1
#define JOBSET	    "jobset.sigs.k8s.io/"
#define LWS	    "leaderworkerset.sigs.k8s.io/"
#define TRAINING    "training.kubeflow.org/"
#define BATCH	    "batch.kubernetes.io/"
#define BATCH_INDEX BATCH "job-completion-index"

/* The texts of a pod that say what it is a part of. */
struct texts_of_pod {
	const json_t *labels, *annotations, *owner;
};

/* A label, or the annotation of that name; "" if there is neither. */
static const char *get(const struct texts_of_pod *t, const char *key)
{
	const char *label = json_get_text(t->labels, key);

	return *label ? label : json_get_text(t->annotations, key);
}

static int64_t get_index(const struct texts_of_pod *t, const char *key)
{
	const char *text = get(t, key);
	size_t digits = strspn(text, "0123456789");

	if (!digits || digits > 7 || text[digits] || strtol(text, NULL, 10) > INDEX_MOST)
		return NOT_KNOWN;
	return strtol(text, NULL, 10);
}

static const json_t *find_owner(const json_t *metadata)
{
	const json_t *owners = json_object_get(metadata, "ownerReferences"), *owner;
	size_t i;

	json_array_foreach(owners, i, owner) if (json_get_bool(owner, "controller")) return owner;
	return NULL;
}

/* ---- ranks ---- */

static int64_t rank_in_own_words(const struct texts_of_pod *t)
{
	return get_index(t, "tutti.dev/rank");
}

static int64_t rank_in_job(const struct texts_of_pod *t)
{
	return get_index(t, BATCH_INDEX);
}

static int64_t rank_in_jobset(const struct texts_of_pod *t)
{
	int64_t pod = get_index(t, BATCH_INDEX), job = get_index(t, JOBSET "job-global-index");

	if (job == NOT_KNOWN)
		job = get_index(t, JOBSET "job-index");
	if (pod == NOT_KNOWN) /* not an indexed job: one pod each, or their order is not known */
		return job;
	return job <= 0 ? pod : NOT_KNOWN;
}

/* The master is rank 0, where there is one. */
static int64_t rank_in_training(const struct texts_of_pod *t)
{
	int64_t index = get_index(t, TRAINING "replica-index");
	bool is_pytorch = !strcmp(json_get_text(t->owner, "kind"), "PyTorchJob");

	if (index == NOT_KNOWN || strcmp(get(t, TRAINING "replica-type"), "worker"))
		return index;
	return is_pytorch ? index + 1 : index;
}

static int64_t rank_in_leader_worker_set(const struct texts_of_pod *t)
{
	int64_t group = get_index(t, LWS "group-index"), size = get_index(t, LWS "size");
	int64_t worker = get_index(t, LWS "worker-index");

	if (group == 0 || worker == NOT_KNOWN)
		return worker;
	return group == NOT_KNOWN || size == NOT_KNOWN ? NOT_KNOWN : group * size + worker;
}

static int64_t rank_in_volcano(const struct texts_of_pod *t)
{
	return get_index(t, "volcano.sh/task-index");
}

static int64_t rank_in_stateful_set(const struct texts_of_pod *t)
{
	return get_index(t, "apps.kubernetes.io/pod-index");
}

/* ---- the systems ---- */

/* The first row whose label the pod has, or whose kind its owner is, says what it is a part of. */
static const struct system {
	const char *label; /* with the job's name; NULL = the owner's name is the job's */
	const char *kind; /* of the owner, if it has no label; and what the job is called */
	int64_t (*rank)(const struct texts_of_pod *t); /* NULL = its pods have none */
} systems[] = {
	{ "tutti.dev/job", "job", rank_in_own_words },
	{ JOBSET "jobset-name", "JobSet", rank_in_jobset },
	{ TRAINING "job-name", "PyTorchJob", rank_in_training },
	{ LWS "name", "LeaderWorkerSet", rank_in_leader_worker_set },
	{ "ray.io/cluster", "RayCluster", NULL },
	{ "volcano.sh/job-name", "VolcanoJob", rank_in_volcano },
	{ BATCH "job-name", "Job", rank_in_job },
	{ "job-name", "Job", rank_in_job },
	{ NULL, "StatefulSet", rank_in_stateful_set },
};

static const char *job_in(const struct system *s, const struct texts_of_pod *t)
{
	if (s->label)
		return get(t, s->label);
	return strcmp(json_get_text(t->owner, "kind"), s->kind) ? ""
								: json_get_text(t->owner, "name");
}

/* Several kinds of jobs share the labels of the training operator: the owner says which it is. */
static const char *kind_in(const struct system *s, const struct texts_of_pod *t)
{
	const char *owner = json_get_text(t->owner, "kind");

	return s->rank == rank_in_training && *owner ? owner : s->kind;
}

void membership_read(struct membership *out, const json_t *metadata)
{
	const struct texts_of_pod t = { .labels = json_object_get(metadata, "labels"),
					.annotations = json_object_get(metadata, "annotations"),
					.owner = find_owner(metadata) };

	*out = (struct membership){ .job = "", .kind = "" };
	for (size_t i = 0; i < ARRAY_SIZE(systems); i++) {
		const struct system *s = &systems[i];
		int64_t rank = rank_in_own_words(&t);

		out->job = job_in(s, &t);
		if (!*out->job)
			continue;
		out->kind = kind_in(s, &t);
		if (rank == NOT_KNOWN && s->rank)
			rank = s->rank(&t);
		if (rank != NOT_KNOWN)
			snprintf(out->rank, sizeof(out->rank), "%" PRId64, rank);
		return;
	}
}
