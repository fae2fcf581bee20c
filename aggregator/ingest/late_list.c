/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/ingest/late_list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/limits.h"
#include "proto/names.h"

#define SUFFIX ".late"

static char *path_of(const char *spool, const char *session)
{
	return xasprintf("%s/%s" SUFFIX, spool, session);
}

void late_list_add(const char *spool, const char *session, const char *run)
{
	char *path = path_of(spool, session);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct err e = { 0 };
	int rc = fd < 0 ? err_errno(&e, "opening it") : 0;

	if (!rc)
		rc = file_write_all(fd, run, strlen(run), path, &e);
	if (fd >= 0)
		close(fd);
	if (rc)
		log_warn("AGG-SPOOL", "path=%s reason=\"%s\"", path, e.msg);
	free(path);
}

void late_list_remove(const char *spool, const char *session)
{
	char *path = path_of(spool, session);

	if (unlink(path) && errno != ENOENT)
		log_warn("AGG-SPOOL", "path=%s reason=\"%s\"", path, strerror(errno));
	free(path);
}

/* The session, to be freed, or NULL. */
static char *session_of(const char *name)
{
	const char *suffix = strstr(name, SUFFIX);
	char *session = suffix && !suffix[strlen(SUFFIX)] ? xstrndup(name, (size_t)(suffix - name))
							  : NULL;

	if (session && name_is_session(session))
		return session;
	free(session);
	return NULL;
}

void late_list_each(const char *spool, void (*fn)(void *arg, const char *session, const char *run),
		    void *arg)
{
	DIR *dir = opendir(spool);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char *session = session_of(entry->d_name), *path;
		struct buf run = BUF_INIT;
		struct err e = { 0 };

		if (!session)
			continue;
		path = path_of(spool, session);
		if (file_load(path, LIMIT_RUN_NAME, &run, &e) ||
		    (run.len && name_check_run(buf_str(&run), &e)))
			log_warn("AGG-SPOOL", "path=%s reason=\"%s\"", path, e.msg);
		else
			fn(arg, session, buf_str(&run));
		buf_release(&run);
		free(path);
		free(session);
	}
	if (dir)
		closedir(dir);
}
