/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/capture/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/capture/spool_entry.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/names.h"

/* A finished file of an earlier agent. */
struct finished {
	struct finished *next;
	char *path;
	Tutti__V1__SpoolEntry *entry;
};

struct spool {
	char *dir;
	struct finished *finished;
	int lock_fd;
	uint64_t limit_bytes, used_bytes;
};

static int check_owner(const char *dir, struct err *e)
{
	struct stat st;

	if (lstat(dir, &st))
		return err_errno(e, "spool %s", dir);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return err_set(
			e, ERR_DENIED,
			"spool %s is not a directory of this user: choose another with --spool",
			dir);
	return 0;
}

static int take_lock(struct spool *sp, struct err *e)
{
	char *path = xasprintf("%s/.lock", sp->dir);
	int rc = 0;

	sp->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (sp->lock_fd < 0)
		rc = err_errno(e, "spool: %s", path);
	else if (flock(sp->lock_fd, LOCK_EX | LOCK_NB))
		rc = err_set(e, ERR_BUSY,
			     "spool %s is in use by another agent: give each its own --spool",
			     sp->dir);
	free(path);
	return rc;
}

/* Keeps a folder with a finished file, removes any other; returns whether it kept it. */
static bool keep_if_finished(struct spool *sp, const char *session)
{
	char *path = xasprintf("%s/%s", sp->dir, session);
	struct finished *finished = xcalloc(1, sizeof(*finished));
	struct err e;

	if (spool_entry_read(path, session, &finished->entry, &e)) {
		spool_remove(path);
		free(path);
		free(finished);
		return false;
	}
	finished->path = path;
	finished->next = sp->finished;
	sp->finished = finished;
	spool_charge(sp, finished->entry->bytes);
	return true;
}

/* Removes only folders with names of sessions: --spool at a wrong directory destroys nothing else. */
static void scan_folders(struct spool *sp)
{
	DIR *dir = opendir(sp->dir);
	struct dirent *entry;
	int swept = 0, kept = 0;

	while (dir && (entry = readdir(dir))) {
		if (!name_is_session(entry->d_name))
			continue;
		if (keep_if_finished(sp, entry->d_name))
			kept++;
		else
			swept++;
	}
	if (dir)
		closedir(dir);
	if (swept || kept)
		log_info("AGT-SPOOL", "swept=%d kept=%d", swept, kept);
}

bool spool_take_finished(struct spool *sp, char **path, Tutti__V1__SpoolEntry **entry)
{
	struct finished *finished = sp->finished;

	if (!finished)
		return false;
	sp->finished = finished->next;
	*path = finished->path;
	*entry = finished->entry;
	free(finished);
	return true;
}

int spool_open(struct spool **out, const char *dir, uint64_t limit_bytes, struct err *e)
{
	struct spool *sp = xcalloc(1, sizeof(*sp));
	int rc;

	sp->dir = xstrdup(dir);
	sp->limit_bytes = limit_bytes;
	sp->lock_fd = -1;
	rc = file_make_folders(dir, 0755, 0700, e);
	if (!rc)
		rc = check_owner(dir, e);
	if (!rc)
		rc = take_lock(sp, e);
	if (rc) {
		spool_free(sp);
		return rc;
	}
	scan_folders(sp);
	*out = sp;
	return 0;
}

void spool_free(struct spool *sp)
{
	Tutti__V1__SpoolEntry *entry;
	char *path;

	if (!sp)
		return;
	while (spool_take_finished(sp, &path, &entry)) {
		tutti__v1__spool_entry__free_unpacked(entry, NULL);
		free(path);
	}
	if (sp->lock_fd >= 0)
		close(sp->lock_fd);
	free(sp->dir);
	free(sp);
}

int spool_add(struct spool *sp, const char *session, char **path, struct err *e)
{
	char *made;

	if (!spool_available(sp))
		return err_set(e, ERR_FULL,
			       "the spool is full: %" PRIu64 " of %" PRIu64
			       " bytes (--spool-limit)",
			       sp->used_bytes, sp->limit_bytes);
	made = xasprintf("%s/%s", sp->dir, session);
	if (mkdir(made, 0700)) {
		err_errno(e, "spool: making %s", made);
		free(made);
		return e ? e->code : ERR_IO;
	}
	*path = made;
	return 0;
}

void spool_charge(struct spool *sp, uint64_t bytes)
{
	sp->used_bytes += bytes;
}

void spool_uncharge(struct spool *sp, uint64_t bytes)
{
	sp->used_bytes -= bytes;
}

uint64_t spool_available(const struct spool *sp)
{
	return sp->used_bytes < sp->limit_bytes ? sp->limit_bytes - sp->used_bytes : 0;
}

void spool_remove(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	if (dir)
		closedir(dir);
	if (rmdir(path))
		log_warn("AGT-SPOOL", "path=%s reason=\"%s\"", path, strerror(errno));
}
