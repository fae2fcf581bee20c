/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/tracer_bed.h"

#include <stdlib.h>
#include <string.h>

#include "agent/tracer/set.h"
#include "base/mem.h"
#include "tests/lib/check.h"

#define MAX_FLAGS 16

void tracer_bed_init(struct tracer_bed *bed, const struct tracer_ops *ops,
		     const struct tracer_env *env, const char *flags)
{
	static const struct conf_field none[] = { { 0 } };
	char *text = xstrdup(flags ? flags : ""), *argv[MAX_FLAGS + 1], *at = text;
	enum conf_action action;
	struct err e;
	int argc = 0;

	*bed = (struct tracer_bed){ .drivers = { ops, NULL }, .env = *env };
	bed->confs = tracer_confs_new(bed->drivers);
	bed->table = (struct conf_table){ .prog = "test", .fields = none, .more = bed->confs };
	while (argc < MAX_FLAGS && (argv[argc] = strsep(&at, " ")) && *argv[argc])
		argc++;
	CHECK_OK(conf_load(NULL, &bed->table, &argc, argv, &action, &e), e);
	bed->env.conf = bed->confs[0].conf;
	free(text);
}

struct tracer *tracer_bed_open(struct tracer_bed *bed)
{
	struct tracer *t;
	struct err e;

	CHECK_OK(bed->drivers[0]->open(&t, &bed->env, &e), e);
	return t;
}

void tracer_bed_release(struct tracer_bed *bed)
{
	conf_release(NULL, &bed->table);
	tracer_confs_free(bed->confs);
}
