/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/pods/socket_owner.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/proc/listeners.h"
#include "base/mem.h"

static bool has_socket(const char *proc, int64_t pid, uint64_t inode)
{
	char *path = xasprintf("%s/%" PRId64 "/fd", proc, pid);
	DIR *dir = opendir(path);
	struct dirent *entry;
	bool found = false;

	free(path);
	while (dir && !found && (entry = readdir(dir))) {
		char link[64];
		uint64_t its;
		ssize_t len = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

		link[len < 0 ? 0 : len] = '\0';
		found = sscanf(link, "socket:[%" SCNu64 "]", &its) == 1 && its == inode;
	}
	if (dir)
		closedir(dir);
	return found;
}

static int64_t find_owner(const char *proc, const int64_t *pids, size_t n, uint64_t inode)
{
	for (size_t i = 0; i < n; i++)
		if (has_socket(proc, pids[i], inode))
			return pids[i];
	return 0;
}

int64_t socket_owner(const char *proc, const int64_t *pids, size_t n, int port)
{
	struct listener_list list;
	int64_t owner = 0;
	char *root;
	int rc;

	if (!n)
		return 0;
	root = xasprintf("%s/%" PRId64, proc, pids[0]);
	rc = listeners_read(root, &list, NULL);
	free(root);
	if (rc)
		return 0;
	for (size_t i = 0; i < list.n && !owner; i++)
		if (list.v[i].port == port)
			owner = find_owner(proc, pids, n, list.v[i].inode);
	free(list.v);
	return owner;
}
