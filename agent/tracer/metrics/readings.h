/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers about the whole host, from /proc. A struct readings keeps the files open and has the
 * counters of the reading before; each reading fills one row. One thread at a time.
 */
#ifndef AGENT_TRACER_METRICS_READINGS_H
#define AGENT_TRACER_METRICS_READINGS_H

#include <stddef.h>
#include <stdint.h>

struct readings;

/* Opens the files below `root` ("/proc"; in tests a folder of recorded texts). The columns of a missing
 * file are NaN. */
struct readings *readings_open(const char *root);
void readings_free(struct readings *pm); /* NULL is fine */

/* The columns of a row: first those of the host ("cpu user %"), then one per CPU ("cpu 17 busy %"). Names are
 * plain ASCII. */
size_t readings_count(const struct readings *pm);
#define READINGS_NAME_BYTES 40
const char *readings_name(size_t column,
			  char text[READINGS_NAME_BYTES]); /* may be written to `text` */

/* How many of the files could be opened; 0 = nothing can be measured. */
size_t readings_files(const struct readings *pm);

/* Reads the files into row[0 .. count): CPUs and network each time, the others at most twice a second. A
 * value is NaN if its file is missing or was not read, if a rate has no earlier reading, or if its counter
 * went back. `raw_ns` is now on CLOCK_MONOTONIC_RAW. */
void readings_read(struct readings *pm, int64_t raw_ns, double *row);

#endif
