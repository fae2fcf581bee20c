/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/foreign_file.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OPEN_FLAGS (O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)

int foreign_error(struct err *e, const char *name)
{
	if (errno == EACCES || errno == EPERM)
		return err_set(
			e, ERR_DENIED,
			"opening %.120s: Permission denied: grant CAP_SYS_PTRACE and, for private "
			"files of other users, CAP_DAC_READ_SEARCH",
			name);
	return err_errno(e, "opening %s", name);
}

bool foreign_is_denied(int proc_fd)
{
	int err = errno;
	struct stat st;

	if (err != EACCES && err != EPERM)
		return false;
	return geteuid() || fstat(proc_fd, &st) || st.st_uid;
}

static int check_regular(int fd, const char *path, struct stat *st, struct err *e)
{
	int rc;

	if (fd < 0)
		return foreign_error(e, path);
	if (fstat(fd, st))
		rc = err_errno(e, "examining %s", path);
	else if (!S_ISREG(st->st_mode))
		rc = err_set(e, ERR_INVALID, "%s is not a regular file", path);
	else
		return fd;
	close(fd);
	return rc;
}

/* Opens the folder; -1 and errno if it cannot. `name` gets its path. */
static int open_root(uint32_t pid, char name[32])
{
	snprintf(name, 32, "/proc/%u/root", pid);
	return open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

int foreign_open(uint32_t pid, const char *path, struct stat *st, struct err *e)
{
	char name[32];
	int root = open_root(pid, name), fd;

	if (root < 0)
		return foreign_error(e, name);
	fd = file_open_in_root(root, path, OPEN_FLAGS);
	close(root);
	return check_regular(fd, path, st, e);
}

/* Paths in maps and the path of the process's root begin at the same place, whichever that is: this is what is below the
 * root; NULL if the file is not, or the root is where paths begin. */
static const char *below_root(uint32_t pid, const char *path)
{
	char name[32], root[4096];
	ssize_t len;

	snprintf(name, sizeof(name), "/proc/%u/root", pid);
	len = readlink(name, root, sizeof(root));
	if (len <= 1 || (size_t)len == sizeof(root) || strncmp(path, root, (size_t)len) != 0 ||
	    path[len] != '/')
		return NULL;
	return path + len;
}

int foreign_open_mapped(uint32_t pid, const char *path, struct stat *st, struct err *e)
{
	const char *below = below_root(pid, path);
	int fd = below ? foreign_open(pid, below, st, NULL) : ERR_NOT_FOUND;

	return fd >= 0 ? fd : foreign_open(pid, path, st, e);
}

int foreign_check(uint32_t pid, struct err *e)
{
	char name[32];
	int root = open_root(pid, name);

	if (root < 0)
		return foreign_error(e, name);
	close(root);
	return 0;
}

int foreign_open_here(const char *path, struct stat *st, struct err *e)
{
	return check_regular(open(path, OPEN_FLAGS), path, st, e);
}

static int open_folder(uint32_t pid, const char *folder, int flags)
{
	char root_name[32];
	int root = open_root(pid, root_name), fd;

	if (root < 0)
		return errno == ENOENT ? open(folder, flags | O_DIRECTORY | O_CLOEXEC) : -1;
	fd = file_open_in_root(root, folder, flags | O_DIRECTORY);
	close(root);
	return fd;
}

static bool remove_at(int fd, const char *name, uint32_t uid)
{
	struct stat st;

	return !fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
	       st.st_uid == uid && !unlinkat(fd, name, 0);
}

bool foreign_remove(uint32_t pid, const char *folder, const char *name, uint32_t uid)
{
	int fd = open_folder(pid, folder, O_PATH);
	bool removed = fd >= 0 && remove_at(fd, name, uid);

	if (fd >= 0)
		close(fd);
	return removed;
}

size_t foreign_remove_all(uint32_t pid, const char *folder, uint32_t uid,
			  bool (*is_wanted)(void *arg, const char *name), void *arg)
{
	int fd = open_folder(pid, folder, O_RDONLY | O_NONBLOCK);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	size_t n = 0, removed = 0;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	while (n++ < FOREIGN_NAMES_MAX && (entry = readdir(d)))
		removed += is_wanted(arg, entry->d_name) && remove_at(fd, entry->d_name, uid);
	closedir(d);
	return removed;
}
