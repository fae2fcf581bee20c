/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/cgroups/groups.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/proc/numbers.h"
#include "agent/tracer/cgroups/tree.h"
#include "base/file.h"
#include "base/mem.h"

#define FILE_BYTES_MAX (16 << 10)

enum quantity {
	CPU_USAGE,
	CPU_THROTTLED,
	MEMORY,
	MEMORY_LIMIT,
	MEMORY_AT_LIMIT,
	OOM_KILLS,
	IO_READ,
	IO_WRITTEN,
	PIDS,
	PSI_CPU_SOME,
	PSI_MEMORY_SOME,
	PSI_MEMORY_FULL,
	PSI_IO_SOME,
	PSI_IO_FULL,
	QUANTITIES
};

static const struct column {
	const char *name;
	enum quantity what;
	bool per_second; /* the growth of a counter */
	double scale;
} columns[] = {
	/* Times are microseconds: growth per second as a share of a CPU, or of time. */
	{ "cpu %", CPU_USAGE, true, 1e-4 },
	{ "cpu throttled %", CPU_THROTTLED, true, 1e-4 },
	{ "mem MB", MEMORY, false, 1e-6 },
	{ "mem limit MB", MEMORY_LIMIT, false, 1e-6 },
	{ "mem at its limit per s", MEMORY_AT_LIMIT, true, 1 },
	{ "out of memory kills", OOM_KILLS, false, 1 },
	{ "disk read MB/s", IO_READ, true, 1e-6 },
	{ "disk write MB/s", IO_WRITTEN, true, 1e-6 },
	{ "tasks", PIDS, false, 1 },
	{ "pressure cpu some %", PSI_CPU_SOME, true, 1e-4 },
	{ "pressure memory some %", PSI_MEMORY_SOME, true, 1e-4 },
	{ "pressure memory full %", PSI_MEMORY_FULL, true, 1e-4 },
	{ "pressure io some %", PSI_IO_SOME, true, 1e-4 },
	{ "pressure io full %", PSI_IO_FULL, true, 1e-4 },
};

#define LEFT_OUT ARRAY_SIZE(columns) /* the last column */

size_t cgroups_columns(void)
{
	return LEFT_OUT + 1;
}

const char *cgroups_column(size_t column)
{
	return column < LEFT_OUT ? columns[column].name : "cgroups left out";
}

/* ---- files ---- */

/* "key value"; a value that is not a number ("max") stays unknown. */
static void parse_value(const char *line, const char *key, double *v)
{
	const char *rest = text_after(line, key);
	double number;

	if (rest && numbers_parse(rest, &number, 1) == 1)
		*v = number;
}

static void parse_cpu(const char *line, double *v)
{
	parse_value(line, "usage_usec ", &v[CPU_USAGE]);
	parse_value(line, "throttled_usec ", &v[CPU_THROTTLED]);
}

static void parse_memory(const char *line, double *v)
{
	parse_value(line, "", &v[MEMORY]);
}

static void parse_memory_limit(const char *line, double *v)
{
	parse_value(line, "", &v[MEMORY_LIMIT]);
}

static void parse_memory_events(const char *line, double *v)
{
	parse_value(line, "max ", &v[MEMORY_AT_LIMIT]);
	parse_value(line, "oom_kill ", &v[OOM_KILLS]);
}

static void parse_pids(const char *line, double *v)
{
	parse_value(line, "", &v[PIDS]);
}

static void add_value(const char *line, const char *key, double *v)
{
	const char *at = strstr(line, key);
	double number;

	if (at && numbers_parse(at + strlen(key), &number, 1) == 1)
		*v = isnan(*v) ? number : *v + number;
}

/* "8:0 rbytes=1 wbytes=2 rios=3 ...", a line for each disk. */
static void parse_io(const char *line, double *v)
{
	add_value(line, " rbytes=", &v[IO_READ]);
	add_value(line, " wbytes=", &v[IO_WRITTEN]);
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=123" */
static void parse_pressure(const char *line, double *some, double *full)
{
	if (text_after(line, "some "))
		add_value(line, " total=", some);
	else if (full && text_after(line, "full "))
		add_value(line, " total=", full);
}

static void parse_pressure_cpu(const char *line, double *v)
{
	parse_pressure(line, &v[PSI_CPU_SOME], NULL);
}

static void parse_pressure_memory(const char *line, double *v)
{
	parse_pressure(line, &v[PSI_MEMORY_SOME], &v[PSI_MEMORY_FULL]);
}

static void parse_pressure_io(const char *line, double *v)
{
	parse_pressure(line, &v[PSI_IO_SOME], &v[PSI_IO_FULL]);
}

static const struct file {
	const char *name;
	void (*parse_line)(const char *line, double *v);
} files[] = {
	{ "cpu.stat", parse_cpu },
	{ "memory.current", parse_memory },
	{ "memory.max", parse_memory_limit },
	{ "memory.events", parse_memory_events },
	{ "io.stat", parse_io },
	{ "pids.current", parse_pids },
	{ "cpu.pressure", parse_pressure_cpu },
	{ "memory.pressure", parse_pressure_memory },
	{ "io.pressure", parse_pressure_io },
};

size_t cgroups_files(void)
{
	return ARRAY_SIZE(files);
}

size_t cgroups_quantities(void)
{
	return QUANTITIES;
}

void cgroups_parse(size_t file, char *text, double *v)
{
	char *end;

	for (char *line = text; *line; line = end + 1) {
		end = strchr(line, '\n');
		if (!end)
			return; /* an incomplete line: its numbers may be incomplete */
		*end = '\0';
		files[file].parse_line(line, v);
	}
}

/* ---- the cgroups ---- */

struct group {
	struct cgroup cgroup;
	double last[QUANTITIES];
	int64_t last_raw_ns; /* 0 = never */
};

struct cgroups {
	int root_fd;
	char *limits;
	char *text; /* FILE_BYTES_MAX + 1 */
	struct group *v; /* in order of path */
	size_t n;
	size_t left_out;
	int64_t slow_raw_ns; /* when all were read; 0 = never */
};

static int open_root(struct cgroups *gs, const char *root, struct err *e)
{
	static const char *const places[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
	const char *given[] = { root };
	const char *const *v = root && *root ? given : places;
	size_t n = v == given ? 1 : ARRAY_SIZE(places);

	for (size_t i = 0; i < n; i++) {
		gs->root_fd = open(v[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (gs->root_fd < 0 && errno == EACCES)
			return err_set(e, ERR_DENIED,
				       "%.80s: permission denied: grant CAP_DAC_READ_SEARCH", v[i]);
		if (gs->root_fd >= 0 && !faccessat(gs->root_fd, "cgroup.controllers", F_OK, 0))
			return 0;
		if (gs->root_fd >= 0)
			close(gs->root_fd);
		gs->root_fd = -1;
	}
	if (v == given)
		return err_set(e, ERR_UNSUPPORTED, "--cgroups-root %.80s is no folder of cgroup v2",
			       root);
	return err_set(e, ERR_UNSUPPORTED,
		       "no cgroup v2 is mounted at /sys/fs/cgroup: the host has cgroup v1 alone, "
		       "or the agent's "
		       "container lacks the host's /sys/fs/cgroup");
}

static bool has_controller(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = list; (at = strstr(at, name)); at += len)
		if ((at == list || at[-1] == ' ') && strchr(" \n", at[len]))
			return true;
	return false;
}

static bool read_file(struct cgroups *gs, const char *folder, const char *name)
{
	char path[4096];
	ssize_t len;
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return false;
	fd = openat(gs->root_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	len = file_read_up_to(fd, 0, gs->text, FILE_BYTES_MAX);
	close(fd);
	gs->text[len < 0 ? 0 : len] = '\0';
	return len >= 0;
}

/* The root of a host has no cgroup.events, a container's own cgroup has one. */
static void find_limits(struct cgroups *gs)
{
	static const char *const wanted[] = { "cpu", "memory", "io", "pids" };
	char missing[64] = "";
	bool known = read_file(gs, ".", "cgroup.controllers");

	for (size_t i = 0; known && i < ARRAY_SIZE(wanted); i++) {
		size_t used = strlen(missing);

		if (!has_controller(gs->text, wanted[i]))
			snprintf(missing + used, sizeof(missing) - used, "%s%s", used ? ", " : "",
				 wanted[i]);
	}
	if (!faccessat(gs->root_fd, "cgroup.events", F_OK, 0))
		gs->limits = xstrdup(
			"only the cgroups of the agent's own container are seen: mount "
			"the host's /sys/fs/cgroup into it");
	else if (*missing)
		gs->limits = xasprintf(
			"cgroup v2 has no controllers %s here (cgroup v1 uses them, or the "
			"kernel's command line disables them): their numbers are missing",
			missing);
	else
		gs->limits = xstrdup("");
}

int cgroups_open(struct cgroups **out, const char *root, struct err *e)
{
	struct cgroups *gs = xcalloc(1, sizeof(*gs));
	int rc = open_root(gs, root, e);

	if (rc) {
		cgroups_free(gs);
		return rc;
	}
	gs->text = xmalloc(FILE_BYTES_MAX + 1);
	find_limits(gs);
	*out = gs;
	return 0;
}

static void free_groups(struct group *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i].cgroup.path);
	free(v);
}

void cgroups_free(struct cgroups *gs)
{
	if (!gs)
		return;
	if (gs->root_fd >= 0)
		close(gs->root_fd);
	free_groups(gs->v, gs->n);
	free(gs->limits);
	free(gs->text);
	free(gs);
}

const char *cgroups_limits(const struct cgroups *gs)
{
	return gs->limits;
}

/* Both lists are in order of path: those that were there before keep their counters. */
static void look(struct cgroups *gs)
{
	struct cgroup_list list;
	struct group *v;
	size_t old = 0;

	cgroup_list_read(&list, gs->root_fd);
	v = xcalloc(list.n + 1, sizeof(*v));
	for (size_t i = 0; i < list.n; i++) {
		int order = -1;

		while (old < gs->n && (order = strcmp(gs->v[old].cgroup.path, list.v[i].path)) < 0)
			old++;
		if (old < gs->n && !order)
			v[i] = gs->v[old];
		v[i].cgroup = list.v[i];
		if (old < gs->n && !order) {
			free(gs->v[old].cgroup.path);
			gs->v[old++].cgroup.path = NULL;
		}
		list.v[i].path = NULL;
	}
	free_groups(gs->v, gs->n);
	gs->v = v;
	gs->n = list.n;
	gs->left_out = list.left_out;
	cgroup_list_release(&list);
}

static void fill_row(const struct group *g, const double *now, int64_t raw_ns, double *row)
{
	double seconds = (double)(raw_ns - g->last_raw_ns) / (double)NS_PER_S;

	for (size_t i = 0; i < LEFT_OUT; i++) {
		const struct column *c = &columns[i];
		double v = now[c->what], grown = v - g->last[c->what];

		if (!c->per_second)
			row[i] = v * c->scale;
		else if (g->last_raw_ns && seconds > 0 && grown >= 0)
			row[i] = grown / seconds * c->scale;
	}
}

/* A cgroup that is gone has no row; the next look drops it. */
static void read_group(struct cgroups *gs, struct group *g, int64_t raw_ns, cgroups_row_fn row,
		       void *arg)
{
	double now[QUANTITIES];

	for (size_t q = 0; q < QUANTITIES; q++)
		now[q] = NAN;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		if (read_file(gs, g->cgroup.path, files[i].name))
			cgroups_parse(i, gs->text, now);
		else if (!i)
			return;
	}
	fill_row(g, now, raw_ns, row(arg, g->cgroup.label));
	memcpy(g->last, now, sizeof(now));
	g->last_raw_ns = raw_ns;
}

void cgroups_read(struct cgroups *gs, int64_t raw_ns, cgroups_row_fn row, void *arg)
{
	/* A little less than CGROUPS_SLOW_NS: otherwise jitter of one reading would delay the reading of all
	 * cgroups by a whole period. */
	bool all = !gs->slow_raw_ns || raw_ns - gs->slow_raw_ns >= CGROUPS_SLOW_NS * 9 / 10;

	if (all) {
		look(gs);
		gs->slow_raw_ns = raw_ns;
	}
	for (size_t i = 0; i < gs->n; i++)
		if (all || gs->v[i].cgroup.kind <= CGROUP_POD)
			read_group(gs, &gs->v[i], raw_ns, row, arg);
	if (all && gs->left_out)
		row(arg, "")[LEFT_OUT] = (double)gs->left_out;
}
