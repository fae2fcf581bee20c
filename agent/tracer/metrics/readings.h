/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers about the whole host, read from /proc. One struct proc_metrics keeps the files open and
 * remembers the counters of the tick before; every tick fills one row. One thread at a time.
 */
#ifndef AGENT_TRACER_METRICS_READINGS_H
#define AGENT_TRACER_METRICS_READINGS_H

#include <stddef.h>
#include <stdint.h>

struct proc_metrics;

/* The columns of a row: plain ASCII names, "cpu user %". Constant. */
size_t proc_metrics_count(void);
const char *proc_metrics_name(size_t column);

/* Opens what there is below `root` ("/proc"; a folder of recorded texts in tests). A file that is
 * missing makes its columns NaN, no more. */
struct proc_metrics *proc_metrics_open(const char *root);
void proc_metrics_free(struct proc_metrics *pm); /* NULL is fine */

/* How many of the files are there; 0 means that nothing can be measured. */
size_t proc_metrics_files(const struct proc_metrics *pm);

/* Reads all files now. row[0 .. count): the values; NaN for what is unknown, such as a rate that has
 * no earlier tick, or whose counter went backwards. `raw_ns` is now on CLOCK_MONOTONIC_RAW. */
void proc_metrics_read(struct proc_metrics *pm, int64_t raw_ns, double *row);

#endif
