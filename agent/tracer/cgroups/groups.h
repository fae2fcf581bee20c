/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers about the cgroups of a host. A struct cgroups has the list of cgroups and, for each one, the counters of its
 * previous reading. Blocks; one thread at a time.
 */
#ifndef AGENT_TRACER_CGROUPS_GROUPS_H
#define AGENT_TRACER_CGROUPS_GROUPS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/now.h"

/* Containers and pods are read at each reading, the others every 5 s; new cgroups are looked for as often. */
#define CGROUPS_SLOW_NS (5 * NS_PER_S)

struct cgroups;

/* `root` is a folder of cgroup v2; "" or NULL = where it is mounted. The caller frees it with cgroups_free().
 * ERR_UNSUPPORTED: there is none, and why. ERR_DENIED names the missing permission. */
MUST_CHECK int cgroups_open(struct cgroups **out, const char *root, struct err *e);
void cgroups_free(struct cgroups *gs); /* NULL is fine */

/* What cannot be seen here, with the fix; "" if all can. */
const char *cgroups_limits(const struct cgroups *gs);

/* The columns of a row: plain ASCII names, "cpu %". */
size_t cgroups_columns(void);
const char *cgroups_column(size_t column);

/*
 * Reads what is due at `raw_ns`, now on CLOCK_MONOTONIC_RAW, and adds a row for each cgroup: row() returns the new
 * row's columns, set to NaN, and cgroups_read() fills them in. NaN stays where the host has no such number, or a rate
 * has no earlier reading. If there are too many cgroups, a row with the label "" has in its last column how many are
 * left out.
 */
typedef double *(*cgroups_row_fn)(void *arg, const char *label);
void cgroups_read(struct cgroups *gs, int64_t raw_ns, cgroups_row_fn row, void *arg);

/* What a file of a cgroup says, for tests and the fuzz target: adds to v[cgroups_quantities()]; `text` is changed. */
size_t cgroups_quantities(void);
void cgroups_parse(size_t file, char *text, double *v);
size_t cgroups_files(void);

#endif
