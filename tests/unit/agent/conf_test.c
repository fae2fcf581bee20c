/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's configuration: defaults, and values that do not go together. */
#include "agent/conf.h"
#include "proto/names.h"
#include "tests/lib/check.h"

static int load(struct agent_conf *conf, struct err *e, const char *a, const char *b, const char *c)
{
	char args[3][128];
	char *argv[4] = { args[0], args[1], args[2], NULL };
	const char *given[] = { a, b, c };
	enum conf_want want;
	int argc = 0;
	int rc;

	for (int i = 0; i < 3 && given[i]; i++)
		snprintf(args[argc++], sizeof(args[0]), "%s", given[i]);
	memset(conf, 0, sizeof(*conf));
	rc = conf_load(conf, &agent_conf_table, &argc, argv, &want, e);
	return rc ? rc : agent_conf_finish(conf, e);
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
	CHECK_STR(conf.listen, "127.0.0.1:7410");
	CHECK_STR(conf.local_socket, "ipc:///run/tutti/agent.ipc");
	CHECK_EQ(conf.cpu_hz, 99);
	CHECK_EQ(conf.metrics_hz, 10);
	CHECK(conf.discover && !conf.insecure);
	CHECK(conf.spool_limit_bytes == UINT64_C(8) << 30);
	CHECK(agent_conf_has_tracer(&conf, "cpu"));
	conf_release(&conf, &agent_conf_table);
}

static void test_tracer_list(void)
{
	struct agent_conf conf;
	struct err e;

	CHECK_OK(load(&conf, &e, "--host=h", "--tracers=cpu,marks", "--discover=false"), e);
	CHECK(agent_conf_has_tracer(&conf, "cpu"));
	CHECK(agent_conf_has_tracer(&conf, "marks"));
	CHECK(!agent_conf_has_tracer(&conf, "metrics"));
	CHECK(!agent_conf_has_tracer(&conf, "cp"));
	CHECK(!agent_conf_has_tracer(&conf, ""));
	conf_release(&conf, &agent_conf_table);
}

static void test_refusals(void)
{
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

int main(void)
{
	test_defaults();
	test_tracer_list();
	test_refusals();
	test_listeners();
	return 0;
}
