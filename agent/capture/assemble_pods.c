/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/capture/assemble_pods.h"

#include <stdlib.h>

#include "base/buf.h"

static void add(struct xs_known *out, size_t *n, const char *name, const char *text)
{
	if (*text)
		out[(*n)++] = (struct xs_known){ .name = name, .text = text };
}

size_t assemble_process(const struct pod_view *pods, int64_t pid,
			struct xs_known out[XS_KNOWN_MOST])
{
	struct process_pod found;
	size_t n = 0;

	if (!pod_view_find(pods, pid, &found))
		return 0;
	add(out, &n, "pod", found.pod->name);
	add(out, &n, "container", found.container);
	add(out, &n, "namespace", found.pod->space);
	add(out, &n, "job", found.pod->job);
	if (*found.pod->rank)
		out[n++] = (struct xs_known){ .name = "rank",
					      .number = strtoll(found.pod->rank, NULL, 10) };
	add(out, &n, "node", pod_view_node(pods));
	return n;
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
