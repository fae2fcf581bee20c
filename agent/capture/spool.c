/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/capture/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
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

#define OPEN_FOLDERS_MAX 16 /* open descriptors while a tree is removed */

/* A folder that an earlier agent left, with a finished file or with an entry that cannot be read yet. */
struct finished {
	struct finished *next;
	char *session, *path;
	Tutti__V1__SpoolEntry *entry; /* NULL: not read yet */
};

struct spool {
	char *dir;
	struct finished *finished;
	int lock_fd, dir_fd; /* -1: none */
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

static void drop_lock(struct spool *sp)
{
	if (sp->lock_fd >= 0)
		close(sp->lock_fd);
	if (sp->dir_fd >= 0)
		close(sp->dir_fd);
	sp->lock_fd = sp->dir_fd = -1;
}

/* Cleaners of temporary folders (systemd-tmpfiles) leave a folder alone that is locked itself. That is all this lock is for:
 * a cleaner may have it for a moment, and some file systems have none for folders. */
static void lock_folder(struct spool *sp)
{
	sp->dir_fd = open(sp->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (sp->dir_fd >= 0)
		flock(sp->dir_fd, LOCK_EX | LOCK_NB);
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
	if (rc)
		drop_lock(sp);
	else
		lock_folder(sp);
	free(path);
	return rc;
}

static int own_folder(struct spool *sp, struct err *e)
{
	int rc = file_make_folders(sp->dir, 0755, 0700, e);

	if (!rc)
		rc = check_owner(sp->dir, e);
	if (!rc)
		rc = take_lock(sp, e);
	return rc;
}

/* The lock is where its path leads: the spool may have been removed, moved away, unmounted, or be below another mount by now. */
static bool owns_folder(const struct spool *sp)
{
	char *path = xasprintf("%s/.lock", sp->dir);
	struct stat held, st;
	bool owns = sp->lock_fd >= 0 && !fstat(sp->lock_fd, &held) && !lstat(path, &st) &&
		    held.st_dev == st.st_dev && held.st_ino == st.st_ino;

	free(path);
	return owns;
}

/* The spool was taken away under the agent, or its lock at least. */
static int own_folder_again(struct spool *sp, struct err *e)
{
	log_warn("AGT-SPOOL", "path=%s reason=\"it was removed, and is made again\"", sp->dir);
	drop_lock(sp);
	return own_folder(sp, e);
}

static void finished_free(struct finished *f)
{
	free(f->session);
	free(f->path);
	free(f);
}

/* With these errors it is certain what is in the folder. Any other only means that it cannot be read now. */
static bool is_certain_about_folder(int rc)
{
	return !rc || rc == ERR_NOT_FOUND || rc == ERR_INVALID || rc == ERR_CLOSED;
}

/* Returns spool_entry_read()'s code; removes the folder if nothing in it can be delivered. */
static int read_finished(struct spool *sp, struct finished *f, struct err *e)
{
	int rc = spool_entry_read(f->path, f->session, &f->entry, e);

	if (!rc)
		spool_charge(sp, f->entry->bytes);
	else if (is_certain_about_folder(rc))
		spool_remove(f->path);
	return rc;
}

/* Keeps a folder with a finished file, or one that cannot be read now; removes any other. Returns true if the
 * folder is kept. */
static bool keep_if_finished(struct spool *sp, const char *session)
{
	struct finished *f = xcalloc(1, sizeof(*f));
	struct err e;
	int rc;

	f->session = xstrdup(session);
	f->path = xasprintf("%s/%s", sp->dir, session);
	rc = read_finished(sp, f, &e);
	if (rc && is_certain_about_folder(rc)) {
		finished_free(f);
		return false;
	}
	if (rc)
		log_warn("AGT-SPOOL", "session=%s state=unread reason=\"%s\"", session, e.msg);
	f->next = sp->finished;
	sp->finished = f;
	return true;
}

/* Removes only folders named like sessions, so that a wrong --spool destroys nothing. */
static int scan_folders(struct spool *sp, struct err *e)
{
	DIR *dir = opendir(sp->dir);
	struct dirent *entry;
	int swept = 0, kept = 0;

	if (!dir)
		return err_errno(e, "spool: reading %s", sp->dir);
	while ((entry = readdir(dir))) {
		if (!name_is_session(entry->d_name))
			continue;
		if (keep_if_finished(sp, entry->d_name))
			kept++;
		else
			swept++;
	}
	closedir(dir);
	if (swept || kept)
		log_info("AGT-SPOOL", "swept=%d kept=%d", swept, kept);
	return 0;
}

bool spool_take_finished(struct spool *sp, char **path, Tutti__V1__SpoolEntry **entry)
{
	struct finished **at = &sp->finished, *f;
	int rc = ERR_NOT_FOUND;

	while (rc && (f = *at)) {
		rc = f->entry ? 0 : read_finished(sp, f, NULL);
		if (!is_certain_about_folder(rc)) {
			at = &f->next;
			continue;
		}
		*at = f->next;
		if (!rc) {
			*path = xstrdup(f->path);
			*entry = f->entry;
		}
		finished_free(f);
	}
	return !rc;
}

int spool_open(struct spool **out, const char *dir, uint64_t limit_bytes, struct err *e)
{
	struct spool *sp = xcalloc(1, sizeof(*sp));
	int rc;

	sp->dir = xstrdup(dir);
	sp->limit_bytes = limit_bytes;
	sp->lock_fd = sp->dir_fd = -1;
	rc = own_folder(sp, e);
	if (!rc)
		rc = scan_folders(sp, e);
	if (rc) {
		spool_free(sp);
		return rc;
	}
	*out = sp;
	return 0;
}

void spool_free(struct spool *sp)
{
	struct finished *f;

	if (!sp)
		return;
	while ((f = sp->finished)) {
		sp->finished = f->next;
		if (f->entry)
			tutti__v1__spool_entry__free_unpacked(f->entry, NULL);
		finished_free(f);
	}
	drop_lock(sp);
	free(sp->dir);
	free(sp);
}

int spool_add(struct spool *sp, const char *session, char **path, struct err *e)
{
	char *made;
	int rc;

	if (!spool_available(sp))
		return err_set(e, ERR_FULL,
			       "the spool is full: %" PRIu64 " of %" PRIu64
			       " bytes (--spool-limit)",
			       sp->used_bytes, sp->limit_bytes);
	made = xasprintf("%s/%s", sp->dir, session);
	rc = owns_folder(sp) ? 0 : own_folder_again(sp, e);
	if (!rc && mkdir(made, 0700))
		rc = err_errno(e, "spool: making %s", made);
	if (rc)
		free(made);
	else
		*path = made;
	return rc;
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

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

/* Links are removed, not followed. */
void spool_remove(const char *path)
{
	if (nftw(path, remove_entry, OPEN_FOLDERS_MAX, FTW_DEPTH | FTW_PHYS | FTW_MOUNT))
		log_warn("AGT-SPOOL", "path=%s reason=\"%s\"", path, strerror(errno));
}
