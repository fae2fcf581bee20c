/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/lib/fake_profiler as a program: a framework's ProfilerService that behaves as --mode says.
 * Serves until SIGTERM; the port file appears when it listens.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/loop.h"
#include "base/mem.h"
#include "net/rpc.h"
#include "tests/lib/fake_profiler.h"

struct fake_conf {
	char *mode;
	char *address;
	char *port_file;
	char *file;
};

static const struct conf_field fields[] = {
	CONF(struct fake_conf, mode, "good",
	     "good, old, old-plugins, old-deaf, old-lost, undated, empty, busy, "
	     "broken, hangs, garbage, no-xspace, huge, other"),
	CONF(struct fake_conf, address, "127.0.0.1:0", "where to listen"),
	CONF(struct fake_conf, port_file, NULL, "file that gets the port"),
	CONF(struct fake_conf, file, NULL,
	     "modes old (a link to it) and good: the XSpace file to give"),
	{ 0 }
};

static const struct conf_table table = {
	.prog = "fake_profiler",
	.summary = "Stands in for a framework's profiler server.",
	.fields = fields,
};

static int parse_mode(const char *text, enum fake_mode *out, struct err *e)
{
	for (int i = 0; i < FAKE_MODES; i++) {
		if (!strcmp(fake_mode_names[i], text)) {
			*out = (enum fake_mode)i;
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "--mode %s: no such mode", text);
}

static int publish(const char *path, int port, struct err *e)
{
	char *part;
	FILE *f;
	int rc = 0;

	if (!path)
		return 0;
	part = xasprintf("%s.tmp", path);
	f = fopen(part, "we");
	if (f) {
		fprintf(f, "%d\n", port);
		fclose(f);
	}
	if (!f || rename(part, path))
		rc = err_errno(e, "%s", path);
	free(part);
	return rc;
}

static void on_stop(void *arg)
{
	loop_stop(arg);
}

static int serve(const struct fake_conf *conf, struct err *e)
{
	struct loop *loop = NULL;
	struct rpc *rpc = NULL;
	struct fake_profiler *fake = NULL;
	enum fake_mode mode = FAKE_GOOD;
	int port, rc;

	rc = parse_mode(conf->mode, &mode, e);
	if (!rc)
		rc = loop_new(&loop, 1, e);
	if (!rc)
		rc = loop_on_stop_signal(loop, on_stop, loop, e);
	if (!rc)
		rc = rpc_new(&rpc, loop, e);
	if (!rc)
		rc = fake_profiler_new(&fake, loop, rpc, mode, conf->address, &port, e);
	if (!rc)
		fake_profiler_give(fake, conf->file);
	if (!rc)
		rc = publish(conf->port_file, port, e);
	if (!rc) {
		printf("ready port=%d pid=%d\n", port, (int)getpid());
		fflush(stdout);
		loop_run(loop);
	}
	fake_profiler_free(fake);
	rpc_free(rpc);
	loop_free(loop);
	return rc;
}

int main(int argc, char **argv)
{
	struct fake_conf conf = { 0 };
	enum conf_action action;
	struct err e;
	int rc = conf_load(&conf, &table, &argc, argv, &action, &e);

	if (!rc && action == CONF_HELP)
		conf_help(&table, stdout);
	else if (!rc && action == CONF_PRINT)
		conf_print(&conf, &table, stdout);
	else if (!rc)
		rc = serve(&conf, &e);
	if (rc)
		fprintf(stderr, "fake_profiler: %s\n", e.msg);
	conf_release(&conf, &table);
	return rc ? 1 : 0;
}
