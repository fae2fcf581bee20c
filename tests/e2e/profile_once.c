/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the profiler tracer alone, for one window, and prints what it gave as one JSON document:
 *
 *   profile_once DIR MILLISECONDS OPTIONS_HEX [HOST:PORT ...]
 *
 * Without an address it takes what it discovers. OPTIONS_HEX is a serialized tensorflow.ProfileOptions,
 * "-" for none. The parts stay in DIR.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/tracer/profiler/tracer_profiler.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"

#define LEAD_NS	    (2 * NS_PER_S) /* also a busy machine has the frameworks recording by then */
#define PATIENCE_NS (10 * NS_PER_S)

struct once {
	struct loop *loop;
	struct rpc *rpc;
	struct profiler_conf conf;
	struct tracer *tracer;
	struct tracer_run run;
	struct loop_timer timer;
};

static void on_done(struct tracer_run *run)
{
	loop_stop(((struct once *)run->done_arg)->loop);
}

static void on_window_over(void *arg)
{
	struct once *o = arg;

	o->tracer->ops->gather(o->tracer, &o->run);
}

static uint8_t *parse_hex(const char *hex, size_t *len)
{
	uint8_t *out = xmalloc(strlen(hex) / 2 + 1);

	*len = 0;
	for (; hex[0] && hex[1]; hex += 2) {
		char one[3] = { hex[0], hex[1], '\0' };

		out[(*len)++] = (uint8_t)strtoul(one, NULL, 16);
	}
	return out;
}

static void prepare(struct once *o, int64_t window_ns)
{
	struct tracer_run *run = &o->run;
	int64_t raw, real;

	now_pair_ns(&raw, &real, NULL);
	run->session = "once";
	run->t0_raw_ns = raw + LEAD_NS;
	run->t1_raw_ns = run->t0_raw_ns + window_ns;
	run->t0_real_ns = real + LEAD_NS;
	run->give_up_mono_ns = now_mono_ns() + LEAD_NS + window_ns + PATIENCE_NS;
	run->done = on_done;
	run->done_arg = o;
}

static void print_text(const char *key, const char *text)
{
	printf("\"%s\": \"", key);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar((unsigned char)*text < ' ' ? ' ' : *text);
	}
	printf("\", ");
}

static void print_result(const struct tracer_run *run)
{
	static const char *const words[] = { "ok", "degraded", "failed", "off" };

	printf("{");
	print_text("result", words[run->result]);
	print_text("reason", run->reason);
	print_text("detail", run->detail);
	printf("\"t0_real_ns\": %" PRId64 ", \"parts\": [", run->t0_real_ns);
	for (size_t i = 0; i < run->n_parts; i++) {
		const struct tracer_part *p = &run->parts[i];

		printf("%s{", i ? ", " : "");
		print_text("path", p->path);
		print_text("label", p->label);
		printf("\"pid\": %" PRId64 ", \"start_real_ns\": %" PRId64 "}", p->pid,
		       p->start_real_ns);
	}
	printf("]}\n");
}

static int once_run(struct once *o, int64_t window_ns, struct err *e)
{
	struct tracer_env env = { .conf = &o->conf, .host = "host-a" };
	int rc;

	rc = loop_new(&o->loop, 2, e);
	if (!rc)
		rc = rpc_new(&o->rpc, o->loop, e);
	env.loop = o->loop;
	env.rpc = o->rpc;
	if (!rc)
		rc = tracer_profiler_open(&o->tracer, &env, "/proc", e);
	if (rc)
		goto out;
	prepare(o, window_ns);
	rc = o->tracer->ops->arm(o->tracer, &o->run, e);
	if (rc)
		goto out;
	loop_timer_in(o->loop, &o->timer, LEAD_NS + window_ns, on_window_over, o);
	loop_run(o->loop);
	print_result(&o->run);
out:
	if (o->tracer)
		o->tracer->ops->free(o->tracer);
	rpc_free(o->rpc);
	loop_free(o->loop);
	return rc;
}

static bool reserve_bytes(struct tracer_run *run, uint64_t bytes)
{
	(void)run;
	(void)bytes;
	return true;
}

int main(int argc, char **argv)
{
	struct once o = { 0 };
	uint8_t *options = NULL;
	struct err e;
	int rc;

	if (argc < 4) {
		fprintf(stderr,
			"usage: profile_once DIR MILLISECONDS OPTIONS_HEX [HOST:PORT ...]\n");
		return 2;
	}
	o.run.dir = argv[1];
	o.run.reserve_bytes = reserve_bytes;
	if (strcmp(argv[3], "-"))
		options = parse_hex(argv[3], &o.run.profile_options_len);
	o.run.profile_options = options;
	o.conf.profiler = (struct conf_list){ argv + 4, (size_t)argc - 4 };
	o.conf.discover = argc == 4;
	rc = once_run(&o, strtoll(argv[2], NULL, 10) * NS_PER_MS, &e);
	if (rc)
		fprintf(stderr, "profile_once: %s\n", e.msg);
	for (size_t i = 0; i < o.run.n_parts; i++)
		free(o.run.parts[i].path);
	free(o.run.parts);
	free(options);
	return rc ? 1 : 0;
}
