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

int foreign_open(uint32_t pid, const char *path, struct stat *st, struct err *e)
{
	char name[32];
	int root, fd;

	snprintf(name, sizeof(name), "/proc/%u/root", pid);
	root = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
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
