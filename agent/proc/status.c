/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/status.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

#define THREADS_MAX 4096 /* threads of a process that are examined */
/* Most of it are groups: 65,536 with numbers of ten digits. */
#define STATUS_BYTES_MAX (1 << 20)

/* The numbers after `key`: the one in `column`, or the last if there are fewer. Returns how many of them were read. */
static int read_numbers(const char *status, const char *key, int column, unsigned long *out)
{
	const char *at = strstr(status, key);
	int n = 0;

	for (at = at ? at + strlen(key) : ""; n < column && *at && *at != '\n'; n++) {
		char *end;
		unsigned long v = strtoul(at, &end, 10);

		if (end == at)
			break;
		*out = v;
		at = end;
	}
	return n;
}

bool proc_status_read(const char *path, struct proc_status *out)
{
	unsigned long uid = UINT32_MAX, id = 0;
	struct buf text = BUF_INIT;
	int rc = file_load(path, STATUS_BYTES_MAX, &text, NULL);

	(void)read_numbers(buf_str(&text), "\nUid:", 2, &uid);
	out->is_nested = read_numbers(buf_str(&text), "\nNSpid:", INT_MAX, &id) > 1;
	out->uid = (uint32_t)uid;
	out->inner_id = id <= INT32_MAX ? (int32_t)id : 0;
	buf_release(&text);
	return !rc;
}

bool proc_status_of(uint32_t pid, struct proc_status *out)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	return proc_status_read(path, out);
}

int32_t proc_thread_of(int32_t pid, int32_t tid)
{
	char path[320];
	struct proc_status status;
	struct dirent *entry;
	int32_t found = tid;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/task", pid);
	dir = opendir(path);
	for (int i = 0; dir && i < THREADS_MAX && (entry = readdir(dir)); i++) {
		snprintf(path, sizeof(path), "/proc/%" PRId32 "/task/%s/status", pid,
			 entry->d_name);
		if (entry->d_name[0] != '.' && proc_status_read(path, &status) &&
		    status.inner_id == tid) {
			found = (int32_t)strtol(entry->d_name, NULL, 10);
			break;
		}
	}
	if (dir)
		closedir(dir);
	return found;
}
