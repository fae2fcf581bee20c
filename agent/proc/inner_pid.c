/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/inner_pid.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 4096 /* threads of a process that are examined */

int32_t proc_parse_inner_pid(const char *status)
{
	const char *at = strncmp(status, "NSpid:", 6) ? strstr(status, "\nNSpid:") : status;
	long pid = 0;
	char *end;

	if (!at)
		return 0;
	at = strchr(at, ':') + 1;
	while (*at == ' ' || *at == '\t') {
		long next = strtol(at, &end, 10);

		if (end == at)
			break;
		pid = next;
		at = end;
	}
	return pid > 0 && pid <= INT32_MAX ? (int32_t)pid : 0;
}

static int32_t read_status(const char *path)
{
	char text[4096];
	FILE *f = fopen(path, "re");

	if (!f)
		return 0;
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	return proc_parse_inner_pid(text);
}

int32_t proc_inner_pid(int32_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/status", pid);
	return read_status(path);
}

int32_t proc_thread_of(int32_t pid, int32_t tid)
{
	char path[320];
	struct dirent *entry;
	int32_t found = tid;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/task", pid);
	dir = opendir(path);
	for (int i = 0; dir && i < THREADS_MAX && (entry = readdir(dir)); i++) {
		snprintf(path, sizeof(path), "/proc/%" PRId32 "/task/%s/status", pid,
			 entry->d_name);
		if (entry->d_name[0] != '.' && read_status(path) == tid) {
			found = (int32_t)strtol(entry->d_name, NULL, 10);
			break;
		}
	}
	if (dir)
		closedir(dir);
	return found;
}
