/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/import_paths.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "proto/limits.h"

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool ends_with(const char *name, const char *suffix)
{
	size_t n = strlen(name), m = strlen(suffix);

	return n > m && !strcmp(name + n - m, suffix);
}

static bool is_space_name(const char *name)
{
	return ends_with(name, ".xplane.pb") || ends_with(name, ".xplane.pb.gz");
}

static bool is_json_name(const char *name)
{
	return ends_with(name, ".json") || ends_with(name, ".json.gz");
}

static struct import_group *add_group(struct import_groups *g, const char *name)
{
	g->items = xrealloc(g->items, (g->n + 1) * sizeof(*g->items));
	g->items[g->n] = (struct import_group){ .name = xstrdup(name) };
	return &g->items[g->n++];
}

static void add_path(struct import_group *g, char *path_taken)
{
	g->paths = xrealloc(g->paths, (g->n + 1) * sizeof(*g->paths));
	g->paths[g->n++] = path_taken;
}

/* ---- folders ---- */

struct names {
	char **items;
	size_t n;
};

static void names_release(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->items[i]);
	free(names->items);
}

static int list_folder(const char *path, struct names *out, struct err *e)
{
	DIR *d = opendir(path);
	const struct dirent *entry;
	int rc = 0;

	if (!d)
		return err_errno(e, "%.300s", path);
	while (!rc && (entry = readdir(d))) {
		if (entry->d_name[0] == '.')
			continue;
		if (out->n == IMPORT_PATHS_MAX)
			rc = err_set(e, ERR_LIMIT, "%.300s: more than %d files", path,
				     IMPORT_PATHS_MAX);
		out->items = xrealloc(out->items, (out->n + 1) * sizeof(char *));
		out->items[out->n++] = xstrdup(entry->d_name);
	}
	closedir(d);
	sort_array(out->items, out->n, sizeof(char *), by_text);
	return rc;
}

static bool have(const struct names *names, bool (*is)(const char *name))
{
	for (size_t i = 0; i < names->n; i++) {
		if (is(names->items[i]))
			return true;
	}
	return false;
}

static int find_in(struct import_groups *g, const char *path, int depth, struct err *e);

static int find_below(struct import_groups *g, const char *path, const struct names *names,
		      int depth, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; i < names->n && !rc; i++) {
		char *below = xasprintf("%s/%s", path, names->items[i]);
		struct stat st;

		/* lstat(): links could lead in circles */
		if (!lstat(below, &st) && S_ISDIR(st.st_mode))
			rc = find_in(g, below, depth + 1, e);
		free(below);
	}
	return rc;
}

static int find_in(struct import_groups *g, const char *path, int depth, struct err *e)
{
	struct names names = { 0 };
	bool (*is)(const char *name) = is_space_name;
	int rc;

	if (depth > IMPORT_DEPTH_MAX)
		return err_set(e, ERR_LIMIT, "%.300s: more than %d folders deep", path,
			       IMPORT_DEPTH_MAX);
	rc = list_folder(path, &names, e);
	if (!rc && !have(&names, is))
		is = is_json_name;
	if (!rc && have(&names, is)) {
		struct import_group *group = add_group(g, path);

		for (size_t i = 0; i < names.n; i++) {
			if (is(names.items[i]))
				add_path(group, xasprintf("%s/%s", path, names.items[i]));
		}
	}
	if (!rc)
		rc = find_below(g, path, &names, depth, e);
	names_release(&names);
	return rc;
}

static int find_folder(struct import_groups *g, const char *path, struct err *e)
{
	size_t before = g->n;
	int rc = find_in(g, path, 0, e);

	if (!rc && g->n == before)
		rc = err_set(e, ERR_NOT_FOUND,
			     "%.300s: no *.xplane.pb and no *.json in it or in a folder below",
			     path);
	return rc;
}

/* ---- all ---- */

int import_find(struct import_groups *out, int n, char **paths, struct err *e)
{
	struct import_group files = { .name = xstrdup("") };
	int rc = 0;

	for (int i = 0; i < n && !rc; i++) {
		struct stat st;

		if (stat(paths[i], &st))
			rc = err_errno(e, "%.300s", paths[i]);
		else if (S_ISDIR(st.st_mode))
			rc = find_folder(out, paths[i], e);
		else if (S_ISREG(st.st_mode))
			add_path(&files, xstrdup(paths[i]));
		else
			rc = err_set(e, ERR_INVALID, "%.300s: neither a file nor a folder",
				     paths[i]);
	}
	sort_array(files.paths, files.n, sizeof(char *), by_text);
	if (files.n) {
		out->items = xrealloc(out->items, (out->n + 1) * sizeof(*out->items));
		out->items[out->n++] = files;
	} else {
		free(files.name);
	}
	return rc;
}

void import_groups_release(struct import_groups *g)
{
	for (size_t i = 0; i < g->n; i++) {
		for (size_t k = 0; k < g->items[i].n; k++)
			free(g->items[i].paths[k]);
		free(g->items[i].paths);
		free(g->items[i].name);
	}
	free(g->items);
}

/* ---- names of hosts ---- */

char *import_host_of(const char *path)
{
	static const char *const suffixes[] = { ".gz",	       ".xplane.pb",
						".pb",	       ".pt.trace.json",
						".trace.json", ".json" };
	const char *slash = strrchr(path, '/');
	char *host = xstrdup(slash ? slash + 1 : path);
	char *tilde;

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		if (ends_with(host, suffixes[i]))
			host[strlen(host) - strlen(suffixes[i])] = '\0';
	}
	tilde = strrchr(host, '~');
	if (tilde && tilde > host && tilde[1] &&
	    strspn(tilde + 1, "0123456789") == strlen(tilde + 1))
		*tilde = '\0';
	if (strlen(host) >= LIMIT_HOST_NAME)
		host[LIMIT_HOST_NAME - 1] = '\0';
	for (char *c = host; *c; c++) {
		if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
			*c = '-';
	}
	if (*host == '.')
		*host = '-';
	return host;
}
