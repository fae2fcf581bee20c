/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/inspect_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

/* The names of sockets are short: PyTorch puts 36 bytes behind the folder's. */
#define PARENT		 "/tmp"
#define PREFIX		 "tutti-inspect-"
#define LOCK		 "lock"
#define OPEN_FOLDERS_MAX 16

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	remove(path);
	return 0;
}

static void remove_folder(const char *path)
{
	nftw(path, remove_entry, OPEN_FOLDERS_MAX, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* A folder without a lock is of a process that is just making it, or it was kept. */
static void remove_if_left(const char *path)
{
	char *lock_path = xasprintf("%s/" LOCK, path);
	struct stat st;
	int fd = -1;

	if (!lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid())
		fd = open(lock_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))
		remove_folder(path);
	if (fd >= 0)
		close(fd);
	free(lock_path);
}

static void remove_all_left(void)
{
	DIR *dir = opendir(PARENT);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char *path;

		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		path = xasprintf(PARENT "/%s", entry->d_name);
		remove_if_left(path);
		free(path);
	}
	if (dir)
		closedir(dir);
}

/* The lock has its name only when it is held. */
static int lock(struct inspect_folder *f, struct err *e)
{
	char *made = xasprintf("%s/" LOCK ".new", f->path), *path = xasprintf("%s/" LOCK, f->path);
	int rc = 0;

	f->lock_fd = open(made, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (f->lock_fd < 0 || flock(f->lock_fd, LOCK_EX | LOCK_NB) || rename(made, path))
		rc = err_errno(e, "locking %s", path);
	free(made);
	free(path);
	return rc;
}

int inspect_folder_make(struct inspect_folder *f, struct err *e)
{
	char path[] = PARENT "/" PREFIX "XXXXXX";

	*f = (struct inspect_folder){ .lock_fd = -1 };
	remove_all_left();
	if (!mkdtemp(path))
		return err_errno(e, "making a folder for sockets in " PARENT);
	f->path = xstrdup(path);
	return lock(f, e);
}

static void release(struct inspect_folder *f)
{
	if (f->path && f->lock_fd >= 0)
		close(f->lock_fd);
	free(f->path);
	*f = (struct inspect_folder){ .lock_fd = -1 };
}

void inspect_folder_remove(struct inspect_folder *f)
{
	if (f->path)
		remove_folder(f->path);
	release(f);
}

void inspect_folder_keep(struct inspect_folder *f)
{
	char *path = f->path ? xasprintf("%s/" LOCK, f->path) : NULL;

	if (path)
		unlink(path);
	free(path);
	release(f);
}
