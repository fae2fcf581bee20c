/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's configuration and its drivers': defaults, and values that do not go together. */
#include "agent/conf.h"
#include "agent/tracer/set.h"
#include "agent/tracers.h"
#include "proto/names.h"
#include "tests/lib/check.h"

static const struct conf_field none[] = { { 0 } };

/* What the drivers have loaded is dropped again. */
static int load(struct agent_conf *conf, struct err *e, const char *a, const char *b, const char *c)
{
	char args[3][128];
	char *argv[4] = { args[0], args[1], args[2], NULL };
	const char *given[] = { a, b, c };
	enum conf_action action;
	struct conf_part *confs = tracer_confs_new(tracers);
	struct conf_table table = agent_conf_table;
	int argc = 0;
	int rc;

	for (int i = 0; i < 3 && given[i]; i++)
		snprintf(args[argc++], sizeof(args[0]), "%s", given[i]);
	memset(conf, 0, sizeof(*conf));
	table.more = confs;
	rc = conf_load(conf, &table, &argc, argv, &action, e);
	if (!rc)
		rc = agent_conf_finish(conf, e);
	if (!rc)
		rc = tracer_names_check(conf->tracers, tracers, e);
	table.fields = none;
	conf_release(NULL, &table);
	tracer_confs_free(confs);
	return rc;
}

static void check_refused(const char *a, const char *b, const char *c, const char *word)
{
	struct agent_conf conf;
	struct err e;

	CHECK(load(&conf, &e, a, b, c) < 0);
	if (!strstr(e.msg, word)) {
		fprintf(stderr, "%s: expected '%s' in: %s\n", a, word, e.msg);
		exit(1);
	}
	conf_release(&conf, &agent_conf_table);
}

static void test_defaults(void)
{
	struct agent_conf conf;
	struct err e;

	CHECK_OK(load(&conf, &e, "--host=h-1", NULL, NULL), e);
	CHECK_STR(conf.host, "h-1");
	CHECK_STR(conf.aggregator, "127.0.0.1:7401");
	CHECK_STR(conf.listen, "");
	CHECK_STR(conf.local_socket, "ipc:///run/tutti/agent.ipc");
	CHECK(!conf.insecure);
	CHECK(conf.spool_limit_bytes == UINT64_C(8) << 30);
	CHECK_EQ(conf.ring_seconds, 60);
	CHECK_EQ(conf.ring_bytes, 16 << 20);
	CHECK(tracer_names_has(conf.tracers, "cpu"));
	conf_release(&conf, &agent_conf_table);
}

static void test_rings(void)
{
	struct agent_conf conf;
	struct err e;

	CHECK_OK(load(&conf, &e, "--host=h", "--ring-seconds=3", "--ring-bytes=1M"), e);
	CHECK_EQ(conf.ring_seconds, 3);
	CHECK_EQ(conf.ring_bytes, 1 << 20);
	conf_release(&conf, &agent_conf_table);
	check_refused("--host=h", "--ring-seconds=0", NULL, "use 1 to 3600");
	check_refused("--host=h", "--ring-bytes=63K", NULL, "use 64K to 1G");
}

static void test_tracer_list(void)
{
	struct agent_conf conf;
	struct err e;

	CHECK_OK(load(&conf, &e, "--host=h", "--tracers=cpu,marks", "--discover=false"), e);
	CHECK(tracer_names_has(conf.tracers, "cpu"));
	CHECK(tracer_names_has(conf.tracers, "marks"));
	CHECK(!tracer_names_has(conf.tracers, "metrics"));
	CHECK(!tracer_names_has(conf.tracers, "cp"));
	CHECK(!tracer_names_has(conf.tracers, ""));
	conf_release(&conf, &agent_conf_table);
}

/* The flags of the drivers are the agent's: in --print-config and in --help, with their ranges. */
static void test_drivers_flags(void)
{
	struct conf_part *confs = tracer_confs_new(tracers);
	struct conf_table table = agent_conf_table;
	struct agent_conf conf = { 0 };
	char flag[] = "--profiler=127.0.0.1:9999", *argv[] = { flag }, *text = NULL;
	enum conf_action action;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	int argc = 1;
	struct err e;

	table.more = confs;
	CHECK_OK(conf_load(&conf, &table, &argc, argv, &action, &e), e);
	conf_print(&conf, &table, out);
	conf_help(&table, out);
	CHECK(!fclose(out));
	CHECK(strstr(text, "\ncpu-hz = 99\n"));
	CHECK(strstr(text, "\nmetrics-hz = 10\n"));
	CHECK(strstr(text, "\nprofiler = 127.0.0.1:9999\n"));
	CHECK(strstr(text, "\ndiscover = true\n"));
	CHECK(strstr(text, "CPU samples per second and CPU (1 to 10000) [99]\n"));
	CHECK(strstr(text, "(10ms to 1h) [20s]\n"));
	free(text);
	conf_release(&conf, &table);
	tracer_confs_free(confs);
}

static void test_refusals(void)
{
	check_refused("--host=h", "--tracers=cpu,cpuu", NULL,
		      "unknown tracer 'cpuu': use profiler, pytorch, ");
	check_refused("--host=h", "--tracers=,cpu", NULL, "unknown tracer ''");
	check_refused("--host=h", "--metrics-hz=0", NULL, "use 1 to 100");
	check_refused("--host=h", "--reconnect-max=1ms", NULL, "use 10ms to 1h");
	check_refused("--host=h", "--file-limit=63K", NULL, "use 64K to 2000000000");
	check_refused("--host=a/b", NULL, NULL, "host name");
	check_refused("--host=.hidden", NULL, NULL, "host name");
	check_refused("--host=h", "--label=novalue", NULL, "KEY=VALUE");
	check_refused("--host=h", "--label==v", NULL, "KEY=VALUE");
	check_refused("--host=h", "--label=k=\xff", NULL, "KEY=VALUE");
	check_refused("--host=h", "--cpu-hz=0", NULL, "cpu-hz");
	check_refused("--host=h", "--metrics-hz=-1", NULL, "metrics-hz");
	check_refused("--host=h", "--metrics-hz=101", NULL,
		      "metrics-hz"); /* it would not be kept */
	check_refused("--host=h", "--test-clock-drift-ppm=5000", NULL, "drift");
	check_refused("--host=h", "--cert=c.pem", NULL, "both");
	check_refused("--host=h", "--listen=0.0.0.0:7410", NULL, "insecure");
}

static void test_listeners(void)
{
	struct agent_conf conf;
	struct err e;

	CHECK_OK(load(&conf, &e, "--host=h", "--listen=0.0.0.0:7410", "--insecure"), e);
	conf_release(&conf, &agent_conf_table);
	CHECK_OK(load(&conf, &e, "--host=h", "--listen=", NULL), e);
	conf_release(&conf, &agent_conf_table);
}

static void test_slurm(void)
{
	struct agent_conf conf;
	struct err e;

	setenv("SLURM_JOB_ID", "4711", 1);
	setenv("SLURM_JOB_NAME", "my-train", 1);
	setenv("SLURMD_NODENAME", "node3", 1);
	CHECK_OK(load(&conf, &e, NULL, NULL, NULL), e);
	CHECK_STR(conf.host, "node3");
	CHECK_EQ(conf.label.n, 2);
	CHECK_STR(conf.label.items[0], "slurm_job=4711");
	CHECK_STR(conf.label.items[1], "job=my-train");
	conf_release(&conf, &agent_conf_table);
	/* what was given stays, and what is no label is left out */
	setenv("SLURM_JOB_ID", "47\x1b", 1);
	CHECK_OK(load(&conf, &e, "--host=h", "--label=job=mine", "--label=jobs=x"), e);
	CHECK_STR(conf.host, "h");
	CHECK_EQ(conf.label.n, 2);
	CHECK_STR(conf.label.items[0], "job=mine");
	conf_release(&conf, &agent_conf_table);
	unsetenv("SLURM_JOB_ID");
	unsetenv("SLURM_JOB_NAME");
	unsetenv("SLURMD_NODENAME");
}

int main(void)
{
	test_defaults();
	test_slurm();
	test_rings();
	test_tracer_list();
	test_drivers_flags();
	test_refusals();
	test_listeners();
	return 0;
}
