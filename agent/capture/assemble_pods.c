/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/capture/assemble_pods.h"

#include <stdlib.h>

#include "agent/proc/slurm_task.h"
#include "base/buf.h"
#include "base/mem.h"

struct known_process {
	int64_t pid;
	bool has_pod, has_task;
	struct process_pod pod;
	struct slurm_task task;
};

void known_processes_release(struct known_processes *known)
{
	for (size_t i = 0; i < known->n; i++)
		free(known->v[i]);
	free(known->v);
	*known = (struct known_processes){ .v = NULL };
}

static const struct known_process *find(struct known_processes *known, const struct pod_view *pods,
					int64_t pid)
{
	struct known_process *p;

	for (size_t i = 0; i < known->n; i++)
		if (known->v[i]->pid == pid)
			return known->v[i];
	p = xcalloc(1, sizeof(*p));
	p->pid = pid;
	p->has_pod = pod_view_find(pods, pid, &p->pod);
	p->has_task = !p->has_pod && slurm_task_of_process(&p->task, "/proc", pid);
	known->v = xrealloc(known->v, (known->n + 1) * sizeof(*known->v));
	known->v[known->n++] = p;
	return p;
}

static void add(struct xs_known *out, size_t *n, const char *name, const char *text)
{
	if (*text)
		out[(*n)++] = (struct xs_known){ .name = name, .text = text };
}

static size_t add_pod(const struct process_pod *p, const char *node, struct xs_known *out)
{
	size_t n = 0;

	add(out, &n, "pod", p->pod->name);
	add(out, &n, "container", p->container);
	add(out, &n, "namespace", p->pod->space);
	add(out, &n, "job", p->pod->job);
	if (*p->pod->rank)
		out[n++] = (struct xs_known){ .name = "rank",
					      .number = strtoll(p->pod->rank, NULL, 10) };
	add(out, &n, "node", node);
	return n;
}

static size_t add_task(const struct slurm_task *t, struct xs_known *out)
{
	size_t n = 0;

	add(out, &n, "job", t->job);
	if (t->rank >= 0)
		out[n++] = (struct xs_known){ .name = "rank", .number = t->rank };
	add(out, &n, "node", t->node);
	add(out, &n, "nodes", t->nodes);
	return n;
}

size_t assemble_process(struct known_processes *known, const struct pod_view *pods, int64_t pid,
			struct xs_known out[XS_KNOWN_MOST])
{
	const struct known_process *p = find(known, pods, pid);

	if (p->has_pod)
		return add_pod(&p->pod, pod_view_node(pods), out);
	return p->has_task ? add_task(&p->task, out) : 0;
}

/* "ml/train-0 (job train, rank 0)", a line each; pods that are part of nothing are left out. */
void assemble_pods(const struct pod_view *pods, struct xs_builder *b)
{
	struct buf text = BUF_INIT;
	size_t n;
	const struct local_pod *v = pod_view_pods(pods, &n);

	if (!n)
		return;
	if (*pod_view_node(pods))
		xs_stat_str(b, "node", pod_view_node(pods));
	for (size_t i = 0; i < n; i++) {
		if (!*v[i].job)
			continue;
		buf_addf(&text, "%s%s/%s (job %s%s%s)", text.len ? ", " : "", v[i].space, v[i].name,
			 v[i].job, *v[i].rank ? ", rank " : "", v[i].rank);
	}
	if (text.len)
		xs_stat_str(b, "pods", buf_str(&text));
	buf_release(&text);
}
