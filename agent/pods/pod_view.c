/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/pods/pod_view.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/pods/socket_owner.h"
#include "agent/proc/cgroup_path.h"
#include "base/clean_text.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/pods_check.h"

#define PROCESSES_MAX ((size_t)65536)
#define ENDED_MAX     ((size_t)4096)
#define YOUNG_LOOKS \
	3 /* a runtime moves a container's first process into its cgroup after its begin */
#define ENDED_KEEP_NS (300 * NS_PER_S) /* longer than rings reach back */

/* ---- pods ---- */

struct pod_set {
	_Atomic unsigned int refs;
	Tutti__V1__Pods *message; /* has the texts of `pods` */
	struct local_pod *pods;
	size_t n;
	bool any_opted_out;
};

struct pod_set *pod_set_new(Tutti__V1__Pods *m_taken)
{
	struct pod_set *s = xcalloc(1, sizeof(*s));

	s->refs = 1;
	s->message = m_taken;
	s->n = m_taken->n_pods;
	s->pods = xcalloc(s->n + 1, sizeof(*s->pods));
	for (size_t i = 0; i < s->n; i++) {
		const Tutti__V1__Pod *p = m_taken->pods[i];

		s->pods[i] = (struct local_pod){ .uid = p->uid,
						 .name = p->name,
						 .space = p->namespace_,
						 .job = p->job,
						 .rank = p->rank,
						 .opted_out = p->opted_out,
						 .address = p->address,
						 .profiler_port = (int)p->profiler_port,
						 .containers = (const char **)p->containers,
						 .n_containers = p->n_containers };
		s->any_opted_out |= p->opted_out;
	}
	return s;
}

struct pod_set *pod_set_hold(struct pod_set *s)
{
	s->refs++;
	return s;
}

void pod_set_release(struct pod_set *s)
{
	if (!s || --s->refs)
		return;
	tutti__v1__pods__free_unpacked(s->message, NULL);
	free(s->pods);
	free(s);
}

size_t pod_set_count(const struct pod_set *s)
{
	return s->n;
}

/* ---- views ---- */

struct process {
	int64_t pid;
	int64_t ended_mono_ns; /* 0 = it was there at the last look */
	unsigned int looks; /* that read its cgroup; no further ones do after YOUNG_LOOKS */
	struct cgroup_owner owner; /* without a pod and a container: of none */
};

struct pod_view {
	_Atomic unsigned int refs;
	char *proc;
	struct pod_set *set;
	struct process *processes; /* in order of pid */
	size_t n;
	int64_t *profilers; /* by the place of their pods; 0 = not known */
};

struct pod_view *pod_view_hold(struct pod_view *v)
{
	if (v)
		v->refs++;
	return v;
}

void pod_view_release(struct pod_view *v)
{
	if (!v || --v->refs)
		return;
	pod_set_release(v->set);
	free(v->processes);
	free(v->profilers);
	free(v->proc);
	free(v);
}

const char *pod_view_node(const struct pod_view *v)
{
	return v ? v->set->message->node : "";
}

const struct local_pod *pod_view_pods(const struct pod_view *v, size_t *n)
{
	*n = v ? v->set->n : 0;
	return v ? v->set->pods : NULL;
}

int64_t pod_view_profiler(const struct pod_view *v, size_t i)
{
	return v->profilers[i];
}

/* ---- questions ---- */

static int by_pid(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static const struct process *find_process(const struct pod_view *v, int64_t pid)
{
	const struct process key = { .pid = pid };

	return v->n ? bsearch(&key, v->processes, v->n, sizeof(key), by_pid) : NULL;
}

/* A container's id says more: a process may see its cgroup without the folder of its pod. */
static bool find_pod(const struct pod_set *s, const struct cgroup_owner *o, struct process_pod *out)
{
	for (size_t i = 0; i < s->n && *o->container; i++) {
		const struct local_pod *p = &s->pods[i];

		for (size_t k = 0; k < p->n_containers; k++) {
			if (strncmp(p->containers[k], o->container, POD_CONTAINER_ID_CHARS))
				continue;
			*out = (struct process_pod){ p, p->containers[k] + POD_CONTAINER_ID_CHARS +
								1 };
			return true;
		}
	}
	for (size_t i = 0; i < s->n && *o->pod; i++) {
		if (strcmp(s->pods[i].uid, o->pod))
			continue;
		*out = (struct process_pod){ &s->pods[i], "" };
		return true;
	}
	return false;
}

enum knowledge { IS_OF_POD, IS_OF_NONE, IS_NOT_KNOWN };

static enum knowledge look_up(const struct pod_view *v, int64_t pid, struct process_pod *out)
{
	const struct process *p = find_process(v, pid);
	struct cgroup_owner now;

	if (p)
		return find_pod(v->set, &p->owner, out) ? IS_OF_POD : IS_OF_NONE;
	if (cgroup_of_process(&now, v->proc, pid))
		return find_pod(v->set, &now, out) ? IS_OF_POD : IS_OF_NONE;
	return now.is_there ? IS_OF_NONE : IS_NOT_KNOWN;
}

bool pod_view_find(const struct pod_view *v, int64_t pid, struct process_pod *out)
{
	return v && pid > 0 && look_up(v, pid, out) == IS_OF_POD;
}

bool pod_view_hides(const struct pod_view *v, int64_t pid)
{
	struct process_pod found;

	if (!v || !v->set->any_opted_out)
		return false;
	switch (pid > 0 ? look_up(v, pid, &found) : IS_NOT_KNOWN) {
	case IS_OF_POD:
		return found.pod->opted_out;
	case IS_NOT_KNOWN:
		return true;
	default:
		return false;
	}
}

void pod_view_title(const struct pod_view *v, int64_t pid, char out[POD_TITLE_BYTES])
{
	struct process_pod found;
	char text[512];

	out[0] = '\0';
	if (!pod_view_find(v, pid, &found))
		return;
	snprintf(text, sizeof(text), "%s%s%s", found.pod->name, *found.pod->rank ? " rank " : "",
		 found.pod->rank);
	clean_text(out, POD_TITLE_BYTES, text, strlen(text));
}

/* ---- making one ---- */

static void add(struct pod_view *v, size_t *cap, const struct process *p)
{
	if (v->n == *cap) {
		*cap = *cap ? 2 * *cap : 256;
		v->processes = xrealloc(v->processes, *cap * sizeof(*v->processes));
	}
	v->processes[v->n++] = *p;
}

/* The processes that are there, in order of pid: with what `before` knew of them, or what their cgroups say. */
static void add_present(struct pod_view *v, size_t *cap, const struct pod_view *before)
{
	DIR *dir = opendir(v->proc);
	struct dirent *entry;

	while (dir && v->n < PROCESSES_MAX && (entry = readdir(dir))) {
		struct process p = { .pid = strtoll(entry->d_name, NULL, 10) };
		const struct process *known = before ? find_process(before, p.pid) : NULL;

		if (p.pid <= 0)
			continue;
		if (known && !known->ended_mono_ns)
			p = *known;
		if (p.looks == YOUNG_LOOKS) {
			add(v, cap, &p);
			continue;
		}
		p.looks++;
		if (!cgroup_of_process(&p.owner, v->proc, p.pid) && !p.owner.is_there)
			continue;
		add(v, cap, &p);
	}
	if (dir)
		closedir(dir);
	sort_array(v->processes, v->n, sizeof(*v->processes), by_pid);
}

static void add_ended(struct pod_view *v, size_t *cap, const struct pod_view *before,
		      int64_t now_mono_ns)
{
	size_t present = v->n, ended = 0;

	for (size_t i = 0; before && i < before->n && ended < ENDED_MAX; i++) {
		struct process p = before->processes[i];
		const struct process key = { .pid = p.pid };

		if (!p.ended_mono_ns)
			p.ended_mono_ns = now_mono_ns;
		if ((!*p.owner.pod && !*p.owner.container) ||
		    now_mono_ns - p.ended_mono_ns > ENDED_KEEP_NS ||
		    (present && bsearch(&key, v->processes, present, sizeof(key), by_pid)))
			continue;
		add(v, cap, &p);
		ended++;
	}
	sort_array(v->processes, v->n, sizeof(*v->processes), by_pid);
}

/* The process of `before` if it is there still: then a socket of it is, too, or its pod has ended. */
static int64_t find_known_profiler(const struct pod_view *v, const struct pod_view *before,
				   const struct local_pod *pod)
{
	const struct process *p;

	for (size_t i = 0; before && i < before->set->n; i++) {
		const struct local_pod *its = &before->set->pods[i];

		if (strcmp(its->uid, pod->uid) || its->profiler_port != pod->profiler_port)
			continue;
		p = find_process(v, before->profilers[i]);
		return p && !p->ended_mono_ns ? p->pid : 0;
	}
	return 0;
}

static int64_t find_profiler(const struct pod_view *v, const struct local_pod *pod)
{
	int64_t *pids = xcalloc(v->n + 1, sizeof(*pids)), owner;
	struct process_pod of;
	size_t n = 0;

	for (size_t i = 0; i < v->n; i++)
		if (!v->processes[i].ended_mono_ns &&
		    find_pod(v->set, &v->processes[i].owner, &of) && of.pod == pod)
			pids[n++] = v->processes[i].pid;
	owner = socket_owner(v->proc, pids, n, pod->profiler_port);
	free(pids);
	return owner;
}

static void find_profilers(struct pod_view *v, const struct pod_view *before)
{
	v->profilers = xcalloc(v->set->n + 1, sizeof(*v->profilers));
	for (size_t i = 0; i < v->set->n; i++) {
		const struct local_pod *pod = &v->set->pods[i];

		if (!pod->profiler_port || pod->opted_out)
			continue;
		v->profilers[i] = find_known_profiler(v, before, pod);
		if (!v->profilers[i])
			v->profilers[i] = find_profiler(v, pod);
	}
}

struct pod_view *pod_view_make(struct pod_set *pods, const struct pod_view *before,
			       const char *proc, int64_t now_mono_ns)
{
	struct pod_view *v = xcalloc(1, sizeof(*v));
	size_t cap = 0;

	v->refs = 1;
	v->proc = xstrdup(proc);
	v->set = pod_set_hold(pods);
	add_present(v, &cap, before);
	add_ended(v, &cap, before, now_mono_ns);
	find_profilers(v, before);
	return v;
}
