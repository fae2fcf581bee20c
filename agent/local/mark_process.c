/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/local/mark_process.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/marks/marks.h"

/* The pid of a process's parent; 0 if the process has ended. */
static int32_t parent_of(int32_t pid)
{
	char path[40], line[512];
	const char *end = NULL;
	int32_t parent = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fgets(line, sizeof(line), f))
		end = strrchr(line, ')'); /* the name before it may hold anything */
	if (!end || sscanf(end + 1, " %*c %" SCNd32, &parent) != 1)
		parent = 0;
	fclose(f);
	return parent;
}

static bool has_thread(int32_t pid, int32_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/task/%" PRId32, pid, tid);
	return tid > 0 && !access(path, F_OK);
}

void mark_process_set(struct mark *mark, int32_t peer, int32_t pid, int32_t tid)
{
	bool is_parent = peer && pid > 0 && pid != peer && pid == parent_of(peer);

	mark->pid = is_parent ? pid : peer;
	mark->tid = has_thread(mark->pid, tid) ? tid : mark->pid;
}
