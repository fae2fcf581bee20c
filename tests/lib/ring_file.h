/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a ring has no name: tests find it among the process's open files. */
#ifndef TESTS_RING_FILE_H
#define TESTS_RING_FILE_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The descriptor of the ring's file that was made in `dir`; -1 = there is none of so many bytes. */
static inline int ring_file_of(const char *dir, off_t least_bytes)
{
	DIR *fds = opendir("/proc/self/fd");
	struct dirent *entry;
	int found = -1;

	while (fds && (entry = readdir(fds))) {
		char target[512] = "";
		struct stat st;
		size_t len = strlen(dir);
		int fd = (int)strtol(entry->d_name, NULL, 10);

		if (readlinkat(dirfd(fds), entry->d_name, target, sizeof(target) - 1) > 0 &&
		    !strncmp(target, dir, len) && !strncmp(target + len, "/.ring", 6) &&
		    !fstat(fd, &st) && st.st_size >= least_bytes)
			found = fd;
	}
	if (fds)
		closedir(fds);
	return found;
}

/* How many bytes it has; 0 = there is none. */
static inline off_t ring_file_size(const char *dir)
{
	struct stat st;
	int fd = ring_file_of(dir, 0);

	return fd >= 0 && !fstat(fd, &st) ? st.st_size : 0;
}

/* From now on nothing can be read from it; writing still works. */
static inline void ring_file_break(int fd)
{
	int broken = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (broken < 0 || dup3(broken, fd, O_CLOEXEC) != fd || close(broken))
		abort();
}

#endif
