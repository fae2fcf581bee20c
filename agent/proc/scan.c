/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/scan.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/proc/command.h"
#include "agent/proc/foreign_file.h"
#include "agent/proc/listeners.h"
#include "agent/proc/u32_map.h"
#include "base/mem.h"

enum {
	MAX_MAPS_BYTES = 32 << 20,
	/* If this many scans did not find a socket's process, only every MISSES_PERIOD-th scan still searches
	 * for it. */
	MISSES_IN_A_ROW = 2,
	MISSES_PERIOD = 24,
	/* The first search for a socket leaves out known processes with more descriptors: each takes a microsecond, and
	 * their number changes all the time. */
	MANY_DESCRIPTORS = 1000,
};

/* A process whose descriptors were searched. */
struct searched {
	uint32_t pid;
	uint64_t inode; /* of its folder: a later process with the same pid has another one */
	int64_t descriptors; /* how many it had; -1 = not known */
	uint64_t search; /* the last search that met it */
	bool denied;
};

struct proc_scan {
	char *root;
	bool counts_descriptors; /* the size of a process's folder fd/ is their number: Linux since 6.2 */
	struct proc_listener *listeners;
	size_t n;
	bool incomplete;
	struct u32_map searched; /* struct searched, by pid */
	uint64_t searches;
	_Atomic bool stopped;
};

/* Parts of paths of mapped files, and the framework that each shows; the first row that matches holds. */
static const struct framework_lib {
	const char *part, *framework;
} framework_libs[] = {
	{ "libtorch_xla", "torch_xla" },
	{ "_XLAC", "torch_xla" },
	{ "jaxlib", "jax" },
	{ "xla_extension", "jax" },
	{ "_pywrap_tensorflow", "tensorflow" }, /* JAX programs often load it for their input */
	{ "libtensorflow", "tensorflow" },
	{ "libtpu", "tpu" },
	{ "libcuda", "cuda" },
};

/* The size of the process's folder fd/; -1 = there is none. */
static int64_t folder_size(const char *root, int64_t pid)
{
	char *path = xasprintf("%s/%" PRId64 "/fd", root, pid);
	struct stat st;
	int64_t size = stat(path, &st) ? -1 : (int64_t)st.st_size;

	free(path);
	return size;
}

struct proc_scan *proc_scan_new(const char *root)
{
	struct proc_scan *s = xcalloc(1, sizeof(*s));
	struct statfs fs;

	s->root = xstrdup(root);
	s->counts_descriptors = !statfs(root, &fs) && fs.f_type == PROC_SUPER_MAGIC &&
				folder_size(root, getpid()) > 0;
	return s;
}

void proc_scan_free(struct proc_scan *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->searched.n_slots; i++)
		free(u32_map_at(&s->searched, i));
	u32_map_release(&s->searched);
	free(s->listeners);
	free(s->root);
	free(s);
}

const struct proc_listener *proc_scan_listeners(const struct proc_scan *s, size_t *n)
{
	*n = s->n;
	return s->listeners;
}

bool proc_scan_is_incomplete(const struct proc_scan *s)
{
	return s->incomplete;
}

/* ---- listening sockets ---- */

static int by_inode(const void *a, const void *b)
{
	const struct proc_listener *x = a, *y = b;

	return x->inode < y->inode ? -1 : x->inode > y->inode;
}

/* ---- processes ---- */

struct process {
	int64_t pid;
	uint64_t start_ticks;
	char comm[32];
	char command[96];
	const char *framework;
};

/* "4711 (python (x)) S ...": the name may hold anything, so the last ')' ends it. */
static bool read_stat(const char *root, int64_t pid, struct process *out)
{
	char *path = xasprintf("%s/%" PRId64 "/stat", root, pid);
	FILE *f = fopen(path, "re");
	char text[1024] = "";
	char *open, *close = NULL;
	bool ok = false;

	free(path);
	if (!f)
		return false;
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	open = strchr(text, '(');
	if (open)
		close = strrchr(open, ')');
	if (close) {
		*close = '\0';
		memset(out, 0, sizeof(*out));
		out->pid = pid;
		snprintf(out->comm, sizeof(out->comm), "%s", open + 1);
		ok = sscanf(close + 1,
			    " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
			    "%*d %*d %" SCNu64,
			    &out->start_ticks) == 1;
	}
	return ok;
}

/* The index of the first of the first n rows whose `part` is in the line; n if there is none. */
static size_t find_framework_lib(const char *line, size_t n)
{
	size_t i = 0;

	while (i < n && !strstr(line, framework_libs[i].part))
		i++;
	return i;
}

static const char *mapped_framework(const char *root, int64_t pid)
{
	char *path = xasprintf("%s/%" PRId64 "/maps", root, pid);
	FILE *f = fopen(path, "re");
	char line[4096 + 128];
	size_t total = 0, best = ARRAY_SIZE(framework_libs);

	free(path);
	if (!f)
		return NULL;
	while (best && total < MAX_MAPS_BYTES && fgets(line, sizeof(line), f)) {
		total += strlen(line);
		best = find_framework_lib(line, best);
	}
	fclose(f);
	return best < ARRAY_SIZE(framework_libs) ? framework_libs[best].framework : NULL;
}

static void read_command(const char *root, struct process *p)
{
	char *path = xasprintf("%s/%" PRId64 "/cmdline", root, p->pid);
	FILE *f = fopen(path, "re");
	char text[4096];
	size_t len = f ? fread(text, 1, sizeof(text), f) : 0;

	if (f)
		fclose(f);
	if (!proc_command(text, len, p->command, sizeof(p->command)))
		snprintf(p->command, sizeof(p->command), "%s", p->comm);
	free(path);
}

static bool is_better_owner(const struct process *p, const struct proc_listener *l)
{
	if (!l->pid || !p->framework != !l->framework)
		return !l->pid || p->framework;
	/* Of several processes with the socket, takes the oldest: children that inherited it are younger. */
	return p->start_ticks < l->start_ticks;
}

static void listener_set_owner(struct proc_listener *l, const struct process *p)
{
	if (!is_better_owner(p, l))
		return;
	l->pid = p->pid;
	l->start_ticks = p->start_ticks;
	l->framework = p->framework;
	memcpy(l->comm, p->comm, sizeof(l->comm));
	memcpy(l->command, p->command, sizeof(l->command));
}

static bool parse_socket_link(const char *text, uint64_t *inode)
{
	return sscanf(text, "socket:[%" SCNu64 "]", inode) == 1;
}

/* Makes this process the owner of the sockets it holds, among those with `wanted` set. False if the agent may not list
 * its descriptors. */
static bool search_process(const struct proc_scan *s, struct listener_list *f, const bool *wanted,
			   int64_t pid)
{
	char *path = xasprintf("%s/%" PRId64 "/fd", s->root, pid);
	DIR *dir = opendir(path);
	struct dirent *entry;
	struct process p = { 0 };
	bool denied = false;

	free(path);
	if (!dir)
		return errno != EACCES && errno != EPERM;
	while (!s->stopped && (entry = readdir(dir))) {
		char link[64];
		struct proc_listener key = { 0 }, *l;
		ssize_t len = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

		/* The agent may list this folder, but perhaps not read its links: none of them then. */
		if (len < 0 && (errno == EACCES || errno == EPERM)) {
			denied = foreign_is_denied(dirfd(dir));
			break;
		}
		if (len <= 0)
			continue;
		link[len] = '\0';
		if (!parse_socket_link(link, &key.inode))
			continue;
		l = bsearch(&key, f->v, f->n, sizeof(key), by_inode);
		if (!l || !wanted[l - f->v])
			continue;
		if (!p.pid) {
			if (!read_stat(s->root, pid, &p))
				break;
			p.framework = mapped_framework(s->root, pid);
			read_command(s->root, &p);
		}
		listener_set_owner(l, &p);
	}
	closedir(dir);
	return !denied;
}

static struct searched *searched_of(struct proc_scan *s, uint32_t pid, uint64_t inode)
{
	struct searched *d = u32_map_get(&s->searched, pid);

	if (!d) {
		d = xcalloc(1, sizeof(*d));
		u32_map_set(&s->searched, pid, d);
	}
	if (d->inode != inode)
		*d = (struct searched){ .pid = pid, .inode = inode, .descriptors = -1 };
	d->search = s->searches;
	return d;
}

static void forget_gone(struct proc_scan *s)
{
	uint32_t *gone = xmalloc((s->searched.n + 1) * sizeof(*gone));
	size_t n = 0;

	s->incomplete = false;
	for (size_t i = 0; i < s->searched.n_slots; i++) {
		const struct searched *d = u32_map_at(&s->searched, i);

		if (d && d->search != s->searches)
			gone[n++] = d->pid;
		else if (d)
			s->incomplete |= d->denied;
	}
	while (n)
		free(u32_map_remove(&s->searched, gone[--n]));
	free(gone);
}

/* With `all` false: only those that are new, or have more or fewer descriptors than when they were last searched. To
 * read the names of all descriptors of all processes takes long. */
static void search_processes(struct proc_scan *s, struct listener_list *f, const bool *wanted,
			     bool all)
{
	DIR *dir = opendir(s->root);
	struct dirent *entry;

	if (!dir)
		return;
	s->searches++;
	while (!s->stopped && (entry = readdir(dir))) {
		struct searched *d;
		int64_t pid, before;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		pid = strtoll(entry->d_name, NULL, 10);
		d = searched_of(s, (uint32_t)pid, entry->d_ino);
		before = d->descriptors;
		d->descriptors = s->counts_descriptors ? folder_size(s->root, pid) : -1;
		if (all || before < 0 ||
		    (d->descriptors != before && d->descriptors <= MANY_DESCRIPTORS))
			d->denied = !search_process(s, f, wanted, pid);
	}
	closedir(dir);
	forget_gone(s);
}

/* ---- one scan ---- */

/* Copies what the scan before found about the socket, if its process is still the same. */
static void copy_known_owner(const struct proc_scan *s, struct proc_listener *l)
{
	const struct proc_listener *old = bsearch(l, s->listeners, s->n, sizeof(*l), by_inode);
	struct process p;

	if (!old || old->port != l->port)
		return;
	l->misses = old->misses;
	if (!old->pid || !read_stat(s->root, old->pid, &p) || p.start_ticks != old->start_ticks)
		return;
	l->pid = old->pid;
	l->start_ticks = old->start_ticks;
	l->framework = old->framework;
	memcpy(l->comm, old->comm, sizeof(l->comm));
	memcpy(l->command, old->command, sizeof(l->command));
}

static bool needs_search(const struct proc_listener *l)
{
	return !l->pid && (l->misses < MISSES_IN_A_ROW || l->misses % MISSES_PERIOD == 0);
}

static void find_owners(struct proc_scan *s, struct listener_list *f)
{
	bool *wanted = xcalloc(f->n + 1, sizeof(*wanted));
	bool any = false, all = false;

	for (size_t i = 0; i < f->n; i++) {
		wanted[i] = !f->v[i].pid;
		any |= needs_search(&f->v[i]);
		all |= needs_search(&f->v[i]) && f->v[i].misses;
	}
	if (any)
		search_processes(s, f, wanted, all);
	for (size_t i = 0; i < f->n; i++)
		f->v[i].misses = f->v[i].pid ? 0 : f->v[i].misses + 1;
	free(wanted);
}

void proc_scan_stop(struct proc_scan *s)
{
	s->stopped = true;
}

int proc_scan_run(struct proc_scan *s, struct err *e)
{
	struct listener_list f;
	int rc = listeners_read(s->root, &f, e);

	if (rc)
		return rc;
	if (f.n)
		sort_array(f.v, f.n, sizeof(*f.v), by_inode);
	for (size_t i = 0; s->n && i < f.n; i++)
		copy_known_owner(s, &f.v[i]);
	find_owners(s, &f);
	free(s->listeners);
	s->listeners = f.v;
	s->n = f.n;
	return 0;
}
