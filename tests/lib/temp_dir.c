/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/temp_dir.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define DIRS_MAX   64
#define PATH_BYTES 256

struct dir {
	char path[PATH_BYTES];
	LIST_ENTRY(dir) entry;
};

static LIST_HEAD(, dir) dirs = LIST_HEAD_INITIALIZER(dirs);
static pid_t owner; /* a fork()ed child removes nothing */

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	remove(path);
	return 0;
}

void remove_tree(const char *path)
{
	nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void remove_dir(struct dir *d)
{
	remove_tree(d->path);
	LIST_REMOVE(d, entry);
	free(d);
}

static void remove_all(void)
{
	while (getpid() == owner && !LIST_EMPTY(&dirs))
		remove_dir(LIST_FIRST(&dirs));
}

/* The process that a directory of this prefix belongs to; 0 = not such a name. */
static pid_t owner_of(const char *name, const char *prefix)
{
	size_t len = strlen(prefix);
	char *end;
	long pid;

	if (strncmp(name, prefix, len) || name[len] != '-')
		return 0;
	pid = strtol(name + len + 1, &end, 10);
	return *end == '-' && pid > 0 ? (pid_t)pid : 0;
}

/* Ours alone: another user's directories look dead, too, but cannot be removed. */
static void remove_dead(const char *base, const char *prefix)
{
	DIR *dir = opendir(base);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char path[PATH_BYTES + 300];
		pid_t pid = owner_of(entry->d_name, prefix);
		struct stat st;

		if (!pid || !kill(pid, 0) || errno != ESRCH)
			continue;
		snprintf(path, sizeof(path), "%s/%s", base, entry->d_name);
		if (!lstat(path, &st) && st.st_uid == getuid())
			remove_tree(path);
	}
	if (dir)
		closedir(dir);
}

const char *temp_dir_in(const char *base, const char *prefix)
{
	struct dir *d = xcalloc(1, sizeof(*d));

	if (!owner) {
		owner = getpid();
		atexit(remove_all);
	}
	remove_dead(base, prefix);
	snprintf(d->path, sizeof(d->path), "%s/%s-%d-XXXXXX", base, prefix, (int)getpid());
	if (!mkdtemp(d->path)) {
		perror(d->path);
		exit(1);
	}
	LIST_INSERT_HEAD(&dirs, d, entry);
	return d->path;
}

const char *temp_dir(void)
{
	const char *base = getenv("TMPDIR");

	return temp_dir_in(base ? base : "/tmp", "tutti-test");
}

void temp_dir_remove(const char *path)
{
	struct dir *d;

	LIST_FOREACH(d, &dirs, entry)
	{
		if (!strcmp(d->path, path)) {
			remove_dir(d);
			return;
		}
	}
}
