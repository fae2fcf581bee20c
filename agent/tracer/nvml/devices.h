/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers about the NVIDIA devices of this host, from NVML (libnvidia-ml), which comes with the driver and is
 * loaded at run time: neither its header nor the library is needed to build. If this version of the library
 * lacks a function, or a device does not support it, its number is missing. Calls may block as long as the
 * driver does: for a worker, one at a time.
 */
#ifndef AGENT_TRACER_NVML_DEVICES_H
#define AGENT_TRACER_NVML_DEVICES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define DEVICES_MAX 64

struct devices;

/* Loads `library`, a soname or a path. ERR_NOT_FOUND if it cannot be loaded; ERR_UNSUPPORTED if it is no
 * NVML; ERR_IO, with NVML's own text, if it finds no driver. */
MUST_CHECK int devices_open(struct devices **out, const char *library, struct err *e);
void devices_free(struct devices *d); /* NULL is fine */

/* How many devices there are, and how many counters each has. */
size_t devices_count(const struct devices *d);
size_t devices_counters(void);

/* "gpu 0 power W": plain ASCII. */
void devices_name(size_t device, size_t counter, char *out, size_t size);

/* Reads devices_count() * devices_counters() numbers, device by device; an unknown one is NaN. Some functions take milliseconds
 * of CPU in some drivers. A counter that took time is read again after DEVICES_REST times that, and is NaN before, so that it
 * takes no more of a CPU. `mono_ns`: now. */
#define DEVICES_REST 2000
void devices_read(struct devices *d, int64_t mono_ns, double *row);

#endif
