/* SPDX-License-Identifier: Apache-2.0 */
/* The drivers of a build: their configuration, their names, and the tracers opened from them. Loop thread. */
#ifndef AGENT_TRACER_SET_H
#define AGENT_TRACER_SET_H

#include <stdbool.h>

#include "agent/tracer/tracer.h"
#include "base/conf.h"

/*
 * Returns an array with one struct conf_part per driver of `all`, in that order, for the table given to
 * conf_load(). Each driver's configuration struct is zeroed. conf_release() of that table frees what was
 * loaded, tracer_confs_free() the array and the structs.
 */
struct conf_part *tracer_confs_new(const struct tracer_ops *const *all);
void tracer_confs_free(struct conf_part *confs); /* NULL is fine */

/* `names` are separated by commas; NULL or "" = all. The text of ERR_INVALID lists all drivers. */
MUST_CHECK int tracer_names_check(const char *names, const struct tracer_ops *const *all,
				  struct err *e);
bool tracer_names_has(const char *names, const char *name);

/* Opens the drivers of `all` that `names` has; env->conf of each is its own part of `confs`. `*out` is
 * NULL-terminated; the caller closes it with tracer_set_close(). */
MUST_CHECK int tracer_set_open(struct tracer ***out, const struct tracer_ops *const *all,
			       const char *names, const struct conf_part *confs,
			       const struct tracer_env *env, struct err *e);
void tracer_set_close(struct tracer **set); /* NULL is fine */

/* A setting of a capture. */
struct tracer_setting {
	const char *key, *value; /* "cpu.max_depth", "16" */
};

/* The values for a run's `settings`: those of `given` that are this tracer's, defaults for the rest. Names
 * that the tracer does not list are ignored. The caller frees `*out`; NULL if it has no settings. */
MUST_CHECK int tracer_values(const struct tracer_ops *ops, const struct tracer_setting *given,
			     size_t n, int64_t **out, struct err *e);

/* The texts for a run's `texts`: of `given`, copied, in the order of ops->settings; NULL = it is not given. The caller
 * frees the array, and with it the texts; NULL if it has no settings. */
char **tracer_texts(const struct tracer_ops *ops, const struct tracer_setting *given, size_t n);

#endif
