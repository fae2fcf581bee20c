/* SPDX-License-Identifier: Apache-2.0 */
/* What a process is in a job of Slurm, by its environment. */
#include "agent/proc/slurm_task.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"
#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"

#define STEP \
	"SLURM_JOB_ID=4711\0SLURM_STEP_ID=0\0SLURMD_NODENAME=node3\0SLURM_JOB_NODELIST=node[1-4]" \
	"\0"

/* "JOB NODE NODES RANK", "none" for a process of no job. */
static const char *read_text(const char *environment, size_t len)
{
	static char text[512];
	struct slurm_task t;

	if (!slurm_task_read(&t, environment, len))
		return "none";
	snprintf(text, sizeof(text), "%s %s %s %d", t.job, *t.node ? t.node : "-",
		 *t.nodes ? t.nodes : "-", (int)t.rank);
	return text;
}

#define CHECK_READ(environment, expected) \
	CHECK_STR(read_text(environment, sizeof(environment) - 1), expected)

static void test_variables(void)
{
	CHECK_READ(STEP "SLURM_PROCID=12\0PATH=/bin", "4711 node3 node[1-4] 12");
	CHECK_READ("A=SLURM_JOB_ID=1\0XSLURM_JOB_ID=2\0SLURM_JOB_ID_X=3", "none");
	CHECK_READ("SLURM_PROCID=1\0SLURM_STEP_ID=0", "none");
	/* a batch script is no task */
	CHECK_READ("SLURM_JOB_ID=7\0SLURM_PROCID=0", "7 - - -1");
	CHECK_READ(STEP "SLURM_PROCID=-1", "4711 node3 node[1-4] -1");
	CHECK_READ(STEP "SLURM_PROCID=1x", "4711 node3 node[1-4] -1");
	CHECK_READ(STEP "SLURM_PROCID=9999999999999999999", "4711 node3 node[1-4] -1");
	CHECK_READ("SLURM_JOB_ID=", "none");
	CHECK_READ("SLURM_JOB_ID=0", "none");
	CHECK_READ("SLURM_JOB_ID=../x", "none");
	CHECK_READ("SLURM_JOB_ID", "none");
	CHECK_READ("", "none");
	CHECK_READ("SLURM_JOB_ID=7\0SLURMD_NODENAME=a\x1b[31mb\xff", "7 a [31mb? - -1");
}

/* A list that is too long ends with a whole name. */
static void test_long_list(void)
{
	struct buf names = BUF_INIT, text = BUF_INIT;
	struct slurm_task t;

	for (int i = 0; i < 100; i++)
		buf_addf(&names, "%snode-%d", i ? "," : "", i);
	buf_add(&text, "SLURM_JOB_ID=7", sizeof("SLURM_JOB_ID=7"));
	buf_addf(&text, "SLURM_JOB_NODELIST=%s", buf_str(&names));
	CHECK(slurm_task_read(&t, buf_str(&text), text.len));
	CHECK(strlen(t.nodes) > 200 && strlen(t.nodes) < sizeof(t.nodes));
	CHECK(!strncmp(t.nodes, buf_str(&names), strlen(t.nodes)));
	CHECK_EQ(t.nodes[strlen(t.nodes) - 1], ',');
	buf_release(&names);
	buf_release(&text);
}

static void test_process(void)
{
	static const char environment[] = STEP "SLURM_PROCID=3";
	const char *root = temp_dir();
	char *folder = xasprintf("%s/31", root), *path = xasprintf("%s/environ", folder);
	struct slurm_task t;
	FILE *f;

	CHECK(!mkdir(folder, 0700));
	f = fopen(path, "w");
	CHECK(f && fwrite(environment, 1, sizeof(environment), f) == sizeof(environment) &&
	      !fclose(f));
	CHECK(slurm_task_of_process(&t, root, 31));
	CHECK_EQ(t.rank, 3);
	CHECK(!slurm_task_of_process(&t, root, 32));
	free(path);
	free(folder);
}

int main(void)
{
	test_variables();
	test_long_list();
	test_process();
	return 0;
}
