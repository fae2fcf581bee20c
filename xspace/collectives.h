/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collective operations that XLA recorded: events with the stats hlo_op, hlo_module, run_id and
 * device_ordinal. All processes of a distributed program give a run the same number. So module, run,
 * operation and group of devices identify one exchange of data on all hosts. Private to xspace/.
 */
#ifndef XSPACE_COLLECTIVES_H
#define XSPACE_COLLECTIVES_H

#include "xspace/causality_impl.h"

struct collectives;

struct collectives *collectives_new(void);
void collectives_free(struct collectives *l); /* NULL is fine */

/* The callbacks of a reading. */
void collectives_begin_plane(struct collectives *l);
void collectives_add_stat_name(struct collectives *l, int64_t id, const char *name, size_t len);
void collectives_add_event_name(struct collectives *l, int64_t id, const char *name, size_t len);
bool collectives_needs_lines(const struct collectives *l); /* of the plane that is being read */
void collectives_add_event(struct collectives *l, const struct xs_event *ev, int64_t start_ns,
			   int64_t end_ns);
void collectives_end_plane(struct collectives *l);

/* Once, after the reading: adds the host's collectives to `c`. Groups are read from `in` again. */
void collectives_finish(struct collectives *l, struct xs_causality *c, uint32_t host,
			const struct xs_source *in);

#endif
