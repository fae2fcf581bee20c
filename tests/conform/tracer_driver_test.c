/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The suite over a driver of the build: tracer_driver_test NAME [FLAGS] [--unprivileged]. FLAGS are the
 * agent's, separated by blanks; FAKE in them is the address of a framework's server of the test's own.
 */
#include "include/tutti/tutti.h" /* whole, before the agent takes the format alone */

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/budget/budget.h"
#include "agent/marks/marks.h"
#include "agent/python/python.h"
#include "agent/tracers.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "tests/conform/tracer_conform.h"
#include "tests/lib/check.h"
#include "tests/lib/fake_profiler.h"
#include "tests/lib/temp_dir.h"

#define UNPRIVILEGED 65534

static void add_marks(void *arg, int64_t raw_ns)
{
	for (int i = 0; i < 20; i++)
		marks_add(arg, &(struct mark){
				       .raw_ns = raw_ns,
				       .pid = getpid(),
				       .tid = getpid(),
				       .text = "a mark of some length, so that the ring fills" });
}

static void annotate(void *arg, int64_t raw_ns)
{
	(void)arg;
	(void)raw_ns;
	for (int i = 0; i < 20; i++) {
		TUTTI_SCOPE("an annotation of some length, so that the ring fills");
		tutti_counter("i", i);
	}
}

static void log_lines(void *arg, int64_t raw_ns)
{
	FILE *f = fopen(arg, "a");

	(void)raw_ns;
	CHECK(f);
	for (int i = 0; i < 20; i++)
		fprintf(f, "INFO: a log line of some length, so that the ring fills\n");
	CHECK(!fclose(f));
}

static const struct tracer_ops *find_driver(const char *name)
{
	for (size_t i = 0; tracers[i]; i++) {
		if (!strcmp(tracers[i]->name, name))
			return tracers[i];
	}
	return NULL;
}

/* The flags with the fake server's address; the caller frees it. */
static char *make_flags(const char *flags, struct fake_profiler **fake, struct loop *l,
			struct rpc *rpc)
{
	const char *at = strstr(flags, "FAKE");
	struct err e;
	int port;

	if (!at)
		return xstrdup(flags);
	CHECK_OK(fake_profiler_new(fake, l, rpc, FAKE_GOOD, "127.0.0.1:0", &port, &e), e);
	return xasprintf("%.*s127.0.0.1:%d%s", (int)(at - flags), flags, port, at + 4);
}

/* LeakSanitizer reads the process from a thread of its own: it must stay dumpable. */
static void drop_rights(void)
{
	CHECK(!setgid(UNPRIVILEGED) && !setuid(UNPRIVILEGED));
	CHECK(!prctl(PR_SET_DUMPABLE, 1));
}

int main(int argc, char **argv)
{
	struct tracer_subject s = { .env = { .host = "host-a" } };
	struct fake_profiler *fake = NULL;
	struct ring_limits small = { .bytes = RING_BYTES_MIN };
	struct budget *budget;
	struct err e;
	char *flags, *log = NULL;

	CHECK(argc > 1);
	if (argc > 3 && !strcmp(argv[3], "--unprivileged") && !getuid())
		drop_rights();
	s.ops = find_driver(argv[1]);
	CHECK(s.ops);
	CHECK_OK(loop_new(&s.env.loop, 2, &e), e);
	CHECK_OK(rpc_new(&s.env.rpc, s.env.loop, &e), e);
	/* The rings of marks, samples and budget are the agent's, not the tracer's: small from the start. */
	s.env.marks = marks_new(&small, now_raw_ns());
	s.env.python = python_new(s.env.loop, &small, NULL, NULL);
	s.env.budget = budget = budget_new(
		&(struct budget_conf){ .loop = s.env.loop, .ring = small });
	if (!strcmp(argv[1], "marks")) {
		s.feed = add_marks;
		s.arg = s.env.marks;
	}
	if (!strcmp(argv[1], "annotations"))
		s.feed = annotate;
	if (!strcmp(argv[1], "logs")) {
		s.feed = log_lines;
		s.arg = log = xasprintf("%s/a.log", temp_dir());
		log_lines(log, 0);
	}
	flags = log ? xasprintf("--logs=%s --logs-rate=100000", log)
		    : make_flags(argc > 2 ? argv[2] : "", &fake, s.env.loop, s.env.rpc);
	s.flags = flags;
	tracer_conform(&s);
	fake_profiler_free(fake);
	budget_free(budget);
	python_free(s.env.python);
	marks_free(s.env.marks);
	rpc_free(s.env.rpc);
	loop_free(s.env.loop);
	free(flags);
	free(log);
	return 0;
}
