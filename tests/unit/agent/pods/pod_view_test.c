/* SPDX-License-Identifier: Apache-2.0 */
/* Which process is of which pod: a tree like /proc, processes that begin, move and end, a pod that opted out. */
#include "agent/pods/pod_view.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"

#define ID_A	 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ID_B	 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define POD_A	 "aaaaaaaa-0000-4000-8000-0123456789ab"
#define POD_B	 "bbbbbbbb-0000-4000-8000-0123456789ab"
#define HOST	 "0::/system.slice/ssh.service\n"
#define IN(p, c) "0::/kubepods/pod" p "/" c "\n"

static const char *root;

static void set_process(int pid, const char *cgroup)
{
	char *folder = xasprintf("%s/%d", root, pid), *path = xasprintf("%s/cgroup", folder);
	FILE *f;

	mkdir(folder, 0700);
	f = fopen(path, "w");
	CHECK(f && fputs(cgroup, f) >= 0 && !fclose(f));
	free(path);
	free(folder);
}

static void end_process(int pid)
{
	char *folder = xasprintf("%s/%d", root, pid), *path = xasprintf("%s/cgroup", folder);

	CHECK(!unlink(path) && !rmdir(folder));
	free(path);
	free(folder);
}

static Tutti__V1__Pod *pod(const char *uid, const char *name, const char *rank,
			   const char *container, bool opted_out)
{
	Tutti__V1__Pod *p = xcalloc(1, sizeof(*p));

	tutti__v1__pod__init(p);
	p->uid = xstrdup(uid);
	p->name = xstrdup(name);
	p->namespace_ = xstrdup("ml");
	p->job = xstrdup("train");
	p->rank = xstrdup(rank);
	p->opted_out = opted_out;
	p->containers = xcalloc(1, sizeof(*p->containers));
	p->containers[p->n_containers++] = xasprintf("%s main", container);
	return p;
}

static struct pod_set *make_set(bool with_quiet)
{
	Tutti__V1__Pods *m = xcalloc(1, sizeof(*m));

	tutti__v1__pods__init(m);
	m->node = xstrdup("node-1");
	m->pods = xcalloc(2, sizeof(*m->pods));
	m->pods[m->n_pods++] = pod(POD_A, "train-0", "0", ID_A, false);
	if (with_quiet)
		m->pods[m->n_pods++] = pod(POD_B, "quiet", "", ID_B, true);
	return pod_set_new(m);
}

/* The view after another look; the one before is released. */
static struct pod_view *look(struct pod_set *set, struct pod_view *before, int64_t now_s)
{
	struct pod_view *v = pod_view_make(set, before, root, now_s * NS_PER_S);

	pod_view_release(before);
	return v;
}

static void processes_have_pods(void)
{
	struct pod_set *set = make_set(false);
	struct process_pod found;
	char title[POD_TITLE_BYTES];
	struct pod_view *v;

	set_process(100, IN(POD_A, ID_A));
	set_process(101, HOST);
	set_process(102, IN(POD_A, ID_B)); /* a container that the aggregator did not name */
	v = look(set, NULL, 1);
	CHECK(pod_view_find(v, 100, &found));
	CHECK_STR(found.pod->name, "train-0");
	CHECK_STR(found.container, "main");
	CHECK(pod_view_find(v, 102, &found));
	CHECK_STR(found.container, "");
	CHECK(!pod_view_find(v, 101, &found) && !pod_view_find(v, 999, &found));
	pod_view_title(v, 100, title);
	CHECK_STR(title, "train-0 rank 0");
	pod_view_title(v, 101, title);
	CHECK_STR(title, "");
	CHECK_STR(pod_view_node(v), "node-1");

	/* A process that began after the look is read at once. */
	set_process(103, IN(POD_A, ID_A));
	CHECK(pod_view_find(v, 103, &found));

	/* A container's first process moves into its cgroup after its begin. */
	set_process(104, HOST);
	v = look(set, v, 2);
	CHECK(!pod_view_find(v, 104, &found));
	set_process(104, IN(POD_A, ID_A));
	v = look(set, v, 4);
	CHECK(pod_view_find(v, 104, &found));

	/* One that has ended is known for five minutes; its number may be another's then. */
	end_process(100);
	v = look(set, v, 6);
	CHECK(pod_view_find(v, 100, &found));
	set_process(100, HOST);
	v = look(set, v, 8);
	CHECK(!pod_view_find(v, 100, &found));
	end_process(103);
	v = look(set, v, 10);
	v = look(set, v, 400);
	CHECK(!pod_view_find(v, 103, &found));
	CHECK(!pod_view_hides(v, 103) && !pod_view_hides(v, 0)); /* no pod has opted out */
	pod_view_release(v);
	pod_set_release(set);
}

static void processes_are_hidden(void)
{
	struct pod_set *set = make_set(true);
	struct pod_view *v;

	set_process(200, IN(POD_B, ID_B));
	set_process(201, IN(POD_A, ID_A));
	set_process(202, HOST);
	v = look(set, NULL, 1);
	CHECK(pod_view_hides(v, 200));
	CHECK(!pod_view_hides(v, 201) && !pod_view_hides(v, 202));
	CHECK(pod_view_hides(v, 999) && pod_view_hides(v, 0)); /* it may have been the pod's */
	end_process(200);
	CHECK(pod_view_hides(v, 200));
	pod_view_release(v);
	pod_set_release(set);
	CHECK(!pod_view_hides(NULL, 1) && !pod_view_hold(NULL));
}

int main(void)
{
	root = temp_dir();
	processes_have_pods();
	processes_are_hidden();
	return 0;
}
