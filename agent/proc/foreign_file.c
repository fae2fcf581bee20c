/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/foreign_file.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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

/* -1 and errno; `name` gets its path. */
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

int foreign_open_here(const char *path, struct stat *st, struct err *e)
{
	return check_regular(open(path, OPEN_FLAGS), path, st, e);
}

void foreign_remove(uint32_t pid, const char *folder, const char *name, uint32_t uid)
{
	char root_name[32];
	struct stat st;
	int root = open_root(pid, root_name);
	int fd = root < 0 ? -1 : file_open_in_root(root, folder, O_PATH | O_DIRECTORY);

	if (fd >= 0 && !fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
	    st.st_uid == uid)
		unlinkat(fd, name, 0);
	if (fd >= 0)
		close(fd);
	if (root >= 0)
		close(root);
}
