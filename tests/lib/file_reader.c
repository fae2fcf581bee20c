/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/file_reader.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/lib/check.h"

static pid_t parent_of(pid_t pid)
{
	struct buf text = BUF_INIT;
	char path[32];
	int parent = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (!file_load(path, 4096, &text, NULL) && strrchr(buf_str(&text), ')'))
		(void)sscanf(strrchr(buf_str(&text), ')'), ") %*c %d", &parent);
	buf_release(&text);
	return parent;
}

pid_t file_reader_keeper(pid_t reader)
{
	return parent_of(reader);
}

/* This process has forked the guard, that the keeper, that the reader. */
static bool is_reader(pid_t pid)
{
	return parent_of(parent_of(parent_of(pid))) == getpid();
}

pid_t file_reader(const pid_t *known, size_t n)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	pid_t found = 0;

	CHECK(dir);
	while ((entry = readdir(dir))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		bool is_known = pid <= 0;

		for (size_t i = 0; i < n; i++)
			is_known |= known[i] == pid;
		if (!is_known && is_reader(pid))
			found = pid;
	}
	closedir(dir);
	return found;
}
