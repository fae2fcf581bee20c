/* SPDX-License-Identifier: Apache-2.0 */
/* Paths in the root of another process, with openat2() and without. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"

static void close_keeping_errno(int fd)
{
	int number = errno;

	close(fd);
	errno = number;
}

static bool is_our_root(int root_fd)
{
	struct stat theirs, ours;

	return !fstat(root_fd, &theirs) && !stat("/", &ours) && theirs.st_dev == ours.st_dev &&
	       theirs.st_ino == ours.st_ino;
}

/* Takes the next part of a path, without slashes; "" at the end of the path. False for ".." and for a part
 * that is too long. */
static bool next_part(const char **path, char part[NAME_MAX + 1])
{
	size_t len;

	*path += strspn(*path, "/");
	len = strcspn(*path, "/");
	if (len > NAME_MAX)
		return false;
	memcpy(part, *path, len);
	part[len] = '\0';
	*path += len;
	*path += strspn(*path, "/");
	return strcmp(part, "..");
}

/* Opens a path part by part, and refuses every link. */
static int open_without_links(int root_fd, const char *path, int flags)
{
	int folder = openat(root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char part[NAME_MAX + 1];
	bool last = false;

	while (folder >= 0 && !last) {
		int next = -1;

		if (next_part(&path, part)) {
			last = !*path;
			next = openat(folder, *part ? part : ".",
				      (last ? flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW |
					      O_CLOEXEC);
		} else {
			errno = ELOOP;
		}
		close_keeping_errno(folder);
		folder = next;
	}
	return folder;
}

int file_open_in_root(int root_fd, const char *path, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));

	if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
		return fd;
	if (is_our_root(root_fd))
		return openat(root_fd, path, flags | O_CLOEXEC);
	return open_without_links(root_fd, path, flags);
}
