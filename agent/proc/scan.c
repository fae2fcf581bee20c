/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/scan.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

enum {
	MAX_LISTENERS = 16384,
	/* The kernel lists listeners first: reading stops after this many lines without one. */
	MAX_QUIET_LINES = 256,
	MAX_MAPS_BYTES = 32 << 20,
	/* After this many scans that did not find the process of a socket, only every MISSES_PERIOD-th
	 * scan searches for it. */
	MISSES_IN_A_ROW = 2,
	MISSES_PERIOD = 24,
};

struct proc_scan {
	char *root;
	struct proc_listener *listeners;
	size_t n;
	bool incomplete;
};

/* Parts of paths that a process has mapped. */
static const char *const framework_libs[] = {
	"jaxlib",	 "xla_extension", "libtpu",	  "_pywrap_tensorflow",
	"libtensorflow", "libcuda",	  "libtorch_xla", "_XLAC",
};

struct proc_scan *proc_scan_new(const char *root)
{
	struct proc_scan *s = xcalloc(1, sizeof(*s));

	s->root = xstrdup(root);
	return s;
}

void proc_scan_free(struct proc_scan *s)
{
	if (!s)
		return;
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

/* ---- net/tcp, net/tcp6 ---- */

/* The kernel prints an address as words of 32 bits in host order. */
static bool parse_hex_words(const char *hex, size_t words, uint8_t *out)
{
	if (strlen(hex) != words * 8)
		return false;
	for (size_t i = 0; i < words; i++) {
		char one[9] = "";
		uint32_t v;

		memcpy(one, hex + i * 8, 8);
		v = (uint32_t)strtoul(one, NULL, 16);
		memcpy(out + i * 4, &v, 4);
	}
	return true;
}

static bool all_zero(const uint8_t *p, size_t n)
{
	while (n && !*p) {
		p++;
		n--;
	}
	return !n;
}

static void set_address4(struct proc_listener *l, const uint8_t *a)
{
	l->local = a[0] == 127 || all_zero(a, 4);
	if (all_zero(a, 4))
		snprintf(l->address, sizeof(l->address), "127.0.0.1:%d", l->port);
	else
		snprintf(l->address, sizeof(l->address), "%u.%u.%u.%u:%d", a[0], a[1], a[2], a[3],
			 l->port);
}

static void set_address6(struct proc_listener *l, const uint8_t *a)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	size_t used = 1;

	if (all_zero(a, 16) || !memcmp(a, mapped, 12)) {
		set_address4(l, a + 12); /* a wildcard one takes IPv4 as well */
		return;
	}
	l->local = all_zero(a, 15) && a[15] == 1;
	l->address[0] = '[';
	for (int i = 0; i < 8; i++)
		used += (size_t)snprintf(l->address + used, sizeof(l->address) - used, "%s%x",
					 i ? ":" : "", a[2 * i] << 8 | a[2 * i + 1]);
	snprintf(l->address + used, sizeof(l->address) - used, "]:%d", l->port);
}

/* False if the line is not that of a listening socket. */
static bool parse_listener(const char *line, struct proc_listener *out)
{
	char hex[33];
	uint8_t addr[16];
	unsigned int port, state;
	uint64_t inode;

	if (sscanf(line,
		   " %*d: %32[0-9A-Fa-f]:%4X %*32[0-9A-Fa-f]:%*4X %2X %*X:%*X %*X:%*X %*X %*u %*d "
		   "%" SCNu64,
		   hex, &port, &state, &inode) != 4)
		return false;
	if (state != 0x0a || !inode || !port)
		return false;
	memset(out, 0, sizeof(*out));
	out->inode = inode;
	out->port = (int)port;
	if (parse_hex_words(hex, 1, addr))
		set_address4(out, addr);
	else if (parse_hex_words(hex, 4, addr))
		set_address6(out, addr);
	else
		return false;
	return true;
}

struct found {
	struct proc_listener *items;
	size_t n, cap;
};

static void found_add(struct found *f, const struct proc_listener *l)
{
	if (f->n == f->cap) {
		f->cap = f->cap ? 2 * f->cap : 64;
		f->items = xrealloc(f->items, f->cap * sizeof(*f->items));
	}
	f->items[f->n++] = *l;
}

static int read_listeners(const char *root, const char *file, struct found *out, struct err *e)
{
	char *path = xasprintf("%s/net/%s", root, file);
	FILE *f = fopen(path, "re");
	char line[512];
	int quiet = 0, rc = 0;

	if (!f) {
		rc = err_errno(e, "%s", path);
		goto out;
	}
	while (quiet < MAX_QUIET_LINES && out->n < MAX_LISTENERS && fgets(line, sizeof(line), f)) {
		struct proc_listener l;

		if (parse_listener(line, &l)) {
			found_add(out, &l);
			quiet = 0;
		} else {
			quiet++;
		}
	}
	fclose(f);
out:
	free(path);
	return rc;
}

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
	bool framework;
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

static bool has_framework_name(const char *line)
{
	for (size_t i = 0; i < ARRAY_SIZE(framework_libs); i++) {
		if (strstr(line, framework_libs[i]))
			return true;
	}
	return false;
}

static bool maps_framework(const char *root, int64_t pid)
{
	char *path = xasprintf("%s/%" PRId64 "/maps", root, pid);
	FILE *f = fopen(path, "re");
	char line[4096 + 128];
	size_t total = 0;
	bool found = false;

	free(path);
	if (!f)
		return false;
	while (!found && total < MAX_MAPS_BYTES && fgets(line, sizeof(line), f)) {
		total += strlen(line);
		found = has_framework_name(line);
	}
	fclose(f);
	return found;
}

static bool is_better_owner(const struct process *p, const struct proc_listener *l)
{
	if (!l->pid || p->framework != l->framework)
		return !l->pid || p->framework;
	/* A child that inherited the socket is younger than the process that serves it. */
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
}

static bool parse_socket_link(const char *text, uint64_t *inode)
{
	return sscanf(text, "socket:[%" SCNu64 "]", inode) == 1;
}

/* Makes this process the owner of the sockets it holds, among those with `wanted` set. */
static void scan_process(struct proc_scan *s, struct found *f, const bool *wanted, int64_t pid)
{
	char *path = xasprintf("%s/%" PRId64 "/fd", s->root, pid);
	DIR *dir = opendir(path);
	struct dirent *entry;
	struct process p = { 0 };

	free(path);
	if (!dir) {
		s->incomplete |= errno == EACCES || errno == EPERM;
		return;
	}
	while ((entry = readdir(dir))) {
		char link[64];
		struct proc_listener key = { 0 }, *l;
		ssize_t len = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

		if (len <= 0)
			continue;
		link[len] = '\0';
		if (!parse_socket_link(link, &key.inode))
			continue;
		l = bsearch(&key, f->items, f->n, sizeof(key), by_inode);
		if (!l || !wanted[l - f->items])
			continue;
		if (!p.pid) {
			if (!read_stat(s->root, pid, &p))
				break;
			p.framework = maps_framework(s->root, pid);
		}
		listener_set_owner(l, &p);
	}
	closedir(dir);
}

static void scan_processes(struct proc_scan *s, struct found *f, const bool *wanted)
{
	DIR *dir = opendir(s->root);
	struct dirent *entry;

	s->incomplete = false;
	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		if (isdigit((unsigned char)entry->d_name[0]))
			scan_process(s, f, wanted, strtoll(entry->d_name, NULL, 10));
	}
	closedir(dir);
}

/* ---- one scan ---- */

/* Copies what the scan before found of the socket, if its process is still the same. */
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
}

static bool needs_search(const struct proc_listener *l)
{
	return !l->pid && (l->misses < MISSES_IN_A_ROW || l->misses % MISSES_PERIOD == 0);
}

static void find_owners(struct proc_scan *s, struct found *f)
{
	bool *wanted = xcalloc(f->n + 1, sizeof(*wanted));
	bool any = false;

	for (size_t i = 0; i < f->n; i++) {
		wanted[i] = !f->items[i].pid;
		any |= needs_search(&f->items[i]);
	}
	if (any)
		scan_processes(s, f, wanted);
	for (size_t i = 0; i < f->n; i++)
		f->items[i].misses = f->items[i].pid ? 0 : f->items[i].misses + 1;
	free(wanted);
}

int proc_scan_run(struct proc_scan *s, struct err *e)
{
	struct found f = { 0 };
	bool have = !read_listeners(s->root, "tcp", &f, e);

	/* One of the two is enough: a kernel may lack one family. */
	have |= !read_listeners(s->root, "tcp6", &f, have ? NULL : e);
	if (!have)
		return ERR_IO;
	if (f.n)
		sort_array(f.items, f.n, sizeof(*f.items), by_inode);
	for (size_t i = 0; s->n && i < f.n; i++)
		copy_known_owner(s, &f.items[i]);
	find_owners(s, &f);
	free(s->listeners);
	s->listeners = f.items;
	s->n = f.n;
	return 0;
}
