/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/tracer/cgroups/groups.h"
#include "agent/tracer/cgroups/label.h"
#include "agent/tracer/cgroups/tree.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"

#define ID	 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define POD	 "3f2c1a2b-0000-4000-8000-0123456789ab"
#define POD_DASH "3f2c1a2b_0000_4000_8000_0123456789ab"
#define SLICE	 "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" POD_DASH ".slice"

static void paths_have_labels(void)
{
	static const struct {
		const char *path;
		enum cgroup_kind kind;
		const char *label;
	} cases[] = {
		{ SLICE "/cri-containerd-" ID ".scope", CGROUP_CONTAINER,
		  "pod " POD "/0123456789ab" },
		{ SLICE "/crio-" ID ".scope", CGROUP_CONTAINER, "pod " POD "/0123456789ab" },
		{ SLICE, CGROUP_POD, "pod " POD },
		{ "kubepods/besteffort/pod" POD "/" ID, CGROUP_CONTAINER,
		  "pod " POD "/0123456789ab" },
		{ "kubepods/pod0123456789abcdef0123456789abcdef", CGROUP_POD,
		  "pod 0123456789abcdef0123456789abcdef" },
		{ "system.slice/docker-" ID ".scope", CGROUP_CONTAINER, "container 0123456789ab" },
		{ "docker/" ID, CGROUP_CONTAINER, "container 0123456789ab" },
		{ "machine.slice/libpod-" ID ".scope/container", CGROUP_OTHER,
		  "...9abcdef0123456789abcdef0123456789abcdef.scope/container" },
		{ "kubepods.slice", CGROUP_SLICE, "kubepods.slice" },
		{ "system.slice/ssh.service", CGROUP_OTHER, "system.slice/ssh.service" },
		{ "a\nb\xff", CGROUP_OTHER, "a b?" },
		{ "", CGROUP_OTHER, "" },
		{ "podium", CGROUP_OTHER, "podium" },
		{ "x" ID, CGROUP_OTHER, NULL },
	};
	char label[CGROUP_LABEL_BYTES];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECK_EQ(cgroup_label(cases[i].path, label), cases[i].kind);
		if (cases[i].label && strncmp(cases[i].label, "...", 3))
			CHECK_STR(label, cases[i].label);
		if (cases[i].label && !strncmp(cases[i].label, "...", 3))
			CHECK(!strcmp(label + strlen(label) - 17, ".scope/container") ||
			      strstr(label, ".scope/container"));
	}
	/* The monitor of a container is not the container. */
	CHECK_EQ(cgroup_label(SLICE "/crio-conmon-" ID ".scope", label), CGROUP_OTHER);
}

/* ---- a host's folders ---- */

static const char *root;

static void make_group(const char *path)
{
	char *full = xasprintf("%s/%s", root, path);

	CHECK(!mkdir(full, 0700));
	free(full);
}

static void put(const char *group, const char *file, const char *text)
{
	char *path = xasprintf("%s/%s/%s", root, group, file);
	FILE *f = fopen(path, "w");

	CHECK(f);
	fputs(text, f);
	fclose(f);
	free(path);
}

static void drop(const char *group, const char *file)
{
	char *path = xasprintf("%s/%s/%s", root, group, file);

	CHECK(!remove(path));
	free(path);
}

struct rows {
	size_t n;
	char labels[CGROUPS_MAX + 1][CGROUP_LABEL_BYTES];
	double v[CGROUPS_MAX + 1][32];
};

static double *add_row(void *arg, const char *label)
{
	struct rows *r = arg;

	CHECK(r->n < ARRAY_SIZE(r->labels) && cgroups_columns() <= 32);
	snprintf(r->labels[r->n], sizeof(r->labels[0]), "%s", label);
	for (size_t i = 0; i < 32; i++)
		r->v[r->n][i] = NAN;
	return r->v[r->n++];
}

static double get(const struct rows *r, const char *label, const char *column)
{
	for (size_t i = 0; i < r->n; i++)
		for (size_t c = 0; !strcmp(r->labels[i], label) && c < cgroups_columns(); c++)
			if (!strcmp(cgroups_column(c), column))
				return r->v[i][c];
	fprintf(stderr, "no %s of %s\n", column, label);
	exit(1);
}

#define CHECK_NEAR(rows, label, column, want) \
	do { \
		double check_v = get(rows, label, column); \
		if (!(fabs(check_v - (want)) < 1e-6)) { \
			fprintf(stderr, "%d: %s is %g\n", __LINE__, column, check_v); \
			exit(1); \
		} \
	} while (0)

static struct cgroups *open_groups(void)
{
	struct cgroups *gs;
	struct err e;

	CHECK_OK(cgroups_open(&gs, root, &e), e);
	return gs;
}

static void read_at(struct cgroups *gs, double second, struct rows *rows)
{
	rows->n = 0;
	cgroups_read(gs, (int64_t)((1000 + second) * (double)NS_PER_S), add_row, rows);
}

static void fill_container(const char *group)
{
	put(group, "cpu.stat", "usage_usec 1000000\nuser_usec 1\nnr_periods 9\nthrottled_usec 0\n");
	put(group, "memory.current", "500000000\n");
	put(group, "memory.max", "1000000000\n");
	put(group, "memory.events", "low 0\nhigh 0\nmax 5\noom 2\noom_kill 1\n");
	put(group, "io.stat", "8:0 rbytes=1000000 wbytes=0 rios=1\n8:16 rbytes=0 wbytes=0\n");
	put(group, "pids.current", "12\n");
	put(group, "cpu.pressure",
	    "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\n"
	    "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
	put(group, "memory.pressure",
	    "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
	    "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
}

static void a_host_has_numbers(struct rows *rows)
{
	static const char box[] = "docker/" ID, name[] = "container 0123456789ab";
	struct cgroups *gs;

	put(".", "cgroup.controllers", "cpuset cpu io memory hugetlb pids\n");
	make_group("docker");
	make_group(box);
	fill_container(box);
	make_group("ssh.service");
	put("ssh.service", "cpu.stat", "usage_usec 0\n");
	put("ssh.service", "memory.max", "max\n");
	make_group("boot.mount");
	gs = open_groups();
	CHECK_STR(cgroups_limits(gs), "");

	read_at(gs, 0, rows);
	CHECK_EQ(rows->n, 2); /* docker has no cpu.stat: it is not there any more */
	CHECK(isnan(get(rows, name, "cpu %"))); /* a rate needs two */
	CHECK_NEAR(rows, name, "mem MB", 500);
	CHECK_NEAR(rows, name, "mem limit MB", 1000);
	CHECK_NEAR(rows, name, "out of memory kills", 1);
	CHECK_NEAR(rows, name, "tasks", 12);
	CHECK(isnan(get(rows, "ssh.service", "mem limit MB"))); /* it has none */

	put(box, "cpu.stat", "usage_usec 2500000\nthrottled_usec 100000\n");
	put(box, "io.stat", "8:0 rbytes=3000000 wbytes=0\n8:16 rbytes=0 wbytes=4000000\n");
	put(box, "memory.events", "max 7\noom_kill 2\n");
	put(box, "cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=501000\n");
	read_at(gs, 1, rows);
	CHECK_EQ(rows->n, 1); /* the others are read every 5 s */
	CHECK_NEAR(rows, name, "cpu %", 150);
	CHECK_NEAR(rows, name, "cpu throttled %", 10);
	CHECK_NEAR(rows, name, "disk read MB/s", 2);
	CHECK_NEAR(rows, name, "disk write MB/s", 4);
	CHECK_NEAR(rows, name, "mem at its limit per s", 2);
	CHECK_NEAR(rows, name, "pressure cpu some %", 50);
	CHECK_NEAR(rows, name, "pressure memory some %", 0);
	CHECK(isnan(get(rows, name, "pressure io some %"))); /* no file */

	/* One comes, one goes: the container that stays has a rate over both readings. */
	make_group("late.service");
	put("late.service", "cpu.stat", "usage_usec 7\n");
	drop("ssh.service", "cpu.stat");
	drop("ssh.service", "memory.max");
	drop("ssh.service", "");
	put(box, "cpu.stat", "usage_usec 4500000\nthrottled_usec 100000\n");
	read_at(gs, 5, rows);
	CHECK_EQ(rows->n, 2);
	CHECK_NEAR(rows, name, "cpu %", 50);
	CHECK(isnan(get(rows, "late.service", "cpu %")));
	put("late.service", "cpu.stat", "usage_usec 500007\n");
	put(box, "cpu.stat", "usage_usec 5\n"); /* another container of that name */
	read_at(gs, 10, rows);
	CHECK_NEAR(rows, "late.service", "cpu %", 10);
	CHECK(isnan(get(rows, name, "cpu %")));
	cgroups_free(gs);
}

static void too_many_are_counted(struct rows *rows)
{
	struct cgroups *gs;
	char name[32];

	for (int i = 0; i < CGROUPS_MAX; i++) {
		snprintf(name, sizeof(name), "%03d.slice", i);
		make_group(name);
		put(name, "cpu.stat", "usage_usec 0\n");
	}
	gs = open_groups();
	read_at(gs, 0, rows);
	/* docker, its container, late.service and the mount's: three are listed before slices are. */
	CHECK_EQ(rows->n, CGROUPS_MAX); /* docker has no numbers, and the last row is the count */
	CHECK_NEAR(rows, "", "cgroups left out", 3);
	get(rows, "container 0123456789ab", "mem MB");
	get(rows, "late.service", "cpu %");
	cgroups_free(gs);
}

static void limits_are_named(void)
{
	struct cgroups *gs;
	struct err e;

	put(".", "cgroup.controllers", "hugetlb cpuset\n");
	gs = open_groups();
	CHECK(strstr(cgroups_limits(gs), "cpu, memory, io, pids"));
	cgroups_free(gs);
	put(".", "cgroup.events", "populated 1\n");
	gs = open_groups();
	CHECK(strstr(cgroups_limits(gs), "own container"));
	cgroups_free(gs);
	drop(".", "cgroup.controllers");
	CHECK_EQ(cgroups_open(&gs, root, &e), ERR_UNSUPPORTED);
	CHECK(strstr(e.msg, "--cgroups-root"));
}

int main(void)
{
	struct rows *rows = xcalloc(1, sizeof(*rows));

	root = temp_dir();
	paths_have_labels();
	a_host_has_numbers(rows);
	too_many_are_counted(rows);
	limits_are_named();
	temp_dir_remove(root);
	free(rows);
	return 0;
}
