/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/foreign_file.h"
#include "agent/proc/living.h"
#include "agent/proc/maps.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
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

/* Opens for reading what `at` is a place of (O_PATH), if it is a regular file, and closes `at`. What a file is, is known before it
 * is opened: to open a device may do something (a watchdog begins to count), and a pipe's writer would notice. */
static int open_regular(int at, const char *path, struct stat *st, struct err *e)
{
	char self[32];
	int rc;

	if (at < 0)
		return foreign_error(e, path);
	if (fstat(at, st)) {
		rc = err_errno(e, "examining %s", path);
	} else if (!S_ISREG(st->st_mode)) {
		rc = err_set(e, ERR_INVALID, "%s is not a regular file", path);
	} else {
		snprintf(self, sizeof(self), "/proc/self/fd/%d", at);
		rc = open(self, OPEN_FLAGS);
		if (rc < 0)
			rc = foreign_error(e, path);
	}
	close(at);
	return rc;
}

/* Opens the folder; -1 and errno if it cannot. `name` gets its path. */
static int open_root(uint32_t pid, char name[32])
{
	int fd;

	snprintf(name, 32, "/proc/%u/root", pid);
	fd = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 || errno != ENOENT)
		return fd;
	snprintf(name, 32, "/proc/%u/root", proc_living(pid));
	return open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

int foreign_open(uint32_t pid, const char *path, struct stat *st, struct err *e)
{
	char name[32];
	int root = open_root(pid, name), fd;

	if (root < 0)
		return foreign_error(e, name);
	fd = file_open_in_root(root, path, O_PATH);
	close(root);
	return open_regular(fd, path, st, e);
}

/* Paths in maps and the path of the process's root begin at the same place, whichever that is: this is what is below the
 * root; NULL if the file is not, or the root is where paths begin. */
static const char *below_root(uint32_t pid, const char *path)
{
	char name[32], root[4096];
	ssize_t len;

	snprintf(name, sizeof(name), "/proc/%u/root", proc_living(pid));
	len = readlink(name, root, sizeof(root));
	if (len <= 1 || (size_t)len == sizeof(root) || strncmp(path, root, (size_t)len) != 0 ||
	    path[len] != '/')
		return NULL;
	return path + len;
}

/* To read the link takes the permission that it takes to follow it, and asks no file system's server, which may hang. */
int foreign_check(uint32_t pid, struct err *e)
{
	char name[32], byte;

	snprintf(name, sizeof(name), "/proc/%u/root", pid);
	if (readlink(name, &byte, 1) >= 0)
		return 0;
	if (errno == ENOENT)
		snprintf(name, sizeof(name), "/proc/%u/root", proc_living(pid));
	return readlink(name, &byte, 1) < 0 ? foreign_error(e, name) : 0;
}

int foreign_open_here(const char *path, struct stat *st, struct err *e)
{
	return open_regular(open(path, O_PATH | O_CLOEXEC), path, st, e);
}

/* Overlay file systems list another inode in maps than stat() gives. */
static bool is_overlay(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

/* Closes the descriptor, and returns ERR_NOT_FOUND, if it is another file than the mapped one. */
static int check_inode(int fd, const struct stat *st, const char *path, uint64_t inode, bool here,
		       struct err *e)
{
	if (fd < 0 || st->st_ino == inode || (!here && is_overlay(fd)))
		return fd;
	close(fd);
	return err_set(e, ERR_NOT_FOUND, "%.150s is another file by now", path);
}

static int open_at_path(uint32_t pid, const char *path, uint64_t inode, struct stat *st,
			struct err *e)
{
	const char *below = below_root(pid, path);
	int fd = below ? foreign_open(pid, below, st, NULL) : ERR_NOT_FOUND;

	if (fd < 0)
		fd = foreign_open(pid, path, st, e);
	return check_inode(fd, st, path, inode, false, e);
}

/* The program itself, also where it has no name any more. */
static int open_program(uint32_t pid, const char *path, uint64_t inode, struct stat *st)
{
	char exe[32];

	snprintf(exe, sizeof(exe), "/proc/%u/exe", proc_living(pid));
	return check_inode(foreign_open_here(exe, st, NULL), st, path, inode, true, NULL);
}

/* A library without a name: the kernel opens it by its addresses, with CAP_CHECKPOINT_RESTORE. */
static int open_by_address(uint32_t pid, const char *path, uint64_t inode, struct stat *st)
{
	int fd = ERR_NOT_FOUND;
	struct proc_maps maps;
	char name[80];

	if (proc_maps_read(&maps, pid, NULL))
		return fd;
	for (size_t i = 0; i < maps.n && fd == ERR_NOT_FOUND; i++) {
		const struct proc_map *m = &maps.v[i];

		if (m->inode != inode || map_kind_of(m->path) != MAP_KIND_FILE)
			continue;
		snprintf(name, sizeof(name), "/proc/%u/map_files/%" PRIx64 "-%" PRIx64,
			 proc_living(pid), m->start, m->end);
		fd = check_inode(foreign_open_here(name, st, NULL), st, path, inode, true, NULL);
	}
	proc_maps_release(&maps);
	return fd;
}

int foreign_open_mapped(uint32_t pid, const char *path, uint64_t inode, struct stat *st,
			struct err *e)
{
	int rc = open_at_path(pid, path, inode, st, e), fd = rc;

	if (fd < 0)
		fd = check_inode(foreign_open_here(path, st, NULL), st, path, inode, true, NULL);
	if (fd < 0)
		fd = open_program(pid, path, inode, st);
	if (fd < 0 && rc != ERR_DENIED)
		fd = open_by_address(pid, path, inode, st);
	return fd < 0 ? rc : fd;
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

size_t foreign_list(uint32_t pid, const char *folder, uint64_t from, char *out, size_t size)
{
	int fd = open_folder(pid, folder, O_RDONLY | O_NONBLOCK);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	size_t used = 0, len;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	while ((entry = readdir(d))) {
		if (from) {
			from--;
			continue;
		}
		len = strlen(entry->d_name) + 1;
		if (len > size - used)
			break;
		memcpy(out + used, entry->d_name, len);
		used += len;
	}
	closedir(d);
	return used;
}
