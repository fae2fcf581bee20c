/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/cgroups/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

struct walk {
	struct cgroup_list *list;
	size_t cap;
	size_t folders;
};

static bool is_listed(const char *name)
{
	static const char *const others[] = { ".mount", ".swap", ".socket", ".automount",
					      ".device" };
	size_t len = strlen(name);

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		size_t end = strlen(others[i]);

		if (len > end && !strcmp(name + len - end, others[i]))
			return false;
	}
	return true;
}

static void add(struct walk *w, const char *path)
{
	struct cgroup_list *l = w->list;
	struct cgroup *g;

	if (l->n == w->cap) {
		w->cap = w->cap ? 2 * w->cap : 64;
		l->v = xrealloc(l->v, w->cap * sizeof(*l->v));
	}
	g = &l->v[l->n++];
	g->path = xstrdup(path);
	g->kind = cgroup_label(path, g->label);
}

/* A folder of cgroups has two links, and one for each folder in it. */
static bool has_folders(int parent_fd, const char *name)
{
	struct stat st;

	return !fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) && st.st_nlink != 2;
}

/* Takes the descriptor. */
static void walk_folder(struct walk *w, int fd, const char *path, int depth)
{
	DIR *dir = fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		close(fd);
		return;
	}
	while (w->folders < CGROUP_FOLDERS_MAX && (entry = readdir(dir))) {
		char *below;
		int sub;

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.' || !is_listed(entry->d_name))
			continue;
		w->folders++;
		below = xasprintf("%s%s%s", path, *path ? "/" : "", entry->d_name);
		add(w, below);
		if (depth < CGROUP_DEPTH_MAX && has_folders(dirfd(dir), entry->d_name)) {
			sub = openat(dirfd(dir), entry->d_name,
				     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (sub >= 0)
				walk_folder(w, sub, below, depth + 1);
		}
		free(below);
	}
	closedir(dir);
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct cgroup *)a)->path, ((const struct cgroup *)b)->path);
}

static int by_kind(const void *a, const void *b)
{
	const struct cgroup *x = a, *y = b;

	return x->kind != y->kind ? (x->kind > y->kind) - (x->kind < y->kind) : by_path(a, b);
}

void cgroup_list_read(struct cgroup_list *out, int root_fd)
{
	struct walk w = { .list = out };
	int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	*out = (struct cgroup_list){ 0 };
	if (fd >= 0)
		walk_folder(&w, fd, "", 1);
	sort_array(out->v, out->n, sizeof(*out->v), by_kind);
	while (out->n > CGROUPS_MAX) {
		free(out->v[--out->n].path);
		out->left_out++;
	}
	sort_array(out->v, out->n, sizeof(*out->v), by_path);
}

void cgroup_list_release(struct cgroup_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->v[i].path);
	free(list->v);
	*list = (struct cgroup_list){ 0 };
}
