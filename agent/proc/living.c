/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/living.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS_MAX \
	64 /* threads that are examined: one that has ended vanishes at once, but for the main one */

/* A thread without memory has no executable. Without a permission the answer is yes. */
static bool is_alive(uint32_t id)
{
	char path[32], exe;

	snprintf(path, sizeof(path), "/proc/%u/exe", id);
	return readlink(path, &exe, sizeof(exe)) >= 0 || (errno != ENOENT && errno != ESRCH);
}

/* A thread that is left beside the first one; 0 if there is none. False if the process is not to be seen. */
static bool find_other(uint32_t pid, uint32_t *found)
{
	struct dirent *entry;
	char path[32];
	DIR *dir;

	*found = 0;
	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	dir = opendir(path);
	for (int i = 0; dir && !*found && i < THREADS_MAX && (entry = readdir(dir)); i++) {
		uint32_t id = (uint32_t)strtoul(entry->d_name, NULL, 10);

		if (id && id != pid && is_alive(id))
			*found = id;
	}
	if (dir)
		closedir(dir);
	return dir;
}

uint32_t proc_living(uint32_t pid)
{
	uint32_t found;

	if (is_alive(pid))
		return pid;
	(void)find_other(pid, &found);
	return found ? found : pid;
}

bool proc_has_ended(uint32_t pid)
{
	uint32_t found;

	if (kill((pid_t)pid, 0) && errno == ESRCH)
		return true;
	return !is_alive(pid) && find_other(pid, &found) && !found;
}
