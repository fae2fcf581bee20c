/* SPDX-License-Identifier: Apache-2.0 */
/* The folder where indexes are kept. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/views/view.h"
#include "base/mem.h"

char *view_index_path(const struct view_session *s, const char *file)
{
	return xasprintf("%s/%s/%s.tvx", s->folder, s->name, file);
}

void view_discard(const struct view *view)
{
	for (size_t i = 0; i < view->n_files; i++) {
		char *path = view_index_path(view->of, view->files[i].name);

		unlink(path);
		free(path);
	}
}

static void remove_folder(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	if (dir)
		closedir(dir);
	rmdir(path);
}

void view_remove_indexes(const char *folder, const char *session)
{
	char *path = xasprintf("%s/%s", folder, session);

	remove_folder(path);
	free(path);
}

static uint64_t folder_bytes(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	uint64_t sum = 0;
	struct stat st;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.' &&
		    !fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
			sum += (uint64_t)st.st_size;
	}
	if (dir)
		closedir(dir);
	return sum;
}

/* One look at all sessions' indexes; `oldest` is the session that was opened longest ago, but this one. */
static uint64_t look_at_kept(const char *folder, const char *session, char **oldest)
{
	DIR *dir = opendir(folder);
	struct timespec least = { 0 };
	struct dirent *entry;
	uint64_t sum = 0;
	struct stat st;

	*oldest = NULL;
	while (dir && (entry = readdir(dir))) {
		char *path;

		if (entry->d_name[0] == '.' ||
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		path = xasprintf("%s/%s", folder, entry->d_name);
		sum += folder_bytes(path);
		free(path);
		if (!strcmp(entry->d_name, session) ||
		    (*oldest &&
		     (st.st_mtim.tv_sec > least.tv_sec ||
		      (st.st_mtim.tv_sec == least.tv_sec && st.st_mtim.tv_nsec >= least.tv_nsec))))
			continue;
		least = st.st_mtim;
		free(*oldest);
		*oldest = xstrdup(entry->d_name);
	}
	if (dir)
		closedir(dir);
	return sum;
}

void view_bound_kept(const char *folder, const char *session, uint64_t kept_bytes)
{
	char *oldest;

	while (look_at_kept(folder, session, &oldest) > kept_bytes && oldest) {
		view_remove_indexes(folder, oldest);
		free(oldest);
	}
	free(oldest);
}
