/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/cgroups/label.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/proc/cgroup_path.h"
#include "base/clean_text.h"

#define ID_SHOWN 12

/* The path, or its end. */
static void label_by_path(const char *path, char label[CGROUP_LABEL_BYTES])
{
	size_t len = strlen(path), max = CGROUP_LABEL_BYTES - 1;
	char text[CGROUP_LABEL_BYTES];

	if (len > max)
		snprintf(text, sizeof(text), "...%s", path + len - (max - 3));
	else
		snprintf(text, sizeof(text), "%s", path);
	clean_text(label, CGROUP_LABEL_BYTES, text, strlen(text));
}

static bool is_slice(const char *path)
{
	static const char end[] = ".slice";
	size_t len = strlen(path), end_len = strlen(end);

	while (len && path[len - 1] == '/')
		len--;
	return len >= end_len && !memcmp(path + len - end_len, end, end_len);
}

enum cgroup_kind cgroup_label(const char *path, char label[CGROUP_LABEL_BYTES])
{
	struct cgroup_owner o;

	cgroup_path_read(&o, path);
	if (o.leaf && *o.pod)
		snprintf(label, CGROUP_LABEL_BYTES, "pod %s/%.*s", o.pod, ID_SHOWN, o.leaf);
	else if (o.leaf)
		snprintf(label, CGROUP_LABEL_BYTES, "container %.*s", ID_SHOWN, o.leaf);
	else if (o.is_pod)
		snprintf(label, CGROUP_LABEL_BYTES, "pod %s", o.pod);
	else
		label_by_path(path, label);
	if (o.leaf)
		return CGROUP_CONTAINER;
	if (o.is_pod)
		return CGROUP_POD;
	return is_slice(path) ? CGROUP_SLICE : CGROUP_OTHER;
}
